"""From what a user writes after --data to a Dataset: a name, a folder or an .npz file, which steps
may follow, as in `cifar10,subset=10000,random-labels=1,seed=3`.

Steps change the sample only; the held-out part stays as it is. All of them use the one seed, and
each is written into the sample's history, so fingerprint and history say which rows were used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal

from cushion.data import catalogue, samples, store
from cushion.data.dataset import Dataset
from cushion.data.files import check_regular
from cushion.data.formats import folders
from cushion.data.formats.arrays import Pair, read_npz
from cushion.data.labels import as_names, read_labels
from cushion.data.values import as_inputs_array
from cushion.errors import BadInput, remark

Step = Callable[[Dataset, int], Dataset]


def load(source: str | PathLike[str], split: Literal["train", "test"] = "train") -> Dataset:
    """The sample ("train") or the held-out part ("test") of a source; see `load_pair`."""
    if split not in ("train", "test"):
        raise BadInput(f"a split is 'train' or 'test', not {split!r}")
    train, test = load_pair(source)
    if split == "train":
        return train
    if test is None:
        how = "add one, or divide it with cushion.data.split"
        raise BadInput(f"{source}: this source has no held-out part; {how}")
    return test


def load_pair(source: str | PathLike[str]) -> tuple[Dataset, Dataset | None]:
    """The sample and the held-out part (None if there is none) of a name, a folder or an .npz file.

    Steps may follow a comma (`mnist,subset=1000,seed=1`); they change the sample only.
    """
    if not str(source):
        raise BadInput("the source of the data is empty; give a name, a folder or an .npz file")
    plain, apply = parse_source(str(source))
    sample, held_out = _load_plain(plain)
    return apply(sample), held_out


def parse_source(text: str) -> tuple[str, Callable[[Dataset], Dataset]]:
    """The source without its steps, and what to do to its sample.

    >>> parse_source("mnist,subset=100,seed=2")[0]
    'mnist'
    """
    if "," not in text or Path(text).exists():
        return text, lambda sample: sample
    source, *words = text.split(",")
    seed = 0
    steps: list[Step] = []
    for word in words:
        name, _, value = word.partition("=")
        if name == "seed":
            seed = _whole(word, value)
        else:
            steps.append(_step(word, name, value))
    if not source:
        how = "put a name, a folder or an .npz file before them"
        raise BadInput(f"`data` = {text!r} has steps but no source; {how}")

    def apply(sample: Dataset) -> Dataset:
        for step in steps:
            sample = step(sample, seed)
        return dataclasses.replace(sample, name=",".join([sample.name, *words]))

    return source, apply


def _step(word: str, name: str, value: str) -> Step:
    fault = "not known; use subset=N, random-labels=F, shuffle-labels, confusion=N+N or seed=N"
    if name == "subset":
        size = _whole(word, value)
        return lambda sample, seed: samples.subset(sample, size, seed)
    if name == "random-labels":
        try:
            fraction = float(value)
            return lambda sample, seed: samples.randomize_labels(sample, fraction, seed)
        except ValueError:
            fault = "random-labels needs a fraction, such as random-labels=0.5"
    elif name == "shuffle-labels" and not value:
        return samples.shuffle_labels
    elif name == "confusion":
        first, plus, second = value.partition("+")
        if plus:
            sizes = _whole(word, first), _whole(word, second)
            return lambda sample, seed: samples.with_confusion_set(sample, *sizes, seed)
        fault = "confusion needs true and random rows, such as confusion=10000+2000"
    elif name == "split":
        fault = "a set's sample and held-out part come together; it is a step of `unlabelled` only"
    raise BadInput(f"`data` step {word!r}: {fault}")


def _whole(word: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadInput(f"`data` step {word!r}: {text!r} is not a whole number")
    return int(text)


def _load_plain(source: str) -> tuple[Dataset, Dataset | None]:
    """A source without steps.

    A known name wins over a folder of the same name; `./mnist` means the folder. The number of
    classes is that of the named set or layout, and otherwise one more than the largest label of
    both parts (at least 2).
    """
    if (named := catalogue.SETS.get(source)) is not None:
        return store.load(named)
    path = Path(source)
    classes: folders.Classes
    try:
        if path.is_dir():
            pair, classes = folders.read(path)
        elif path.is_file():
            if path.suffix != ".npz":
                kinds = "a single file must be an .npz with x and y"
                raise BadInput(f"{path}: {kinds}; for other layouts give the folder")
            pair, classes = read_npz(path), None
        else:
            check_regular(path)
            known = ", ".join(catalogue.SETS)
            missing = "no such file or folder, nor a named set"
            raise BadInput(f"{source}: {missing}; the named sets are {known}")
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
        raise BadInput(f"{error.filename or path}: {reason}") from None
    return _datasets(path.resolve().name, pair, classes)


def _datasets(name: str, pair: Pair, classes: folders.Classes) -> tuple[Dataset, Dataset | None]:
    """Both parts, their labels numbered together; what was changed is told once.

    Classes that have names already (sub-folders) keep their numbers, and the names are kept.
    """
    parts = [part for part in pair if part is not None]
    names = [name, f"{name} test"][: len(parts)]
    read = [as_inputs_array(part.x, f"{own}: x") for part, own in zip(parts, names, strict=True)]
    known = classes if isinstance(classes, int | None) else len(classes)
    ys, labels = read_labels([part.y for part in parts], [f"{own}: y" for own in names], known)
    if isinstance(classes, list):
        labels = dataclasses.replace(labels, names=as_names(classes))
    (shape, kind), *others = [(x.shape[1:], x.dtype) for x, _ in read]
    for own, dtype in others:
        if (own, dtype) != (shape, kind):
            fault = f"held-out examples are {dtype} {own} but the sample's are {kind} {shape}"
            raise BadInput(f"{name}: {fault}; they must be alike")
    found = [
        Dataset(own, x, y, labels.classes, (), _notes(rounded, labels.remark), labels.names)
        for own, (x, rounded), y in zip(names, read, ys, strict=True)
    ]
    remark(*dict.fromkeys(note for part in found for note in part.notes))
    return found[0], found[1] if len(found) > 1 else None


def _notes(*remarks: str) -> tuple[str, ...]:
    return tuple(remark for remark in remarks if remark)
