"""Inputs that were standardised by themselves: mean 0 and deviation 1 to the last digits.

Constants that were computed on the sample make its rows depend on each other, which a bound for
independent draws does not allow. Fresh rows under constants of other rows do not hit 0 and 1: their
mean is off by about 1/√m.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.streaming import pieces

_OFF = 2e-5  # far above the rounding of float32
_SHARE = 0.01  # of 1/√m: what fresh rows come as close as by chance, once in ten thousand columns
WHAT = ("columns", "channels", "values")  # what was standardised: each column, each channel, or all


def find_standardised(x: NDArray[Any]) -> str:
    """Which of WHAT have mean 0 and deviation 1, or "" if none: x is [m, *shape] float32.

    Columns and channels: all that are not constant zeros, or at least two.
    """
    if x.dtype != np.float32 or len(x) < 2:
        return ""
    sums = np.zeros(x.shape[1:], np.float64)
    squares = np.zeros(x.shape[1:], np.float64)
    for _, rows in pieces(x):
        wide = rows.astype(np.float64)
        sums += wide.sum(axis=0)
        squares += (wide**2).sum(axis=0)
    off = min(_OFF, _SHARE / math.sqrt(len(x)))
    if _are_standard(sums, squares, len(x), off):
        return "columns"
    axes = tuple(range(1, sums.ndim))
    places = sums[0].size if sums.ndim else 1
    if axes and _are_standard(sums.sum(axis=axes), squares.sum(axis=axes), len(x) * places, off):
        return "channels"
    whole = sums.sum(keepdims=True), squares.sum(keepdims=True)
    return "values" if _are_standard(*whole, len(x) * sums.size, off) else ""


def _are_standard(
    sums: NDArray[np.float64], squares: NDArray[np.float64], n: int, off: float
) -> bool:
    """Of n numbers each, to within `off`."""
    means = sums / n
    variances = squares / n - means**2
    centred = np.abs(means) < off
    # the deviation with n or n - 1 in its denominator
    unit = [np.abs(np.sqrt(variances * n / d) - 1) < off for d in (n, n - 1)]
    good = centred & (unit[0] | unit[1])
    count, others = int(good.sum()), int((squares > 0).sum())
    return count > 0 and (count == others or count >= 2)
