"""Guha 2023, Theorem 5.1 tried: from which side m on does a sparse matrix come back from its sketch
A X Bᵀ, and what does the paper count?

A measure. Every trial is a pure function of its sizes, seed and number, so that a study may be
resumed anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.compressors.pruning import sketched as sketches
from cushion.compressors.pruning.recovery import recover
from cushion.compressors.pruning.sketched import bipartite, paper_side, sketch_of
from cushion.data.counter import stream
from cushion.papers.drawings import Picture, Series
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop

Case: TypeAlias = tuple[int, int]  # (p, j)
Rates: TypeAlias = Mapping[int, float]  # side -> share of the matrices that came back
_MULTIPLES = (1.0, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0)
_LARGEST = 127  # of a non-zero
_NONZEROS = f"whole numbers from ±1 to ±{_LARGEST}, j in every row"
_VALUE_BITS = 8  # that it takes
_MOST_ITERATIONS = 500


@dataclass(frozen=True)
class SketchPlan:
    """Matrices [p, p], j non-zeros a row; sides m = multiples of √(jp), and √(jp)·ln p."""

    cases: tuple[Case, ...]
    trials: int
    multiples: tuple[float, ...] = _MULTIPLES

    def sides(self, p: int, j: int) -> list[int]:
        """One for each multiple, then the theorem's with 1 for its constant."""
        wanted = [*(multiple * math.sqrt(j * p) for multiple in self.multiples), paper_side(j, p)]
        return list(map(math.ceil, wanted))


PLANS: dict[Size, SketchPlan] = {
    "quick": SketchPlan(((32, 1), (32, 2), (64, 2)), 4),
    "recorded": SketchPlan(tuple((p, j) for p in (32, 64, 128) for j in (1, 2, 3, 5)), 10),
    "full": SketchPlan(tuple((p, j) for p in (32, 64, 128, 256, 512) for j in (1, 2, 3, 5)), 50),
}


def sketch(workshop: Workshop) -> Page:
    """Rates of exact recovery over the side, and the side that it takes beside the theorem's."""
    plan = PLANS[workshop.size]
    rates = {case: _rates(workshop, plan, *case) for case in plan.cases}
    shares = {
        (p, j): tuple(found.get(side) for side in plan.sides(p, j))
        for (p, j), found in rates.items()
    }
    sides = [*(f"m = {multiple:g}·√(jp)" for multiple in plan.multiples), "m = √(jp)·ln p"]
    transition = "Share of the matrices that came back exactly (a dash: m would exceed p):"
    series = [Series(f"p = {p}, j = {j}", shown[:-1]) for (p, j), shown in shares.items()]
    title = "Exact recovery from a sketch of side m"
    axes = ("m / √(jp)", "share that came back")
    caption = "How large a sketch must be, and what the paper counts:"
    rows = [_size(p, j, found) for (p, j), found in rates.items()]
    return Page(
        tables=(
            Table(list(rows[0]), [list(row.values()) for row in rows], caption),
            Table(
                ["p", "j", *sides], [(*case, *shown) for case, shown in shares.items()], transition
            ),
        ),
        settings={"trials": plan.trials, "non-zeros": _NONZEROS},
        claims=(theory_holds(rates), is_smaller(rates), saves_numbers(rates)),
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
        pictures=[Picture("sketch-transition", title, plan.multiples, *axes, series)],
    )


def _rates(workshop: Workshop, plan: SketchPlan, p: int, j: int) -> dict[int, float]:
    """A side beyond p is not tried: there the matrix itself is smaller."""

    def made(side: int) -> float:
        ones = sketches.default_ones(p, p, side, side)
        within = sketches.ones_within(ones, side)
        return recovery_rate(p, j, side, within, plan.trials, workshop.seed)

    settings = {"p": p, "j": j, "trials": plan.trials, "seed": workshop.seed}
    return {
        side: workshop.step("guha-sketch", {**settings, "side": side}, partial(made, side))
        for side in dict.fromkeys(plan.sides(p, j))
        if side <= p
    }


def recovery_rate(p: int, j: int, m: int, ones: int, trials: int, seed: int) -> float:
    """The part of `trials` random matrices that come back exactly from m x m numbers."""
    return sum(comes_back(p, j, m, ones, seed, trial) for trial in range(trials)) / trials


def comes_back(p: int, j: int, m: int, ones: int, seed: int, trial: int) -> bool:
    """One trial: whether a random matrix is found again from a random sketch of m x m numbers."""
    X = sparse_matrix(p, j, seed, trial)
    A, B = (bipartite(m, p, ones, seed, f"study {side} {trial}") for side in ("left", "right"))
    found = recover(sketch_of(A, X, B), A, B, most_iterations=_MOST_ITERATIONS)
    return np.array_equal(np.rint(found.matrix), X)


