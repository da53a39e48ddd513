"""Maxima of windows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.entries import flag, two
from cushion.nets.operations.operation import Derivative, Masked, Pair, Shape, each
from cushion.nets.operations.pooling import Adaptive, Pool, Sliding, adaptive, sliding
from cushion.nets.operations.vocabulary import Refused, Step, feature, pair, traces


class Maximum(Pool):
    """The largest value of each window."""

    @abstractmethod
    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The pooled map and, for each window, the flat index of the input that won."""

    @abstractmethod
    def most(self, shape: Shape) -> int:
        """The largest number of inputs that one maximum is taken over."""

    def linearise(self, x: Tensor) -> tuple[Tensor, Derivative]:
        pooled, chosen = self.choose(x)
        shape = tuple(x.shape[1:])
        window = self.disjoint_window(shape)
        return pooled, _Chosen(chosen, shape) if window is None else _Window(x, chosen, window)

    @property
    def selects(self) -> bool:
        return True

    def decisions(self, shape: Shape) -> int:
        """The order of every two inputs of a window."""
        return math.prod(self.output_shape(shape)) * self.most(shape) * (self.most(shape) - 1)


@dataclass(frozen=True)
class MaxPool(Sliding, Maximum):
    """The largest value of each window; padding never wins (it counts as -∞)."""

    dilation: Pair
    ceil_mode: bool

    @property
    def cut_short(self) -> bool:
        return self.ceil_mode

    @property
    def spread(self) -> Pair:
        return self.dilation

    def __call__(self, x: Tensor) -> Tensor:
        return F.max_pool2d(
            x, self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode
        )

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pooled, chosen = F.max_pool2d(
            x,
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            return_indices=True,
        )
        return pooled, chosen

    def most(self, shape: Shape) -> int:
        return math.prod(self.kernel)

    def window(self, axis: int, size: int, output: int, outputs: int) -> tuple[range, int]:
        first, gap = output * self.stride[axis] - self.padding[axis], self.dilation[axis]
        return range(first, first + self.kernel[axis] * gap, gap), 1

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """A maximum changes by at most the largest change in its window, whose square is at most
        the sum of the squares there.

        With gaps between its taps, a window may share an input with as many others as it has.
        """
        reach = zip(self.kernel, self.stride, self.dilation, strict=True)
        shared = math.prod(side if gaps > 1 else -(-side // step) for side, step, gaps in reach)
        return math.sqrt(shared), 1.0

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> MaxPool:
        return cls(*cls.read(entry), two(entry["dilation"], 1), flag(entry["ceil_mode"]))


@dataclass(frozen=True)
class AdaptiveMaxPool(Adaptive, Maximum):
    """The maxima of `output` windows that tile the map."""

    def __call__(self, x: Tensor) -> Tensor:
        return F.adaptive_max_pool2d(x, self.output)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pooled, chosen = F.adaptive_max_pool2d(x, self.output, return_indices=True)
        return pooled, chosen

    def most(self, shape: Shape) -> int:
        return math.prod(
            -(-size // out) + 1 for size, out in zip(shape[1:], self.output, strict=True)
        )

    def window(self, axis: int, size: int, output: int, outputs: int) -> tuple[range, int]:
        return self.tile(size, output, outputs), 1


class _Window(Masked):
    """A max-pool with disjoint windows: at most one input of each window passes.

    mask: [B, C, H, W], 1 where the pool takes its values.
    """

    def __init__(self, x: Tensor, chosen: Tensor, window: Pair) -> None:
        selected = torch.zeros_like(x, memory_format=torch.contiguous_format).flatten(2)
        selected = selected.scatter_(2, chosen.flatten(2), 1.0).reshape(x.shape)
        super().__init__(selected.contiguous(memory_format=torch.channels_last))
        self.window = window
        # beyond this no window reads
        self.reach = [
            length // side * side for length, side in zip(x.shape[2:], window, strict=True)
        ]

    def push(self, t: Tensor) -> Tensor:
        return each(lambda z: F.avg_pool2d(z, self.window, divisor_override=1), super().push(t))

    def pull(self, t: Tensor) -> Tensor:
        """Each value at the place of its window that won: [P, B, C, h, w] -> [P, B, C, H, W]."""
        height, width = self.reach
        mask = self.mask[:, :, :height, :width].movedim(1, 3)  # [B, h·window, w·window, C]
        (high, wide), (batch, _, _, channels) = self.window, mask.shape
        mask = mask.reshape(batch, height // high, high, width // wide, wide, channels)
        spread = t.movedim(2, 4)[:, :, :, None, :, None] * mask
        whole = spread.flatten(4, 5).flatten(2, 3).movedim(4, 2)
        missing = (self.mask.shape[2] - height, self.mask.shape[3] - width)
        return F.pad(whole, (0, missing[1], 0, missing[0])) if any(missing) else whole

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
    """Max pooling."""
    _no_indices(return_indices)
    op = MaxPool(*sliding(kernel_size, stride, padding), pair(dilation), bool(ceil_mode))
    return Step("max pool", (feature(x),), lambda _: op)


@traces(nn.AdaptiveMaxPool2d, F.adaptive_max_pool2d)
def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Step:
    """Adaptive max pooling."""
    _no_indices(return_indices)
    return adaptive("adaptive max pool", x, output_size, AdaptiveMaxPool)


def _no_indices(asked: bool) -> None:
    if asked:
        raise Refused("it also returns indices", "use return_indices=False")
