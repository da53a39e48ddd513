"""From what a user writes after --data (a name, a folder or an .npz file) to a Dataset."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from cushion.data import catalogue, digits, store
from cushion.data.dataset import Dataset
from cushion.data.formats import folders, npz
from cushion.data.formats.arrays import Pair
from cushion.data.steps import parse_source
from cushion.errors import BadInput

MOST_CLASSES = 10_000  # when labels alone say how many classes there are


def load(source: str | PathLike[str], split: Literal["train", "test"] = "train") -> Dataset:
    """The sample ("train") or the held-out part ("test") of a source; see `load_pair`."""
    if split not in ("train", "test"):
        raise BadInput(f"a split is 'train' or 'test', not {split!r}")
    train, test = load_pair(source)
    if split == "train":
        return train
    if test is None:
        raise BadInput(
            f"{source}: this source has no held-out part; add one, or divide it with "
            "cushion.data.split"
        )
    return test


def load_pair(source: str | PathLike[str]) -> tuple[Dataset, Dataset | None]:
    """The sample and the held-out part (None if there is none) of a name, a folder or an .npz file.

    Steps may follow a comma (`mnist,subset=1000,seed=1`, see `steps`); they change the sample only.
    """
    if not str(source):
        raise BadInput("the source of the data is empty; give a name, a folder or an .npz file")
    plain, apply = parse_source(str(source))
    sample, held_out = _load_plain(plain)
    return apply(sample), held_out


def as_dataset(data: Dataset | str | PathLike[str]) -> Dataset:
    """A Dataset as it is; for a name or path, its sample."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (str, PathLike)):
        return load(data)
    raise BadInput(
        f"data must be a Dataset or the name of one, not {type(data).__name__}; see cushion.load"
    )


def _load_plain(source: str) -> tuple[Dataset, Dataset | None]:
    """A source without steps.

    A known name wins over a folder of the same name; `./mnist` means the folder. The number of
    classes is that of the named set or layout, and otherwise one more than the largest label of
    both parts (at least 2).
    """
    named = catalogue.SETS.get(source)
    if named is not None:
        return _named(named)
    path = Path(source)
    try:
        if path.is_dir():
            pair, classes = folders.read(path)
        elif path.is_file():
            if path.suffix != ".npz":
                raise BadInput(
                    f"{path}: a single file must be an .npz with x and y; for other layouts give "
                    "the folder"
                )
            pair, classes = npz.read(path), None
        else:
            raise BadInput(
                f"{source}: no such file or folder, nor a named set; the named sets are "
                f"{', '.join(catalogue.SETS)}"
            )
    except OSError as error:
        raise BadInput(
            f"{error.filename or path}: cannot be read ({error.strerror or error})"
        ) from None
    return _datasets(path.resolve().name, pair, classes)


def _named(named: catalogue.NamedSet) -> tuple[Dataset, Dataset]:
    if named.package is None:
        return digits.read()
    if not store.is_present(named):
        raise BadInput(
            f"{named.name}: this set has not been downloaded; run `cushion data get {named.name}` "
            "first"
        )
    return store.read(named, store.folder(named.name))


def _datasets(name: str, pair: Pair, classes: int | None) -> tuple[Dataset, Dataset | None]:
    train, test = pair
    if classes is None:
        classes = max(
            [2, *(int(part.y.max()) + 1 for part in pair if part is not None and len(part.y))]
        )
        if classes > MOST_CLASSES:
            raise BadInput(
                f"{name}: label {classes - 1} would make {classes} classes, more than "
                f"{MOST_CLASSES}; number the labels 0, 1, 2, ... without gaps"
            )
    sample = Dataset(name, train.x, train.y, classes)
    if test is None:
        return sample, None
    if test.x.shape[1:] != train.x.shape[1:] or test.x.dtype != train.x.dtype:
        raise BadInput(
            f"{name}: held-out examples are {test.x.dtype} {test.x.shape[1:]} but the sample's are "
            f"{train.x.dtype} {train.x.shape[1:]}; they must be alike"
        )
    return sample, Dataset(f"{name} test", test.x, test.y, classes)
