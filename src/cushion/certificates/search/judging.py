"""What every search for one net shares: the best so far by its exact bound, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.search.sample import constant_net
from cushion.data.dataset import Dataset

Judge = Callable[[IntegerNet], Decimal]


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

    judge: the bound of a net on this sample (encode it, count its errors exactly, invert the tail).
    cost: seconds that the last judgement took. A search that judges only when `rested` spends at
    most about a quarter of its time on it.
    """

    def __init__(self, data: Dataset, judge: Judge) -> None:
        self._judge = judge
        self.best = constant_net(data)
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
