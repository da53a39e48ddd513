"""Maxima and means of windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.operations.operation import Derivative, Masked, Operation, Pair, Shape, each
from cushion.nets.operations.selections import Permute
from cushion.nets.operations.unitwise import Unflatten, flatten
from cushion.nets.operations.vocabulary import Refused, Step, chained, feature, pair, traces
from cushion.nets.operations.windows import Adaptive, Pool, Sliding


class Maximum(Pool):
    def linearise(self, x: Tensor) -> tuple[Tensor, Derivative]:
        pooled, chosen = self.function(x, *vars(self).values(), return_indices=True)
        shape = tuple(x.shape[1:])
        window = self.disjoint_window(shape)
        return pooled, _Chosen(chosen, shape) if window is None else _Window(x, chosen, window)

    @property
    def selects(self) -> bool:
        return True

    def decisions(self, shape: Shape) -> int:
        """The order of every two inputs of a window."""
        return math.prod(self.output_shape(shape)) * self.most(shape) * (self.most(shape) - 1)

    def divisor_along(self, axis: int, size: int, places: range) -> int:
        return 1


class Mean(Pool):
    """The mean of each window, or its sum over something else."""

    linear: ClassVar[bool] = True

    def adjoint(self, t: Tensor, shape: Shape) -> Tensor:
        with torch.enable_grad():
            x = t.new_zeros((len(t), *shape), requires_grad=True)
            (adjoint,) = torch.autograd.grad(self(x), x, t)
        return adjoint

    def divisor_along(self, axis: int, size: int, places: range) -> int:
        return len(places)


@dataclass(frozen=True)
class MaxPool(Sliding, Maximum):
    """The largest value of each window; padding never wins (it counts as -∞)."""

    function: ClassVar[Callable[..., Any]] = staticmethod(F.max_pool2d)
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    ceil_mode: bool

    @property
    def spread(self) -> Pair:
        return self.dilation


@dataclass(frozen=True)
class AvgPool(Sliding, Mean):
    """The mean of each window, or its sum divided by `divisor` when that is given."""

    function: ClassVar[Callable[..., Any]] = staticmethod(F.avg_pool2d)
    kernel: Pair
    stride: Pair
    padding: Pair
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None

    def divisor_along(self, axis: int, size: int, places: range) -> int:
        if self.divisor is not None:
            return self.divisor if axis == 0 else 1
        return len(places) if self.count_include_pad else sum(0 <= at < size for at in places)

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """A map with row sums ≤ r and column sums ≤ c has ‖·‖₂ ≤ √(r·c)."""
        shared, window = self.shared(shape), math.prod(self.kernel)
        if self.divisor is not None:
            return math.sqrt(window * shared) / self.divisor, window / self.divisor
        # A window that an edge cuts short may divide by fewer entries than it has taps.
        cut = self.ceil_mode or not self.count_include_pad
        return math.sqrt(shared if cut else shared / window), 1.0


@dataclass(frozen=True)
class AdaptiveMaxPool(Adaptive, Maximum):
    function: ClassVar[Callable[..., Any]] = staticmethod(F.adaptive_max_pool2d)


@dataclass(frozen=True)
class AdaptiveAvgPool(Adaptive, Mean):
    function: ClassVar[Callable[..., Any]] = staticmethod(F.adaptive_avg_pool2d)


class _Window(Masked):
    """A max-pool with disjoint windows; mask: [B, C, H, W], 1 where the pool takes its values."""

    def __init__(self, x: Tensor, chosen: Tensor, window: Pair) -> None:
        selected = torch.zeros_like(x, memory_format=torch.contiguous_format).flatten(2)
        selected = selected.scatter_(2, chosen.flatten(2), 1.0).reshape(x.shape)
        super().__init__(selected.contiguous(memory_format=torch.channels_last))
        self.window = window

    def push(self, t: Tensor) -> Tensor:
        return each(lambda z: F.avg_pool2d(z, self.window, divisor_override=1), super().push(t))

    def pull(self, t: Tensor) -> Tensor:
        """Each value at the place of its window that won: [P, B, C, h, w] -> [P, B, C, H, W]."""
        (high, wide), (batch, channels, *whole) = self.window, self.mask.shape
        height, width = whole[0] // high * high, whole[1] // wide * wide  # no window reads beyond
        mask = self.mask[:, :, :height, :width].movedim(1, 3)  # [B, h·window, w·window, C]
        mask = mask.reshape(batch, height // high, high, width // wide, wide, channels)
        spread = t.movedim(2, 4)[:, :, :, None, :, None] * mask
        pulled = spread.flatten(4, 5).flatten(2, 3).movedim(4, 2)
        if (height, width) == (*whole,):
            return pulled
        return F.pad(pulled, (0, whole[1] - width, 0, whole[0] - height))

    pull_energy = pull


class _Chosen:
    """Any max-pool, by the index of each window's winner; windows may share a winner."""

    def __init__(self, chosen: Tensor, shape: Shape) -> None:
        self.chosen, self.shape, self.pooled = chosen.flatten(2), shape, tuple(chosen.shape[2:])

    def _indices(self, t: Tensor) -> tuple[Tensor, Tensor]:
        t = t.expand(-1, len(self.chosen), *t.shape[2:]).flatten(3)
        return t, self.chosen.expand(len(t), *self.chosen.shape)

    def push(self, t: Tensor) -> Tensor:
        t, chosen = self._indices(t)
        return torch.gather(t, 3, chosen).reshape(*t.shape[:3], *self.pooled)

    def pull(self, t: Tensor) -> Tensor:
        t, chosen = self._indices(t)
        whole = t.new_zeros((*t.shape[:3], math.prod(self.shape[1:])))
        return whole.scatter_add_(3, chosen, t).reshape(*t.shape[:3], *self.shape[1:])

    def pull_energy(self, t: Tensor) -> Tensor:
        raise AssertionError(f"windows that overlap have no closed form for {tuple(t.shape)}")


