"""The last layer's numbers improved one by one on the bound itself: exact error counts against
exact code lengths.

With the layers before it fixed, scores are linear in the last layer's weights and biases, so the
error count after a change of one number is a comparison of features with thresholds, for all
weights of a class at once. Where no single change helps, a few weights are changed at random and
the descent begins again; what is not better is taken back (iterated local search). Training
minimises cross-entropy; this minimises what is certified.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.arithmetic import bias_length, counted_length, grid_length
from cushion.certificates.format.evaluation import for_each
from cushion.certificates.format.integer_net import BATCH_VALUES, IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import encode
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.task import State, price_of_a_bit, relaxed_bound
from cushion.errors import Malformed

Integers = NDArray[np.int64]
_STEPS = (-2, -1, 1, 2)
_BIAS_STEPS = np.array([step for step in range(-8, 9) if step])
_KICK = 4  # numbers that are changed at random where no single change helps
_FINER, _COARSER = 4, 2  # powers of two by which other bias steps are tried
_MANY_TIES = 0.01
_MOST_SAVED = 20.0  # bits, by one smaller bias
_STEP_AGAIN = 0.15  # of all kicks
_HELD = 2**25  # numbers of features and scores, for which rows are left out


def polish(
    net: IntegerNet, x: NDArray[Any], y: Integers, seconds: float, seed: int
) -> Iterator[State]:
    """Ever better nets (by the relaxed bound) with another last layer, for so many seconds.

    x: [m, ...] examples as the net reads them, y: [m] labels; where they are many, a part of them
    is looked at. Gives nothing if the last layer's weights are not on a grid or too many.
    """
    until = time.monotonic() + seconds
    last, m = net.layers[-1], len(y)
    assert isinstance(last, Dense)
    step = -(-m * (math.prod(last.source.shape[1:]) + 2 * net.classes) // _HELD)
    values = features(net, x[:: max(1, step)])
    if values is None or time.monotonic() >= until:
        return
    layer = LastLayer(net, values, np.asarray(y[:: max(1, step)]), m)
    rng = np.random.default_rng(seed)
    layer.choose_step(until)
    layer.descend(until, rng)
    best, height = layer.with_numbers(net), layer.height()
    numbers = layer.numbers
    while time.monotonic() < until:
        layer.reset(numbers)
        # weights may have become so small that another step is better
        if rng.random() < _STEP_AGAIN:
            layer.choose_step(until)
        else:
            layer.kick(rng)
        layer.descend(until, rng)
        if layer.height() <= height:
            best, height, numbers = layer.with_numbers(net), layer.height(), layer.numbers
            yield State(best, height)
    yield State(best, height, last=True)


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
        each = np.eye(max(2, size), size, dtype=np.int64)  # a net has two scores at least
        reader = replace(net, layers=(*net.layers[:-1], Dense(Grid(each, 1), None, 0, 0)))
        widest = max(math.prod(net.input_shape), *(stage.patches for stage in reader.stages))
        batch = max(1, min(500, BATCH_VALUES // widest))
        values = np.empty((len(x), size), dtype=np.int64)

        def read(start: int) -> None:
            part = np.asarray(x[start : start + batch])
            values[start : start + batch] = reader.scores(part)[:, :size]

        for_each(range(0, len(x), batch), read, batch * widest, progress=False)
    except Malformed:  # more numbers than a net may have
        return None
    if last.symmetry == 1:
        return values
    summed = np.zeros((math.prod(last.source.shape[1:]), len(values)), dtype=np.int64)
    np.add.at(summed, last.order[0], values.T)
    return summed.T.copy()


@dataclass(frozen=True)
class Numbers:
    """weight: [classes, features], bias: [classes] in steps of 2^shift."""

    weight: Integers
    bias: Integers
    shift: int

    @property
    def offsets(self) -> Integers:
        return self.bias << self.shift

    def in_steps_of(self, shift: int, factor: int) -> Numbers:
        """The same, all multiplied by the factor, with another bias step, rounded."""
        bias = np.round(factor * self.offsets / 2.0**shift).astype(np.int64)
        return Numbers(factor * self.weight, bias, shift)


class LastLayer:
    """Numbers, scores [rows, classes], errors and bits, kept in step with one another."""

    def __init__(
        self, net: IntegerNet, values: Integers, y: Integers, m: int | None = None
    ) -> None:
        """values: [rows, features] what each weight is multiplied with; y: [rows] labels; m: all
        examples, of which these rows are a part.
        """
        last = net.layers[-1]
        assert isinstance(last, Dense)
        self.rows, self.m = len(y), m or len(y)
        self.values: NDArray[Any] = values.astype(np.int32 if net.reach < 2**30 else np.int64)
        self.top = np.abs(self.values).max(axis=1)
        self.y = y
        weight = last.source.numbers.reshape(len(last.source.numbers), -1)
        bias = np.zeros(len(weight), np.int64) if last.bias is None else last.bias
        self.levels = int(np.abs(weight).max())
        self.fixed = encode(net).bits - self._coded(start := Numbers(weight, bias, last.bias_shift))
        self.reset(start)

    def _coded(self, numbers: Numbers) -> float:
        return grid_length(numbers.weight, self.levels) + bias_length(numbers.bias, numbers.shift)

    def reset(self, numbers: Numbers) -> None:
        self.numbers = replace(numbers, weight=numbers.weight.copy(), bias=numbers.bias.copy())
        self.levels = max(self.levels, int(np.abs(numbers.weight).max()))
        self.scores = self.values @ numbers.weight.T + numbers.offsets
        self._count()

    def _count(self) -> None:
        """Errors (ties are errors) and bits."""
        own = self.scores[np.arange(self.rows), self.y]
        self.errors = int(((self.scores >= own[:, None]).sum(axis=1) > 1).sum())
        self.bits = self.fixed + self._coded(self.numbers)

    def height(self) -> float:
        return relaxed_bound(self.errors / self.rows, self.bits, self.m)

    def choose_step(self, until: float) -> None:
        """Take the bias step with which changes of biases alone reach the least bound, in time.

        Small weights make ties, which are errors. Where those are many, all weights doubled are
        tried too: then biases can lie between the scores.
        """
        start = best = self.numbers
        lowest = self.height()
        top = self.scores.max(axis=1, keepdims=True)
        ties = int(((self.scores == top).sum(axis=1) > 1).sum())  # of two classes for the largest
        for factor in (1, 2) if ties > _MANY_TIES * self.rows else (1,):
            for shift in range(max(0, start.shift - _FINER), min(40, start.shift + _COARSER) + 1):
                if time.monotonic() >= until:
                    break
                self.reset(start.in_steps_of(shift, factor))
                better = True
                while better:
                    labels = (label for label in range(len(start.bias)) if time.monotonic() < until)
                    better = any(self._improve(label, weights=False) for label in labels)
                if self.height() < lowest:
                    best, lowest = self.numbers, self.height()
        self.reset(best)

    def kick(self, rng: np.random.Generator) -> None:
        """Change some at random: weights in use to zero, others by one up or down."""
        weight = self.numbers.weight
        for _ in range(_KICK):
            used = np.flatnonzero(weight)
            if len(used) and rng.random() < 0.5:
                weight.reshape(-1)[int(rng.choice(used))] = 0
            else:
                weight.reshape(-1)[int(rng.integers(weight.size))] = rng.choice((-1, 1))
        self.reset(self.numbers)

    def descend(self, until: float, rng: np.random.Generator) -> None:
        """Best change after best change, class by class, until none helps or the time is over."""
        if self.levels == 0:
            return
        idle, classes = 0, len(self.numbers.weight)
        for label in itertools.cycle(rng.permutation(classes).tolist()):
            idle += 1
            while time.monotonic() < until and self._improve(label):
                idle = 0
            if idle >= classes or time.monotonic() >= until:
                return

    def _improve(self, label: int, weights: bool = True) -> bool:
        """Make the change of one weight or bias of this class that helps most, if one does."""
        price = price_of_a_bit(self.errors / self.rows, self.bits, self.m) * self.rows
        edge = self.edge(label)
        bias, gain = self._best_bias(label, edge, price)
        best = self._best_weight(label, edge, price) if weights else (0, 0, 0.0)
        at, value, gain_of_weight = best
        if min(gain, gain_of_weight) >= -1e-9:
            return False
        if gain <= gain_of_weight:
            self.scores[:, label] += (bias - self.numbers.bias[label]) << self.numbers.shift
            self.numbers.bias[label] = bias
        else:
            change = value - self.numbers.weight[label, at]
            self.scores[:, label] += change * self.values[:, at].astype(np.int64)
            self.numbers.weight[label, at] = value
        self._count()
        return True

    def _best_bias(self, label: int, edge: Edge, price: float) -> tuple[int, float]:
        """(bias, errors more and the price of bits more) of the best other bias of this class."""
        bias, shift = self.numbers.bias, self.numbers.shift
        here = int(bias[label])
        tried = np.unique(np.append(here + _BIAS_STEPS, 0))
        more = edge.more((tried - here) << shift)
        hopeful = more < price * _MOST_SAVED
        if not hopeful.any():
            return here, 0.0
        tried, more = tried[hopeful], more[hopeful]
        length = bias_length(bias, shift)
        for place, value in enumerate(tried):
            changed = bias.copy()
            changed[label] = value
            more[place] += price * (bias_length(changed, shift) - length)
        best = int(more.argmin())
        return int(tried[best]), float(more[best])

    def _best_weight(self, label: int, edge: Edge, price: float) -> tuple[int, int, float]:
        """(feature, weight, errors more and the price of bits more) of this class's best change."""
        row = self.numbers.weight[label]
        lengths = self._changes()
        columns, found = [], []
        for step in _STEPS:
            within = np.flatnonzero(np.abs(row + step) <= self.levels)
            columns.append((within, row[within] + step))
            found.append(self.more(edge, step)[within])
        far = np.flatnonzero(np.abs(row) > max(_STEPS))  # to zero in one go
        columns.append((far, np.zeros_like(far)))
        found.append(np.array([self.more(edge, -int(row[i]), slice(i, i + 1))[0] for i in far]))
        ats, values = (np.concatenate(part) for part in zip(*columns, strict=True))
        gain = np.concatenate(found) + price * lengths[row[ats] + self.levels, values + self.levels]
        best = int(gain.argmin())
        return int(ats[best]), int(values[best]), float(gain[best])

    def _changes(self) -> NDArray[np.float64]:
        """[old, new] bits more if one weight changes between two values -levels..levels."""
        weight = self.numbers.weight
        sizes = np.bincount(np.abs(weight).reshape(-1), minlength=self.levels + 1)
        negative = int((weight < 0).sum())
        here = counted_length(sizes, negative)
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
                    more = counted_length(changed, signs) - here
                    found[old + self.levels, new + self.levels] = more
        return found

    def edge(self, label: int) -> Edge:
        """Which rows a change in this class's score can turn, and where."""
        rows = np.arange(self.rows)
        others = self.scores.copy()
        own = others[rows, self.y]
        others[rows, self.y] = np.iinfo(np.int64).min
        others[:, label] = np.iinfo(np.int64).min
        rival = others.max(axis=1)
        score = self.scores[:, label]
        mine = self.y == label
        up = np.flatnonzero(mine)
        # the other rows are wrong whatever this score is
        down = np.flatnonzero(~mine & (own > rival))
        return Edge(up, rival[up] - score[up], down, (own - score)[down])

    def more(self, edge: Edge, step: int, columns: slice = slice(None)) -> Integers:
        """[columns] errors more if the class's weight in that column changes by the step.

        A row of the class is right if step·value > need; another, that no third class beats, if
        step·value < room. For whole values these are comparisons of the value itself with a rounded
        quotient.
        """
        right: Integers = np.zeros(self.values[:1, columns].shape[1], dtype=np.int64)
        for rows, limit, above in ((edge.up, edge.need, True), (edge.down, edge.room, False)):
            turned = np.abs(limit) <= abs(step) * self.top[rows]
            rows, limit = rows[turned], limit[turned]
            right -= int((limit < 0).sum() if above else (limit > 0).sum())
            values = self.values[rows, columns]
            if above == (step > 0):
                right += (values > (limit // step)[:, None]).sum(axis=0)
            else:
                right += (values < -(-limit // step)[:, None]).sum(axis=0)
        return -right

    def with_numbers(self, net: IntegerNet) -> IntegerNet:
        """The net with these numbers in its last layer."""
        last = net.layers[-1]
        assert isinstance(last, Dense)
        weight, bias = self.numbers.weight.copy(), self.numbers.bias.copy()
        source = Grid(weight.reshape(last.source.shape), max(1, int(np.abs(weight).max())))
        step = self.numbers.shift if bias.any() else 0
        layer = replace(last, source=source, bias=bias if bias.any() else None, bias_shift=step)
        return replace(net, layers=(*net.layers[:-1], layer))


@dataclass(frozen=True)
class Edge:
    """Rows of a class and what their score lacks; rows of others and the room below theirs."""

    up: Integers
    need: Integers
    down: Integers
    room: Integers

    def more(self, changes: Integers) -> NDArray[np.float64]:
        """[changes] errors more if the class's score grows by each of them in every row."""
        need, room = np.sort(self.need), np.sort(self.room)
        right = np.searchsorted(need, np.append(changes, 0)) + len(room)
        right -= np.searchsorted(room, np.append(changes, 0), side="right")
        more: NDArray[np.float64] = (right[-1] - right[:-1]).astype(np.float64)
        return more
