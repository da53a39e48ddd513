"""A folder of x_train.npy, y_train.npy, x_test.npy, y_test.npy: how fetched sets are kept, memory-mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.formats.arrays import Arrays, Pair
from cushion.errors import BadInput, Malformed

FILES = ("x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy")


def recognise(folder: Path) -> bool:
    """Whether the folder holds a training part in this form."""
    return (folder / "x_train.npy").is_file()


def read_folder(folder: Path) -> Pair:
    """Both parts without reading the pixels: they are paged in from the file when a batch touches them."""
    train = Arrays(_map(folder / "x_train.npy"), _map(folder / "y_train.npy"))
    if not (folder / "x_test.npy").is_file():
        return train, None
    return train, Arrays(_map(folder / "x_test.npy"), _map(folder / "y_test.npy"))


def write_folder(folder: Path, train: Arrays, test: Arrays) -> None:
    """Write the four files into an existing folder."""
    for name, array in zip(FILES, (*train, *test), strict=True):
        np.save(folder / name, array, allow_pickle=False)


def _map(path: Path) -> NDArray[Any]:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"{path}: the file is missing; put it beside the others") from None
    except (ValueError, EOFError, TypeError) as error:
        raise Malformed(f"{path}: not a readable .npy array ({error}); write it again") from None
    if not isinstance(mapped, np.ndarray):
        raise Malformed(f"{path}: not an .npy array; write it with numpy.save")
    return np.asarray(mapped)
