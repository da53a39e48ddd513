"""What is promised and proved of a compressed net, for people: lemmas, Occam bounds, the papers'
theorems.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from cushion.cli.output import number, table, wrapped_table
from cushion.compressors.noise.records import TriedTail
from cushion.compressors.pruning.records import Tried
from cushion.compressors.records import InductionError, Occam, PromiseCheck
from cushion.numerics import percent_up
from cushion.theorems.records import Bound

WIDTH = 150


def promise_lines(promises: Sequence[PromiseCheck]) -> list[str]:
    """Every lemma, and whether it held."""
    words = {True: "held", False: "BROKEN", None: "not promised"}
    rows = [
        [
            one.name,
            words[one.held],
            number(one.worst_ratio),
            one.cases,
            f"{one.meaning} [{one.source}]",
        ]
        for one in promises
    ]
    return [
        "What the lemmas promise",
        wrapped_table(["lemma", "", "worst/promised", "cases", "meaning"], rows, WIDTH),
    ]


def tried_lines(
    title: str, tried: Sequence[Tried | TriedTail], counts: Sequence[int], counted: str, m: int
) -> list[str]:
    """Every setting with its bound, and which was taken; counts: of what `counted` says, one a
    setting.
    """
    rows = [
        [
            one.asked,
            one.grid,
            count,
            f"{'' if one.written else '~'}{one.bits}",
            one.errors,
            "vacuous" if one.bound >= 1 else percent_up(str(one.bound)),
            "<- taken" if one.chosen else "",
        ]
        for one, count in zip(tried, counts, strict=True)
    ]
    estimates = (
        "" if all(one.written for one in tried) else "; ~ before bits: estimated, not written"
    )
    header = ["setting", "grid", counted, "bits", f"errors of {m}", "Occam bound", ""]
    return [f"{title}{estimates}", table(header, rows)]


def choice_line(tried: int, price: float) -> str:
    """What it costs that a setting was chosen; price: in nats, in the paper's own bounds."""
    if tried == 1:
        return "One setting was tried, so there was no choice to pay for."
    return (
        f"The best of {tried} settings was taken. That is free here: the code covers every "
        f"message, whichever setting made it. The paper's own bounds pay ln {tried} = {price:.3g} "
        "nats for it."
    )


def induction_lines(
    names: Sequence[str], induction: Sequence[InductionError], title: str
) -> list[str]:
    """Rows: how many layers are changed; columns: at which layer the error is seen."""
    seen = {(one.compressed, one.at): one.worst for one in induction}
    promised = {one.compressed: one.promised for one in induction}
    rows = [
        [i, number(promised.get(i)), *(number(seen.get((i, name))) for name in names)]
        for i in range(1, len(names) + 1)
    ]
    return [title, table(["i", "(i/d)ε", *names], rows)]


def proved_lines(
    before: int, m: int, occam: Sequence[Occam], assumptions: Sequence[str]
) -> list[str]:
    """What is proved, and what that assumes."""
    lines = [f"Before: {before} errors on {m} examples. What is proved of the compressed net:"]
    lines += [_occam(row) for row in occam]
    return lines + textwrap.wrap(f"assuming that {'; '.join(assumptions)}", WIDTH)


def _occam(row: Occam) -> str:
    if row.because:
        return f"no certificate file: {row.because}"
    held = f"; {row.holdout_errors} errors on {row.holdout_m} held-out" if row.holdout_m else ""
    kind = (
        "as an integer net, for cushion verify"
        if row.kind == "certificate"
        else "in this machine's floating point"
    )
    shown = percent_up(str(row.bound))
    bound = "vacuous" if shown == "100.00 %" else f"errs on at most {shown} of new examples"
    return f"{kind}: {row.errors} errors{held}, {row.bits} bits, {bound} (delta = {row.delta:g})"


def bound_lines(title: str, bounds: Sequence[Bound]) -> list[str]:
    """The rows with a value, then for the others why they have none."""
    lines = [title]
    shown = [bound for bound in bounds if not bound.abstains]
    if shown:
        rows = [[b.name, b.form, b.kind, b.shown, f"{b.meaning} [{b.source}]"] for b in shown]
        lines.append(
            wrapped_table(["bound", "form", "kind", "error at most", "meaning"], rows, WIDTH)
        )
    silent: dict[str, list[Bound]] = {}
    for bound in bounds:
        if bound.abstains:
            silent.setdefault(bound.meaning.removeprefix("abstains: "), []).append(bound)
    for why, these in silent.items():
        names = ", ".join(dict.fromkeys(f"{bound.name} [{bound.source}]" for bound in these))
        lines += textwrap.wrap(f"No value for {names}: {why}", WIDTH)
    return lines