def _windows(kernel_size: Any, stride: Any, padding: Any) -> tuple[Pair, Pair, Pair]:
    """torch's options of a pooling; without a stride, windows lie side by side."""
    kernel = pair(kernel_size)
    return kernel, pair(stride) if stride not in (None, (), []) else kernel, pair(padding)


@traces(nn.MaxPool2d, F.max_pool2d, torch.max_pool2d)
def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Step:
    op = MaxPool(*_windows(kernel_size, stride, padding), pair(dilation), bool(ceil_mode))
    return _without_indices(return_indices, Step("max pool", (feature(x),), lambda _: op))


@traces(nn.AvgPool2d, F.avg_pool2d)
def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Step:
    windows = _windows(kernel_size, stride, padding)
    op = AvgPool(*windows, bool(ceil_mode), bool(count_include_pad), divisor_override)
    return Step("average pool", (feature(x),), lambda _: op)


@traces(nn.AdaptiveMaxPool2d, F.adaptive_max_pool2d)
def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Step:
    step = _adaptive("adaptive max pool", x, output_size, AdaptiveMaxPool)
    return _without_indices(return_indices, step)


@traces(nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d)
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Step:
    return _adaptive("adaptive average pool", x, output_size, AdaptiveAvgPool)


@traces(torch.mean, "mean")
def mean(x: Any, dim: Any = None, keepdim: bool = False) -> Step:
    """x.mean((2, 3)), or over any other axes but the batch."""
    return _over_axes("adaptive average pool", x, dim, keepdim, AdaptiveAvgPool)


@traces(torch.amax, "amax")
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Step:
    return _over_axes("adaptive max pool", x, dim, keepdim, AdaptiveMaxPool)


@traces(torch.max, "max")
def maximum(x: Any, dim: Any = None, keepdim: bool = False) -> tuple[Step, ...]:
    """The values; the indices that torch returns beside them lead nowhere."""
    return (amax(x, dim, keepdim),)


