"""What poolings share: the windows that their outputs read, and torch's way of counting those."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cushion.errors import BadInput
from cushion.nets.entries import two
from cushion.nets.operations.operation import Operation, Pair, Shape
from cushion.nets.operations.vocabulary import Step, feature, pair
from cushion.nets.operators.path_sums import Floats, Indices, PathSums, distinct


class Pool(Operation):
    """One number for each window of a map [channels, height, width]."""

    @abstractmethod
    def pooled(self, side: int, axis: int) -> int:
        """How many windows there are along an axis of the map; ValueError where none fits."""

    @abstractmethod
    def disjoint_window(self, shape: Shape) -> Pair | None:
        """The window if all windows lie inside the map, side by side from its corner; else None."""

    @abstractmethod
    def window(self, axis: int, size: int, output: int, outputs: int) -> tuple[range, int]:
        """The places that an output reads along an axis, on padding too, and the axis' divisor."""

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) != 3:
            raise BadInput(
                f"it pools maps (channels, height, width) but gets {shape}; check the input shape"
            )
        try:
            return shape[0], *(self.pooled(side, axis) for axis, side in enumerate(shape[1:]))
        except ValueError as error:
            raise BadInput(
                f"its windows do not fit into a feature map of shape {shape}; check the input shape"
            ) from error

    def feeds_one(self, shape: Shape) -> bool:
        return self.disjoint_window(shape) is not None

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        _, height, width = shapes[0]
        down, rows = _windows(self, 0, height, sums.rows, p)
        across, columns = _windows(self, 1, width, sums.columns, p)
        return [PathSums(down @ (sums.values @ across.T), rows, columns, sums.exponent).in_range()]


@lru_cache(maxsize=256)
def _windows(op: Pool, axis: int, size: int, seen: Indices, p: float) -> tuple[Floats, Indices]:
    """Along one axis: weight^p between each distinct input row and each distinct output row.

    The weight of a place in a window is the product of those along its two axes. `seen` says which
    distinct row each output row is, and output rows that share their sums are added up. Also
    returned: which distinct row each of the `size` input rows is.
    """
    weights = np.zeros((size, max(seen) + 1))
    for output, row in enumerate(seen):
        places, divisor = op.window(axis, size, output, len(seen))
        weights[[place for place in places if 0 <= place < size], row] += float(divisor) ** -p
    found, which = distinct(map(tuple, weights.tolist()))
    return np.array(found), which


@dataclass(frozen=True)
class Sliding(Pool):
    """Windows of one size, at every stride; with `ceil_mode` also those that the map cuts short."""

    kernel: Pair
    stride: Pair
    padding: Pair

    @property
    @abstractmethod
    def cut_short(self) -> bool:
        """torch's ceil_mode."""

    @property
    def spread(self) -> Pair:
        """torch's dilation."""
        return 1, 1

    def pooled(self, side: int, axis: int) -> int:
        """No window begins in the padding behind the map (as in torch)."""
        stride, padding = self.stride[axis], self.padding[axis]
        extent = self.spread[axis] * (self.kernel[axis] - 1) + 1
        count = (side + 2 * padding - extent + (stride - 1 if self.cut_short else 0)) // stride + 1
        if (count - 1) * stride >= side + padding:
            count -= 1
        if 2 * padding > extent or count < 1:
            raise ValueError("a window does not fit")
        return count

    def disjoint_window(self, shape: Shape) -> Pair | None:
        beside = self.kernel == self.stride and self.padding == (0, 0) and self.spread == (1, 1)
        fits = not any(side % size for side, size in zip(shape[1:], self.kernel, strict=True))
        return self.kernel if beside and (fits or not self.cut_short) else None

    @staticmethod
    def read(entry: dict[str, Any]) -> tuple[Pair, Pair, Pair]:
        """Kernel, stride and padding of a description."""
        return two(entry["kernel"], 1), two(entry["stride"], 1), two(entry["padding"])


@dataclass(frozen=True)
class Adaptive(Pool):
    """`output` windows that tile the map, as torch.nn.AdaptiveAvgPool2d cuts them."""

    output: Pair

    def pooled(self, side: int, axis: int) -> int:
        return self.output[axis]

    def disjoint_window(self, shape: Shape) -> Pair | None:
        (height, width), (high, wide) = shape[1:], self.output
        return None if height % high or width % wide else (height // high, width // wide)

    def tile(self, size: int, output: int, outputs: int) -> range:
        """The places of one output along an axis."""
        return range(output * size // outputs, -(-(output + 1) * size // outputs))

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """ℓ2 from the number of windows that share an input, which is 1 where they are disjoint."""
        sides = zip(shape[1:], self.output, strict=True)
        shared = math.prod(1 if side % out == 0 else -(-out // side) + 1 for side, out in sides)
        return math.sqrt(shared), 1.0

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: Any) -> Adaptive:
        return cls(two(entry["output"], 1))


def sliding(kernel_size: Any, stride: Any, padding: Any) -> tuple[Pair, Pair, Pair]:
    """torch's options of a pooling; without a stride, windows lie side by side."""
    kernel = pair(kernel_size)
    return kernel, pair(stride) if stride not in (None, (), []) else kernel, pair(padding)


def adaptive(role: str, x: Any, output_size: Any, make: Callable[[Pair], Adaptive]) -> Step:
    """A step with one window for each output; None in `output_size` keeps the map's own side."""
    one = output_size is None or isinstance(output_size, int)
    wanted = (output_size,) * 2 if one else tuple(output_size)

    def build(shape: Shape) -> Adaptive:
        high, wide = (
            have if want is None else int(want)
            for want, have in zip(wanted, (*shape, 1, 1)[1:3], strict=True)
        )
        return make((high, wide))

    return Step(role, (feature(x),), build)
