"""Sums over paths, taken back through the transpose of |A|^p: the step of a path norm at one affine
layer.

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
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv
from torch import Tensor

from cushion.nets.operators.conv2d import Conv2d
from cushion.nets.operators.diagonal import Diagonal
from cushion.nets.operators.linear import Linear
from cushion.nets.operators.operator import Operator

_BLOCK = 1 << 17  # weights whose powers are held at a time: 1 MB
# powers of two by which numbers are scaled at most, so that the factor itself is a normal float
_FAR = 1000

Floats = NDArray[np.float64]
Table = NDArray[np.intp]
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
        """The same with a largest number that is far from both ends of float64; None if all are
        zero.
        """
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
        self._buffer = np.empty(_BLOCK)

    def units(self, weight: NDArray[Any]) -> tuple[int, ...]:
        """For each p the power of two to divide weights by so that their powers are floats; squares
        of float32 are.
        """
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
        values = _array(vector)
        units = self.units(values)
        powers = zip(self.exponents, units, self.each(values, units), strict=True)
        return [(power.copy(), p * unit) for p, unit, power in powers]


def sums_before(
    operator: Operator, sums: Sequence[PathSums | None], powers: Powers
) -> list[PathSums | None]:
    """(|A|^p)ᵀ s for each p: the sums of what enters a layer, from those of what leaves it; None
    stays None.
    """
    weight = _array(operator.weight)
    units = powers.units(weight)
    if type(operator) is Conv2d:
        before = _before_convolution(operator, weight, sums, powers, units)
    elif type(operator) is Diagonal:
        before = [
            one and PathSums(power[:, None, None] * one.values, one.rows, one.columns)
            for one, power in zip(sums, powers.each(weight, units), strict=True)
        ]
    elif type(operator) is not Linear:
        before = [
            one and _by_adjoint(operator, one, power)
            for one, power in zip(sums, powers.each(weight, units), strict=True)
        ]
    else:
        totals = [np.zeros(weight.shape[1]) for _ in sums]
        step = max(1, _BLOCK // weight.shape[1])
        for start in range(0, len(weight), step):
            for at, block in enumerate(powers.each(weight[start : start + step], units)):
                if (one := sums[at]) is not None:
                    part = one.values.ravel()[start : start + step]
                    totals[at] = dgemv(1.0, block.T, part, 1.0, totals[at], overwrite_y=1)
        before = [
            one and PathSums(total[:, None, None]) for one, total in zip(sums, totals, strict=True)
        ]
    for one, found, p, unit in zip(sums, before, powers.exponents, units, strict=True):
        if one is not None and found is not None:
            found.exponent = one.exponent + p * unit
    return before


def _by_adjoint(operator: Operator, sums: PathSums, power: Floats) -> PathSums:
    """Any map, by its own adjoint: what is left of a layer that was compressed to something
    else.
    """
    positive = operator.with_weight(torch.from_numpy(power.copy()))
    whole = positive.adjoint(torch.from_numpy(sums.expanded().reshape(1, *operator.output_shape)))[
        0
    ].numpy()
    values = whole.reshape(len(whole), *(whole.shape[1:] or (1, 1)))
    return PathSums(values, tuple(range(values.shape[1])), tuple(range(values.shape[2])))


def _before_convolution(
    operator: Conv2d,
    weight: NDArray[Any],
    sums: Sequence[PathSums | None],
    powers: Powers,
    units: Sequence[int],
) -> list[PathSums | None]:
    """The transpose of a convolution with |w|^p, for the distinct rows and columns of its input
    only.

    First the product of every tap with every distinct output position, then for each input row the
    sum over the taps that read it, and the same for columns. A block is some of the input channels,
    of all groups.
    """
    groups, (out, inside, high, wide) = operator.groups, weight.shape
    taps = weight.reshape(groups, out // groups, inside, high, wide)
    step = max(1, 2 * _BLOCK // (out * high * wide))
    plans = [None if one is None else _Transposed.plan(operator, one) for one in sums]
    for start in range(0, inside, step):
        for at, power in enumerate(powers.each(taps[:, :, start : start + step], units)):
            if (plan := plans[at]) is not None:
                plan.take_in(start, power)
    return [None if plan is None else plan.sums() for plan in plans]


@dataclass(slots=True, eq=False)
class _Transposed:
    """One transposed convolution under way: its sums, who reads what along either axis, and the
    result so far.
    """

    seen: Floats  # [groups, outputs of a group, distinct positions]
    size: tuple[int, int]  # distinct rows and columns of the output
    down: Table
    rows: Indices
    across: Table
    columns: Indices
    result: Floats  # [groups, inputs of a group, distinct input rows, distinct input columns]

    @classmethod
    def plan(cls, operator: Conv2d, sums: PathSums) -> _Transposed:
        groups, (out, inside, high, wide) = operator.groups, operator.weight.shape
        _, height, width = sums.values.shape
        (above, _, left, _), (_, tall, broad) = operator.padding, operator.input_shape
        down, rows = _readers(
            tall, high, operator.stride[0], operator.dilation[0], above, sums.rows
        )
        across, columns = _readers(
            broad, wide, operator.stride[1], operator.dilation[1], left, sums.columns
        )
        seen = sums.values.reshape(groups, out // groups, height * width)
        result = np.empty((groups, inside, len(down), len(across)))
        return cls(seen, (height, width), down, rows, across, columns, result)

    def take_in(self, start: int, power: Floats) -> None:
        """The input channels of each group from `start` on: power is [groups, outputs, channels,
        high, wide].
        """
        groups, outputs, channels, high, wide = power.shape
        matrix = power.reshape(groups, outputs, -1).swapaxes(1, 2)
        products = (matrix @ self.seen).reshape(groups, channels, high, wide, *self.size)
        by_row = _collected(
            products, self.down, axis=-2
        )  # [groups, channels, wide, input rows, width]
        self.result[:, start : start + channels] = _collected(by_row, self.across, axis=-1)

    def sums(self) -> PathSums:
        return PathSums(self.result.reshape(-1, *self.result.shape[2:]), self.rows, self.columns)


def _collected(products: Floats, readers: Table, axis: int) -> Floats:
    """Σ over taps t of products[:, :, t], at the places readers[:, t] along `axis`; nothing for a
    place of -1.
    """
    total: Floats | None = None
    for tap, places in enumerate(readers.T):
        taken = products[:, :, tap].take(places, axis=axis, mode="clip")
        taken.swapaxes(axis, -1)[..., places < 0] = 0.0
        total = taken if total is None else np.add(total, taken, total)
    assert total is not None
    return total


@lru_cache(maxsize=256)
def _readers(
    size: int, taps: int, stride: int, dilation: int, before: int, seen: Indices
) -> tuple[Table, Indices]:
    """Along one axis: for each distinct input row and each tap the distinct output row that reads
    it with that tap.

    `seen` says which distinct row each output row is; -1 stands for no output. Also returned: which
    distinct row each of the `size` input rows is.
    """
    readers = [[-1] * taps for _ in range(size)]
    for tap in range(taps):
        for output, row in enumerate(seen):
            place = output * stride + tap * dilation - before
            if 0 <= place < size:
                readers[place][tap] = row
    found, which = distinct(map(tuple, readers))
    return np.array(found), which


def distinct(keys: Iterable[Hashable]) -> tuple[list[Any], Indices]:
    """The distinct keys in order of appearance, and which of them each one is.

    >>> distinct("abca")
    (['a', 'b', 'c'], (0, 1, 2, 0))
    """
    numbers: dict[Any, int] = {}
    which = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
    return list(numbers), which


def _array(tensor: Tensor) -> NDArray[Any]:
    """The numbers themselves, without a copy where they are float32 or float64 on the CPU."""
    wide = tensor.dtype is torch.float32 or tensor.dtype is torch.float64
    values: NDArray[Any] = (tensor if wide else tensor.to(torch.float32)).numpy(force=True)
    return values


def _power_of_two(largest: float) -> int:
    return max(-_FAR, min(_FAR, math.frexp(largest)[1]))
