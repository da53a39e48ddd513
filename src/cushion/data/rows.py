"""Rows told apart by hashes of 8 bytes: those that a sample repeats, and those in two samples."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.streaming import pieces

_ODD = np.uint64(0x9E3779B97F4A7C15)


def row_hashes(x: NDArray[Any], y: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """[m] hashes of the rows' bytes, and of their labels if there are any.

    Two different rows meet with probability 2^-64, so some of 10^7 rows do with about 3·10^-6. Only
    one piece of x is in memory at a time.
    """
    found = np.empty(len(x), np.uint64)
    for start, rows in pieces(x):
        plain = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
        width, view = plain.shape[1], plain.reshape(-1).data
        hashes = b"".join(
            hashlib.blake2b(view[at : at + width], digest_size=8).digest()
            for at in range(0, len(view), width)
        )
        found[start : start + len(rows)] = np.frombuffer(hashes, "<u8")
    if y is not None:
        for start, labels in pieces(y):
            found[start : start + len(labels)] += labels.astype(np.uint64) * _ODD
    return found


def count_repeated(x: NDArray[Any], y: NDArray[np.int64]) -> int:
    """How many rows are, with their labels, byte for byte an earlier row again."""
    hashes = row_hashes(x, y)
    hashes.sort()
    return int((hashes[1:] == hashes[:-1]).sum())


def count_shared(rows: NDArray[Any], others: NDArray[Any]) -> int:
    """How many of `rows` are, byte for byte, also among `others`; none if types differ."""
    if rows.dtype != others.dtype:
        return 0
    return count_among(row_hashes(rows), np.sort(row_hashes(others)))


def count_among(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> int:
    """How many of the hashes are among the known ones, which are sorted."""
    at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return int((known[at] == hashes).sum()) if len(known) else 0
