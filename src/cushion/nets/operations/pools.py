"""Maxima and means of windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.operations.operation import Derivative, Masked, Pair, Shape, each
from cushion.nets.operations.unitwise import flatten
from cushion.nets.operations.vocabulary import Refused, Step, feature, pair, traces
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
    """x.mean((2, 3)): average pooling to one number a channel."""
    x = feature(x)
    axes = sorted(d % 4 for d in dim) if isinstance(dim, (tuple, list)) else dim
    if axes != [2, 3]:
        fix = "average over height and width: x.mean((2, 3))"
        raise Refused(f"it averages over the axes {dim}", fix)
    step = adaptive_avg_pool2d(x, 1)
    return step if keepdim else replace(step, then=replace(flatten(x, 1), inputs=()))


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
