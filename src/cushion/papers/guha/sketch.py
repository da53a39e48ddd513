"""Guha 2023, Theorem 5.1 tried: from which side m on does a sparse matrix come back from its sketch
A X Bᵀ?
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from cushion.compressors.pruning.sketch_sizes import (
    default_ones,
    ones_within,
    paper_side,
    statistical_dimension,
)
from cushion.papers.drawings import Picture, Series
from cushion.papers.guha.sketch_study import counts, crossing, recovery_rate
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop

Case: TypeAlias = tuple[int, int]  # (p, j)
Rates: TypeAlias = Mapping[int, float]  # side -> share of the matrices that came back
_MULTIPLES = (1.0, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0)
_VALUE_BITS = 8  # of a non-zero of the study: ±1 to ±127


@dataclass(frozen=True)
class SketchPlan:
    """Matrices [p, p], j non-zeros a row; sides m = multiples of √(jp), and √(jp)·ln p."""

    cases: tuple[Case, ...]
    trials: int
    multiples: tuple[float, ...] = _MULTIPLES

    def sides(self, p: int, j: int) -> list[int]:
        """One for each multiple, then the theorem's with 1 for its constant."""
        return [
            *(math.ceil(multiple * math.sqrt(j * p)) for multiple in self.multiples),
            math.ceil(paper_side(j, p)),
        ]


PLANS: dict[Size, SketchPlan] = {
    "quick": SketchPlan(((32, 1), (32, 2), (64, 2)), 4),
    "recorded": SketchPlan(tuple((p, j) for p in (32, 64, 128) for j in (1, 2, 3, 5)), 10),
    "full": SketchPlan(tuple((p, j) for p in (32, 64, 128, 256, 512) for j in (1, 2, 3, 5)), 50),
}


def sketch(workshop: Workshop) -> Page:
    """Rates of exact recovery over the side, and the side that it takes beside the theorem's."""
    plan = PLANS[workshop.size]
    rates = {case: _rates(workshop, plan, *case) for case in plan.cases}
    claims = (theory_holds(rates), is_smaller(rates), saves_numbers(rates))
    return Page(
        tables=(_sizes(rates), _transition(plan, rates)),
        settings={
            "trials": plan.trials,
            "non-zeros": "whole numbers from ±1 to ±127, j in every row",
        },
        claims=claims,
        notes=(
            "The paper makes no such experiment and prints no numbers, so no column of its own "
            "stands beside ours.",
            "A matrix counts as back if the ℓ1 program gives every number that went in, after "
            "rounding.",
            "A and B have the same number of ones in every column: ⌈ln p⌉, more where columns "
            "would be equal. With the same number in every row, as Definition E.1 says, some "
            "columns stay empty, and what stands there is lost.",
            "generic: the side at which recovery sets in for measurements without structure "
            "(statistical dimension).",
            "Bits: the sketch's (√(jp)·ln p)² numbers against log₂ C(p², jp) for the places and "
            "the values, 8 bits a number in both, though a sketch's numbers are sums and need "
            "more.",
        ),
        pictures=(_picture(plan, rates),),
    )


def _rates(workshop: Workshop, plan: SketchPlan, p: int, j: int) -> dict[int, float]:
    """A side beyond p is not tried: there the matrix itself is smaller."""

    def made(side: int) -> float:
        ones = ones_within(default_ones(p, p, side, side), side)
        return recovery_rate(p, j, side, ones, plan.trials, workshop.seed)

    settings: dict[str, Any] = {"p": p, "j": j, "trials": plan.trials, "seed": workshop.seed}
    return {
        side: workshop.step("guha-sketch", {**settings, "side": side}, partial(made, side))
        for side in dict.fromkeys(plan.sides(p, j))
        if side <= p
    }


def always(rates: Rates) -> int | None:
    """The smallest side tried from which on every matrix came back; None where there is none."""
    found = None
    for side in sorted(rates, reverse=True):
        if rates[side] < 1.0:
            break
        found = side
    return found


def _sizes(rates: Mapping[Case, Rates]) -> Table:
    def row(case: Case) -> dict[str, Any]:
        (p, j), found = case, rates[case]
        sides = sorted(found)
        half, sure = crossing(sides, [found[side] for side in sides]), always(found)
        root, theory = math.sqrt(j * p), paper_side(j, p)
        count = counts(p, p, j, j * p, _VALUE_BITS)
        return {
            "p": p,
            "j": j,
            "m, half come back": half,
            "m, all come back": sure,
            "generic": math.sqrt(statistical_dimension(j / p)) * p,
            "√(jp)·ln p": theory,
            "half / √(jp)": None if half is None else half / root,
            "half / (√(jp)·ln p)": None if half is None else half / theory,
            "m²/(jp), all come back": None if sure is None else sure * sure / (j * p),
            "sketch count, bits": round(count.sketch),
            "naive count, bits": round(count.naive),
            "sketch / naive": count.ratio,
        }

    rows = list(map(row, rates))
    caption = "How large a sketch must be, and what the paper counts:"
    return Table.of(caption, rows, {name: name for name in rows[0]})


def _transition(plan: SketchPlan, rates: Mapping[Case, Rates]) -> Table:
    rows = [
        (p, j, *(found.get(side) for side in plan.sides(p, j))) for (p, j), found in rates.items()
    ]
    header = (
        "p",
        "j",
        *(f"m = {multiple:g}·√(jp)" for multiple in plan.multiples),
        "m = √(jp)·ln p",
    )
    return Table(
        header,
        tuple(rows),
        "Share of the matrices that came back exactly (a dash: m would exceed p):",
    )


def _picture(plan: SketchPlan, rates: Mapping[Case, Rates]) -> Picture:
    series = [
        Series(f"p = {p}, j = {j}", tuple(found.get(side) for side in plan.sides(p, j)[:-1]))
        for (p, j), found in rates.items()
    ]
    title = "Exact recovery from a sketch of side m"
    return Picture(
        "sketch-transition",
        title,
        plan.multiples,
        "m / √(jp)",
        "share that came back",
        tuple(series),
    )


def theory_holds(rates: Mapping[Case, Rates]) -> Tried:
    """At every side tried that is at least √(jp)·ln p, all matrices came back."""
    text = "m of the order √(jp)·log p is enough: with 1 for the constant every matrix comes back"
    above = [
        rate
        for (p, j), found in rates.items()
        for side, rate in found.items()
        if side >= paper_side(j, p)
    ]
    if not above:
        return Tried(text, None, "√(jp)·ln p exceeds p for every matrix that was tried")
    return Tried(
        text,
        min(above) == 1.0,
        f"{min(above):.0%} came back at the worst of {len(above)} such sides",
    )


def is_smaller(rates: Mapping[Case, Rates]) -> Tried:
    """Theorem 5.1's side against p: the sketch is a compression at all."""
    text = "the theorem's sketch, with 1 for the constant, is smaller than the matrix"
    ratios = [paper_side(j, p) / p for p, j in rates]
    return Tried(
        text, max(ratios) < 1.0, f"√(jp)·ln p is {min(ratios):.2f} to {max(ratios):.2f} times p"
    )


def saves_numbers(rates: Mapping[Case, Rates]) -> Tried:
    """Theorem 5.2's count against Lemma D.1's, which it replaces."""
    text = "the sketch's count is smaller than the naive count that it replaces"
    ratios = [counts(p, p, j, j * p, _VALUE_BITS).ratio for p, j in rates]
    return Tried(
        text, max(ratios) < 1.0, f"it is {min(ratios):.1f} to {max(ratios):.1f} times as large"
    )
