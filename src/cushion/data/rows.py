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
    return _count_among(row_hashes(rows), np.sort(row_hashes(others)))


def freshness_fault(rows: NDArray[Any], sample: NDArray[Any]) -> str:
    """Why the rows cannot be fresh draws beside the sample's, to end a sentence; empty if they can.

    A row of the sample again means that they are not fresh, unless the sample repeats its own rows,
    as draws from few possible rows do: then they may meet the sample's rows up to twice as often as
    it meets its own (a new draw meets m earlier ones about as often as each of them meets the
    others). The sample in another order is never fresh.
    """
    if rows.dtype != sample.dtype:
        return ""
    theirs, ours = np.sort(row_hashes(rows)), np.sort(row_hashes(sample))
    shared = _count_among(theirs, ours)
    same = ours[1:] == ours[:-1]
    repeated = int((np.append(same, False) | np.append(False, same)).sum())
    few = shared * len(sample) <= 2 * repeated * len(rows)
    if not shared or (few and not np.array_equal(theirs, ours)):
        return ""
    return f"{shared} of the {len(rows)} are rows of the sample itself"


def _count_among(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> int:
    """How many of the hashes are among the known ones, which are sorted."""
    at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return int((known[at] == hashes).sum()) if len(known) else 0
