"""The last layer's weights improved one by one on the bound itself: exact error counts against exact code lengths.

With the layers before it fixed, scores are linear in the last layer's weights, so the error count after a change of one
weight is a comparison of features with thresholds, for all weights of a class at once. Code lengths follow from counts
alone, because the adaptive code gives the same length to any order of the same decisions. Where no single change helps,
a few weights are changed at random and the descent begins again; what is not better is taken back (iterated local
search). Training minimises cross-entropy; this minimises what is certified.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.compressors.integer.relaxation import price_of_a_bit, relaxed_bound
from cushion.compressors.integer.training import State
from cushion.encoding import symmetry as tying
from cushion.encoding.integer_net import Dense, IntegerNet
from cushion.encoding.message import encode
from cushion.encoding.sources import Grid
from cushion.errors import Malformed

Integers = NDArray[np.int64]
_STEPS = (-2, -1, 1, 2)
_KICK = 4  # weights that are changed at random where no single change helps


def polish(net: IntegerNet, x: NDArray[Any], y: Integers, seconds: float, seed: int) -> Iterator[State]:
    """Ever better nets (by the relaxed bound) with the same layers but the last, for so many seconds.

    x: [m, ...] examples as the net reads them, y: [m] labels. Gives nothing if the last layer's weights are not on a
    grid or too many.
    """
    until = time.monotonic() + seconds
    if (values := features(net, x)) is None:
        return
    layer = _LastLayer(net, values, y)
    rng = np.random.default_rng(seed)
    layer.descend(until, rng)
    best, height = layer.weight.copy(), layer.height()
    while time.monotonic() < until:
        layer.kick(rng)
        layer.descend(until, rng)
        if layer.height() > height:
            layer.reset(best.copy())
            continue
        best, height = layer.weight.copy(), layer.height()
        yield State(_with(net, best), height)
    yield State(_with(net, best), height, last=True)


def _with(net: IntegerNet, weight: Integers) -> IntegerNet:
    """The net with other weights in its last layer."""
    last = net.layers[-1]
    assert isinstance(last, Dense)
    source = Grid(weight.reshape(last.source.shape), max(1, int(np.abs(weight).max())))
    return replace(net, layers=(*net.layers[:-1], replace(last, source=source)))


def features(net: IntegerNet, x: NDArray[Any]) -> Integers | None:
    """[m, stored weights of a class]: what each weight of the last layer is multiplied with.

    None if its weights are not on a grid, or too many.
    """
    last = net.layers[-1]
    assert isinstance(last, Dense)
    if not isinstance(last.source, Grid):
        return None
    size = last.weight.shape[1]
    try:
        reader = replace(net, layers=(*net.layers[:-1], Dense(Grid(np.eye(size, dtype=np.int64), 1), None, 0, 0)))
        values = np.concatenate([reader.scores(x[i : i + 500]) for i in range(0, len(x), 500)])
    except Malformed:  # more numbers than a net may have
        return None
    if last.symmetry > 1:
        stored = last.source.shape
        place = tying.invariant(stored, last.symmetry).reshape(stored[0], -1)[0]
        summed = np.zeros((len(values), math.prod(stored[1:])), dtype=np.int64)
        for column, to in enumerate(place):
            summed[:, to] += values[:, column]
        return summed
    return values


def code_length(weight: Integers, levels: int) -> float:
    """Bits of a grid's numbers in the adaptive code: zero or not, sign, magnitude in unary (FORMAT.md, section 3)."""
    return _length(np.bincount(np.abs(weight).reshape(-1), minlength=levels + 1), int((weight < 0).sum()))


def _length(sizes: Integers, negative: int) -> float:
    """sizes: how many numbers have each magnitude."""
    above = np.cumsum(sizes[::-1])[::-1].tolist()  # how many have at least each
    total = _kt(int(sizes[0]), above[0] - int(sizes[0]))
    if len(sizes) > 1:
        total += _kt(negative, above[1] - negative)
    for size in range(1, len(sizes) - 1):
        total += _kt(int(sizes[size]), above[size] - int(sizes[size]))
    return total


def _kt(zeros: int, ones: int) -> float:
    """Bits that the Krichevsky-Trofimov estimator gives to so many zeros and ones, in any order."""
    nats = math.lgamma(zeros + ones + 1) + math.log(math.pi) - math.lgamma(zeros + 0.5) - math.lgamma(ones + 0.5)
    return nats / math.log(2.0)


