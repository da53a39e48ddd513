"""Linear operations whose outputs are each one of the inputs or 0: parts, orders, zeros around."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.entries import sides, whole
from cushion.nets.operations.operation import Operation, Shape
from cushion.nets.operations.unitwise import Unflatten
from cushion.nets.operations.vocabulary import BATCH, Refused, Step, chained, feature, traces
from cushion.nets.operators.path_sums import PathSums, as_map

PADDINGS = ("constant", "reflect", "replicate", "circular")


class Selection(Operation):
    """A subclass says in torch what it does; who reads whom follows from numbered inputs."""

    linear: ClassVar[bool] = True

    @property
    def selects(self) -> bool:
        return True

    def output_shape(self, shape: Shape) -> Shape:
        try:
            found = tuple(self(torch.empty(1, *shape, device="meta")).shape[1:])
        except (RuntimeError, IndexError, ValueError) as error:
            reason = f"it fails on a feature map of shape {shape}"
            raise Refused(reason, "check the input shape") from error
        if not found or min(found) < 1:
            raise Refused(f"nothing is left of a feature map of shape {shape}", "keep a part of it")
        return found

    def adjoint(self, t: Tensor, shape: Shape) -> Tensor:
        """Every number goes back to where it came from."""
        places, read = self._reads(shape)
        whole = t.new_zeros((len(t), math.prod(shape)))
        index = torch.from_numpy(places).to(t.device)
        taken = t.flatten(1)[:, torch.from_numpy(read).to(t.device)]
        return whole.index_add_(1, index, taken).reshape(-1, *shape)

    def feeds_one(self, shape: Shape) -> bool:
        return self._most_read(shape) <= 1

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """An input that k outputs repeat counts k times in the square."""
        return math.sqrt(self._most_read(shape)), 1.0

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        places, read = self._reads(shapes[0])
        whole = np.zeros(math.prod(shapes[0]))
        np.add.at(whole, places, sums.expanded().ravel()[read])
        channels, height, width = as_map(shapes[0])
        values = whole.reshape(channels, height, width)
        spread = tuple(range(height)), tuple(range(width))
        return [PathSums(values, *spread, sums.exponent).in_range()]

    def _most_read(self, shape: Shape) -> int:
        places, _ = self._reads(shape)
        return int(np.bincount(places).max()) if len(places) else 0

    def _reads(self, shape: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For the outputs that are no zeros: the input that each one is, and its own place."""
        return _numbered(self, shape)


@lru_cache(maxsize=64)
def _numbered(op: Selection, shape: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbers = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)  # exact below 2^53
    found = op(numbers.reshape(1, *shape)).flatten().long().numpy() - 1
    read = np.flatnonzero(found >= 0)
    return found[read], read


@dataclass(frozen=True)
class Permute(Selection):
    """The axes of each example in another order, as torch counts them with the batch: from 1."""

    order: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        return x.permute(0, *self.order).contiguous()

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Permute:
        order = tuple(whole(axis, 1) for axis in entry["order"])
        if sorted(order) != list(range(1, len(order) + 1)):
            raise ValueError("every axis once")
        return cls(order)


@dataclass(frozen=True)
class Pad(Selection):
    """Zeros around a map, or what `mode` repeats there, as F.pad counts sides from the last axis; a
    negative number crops.
    """

    sides: tuple[int, ...]
    mode: str = "constant"

    def __call__(self, x: Tensor) -> Tensor:
        return F.pad(x, self.sides, self.mode)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Pad:
        sides, mode = entry["sides"], entry["mode"]
        if mode not in PADDINGS:
            raise ValueError("no such padding")
        return cls(tuple(-whole(-z) if z < 0 else whole(z) for z in sides), mode)


@dataclass(frozen=True)
class Slice(Selection):
    """start:stop:step along each axis of an example."""

    parts: tuple[tuple[int, int, int], ...]

    def __call__(self, x: Tensor) -> Tensor:
        return x[(slice(None), *(slice(*part) for part in self.parts))]

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Slice:
        parts = ((whole(a), whole(b), whole(c, 1)) for a, b, c in entry["parts"])
        return cls(tuple(parts))


@dataclass(frozen=True)
class Nearest(Selection):
    """A larger or smaller map of the nearest numbers: torch's interpolation with mode="nearest"."""

    size: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_meta:
            return x.new_empty((*x.shape[:2], *self.size))
        return F.interpolate(x, self.size)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Nearest:
        return cls(sides(entry["size"]))


def _linear_step(role: str, x: Any, build: Callable[[Shape], Operation]) -> Step:
    return Step(role, (feature(x),), build)


def _axis(dim: Any, axes: int) -> int:
    """The axis of an example that torch calls `dim`, counted from 1; never the batch."""
    at = int(dim) % axes
    if at == 0:
        raise Refused("it touches the batch axis", "work on one example at a time")
    return at


@traces(torch.permute, "permute")
def permute(x: Any, *dims: Any) -> Step:
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims

    def build(shape: Shape) -> Permute:
        axes = [int(dim) % (1 + len(shape)) for dim in order]
        if axes[0] != 0:
            raise Refused("it moves the batch axis", "keep the batch first")
        return Permute(tuple(axes[1:]))

    return _linear_step("permute", x, build)


