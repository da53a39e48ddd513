"""The last layer's numbers improved one by one on the bound itself: exact error counts against
exact code lengths.

Where no single change helps, a few weights are changed at random and the descent begins again; what
is not better is taken back (iterated local search). Training minimises cross-entropy; this
minimises what is certified.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format import symmetry as tying
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.integer.last_layer import LastLayer
from cushion.certificates.search.integer.training import State
from cushion.errors import Malformed

Integers = NDArray[np.int64]
_STEP_AGAIN = 0.15  # of all kicks


def polish(
    net: IntegerNet, x: NDArray[Any], y: Integers, seconds: float, seed: int
) -> Iterator[State]:
    """Ever better nets (by the relaxed bound) with the same layers but the last, for so many
    seconds.

    x: [m, ...] examples as the net reads them, y: [m] labels. Gives nothing if the last layer's
    weights are not on a grid or too many.
    """
    until = time.monotonic() + seconds
    if (values := features(net, x)) is None:
        return
    layer = LastLayer(net, values, y)
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
        values = np.concatenate(
            [reader.scores(x[i : i + 500])[:, :size] for i in range(0, len(x), 500)]
        )
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
