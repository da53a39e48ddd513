"""cushion certify --data D [--net NET [--unlabelled U]] -o FILE.cushion"""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.certificates.certificate import holdout_sentence, sentence, spaced, total_delta
from cushion.certificates.features import BackboneOptions
from cushion.certificates.format.claims import Claim, OccamClaim, PicksClaim
from cushion.certificates.holdout.options import HoldoutOptions
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.run import check_beside, weights_beside
from cushion.certificates.search.options import SearchOptions
from cushion.cli import holdout as own_rows
from cushion.cli import options
from cushion.cli.flags import add_options, from_flags, translate
from cushion.cli.flags import given as flags_given
from cushion.cli.ledger import claim_json, show_assumptions, show_ledger, show_numbers
from cushion.cli.output import answer
from cushion.cli.verify import UNLABELLED_HELP, errors_sentence
from cushion.data.doubts import doubts_about_holdout
from cushion.data.files import check_writable
from cushion.errors import BadInput
from cushion.numerics import counted, float_up, percent_up

if TYPE_CHECKING:
    from torch import nn

    from cushion.data import Dataset
    from cushion.data.inputs import Inputs


def add_parser(verbs: Any) -> None:
    summary = "certify a bound on an error: the strongest kind that the inputs allow, or --kind"
    example = "cushion certify --data digits --net RUN -o f.cushion"
    parser = options.add_verb(verbs, "certify", run, summary=summary, example=example)
    options.add_data(parser, required=False)
    options.add_net(parser, "--net")
    options.add_batch(parser)
    options.add_stated_error(parser)
    bound = f"bound the error of NET itself, with {UNLABELLED_HELP}"
    options.add_word(parser, "--unlabelled", "U", bound)
    options.add_out(parser, "FILE.cushion", "where to write the certificate")
    kinds = (
        "holdout: NET itself, by labels that it has never seen; picks: a learner, paid by the rows "
        "that it needs; occam: one integer net, paid by its bits; pac-bayes: as --method pac-bayes "
        "(default: the strongest that the inputs allow; --method, and --minutes without "
        "--unlabelled, mean occam; with --unlabelled --minutes adds occam to picks)"
    )
    parser.add_argument("--kind", choices=("holdout", "picks", "occam", "pac-bayes"), help=kinds)
    add_options(parser, SearchOptions)
    fit = "with --kind picks: your own training, fit(x, y, seed) -> nn.Module; FILE.py runs"
    options.add_word(parser, "--fit", "FILE.py:fit", fit)
    add_options(parser, PicksOptions)
    add_options(parser, BackboneOptions)
    held = "with --net: the held-out rows, as in --data (default: D's held-out part)"
    options.add_word(parser, "--holdout", "H", held)
    add_options(parser, HoldoutOptions)


