"""Sums over paths, taken back through the transpose of |A|^p: the step of a path norm at one affine layer.

Let s(unit) be the sum, over all paths from that unit to an output of the net, of ∏|w|^p. What enters a layer has
(|A|^p)ᵀ s. Two things make that about as cheap as a forward pass of one example although it is in float64. Rows of a
feature map often share their sums (a pool hands every number of a window the same one, a global pool every
position), so a map is kept as its distinct rows and columns. And |w|^p is formed for a block of weights at a time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv
from torch import Tensor

from cushion.operators.conv2d import Conv2d
from cushion.operators.diagonal import Diagonal
from cushion.operators.operator import Operator

_BLOCK = 1 << 17  # weights whose powers are held at a time: 1 MB
_FAR = 1000  # powers of two by which numbers are scaled at most, so that the factor itself is a normal float

Floats = NDArray[np.float64]
Table = NDArray[np.intp]
Indices: TypeAlias = tuple[int, ...]


@dataclass(slots=True, eq=False)
class PathSums:
    """s of every unit of a feature map [C, H, W]: s[c, y, x] = values[c, rows[y], columns[x]] · 2^exponent.

    Vectors are maps of one position. A number below about 2^-1000 of the largest in its map is lost.
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
        return PathSums(aligned + high.values[:, other_row][:, :, other_column], rows, columns, high.exponent)

    def in_range(self) -> PathSums | None:
        """The same with a largest number that is far from both ends of float64; None if all are zero."""
        largest = float(self.values.max())
        if 2.0**-64 < largest < 2.0**64:
            return self
        if largest == 0.0:
            return None
        power = _power_of_two(largest)
        return PathSums(self.values * 2.0**-power, self.rows, self.columns, self.exponent + power)


class Powers:
    """|w|^p in float64, block by block, in one buffer that stays in cache; a result lasts until the next call."""

    def __init__(self, p: float) -> None:
        self.p = p
        self._buffer = np.empty(_BLOCK)

    def unit(self, weight: NDArray[Any]) -> int:
        """The power of two to divide weights by so that their p-th powers are floats; squares of float32 are."""
        if (self.p <= 2 and weight.dtype == np.float32) or not weight.size:
            return 0
        return _power_of_two(float(np.abs(weight).max()))

    def __call__(self, weight: NDArray[Any], unit: int) -> Floats:
        """|weight / 2^unit|^p."""
        if weight.size > len(self._buffer):
            self._buffer = np.empty(weight.size)
        out = self._buffer[: weight.size].reshape(weight.shape)
        if self.p == 1:
            np.abs(weight, out)
        else:
            np.copyto(out, weight)
        if unit:
            out *= 2.0**-unit
        if self.p == 1:
            return out
        if self.p == 2:
            return np.multiply(out, out, out)
        return np.power(np.abs(out, out), self.p, out)

    def of_vector(self, vector: Tensor) -> tuple[Floats, float]:
        """|vector|^p as floats and the exponent of the power of two that they lack."""
        values = _array(vector)
        unit = self.unit(values)
        return self(values, unit), self.p * unit


def sums_before(operator: Operator, sums: PathSums, powers: Powers) -> PathSums:
    """(|A|^p)ᵀ s: the sums of what enters a layer, from those of what leaves it."""
    weight = _array(operator.weight)
    unit = powers.unit(weight)
    if type(operator) is Conv2d:
        before = _before_convolution(operator, weight, sums, powers, unit)
    elif type(operator) is Diagonal:
        before = PathSums(powers(weight, unit)[:, None, None] * sums.values, sums.rows, sums.columns)
    else:
        total, each = np.zeros(weight.shape[1]), sums.values.ravel()
        step = max(1, _BLOCK // weight.shape[1])
        for start in range(0, len(weight), step):
            block = powers(weight[start : start + step], unit)
            total = dgemv(1.0, block.T, each[start : start + step], 1.0, total, overwrite_y=1)
        before = PathSums(total[:, None, None])
    before.exponent = sums.exponent + powers.p * unit
    return before


def _before_convolution(operator: Conv2d, weight: NDArray[Any], sums: PathSums, powers: Powers, unit: int) -> PathSums:
    """The transpose of a convolution with |w|^p, for the distinct rows and columns of its input only.

    First the product of every tap with every distinct output position, then for each input row the sum over the taps
    that read it, and the same for columns. A block is some of the input channels, of all groups.
    """
    groups, (out, inside, high, wide) = operator.groups, weight.shape
    _, height, width = sums.values.shape
    (above, _, left, _), (_, tall, broad) = operator.padding, operator.input_shape
    down, rows = _readers(tall, high, operator.stride[0], operator.dilation[0], above, sums.rows)
    across, columns = _readers(broad, wide, operator.stride[1], operator.dilation[1], left, sums.columns)
    taps = weight.reshape(groups, out // groups, inside, high, wide)
    seen = sums.values.reshape(groups, out // groups, height * width)
    result = np.empty((groups, inside, len(down), len(across)))
    step = max(1, 2 * _BLOCK // (out * high * wide))
    for start in range(0, inside, step):
        block = taps[:, :, start : start + step]
        matrix = powers(block, unit).reshape(groups, out // groups, -1).swapaxes(1, 2)
        products = (matrix @ seen).reshape(groups, -1, high, wide, height, width)
        by_row = _collected(products, down, axis=-2)  # [groups, channels, wide, input rows, width]
        result[:, start : start + step] = _collected(by_row, across, axis=-1)
    return PathSums(result.reshape(-1, len(down), len(across)), rows, columns)


def _collected(products: Floats, readers: Table, axis: int) -> Floats:
    """Σ over taps t of products[:, :, t], at the places readers[:, t] along `axis`; nothing for a place of -1."""
    total: Floats | None = None
    for tap, places in enumerate(readers.T):
        taken = products[:, :, tap].take(places, axis=axis, mode="clip")
        taken.swapaxes(axis, -1)[..., places < 0] = 0.0
        total = taken if total is None else np.add(total, taken, total)
    assert total is not None
    return total


@lru_cache(maxsize=256)
def _readers(size: int, taps: int, stride: int, dilation: int, before: int, seen: Indices) -> tuple[Table, Indices]:
    """Along one axis: for each distinct input row and each tap the distinct output row that reads it with that tap.

    `seen` says which distinct row each output row is; -1 stands for no output. Also returned: which distinct row each
    of the `size` input rows is.
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
