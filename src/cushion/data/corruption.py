"""Seeded label corruption: random or shuffled labels, or a confusion set beside a true sample."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cushion.data.counter import stream
from cushion.data.dataset import Dataset
from cushion.data.splits import permutation
from cushion.errors import BadInput


def randomize_labels(dataset: Dataset, fraction: float, seed: int) -> Dataset:
    """Give a random `fraction` of the rows (rounded) labels drawn uniformly from all classes.

    A drawn label may be the true one, as in Zhang et al. 2017 §2: with fraction 1 about 1/classes
    of the labels stay right by chance. Rows keep their order.
    """
    if not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise BadInput(
            f"{dataset.name}: the fraction of random labels must lie in 0 to 1, not {fraction}"
        )
    m = len(dataset)
    count = round(fraction * m)
    rows = permutation(m, seed)[:count]
    y = np.array(dataset.y)
    y[rows] = _uniform_labels(dataset.classes, count, seed)
    return dataset.relabel(
        y,
        f"random labels: uniform over {dataset.classes} classes on {count} of {m} rows, "
        f"seed={seed}",
    )


def shuffle_labels(dataset: Dataset, seed: int) -> Dataset:
    """Permute the labels among the rows (Arora et al. 2018 §6): the class counts stay."""
    m = len(dataset)
    return dataset.relabel(
        dataset.y[permutation(m, seed)],
        f"shuffled labels: y taken in the order of permutation({m}, seed={seed})",
    )


def with_confusion_set(dataset: Dataset, true_size: int, confusion_size: int, seed: int) -> Dataset:
    """A random sample with its true labels, then a disjoint one with uniformly random labels.

    The experiment of Neyshabur et al. 2017 §3 ("different global minima"): rows 0..true_size-1 of
    the result are the training set proper, the rest its confusion set. The true rows depend on the
    seed and true_size alone, so a growing confusion set joins the same training set, and its rows
    and labels only ever grow too.
    """
    if true_size < 1 or confusion_size < 0:
        raise BadInput(
            f"{dataset.name}: the true part needs at least 1 row and the confusion set at least 0, "
            f"not {true_size} and {confusion_size}"
        )
    total = true_size + confusion_size
    if total > len(dataset):
        raise BadInput(
            f"{dataset.name}: {true_size} true and {confusion_size} confusion rows are more than "
            f"the {len(dataset)} there are; ask for fewer"
        )
    union = dataset.select(
        permutation(len(dataset), seed)[:total],
        f"subset: the first {total} rows of permutation({len(dataset)}, seed={seed})",
    )
    y = np.concatenate(
        [union.y[:true_size], _uniform_labels(dataset.classes, confusion_size, seed)]
    )
    return union.relabel(
        y,
        f"confusion set: the first {true_size} rows keep their true labels, the other "
        f"{confusion_size} have labels uniform over {dataset.classes} classes, seed={seed}",
    )


def _uniform_labels(classes: int, count: int, seed: int) -> NDArray[np.int64]:
    """[count] labels; the remainder of a 64-bit hash is uniform to within classes/2^64."""
    return (stream("labels", seed, count) % np.uint64(classes)).astype(np.int64)
