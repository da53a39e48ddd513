"""cushion certify --data D [--net NET] without a kind: the ladder first, and the best as a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.certificates.certificate import sentence, spaced
from cushion.certificates.features import BackboneOptions
from cushion.certificates.search.options import SearchOptions
from cushion.cli import holdout as own_rows
from cushion.cli import options
from cushion.cli.certify import best_beside, verify_flags
from cushion.cli.flags import from_flags, translate
from cushion.cli.ledger import claim_json, show_assumptions, show_numbers
from cushion.cli.output import answer
from cushion.cli.render import table
from cushion.data.files import check_writable
from cushion.numerics import float_up, percent_up

if TYPE_CHECKING:
    from cushion.certificates.certificate import Certificate
    from cushion.certificates.ladder import Rung

_NAMES = {"holdout": "hold-out", "transfer": "transfer", "picks": "picks", "occam": "Occam"}
_SUBJECT = {"f": "your net f", "g": "the classifier g"}
_NOT_ABOUT_F = (
    "This is about g, not about your net f: held-out labels (--holdout) would bound f by hold-out, "
    "fresh inputs without labels (--unlabelled) by transfer."
)


def run(args: argparse.Namespace) -> None:
    """Make what the inputs allow; the best is written to -o, the others beside it."""
    from cushion.certificates.certify import certify
    from cushion.certificates.ladder import best, climb, is_withheld
    from cushion.data import load_pair
    from cushion.data.inputs import as_inputs
    from cushion.theorems.occam import parse_delta

    chosen, backbone = from_flags(SearchOptions, args), from_flags(BackboneOptions, args)
    parse_delta(chosen.delta)
    check_writable(args.out)
    options.check_net_flags(args)
    data, held = load_pair(args.data)
    held = args.holdout or held
    withheld = held is None and is_withheld(args.data)
    others = ["picks" if args.unlabelled is None else "transfer"] * (held is not None)
    for kind in (*others, *(["occam"] if chosen.minutes is not None else ())):
        if args.net is not None:
            check_writable(beside(args.out, kind))
    loaded = None if args.net is None else options.load_named_net(args, data)
    inputs = None if args.unlabelled is None else as_inputs(args.unlabelled)
    kept = best_beside(args.out)
    given: dict[str, Any] = {"unlabelled": inputs, "delta": chosen.delta, "batch": args.batch}
    given["backbone"] = None if backbone.backbone is None else backbone
    given["stated_error"] = None if loaded is None else options.stated_error(loaded, data, args)
    own: dict[str, Any] = {"seed": chosen.seed, "keep": kept}
    own |= {} if chosen.minutes is None else {"minutes": chosen.minutes}
    own["tell"] = lambda said: options.note(translate(said, args.flags))
    with options.searching("certifying") as report:
        own["report"] = report
        model = None if loaded is None else loaded.module
        rungs = climb(certify, model, data, held, searching=own, withheld=withheld, **given)
    chosen_rung = best(rungs)
    files = _write(rungs, chosen_rung, args.out)
    if kept is not None and "occam" in files:  # else nothing of this run is there
        kept.unlink(missing_ok=True)
    options.say_if_untrained(args)
    assert chosen_rung.certificate is not None
    obj = {"ok": True, "file": args.out, **claim_json(chosen_rung.certificate.claim)}
    answer(args, obj | _ladder_json(rungs, files), *_lines(args, rungs, chosen_rung, files))


def beside(out: str, kind: str) -> Path:
    """Where another certificate of the ladder goes.

    >>> beside("mine.cushion", "picks").name, beside("mine", "picks").name
    ('mine.picks.cushion', 'mine.picks.cushion')
    """
    return Path(f"{out.removesuffix('.cushion')}.{kind}.cushion")


def _write(rungs: tuple[Rung, ...], chosen: Rung, out: str) -> dict[str, str]:
    """Kind and file of each certificate, the best first."""
    files: dict[str, str] = {}
    saved: dict[int, str] = {}  # a transfer and its g are one certificate
    for rung in (chosen, *rungs):
        if (made := rung.certificate) is None or rung.kind in files:
            continue
        if id(made) not in saved:
            saved[id(made)] = out if rung is chosen else str(beside(out, rung.kind))
            made.save(saved[id(made)])
        files[rung.kind] = saved[id(made)]
    return files


def _made(rungs: tuple[Rung, ...], files: dict[str, str]) -> list[tuple[str, Certificate]]:
    """Each file with what is in it, the best first."""
    found = {rung.kind: rung.certificate for rung in rungs}
    held: dict[str, Certificate] = {}
    for kind, file in files.items():
        certificate = found[kind]  # type: ignore[index]
        assert certificate is not None
        held.setdefault(file, certificate)
    return list(held.items())


def _ladder_json(rungs: tuple[Rung, ...], files: dict[str, str]) -> dict[str, Any]:
    from cushion.certificates.ladder import shares

    ladder = []
    for rung in rungs:
        delta = None if rung.delta is None else float_up(rung.delta)
        ladder.append({**rung.to_json(), "delta": delta, "file": files.get(rung.kind)})
    paid = [{"item": one.item, "delta": float_up(one.delta)} for one in shares(rungs)]
    return {"best": next(iter(files)), "ladder": ladder, "shares": paid}


def _lines(
    args: argparse.Namespace, rungs: tuple[Rung, ...], chosen: Rung, files: dict[str, str]
) -> list[str]:
    """The ladder and the answer; then the numbers, shares and assumptions behind them."""
    from cushion.certificates.ladder import shares

    made = _made(rungs, files)
    rows = [
        [_NAMES[rung.kind], _at_most(rung), _SUBJECT[rung.about], rung.delta or "-", rung.needs]
        for rung in rungs
    ]
    lines = [
        f"best for you: {_NAMES[chosen.kind]}. {sentence(made[0][1].claim)}",
        translate(table(["kind", "at most", "about", "δ", "needs"], rows), args.flags),
        *_held_out(rungs),
    ]
    if args.net is not None and chosen.about == "g":
        lines.append(_NOT_ABOUT_F)
    names = {file: [_NAMES[kind] for kind in files if files[kind] == file] for file, _ in made}
    written = (f"{file} ({' and '.join(kinds)})" for file, kinds in names.items())
    lines.append(f"Written: {', '.join(written)}.")
    for at, (file, certificate) in enumerate(made):
        first, *shown = show_numbers(certificate.claim)  # the best one's sentence was said
        shown = shown[1:] if not (shown[0] or at) else shown
        lines += ["", f"{file}:", *([first] if at else []), *shown]
        if not certificate.claim.made_with.get("trained", True):
            lines.append(options.CONSTANT)
    if len(paid := shares(rungs)) > 1:
        total = f"Together they fail with probability at most {args.delta or SearchOptions().delta}"
        parts = "; ".join(f"{one.item} {one.delta}" for one in paid)
        lines += ["", f"{total}: {parts}."]
    for file, certificate in made:
        first, *assumed = show_assumptions(certificate.claim)
        lines += ["", f"{file}, about {_rows(certificate)}. {first}", *assumed]
    lines.append("")
    for file, certificate in made:
        flags = f" --data {args.data}{verify_flags(args, certificate.claim)}"
        if certificate.claim.kind == "holdout":
            flags = own_rows.again(args)
        lines.append(f"Check it with: cushion verify {file}{flags}")
    return lines


def _held_out(rungs: tuple[Rung, ...]) -> list[str]:
    """What held-out rows say about each g beside its own bound, and what both together cost."""
    found = []
    for rung in rungs:
        line = None if rung.certificate is None else rung.certificate.claim.holdout
        if line is not None and rung.about == "g":
            found.append(f"{percent_up(line.bound)} ({_NAMES[rung.kind]}, δ = {line.delta})")
    if not found:
        return []
    said = f"held out, the same g errs on at most {' and '.join(found)}"
    return [f"{said}; quoted together with its own bound, both fail with probability at most 2δ."]


def _rows(certificate: Certificate) -> str:
    """Which rows its assumptions call the examples."""
    claim = certificate.claim
    which = "held-out examples" if claim.kind == "holdout" else "examples"
    return f"{spaced(claim.m)} {which} of {claim.data}"


def _at_most(rung: Rung) -> str:
    """By the decimal that the file states: a float of it was rounded up once already."""
    if rung.certificate is None or rung.bound is None:
        return "not run" if rung.kind == "occam" else "-"
    claim: Any = rung.certificate.claim
    stated = claim.transfer.bound_f if rung.kind == "transfer" else claim.bound
    return "vacuous" if rung.bound >= 1 else percent_up(stated)