def _over_axes(
    role: str, x: Any, dim: Any, keepdim: bool, make: Callable[[Pair], Adaptive]
) -> Step:
    """What is left of each example after pooling whole axes: those go last, and are one window."""
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if not dims or any(not isinstance(one, int) for one in dims):
        fix = "name them, for instance x.mean((2, 3))"
        raise Refused(f"it reduces the axes {dim}", fix)
    if (known := feature(x).shape) is None:
        axes = sorted(one % 4 for one in dims)
        step = _adaptive(role, x, 1, make)
        return (
            step
            if keepdim or axes != [2, 3]
            else replace(step, then=replace(flatten(x, 1), inputs=()))
        )
    gone = sorted(one % (1 + len(known)) for one in dims)
    if gone[0] == 0:
        raise Refused("it reduces the batch axis", "keep one row for each example")
    kept = [at for at in range(1, 1 + len(known)) if at not in gone]
    if len(known) == 3 and gone == [2, 3]:
        step = _adaptive(role, x, 1, make)
        return step if keepdim else replace(step, then=replace(flatten(x, 1), inputs=()))
    left = tuple(known[at - 1] for at in kept)
    folded = (math.prod(left), 1, math.prod(known) // math.prod(left))
    shape = tuple(1 if at in gone else known[at - 1] for at in range(1, 1 + len(known)))
    builds: list[Callable[[Shape], Operation]] = [
        lambda _: Unflatten(folded),
        lambda _: make((1, 1)),
        lambda _: Unflatten(shape if keepdim else left or (1,)),
    ]
    if kept + gone != sorted(kept + gone):
        builds.insert(0, lambda _: Permute((*kept, *gone)))
    return chained(role, x, *builds)


def _along_one(pool: Callable[..., Step], x: Any, *options: Any) -> Step:
    """A pooling of (channels, places): that of an image one row high."""
    flat = (1, 1, 0, 1)  # window, stride, padding, dilation of that row
    wide = [_last(option) for option in options]
    step = pool(x, *((row, one) for row, one in zip(flat, wide, strict=False)))
    return chained(
        step.role,
        x,
        lambda shape: Unflatten((shape[0], 1, *shape[1:])),
        step.build,
        lambda shape: Unflatten((shape[0], *shape[2:])),
    )


def _last(option: Any) -> Any:
    return option if option is None or isinstance(option, int) else option[-1]


@traces(nn.MaxPool1d, F.max_pool1d, torch.max_pool1d)
def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Step:
    pool = partial(max_pool2d, ceil_mode=ceil_mode, return_indices=return_indices)
    return _along_one(pool, x, kernel_size, _last(stride) or kernel_size, padding, dilation)


@traces(nn.AvgPool1d, F.avg_pool1d)
def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Step:
    pool = partial(avg_pool2d, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
    return _along_one(pool, x, kernel_size, _last(stride) or kernel_size, padding)


@traces(nn.AdaptiveAvgPool1d, F.adaptive_avg_pool1d)
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Step:
    return _along_one(lambda x, size: adaptive_avg_pool2d(x, size), x, output_size)


@traces(nn.AdaptiveMaxPool1d, F.adaptive_max_pool1d)
def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Step:
    return _along_one(lambda x, size: adaptive_max_pool2d(x, size, return_indices), x, output_size)


def _adaptive(role: str, x: Any, output_size: Any, make: Callable[[Pair], Adaptive]) -> Step:
    """A step with one window for each output; None in `output_size` keeps the map's own side."""
    one = output_size is None or isinstance(output_size, int)
    wanted = (output_size,) * 2 if one else tuple(output_size)

    def build(shape: Shape) -> Adaptive:
        sides = zip(wanted, (*shape, 1, 1)[1:3], strict=True)
        high, wide = (have if want is None else int(want) for want, have in sides)
        return make((high, wide))

    return Step(role, (feature(x),), build)


def _without_indices(asked: bool, step: Step) -> Step:
    if asked:
        raise Refused("it also returns indices", "use return_indices=False")
    return step
