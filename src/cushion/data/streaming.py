"""Arrays that are larger than memory: read piece by piece, or written where there is room."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cushion.errors import BadInput

_PIECE = 2**22  # bytes that are looked at together
_IN_MEMORY = 2**28  # bytes; a larger array is written to a file that nobody sees


def pieces(x: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first row, rows) of about 4 MB each, in order.

    Pages of a mapped file are given back behind each piece, so that the memory in use stays that of
    one piece, whatever the file's size.
    """
    mapped = _mapping(x)
    rows = max(1, _PIECE // max(1, x.nbytes // max(1, len(x))))
    for start in range(0, len(x), rows):
        yield start, x[start : start + rows]
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def _mapping(x: NDArray[Any]) -> mmap.mmap | None:
    """The file mapping behind an array, if its pages can be given back without loss."""
    array: Any = x
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    if array is None or array.mode == "c":  # copy on write: what was changed is nowhere else
        return None
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array if hasattr(mmap, "MADV_DONTNEED") else None


def room_for(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros to fill: in memory, or in a temporary file that goes with the array."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=object)) * kind.itemsize
    if size <= _IN_MEMORY:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile() as file:
        try:
            # a full disk is noticed here, and not when a page is touched
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            where = f"{tempfile.gettempdir()} has no room for {size / 1e9:.1f} GB of examples"
            how = "set TMPDIR to a larger place, or save them as x_train.npy and y_train.npy"
            raise BadInput(f"{where} ({error.strerror}); {how}") from None
        return np.memmap(file, kind, "r+", shape=shape)
