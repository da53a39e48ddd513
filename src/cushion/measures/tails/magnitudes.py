"""The numbers that tails are fitted to: positive and sorted, or why there is nothing to fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# different magnitudes below which there is no tail to speak of: xmin is one of the two or three
# smallest
_DISTINCT = 4
# numbers below which no exponent is fitted: its standard error would be a seventh of alpha - 1 at
# best
FEWEST = 50


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """|x| of all numbers that are not zero, ascending in float64; `zeros`: how many were.

    refusal: why no law is fitted to them, a sentence; empty where one is.
    """

    ordered: NDArray[np.float64]
    zeros: int
    refusal: str = ""

    @classmethod
    def of(cls, values: ArrayLike) -> Magnitudes:
        """Of numbers of any shape. One copy is made and sorted in place: 8 bytes a number."""
        flat = np.array(values, dtype=np.float64, order="C").reshape(-1)
        if flat.size == 0:
            return cls(flat, 0, "there are no numbers to fit")
        np.abs(flat, out=flat)
        flat.sort()  # infinities come last, and after them what is not a number
        finite = int(np.searchsorted(flat, np.inf))
        if finite < flat.size:
            wrong = flat.size - finite
            return cls(
                flat[:0],
                0,
                f"{wrong} of {flat.size} numbers are infinite or not a number; check the training",
            )
        zeros = int(np.searchsorted(flat, 0.0, side="right"))
        ordered = flat[zeros:]
        return cls(ordered, zeros, _refusal(ordered, zeros))


def _refusal(ordered: NDArray[np.float64], zeros: int) -> str:
    if ordered.size == 0:
        return f"all {zeros} numbers are zero"
    if ordered.size < FEWEST:
        beside = f" beside {zeros} zeros" if zeros else ""
        return f"only {ordered.size} non-zero numbers{beside}, and {FEWEST} are needed"
    if ordered[0] == ordered[-1]:
        return (
            f"all {ordered.size} non-zero numbers have the magnitude {ordered[0]:.6g}: a constant "
            "has no tail"
        )
    at = distinct = 0
    while at < ordered.size and distinct < _DISTINCT:
        at, distinct = int(np.searchsorted(ordered, ordered[at], side="right")), distinct + 1
    if distinct < _DISTINCT:
        return (
            f"only {distinct} different magnitudes among {ordered.size} numbers, and {_DISTINCT} "
            "are needed"
        )
    return ""
