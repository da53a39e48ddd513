"""The rows that every table and figure of Guha 2023 §7 shares: our columns for one net, and tables
of several.

A column maps the name of a row to a natural logarithm; a row without a value is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cushion.papers.guha.nets import NetFound, PrunedFound
from cushion.papers.guha.paper import (
    BARTLETT_2017,
    METHODS,
    NEYSHABUR_2015,
    NEYSHABUR_2017,
    OURS,
    RIVALS,
    TRUE_ERROR,
)
from cushion.papers.pages import Table

Column = Mapping[str, float | None]
Titled = Sequence[tuple[str, NetFound]]
# The rows of `cushion bounds` that stand for the paper's rivals, whose formulas it does not write:
# what each depends on (norms, widths, margin, 2^depth where the source has it) without numerical
# constants and logarithms, as in Ours.
RIVAL_ROWS = {
    NEYSHABUR_2015: "l2-norm, as printed",
    NEYSHABUR_2017: "spec-fro, as plotted",
    BARTLETT_2017: "spec-l1,2, as plotted",
}
OTHER_FORMS = {
    "l2-norm, as plotted": NEYSHABUR_2015,
    "frobenius, stated": NEYSHABUR_2015,
    "spec-fro, stated": NEYSHABUR_2017,
    "spec-l1,2, corrected": BARTLETT_2017,
    "spec-l2,1, stated": BARTLETT_2017,
}
_OURS_ROW = "sketch count, as plotted"
_COUNTS = (
    "sketch count, as printed",
    "sketch count, corrected",
    "naive count, as printed",
    "naive count, corrected",
)
CERTIFICATE = "mask and values, exact tail (certificate)"
TRAINING_ERROR = "Training error"
BEFORE = "True error before pruning"
BESIDE = (*_COUNTS, CERTIFICATE, TRAINING_ERROR, BEFORE)

ROW_NOTES = (
    "All numbers of the first table are natural logarithms, as the paper's are; a value above 0 is "
    "a bound above 100 % and says nothing. A dash: the row abstains, or no error was counted.",
    "Each net is pruned twice by Algorithm 1: with the d that has the smallest bound, the choice "
    "paid, and with the d, of the same six, at which the pruned net errs least on the sample. The "
    "paper does not state its d.",
    "Ours is R̂_γ + √(Σ 3χ d₁d₂ ln²(p) ln(1/ρ) / n), Theorem 5.2 with λ = 1 and 1 in place of "
    "O(·); as printed has the λ that make the failure 5 %, corrected the j that was seen and every "
    "known constant. Sketch and naive rows are measures.",
    f"{CERTIFICATE}: holds with probability 95 % over the sample, from the bits that a coder wrote "
    "for the pruned net; it counts errors and needs no margin.",
    "The rivals are the rows "
    + ", ".join(
        f"{row.replace(', as', ' (as')}) for {method}" for method, row in RIVAL_ROWS.items()
    )
    + " of `cushion bounds`: the paper does not write its formulas, so we take what each "
    "depends on without constants "
    "and logarithms, as in Ours. With other forms the order of the rivals can be another.",
    "True error: of the pruned and discretised net on the test set.",
    "Not like for like: the rivals bound the trained net by its norms and γ; Ours counts numbers, "
    "knows γ only through d and ρ, and speaks of the pruned net.",
)


def column(net: NetFound, pruned: PrunedFound | None) -> dict[str, float | None]:
    """Our numbers for one net, the paper's rows first, then what the paper does not show."""
    rivals = {method: net.logs.get(RIVAL_ROWS[method]) for method in RIVALS}
    before = _log_error(net.test_errors, net.test_m)
    if pruned is None:
        return {**rivals, **dict.fromkeys((OURS, TRUE_ERROR, *BESIDE)), BEFORE: before}
    return {
        **rivals,
        OURS: pruned.logs.get(_OURS_ROW),
        TRUE_ERROR: _log_error(pruned.test_errors, net.test_m),
        **{row: pruned.logs.get(row) for row in _COUNTS},
        CERTIFICATE: math.log(pruned.bound),
        TRAINING_ERROR: _log_error(pruned.errors, net.m),
        BEFORE: before,
    }


def chosen(found: Sequence[NetFound]) -> list[dict[str, float | None]]:
    """Our columns with the d of the smallest bound."""
    return [column(net, net.smallest_bound) for net in found]


def gentle(found: Sequence[NetFound]) -> list[dict[str, float | None]]:
    """Our columns with the d of the fewest errors."""
    return [column(net, net.fewest_errors) for net in found]


