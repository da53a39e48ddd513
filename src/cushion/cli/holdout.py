"""cushion holdout open | status | close; cushion certify --kind holdout"""

from __future__ import annotations

import argparse
from decimal import Decimal
from typing import Any

from cushion.certificates.features import BackboneOptions
from cushion.certificates.holdout.options import HoldoutOptions
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.search.options import SearchOptions
from cushion.cli import options
from cushion.cli.flags import from_flags, given
from cushion.cli.ledger import claim_json
from cushion.cli.output import answer
from cushion.cli.render import table
from cushion.data.files import check_writable
from cushion.errors import BadInput
from cushion.numerics import counted, decimal_up, float_up

_USUAL_RATE = Decimal("0.05")  # at which a price is said where nothing was counted yet


def add_parser(verbs: Any) -> None:
    summary = "keep a ledger of looks at held-out rows, so that they can be used more than once"
    example = "example: cushion holdout open digits -o digits.looks"
    parser: argparse.ArgumentParser = verbs.add_parser(
        "holdout", help=summary, description=summary, epilog=example, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", metavar="open|status|close", required=True)
    summary = "start a ledger; from now on these rows are read only through it"
    example = "cushion holdout open digits -o digits.looks"
    opening = options.add_verb(actions, "open", run_open, summary=summary, example=example)
    rows = "a set with a held-out part, or the held-out rows themselves (folder, .npz)"
    opening.add_argument("data", metavar="DATA", type=options.filled, help=rows)
    options.add_out(opening, "H.looks", "where to write the ledger")
    delta = "probability that any statement of any look fails (default 0.05)"
    options.add_word(opening, "--delta", "P", delta, default="0.05")
    for name, run, summary in (
        ("status", run_status, "what was told so far, and what the next look costs"),
        ("close", run_close, "end the ledger; its rows can be read by everything again"),
    ):
        example = f"cushion holdout {name} digits.looks"
        one = options.add_verb(actions, name, run, summary=summary, example=example)
        one.add_argument("file", metavar="H.looks", type=options.filled)


def run_open(args: argparse.Namespace) -> None:
    from cushion.certificates.holdout.looks import check_unopened, open_ledger
    from cushion.data.inputs import check_holdout
    from cushion.data.registered import check_free
    from cushion.data.sources import load_pair  # a held-out part under a ledger is not left out
    from cushion.theorems.occam import parse_delta

    delta = parse_delta(args.delta)
    check_writable(args.out)
    sample, held_out = load_pair(args.data)
    rows, beside = (sample, None) if held_out is None else (held_out, sample)
    check_unopened(rows)
    if beside is not None:
        check_free(beside.x, beside.name)
        check_holdout(rows, beside)
    ledger = open_ledger(args.out, rows, delta, beside)
    shown = f"{_spaced(ledger.m)} held-out examples of {ledger.data}"
    flag = "--data" if beside is not None else "--holdout"
    answer(
        args,
        {"file": args.out, "data": ledger.data, "m": ledger.m, "delta": float_up(str(delta))},
        f"{args.out} is the ledger of {shown}, δ = {delta}; other verbs do not read them any more.",
        "Assumed: nobody has looked at them yet, and nobody does so elsewhere.",
        f"Make a look with: cushion certify --kind holdout --net NET {flag} {args.data} "
        f"--looks {args.out} -o f.cushion",
    )


def run_status(args: argparse.Namespace) -> None:
    from cushion.certificates.holdout.ledger import Ledger, read_ledger

    ledger: Ledger = read_ledger(args.file)
    best = ledger.best
    errors = best if best is not None else int(_USUAL_RATE * ledger.m)
    price = ledger.price(errors)
    rate = f"{100 * errors / ledger.m:.3g} %"
    lines = [
        f"{args.file}: {_spaced(ledger.m)} held-out examples of {ledger.data}, δ = {_delta(ledger)}"
    ]
    looks = counted(ledger.next_number - 1, "look")
    if ledger.closed:
        lines.append(f"{looks}; it is closed.")
    else:
        points = decimal_up(100 * price, 1)
        bits = counted(_spaced(ledger.bits), "bit")
        lines.append(f"{looks}; the next one costs {points} points at {rate} error ({bits} told).")
    rows = [
        [one.look.number, one.said, "" if one.told is None else one.told.errors, one.bits]
        for one in ledger.past
    ]
    if ledger.waiting is not None:
        rows.append([ledger.waiting[0].number, "no answer: under way, or failed", "", ""])
    if rows:
        lines += ["", table(["look", "answer", "errors at most", "bits"], rows)]
    obj = {
        **{"file": args.file, "data": ledger.data, "m": ledger.m, "looks": ledger.next_number - 1},
        **{"bits": ledger.bits, "best": best, "closed": ledger.closed},
        **{"price": float_up(str(price)), "price_at": errors / ledger.m},
    }
    answer(args, obj, *lines)


def run_close(args: argparse.Namespace) -> None:
    from cushion.certificates.holdout.looks import holding

    with holding(args.file) as held:
        held.close()
        ledger = held.ledger
    said = f"{args.file} is closed after {counted(ledger.next_number - 1, 'look')}"
    rest = "its rows can be read again, but never again for a first use"
    answer(args, {"file": args.file, "closed": True}, f"{said}; {rest}.")


# ---- certify --kind holdout


def check_flags(args: argparse.Namespace, *, climbs: bool) -> None:
    """BadInput for flags of this kind with another, and of others with this one; climbs: no kind
    was asked for, and this one is among those made.
    """
    named = args.holdout and not (climbs and args.net)
    own = [*given(HoldoutOptions, args), *(["holdout"] if named else ())]
    if args.kind is None and args.net is None and args.holdout:
        raise BadInput("--holdout counts the errors of a net of yours; give --net, or leave it out")
    if args.kind != "holdout":
        for name in own:
            raise BadInput(f"`{name}` belongs to --kind holdout; give that too, or leave it out")
        if args.data is None:
            raise BadInput("--data is missing; give the sample that is certified on")
        return
    others = {
        *given(SearchOptions, args),
        *given(PicksOptions, args),
        *given(BackboneOptions, args),
        *(name for name in ("unlabelled", "fit") if getattr(args, name)),
    }
    if "looks" in given(PicksOptions, args):
        raise BadInput(
            "--looked belongs to --kind picks; for N nets that were all fixed before any of them "
            "was looked at give each the Nth part of δ (--delta), else keep a ledger (--looks)"
        )
    for name in sorted(others - {"delta"}):
        raise BadInput(f"`{name}` does not belong to --kind holdout; leave it out")
    if args.net is None:
        raise BadInput("--kind holdout is about a net of yours; give --net")
    if args.data is None and args.holdout is None:
        raise BadInput(
            "--kind holdout needs held-out rows; give --data with such a part, or --holdout"
        )


def certify(args: argparse.Namespace) -> int:
    """The certificate of NET itself; 1 where a look finds it no better than the best so far."""
    from cushion.certificates.certify import certify as certify_own
    from cushion.certificates.holdout.certificate import NoBetter, read_rows
    from cushion.certificates.holdout.words import count_sentence, other_sentences, statement

    chosen = from_flags(HoldoutOptions, args)
    check_writable(args.out)
    options.check_net_flags(args)
    sample, rows = read_rows(args.data, args.holdout, chosen.looks)
    loaded = options.load_named_net(args, sample)
    how = {**vars(chosen), "batch": args.batch, "delta": args.delta or SearchOptions().delta}
    try:
        certificate = certify_own(loaded.module, sample, holdout=rows, kind="holdout", **how)
    except NoBetter as told:
        answer(args, {"ok": False, "file": None, "reason": str(told)}, _sentence(str(told)))
        return 1
    certificate.save(args.out)
    options.say_if_untrained(args)
    claim: Any = certificate.claim
    labels = None if sample is None else sample.labels
    assumed = "; ".join(claim.assumptions)
    answer(
        args,
        {"ok": True, "file": args.out, **claim_json(claim)},
        statement(claim),
        count_sentence(claim),
        *other_sentences(claim, labels),
        f"Assumed, as nobody can check it: {assumed}.",
        f"Check it with: cushion verify {args.out}{again(args)}",
    )
    return 0


def again(args: argparse.Namespace) -> str:
    """The flags with which verify counts again."""
    words = ("net", "weights", "normalise", "data", "holdout", "looks")
    flags = [f" --{name} {getattr(args, name)}" for name in words if getattr(args, name)]
    return "".join(flags) + (" --trust" if args.trust else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _delta(ledger: Any) -> str:
    return format(ledger.delta, "f")


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")
