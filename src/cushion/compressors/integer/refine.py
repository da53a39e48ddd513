"""Every stored weight and bias before the last layer tried one step up, one down, and at zero, on the bound itself.

A change is judged on the examples nearest to the decision boundary, where it can turn an answer; those far from it are
taken to stay. It is kept if the errors it removes are worth more than the bits it costs. After a round all examples are
counted again, and a round that did not lower the bound is taken back. The last layer is `polish`'s.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from cushion.compressors.integer.polish import code_length
from cushion.compressors.integer.relaxation import price_of_a_bit, relaxed_bound
from cushion.compressors.integer.training import State
from cushion.encoding.integer_net import Conv, Dense, IntegerNet, Pool
from cushion.encoding.message import encode
from cushion.encoding.sources import Grid

Integers = NDArray[np.int64]
_NEAR = 6000  # examples on which single changes are judged
_BATCH = 1000
_ROUND = 25  # changes that are kept before all examples are counted again


@dataclass(frozen=True)
class _Change:
    """One stored number of a layer: of its weights, or of its biases."""

    layer: int
    bias: bool
    at: int
    step: int  # 0: to zero


def refine(net: IntegerNet, pixels: Tensor, y: Integers, seconds: float, seed: int) -> Iterator[State]:
    """Ever better nets (by the relaxed bound) with other numbers in the layers before the last.

    pixels: [m, channels, height, width] as the net's quantiser gives them, y: [m] labels.
    """
    until = time.monotonic() + seconds
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(y)
    m = len(y)
    margins = _margins(_scores(net, pixels, 0), labels)
    errors, bits = int((margins <= 0).sum()), encode(net).bits
    queue: list[_Change] = []
    while time.monotonic() < until:
        near = margins.abs().topk(min(m, _NEAR), largest=False).indices
        price = price_of_a_bit(errors / m, bits, m) * m
        trial, kept = net, 0
        inputs = _inputs(trial, pixels[near])
        wrong = _errors(trial, inputs[-1], labels[near], len(net.layers) - 1)
        while kept < _ROUND and time.monotonic() < until:
            if not queue:
                queue = _changes(trial, rng)
                if not queue:
                    return
            change = queue.pop()
            changed, longer = _apply(trial, change)
            if changed is None:
                continue
            now = _errors(changed, inputs[change.layer], labels[near], change.layer)
            if now - wrong + price * longer < -0.5:
                trial, wrong, kept = changed, now, kept + 1
                inputs[change.layer + 1 :] = _inputs(trial, inputs[change.layer], change.layer)[1:]
        after = _margins(_scores(trial, pixels, 0), labels)
        found, length = int((after <= 0).sum()), encode(trial).bits
        if kept and relaxed_bound(found / m, length, m) < relaxed_bound(errors / m, bits, m):
            net, errors, bits, margins = trial, found, length, after
            yield State(net, relaxed_bound(errors / m, bits, m))


def _changes(net: IntegerNet, rng: np.random.Generator) -> list[_Change]:
    """All changes of numbers in use, in random order."""
    found = []
    for index, layer in enumerate(net.layers[:-1]):
        if isinstance(layer, Pool) or not isinstance(layer.source, Grid):
            continue
        for bias, numbers in ((False, layer.source.values), (True, layer.bias)):
            if numbers is not None:
                used = range(numbers.size) if bias else np.flatnonzero(numbers).tolist()
                found += [_Change(index, bias, at, step) for at in used for step in (-1, 1, 0)]
    return [found[i] for i in rng.permutation(len(found))]


def _apply(net: IntegerNet, change: _Change) -> tuple[IntegerNet | None, float]:
    """The changed net and how many bits it is longer; None if nothing would change."""
    layer = net.layers[change.layer]
    assert isinstance(layer, Conv | Dense)
    assert isinstance(layer.source, Grid)
    old = layer.bias if change.bias else layer.source.values
    assert old is not None
    numbers = old.copy()
    flat = numbers.reshape(-1)
    before = int(flat[change.at])
    flat[change.at] = 0 if change.step == 0 else before + change.step
    levels = layer.source.levels
    if flat[change.at] == before or (not change.bias and abs(flat[change.at]) > levels):
        return None, 0.0
    if change.bias:
        longer = float(np.log2(1.0 + abs(flat[change.at])) - np.log2(1.0 + abs(before))) * 2.0
        new: Conv | Dense = replace(layer, bias=numbers)
    else:
        longer = code_length(numbers, levels) - code_length(old, levels)
        new = replace(layer, source=Grid(numbers, levels))
    return replace(net, layers=(*net.layers[: change.layer], new, *net.layers[change.layer + 1 :])), longer


def _forward(net: IntegerNet, values: Tensor, index: int) -> Tensor:
    """One layer on [n, ...] whole floats."""
    layer = net.layers[index]
    if isinstance(layer, Pool):
        if layer.kind == "max":
            return F.max_pool2d(values, layer.size)
        return F.avg_pool2d(values, layer.size) * float(layer.size**2)
    weight = torch.from_numpy(layer.weight).to(values.dtype)
    offsets = None if layer.offsets is None else torch.from_numpy(layer.offsets).to(values.dtype)
    if isinstance(layer, Conv):
        groups = values.shape[1] // weight.shape[1]
        values = F.conv2d(values, weight, offsets, layer.stride, layer.padding, groups=groups)
    else:
        values = F.linear(values.flatten(1), weight, offsets)
    if index == len(net.layers) - 1:
        return values
    return torch.floor(torch.relu_(values).mul_(2.0**-layer.shift)) if layer.shift else torch.relu_(values)


def _inputs(net: IntegerNet, values: Tensor, first: int = 0) -> list[Tensor]:
    """What enters each layer from the first one on."""
    found = [values.float()]
    with torch.no_grad():
        for index in range(first, len(net.layers) - 1):
            found.append(torch.cat([_forward(net, part, index) for part in torch.split(found[-1], _BATCH)]))
    return found


def _scores(net: IntegerNet, values: Tensor, first: int) -> Tensor:
    """[n, classes] from what enters the layer `first`."""
    parts = []
    with torch.no_grad():
        for part in torch.split(values, _BATCH):
            now = part.float()
            for index in range(first, len(net.layers)):
                now = _forward(net, now, index)
            parts.append(now)
    return torch.cat(parts)


def _margins(scores: Tensor, labels: Tensor) -> Tensor:
    """The own score minus the largest other; an example is right where this is above 0."""
    own = scores.gather(1, labels[:, None])[:, 0]
    return own - scores.scatter(1, labels[:, None], -torch.inf).max(dim=1).values


def _errors(net: IntegerNet, values: Tensor, labels: Tensor, first: int) -> int:
    return int((_margins(_scores(net, values, first), labels) <= 0).sum())
