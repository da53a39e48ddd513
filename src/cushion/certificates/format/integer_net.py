"""The certified classifier: a net of integers whose outputs are the same on every machine.

Inputs are small whole numbers (see `inputs`). Convolutions and dense layers have integer weights
and biases; between layers stand ReLU and a right shift (a floor), maximum or sum pooling. If
Σ|w|·max|x| + |b| is below 2^53 for every output, each partial sum is an integer that float64 holds
exactly, in any order of addition: plain matrix products then give the same count on every machine,
thread count and batch size. The range is proved per layer when a net is made, and a net that could
overflow is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.evaluation import (
    Step,
    addition,
    convolution,
    dense,
    for_each,
    pooling,
    rectifier,
)
from cushion.certificates.format.inputs import Input
from cushion.certificates.format.layers import (
    Conv,
    Dense,
    Feature,
    Layer,
    Pool,
    feature_after,
    stored_shape,
)
from cushion.certificates.format.limits import patches_of, prove_range
from cushion.certificates.format.sources import Integers
from cushion.errors import BadInput

__all__ = [
    "Conv",
    "Dense",
    "Feature",
    "IntegerNet",
    "Integers",
    "Layer",
    "Pool",
    "feature_after",
    "features_of",
    "stored_shape",
]

EXACT_SINGLE = 2**24  # float32 holds every integer below this
BATCH_VALUES = 2**20  # of a batch at its widest point: about what a core's cache holds


@dataclass(frozen=True, eq=False)
class IntegerNet:
    """input_shape: (channels, height, width); the last layer gives one score a class."""

    input_shape: tuple[int, int, int]
    input: Input
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        _ = self.reach

    @cached_property
    def reach(self) -> int:
        """The largest magnitude that any sum can reach on any input, below 2^53."""
        return prove_range(self.input_shape, self.input, self.layers)

    @cached_property
    def _memory(self) -> int:
        """The most values that one example needs at once."""
        features = features_of(self)
        patches = [
            patches_of(layer, after.shape)
            for layer, after in zip(self.layers, features[1:], strict=True)
            if not isinstance(layer, Pool)
        ]
        return max(*patches, *(math.prod(feature.shape) for feature in features))

    @cached_property
    def _floats(self) -> type[np.floating[Any]]:
        """The narrowest float type that holds every sum exactly; both give the same integers."""
        return np.float32 if self.reach < EXACT_SINGLE else np.float64

    @cached_property
    def _steps(self) -> list[Step]:
        """The layers, ready to be applied one after the other to [n, h, w, channels]."""
        steps: list[Step] = []
        for layer, before in zip(self.layers, features_of(self), strict=False):
            if isinstance(layer, Pool):
                steps.append(pooling(layer.kind, layer.size))
                continue
            if isinstance(layer, Dense):
                steps.append(dense(layer.weight, before.shape, self._floats))
            else:
                steps.append(convolution(layer.weight, layer.stride, layer.padding, self._floats))
            if layer.offsets is not None:
                steps.append(addition(layer.offsets, self._floats))
            if layer is not self.layers[-1]:
                steps.append(rectifier(layer.shift))
        return steps

    @property
    def classes(self) -> int:
        return features_of(self)[-1].shape[0]

    @property
    def weights(self) -> int:
        """Weights and biases that are stored or made, each once however often it is used."""
        return sum(
            math.prod(layer.source.shape) + (0 if layer.bias is None else layer.bias.size)
            for layer in self.layers
            if not isinstance(layer, Pool)
        )

    def fault(self, x: NDArray[Any]) -> str:
        """Why the net cannot read such inputs; empty if it can."""
        if math.prod(x.shape[1:]) != math.prod(self.input_shape):
            return f"the net reads inputs of shape {self.input_shape}, not {x.shape[1:]}"
        return self.input.fault(x)

    def scores(self, x: NDArray[Any]) -> Integers:
        """x: [n, ...] as many entries as input_shape -> [n, classes] exact scores."""
        if fault := self.fault(x):
            raise BadInput(fault)
        flat = self.input.read(x.reshape(len(x), -1), self._floats)
        values: NDArray[Any] = flat.reshape(len(x), *self.input_shape).transpose(0, 2, 3, 1)
        for step in self._steps:
            values = step(values)
        return values.astype(np.int64)

    def answers(
        self, x: NDArray[Any], batch: int | None = None, progress: bool = False
    ) -> Integers:
        """[n] the class with the largest score of each row, or -1 where two classes tie for it."""
        size = batch or max(1, min(512, BATCH_VALUES // self._memory))
        found = np.empty(len(x), dtype=np.int64)

        def answer(start: int) -> None:
            scores = self.scores(np.asarray(x[start : start + size]))
            top = scores.max(axis=1, keepdims=True)
            unique = (scores == top).sum(axis=1) == 1
            found[start : start + size] = np.where(unique, scores.argmax(axis=1), -1)

        for_each(range(0, len(x), size), answer, size * self._memory, progress)
        return found

    def errors(
        self,
        x: NDArray[Any],
        y: NDArray[np.int64],
        batch: int | None = None,
        progress: bool = False,
    ) -> int:
        """How many rows are misclassified; a tie is an error. The batch changes memory only."""
        return int((self.answers(x, batch, progress) != y).sum())


def features_of(net: IntegerNet) -> list[Feature]:
    """The input and what is behind each layer."""
    features = [Feature(tuple(net.input_shape))]
    for layer in net.layers:
        features.append(feature_after(features[-1], layer))
    return features
