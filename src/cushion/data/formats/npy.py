"""Folders of x_train.npy, y_train.npy, x_test.npy, y_test.npy: how fetched sets are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.formats.arrays import Arrays, Pair, numpy_reason, whole_labels
from cushion.errors import BadInput, Malformed

FILES = ("x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy")


def recognise(folder: Path) -> bool:
    """Whether the folder holds a training part in this form."""
    return (folder / "x_train.npy").is_file()


def read_folder(folder: Path) -> Pair:
    """Both parts, memory-mapped: pixels are paged in from the file when a batch touches them."""
    train = _part(folder, "train")
    return train, _part(folder, "test") if (folder / "x_test.npy").is_file() else None


def write_folder(folder: Path, train: Arrays, test: Arrays) -> None:
    """Write the four files into an existing folder."""
    for name, array in zip(FILES, (*train, *test), strict=True):
        np.save(folder / name, array, allow_pickle=False)


def _part(folder: Path, part: str) -> Arrays:
    labels = folder / f"y_{part}.npy"
    return Arrays(_map(folder / f"x_{part}.npy"), whole_labels(_map(labels), f"{labels}: y"))


def _map(path: Path) -> NDArray[Any]:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInput(f"{path}: the file is missing; put it beside the others") from None
    except OSError:
        raise
    # a hostile header raises nearly anything: TokenError, OverflowError, MemoryError, ...
    except Exception as error:
        raise Malformed(
            f"{path}: not a readable .npy array ({numpy_reason(error)}); write it again"
        ) from None
    if not isinstance(mapped, np.ndarray):
        raise Malformed(f"{path}: not an .npy array; write it with numpy.save")
    return np.asarray(mapped)
