"""Rules for operations that only change shapes: the batch must stay the first axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from cushion.nets.network import Flatten, Op, Shape, Unflatten
from cushion.nets.tracing.steps import BATCH, Feature, Refused, Result, Step, feature


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Result:
    """Joins the axes start_dim..end_dim, none of them the batch."""
    x = feature(x)

    def target(shape: Shape) -> Shape:
        axes = (BATCH, *shape)
        first, last = start_dim % len(axes), end_dim % len(axes)
        return (*axes[:first], math.prod(axes[first : last + 1]), *axes[last + 1 :])

    return _reshape(x, target)


def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Result:
    """Splits one axis."""
    x = feature(x)

    def target(shape: Shape) -> Shape:
        axes = (BATCH, *shape)
        return (*axes[: dim % len(axes)], *sizes, *axes[dim % len(axes) + 1 :])

    return _reshape(x, target)


def reshape(x: Any, *sizes: Any, shape: Any = None) -> Result:
    """view and reshape, with the batch kept as the first axis."""
    x = feature(x)
    if shape is not None:
        sizes = tuple(shape)
    elif len(sizes) == 1 and not isinstance(sizes[0], int):
        sizes = tuple(sizes[0]) if isinstance(sizes[0], (tuple, list)) else sizes
    return _reshape(x, lambda _: sizes)


def squeeze(x: Any, dim: Any = None) -> Result:
    """Drops an axis of length one."""
    x = feature(x)
    if not isinstance(dim, int):
        raise Refused(
            "it would drop the batch axis too when the batch has one example",
            "use torch.flatten(x, 1)",
        )

    def target(shape: Shape) -> Shape:
        axes = (BATCH, *shape)
        at = dim % len(axes)
        return axes if axes[at] != 1 else (*axes[:at], *axes[at + 1 :])

    return _reshape(x, target)


def unsqueeze(x: Any, dim: int) -> Result:
    """Adds an axis of length one."""
    x = feature(x)

    def target(shape: Shape) -> Shape:
        axes = (BATCH, *shape)
        at = dim % (len(axes) + 1)
        return (*axes[:at], 1, *axes[at:])

    return _reshape(x, target)


def _reshape(x: Feature, target: Callable[[Shape], Sequence[Any]]) -> Result:
    def features(shape: Shape) -> Shape:
        """The new shape of one example; -1 is resolved, and the batch must stay the first axis."""
        sizes = [int(size) for size in target(shape)]
        total = BATCH * math.prod(shape)
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = total // max(1, -math.prod(sizes))
        if len(sizes) < 2 or sizes[0] != BATCH or math.prod(sizes) != total:
            said = tuple("batch" if size == BATCH else size for size in sizes)
            raise Refused(
                f"it reshapes (batch, {', '.join(map(str, shape))}) to {said}, which mixes "
                "examples",
                "keep the batch as the first axis: torch.flatten(x, 1)",
            )
        return tuple(sizes[1:])

    return Step("flatten", (x,), reshape_to(features))


def reshape_to(features: Callable[[Shape], Shape]) -> Callable[[Shape], tuple[Op, Shape]]:
    """A step's `build` for a change of each example's shape from `shape` to `features(shape)`."""

    def build(shape: Shape) -> tuple[Op, Shape]:
        wanted = features(shape)
        return (Flatten() if len(wanted) == 1 else Unflatten(wanted)), wanted

    return build