def beside_paper(found: Titled, papers: Sequence[Column | None], caption: str) -> Table:
    """One row a method; for each net the paper's number (where it has one) and ours, to two
    decimals as in the paper.

    A certificate is rounded up.
    """
    columns: dict[str, Callable[[str], Any]] = {"ln of": str}
    for (title, net), paper in zip(found, papers, strict=True):
        if paper is not None:
            columns[f"{title}, paper"] = paper.get
        ways = {"smallest bound": net.smallest_bound, "fewest errors": net.fewest_errors}
        for way, pruned in ways.items():
            columns[f"{title}, {way}"] = partial(_cell, column(net, pruned))
    return Table.of(caption, (*METHODS, *BESIDE), columns)


def other_forms(found: Titled) -> Table:
    """The rivals in every other form: none of them is known to be the paper's."""
    columns: dict[str, Callable[[str], Any]] = {"rival": OTHER_FORMS.__getitem__, "row": str}
    columns |= {title: partial(_cell, net.logs) for title, net in found}
    return Table.of("The rivals in other forms (ln):", OTHER_FORMS, columns)


def nets(found: Titled) -> Table:
    """What was trained and what Algorithm 1 made of it; errors are fractions, not logarithms."""
    rows: list[tuple[str, NetFound, PrunedFound | None]] = [
        (title, net, pruned) for title, net in found for pruned in (net.ways or (None,))
    ]

    def after(read: Callable[[PrunedFound, NetFound], Any]) -> Callable[[Any], Any]:
        return lambda row: None if row[2] is None else read(row[2], row[1])

    return Table.of(
        "The nets, before and after Algorithm 1:",
        rows,
        {
            "net": lambda row: row[0],
            "epochs": lambda row: row[1].plan.epochs,
            "training error": lambda row: row[1].errors / row[1].m,
            "test error": lambda row: row[1].test_errors / row[1].test_m,
            "γ": lambda row: row[1].margin,
            "d": after(lambda pruned, _: pruned.d),
            "pruned away": after(lambda pruned, _: pruned.sparsity),
            "‖Δ‖₂L/‖A‖₂, worst layer": after(lambda pruned, _: pruned.reach),
            "pruned: training error": after(lambda pruned, net: pruned.errors / net.m),
            "pruned: test error": after(lambda pruned, net: pruned.test_errors / net.test_m),
            "bits": after(lambda pruned, _: pruned.bits),
            "certified error": after(lambda pruned, _: pruned.bound),
        },
    )


def counts(found: Titled) -> Table:
    """Nats that each count pays for the same pruned net; the certificate's a coder wrote."""
    rows = [(title, net, pruned) for title, net in found for pruned in net.ways]

    def ratio(pruned: PrunedFound) -> float | None:
        sketch, naive = (
            pruned.nats.get(f"{name} count, corrected") for name in ("sketch", "naive")
        )
        return sketch / naive if sketch is not None and naive else None

    paid = {row: lambda one, row=row: one[2].nats.get(row) for row in (_OURS_ROW, *_COUNTS)}
    return Table.of(
        "Nats that each count pays for the same pruned net:",
        rows,
        {
            "net": lambda one: one[0],
            "d": lambda one: one[2].d,
            "weights": lambda one: one[1].weights,
            **paid,
            "mask and values, coded": lambda one: one[2].bits * math.log(2.0),
            "sketch over naive, corrected": lambda one: ratio(one[2]),
        },
    )


def by_strength(found: Titled) -> Table:
    """The training error of the pruned net at every d that was tried, beside what stays."""
    pruned = {title: (net, net.smallest_bound) for title, net in found}
    tried = {
        title: {} if one is None else {float(d): errors / net.m for d, errors in one.tried.items()}
        for title, (net, one) in pruned.items()
    }
    columns: dict[str, Callable[[float], Any]] = {
        "d": float,
        "χ = 1 - √(d/(d+2))": lambda d: 1.0 - math.sqrt(d / (d + 2.0)),
        **{title: errors.get for title, errors in tried.items()},
    }
    caption = (
        "Training error of the pruned and discretised net, by d (a dash: more weights stay than a "
        "file holds):"
    )
    return Table.of(caption, sorted(set().union(*tried.values())), columns)


def _cell(numbers: Column, name: str) -> float | None:
    value = numbers.get(name)
    if value is None:
        return None
    return math.ceil(100 * value) / 100 if name == CERTIFICATE else round(value, 2)


def _log_error(errors: int, m: int) -> float | None:
    """ln of an error rate; None for no errors at all."""
    return math.log(errors / m) if errors else None
