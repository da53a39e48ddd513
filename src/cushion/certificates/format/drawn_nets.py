"""Many nets of one architecture at once, each scored on one input of its own: the scores of
IntegerNet, net by net.

A net drawn for a single row would spend its time on being made. Here the numbers of n nets are one
array, and each layer is one stack of n matrix products. Sums stay exact as in `integer_net`: their
range is proved beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.evaluation import by_group, padded, pooling, rectifier, windows
from cushion.certificates.format.integer_net import IntegerNet, floats_for
from cushion.certificates.format.layers import Conv, Dense, Feature, Pool
from cushion.certificates.format.sources import Integers

Maps = NDArray[Any]  # [n, h, w, channels] or [n, values]
Step = Callable[[Maps, Maps], Maps]  # values, numbers [n, D] -> values


class DrawnNets:
    """Nets like `skeleton`, no sum in any of which is larger in magnitude than `reach`."""

    def __init__(self, skeleton: IntegerNet, reach: int) -> None:
        self._skeleton = skeleton
        self._floats = floats_for(reach)
        self._steps: list[Step] = []
        self.width = max(skeleton.weights, math.prod(skeleton.input_shape))  # values a net at once
        start = 0
        for layer, before, after, _, patches, _ in skeleton.stages:
            self.width = max(self.width, patches, math.prod(after.shape))
            if isinstance(layer, Pool):
                self._steps.append(_alone(pooling(layer.kind, layer.size)))
                continue
            order = start + layer.order
            start += math.prod(layer.source.shape)
            self.width = max(self.width, order.size)
            self._steps.append(
                _product(order, before) if isinstance(layer, Dense) else _convolution(layer, order)
            )
            if layer.biases:
                self._steps.append(_addition(layer, start))
                start += layer.biases
            if layer is not skeleton.layers[-1]:
                self._steps.append(_alone(rectifier(layer.shift)))

    def scores(self, numbers: Integers, x: NDArray[Any]) -> Integers:
        """numbers: [n, D], x: [n, *input_shape] -> [n, classes] exact scores, net i on input i."""
        values: Maps = self._skeleton.maps(x, self._floats)
        held = numbers.astype(self._floats)
        for step in self._steps:
            values = step(values, held)
        return values.astype(np.int64)


def _alone(step: Callable[[Maps], Maps]) -> Step:
    return lambda values, _: step(values)


def _product(order: Integers, before: Feature) -> Step:
    """order: [out, in], in over channels, rows, columns."""
    if len(before.shape) == 3:
        order = order.reshape(len(order), *before.shape).transpose(0, 2, 3, 1)
    places = order.reshape(len(order), -1).T  # [in, out]

    def step(values: Maps, numbers: Maps) -> Maps:
        product: Maps = (values.reshape(len(values), 1, -1) @ numbers[:, places])[:, 0]
        return product

    return step


def _convolution(layer: Conv, order: Integers) -> Step:
    """order: [out, in/groups, k, k]"""
    out, depth, k, _ = order.shape

    def step(values: Maps, numbers: Maps) -> Maps:
        groups = values.shape[3] // depth
        places = by_group(order.transpose(2, 3, 1, 0), groups)
        split = windows(padded(values, layer.padding), k, layer.stride, groups)
        n, h, w = split.shape[:3]
        columns = split.transpose(0, 5, 1, 2, 3, 4, 6).reshape(n, groups, h * w, k * k * depth)
        sums: Maps = columns @ numbers[:, places]  # [n, groups, h·w, out/groups]
        return sums.transpose(0, 2, 1, 3).reshape(n, h, w, out)

    return step


def _addition(layer: Dense | Conv, start: int) -> Step:
    places = np.arange(start, start + layer.biases).repeat(layer.positions)
    scale = 2.0**layer.bias_shift

    def step(values: Maps, numbers: Maps) -> Maps:
        offsets = numbers[:, places] * values.dtype.type(scale)  # exact: a power of two
        np.add(values, offsets if values.ndim == 2 else offsets[:, None, None], out=values)
        return values

    return step
