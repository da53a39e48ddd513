"""Streaming over a sample: work on shards of rows, merge what they accumulated.

A shard's work returns accumulators; merging them in any order gives exactly the single-pass answer,
because per-example values keep their row and counts are integers. No shard ever holds more than its
own rows.
"""

from __future__ import annotations

import ctypes
import resource
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.errors import BadInput, remark
from cushion.nets.calling import NetFailed, words_of_net
from cushion.progress import Bar, working

_TRIM_SECONDS = 1.0  # between two returns of memory: each costs the next shard its page faults
_LONG = 60.0  # seconds that are worth a word before they pass
_WARM = 5.0  # seconds after which the time of a first shard says what the others take
# the words of torch's allocators, in small letters
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "alloc_failed")


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
    """Run `work` on consecutive slices of at most `size` rows and merge its answers by key.

    Where memory runs out, all begins again with half the size: the answer is then exactly that of
    the smaller size, and it is said once. `work` must not remember the slices that it has seen. A
    stage that will take more than a minute says so, and how much memory, after its first slices.
    """
    if rows < 1 or size < 1:
        raise BadInput(f"cannot work on {rows} rows in shards of {size}; both must be at least 1")
    asked = size = min(rows, size)
    with working(describe, rows, "ex") as bar:
        while (merged := _pass(rows, size, work, bar, describe)) is None:
            if size == 1:
                how = "use a smaller net, or a machine with more memory"
                raise BadInput(f"{describe}: memory ran out on a single row; {how}")
            size //= 2
            bar.reach(0)
            _give_back_memory()
    if size < asked:
        remark(f"memory ran out, so batches of {size} rows were taken instead of {asked}")
    return merged


def _pass(
    rows: int, size: int, work: Callable[[slice], Accumulators[Key]], bar: Bar, describe: str
) -> dict[Key, Any] | None:
    """What all shards of this size give, merged; None if memory runs out on one of them."""
    merged: dict[Key, Any] = {}
    began = trimmed = time.monotonic()
    said = False
    for number, start in enumerate(range(0, rows, size)):
        shard = slice(start, min(start + size, rows))
        try:
            found = work(shard)
        except Exception as problem:
            if is_out_of_memory(problem):
                return None
            if words := words_of_net(problem):
                raise _failed(words, shard, rows) from problem
            raise
        for key, accumulator in found.items():
            if key in merged:
                merged[key].merge(accumulator)
            else:
                merged[key] = accumulator
        now = time.monotonic()
        # a short first shard says little: the machine was still warming up
        if not said and (number == 1 or now - began > _WARM):
            said = True
            _say_if_long((now - began) * (rows - shard.stop) / (shard.stop - shard.start), describe)
        began = now
        if now - trimmed > _TRIM_SECONDS:
            _give_back_memory()
            trimmed = time.monotonic()
        bar.advance(shard.stop - shard.start)
    return merged


def _failed(said: str, shard: slice, rows: int) -> NetFailed:
    """What the net said, and of which rows."""
    where = f"rows {shard.start} to {shard.stop - 1} of {rows}, counted from 0"
    how = "look at what these rows hold, or pass fewer of them at a time (`batch`)"
    return NetFailed(f"the net failed on {where} ({said}); {how}")


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether this is how numpy, torch's CPU, a CUDA card or MPS say that memory ran out."""
    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    told = str(problem).lower()
    return isinstance(problem, RuntimeError) and any(words in told for words in _NO_MEMORY)


def _say_if_long(seconds: float, describe: str) -> None:
    if seconds < _LONG:
        return
    minutes = f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if torch.cuda.is_available():
        peak = max(peak, torch.cuda.max_memory_allocated())
    memory = f"{peak / 2**30:.1f} GiB of memory"
    remark(f"{describe}: about {minutes} and {memory}; fewer examples take less")


def _give_back_memory() -> None:
    """Return freed pages to the system, where the C library can (glibc).

    What a shard leaves behind, many small arrays, lies between the large ones that were freed:
    without this the process grows with the number of shards.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
