"""Named sets, files in the usual layouts, fingerprints, splits and label corruption. No torch.

>>> from cushion.data import load
>>> sample, held_out = load("digits"), load("digits", "test")
>>> len(sample), len(held_out), sample.shape, sample.classes
(1500, 297, (1, 8, 8), 10)
"""

from cushion.data.dataset import Dataset
from cushion.data.fetch import get, list_sets
from cushion.data.samples import (
    permutation,
    randomize_labels,
    shuffle_labels,
    split,
    subset,
    with_confusion_set,
)
from cushion.data.sources import as_dataset, load, load_pair

__all__ = [
    "Dataset",
    "as_dataset",
    "get",
    "list_sets",
    "load",
    "load_pair",
    "permutation",
    "randomize_labels",
    "shuffle_labels",
    "split",
    "subset",
    "with_confusion_set",
]