@traces(torch.transpose, torch.swapaxes, "transpose", "swapaxes")
def transpose(x: Any, dim0: int, dim1: int) -> Step:
    def build(shape: Shape) -> Permute:
        axes = 1 + len(shape)
        first, second = _axis(dim0, axes), _axis(dim1, axes)
        order = list(range(axes))
        order[first], order[second] = second, first
        return Permute(tuple(order[1:]))

    return _linear_step("permute", x, build)


@traces(F.pad)
def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Step:
    if mode not in PADDINGS or value not in (None, 0, 0.0):
        raise Refused(f"it pads with mode={mode!r}, value={value}", "pad with zeros")
    zeros = tuple(int(z) for z in pad)

    def build(shape: Shape) -> Pad:
        if len(zeros) > 2 * len(shape):
            raise Refused("it pads the batch axis", "pad one example at a time")
        return Pad(zeros, mode)

    return _linear_step("pad", x, build)


@traces(nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, nn.ConstantPad1d, nn.ConstantPad2d)
def zero_pad(x: Any, padding: Any, value: float = 0.0) -> Step:
    return pad(x, padding, "constant", value)


def _cut(x: Any, dim: int, start: int, stop: int) -> Step:
    """x.narrow along one axis."""

    def build(shape: Shape) -> Slice:
        at = _axis(dim, 1 + len(shape)) - 1
        parts = [(0, side, 1) for side in shape]
        parts[at] = slice(start, stop).indices(shape[at])
        return Slice(tuple(parts))

    return _linear_step("slice", x, build)


@traces(torch.narrow, "narrow")
def narrow(x: Any, dim: int, start: int, length: int) -> Step:
    return _cut(x, dim, start, start + length)


@traces(torch.chunk, "chunk")
def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Step, ...]:
    side = _side(x, dim)
    return split(x, -(-side // chunks), dim)


@traces(torch.split, "split")
def split(x: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Step, ...]:
    side, sizes = _side(x, dim), split_size_or_sections
    if isinstance(sizes, int):
        sizes = [min(sizes, side - start) for start in range(0, side, sizes)]
    ends = np.cumsum(sizes).tolist()
    return tuple(_cut(x, dim, end - size, end) for size, end in zip(sizes, ends, strict=True))


@traces(torch.unbind, "unbind")
def unbind(x: Any, dim: int = 0) -> tuple[Step, ...]:
    axes = slice(None)
    return tuple(part(x, (axes,) * dim + (at,)) for at in range(_side(x, dim)))


def _side(x: Any, dim: int) -> int:
    shape = feature(x).shape
    if shape is None:
        raise Refused("it cuts a map whose size is not known", "give the input shape")
    return shape[_axis(dim, 1 + len(shape)) - 1]


@traces(operator.getitem)
def part(x: Any, index: Any) -> Step:
    """x[...] with slices and numbers, none of them on the batch."""
    given = index if isinstance(index, tuple) else (index,)

    def cut(shape: Shape) -> tuple[Slice, Shape]:
        parts = list(given)
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            parts[at : at + 1] = [slice(None)] * (1 + len(shape) - len(parts) + 1)
        parts += [slice(None)] * (1 + len(shape) - len(parts))
        if any(type(one) not in (slice, int) for one in parts) or len(parts) > 1 + len(shape):
            raise Refused("it takes a part by other than numbers", "use x[:, a:b]")
        if type(parts[0]) is not slice or len(range(BATCH)[parts[0]]) != BATCH:
            raise Refused("it takes a part of the batch", "keep all examples: x[:, ...]")
        taken, left = [], []
        for one, side in zip(parts[1:], shape, strict=True):
            if type(one) is int:
                at = one % side
                taken.append((at, at + 1, 1))
            else:
                taken.append(one.indices(side))
                left.append(len(range(*taken[-1])))
        return Slice(tuple(taken)), tuple(left) or (1,)

    shape, cuts = feature(x).shape, lambda known: cut(known)[0]
    if shape is None or not any(type(one) is int for one in given):
        return _linear_step("slice", x, cuts)
    return chained("slice", x, cuts, lambda _: Unflatten(cut(shape)[1]))


@traces(F.interpolate, nn.Upsample, nn.UpsamplingNearest2d)
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Step:
    del align_corners, recompute_scale_factor, antialias
    if mode != "nearest":
        raise Refused(f"it interpolates with mode={mode!r}", "use mode='nearest'")

    def build(shape: Shape) -> Nearest:
        axes = len(shape) - 1
        if size is not None:
            wanted = (size,) * axes if isinstance(size, int) else tuple(int(s) for s in size)
        else:
            one = isinstance(scale_factor, (int, float))
            factors = (scale_factor,) * axes if one else tuple(scale_factor)
            wanted = tuple(
                math.floor(side * factor) for side, factor in zip(shape[1:], factors, strict=True)
            )
        return Nearest(wanted)

    return _linear_step("nearest", x, build)
