"""What every format hands over (inputs and labels of a part, before they become a Dataset), and
numpy's own files of it: `.npz` archives with x and y, and optionally x_test and y_test; folders of
x_train.npy, y_train.npy, x_test.npy, y_test.npy, which is how fetched sets are kept, or of what an
archive unpacks to (x.npy, y.npy, ...).
"""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import check_regular
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
    arrays, found = _archived(path, ("x", "y", "x_test", "y_test"))
    if "x" not in arrays or "y" not in arrays:
        raise BadInput(f"{path}: an .npz set needs the arrays x and y, but this one has {found}")
    if ("x_test" in arrays) != ("y_test" in arrays):
        needs = "a held-out part needs both x_test and y_test"
        raise BadInput(f"{path}: {needs}, but this one has {found}")
    test = Arrays(arrays["x_test"], arrays["y_test"]) if "x_test" in arrays else None
    return Arrays(arrays["x"], arrays["y"]), test


def read_inputs(path: Path, key: str) -> NDArray[Any]:
    """One array of an .npz or folder, "x" or "x_test"; labels are not looked at."""
    if path.is_dir():
        return _map(path / f"{_train(path) if key == 'x' else key}.npy")
    arrays, found = _archived(path, (key,))
    if key not in arrays:
        raise BadInput(f"{path}: unlabelled inputs need the array {key}, but this file has {found}")
    return arrays[key]


def recognise(folder: Path) -> bool:
    """Whether the folder holds a training part as .npy files."""
    return (folder / f"{_train(folder)}.npy").is_file()


def _train(folder: Path) -> str:
    """What the inputs of the training part are called there."""
    return "x_train" if (folder / "x_train.npy").is_file() else "x"


def read_folder(folder: Path) -> Pair:
    """Both parts, memory-mapped: pixels are paged in from the file when a batch touches them."""

    def part(x: str) -> Arrays:
        return Arrays(_map(folder / f"{x}.npy"), _map(folder / f"y{x[1:]}.npy"))

    return part(_train(folder)), part("x_test") if (folder / "x_test.npy").is_file() else None


def write_folder(folder: Path, train: Arrays, test: Arrays) -> None:
    """Write the four files into an existing folder."""
    for name, array in zip(FILES, (*train, *test), strict=True):
        np.save(folder / name, array, allow_pickle=False)


def _archived(path: Path, keys: tuple[str, ...]) -> tuple[dict[str, NDArray[Any]], str]:
    """Those of the named arrays that are there, and the names of all that are."""
    try:
        archive = np.load(check_regular(path), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            how = "write it with numpy.savez(file, x=..., y=...)"
            raise Malformed(f"{path}: not an .npz archive; {how}")
        with archive:
            _check_size(archive, keys, path)
            arrays = {key: _member(archive, key, path) for key in keys if key in archive}
            return arrays, ", ".join(archive.files) or "none"
    except (CushionError, PermissionError):
        raise
    # a damaged zip raises nearly anything: BadZipFile, zlib.error, RuntimeError, ...
    except Exception as error:
        reason = f"not a readable .npz archive ({_reason(error)})"
        raise Malformed(f"{path}: {reason}; write it again with numpy.savez") from None


def _check_size(archive: Any, keys: tuple[str, ...], path: Path) -> None:
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
