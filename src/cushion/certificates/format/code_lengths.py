"""Bits of coded numbers from their counts alone (FORMAT.md, section 3.2), up to the rounding of the
whole stream's end.

The adaptive code gives the same length to any order of the same decisions, so a change of one
number changes a handful of counts: far cheaper than encoding the message again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def grid_length(weight: Integers, levels: int) -> float:
    """Numbers of a grid: zero or not, sign, magnitude in unary."""
    return counted_length(
        np.bincount(np.abs(weight).reshape(-1), minlength=levels + 1), int((weight < 0).sum())
    )


def counted_length(sizes: Integers, negative: int) -> float:
    """The same from counts. sizes: how many numbers have each magnitude, to the largest."""
    above = np.cumsum(sizes[::-1])[::-1].tolist()  # how many have at least each
    total = adaptive_length(int(sizes[0]), above[0] - int(sizes[0]))
    if len(sizes) > 1:
        total += adaptive_length(negative, above[1] - negative)
    for size in range(1, len(sizes) - 1):
        total += adaptive_length(int(sizes[size]), above[size] - int(sizes[size]))
    return total


def bias_length(bias: Integers, shift: int) -> float:
    """Biases in steps of 2^shift: the flag, the shift, and wide numbers."""
    if not bias.any():
        return 1.0
    widths = np.array([int(value).bit_length() for value in np.abs(bias)])
    # A wide number's bit length is coded like a magnitude on a grid that has one more level than
    # any of them.
    counts = np.bincount(widths, minlength=int(widths.max()) + 2)
    field = 2 * int(shift + 1).bit_length() - 1
    return (
        1.0
        + field
        + counted_length(counts, int((bias < 0).sum()))
        + float(np.maximum(widths - 1, 0).sum())
    )


def adaptive_length(zeros: int, ones: int) -> float:
    """Bits that the Krichevsky-Trofimov estimator gives to so many zeros and ones, in any order.

    log2 of π·n!/(Γ(k+½)·Γ(n-k+½)) for k ones among n.
    """
    nats = (
        math.lgamma(zeros + ones + 1)
        + math.log(math.pi)
        - math.lgamma(zeros + 0.5)
        - math.lgamma(ones + 0.5)
    )
    return nats / math.log(2.0)
