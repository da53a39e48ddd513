"""What every format hands over (inputs and labels of a part, before they become a Dataset), and
numpy's own files of it: `.npz` archives with x and y, and optionally x_test and y_test; folders of
x_train.npy, y_train.npy, x_test.npy, y_test.npy, which is how fetched sets are kept, or of what an
archive unpacks to (x.npy, y.npy, ...). Other usual names are known too (`names`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import check_regular
from cushion.data.formats.names import Names, find_inputs, find_names
from cushion.errors import BadInput, CushionError, Malformed

MOST_UNPACKED = 10**9  # bytes of an archive's arrays: it is unpacked in memory, a folder is mapped
FILES = ("x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy")


class Arrays(NamedTuple):
    """x: [m, *shape] and y: labels, of any kind that `sources` makes a Dataset of."""

    x: NDArray[Any]
    y: NDArray[Any]


Pair = tuple[Arrays, Arrays | None]  # the sample, and the held-out part if the source has one


def read_npz(path: Path) -> Pair:
    """Read both parts. Pickled (object) arrays are refused unread."""

    def choose(names: list[str]) -> list[str]:
        return [*find_names(names, "x"), *_test(names)]

    (x, y, x_test, y_test), found = _archived(path, choose)
    if x is None or y is None:
        how = "write it again with numpy.savez(file, x=..., y=...)"
        needs = "an .npz set needs the arrays x and y"
        raise BadInput(f"{path}: {needs}, but this one has {found}; {how}")
    if (x_test is None) != (y_test is None):
        needs = "a held-out part needs both x_test and y_test"
        raise BadInput(f"{path}: {needs}, but this one has {found}")
    test = None if x_test is None or y_test is None else Arrays(x_test, y_test)
    return Arrays(x, y), test


def read_inputs(path: Path, key: str) -> NDArray[Any]:
    """One array of an .npz or folder, "x" or "x_test"; labels are not looked at."""
    if path.is_dir():
        names = _listed(path)
        named = "x_train" in names and key == "x"
        return _map(path / f"{'x_train' if named else find_inputs(names, key)}.npy")
    (x,), found = _archived(path, lambda names: [find_inputs(names, key)])
    if x is None:
        raise BadInput(f"{path}: unlabelled inputs need the array {key}, but this file has {found}")
    return x


def recognise(folder: Path) -> bool:
    """Whether the folder holds a training part as .npy files."""
    return (folder / f"{_train(folder)[0]}.npy").is_file()


def _train(folder: Path) -> Names:
    """What the training part is called there."""
    names = _listed(folder)
    return ("x_train", "y_train") if "x_train" in names else find_names(names, "x")


def _test(names: list[str]) -> Names:
    """What the held-out part is called; inputs without labels are missed by their labels' name."""
    return find_inputs(names, "x_test"), find_names(names, "x_test")[1]


def _listed(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.npy")]


def read_folder(folder: Path) -> Pair:
    """Both parts, memory-mapped: pixels are paged in from the file when a batch touches them."""

    def part(names: Names) -> Arrays:
        x, y = (_map(folder / f"{name}.npy") for name in names)
        return Arrays(x, y)

    test = _test(_listed(folder))
    held_out = (folder / f"{test[0]}.npy").is_file()
    return part(_train(folder)), part(test) if held_out else None


def write_folder(folder: Path, train: Arrays, test: Arrays) -> None:
    """Write the four files into an existing folder."""
    for name, array in zip(FILES, (*train, *test), strict=True):
        np.save(folder / name, array, allow_pickle=False)


def _archived(
    path: Path, choose: Callable[[list[str]], list[str]]
) -> tuple[list[NDArray[Any] | None], str]:
    """The arrays that are chosen by their names (None for one that is not there), and the names of
    all that are.
    """
    try:
        archive = np.load(check_regular(path), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            how = "write it with numpy.savez(file, x=..., y=...)"
            raise Malformed(f"{path}: not an .npz archive; {how}")
        with archive:
            keys = choose(archive.files)
            _check_size(archive, keys, path)
            arrays = [_member(archive, key, path) if key in archive else None for key in keys]
            return arrays, ", ".join(archive.files) or "none"
    except (CushionError, PermissionError):
        raise
    # a damaged zip raises nearly anything: BadZipFile, zlib.error, RuntimeError, ...
    except Exception as error:
        reason = f"not a readable .npz archive ({_reason(error)})"
        raise Malformed(f"{path}: {reason}; write it again with numpy.savez") from None


def _check_size(archive: Any, keys: list[str], path: Path) -> None:
    """BadInput, before anything is unpacked, if the arrays are too large for an archive.

    An array is as large as its header says, or as the archive's directory does: the larger counts.
    """
    size = 0
    for name in archive.zip.namelist():
        if name.removesuffix(".npy") in keys:
            with archive.zip.open(name) as stream:
                size += max(archive.zip.getinfo(name).file_size, _stated_size(stream))
    if size > MOST_UNPACKED:
        much = f"its arrays unpack to {size / 1e9:.1f} GB, more than the {MOST_UNPACKED / 1e9:g} GB"
        folder = path.with_suffix("")
        how = f"unpack it with `python -m zipfile -e {path} {folder}` and give {folder}"
        raise BadInput(f"{path}: {much} that are read from an .npz; {how}, which is memory-mapped")


def _stated_size(stream: Any) -> int:
    """Bytes of the array that a header describes; 0 where it is of a kind that numpy refuses."""
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        return 0
    shape, _, kind = readers[version](stream)
    return int(np.prod(shape, dtype=object)) * kind.itemsize


def _member(archive: Any, key: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[key]
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise
        # numpy's wording for dtype object under allow_pickle=False
        fault = "is an array of Python objects, which is never unpickled; save it as numbers"
        raise BadInput(f"{path}: {key} {fault}") from None
    return array


def _map(path: Path) -> NDArray[Any]:
    try:
        mapped = np.load(check_regular(path), mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"{path}: the file is missing; put it beside the others") from None
    except (OSError, CushionError):
        raise
    # a hostile header raises nearly anything: TokenError, OverflowError, MemoryError, ...
    except Exception as error:
        reason = f"not a readable .npy array ({_reason(error)})"
        raise Malformed(f"{path}: {reason}; write it again") from None
    if not isinstance(mapped, np.ndarray):
        raise Malformed(f"{path}: not an .npy array; write it with numpy.save")
    return np.asarray(mapped)


def _reason(error: Exception) -> str:
    """Why numpy could not read a file, in a few words and without its advice to unpickle it."""
    first = next(iter(str(error).strip().splitlines()), "")
    silent = isinstance(error, MemoryError) and not first
    if (
        silent
        or "malformed node" in first
        or isinstance(error, (TokenError, OverflowError, RecursionError))
    ):
        # from Python's parser, which numpy reads headers with, or from shapes
        return "its header describes no array"
    if "pickle" in str(error).lower():
        long = "header" in first.lower()
        return "its header is too long" if long else "it does not begin as numpy writes it"
    return first[:200] or type(error).__name__
