"""Seeded subsets and splits of a sample; each records itself in the history."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cushion.data.counter import stream
from cushion.data.dataset import Dataset
from cushion.errors import BadInput


def permutation(n: int, seed: int) -> NDArray[np.int64]:
    """A permutation of 0..n-1, uniform over seeds, the same on every machine: [n] int64.

    It sorts the rows by their SplitMix64 hashes; a tie (probability below n²/2^65) keeps the lower
    row first.
    """
    if n < 0:
        raise BadInput(f"a permutation needs at least 0 rows, not {n}")
    return np.argsort(stream("permutation", seed, n), kind="stable").astype(np.int64, copy=False)


def subset(dataset: Dataset, n: int, seed: int) -> Dataset:
    """n rows drawn uniformly without replacement, in random order."""
    if not 1 <= n <= len(dataset):
        raise BadInput(
            f"{dataset.name}: a subset of {n} rows cannot be drawn from {len(dataset)}; ask for 1 "
            f"to {len(dataset)}"
        )
    rows = permutation(len(dataset), seed)[:n]
    return dataset.select(
        rows, f"subset: the first {n} rows of permutation({len(dataset)}, seed={seed})"
    )


def split(dataset: Dataset, n: int, seed: int) -> tuple[Dataset, Dataset]:
    """Two disjoint samples that make up the whole: n random rows, and the rest, in random order.

    The first part equals `subset(dataset, n, seed)` in its rows.
    """
    total = len(dataset)
    if not 1 <= n < total:
        raise BadInput(
            f"{dataset.name}: {total} rows cannot be split at {n}; both parts need at least one row"
        )
    rows = permutation(total, seed)
    return (
        dataset.select(rows[:n], f"split: the first {n} rows of permutation({total}, seed={seed})"),
        dataset.select(
            rows[n:], f"split: the last {total - n} rows of permutation({total}, seed={seed})"
        ),
    )
