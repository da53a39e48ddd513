"""Sums over paths through a convolution: its transpose with |w|^p, on distinct rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cushion.nets.operators.path_sums import Floats, Indices, PathSums, Powers, distinct

if TYPE_CHECKING:
    from cushion.nets.operators.conv2d import Conv2d

Table = NDArray[np.intp]


def before_convolution(
    operator: Conv2d,
    weight: NDArray[Any],
    sums: Sequence[PathSums | None],
    powers: Powers,
    units: Sequence[int],
) -> list[PathSums | None]:
    """The transpose of a convolution with |w|^p, for distinct rows and columns of its input.

    First the product of every tap with every distinct output position, then for each input row the
    sum over the taps that read it, and the same for columns. A block is some of the input channels,
    of all groups.
    """
    groups, (out, inside, high, wide) = operator.groups, weight.shape
    taps = weight.reshape(groups, out // groups, inside, high, wide)
    step = max(1, 2 * powers.block // (out * high * wide))
    plans = [None if one is None else _Transposed.plan(operator, one) for one in sums]
    for start in range(0, inside, step):
        for at, power in enumerate(powers.each(taps[:, :, start : start + step], units)):
            if (plan := plans[at]) is not None:
                plan.take_in(start, power)
    return [None if plan is None else plan.sums() for plan in plans]


@dataclass(slots=True, eq=False)
class _Transposed:
    """One transposed convolution under way: its sums, who reads what, and the result so far."""

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
        """Input channels of each group from `start` on: [groups, outputs, channels, high, wide]."""
        groups, outputs, channels, high, wide = power.shape
        matrix = power.reshape(groups, outputs, -1).swapaxes(1, 2)
        products = (matrix @ self.seen).reshape(groups, channels, high, wide, *self.size)
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
