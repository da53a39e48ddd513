"""Tiny learners in whole numbers, to run rounds with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.picks.rounds import TIE
from cushion.data.dataset import Dataset


@dataclass(frozen=True)
class NearestMean:
    """The class whose picked rows have the nearest mean, distances times n² in whole numbers."""

    groups: tuple[int, ...] = (5, 5, 10, 10)

    def bind(self, x: NDArray[Any], y: NDArray[np.int64]) -> BoundMean:
        return BoundMean(x.reshape(len(x), -1).astype(np.int64), y)


class BoundMean:
    def __init__(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> None:
        self.x, self.y = x, y
        self.means: dict[int, tuple[NDArray[np.int64], int]] = {}
        self.trainings = self.asked = 0

    def train(self, picks: NDArray[np.int64]) -> None:
        self.trainings += 1
        labels = self.y[picks]
        self.means = {
            int(c): (self.x[picks[labels == c]].sum(axis=0), int((labels == c).sum()))
            for c in np.unique(labels)
        }

    def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        self.asked += len(rows)
        return self.classify(self.x[rows])

    def classify(self, x: NDArray[Any]) -> NDArray[np.int64]:
        rows = x.reshape(len(x), -1).astype(np.int64)
        common = np.lcm.reduce([n for _, n in self.means.values()])
        near = [
            ((rows * common - total * (common // n)) ** 2).sum(axis=1)
            for total, n in self.means.values()
        ]
        table = np.stack(near)
        best = table.min(axis=0)
        found = np.array(list(self.means))[table.argmin(axis=0)]
        return np.where((table == best).sum(axis=0) > 1, TIE, found)

    def digest(self) -> str:
        said = sorted((c, total.tolist(), n) for c, (total, n) in self.means.items())
        return hashlib.sha256(repr(said).encode()).hexdigest()


@dataclass(frozen=True)
class Whim:
    """A learner as strange as can be: whatever a hash of its picks and of the row says."""

    seed: int
    groups: tuple[int, ...]
    classes: int = 2
    right: float = 0.5  # how often a row is right by its own label, roughly

    def bind(self, x: NDArray[Any], y: NDArray[np.int64]) -> BoundWhim:
        return BoundWhim(self, x, y)


class BoundWhim:
    def __init__(self, whim: Whim, x: NDArray[Any], y: NDArray[np.int64]) -> None:
        self.whim, self.x, self.y, self.state = whim, x, y, ""

    def train(self, picks: NDArray[np.int64]) -> None:
        rows = [(self.x[i].tobytes(), int(self.y[i])) for i in picks]
        self.state = repr((self.whim.seed, rows))

    def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.classify(self.x[rows])

    def classify(self, x: NDArray[Any]) -> NDArray[np.int64]:
        if not len(x):
            return np.empty(0, np.int64)
        kinds, places = np.unique(x, axis=0, return_inverse=True)
        return np.array([self._answer(row.tobytes()) for row in kinds])[places.reshape(-1)]

    def _answer(self, row: bytes) -> int:
        word = hashlib.sha256(self.state.encode() + row).digest()
        return TIE if word[0] == 0 else word[1] % self.whim.classes

    def digest(self) -> str:
        return hashlib.sha256(self.state.encode()).hexdigest()


def blobs(m: int, seed: int, classes: int = 3, side: int = 4, spread: int = 150) -> Dataset:
    """Noisy pictures of a few classes."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).integers(60, 190, (classes, 1, side, side))
    y = rng.integers(0, classes, m)
    noise = rng.integers(-spread, spread + 1, (m, 1, side, side))
    return Dataset("blobs", (centres[y] + noise).clip(0, 255).astype(np.uint8), y, classes)
