"""Rows told apart by hashes of 8 bytes: those that a sample repeats, and those in two samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.data.streaming import pieces

Reading: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]  # rows -> as many, as they are compared

_ODD = np.uint64(0x9E3779B97F4A7C15)


def row_hashes(x: NDArray[Any], y: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """[m] hashes of the rows' bytes, and of their labels if there are any.

    Two different rows meet with probability 2^-64, so some of 10^7 rows do with about 3·10^-6. Only
    one piece of x is in memory at a time.
    """
    (found,) = hashes_as_read(x, [lambda rows: rows])
    if y is not None:
        for start, labels in pieces(y):
            found[start : start + len(labels)] += labels.astype(np.uint64) * _ODD
    return found


def hashes_as_read(x: NDArray[Any], readings: Sequence[Reading]) -> list[NDArray[np.uint64]]:
    """[m] hashes of the rows for each reading of them, from one look at x."""
    found = [np.empty(len(x), np.uint64) for _ in readings]
    for start, rows in pieces(x):
        for hashes, read in zip(found, readings, strict=True):
            plain = np.ascontiguousarray(read(rows)).view(np.uint8).reshape(len(rows), -1)
            width, view = plain.shape[1], plain.reshape(-1).data
            digests = b"".join(
                hashlib.blake2b(view[at : at + width], digest_size=8).digest()
                for at in range(0, len(view), width)
            )
            hashes[start : start + len(rows)] = np.frombuffer(digests, "<u8")
    return found


def count_repeated(x: NDArray[Any], y: NDArray[np.int64] | None = None) -> int:
    """How many rows are, with their labels if they have any, byte for byte an earlier row again."""
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
