"""Settings from gentle to strong, each trained on from the one before, until the target is passed.

First the net as it is, on grids of fewer and fewer steps (least squared error). Then rungs: some
epochs of training on the grid under a price, twice as strong from rung to rung, the learning rate
falling in each; at the end of each its file is made and its net counted. Once two rungs in a row
brought nothing, one more is tried on either side of the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.tuning.grids import least_squares_exponent, rounded
from cushion.compressors.tuning.learner import Learner, Pace, State, store
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal
from cushion.progress import Bar

_MOSTS = (127, 31, 15, 7, 3, 1)  # steps of a weight, without training
_GENTLEST, RUNGS = 2.0**-4, 11
_PATIENCE = 2
_END = 0.02  # of the learning rate, at the end of a rung
_BESIDE = 2.0**0.5

Rank = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Made:
    """One setting: what is stored of the net, for its frame without the units that are gone."""

    asked: str
    frame: Network
    stored: StoredNet


class Memory(Protocol):
    """What was climbed before a kill: the state at the end of an epoch of a rung."""

    def recall(self, rung: int) -> tuple[int, State] | None:
        """The epochs that were done of it, and where they ended."""

    def keep(self, rung: int, epochs: int, state: State) -> None: ...


@dataclass(frozen=True, eq=False)
class _Rung:
    strength: float
    start: State
    end: State
    rank: Rank


@dataclass
class Course:
    """judge: told of every setting; its rank, smaller is better. epochs: of a rung."""

    learner: Learner
    epochs: int
    judge: Callable[[Made], Rank]
    memory: Memory
    bar: Bar
    _rungs: list[_Rung] = field(default_factory=list)

    def run(self) -> None:
        """Every setting, judged; what was judged stays judged where this is interrupted."""
        start = self.learner.state()
        self._untrained(start.net)
        if not self.epochs:
            return
        ranks = []
        for number in range(RUNGS):
            start = self._climb(number, start, _GENTLEST * 2.0**number)
            ranks = [one.rank for one in self._rungs]
            if ranks.index(min(ranks)) < len(ranks) - _PATIENCE:
                break
        best = self._rungs[ranks.index(min(ranks))]
        self._climb(RUNGS, best.end, best.strength * _BESIDE)
        self._climb(RUNGS + 1, best.start, best.strength / _BESIDE)

    def _untrained(self, net: Network) -> None:
        """The net on grids of fewer and fewer steps, as long as the rank gets better."""
        best: Rank | None = None
        for most in _MOSTS:
            rank = self.judge(on_grids(net, most, self.learner.regime.seed))
            if best is not None and rank > best:
                return
            best = rank

    def _climb(self, number: int, start: State, strength: float) -> State:
        """Train for a rung, or recall that it was done; where it ended."""
        done, state = self.memory.recall(number) or (0, start)
        self.learner.take(state)
        for epoch in range(done, self.epochs):
            rate = [1 + part / self.epochs * (_END - 1) for part in (epoch, epoch + 1)]
            pace = Pace((rate[0], rate[1]), (strength, strength))
            self.learner.epoch(number * self.epochs + epoch, pace)
            if 2 * epoch < self.epochs:  # a new grid needs time to settle
                self.learner.coarsen()
            self.learner.narrow()
            self.memory.keep(number, epoch + 1, self.learner.state())
            self.bar.advance()
        end = self.learner.state()
        rank = self.judge(Made(f"strength {strength:.3g}", *self.learner.stored()))
        self._rungs.append(_Rung(strength, start, end, rank))
        return end


@torch.no_grad()
def on_grids(net: Network, most: int, seed: int) -> Made:
    """The net as it is, each weight on its grid of least squared error, clipped where that fits
    better.
    """
    exponents, changes = {}, {}
    for node in net.affine_layers:
        affine = node.affine
        if isinstance(affine.operator, Diagonal):
            continue
        exponents[node.index] = exponent = least_squares_exponent(affine.operator.weight, most)
        step = 2.0**exponent
        weight = rounded(affine.operator.weight / step, most) * step
        changes[node.index] = replace(affine, operator=affine.operator.with_weight(weight))
    stored = store(net.with_affine(changes), exponents, seed, finer=max(1, most.bit_length()))
    return Made(f"{2 * most + 1} values, untrained", *stored)
