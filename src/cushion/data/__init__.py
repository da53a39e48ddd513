"""Named sets, files in the usual layouts, fingerprints, splits and label corruption. No torch.

>>> from cushion.data import load
>>> sample, held_out = load("digits"), load("digits", "test")
>>> len(sample), len(held_out), sample.shape, sample.classes
(1500, 297, (1, 8, 8), 10)
"""

from cushion.data.dataset import Dataset as Dataset
from cushion.data.fetch import get as get
from cushion.data.fetch import list_sets as list_sets
from cushion.data.given import AnyData as AnyData
from cushion.data.given import as_dataset as as_dataset
from cushion.data.given import load_pair as load_pair
from cushion.data.samples import permutation as permutation
from cushion.data.samples import randomize_labels as randomize_labels
from cushion.data.samples import shuffle_labels as shuffle_labels
from cushion.data.samples import split as split
from cushion.data.samples import subset as subset
from cushion.data.samples import with_confusion_set as with_confusion_set
from cushion.data.sources import load as load
