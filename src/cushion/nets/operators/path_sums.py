"""Sums over paths, taken back through the transpose of |A|^p: the step of a path norm at one affine
layer (`Operator.sums_before`).

Let s(unit) be the sum, over all paths from that unit to an output of the net, of ∏|w|^p. What
enters a layer has (|A|^p)ᵀ s. Two things make that about as cheap as a forward pass of one example
although it is in float64. Rows of a feature map often share their sums (a pool hands every number
of a window the same one, a global pool every position), so a map is kept as its distinct rows and
columns. And |w|^p is formed for a block of weights at a time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BLOCK = 1 << 17  # weights whose powers are held at a time: 1 MB
# powers of two by which numbers are scaled at most, so that the factor itself is a normal float
_FAR = 1000

Floats = NDArray[np.float64]
Indices: TypeAlias = tuple[int, ...]


@dataclass(slots=True, eq=False)
class PathSums:
    """s of every unit of a feature map [C, H, W]: s[c, y, x] = values[c, rows[y], columns[x]] ·
    2^exponent.

    Vectors are maps of one position. A number below about 2^-1000 of the largest in its map is
    lost.
    """

    values: Floats  # [C, distinct rows, distinct columns]
    rows: Indices = (0,)  # one for each of H
    columns: Indices = (0,)  # one for each of W
    exponent: float = 0.0

    def expanded(self) -> Floats:
        """One number a unit: [C, H, W]."""
        return self.values[:, self.rows][:, :, self.columns]

    def per_channel(self) -> Floats:
        """Σ over positions: [C]."""
        if self.values.shape[1] == self.values.shape[2] == 1:
            return self.values.ravel() * (len(self.rows) * len(self.columns))
        weighted: Floats = self.values @ np.bincount(self.columns).astype(float)
        return weighted @ np.bincount(self.rows)

    def __add__(self, other: PathSums) -> PathSums:
        low, high = sorted((self, other), key=lambda each: each.exponent)
        pairs, rows = distinct(zip(low.rows, high.rows, strict=True))
        sides, columns = distinct(zip(low.columns, high.columns, strict=True))
        (row, other_row), (column, other_column) = np.array(pairs).T, np.array(sides).T
        aligned = low.values[:, row][:, :, column] * 2.0 ** (low.exponent - high.exponent)
        return PathSums(
            aligned + high.values[:, other_row][:, :, other_column], rows, columns, high.exponent
        )

    def in_range(self) -> PathSums | None:
        """The same with a largest number far from both ends of float64; None if all are zero."""
        largest = float(self.values.max())
        if 2.0**-64 < largest < 2.0**64:
            return self
        if largest == 0.0:
            return None
        power = _power_of_two(largest)
        return PathSums(self.values * 2.0**-power, self.rows, self.columns, self.exponent + power)


class Powers:
    """|w|^p in float64 for several p, block by block, in one buffer that stays in cache."""

    def __init__(self, exponents: Sequence[float]) -> None:
        self.exponents = tuple(exponents)
        self.block = _BLOCK
        self._buffer = np.empty(self.block)

    def units(self, weight: NDArray[Any]) -> tuple[int, ...]:
        """For each p the power of two to divide weights by so that their powers are floats."""
        if not weight.size or (max(self.exponents) <= 2 and weight.dtype == np.float32):
            return (0,) * len(self.exponents)
        unit = _power_of_two(float(np.abs(weight).max()))
        return tuple(0 if p <= 2 and weight.dtype == np.float32 else unit for p in self.exponents)

    def each(self, weight: NDArray[Any], units: Sequence[int]) -> Iterator[Floats]:
        """|weight / 2^unit|^p for each p in turn; a result lasts until the next is asked for.

        Taking absolute values in float64 is the dearest part, so squares are made of what p = 1
        left behind.
        """
        if weight.size > len(self._buffer):
            self._buffer = np.empty(weight.size)
        out = self._buffer[: weight.size].reshape(weight.shape)
        left: tuple[float, int] | None = None  # the power and the unit of what is in the buffer
        for p, unit in zip(self.exponents, units, strict=True):
            if left != (1, unit):
                if p == 2:
                    np.copyto(out, weight)
                else:
                    np.abs(weight, out)
                if unit:
                    out *= 2.0**-unit
            if p == 2:
                np.multiply(out, out, out)
            elif p != 1:
                np.power(out, p, out)
            left = p, unit
            yield out

    def of_vector(self, vector: Tensor) -> list[tuple[Floats, float]]:
        """For each p |vector|^p as floats and the exponent of the power of two that they lack."""
        values = array(vector)
        units = self.units(values)
        powers = zip(self.exponents, units, self.each(values, units), strict=True)
        return [(power.copy(), p * unit) for p, unit, power in powers]


def distinct(keys: Iterable[Hashable]) -> tuple[list[Any], Indices]:
    """The distinct keys in order of appearance, and which of them each one is.

    >>> distinct("abca")
    (['a', 'b', 'c'], (0, 1, 2, 0))
    """
    numbers: dict[Any, int] = {}
    which = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
    return list(numbers), which


def as_map(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Any shape as channels, rows and columns."""
    if len(shape) == 1:
        return shape[0], 1, 1
    return shape[0], math.prod(shape[1:-1]), shape[-1]


def array(tensor: Tensor) -> NDArray[Any]:
    """The numbers themselves, without a copy where they are float32 or float64 on the CPU."""
    wide = tensor.dtype is torch.float32 or tensor.dtype is torch.float64
    values: NDArray[Any] = (tensor if wide else tensor.to(torch.float32)).numpy(force=True)
    return values


def _power_of_two(largest: float) -> int:
    return max(-_FAR, min(_FAR, math.frexp(largest)[1]))
