"""The way in: whatever a person keeps examples in becomes a Dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from cushion.data import loaders, sources, tables
from cushion.data.dataset import Dataset
from cushion.data.kinds import Examples, is_a, split_labels
from cushion.data.labels import Labels, read_like
from cushion.data.registered import Withheld, check_free, is_reading_through, withheld
from cushion.data.values import as_inputs_array
from cushion.errors import BadInput, remark

_TAKEN = (
    "a Dataset, its name or path, (x, y), a TensorDataset, a dataset with rows by index, a "
    "DataLoader, a Hugging Face dataset, a DataFrame or a Bunch"
)
AnyData: TypeAlias = Any  # what `as_dataset` takes
_HELD_OUT = ("test", "validation", "valid", "val")


def as_dataset(
    data: AnyData, *, like: Dataset | None = None, label_column: str | None = None
) -> Dataset:
    """The examples in `data` as a Dataset: the one way in, wherever data are taken.

    data: a Dataset (as it is), a name or path (its sample), a pair (x, y) of arrays or tensors, a
    TensorDataset, any dataset with rows by index (each is read once, in order), a DataLoader (its
    dataset; shuffling is ignored), a Hugging Face dataset, a DataFrame with a column of labels, a
    Bunch, or a dict of arrays with one of labels. `label_column`: which one that is, where its name
    does not say it.

    like: the sample beside which these are held out: its labels say which class each label is, and
    its columns, where both have names, in which order these are read. What was changed on the way
    in stands in `notes`, and is told as a warning. Rows under a ledger of looks are refused.
    """
    found = _as_dataset(data, like, label_column)
    check_free(found.x, found.name)
    return found


def _as_dataset(data: AnyData, like: Dataset | None, label_column: str | None = None) -> Dataset:
    if isinstance(data, (str, PathLike)):
        data = sources.load(data)
    if isinstance(data, Dataset):
        return data if like is None else _renumbered(_aligned(data, like), like)
    found = _examples(data, label_column)
    if like is None:
        named: Any = {"name": found.name, "notes": found.notes, "columns": found.columns}
        return Dataset(found.x, found.y, **named)
    x, rounded = as_inputs_array(found.x, f"{found.name}: x")
    y = read_like(found.y, f"{found.name}: y", Labels(like.classes, like.labels))
    notes = (*found.notes, *([rounded] if rounded else []))
    remark(*notes)
    read = Dataset(found.name, x, y, like.classes, (), notes, like.labels, found.columns)
    return _aligned(read, like)


def as_held_out(data: AnyData, *, like: Dataset | None = None) -> Dataset:
    """Held-out examples as a Dataset: the held-out part of a source, a file or a dict of sets that
    has one, else all that `as_dataset` finds. Rows under a ledger of looks are refused.
    """
    if isinstance(data, (str, PathLike)) or _is_split(data):
        sample, part = _load_pair(data)
        data = sample if part is None else part
    return as_dataset(data, like=like)


def load_pair(data: AnyData) -> tuple[Dataset, Dataset | None]:
    """The sample and the held-out part (None if there is none) of a name, a folder or a file, with
    the steps behind it; of a dict of sets, those called train and test; of anything else as
    `as_dataset` takes it, no held-out part. A held-out part under a ledger of looks is left out,
    and that is said; refused where it was to be read through another ledger.
    """
    sample, held_out = _load_pair(data)
    check_free(sample.x, sample.name)
    if held_out is not None and (said := withheld(held_out.x, held_out.name)):
        if is_reading_through():
            raise Withheld(said)
        remark(f"{said}; going on without them")
        return sample, None
    return sample, held_out


def _load_pair(data: AnyData) -> tuple[Dataset, Dataset | None]:
    if isinstance(data, (str, PathLike)):
        return sources.load_pair(data)
    if not _is_split(data):
        return _as_dataset(data, None), None
    sample = _as_dataset(data["train"], None)
    other = next((name for name in _HELD_OUT if name in data), None)
    return sample, None if other is None else _as_dataset(data[other], sample)


def _is_split(data: Any) -> bool:
    return isinstance(data, Mapping) and "train" in data


def _renumbered(data: Dataset, like: Dataset) -> Dataset:
    """The same examples, with the class that each label of their source is in the sample."""
    if like.labels == data.labels:
        return data
    own = range(data.classes) if data.labels is None else data.labels
    known = Labels(like.classes, like.labels)
    y = known.number(np.array(own)[data.y], f"{data.name}: y")
    return replace(data, y=y, classes=like.classes, labels=like.labels)


def _aligned(data: Dataset, like: Dataset) -> Dataset:
    """The same examples with their columns in the sample's order, where both have names."""
    own, wanted = data.columns, like.columns
    if not own or not wanted or own == wanted:
        return data
    if sorted(own) != sorted(wanted) or len(set(own)) < len(own):
        odd = sorted(set(own) ^ set(wanted)) or sorted(own)
        said = f"{data.name}: its columns are not those of the sample ({', '.join(odd[:6])} differ)"
        raise BadInput(f"{said}; give both the same columns under the same names")
    order = [own.index(name) for name in wanted]
    return replace(data, x=data.x[:, order], columns=wanted)


def _examples(data: Any, label_column: str | None) -> Examples:
    if is_a(data, "torch", "Module"):
        raise BadInput("data are a net; the net comes first and the data second")
    if is_a(data, "torch", "DataLoader"):
        return loaders.from_loader(data, label_column)
    if is_a(data, "torch", "TensorDataset"):
        return loaders.from_tensors(data)
    if is_a(data, "pandas", "DataFrame"):
        return tables.from_frame(data, label_column)
    if is_a(data, "datasets", "Dataset"):
        return tables.from_hugging_face(data, label_column)
    if is_a(data, "sklearn", "Bunch"):
        return tables.from_bunch(data)
    if _is_split(data):
        if _is_split(data["train"]):
            raise BadInput("this dict's part called train has such a part again; give one set")
        return _examples(data["train"], label_column)
    if isinstance(data, Mapping):
        return Examples(*split_labels(data, label_column, "this dict"))
    if isinstance(data, list) and data and isinstance(data[0], (tuple, Mapping)):
        return loaders.from_dataset(data, label_column)  # a row for each item
    if isinstance(data, (tuple, list)):
        if len(data) != 2:
            raise BadInput(f"data must be {_TAKEN}, not {len(data)} parts")
        return tables.from_pair(data[0], data[1])
    if hasattr(data, "ndim") or not hasattr(data, "__getitem__"):
        raise BadInput(f"data must be {_TAKEN}, not {type(data).__name__}")
    return loaders.from_dataset(data, label_column)
