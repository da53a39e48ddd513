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
_KEPT, _TRIED = 25, 150  # changes that are kept or tried before all examples are counted again


@dataclass(frozen=True)
class Change:
    """One stored number of a layer: of its weights, or of its biases."""

    layer: int
    bias: bool
    at: int
    to: int


def refine(net: IntegerNet, pixels: Tensor, y: Integers, seconds: float) -> Iterator[State]:
    """Ever better nets (by the relaxed bound) with other numbers in the layers before the last.

    pixels: [m, channels, height, width] as the net's quantiser gives them, y: [m] labels.
    """
    until = time.monotonic() + seconds
    labels = torch.from_numpy(y.copy())
    m = len(y)
    margins = _margins(_scores(net, pixels, 0), labels)
    errors, bits = int((margins <= 0).sum()), encode(net).bits
    refused: set[Change] = set()
    while time.monotonic() < until:
        near = margins.abs().topk(min(m, _NEAR), largest=False).indices
        price = price_of_a_bit(errors / m, bits, m) * m
        queue = [change for change in _promising(net, pixels[near], labels[near], price) if change not in refused]
        if not queue:
            return
        trial, kept = net, 0
        inputs = _inputs(trial, pixels[near])
        wrong = _errors(trial, inputs[-1], labels[near], len(net.layers) - 1)
        for change in queue[:_TRIED]:
            changed, longer = _apply(trial, change)
            now = _errors(changed, inputs[change.layer], labels[near], change.layer)
            if now - wrong + price * longer < -0.5:
                trial, wrong, kept = changed, now, kept + 1
                inputs[change.layer + 1 :] = _inputs(trial, inputs[change.layer], change.layer)[1:]
            else:
                refused.add(change)
            if kept == _KEPT or time.monotonic() > until:
                break
        after = _margins(_scores(trial, pixels, 0), labels)
        found, length = int((after <= 0).sum()), encode(trial).bits
        if kept and relaxed_bound(found / m, length, m) < relaxed_bound(errors / m, bits, m):
            net, errors, bits, margins = trial, found, length, after
            refused.clear()
            yield State(net, relaxed_bound(errors / m, bits, m))


def _promising(net: IntegerNet, pixels: Tensor, labels: Tensor, price: float) -> list[Change]:
    """All changes of numbers in use, those first that promise most: by the slope of a smooth loss, and their bits."""
    stored = {}
    for index, layer in enumerate(net.layers[:-1]):
        if not isinstance(layer, Pool) and isinstance(layer.source, Grid):
            stored[index, False] = torch.from_numpy(layer.source.values).float().requires_grad_()
            if layer.bias is not None:
                stored[index, True] = torch.from_numpy(layer.bias).float().requires_grad_()
    unit = 0.0
    for part, its in zip(torch.split(pixels, _BATCH), torch.split(labels, _BATCH), strict=True):
        values = part.float()
        for index in range(len(net.layers)):
            values = _forward(net, values, index, stored.get((index, False)), stored.get((index, True)))
        margins = _margins(values, its)
        unit = unit or float(margins.detach().abs().mean()) + 1e-9
        if stored:
            torch.sigmoid(-2.0 * margins / unit).sum().backward()  # type: ignore[no-untyped-call]
    found = []
    for (index, bias), numbers in stored.items():
        assert numbers.grad is not None
        slopes, values = numbers.grad.reshape(-1), numbers.detach().reshape(-1).long()
        used = range(len(values)) if bias else values.nonzero().flatten().tolist()
        for at in used:
            here = int(values[at])
            for to in {here - 1, here + 1, 0} - {here}:
                change = Change(index, bias, at, to)
                layer = net.layers[index]
                if bias or (isinstance(layer, Conv | Dense) and abs(to) <= getattr(layer.source, "levels", 0)):
                    found.append((float(slopes[at]) * (to - here), change))
    # What a bit is worth is paid when a change is judged; here it only breaks near-ties in favour of zero.
    return [change for _, change in sorted(found, key=lambda item: item[0] - price * (item[1].to == 0))]


def _apply(net: IntegerNet, change: Change) -> tuple[IntegerNet, float]:
    """The changed net and how many bits it is longer, about."""
    layer = net.layers[change.layer]
    assert isinstance(layer, Conv | Dense)
    assert isinstance(layer.source, Grid)
    old = layer.bias if change.bias else layer.source.values
    assert old is not None
    numbers = old.copy()
    numbers.reshape(-1)[change.at] = change.to
    if change.bias:
        sizes = np.log2(1.0 + np.abs([change.to, int(old.reshape(-1)[change.at])]))
        longer = 2.0 * float(sizes[0] - sizes[1])
        new: Conv | Dense = replace(layer, bias=numbers)
    else:
        longer = code_length(numbers, layer.source.levels) - code_length(old, layer.source.levels)
        new = replace(layer, source=Grid(numbers, layer.source.levels))
    return replace(net, layers=(*net.layers[: change.layer], new, *net.layers[change.layer + 1 :])), longer


def _forward(
    net: IntegerNet, values: Tensor, index: int, weights: Tensor | None = None, biases: Tensor | None = None
) -> Tensor:
    """One layer on [n, ...] whole floats; with stored numbers given, these instead of its own, nothing rounded."""
    layer = net.layers[index]
    if isinstance(layer, Pool):
        if layer.kind == "max":
            return F.max_pool2d(values, layer.size)
        return F.avg_pool2d(values, layer.size) * float(layer.size**2)
    weight = torch.from_numpy(layer.weight).float() if weights is None else _used(layer, weights)
    offsets = None if layer.offsets is None else torch.from_numpy(layer.offsets).float()
    if biases is not None:
        offsets = (biases * 2.0**layer.bias_shift).repeat_interleave(len(weight) // len(biases))
    if isinstance(layer, Conv):
        groups = values.shape[1] // weight.shape[1]
        values = F.conv2d(values, weight, offsets, layer.stride, layer.padding, groups=groups)
    else:
        values = F.linear(values.flatten(1), weight, offsets)
    if index == len(net.layers) - 1:
        return values
    values = torch.relu(values) * 2.0**-layer.shift
    return torch.floor(values) if weights is None and layer.shift else values


def _used(layer: Conv | Dense, stored: Tensor) -> Tensor:
    """Stored numbers as they are used: each place names one of them (found by expanding their indices)."""
    places = Grid(np.arange(stored.numel()).reshape(stored.shape), stored.numel())
    return stored.reshape(-1)[torch.from_numpy(replace(layer, source=places).weight)]


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
