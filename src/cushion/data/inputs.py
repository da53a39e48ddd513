"""Unlabelled inputs: rows whose labels are never looked at; their identity, and rows in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data import catalogue
from cushion.data.dataset import Dataset, hash_arrays
from cushion.data.formats.arrays import read_inputs, recognise
from cushion.data.freshness import freshness_fault as freshness_fault
from cushion.data.given import AnyData, as_dataset, as_held_out
from cushion.data.registered import check_first_use, check_free
from cushion.data.rows import Reading
from cushion.data.rows import count_shared as count_shared
from cushion.data.sources import load_pair, parse_source
from cushion.data.values import as_inputs_array
from cushion.errors import BadInput, remark

_SPLIT = "split="


@dataclass(frozen=True, eq=False)
class Inputs:
    """x: [n, *shape] or a structured array [n], checked as a Dataset's inputs are."""

    name: str
    x: NDArray[Any]
    history: tuple[str, ...] = ()  # as of a Dataset

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def fingerprint(self) -> str:
        """The hash of x (FORMAT.md, section 5)."""
        return hash_arrays("cushion-inputs-1", self.x)


def as_inputs(source: Inputs | AnyData) -> Inputs:
    """The inputs of a name, a folder or an .npz file, where labels may be missing; of an array or
    tensor; or of anything that `as_dataset` takes.

    Steps may follow a comma as in --data, and `split=test` means the held-out part:
    `mnist,split=test`.
    """
    if isinstance(source, Inputs):
        check_free(source.x, source.name)
        return source
    if isinstance(source, (str, PathLike)):
        part = _load(str(source))
    elif hasattr(source, "ndim") and hasattr(source, "dtype"):
        part = Dataset(source, np.zeros(len(source), np.int64), name="unlabelled")
    else:
        part = as_dataset(source)
    check_free(part.x, part.name)
    return Inputs(part.name, part.x, part.history)


def _load(text: str) -> Dataset:
    if not text:
        empty = "the source of the unlabelled inputs is empty"
        raise BadInput(f"{empty}; give a name, a folder or an .npz file")
    split = "train"
    if not Path(text).exists():
        source, *words = text.split(",")
        for word in words:
            if word.startswith(_SPLIT):
                split = word.removeprefix(_SPLIT)
        if split not in ("train", "test"):
            raise BadInput(f"{text}: a split is train or test, not {split!r}")
        text = ",".join([source, *(word for word in words if not word.startswith(_SPLIT))])
    plain, apply = parse_source(text)
    path = Path(plain)
    file = path.suffix == ".npz" and path.is_file()
    if plain not in catalogue.SETS and (file or (path.is_dir() and recognise(path))):
        name = path.name if split == "train" else f"{path.name} test"
        x, rounded = as_inputs_array(
            read_inputs(path, "x" if split == "train" else "x_test"), f"{name}: x"
        )
        remark(*[rounded] if rounded else [])
        return apply(Dataset(name, x, np.zeros(len(x), dtype=np.int64), 2))
    sample, held_out = load_pair(plain)
    if split == "train":
        return apply(sample)
    if held_out is None:
        how = f"leave {_SPLIT}test out, or give another source"
        raise BadInput(f"{plain}: this source has no held-out part; {how}")
    return apply(held_out)


def as_holdout(holdout: AnyData, sample: Dataset, read: Reading | None = None) -> Dataset | None:
    """Held-out examples of any kind (None stays None; of a source that has a held-out part, that
    part), their labels numbered as the sample's.

    BadInput if they are not of the sample's kind, or cannot be held out beside it; read: as of
    `check_holdout`.
    """
    if holdout is None:
        return None
    found = as_held_out(holdout, like=sample)
    if (found.x.dtype, found.shape) != (sample.x.dtype, sample.shape):
        own, kind = f"{found.x.dtype} {found.shape}", f"{sample.x.dtype} {sample.shape}"
        fault = f"the held-out examples are {own} but the sample's are {kind}"
        raise BadInput(f"{found.name}: {fault}; they must be alike")
    check_holdout(found, sample, read)
    return found


def check_holdout(holdout: Dataset | None, sample: Dataset, read: Reading | None = None) -> None:
    """BadInput if these examples cannot be held out beside the sample; read: as a net reads them,
    where there is one.
    """
    if holdout is not None and (fault := freshness_fault(holdout.x, sample.x, read)):
        said = f"the held-out examples ({holdout.name}) are not held out: {fault}"
        raise BadInput(f"{said}; hold out others, or none")


def as_fresh(unlabelled: Inputs | AnyData, sample: Dataset, read: Reading | None) -> Inputs:
    """The inputs, or BadInput unless they are of the sample's kind, have no rows from it, and never
    had a ledger of looks.
    """
    inputs = as_inputs(unlabelled)
    if inputs.x.dtype != sample.x.dtype or inputs.x.shape[1:] != sample.x.shape[1:]:
        raise BadInput(
            f"{inputs.name}: the unlabelled inputs are {inputs.x.dtype} {inputs.x.shape[1:]} but "
            f"the sample's are {sample.x.dtype} {sample.x.shape[1:]}; they must be alike"
        )
    check_fresh(inputs, sample, read)
    check_first_use(inputs.x, inputs.name)
    return inputs


def check_fresh(inputs: Inputs, sample: Dataset, read: Reading | None) -> None:
    """BadInput if some of the inputs are the sample's own, also as a net reads them."""
    if fault := freshness_fault(inputs.x, sample.x, read):
        raise BadInput(
            f"{inputs.name}: the unlabelled inputs are not fresh, {fault}; give some that were "
            "used for nothing else, such as those of a set's held-out part (NAME,split=test)"
        )
