"""What every search shares: its task, the examples as it sees them, the best net so far by its
exact bound, and a smooth stand-in for the bound by which to steer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.certificates.format.inputs import Bytes, Input, fit_floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.limits import Shape
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.options import Report, SearchOptions, no_report
from cushion.data.dataset import Dataset
from cushion.numerics import kl_inverse

Judge = Callable[[IntegerNet], Decimal]
_LN2 = math.log(2.0)
_CONFIDENCE = 3.0  # nats, at δ = 0.05
_BATCH = 128
_FLOAT_BITS = 8  # of a float feature, at its finest


@dataclass(frozen=True)
class Task:
    """judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None."""

    data: Dataset
    judge: Judge
    options: SearchOptions
    teacher: Tensor | None = None
    report: Report = no_report


def image_shape(data: Dataset) -> Shape:
    """(channels, height, width); what is no image is one row of values."""
    return data.shape if len(data.shape) == 3 else (1, 1, math.prod(data.shape))


def quantiser_for(data: Dataset, shift: int) -> Input:
    """Bytes by a shift, floats as coarsely by a quantiser fitted to them (and paid)."""
    if data.x.dtype == np.uint8:
        return Bytes(shift)
    flat = np.asarray(data.x, dtype=np.float32).reshape(len(data), -1)
    return fit_floats(flat, _FLOAT_BITS - shift, alike=len(data.shape) == 3)


def constant_net(data: Dataset) -> IntegerNet:
    """Always answers the most frequent class: all weights zero, one bias."""
    shape = image_shape(data)
    bias = np.zeros(data.classes, dtype=np.int64)
    bias[np.bincount(data.y, minlength=data.classes).argmax()] = 1
    weight = np.zeros((data.classes, math.prod(shape)), dtype=np.int64)
    return IntegerNet(shape, quantiser_for(data, 7), (Dense(Grid(weight, 1), bias, 0, 0),))


@dataclass
class Sample:
    """The examples in training; batches go through all rows in a fresh order each time."""

    pixels: Tensor  # [m, channels, height, width] as the quantiser gives them
    labels: Tensor
    teacher: Tensor | None  # [m, classes] logits to imitate
    generator: torch.Generator
    quantiser: Input
    classes: int

    def __post_init__(self) -> None:
        self._order = torch.empty(0, dtype=torch.int64)

    @classmethod
    def of(cls, data: Dataset, shift: int, seed: int, teacher: Tensor | None = None) -> Self:
        """shift: how many of an input's eight bits are left unread."""
        m, quantiser = len(data), quantiser_for(data, shift)
        numbers = quantiser.read(np.asarray(data.x).reshape(m, -1), np.float32).astype(np.int16)
        pixels = torch.from_numpy(numbers).reshape(m, *image_shape(data))
        labels, generator = torch.from_numpy(np.array(data.y)), torch.Generator().manual_seed(seed)
        return cls(pixels, labels, teacher, generator, quantiser, data.classes)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> tuple[Shape, int, Input]:
        """Input shape, classes and quantiser of a net for these examples."""
        channels, height, width = self.pixels.shape[1:]
        return (channels, height, width), self.classes, self.quantiser

    def some(self) -> Tensor:
        """Rows on which steps are calibrated."""
        return self.pixels[:1024].float()

    def rows(self) -> Tensor:
        """The next batch."""
        if len(self._order) < min(len(self), _BATCH):
            self._order = torch.randperm(len(self), generator=self.generator)
        rows, self._order = self._order[:_BATCH], self._order[_BATCH:]
        return rows

    def loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Cross-entropy with the labels, half and half with the teacher's answers if it has one."""
        loss = F.cross_entropy(logits, self.labels[rows])
        if self.teacher is not None:
            loss = 0.5 * loss + 0.5 * F.cross_entropy(logits, F.softmax(self.teacher[rows], dim=1))
        return loss

    def descend(
        self,
        logits_of: Callable[[Tensor], Tensor],
        optimiser: torch.optim.Optimizer,
        price: float = 0.0,
        rate: Callable[[], Tensor] = lambda: torch.zeros(()),
        rows: Tensor | None = None,
    ) -> float:
        """One step down the loss of a batch plus price · rate; the share of it that was wrong."""
        rows = self.rows() if rows is None else rows
        logits = logits_of(self.pixels[rows].float())
        loss = self.loss(logits, rows) + price * rate()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return float((logits.detach().argmax(1) != self.labels[rows]).float().mean())


@dataclass(frozen=True)
class State:
    """A try on its way: the net, if worth judging, and the bound that it seems to have."""

    net: IntegerNet | None
    promise: float
    last: bool = False


class Judging:
    """The best net so far: at first, not `trained`, the one that always says the most frequent
    class. As a context it ends where someone interrupts, and gives torch its threads back.

    cost: seconds that the last judgement took. A search that judges only when `rested` spends at
    most about a quarter of its time on it.
    """

    def __init__(self, task: Task) -> None:
        self._judge = task.judge
        self.net = constant_net(task.data)
        self.trained = self.interrupted = False
        self.lowest = self._timed(self.net)

    def __enter__(self) -> None:
        self._threads = torch.get_num_threads()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        torch.set_num_threads(self._threads)
        self.interrupted = kind is KeyboardInterrupt
        return self.interrupted

    def _timed(self, net: IntegerNet) -> Decimal:
        begin = time.monotonic()
        bound = self._judge(net)
        self._last = time.monotonic()
        self.cost = self._last - begin
        return bound

    def rested(self) -> bool:
        return time.monotonic() - self._last > 3 * self.cost

    def hear(self, net: IntegerNet, *, first: bool = False) -> None:
        """Keep the net if it is better than the best (or with `first` the first one trained)."""
        bound = self._timed(net)
        if bound < self.lowest or (first and not self.trained):
            self.lowest, self.net, self.trained = bound, net, True


def relaxed_bound(error: float, bits: float, m: int) -> float:
    """The kl form of the bound at δ = 0.05, for steering: smooth, and close to the exact one."""
    return kl_inverse(error, (bits * _LN2 + _CONFIDENCE) / m)


def price_of_a_bit(error: float, bits: float, m: int) -> float:
    """How much error rate one bit is worth.

    >>> 1e-6 < price_of_a_bit(0.02, 2000, 60000) < 1e-4
    True
    """
    return _LN2 * price_of_a_nat(error, bits * _LN2 + _CONFIDENCE, m)


def price_of_a_nat(error: float, nats: float, m: int) -> float:
    """How much error rate one nat is worth: ∂bound/∂nats over ∂bound/∂error of the kl bound.

    >>> 1e-6 < price_of_a_nat(0.02, 2000.0, 60000) < 1e-4
    True
    """
    error = min(0.9, max(error, 1.0 / m))
    step = 0.02 * error
    here = kl_inverse(error, nats / m)
    slope = (kl_inverse(error + step, nats / m) - here) / step
    return (kl_inverse(error, (nats + 32) / m) - here) / 32 / max(slope, 1e-3)