def run(args: argparse.Namespace) -> int | None:
    from cushion.certificates.certify import certify
    from cushion.data import load_pair
    from cushion.data.inputs import as_inputs
    from cushion.data.registered import unless_looked_at
    from cushion.nets.batch_size import batches
    from cushion.theorems.occam import parse_delta

    climbs = _climbs(args)
    if args.data is None and args.net is not None and args.holdout and args.kind is None:
        how = "--kind holdout, which counts the errors of your net on --holdout and needs none"
        raise BadInput(f"--data is missing; give the sample that is certified on, or {how}")
    own_rows.check_flags(args, climbs=climbs)
    if args.kind == "holdout":
        return own_rows.certify(args)
    if climbs:
        from cushion.cli.ladder import run as climb

        _backbone(args)
        climb(args)
        return None
    chosen = _options(args)
    parse_delta(chosen.delta)
    check_writable(args.out)
    options.check_net_flags(args)
    data, holdout = load_pair(args.data)
    holdout = unless_looked_at(holdout)
    loaded = None if args.net is None else options.load_named_net(args, data)
    model = None if loaded is None else loaded.module
    inputs = None if args.unlabelled is None else as_inputs(args.unlabelled)
    best = None if args.kind == "picks" else best_beside(args.out)  # picks searches for nothing
    given: dict[str, Any] = {"unlabelled": inputs, "holdout": holdout, **vars(chosen)}
    given["batch"] = args.batch
    given["stated_error"] = None if loaded is None else options.stated_error(loaded, data, args)
    given |= {"keep": best, "tell": lambda said: options.note(translate(said, args.flags))}
    given |= _picks(args) | _backbone(args)
    with options.searching("searching") as report:
        certificate = certify(model, data, report=report, **given)
    certificate.save(args.out)
    if best is not None:
        best.unlink(missing_ok=True)
    options.say_if_untrained(args)
    claim = certificate.claim
    obj = {"ok": True, "file": args.out, **claim_json(claim)}
    if isinstance(claim, OccamClaim):
        with batches(args.batch):
            own = None if model is None else _own_net(model, data, holdout, claim)
        lines = [*_words(claim, own, inputs, holdout, data.classes), "", *show_ledger(claim)]
        if own is not None and (line := own["holdout"]) is not None:
            line |= {name: float_up(line[name]) for name in ("delta", "bound")}
        obj["net"] = own
    else:
        lines = show_numbers(claim)
    if isinstance(claim, PicksClaim) and claim.fit is not None:
        obj["net"] = str(weights_beside(args.out))
        lines += ["", f"The net itself is in {obj['net']} (its state dict)."]
    check = (
        f"Check it with: cushion verify {args.out} --data {args.data}{verify_flags(args, claim)}"
    )
    answer(args, obj, *lines, "", *show_assumptions(claim), check)
    return None


def _climbs(args: argparse.Namespace) -> bool:
    """Whether no kind was asked for, nor anything that belongs to one."""
    free = {"delta", "seed"} | ({"minutes"} if args.unlabelled else set())
    searched = set(flags_given(SearchOptions, args)) - free
    return args.kind is None and not (searched or flags_given(PicksOptions, args) or args.fit)


def best_beside(out: str) -> Path | None:
    """Where the best so far is kept: beside the certificate, if that is a file."""
    target = Path(out)
    return None if target.exists() and not target.is_file() else Path(f"{target}.best")


def _options(args: argparse.Namespace) -> SearchOptions:
    """--kind pac-bayes is --method pac-bayes; --kind occam is any of the others."""
    if args.kind in (None, "picks"):
        return from_flags(SearchOptions, args)
    method = args.method or {"occam": "integer"}.get(args.kind, args.kind)
    if (args.kind == "pac-bayes") != (method == "pac-bayes"):
        raise BadInput(f"--method {method} is not of --kind {args.kind}; give one of them")
    return from_flags(SearchOptions, args, method=method)


def _picks(args: argparse.Namespace) -> dict[str, Any]:
    """What was said about picking rows; it belongs to --kind picks."""
    said = flags_given(PicksOptions, args)
    if args.kind != "picks":
        for name in (*said, *(["fit"] if args.fit else ())):
            raise BadInput(f"`{name}` belongs to --kind picks; give that too, or leave it out")
        return {}
    if args.fit is None:
        for name in (name for name in ("groups", "tolerance") if name in said):
            raise BadInput(f"`{name}` is about your own training; give `fit` as well")
        if "tried" in said and args.backbone is None:
            raise BadInput("`tried` is about your own training or a backbone; give one as well")
    else:
        check_beside(args.out)
    return {"kind": "picks", "fit": args.fit, "picks": PicksOptions(**said)}


def _backbone(args: argparse.Namespace) -> dict[str, Any]:
    said = from_flags(BackboneOptions, args)
    if said.backbone is None and flags_given(BackboneOptions, args):
        raise BadInput("how features are read says nothing without a net; give `backbone` as well")
    return {} if said.backbone is None else {"backbone": said, "kind": args.kind}


