"""Streaming over a sample: work on shards of rows, merge what they accumulated.

A shard's work returns accumulators; merging them in any order gives exactly the single-pass answer,
because per-example values keep their row and counts are integers. No shard ever holds more than its
own rows.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput
from cushion.progress import working

_TRIM_SECONDS = 1.0  # between two returns of memory: each costs the next shard its page faults


class Accumulator(Protocol):
    """Something that a shard fills and that merges with another shard's."""

    def merge(self, other: Self) -> None:
        """Take in what the other has seen; the two must have seen different rows."""


@dataclass
class Samples:
    """One number (or row of numbers) per example, in row order whatever the order of merging."""

    parts: dict[int, NDArray[np.float64]] = field(default_factory=dict)  # first row -> values

    @classmethod
    def of(cls, start: int, values: NDArray[Any]) -> Samples:
        """The values of the rows from `start` on."""
        return cls({start: np.asarray(values, dtype=np.float64)})

    def merge(self, other: Samples) -> None:
        if seen := self.parts.keys() & other.parts.keys():
            raise ValueError(f"row {min(seen)} was already seen")
        self.parts |= other.parts

    def values(self) -> NDArray[np.float64]:
        """All values, ordered by row; rows must be complete and without overlap."""
        expected = 0
        for start in sorted(self.parts):
            if start != expected:
                first, last = min(start, expected), max(start, expected) - 1
                raise ValueError(f"rows {first} to {last} are missing or repeated")
            expected += len(self.parts[start])
        return np.concatenate([self.parts[start] for start in sorted(self.parts)] or [np.empty(0)])


@dataclass
class Total:
    """A sum of arrays of one shape, in float64."""

    sum: NDArray[np.float64]

    def merge(self, other: Total) -> None:
        self.sum = self.sum + other.sum


@dataclass
class Smallest:
    value: float = float("inf")

    def merge(self, other: Smallest) -> None:
        self.value = min(self.value, other.value)


Key = TypeVar("Key", bound=Hashable)
Accumulators: TypeAlias = Mapping[Key, Accumulator]


def map_shards(
    rows: int, size: int, work: Callable[[slice], Accumulators[Key]], *, describe: str = "examples"
) -> dict[Key, Any]:
    """Run `work` on consecutive slices of at most `size` rows and merge its answers by key."""
    if rows < 1 or size < 1:
        raise BadInput(f"cannot work on {rows} rows in shards of {size}; both must be at least 1")
    merged: dict[Key, Any] = {}
    trimmed = time.monotonic()
    with working(describe, rows, "ex") as bar:
        for start in range(0, rows, size):
            shard = slice(start, min(start + size, rows))
            for key, accumulator in work(shard).items():
                if key in merged:
                    merged[key].merge(accumulator)
                else:
                    merged[key] = accumulator
            if time.monotonic() - trimmed > _TRIM_SECONDS:
                _give_back_memory()
                trimmed = time.monotonic()
            bar.advance(shard.stop - shard.start)
    return merged


def _give_back_memory() -> None:
    """Return freed pages to the system, where the C library can (glibc).

    What a shard leaves behind, many small arrays, lies between the large ones that were freed:
    without this the process grows with the number of shards.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
