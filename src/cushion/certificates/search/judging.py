"""What every search for one net shares: its task, the best so far by its exact bound, and a smooth
stand-in for the bound by which to steer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from torch import Tensor

from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.search.options import Report, SearchOptions, no_report
from cushion.certificates.search.sample import constant_net
from cushion.data.dataset import Dataset
from cushion.numerics import kl_inverse

Judge = Callable[[IntegerNet], Decimal]
_LN2 = math.log(2.0)
_CONFIDENCE = 3.0  # nats, at δ = 0.05


@dataclass(frozen=True)
class Task:
    """judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None."""

    data: Dataset
    judge: Judge
    options: SearchOptions
    teacher: Tensor | None = None
    report: Report = no_report


@dataclass(frozen=True)
class Found:
    """The best net, whether it was trained (else it always gives the most frequent class), and
    whether someone ended the search before its time.
    """

    net: IntegerNet
    trained: bool
    interrupted: bool


class Judging:
    """The best net so far: at first the one that always says the most frequent class.

    cost: seconds that the last judgement took. A search that judges only when `rested` spends at
    most about a quarter of its time on it.
    """

    def __init__(self, task: Task) -> None:
        self._judge = task.judge
        self.best = constant_net(task.data)
        self.trained = False
        self.lowest = self._timed(self.best)

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
            self.lowest, self.best, self.trained = bound, net, True

    def found(self, interrupted: bool) -> Found:
        return Found(self.best, self.trained, interrupted)


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
