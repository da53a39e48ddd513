"""Where named sets are read from: the digits inside scikit-learn, and fetched sets in
ROOT/NAME/arrays, four .npy files and meta.json, whole or not at all.
"""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from cushion.data.catalogue import NamedSet
from cushion.data.dataset import Dataset
from cushion.data.files import check_regular, write_whole
from cushion.data.formats import arrays
from cushion.data.samples import split
from cushion.errors import BadInput, CushionError, Malformed

# What this process has hashed, and the state of the files then: within one process a set is hashed
# once, unless its files change.
_CHECKED: dict[Path, tuple[tuple[int, ...], ...]] = {}


def root() -> Path:
    """$CUSHION_DATA, or else cushion/ in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("CUSHION_DATA"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "cushion"


def folder(name: str, under: Path | None = None) -> Path:
    """The folder that holds, or will hold, the arrays of a named set."""
    return (under or root()) / name / "arrays"


def load(named: NamedSet) -> tuple[Dataset, Dataset]:
    """The sample and the held-out part, or BadInput where the set is not there."""
    if named.package is None:
        return _checked(named, _digits(named), "scikit-learn", "install scikit-learn again")
    if not is_present(named):
        how = f"run `cushion data get {named.name}` first"
        raise BadInput(f"{named.name}: this set has not been downloaded; {how}")
    place = folder(named.name)
    state = _state(place)
    parts = read(named, place)
    if _CHECKED.get(place) != state:
        _checked(named, parts, str(place), f"run `cushion data get {named.name}` to mend it")
        _CHECKED[place] = state
    return parts


def _checked(
    named: NamedSet, parts: tuple[Dataset, Dataset], where: str, how: str
) -> tuple[Dataset, Dataset]:
    """The parts; Malformed, with what to do, unless they have the catalogue's fingerprints."""
    wanted = (named.train_fingerprint, named.test_fingerprint)
    for part, fingerprint in zip(parts, wanted, strict=True):
        if part.fingerprint != fingerprint:
            fault = f"the pixels or labels in {where} are not the published ones"
            raise Malformed(f"{part.name}: {fault}; {how}")
    return parts


def _state(place: Path) -> tuple[tuple[int, ...], ...]:
    """What changes, at least one of it, when a file is written again or into."""
    found = [(place / name).stat() for name in arrays.FILES]
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found)


def is_present(named: NamedSet, under: Path | None = None) -> bool:
    """Whether all files are there and meta.json states the set's fingerprints; pixels unread."""
    place = folder(named.name, under)
    try:
        stated = json.loads(check_regular(place / "meta.json").read_text())
        return all((place / name).is_file() for name in arrays.FILES) and stated == _meta(named)
    except (OSError, ValueError, CushionError):
        return named.package is None  # embedded: always there


def is_sound(named: NamedSet, place: Path) -> bool:
    """Whether the arrays in `place` have the catalogue's fingerprints, from the bytes on disk."""
    try:
        found = tuple(part.fingerprint for part in read(named, place))
    except (CushionError, OSError):
        return False
    return found == (named.train_fingerprint, named.test_fingerprint)


def read(named: NamedSet, place: Path) -> tuple[Dataset, Dataset]:
    """Both parts, memory-mapped: opening CIFAR-10 reads none of its pixels."""
    again = f"run `cushion data get {named.name}`"
    try:
        train, test = arrays.read_folder(place)
    except Malformed as problem:
        raise Malformed(f"{problem}; {again} to mend it") from None
    if test is None:
        raise BadInput(f"{place}: the held-out part is missing; {again} again")
    sample = Dataset(named.name, train.x, train.y, named.classes)
    return sample, Dataset(f"{named.name} test", test.x, test.y, named.classes)


def write_meta(named: NamedSet, place: Path) -> None:
    """State beside the arrays what they are."""
    write_whole(place / "meta.json", json.dumps(_meta(named), indent=2) + "\n")


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


def _digits(named: NamedSet) -> tuple[Dataset, Dataset]:
    """1797 handwritten digits, x [n, 1, 8, 8] uint8 in 0..240: 1500 are the sample, 297 held out.

    The original pixels are counts in 0..16; times 15 they use the range of a byte without rounding.
    """
    package = importlib.util.find_spec("sklearn")
    origin = "" if package is None else package.origin or ""
    table = Path(origin).parent / "datasets" / "data" / "digits.csv.gz"
    if origin and table.is_file():
        # Reading the table takes a tenth of the two seconds that importing scikit-learn does.
        rows = np.loadtxt(table, delimiter=",", dtype=np.int64)
        pixels, labels = rows[:, :64], rows[:, 64]
    else:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    x = (pixels * 15).astype(np.uint8).reshape(-1, *named.shape)
    made = ("digits: scikit-learn's 1797 images, pixels 0..16 multiplied by 15",)
    whole = Dataset(named.name, x, labels.astype(np.int64), named.classes, made)
    sample, held_out = split(whole, named.train, seed=0)
    return sample, replace(held_out, name="digits test")
