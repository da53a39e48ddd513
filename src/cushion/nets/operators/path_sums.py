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
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from cushion.nets.operators.conv2d import Conv2d

_BLOCK = 1 << 17  # weights whose powers are held at a time: 1 MB
# powers of two by which numbers are scaled at most, so that the factor itself is a normal float
_FAR = 1000

Floats = NDArray[np.float64]
Indices: TypeAlias = tuple[int, ...]
Table = NDArray[np.intp]


@dataclass(slots=True, eq=False)
class PathSums:
    """s of every unit of a map: s[c, y, x] = values[c, rows[y], columns[x]] · 2^exponent.

    Vectors are maps of one position. What is below about 2^-1000 of the largest of a map is lost.
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
        total = aligned + high.values[:, other_row][:, :, other_column]
        return PathSums(total, rows, columns, high.exponent)

    def in_range(self) -> PathSums | None:
        """The same with a largest number far from both ends of float64; None if all are zero."""
        largest = float(self.values.max())
        if 2.0**-64 < largest < 2.0**64:
            return self
        if largest == 0.0:
            return None
        power = _power_of_two(largest)
        return PathSums(self.values * 2.0**-power, self.rows, self.columns, self.exponent + power)


Sums: TypeAlias = Sequence[PathSums | None]


class Powers:
    """|w|^p in float64 for several p, block by block, in one buffer that stays in cache."""

    def __init__(self, exponents: Sequence[float]) -> None:
        self.exponents = tuple(exponents)
        self.block = _BLOCK
        self._buffer = np.empty(self.block)

    def of(self, tensor: Tensor) -> Powered:
        """Of this weight, each p with the power of two to divide by so that powers are floats."""
        wide = tensor.dtype is torch.float32 or tensor.dtype is torch.float64
        weight: NDArray[Any] = (
            (tensor if wide else tensor.to(torch.float32)).cpu().numpy(force=True)
        )
        plain = [p <= 2 and weight.dtype == np.float32 for p in self.exponents]
        scaled = weight.size and not all(plain)
        unit = _power_of_two(float(np.abs(weight).max())) if scaled else 0
        return Powered(self, weight, tuple(0 if one else unit for one in plain))

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
        powered = self.of(vector)
        return [(p.copy(), lacks) for p, lacks in zip(powered.each(), powered.lacking, strict=True)]


@dataclass(slots=True, eq=False)
class Powered:
    """The powers of one weight: |weight / 2^unit|^p."""

    powers: Powers
    weight: NDArray[Any]
    units: tuple[int, ...]

    @property
    def lacking(self) -> list[float]:
        """For each p the exponent of the power of two that the numbers lack."""
        return [p * unit for p, unit in zip(self.powers.exponents, self.units, strict=True)]

    def each(self, part: Any = ...) -> Iterator[Floats]:
        """For each p in turn that part of the weight; it lasts until the next is asked for."""
        return self.powers.each(self.weight[part], self.units)


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


def _power_of_two(largest: float) -> int:
    return max(-_FAR, min(_FAR, math.frexp(largest)[1]))


def before_convolution(operator: Conv2d, sums: Sums, powered: Powered) -> list[PathSums | None]:
    """The transpose of a convolution with |w|^p, for distinct rows and columns of its input.

    First the product of every tap with every distinct output position, then for each input row the
    sum over the taps that read it, and the same for columns. A block is some of the input channels,
    of all groups.
    """
    out, inside, high, wide = operator.weight.shape
    step = max(1, 2 * powered.powers.block // (out * high * wide))
    plans = [None if one is None else _Transposed(operator, one) for one in sums]
    for start in range(0, inside, step):
        for plan, power in zip(plans, powered.each(np.s_[:, start : start + step]), strict=True):
            if plan is not None:
                plan.take_in(start, power)
    return [None if plan is None else plan.sums() for plan in plans]


class _Transposed:
    """One transposed convolution under way: its sums, who reads what, and the result so far."""

    def __init__(self, operator: Conv2d, sums: PathSums) -> None:
        self.groups, (out, inside, *kernel) = operator.groups, operator.weight.shape
        self.size = sums.values.shape[1:]  # distinct rows and columns of the output
        # [groups, outputs of a group, distinct positions]
        self.seen = sums.values.reshape(self.groups, out // self.groups, math.prod(self.size))
        taken = operator.stride, operator.dilation, operator.padding[::2], (sums.rows, sums.columns)
        sides = zip(operator.input_shape[1:], kernel, *taken, strict=True)
        (self.down, self.rows), (self.across, self.columns) = (_readers(*side) for side in sides)
        # [groups, inputs of a group, distinct input rows, distinct input columns]
        self.result = np.empty((self.groups, inside, len(self.down), len(self.across)))

    def take_in(self, start: int, power: Floats) -> None:
        """Input channels of each group from `start` on: [outputs, channels, high, wide]."""
        channels, high, wide = power.shape[1:]
        matrix = power.reshape(*self.seen.shape[:2], channels * high * wide).swapaxes(1, 2)
        products = (matrix @ self.seen).reshape(self.groups, channels, high, wide, *self.size)
        # [groups, channels, wide, input rows, width]
        by_row = _collected(products, self.down, axis=-2)
        self.result[:, start : start + channels] = _collected(by_row, self.across, axis=-1)

    def sums(self) -> PathSums:
        return PathSums(self.result.reshape(-1, *self.result.shape[2:]), self.rows, self.columns)


def _collected(products: Floats, readers: Table, axis: int) -> Floats:
    """Σ over taps t of products[:, :, t] at readers[:, t] along `axis`; nothing for -1."""
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
    """Along one axis: the distinct output row that reads a distinct input row with a tap.

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
