"""How large a sketch must be to come back, tried: the exact-recovery rate against its side, and the
paper's counts.

A measure. Every trial is a pure function of its sizes, seed and number, so that a study may be
resumed anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cushion.compressors.pruning.ensembles import bipartite
from cushion.compressors.pruning.recovery import recover
from cushion.compressors.pruning.sketched import sketch_of
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.records import Record

_LARGEST = 127  # values are ±1..±127, as of a weight of 8 bits
_MOST_ITERATIONS = 500


@dataclass(frozen=True)
class Counts(Record):
    """Bits that two ways of counting pruned matrices need: a measure, since both are up to
    constants in the paper.

    sketch: (√(jp)·ln p)² numbers (Theorems 5.1 and 5.2). naive: log2 C(N, J) + J·(bits of a value)
    (Lemma D.1).
    """

    sketch_numbers: float
    sketch: float
    naive: float

    @property
    def ratio(self) -> float:
        return self.sketch / self.naive


def sparse_matrix(p: int, per_row: int, seed: int, trial: int) -> NDArray[np.int64]:
    """[p, p] with per_row non-zeros a row at uniform places, values uniform on ±1..±127."""
    places = bipartite(p, p, per_row, seed, f"study places {trial}").T
    hashes = stream(f"study values {trial}", seed, p * p).reshape(p, p)
    sizes = (hashes >> np.uint64(1)) % np.uint64(_LARGEST) + np.uint64(1)
    signs = 1 - 2 * (hashes & np.uint64(1)).astype(np.int64)
    return places * sizes.astype(np.int64) * signs


def comes_back(p: int, per_row: int, m: int, ones: int, seed: int, trial: int) -> bool:
    """One trial: whether a random matrix is found again from a random sketch of m x m numbers."""
    X = sparse_matrix(p, per_row, seed, trial)
    A = bipartite(m, p, ones, seed, f"study left {trial}")
    B = bipartite(m, p, ones, seed, f"study right {trial}")
    found = recover(sketch_of(A, X, B), A, B, most_iterations=_MOST_ITERATIONS)
    return np.array_equal(np.rint(found.matrix), X)


def recovery_rate(p: int, per_row: int, m: int, ones: int, trials: int, seed: int) -> float:
    """The part of `trials` random matrices that come back exactly from m x m numbers."""
    return sum(comes_back(p, per_row, m, ones, seed, trial) for trial in range(trials)) / trials


def crossing(sides: Sequence[int], rates: Sequence[float]) -> float | None:
    """The side at which the rate first rises to one half or above, linear between two sides."""
    for (m, low), (more, high) in pairwise(zip(sides, rates, strict=True)):
        if low < 0.5 <= high:
            return m + (more - m) * (0.5 - low) / (high - low)
    return None


def counts(p1: int, p2: int, j: float, nonzeros: int, bits: float) -> Counts:
    """Both counts of a p1 x p2 matrix, at most j non-zeros a row or column, of so many bits."""
    p, entries = max(p1, p2), p1 * p2
    if not 0 <= nonzeros <= entries:
        raise BadInput(f"a matrix of {entries} entries has no {nonzeros} non-zeros")
    numbers = j * p * math.log(p) ** 2
    masks = (
        math.lgamma(entries + 1) - math.lgamma(nonzeros + 1) - math.lgamma(entries - nonzeros + 1)
    )
    return Counts(numbers, numbers * bits, masks / math.log(2) + nonzeros * bits)