def _own_net(
    model: nn.Module, data: Dataset, holdout: Dataset | None, claim: Claim
) -> dict[str, Any]:
    """f's errors on the sample (no bound: it was trained on them), and its line at the total δ."""
    from cushion.certificates.answers import answer as answers_on
    from cushion.data.registered import remember_use
    from cushion.theorems.bounds import identity
    from cushion.theorems.occam import holdout_bound

    def errors(part: Dataset) -> int:
        found = answers_on(model, part.x, classes=data.classes, labels=data.labels)
        return int((found.outside(Decimal(0)) != part.y).sum())

    line = None
    if holdout is not None:
        delta = total_delta(claim)
        missed = errors(holdout)
        bound = holdout_bound(missed, len(holdout), Decimal(delta))
        line = {"errors": missed, "m": len(holdout), "delta": delta, "bound": bound}
        remember_use(holdout, identity(model))  # g, which was counted on them too, has its remark
    return {"errors": errors(data), "m": len(data), "holdout": line}


def _words(
    claim: OccamClaim,
    own: dict[str, Any] | None,
    inputs: Inputs | None,
    holdout: Dataset | None,
    classes: int,
) -> list[str]:
    lines = [sentence(claim)]
    if own is not None and claim.transfer is None:
        lines.append(
            "This is about g, the integer net in the file, which imitates your net f; not about f. "
            "Fresh inputs without labels (--unlabelled) would bound f too."
        )
    g, whose = ("It", "its") if own is None else ("g", "g's")
    lines.append(errors_sentence(claim, g))
    if own is not None:
        lines.append(f"f errs on {spaced(own['errors'])} of them.")
        if step := claim.made_with.get("normalise"):
            lines.append(f"f reads {step}, as --normalise says.")
    if claim.made_with["interrupted"]:
        lines.append("The search was interrupted; this is the best net until then.")
    if not claim.made_with["trained"]:
        lines.append(options.CONSTANT)
    if not claim.made_with["trained"] or Decimal(claim.bound) >= 1:
        lines.append(_helps(claim, classes))
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, whose))
    if own is not None and (line := own["holdout"]) is not None:
        errors = counted(spaced(line["errors"]), "error")
        bound = f"{percent_up(line['bound'])} (δ = {total_delta(claim)})"
        lines.append(f"The same for f: {errors} on them bound f's error by {bound}.")
        if (change := claim.transfer) is not None:
            doubts = doubts_about_holdout(line["errors"], line["m"], change.bound_f, "f's")
            lines += [f"Warning: {doubt}." for doubt in doubts]
    if inputs is not None and holdout is not None:
        from cushion.data.inputs import count_shared

        if shared := count_shared(inputs.x, holdout.x):
            lines.append(
                f"Note: {spaced(shared)} of the {spaced(len(inputs))} unlabelled inputs are "
                "held-out examples, so the hold-out lines and the bound on f share inputs; each "
                "holds by itself."
            )
    return lines


def _helps(claim: OccamClaim, classes: int) -> str:
    """What would help where nothing, or next to nothing, is proved."""
    return (
        f"These are {claim.m / classes:.3g} examples a class. More of them would help, fewer "
        "classes, or features of a net that was trained on other data instead of the inputs."
    )


def verify_flags(args: argparse.Namespace, claim: Claim) -> str:
    """The flags with which verify replays a bound on f, or the features of a backbone."""
    if args.fit is not None:
        return f" --fit {args.fit}"
    if args.backbone is not None:
        weights = f" --backbone-weights {args.backbone_weights}" if args.backbone_weights else ""
        return f" --backbone {args.backbone}{weights}"
    if getattr(claim, "transfer", None) is None:
        return ""
    weights = f" --weights {args.weights}" if args.weights else ""
    trust = " --trust" if args.trust else ""
    constants = f" --normalise {args.normalise}" if args.normalise else ""
    return f" --net {args.net}{weights}{trust}{constants} --unlabelled {args.unlabelled}"