class _LastLayer:
    """Weights [classes, features], scores [m, classes], errors and bits, kept in step with one another."""

    def __init__(self, net: IntegerNet, values: Integers, y: Integers) -> None:
        last = net.layers[-1]
        assert isinstance(last, Dense)
        self.m = len(y)
        self.values: NDArray[Any] = values.astype(np.int32 if net.reach < 2**30 else np.int64)
        self.top = np.abs(self.values).max(axis=1)
        self.y = y
        self.weight = last.source.numbers.reshape(len(last.source.numbers), -1).copy()
        self.levels = int(np.abs(self.weight).max())
        self.offsets = np.zeros(len(self.weight), np.int64) if last.offsets is None else last.offsets
        self.fixed = encode(net).bits - code_length(self.weight, self.levels)
        self.reset(self.weight)

    def reset(self, weight: Integers) -> None:
        self.weight = weight
        self.scores = self.values @ weight.T + self.offsets
        self.errors = self._count()
        self.bits = self.fixed + code_length(weight, self.levels)

    def _count(self) -> int:
        """Ties are errors."""
        own = self.scores[np.arange(self.m), self.y]
        return int(((self.scores >= own[:, None]).sum(axis=1) > 1).sum())

    def height(self) -> float:
        return relaxed_bound(self.errors / self.m, self.bits, self.m)

    def kick(self, rng: np.random.Generator) -> None:
        """Change some weights at random: of those in use to zero, of the others to one up or down."""
        for _ in range(_KICK):
            used = np.flatnonzero(self.weight)
            if len(used) and rng.random() < 0.5:
                at = int(rng.choice(used))
                self.weight.reshape(-1)[at] = 0
            else:
                at = int(rng.integers(self.weight.size))
                self.weight.reshape(-1)[at] = rng.choice((-1, 1))
        self.reset(self.weight)

    def descend(self, until: float, rng: np.random.Generator) -> None:
        """Best change after best change, class by class, until none helps or the time is over."""
        if self.levels == 0:
            return
        idle = 0
        order = rng.permutation(len(self.weight))
        while idle < len(order):
            label = int(order[0])
            order = np.roll(order, -1)
            idle += 1
            while time.monotonic() < until and self._improve(label):
                idle = 0
            if time.monotonic() >= until:
                return

    def _improve(self, label: int) -> bool:
        """Make the change of one weight of this class that helps most, if one does."""
        price = price_of_a_bit(self.errors / self.m, self.bits, self.m) * self.m
        row = self.weight[label]
        lengths = self._changes()
        boundary = self._boundary(label)
        columns, found = [], []
        for step in _STEPS:
            within = np.flatnonzero(np.abs(row + step) <= self.levels)
            columns.append((within, row[within] + step))
            found.append(self._more(boundary, step)[within])
        far = np.flatnonzero(np.abs(row) > max(_STEPS))  # to zero in one go
        columns.append((far, np.zeros_like(far)))
        found.append(np.array([self._more(boundary, -int(row[i]), slice(i, i + 1))[0] for i in far]))
        ats, values = (np.concatenate(part) for part in zip(*columns, strict=True))
        gain = np.concatenate(found) + price * lengths[row[ats] + self.levels, values + self.levels]
        best = int(gain.argmin())
        if gain[best] >= -1e-9:
            return False
        at, value = int(ats[best]), int(values[best])
        self.scores[:, label] += (value - row[at]) * self.values[:, at].astype(np.int64)
        self.weight[label, at] = value
        self.errors = self._count()
        self.bits = self.fixed + code_length(self.weight, self.levels)
        return True

    def _changes(self) -> NDArray[np.float64]:
        """[old, new] bits more, for every change of one weight between two values -levels..levels."""
        sizes = np.bincount(np.abs(self.weight).reshape(-1), minlength=self.levels + 1)
        negative = int((self.weight < 0).sum())
        here = _length(sizes, negative)
        found = np.zeros((2 * self.levels + 1,) * 2)
        for old in range(-self.levels, self.levels + 1):
            if not sizes[abs(old)]:
                continue
            for new in range(-self.levels, self.levels + 1):
                changed = sizes.copy()
                changed[abs(old)] -= 1
                changed[abs(new)] += 1
                signs = negative - (old < 0) + (new < 0)
                if 0 <= signs <= changed[1:].sum():
                    found[old + self.levels, new + self.levels] = _length(changed, signs) - here
        return found

    def _boundary(self, label: int) -> _Boundary:
        """Which rows a change in this class's score can turn, and where."""
        rows = np.arange(self.m)
        others = self.scores.copy()
        own = others[rows, self.y]
        others[rows, self.y] = np.iinfo(np.int64).min
        others[:, label] = np.iinfo(np.int64).min
        rival = others.max(axis=1)
        score = self.scores[:, label]
        mine = self.y == label
        up = np.flatnonzero(mine)
        down = np.flatnonzero(~mine & (own > rival))  # the other rows are wrong whatever this score is
        return _Boundary(up, (rival - score)[up], down, (own - score)[down])

    def _more(self, boundary: _Boundary, step: int, columns: slice = slice(None)) -> Integers:
        """[columns] errors more if the weight of the boundary's class in that column changes by the step.

        A row of the class is right if step·value > need; another, that no third class beats, if step·value < room. For
        whole values these are comparisons of the value itself with a rounded quotient.
        """
        right: Integers = np.zeros(self.values[:1, columns].shape[1], dtype=np.int64)
        for rows, edge, above in ((boundary.up, boundary.need, True), (boundary.down, boundary.room, False)):
            turned = np.abs(edge) <= abs(step) * self.top[rows]
            rows, edge = rows[turned], edge[turned]
            right -= int((edge < 0).sum() if above else (edge > 0).sum())
            values = self.values[rows, columns]
            if above == (step > 0):
                right += (values > (edge // step)[:, None]).sum(axis=0)
            else:
                right += (values < -(-edge // step)[:, None]).sum(axis=0)
        return -right


@dataclass(frozen=True)
class _Boundary:
    """Rows of a class with what their score lacks, and rows of others with the room that is left below theirs."""

    up: Integers
    need: Integers
    down: Integers
    room: Integers
