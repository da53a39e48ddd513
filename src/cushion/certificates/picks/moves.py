"""Pictures moved a little, in whole numbers: each pick can stand for several training rows.

A move is a matrix in 1/128 and a shift in 28ths of the picture's side: the pixel at row i and
column j is read, between four pixels, at a place in 1/256 pixels (FORMAT.md, section 11.3).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Move(NamedTuple):
    """Where to read: rows by (a, b), columns by (c, d), and how far to shift both."""

    a: int = 128
    b: int = 0
    c: int = 0
    d: int = 128
    down: int = 0
    across: int = 0


SHIFTS = (Move(down=1), Move(down=-1), Move(across=1), Move(across=-1))
TURNS = (Move(126, -22, 22, 126), Move(126, 22, -22, 126))  # 10 degrees
SLANTS = (Move(c=26), Move(c=-26))
SIZES = (Move(116, 0, 0, 116), Move(142, 0, 0, 142))
ALL = (*SHIFTS, *TURNS, *SLANTS, *SIZES)


def moved(x: NDArray[Any], move: Move) -> NDArray[np.int64]:
    """[n, h, w] whole numbers 0..255, moved; what is read outside is the nearest pixel."""
    h, w = x.shape[1:]
    i, j = np.meshgrid(2 * np.arange(h) - (h - 1), 2 * np.arange(w) - (w - 1), indexing="ij")
    rows = 128 * (h - 1) + move.a * i + move.b * j + 256 * h * move.down // 28
    columns = 128 * (w - 1) + move.c * i + move.d * j + 256 * w * move.across // 28
    found = np.zeros(x.shape, np.int64)
    for down in (0, 1):
        part = rows % 256 if down else 256 - rows % 256
        at = np.clip(rows // 256 + down, 0, h - 1)
        for right in (0, 1):
            weight = part * (columns % 256 if right else 256 - columns % 256)
            found += weight * x[:, at, np.clip(columns // 256 + right, 0, w - 1)]
    return (found + 2**15) >> 16


def mirrored(x: NDArray[Any]) -> NDArray[Any]:
    """Columns in reverse order: the last axis."""
    return x[..., ::-1]
