"""Means of windows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.entries import flag, whole
from cushion.nets.operations.operation import Pair, Shape, each
from cushion.nets.operations.pooling import Adaptive, Pool, Sliding, adaptive, sliding
from cushion.nets.operations.reshapes import flatten
from cushion.nets.operations.vocabulary import Refused, Step, feature, traces


class Mean(Pool):
    """The mean of each window, or its sum over something else: linear."""

    @abstractmethod
    def divisor_of(self, window: Pair) -> int:
        """What the sum of a window that lies inside the map is divided by."""

    def linearise(self, x: Tensor) -> tuple[Tensor, _Averaged]:
        return self(x), _Averaged(self, tuple(x.shape[1:]))

    def decisions(self, shape: Shape) -> int:
        return 0


@dataclass(frozen=True)
class AvgPool(Sliding, Mean):
    """The mean of each window, or its sum divided by `divisor` when that is given."""

    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None

    @property
    def cut_short(self) -> bool:
        return self.ceil_mode

    def __call__(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(
            x,
            self.kernel,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor,
        )

    def divisor_of(self, window: Pair) -> int:
        return self.divisor or math.prod(window)

    def window(self, axis: int, size: int, output: int, outputs: int) -> tuple[range, int]:
        """With ceil_mode the last window may reach beyond the padding, which never counts."""
        first = output * self.stride[axis] - self.padding[axis]
        places = range(first, min(first + self.kernel[axis], size + self.padding[axis]))
        if self.divisor is not None:
            return places, self.divisor if axis == 0 else 1
        inside = sum(0 <= place < size for place in places)
        return places, len(places) if self.count_include_pad else inside

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """A map with row sums ≤ r and column sums ≤ c has ‖·‖₂ ≤ √(r·c)."""
        taps = zip(self.kernel, self.stride, strict=True)
        shared = math.prod(-(-side // step) for side, step in taps)
        window = math.prod(self.kernel)
        if self.divisor is not None:
            return math.sqrt(window * shared) / self.divisor, window / self.divisor
        # A window that an edge cuts short may divide by fewer entries than it has taps.
        cut = self.ceil_mode or not self.count_include_pad
        return math.sqrt(shared if cut else shared / window), 1.0

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> AvgPool:
        divisor = None if entry["divisor"] is None else whole(entry["divisor"], 1)
        flags = flag(entry["ceil_mode"]), flag(entry["count_include_pad"])
        return cls(*cls.read(entry), *flags, divisor)


@dataclass(frozen=True)
class AdaptiveAvgPool(Adaptive, Mean):
    """The means of `output` windows that tile the map."""

    def __call__(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, self.output)

    def divisor_of(self, window: Pair) -> int:
        return math.prod(window)

    def window(self, axis: int, size: int, output: int, outputs: int) -> tuple[range, int]:
        places = self.tile(size, output, outputs)
        return places, len(places)


class _Averaged:
    """An average pool is its own derivative."""

    def __init__(self, op: Mean, shape: Shape) -> None:
        self.op, self.shape = op, shape

    def push(self, t: Tensor) -> Tensor:
        return each(self.op, t)

    def pull(self, t: Tensor) -> Tensor:
        return each(self._adjoint, t)

    def _adjoint(self, t: Tensor) -> Tensor:
        with torch.enable_grad():
            x = torch.zeros(
                (len(t), *self.shape), dtype=t.dtype, device=t.device, requires_grad=True
            )
            (adjoint,) = torch.autograd.grad(self.op(x), x, t)
        return adjoint

    def pull_energy(self, t: Tensor) -> Tensor:
        window = self.op.disjoint_window(self.shape)
        assert window is not None
        return self.pull(t) / self.op.divisor_of(window)


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
    """Average pooling."""
    window = sliding(kernel_size, stride, padding)
    op = AvgPool(*window, bool(ceil_mode), bool(count_include_pad), divisor_override)
    return Step("average pool", (feature(x),), lambda _: op)


@traces(nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d)
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Step:
    """Adaptive average pooling."""
    return adaptive("adaptive average pool", x, output_size, AdaptiveAvgPool)


@traces(torch.mean, "mean")
def mean(x: Any, dim: Any = None, keepdim: bool = False) -> Step:
    """x.mean((2, 3)): average pooling to one number a channel."""
    x = feature(x)
    axes = sorted(d % 4 for d in dim) if isinstance(dim, (tuple, list)) else dim
    if axes != [2, 3]:
        raise Refused(
            f"it averages over the axes {dim}", "average over height and width: x.mean((2, 3))"
        )
    step = adaptive_avg_pool2d(x, 1)
    return step if keepdim else replace(step, then=replace(flatten(x, 1), inputs=()))
