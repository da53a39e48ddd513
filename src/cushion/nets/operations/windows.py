"""The windows that a pooling's outputs read, as torch counts them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.entries import flag, two, whole
from cushion.nets.operations.operation import Operation, Pair, Shape
from cushion.nets.operators.path_sums import Floats, Indices, PathSums, distinct

# how fields of a stored description are read
_PAIR: Callable[[Any], Any] = partial(two, least=1)
_READERS: dict[str, Callable[[Any], Any]] = {
    "padding": two,
    "ceil_mode": flag,
    "count_include_pad": flag,
    "divisor": lambda value: None if value is None else whole(value, 1),
}


class Pool(Operation):
    """One number for each window of a map [channels, height, width]."""

    # torch's own, which takes the fields in their order
    function: ClassVar[Callable[..., Any]]

    def __call__(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.function(x, *vars(self).values())
        return pooled

    @abstractmethod
    def pooled(self, side: int, axis: int) -> int:
        """How many windows there are along an axis of the map; ValueError where none fits."""

    @abstractmethod
    def disjoint_window(self, shape: Shape) -> Pair | None:
        """The window if all windows lie inside the map, side by side from its corner; else None."""

    @abstractmethod
    def places(self, axis: int, size: int, output: int, outputs: int) -> range:
        """The places that an output reads along an axis, on padding too."""

    @abstractmethod
    def divisor_along(self, axis: int, size: int, places: range) -> int:
        """What a window's sum is divided by: the product of this over both axes."""

    @abstractmethod
    def most(self, shape: Shape) -> int:
        """The largest number of inputs that one output is made of."""

    @abstractmethod
    def shared(self, shape: Shape) -> int:
        """The largest number of windows that share an input."""

    def output_shape(self, shape: Shape) -> Shape:
        said = "check the input shape"
        if len(shape) != 3:
            raise BadInput(f"it pools maps (channels, height, width) but gets {shape}; {said}")
        try:
            return shape[0], *(self.pooled(side, axis) for axis, side in enumerate(shape[1:]))
        except ValueError as error:
            found = f"a feature map of shape {shape}"
            raise BadInput(f"its windows do not fit into {found}; {said}") from error

    def feeds_one(self, shape: Shape) -> bool:
        return self.disjoint_window(shape) is not None

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """A maximum or mean changes by at most the largest change in its window, whose square is
        at most the sum of the squares there.
        """
        return math.sqrt(self.shared(shape)), 1.0

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        _, height, width = shapes[0]
        down, rows = _weights(self, 0, height, sums.rows, p)
        across, columns = _weights(self, 1, width, sums.columns, p)
        return [PathSums(down @ (sums.values @ across.T), rows, columns, sums.exponent).in_range()]

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Operation:
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return cls(*(_READERS.get(name, _PAIR)(entry[name]) for name in names))


@lru_cache(maxsize=256)
def _weights(op: Pool, axis: int, size: int, seen: Indices, p: float) -> tuple[Floats, Indices]:
    """Along one axis: weight^p between each distinct input row and each distinct output row.

    The weight of a place in a window is the product of those along its two axes. `seen` says which
    distinct row each output row is, and output rows that share their sums are added up. Also
    returned: which distinct row each of the `size` input rows is.
    """
    weights = np.zeros((size, max(seen) + 1))
    for output, row in enumerate(seen):
        places = op.places(axis, size, output, len(seen))
        inside = [place for place in places if 0 <= place < size]
        weights[inside, row] += float(op.divisor_along(axis, size, places)) ** -p
    found, which = distinct(map(tuple, weights.tolist()))
    return np.array(found), which


class Sliding(Pool):
    """Windows of one size, at every stride; with `ceil_mode` also those that the map cuts short."""

    kernel: Pair
    stride: Pair
    padding: Pair
    ceil_mode: bool

    @property
    def spread(self) -> Pair:
        """torch's dilation."""
        return 1, 1

    def pooled(self, side: int, axis: int) -> int:
        """No window begins in the padding behind the map (as in torch)."""
        stride, padding = self.stride[axis], self.padding[axis]
        extent = self.spread[axis] * (self.kernel[axis] - 1) + 1
        count = (side + 2 * padding - extent + (stride - 1 if self.ceil_mode else 0)) // stride + 1
        if (count - 1) * stride >= side + padding:
            count -= 1
        if 2 * padding > extent or count < 1:
            raise ValueError("a window does not fit")
        return count

    def disjoint_window(self, shape: Shape) -> Pair | None:
        beside = self.kernel == self.stride and self.padding == (0, 0) and self.spread == (1, 1)
        fits = not any(side % size for side, size in zip(shape[1:], self.kernel, strict=True))
        return self.kernel if beside and (fits or not self.ceil_mode) else None

    def places(self, axis: int, size: int, output: int, outputs: int) -> range:
        """With ceil_mode the last window may reach beyond the padding, which never counts."""
        first, gap = output * self.stride[axis] - self.padding[axis], self.spread[axis]
        return range(first, min(first + self.kernel[axis] * gap, size + self.padding[axis]), gap)

    def most(self, shape: Shape) -> int:
        return math.prod(self.kernel)

    def shared(self, shape: Shape) -> int:
        """With gaps between its taps, a window may share an input with as many as it has."""
        reach = zip(self.kernel, self.stride, self.spread, strict=True)
        return math.prod(side if gaps > 1 else -(-side // step) for side, step, gaps in reach)


@dataclass(frozen=True)
class Adaptive(Pool):
    """`output` windows that tile the map, as torch.nn.AdaptiveAvgPool2d cuts them."""

    output: Pair

    def pooled(self, side: int, axis: int) -> int:
        return self.output[axis]

    def disjoint_window(self, shape: Shape) -> Pair | None:
        (height, width), (high, wide) = shape[1:], self.output
        return None if height % high or width % wide else (height // high, width // wide)

    def places(self, axis: int, size: int, output: int, outputs: int) -> range:
        return range(output * size // outputs, -(-(output + 1) * size // outputs))

    def most(self, shape: Shape) -> int:
        sides = zip(shape[1:], self.output, strict=True)
        return math.prod(-(-side // out) + 1 for side, out in sides)

    def shared(self, shape: Shape) -> int:
        """1 where windows are disjoint."""
        sides = zip(shape[1:], self.output, strict=True)
        return math.prod(1 if side % out == 0 else -(-out // side) + 1 for side, out in sides)
