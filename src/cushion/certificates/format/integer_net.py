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

from cushion.certificates.format import evaluation
from cushion.certificates.format.inputs import Input
from cushion.certificates.format.layers import Layer, Pool
from cushion.certificates.format.limits import Stage, prove_range, stages
from cushion.certificates.format.sources import Integers
from cushion.errors import BadInput

EXACT_SINGLE = 2**24  # float32 holds every integer below this
BATCH_VALUES = 2**20  # of a batch at its widest point: about what a core's cache holds


Floating = type[np.floating[Any]]


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
    def stages(self) -> list[Stage]:
        return list(stages(self.input_shape, self.layers))

    @cached_property
    def _memory(self) -> int:
        """The most values that one example needs at once."""
        most = max(max(s.patches, math.prod(s.after.shape)) for s in self.stages)
        return max(most, math.prod(self.input_shape))

    @cached_property
    def _floats(self) -> Floating:
        return floats_for(self.reach)

    @cached_property
    def _numbers(self) -> list[evaluation.Numbers]:
        """Of every layer that has some, ready to be evaluated."""
        found: list[evaluation.Numbers] = []
        for layer, before, *_ in self.stages:
            if not isinstance(layer, Pool):
                filters = np.ascontiguousarray(evaluation.arranged(layer.weight, before))
                added = None if layer.offsets is None else layer.offsets[None].astype(self._floats)
                found.append((filters[None].astype(self._floats), added))
        return found

    @property
    def classes(self) -> int:
        return self.stages[-1].after.shape[0]

    @property
    def weights(self) -> int:
        """Weights and biases that are stored or made, each once however often it is used."""
        kept = (layer for layer in self.layers if not isinstance(layer, Pool))
        return sum(math.prod(layer.source.shape) + layer.biases for layer in kept)

    def fault(self, x: NDArray[Any]) -> str:
        """Why the net cannot read such inputs; empty if it can."""
        if math.prod(x.shape[1:]) != math.prod(self.input_shape):
            return f"the net reads inputs of shape {self.input_shape}, not {x.shape[1:]}"
        return self.input.fault(x)

    def scores(self, x: NDArray[Any]) -> Integers:
        """x: [n, ...] as many entries as input_shape -> [n, classes] exact scores."""
        return evaluation.evaluate(self.stages, self.maps(x, self._floats), self._numbers)

    def maps(self, x: NDArray[Any], floats: Floating) -> NDArray[Any]:
        """The quantised inputs, [n, h, w, channels]; BadInput if the net cannot read them."""
        if fault := self.fault(x):
            raise BadInput(fault)
        flat = self.input.read(x.reshape(len(x), -1), floats)
        return flat.reshape(len(x), *self.input_shape).transpose(0, 2, 3, 1)

    def as_read(self, x: NDArray[Any]) -> NDArray[Any]:
        """[n, features] what the net sees of each row; BadInput if it cannot read them."""
        if fault := self.fault(x):
            raise BadInput(fault)
        return self.input.read(x.reshape(len(x), -1), np.float32)

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

        evaluation.for_each(range(0, len(x), size), answer, size * self._memory, progress)
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


def floats_for(reach: int) -> Floating:
    """The narrowest float type that holds every sum exactly; both give the same integers."""
    return np.float32 if reach < EXACT_SINGLE else np.float64
