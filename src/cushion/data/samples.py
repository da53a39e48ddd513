"""Seeded subsets, splits and label corruption of a sample; each records itself in the history."""

from __future__ import annotations

import math

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
    total = len(dataset)
    if not 1 <= n <= total:
        fault = f"a subset of {n} rows cannot be drawn from {total}"
        raise BadInput(f"{dataset.name}: {fault}; ask for 1 to {total}")
    step = f"subset: the first {n} rows of permutation({total}, seed={seed})"
    return dataset.select(permutation(total, seed)[:n], step)


def split(dataset: Dataset, n: int, seed: int) -> tuple[Dataset, Dataset]:
    """Two disjoint samples that make up the whole: n random rows, and the rest, in random order.

    The first part equals `subset(dataset, n, seed)` in its rows.
    """
    total = len(dataset)
    if not 1 <= n < total:
        fault = f"{total} rows cannot be split at {n}; both parts need at least one row"
        raise BadInput(f"{dataset.name}: {fault}")
    rows, order = permutation(total, seed), f"rows of permutation({total}, seed={seed})"
    return (
        dataset.select(rows[:n], f"split: the first {n} {order}"),
        dataset.select(rows[n:], f"split: the last {total - n} {order}"),
    )


def randomize_labels(dataset: Dataset, fraction: float, seed: int) -> Dataset:
    """Give a random `fraction` of the rows (rounded) labels drawn uniformly from all classes.

    A drawn label may be the true one, as in Zhang et al. 2017 §2: with fraction 1 about 1/classes
    of the labels stay right by chance. Rows keep their order.
    """
    if not (math.isfinite(fraction) and 0 <= fraction <= 1):
        fault = f"the fraction of random labels must lie in 0 to 1, not {fraction}"
        raise BadInput(f"{dataset.name}: {fault}")
    m = len(dataset)
    count = round(fraction * m)
    y = np.array(dataset.y)
    y[permutation(m, seed)[:count]] = _uniform_labels(dataset.classes, count, seed)
    how = f"uniform over {dataset.classes} classes on {count} of {m} rows"
    return dataset.relabel(y, f"random labels: {how}, seed={seed}")


def shuffle_labels(dataset: Dataset, seed: int) -> Dataset:
    """Permute the labels among the rows (Arora et al. 2018 §6): the class counts stay."""
    m = len(dataset)
    step = f"shuffled labels: y taken in the order of permutation({m}, seed={seed})"
    return dataset.relabel(dataset.y[permutation(m, seed)], step)


def with_confusion_set(dataset: Dataset, true_size: int, confusion_size: int, seed: int) -> Dataset:
    """A random sample with its true labels, then a disjoint one with uniformly random labels.

    The experiment of Neyshabur et al. 2017 §3 ("different global minima"): rows 0..true_size-1 of
    the result are the training set proper, the rest its confusion set. The true rows depend on the
    seed and true_size alone, so a growing confusion set joins the same training set, and its rows
    and labels only ever grow too.
    """
    if true_size < 1 or confusion_size < 0:
        needs = "the true part needs at least 1 row and the confusion set at least 0"
        raise BadInput(f"{dataset.name}: {needs}, not {true_size} and {confusion_size}")
    total = true_size + confusion_size
    if total > len(dataset):
        asked = f"{true_size} true and {confusion_size} confusion rows"
        fault = f"{asked} are more than the {len(dataset)} there are; ask for fewer"
        raise BadInput(f"{dataset.name}: {fault}")
    union = subset(dataset, total, seed)
    random = _uniform_labels(dataset.classes, confusion_size, seed)
    return union.relabel(
        np.concatenate([union.y[:true_size], random]),
        f"confusion set: the first {true_size} rows keep their true labels, the other "
        f"{confusion_size} have labels uniform over {dataset.classes} classes, seed={seed}",
    )


def _uniform_labels(classes: int, count: int, seed: int) -> NDArray[np.int64]:
    """[count] labels; the remainder of a 64-bit hash is uniform to within classes/2^64."""
    return (stream("labels", seed, count) % np.uint64(classes)).astype(np.int64)
