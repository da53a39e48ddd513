"""How numbers are spread: one per example, or the singular values of one matrix."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cushion.records import Distribution, Record, column

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_BINS = 50
_ROUNDING = 1e-12  # relative; what a few hundred float64 operations leave


class Spectrum(Record):
    """The singular values of one matrix, with stride, padding, dilation and groups if it is a
    layer's map. A quantile at level q is the smallest value with at least a fraction q at or below
    it. The histogram has len(edges) == len(counts) + 1.
    """

    of: Literal["map", "kernel"] = column("the true map, or the weight as a matrix [out, rest]")
    count: int = column("singular values: min(rows, columns), zeros counted", label="values")
    exact: bool = column("whether all of them were computed, not estimated from random probes")
    top: tuple[float, ...] = column("the largest, at most 16, in either case computed")
    quantiles: dict[str, float] = column("by level")
    edges: tuple[float, ...] = column("of the histogram")
    counts: tuple[float, ...] = column("of the histogram")
    standard_error: tuple[float, ...] | None = column("one for each of the counts, if estimated")
    operator_frobenius: float = column("√(sum of all squared singular values), in closed form")
    spectral: float = column("the spectral norm ‖A‖₂", label="largest")
    stable_rank: float | None = column("‖A‖_F² / ‖A‖₂²; undefined for a matrix of zeros")
    effective_rank_90: int = column("the fewest that hold 90 % of ‖A‖_F²", label="hold 90 %")


def describe(
    values: NDArray[Any], extremum: Literal["min", "max"], bins: int = _BINS
) -> Distribution | None:
    """Summarise; None if there is nothing to. NaN constrains nothing and is left out; so is +∞ of a
    minimum. The quantile at level q is the smallest value with at least a fraction q up to it.

    >>> describe(np.array([3.0, 1.0, 2.0, np.inf]), "min").value
    1.0
    >>> describe(np.array([1.0, 1.0 + 2**-52]), "max").count
    2
    """
    finite = values[np.isfinite(values)].astype(np.float64)
    infinite = int(np.isposinf(values).sum()) if extremum == "max" else 0
    if len(finite) + infinite == 0:
        return None
    ordered = np.concatenate([np.sort(finite), np.full(infinite, np.inf)])
    quantiles = {str(q): float(ordered[max(0, int(np.ceil(q * len(ordered))) - 1)]) for q in LEVELS}
    counts, edges = np.histogram(finite, bins=bins, range=_range(finite))
    return Distribution(
        value=float(ordered[0] if extremum == "min" else ordered[-1]),
        extremum=extremum,
        count=len(finite),
        mean=float(finite.mean()) if len(finite) else np.nan,
        std=float(finite.std()) if len(finite) else np.nan,
        quantiles=quantiles,
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        infinite=infinite,
    )


def _range(finite: NDArray[np.float64]) -> tuple[float, float]:
    """From the smallest to the largest value; wider where they differ by rounding alone."""
    if len(finite) == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if high - low > _ROUNDING * max(abs(low), abs(high)):
        return low, high
    return low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
