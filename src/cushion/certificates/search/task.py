"""What every search shares: its task, the best net so far by its exact bound, and a smooth stand-in
for the bound by which to steer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.inputs import Bytes, Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Layer
from cushion.certificates.format.limits import MOST_WEIGHTS
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.options import Report, SearchOptions, no_report
from cushion.certificates.search.pausing import Paused
from cushion.certificates.search.sizes import image_shape
from cushion.data.dataset import Dataset
from cushion.numerics import kl_inverse

Judge = Callable[[IntegerNet], Decimal]
_LN2 = math.log(2.0)
_CONFIDENCE = 3.0  # nats, at δ = 0.05
_MOST_STRIDE = 1024  # of a convolution


@dataclass(frozen=True)
class Place:
    """Where in a search a try begins: how many went before it, and how long they took."""

    tries: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Start:
    """What a search that was killed had found, and where its last try began."""

    net: IntegerNet
    place: Place


Keep = Callable[[IntegerNet, Place], None]


def forget(net: IntegerNet, place: Place) -> None:
    """Keeps nothing."""


@dataclass(frozen=True)
class Task:
    """judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None.

    start: from where a search goes on that was killed. keep: told every new best. paused: the try
    that was under way then. pause: told now and then how far the one under way has come.
    """

    data: Dataset
    judge: Judge
    options: SearchOptions
    teacher: Tensor | None = None
    report: Report = no_report
    start: Start | None = None
    keep: Keep = forget
    paused: Paused | None = None
    pause: Callable[[Paused], None] | None = None


def constant_net(data: Dataset) -> IntegerNet:
    """Always answers the most frequent class: all weights zero, one bias.

    Where a dense layer over all inputs is more than a net may have, convolutions of one weight
    before it leave most of them out.
    """
    shape = before = image_shape(data)
    layers: list[Layer] = []
    while (math.prod(before) + 1) * data.classes > MOST_WEIGHTS:
        stride = min(_MOST_STRIDE, max(before[1:]))
        layers.append(Conv(Grid(np.zeros((1, before[0], 1, 1), np.int64), 1), None, 0, 0, stride))
        before = (1, -(-before[1] // stride), -(-before[2] // stride))
    bias = np.zeros(data.classes, dtype=np.int64)
    bias[np.bincount(data.y, minlength=data.classes).argmax()] = 1
    weight = np.zeros((data.classes, math.prod(before)), dtype=np.int64)
    layers.append(Dense(Grid(weight, 1), bias, 0, 0))
    unread = Bytes(7) if data.x.dtype == np.uint8 else Floats(1, (0,), (0,))
    return IntegerNet(shape, unread, tuple(layers))


@dataclass(frozen=True)
class State:
    """A try on its way: the net, if worth judging, and the bound that it seems to have."""

    net: IntegerNet | None
    promise: float
    last: bool = False


class Judging:
    """The best net so far: at first, not `trained`, the one that always says the most frequent
    class, or what a search that was killed had found. As a context it ends where someone
    interrupts, and gives torch its threads back.

    cost: seconds that the last judgement took. A search that judges only when `rested` spends at
    most about a quarter of its time on it.
    """

    def __init__(self, task: Task) -> None:
        self._judge, self._keep = task.judge, task.keep
        self.net = constant_net(task.data)
        self.trained = self.interrupted = False
        self.lowest = self._timed(self.net)
        self.place = Place() if task.start is None else task.start.place
        if task.start is not None:
            self.hear(task.start.net)

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
            self._keep(net, self.place)

    def begin(self, place: Place) -> None:
        """A try begins: a search that is killed in it resumes from here."""
        self.place = place
        if self.trained:
            self._keep(self.net, place)


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
