"""Operations in which no two numbers meet: the input, ReLU, reshapes, and what changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.entries import sides
from cushion.nets.operations.operation import Masked, Operation, Shape
from cushion.nets.operations.vocabulary import (
    BATCH,
    WRAPPED,
    Feature,
    Refused,
    Step,
    feature,
    traces,
)
from cushion.nets.operators.path_sums import PathSums, as_map


@dataclass(frozen=True, eq=False)
class Input(Operation):
    """Where the net begins: its node reads no other, and nobody computes it."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class ReLU(Operation):
    """max(x, 0); at exactly 0 it counts as inactive."""

    unitwise: ClassVar[bool] = True

    def __call__(self, x: Tensor) -> Tensor:
        return F.relu(x)

    def linearise(self, x: Tensor) -> tuple[Tensor, Masked]:
        return F.relu(x), Masked((x > 0).to(x.dtype))

    def decisions(self, shape: Shape) -> int:
        return math.prod(shape)


@traces(nn.ReLU, F.relu, torch.relu, "relu")
def relu(x: Any, inplace: bool = False) -> Step:
    return Step("relu", (feature(x),), lambda _: ReLU(), in_place=inplace)


traces(F.relu_, torch.relu_, "relu_")(partial(relu, inplace=True))


@traces(nn.Identity, "contiguous", "clone", "detach")
def unchanged(x: Any, *_: Any, **__: Any) -> Feature:
    """The same numbers: the net gets no node for it."""
    return feature(x)


@traces(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)
@traces(F.dropout, F.dropout2d, F.alpha_dropout, torch.dropout)
def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Feature:
    """Nothing in eval mode, which functional dropout does not know about by itself."""
    if training and p > 0:
        raise Refused("it also drops units in eval mode", "pass training=self.training")
    return feature(x)


def stochastic_depth(x: Any, p: float, mode: str, training: bool = True) -> Feature:
    """torchvision's: nothing in eval mode."""
    del mode
    return dropout(x, p, training)


WRAPPED["stochastic_depth"] = stochastic_depth


class _Reshape(Operation):
    """Each example's numbers in another shape, in row-major order."""

    unitwise: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def __call__(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], *self.output_shape(tuple(x.shape[1:])))

    def adjoint(self, t: Tensor, shape: Shape) -> Tensor:
        return t.reshape(len(t), *shape)

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        channels, height, width = as_map(shapes[0])
        values = sums.expanded().reshape(channels, height, width)
        return [PathSums(values, tuple(range(height)), tuple(range(width)), sums.exponent)]


@dataclass(frozen=True)
class Flatten(_Reshape):
    """Each example's feature map as one vector."""

    def output_shape(self, shape: Shape) -> Shape:
        return (math.prod(shape),)


@dataclass(frozen=True)
class Unflatten(_Reshape):
    """Each example's numbers as a map."""

    shape: Shape

    def output_shape(self, shape: Shape) -> Shape:
        if math.prod(shape) != math.prod(self.shape):
            raise Refused(f"it reshapes {shape} to {self.shape}", "keep all numbers")
        return self.shape

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Unflatten:
        return cls(sides(entry["shape"]))


@traces(nn.Flatten, torch.flatten, "flatten")
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Step:
    """Joins the axes start_dim..end_dim, none of them the batch."""
    return _splice(x, start_dim, end_dim, lambda old: [math.prod(old)])


@traces(nn.Unflatten, torch.unflatten, "unflatten")
def unflatten(
    x: Any, dim: int, sizes: Sequence[int] = (), unflattened_size: Sequence[int] = ()
) -> Step:
    """Splits one axis; the module has another name for the sizes."""
    return _splice(x, dim, dim, lambda _: sizes or unflattened_size)


@traces(torch.squeeze, "squeeze")
def squeeze(x: Any, dim: Any = None) -> Step:
    x = feature(x)
    if not isinstance(dim, int):
        reason = "it would drop the batch axis too when the batch has one example"
        raise Refused(reason, "use torch.flatten(x, 1)")
    return _splice(x, dim, dim, lambda old: () if old == (1,) else old)


@traces(torch.unsqueeze, "unsqueeze")
def unsqueeze(x: Any, dim: int) -> Step:
    def target(axes: Shape) -> Shape:
        at = dim % (len(axes) + 1)
        return (*axes[:at], 1, *axes[at:])

    return _reshape(x, target)


@traces(torch.reshape, "view", "reshape")
def reshape(x: Any, *sizes: Any, shape: Any = None) -> Step:
    """view and reshape, with the batch kept as the first axis."""
    if shape is not None:
        sizes = tuple(shape)
    elif len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    return _reshape(x, lambda _: sizes)


def _splice(x: Any, first: int, last: int, new: Callable[[Shape], Sequence[int]]) -> Step:
    """The axes first..last become those that `new` makes of them."""

    def target(axes: Shape) -> Shape:
        start, stop = first % len(axes), last % len(axes) + 1
        return (*axes[:start], *new(axes[start:stop]), *axes[stop:])

    return _reshape(x, target)


def _reshape(x: Any, target: Callable[[Shape], Sequence[Any]]) -> Step:
    """`target` makes the new shape of a batch from the old."""

    def build(shape: Shape) -> Operation:
        """-1 is resolved, and the batch must stay the first axis."""
        sizes = [int(size) for size in target((BATCH, *shape))]
        total = BATCH * math.prod(shape)
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = total // max(1, -math.prod(sizes))
        if len(sizes) < 2 or sizes[0] != BATCH or math.prod(sizes) != total:
            said = tuple("batch" if size == BATCH else size for size in sizes)
            before = ", ".join(map(str, ("batch", *shape)))
            raise Refused(
                f"it reshapes ({before}) to {said}, which mixes examples",
                "keep the batch as the first axis: torch.flatten(x, 1)",
            )
        return Flatten() if len(sizes) == 2 else Unflatten(tuple(sizes[1:]))

    return Step("flatten", (feature(x),), build)
