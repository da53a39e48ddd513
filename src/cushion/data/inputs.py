"""Unlabelled inputs: rows whose labels are never looked at; their identity, and rows in common."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data import catalogue
from cushion.data.dataset import Dataset, hash_arrays
from cushion.data.formats.arrays import read_inputs
from cushion.data.given import AnyData, as_dataset
from cushion.data.sources import load_pair, parse_source
from cushion.data.values import as_inputs_array
from cushion.errors import BadInput, tell

_SPLIT = "split="


@dataclass(frozen=True, eq=False)
class Inputs:
    """x: [n, *shape] or a structured array [n], checked as a Dataset's inputs are."""

    name: str
    x: NDArray[Any]

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
        return source
    if isinstance(source, (str, PathLike)):
        part = _load(str(source))
    elif hasattr(source, "ndim") and hasattr(source, "dtype"):
        part = Dataset(source, np.zeros(len(source), np.int64), name="unlabelled")
    else:
        part = as_dataset(source)
    return Inputs(part.name, part.x)


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
    if plain not in catalogue.SETS and path.suffix == ".npz" and path.is_file():
        name = path.name if split == "train" else f"{path.name} test"
        x, rounded = as_inputs_array(
            read_inputs(path, "x" if split == "train" else "x_test"), f"{name}: x"
        )
        tell(*[rounded] if rounded else [])
        return apply(Dataset(name, x, np.zeros(len(x), dtype=np.int64), 2))
    sample, held_out = load_pair(plain)
    if split == "train":
        return apply(sample)
    if held_out is None:
        how = f"leave {_SPLIT}test out, or give another source"
        raise BadInput(f"{plain}: this source has no held-out part; {how}")
    return apply(held_out)


def count_shared(rows: NDArray[Any], others: NDArray[Any]) -> int:
    """How many of `rows` are, byte for byte, also among `others`; none if types differ."""
    if rows.dtype != others.dtype:
        return 0
    known = set(_digests(others))
    return sum(digest in known for digest in _digests(rows))


def freshness_fault(rows: NDArray[Any], sample: NDArray[Any]) -> str:
    """Why the rows cannot be fresh draws beside the sample's, to end a sentence; empty if they can.

    A row of the sample again means that they are not fresh, unless the sample repeats its own rows,
    as draws from few possible rows do: then they may meet the sample's rows up to twice as often as
    it meets its own (a new draw meets m earlier ones about as often as each of them meets the
    others). The sample in another order is never fresh.
    """
    if rows.dtype != sample.dtype:
        return ""
    theirs, ours = Counter(_digests(rows)), Counter(_digests(sample))
    shared = sum(count for digest, count in theirs.items() if digest in ours)
    repeated = sum(count for count in ours.values() if count > 1)
    if not shared or (shared * len(sample) <= 2 * repeated * len(rows) and theirs != ours):
        return ""
    return f"{shared} of the {len(rows)} are rows of the sample itself"


def as_holdout(holdout: AnyData, sample: Dataset) -> Dataset | None:
    """Held-out examples of any kind (None stays None), their labels numbered as the sample's.

    BadInput if they are not of the sample's kind, or cannot be held out beside it.
    """
    if holdout is None:
        return None
    found = as_dataset(holdout, like=sample)
    if (found.x.dtype, found.shape) != (sample.x.dtype, sample.shape):
        own, kind = f"{found.x.dtype} {found.shape}", f"{sample.x.dtype} {sample.shape}"
        fault = f"the held-out examples are {own} but the sample's are {kind}"
        raise BadInput(f"{found.name}: {fault}; they must be alike")
    check_holdout(found, sample)
    return found


def check_holdout(holdout: Dataset | None, sample: Dataset) -> None:
    """BadInput if these examples cannot be held out beside the sample."""
    if holdout is not None and (fault := freshness_fault(holdout.x, sample.x)):
        said = f"the held-out examples ({holdout.name}) are not held out: {fault}"
        raise BadInput(f"{said}; hold out others, or none")


def _digests(x: NDArray[Any]) -> list[bytes]:
    return [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in x]