def sparse_matrix(p: int, per_row: int, seed: int, trial: int) -> NDArray[np.int64]:
    """[p, p] with per_row non-zeros a row at uniform places, values uniform on ±1..±127."""
    places = bipartite(p, p, per_row, seed, f"study places {trial}").T
    hashes = stream(f"study values {trial}", seed, p * p).reshape(p, p)
    sizes = (hashes >> np.uint64(1)) % np.uint64(_LARGEST) + np.uint64(1)
    signs = 1 - 2 * (hashes & np.uint64(1)).astype(np.int64)
    return places * sizes.astype(np.int64) * signs


def crossing(sides: Sequence[int], rates: Sequence[float]) -> float | None:
    """The side at which the rate first rises to one half or above, linear between two sides."""
    for (m, low), (more, high) in pairwise(zip(sides, rates, strict=True)):
        if low < 0.5 <= high:
            return m + (more - m) * (0.5 - low) / (high - low)
    return None


def always(rates: Rates) -> int | None:
    """The smallest side tried from which on every matrix came back; None where there is none."""
    sure = takewhile(lambda side: rates[side] == 1.0, sorted(rates, reverse=True))
    return min(sure, default=None)


def counts(p: int, j: float, nonzeros: int, bits: float) -> tuple[float, float]:
    """Bits for a [p, p] matrix of so many non-zeros, at most j a row or column, `bits` each: a
    sketch of (√(jp)·ln p)² numbers (Theorems 5.1 and 5.2), and log2 C(p², J) + J·bits (Lemma D.1).

    A measure, since both are up to constants in the paper.
    """
    entries = p * p
    parts = (entries + 1, nonzeros + 1, entries - nonzeros + 1)
    everywhere, there, elsewhere = map(math.lgamma, parts)
    naive = (everywhere - there - elsewhere) / math.log(2) + nonzeros * bits
    return j * p * math.log(p) ** 2 * bits, naive


def _size(p: int, j: int, found: Rates) -> dict[str, Any]:
    half, sure = crossing(sorted(found), [found[side] for side in sorted(found)]), always(found)
    root, theory = math.sqrt(j * p), paper_side(j, p)
    sketched, naive = counts(p, j, j * p, _VALUE_BITS)
    return {
        "p": p,
        "j": j,
        "m, half come back": half,
        "m, all come back": sure,
        "generic": math.sqrt(sketches.statistical_dimension(j / p)) * p,
        "√(jp)·ln p": theory,
        "half / √(jp)": half and half / root,
        "half / (√(jp)·ln p)": half and half / theory,
        "m²/(jp), all come back": sure and sure * sure / (j * p),
        "sketch count, bits": round(sketched),
        "naive count, bits": round(naive),
        "sketch / naive": sketched / naive,
    }


def theory_holds(rates: Mapping[Case, Rates]) -> Tried:
    """At every side tried that is at least √(jp)·ln p, all matrices came back."""
    text = "m of the order √(jp)·log p is enough: with 1 for the constant every matrix comes back"
    by_case = ((paper_side(j, p), found) for (p, j), found in rates.items())
    above = [found[side] for theory, found in by_case for side in found if side >= theory]
    if not above:
        return Tried(text, None, "√(jp)·ln p exceeds p for every matrix that was tried")
    because = f"{min(above):.0%} came back at the worst of {len(above)} such sides"
    return Tried(text, min(above) == 1.0, because)


def is_smaller(rates: Mapping[Case, Rates]) -> Tried:
    """Theorem 5.1's side against p: the sketch is a compression at all."""
    text = "the theorem's sketch, with 1 for the constant, is smaller than the matrix"
    ratios = [paper_side(j, p) / p for p, j in rates]
    because = f"√(jp)·ln p is {min(ratios):.2f} to {max(ratios):.2f} times p"
    return Tried(text, max(ratios) < 1.0, because)


def saves_numbers(rates: Mapping[Case, Rates]) -> Tried:
    """Theorem 5.2's count against Lemma D.1's, which it replaces."""
    text = "the sketch's count is smaller than the naive count that it replaces"
    ratios = [a / b for a, b in (counts(p, j, j * p, _VALUE_BITS) for p, j in rates)]
    because = f"it is {min(ratios):.1f} to {max(ratios):.1f} times as large"
    return Tried(text, max(ratios) < 1.0, because)
