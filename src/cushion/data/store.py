"""Where fetched sets live: ROOT/NAME/arrays, four .npy files and meta.json, whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cushion.data.catalogue import NamedSet
from cushion.data.dataset import Dataset
from cushion.data.formats import npy
from cushion.errors import BadInput, CushionError, Malformed


def root() -> Path:
    """$CUSHION_DATA, or else cushion/ in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("CUSHION_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "cushion"


def folder(name: str, under: Path | None = None) -> Path:
    """The folder that holds, or will hold, the arrays of a named set."""
    return (under or root()) / name / "arrays"


def is_present(named: NamedSet, under: Path | None = None) -> bool:
    """Whether the set was fetched: all files are there, meta.json states its fingerprints.

    Quick, since it reads no pixels; `is_sound` does.
    """
    place = folder(named.name, under)
    try:
        stated = json.loads((place / "meta.json").read_text())
        return all((place / name).is_file() for name in npy.FILES) and stated == _meta(named)
    except (OSError, ValueError):
        return False


def is_sound(named: NamedSet, place: Path) -> bool:
    """Whether the arrays in `place` have the catalogue's fingerprints, from the bytes on disk."""
    try:
        train, test = read(named, place)
    except (CushionError, OSError):
        return False
    return (train.fingerprint, test.fingerprint) == (
        named.train_fingerprint,
        named.test_fingerprint,
    )


def read(named: NamedSet, place: Path) -> tuple[Dataset, Dataset]:
    """Both parts, memory-mapped: opening CIFAR-10 reads none of its pixels."""
    try:
        train, test = npy.read_folder(place)
    except Malformed as problem:
        raise Malformed(f"{problem}; run `cushion data get {named.name}` to mend it") from None
    if test is None:
        raise BadInput(
            f"{place}: the held-out part is missing; run `cushion data get {named.name}` again"
        )
    return (
        Dataset(named.name, train.x, train.y, named.classes),
        Dataset(f"{named.name} test", test.x, test.y, named.classes),
    )


def write_meta(named: NamedSet, place: Path) -> None:
    """State beside the arrays what they are."""
    (place / "meta.json").write_text(json.dumps(_meta(named), indent=2) + "\n")


def _meta(named: NamedSet) -> dict[str, object]:
    return {
        "name": named.name,
        "origin": named.origin,
        "classes": named.classes,
        "train_examples": named.train,
        "train_fingerprint": named.train_fingerprint,
        "test_examples": named.test,
        "test_fingerprint": named.test_fingerprint,
    }
