"""Tiny samples that the corpus is about, made from a hash so that their bytes never change with a
library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cushion.data.dataset import Dataset


def noise(name: str, n: int) -> NDArray[np.int64]:
    """n whole numbers 0..255 that the name decides."""
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(n), dtype=np.uint8).astype(
        np.int64
    )


def halves(name: str, m: int) -> Dataset:
    """Two classes of 1x2x2 bytes, told apart by which value of the first column is brighter, with
    some overlap.
    """
    y = noise(f"{name} labels", m) % 2
    x = (noise(f"{name} inputs", 4 * m) % 120).reshape(m, 1, 2, 2)
    x[np.arange(m), 0, y, 0] += noise(f"{name} signal", m) % 130
    return Dataset(name, x.astype(np.uint8), y, 2)


def bars(name: str, m: int, sides: tuple[int, int, int] = (2, 6, 6), classes: int = 3) -> Dataset:
    """Images of some channels, each class with bright rows of its own."""
    y = noise(f"{name} labels", m) % classes
    x = (noise(f"{name} inputs", m * int(np.prod(sides))) % 60).reshape(m, *sides)
    for row, label in enumerate(y):
        x[row, :, 2 * label : 2 * label + 2] += 120
    return Dataset(name, x.astype(np.uint8), y, classes)


def table(name: str, m: int) -> Dataset:
    """Three float features of different scales; the class is whether the first exceeds its
    middle.
    """
    numbers = noise(f"{name} inputs", 3 * m).reshape(m, 3)
    x = (numbers / np.array([256.0, 4.0, 65536.0])).astype(np.float32)
    return Dataset(name, x.reshape(m, 1, 1, 3), (numbers[:, 0] > 127).astype(np.int64), 2)


def thousand(name: str, m: int) -> Dataset:
    """Labels among a thousand classes."""
    x = noise(f"{name} inputs", 4 * m).reshape(m, 1, 2, 2).astype(np.uint8)
    y = noise(f"{name} labels", 2 * m).reshape(m, 2) @ np.array([256, 1]) % 1000
    return Dataset(name, x, y, 1000)


def featured(rows: str) -> Dataset:
    """What the corpus's backbone makes of halves: six bytes for each row, which stand for x."""
    plain = sample(rows)
    flat = plain.x.reshape(len(plain), 4).astype(np.int64)
    more = (flat[:, :1] - flat[:, 2:3] + 128).clip(0, 255)
    bytes_ = np.concatenate([flat, more, 255 - more], axis=1).astype(np.uint8)
    return Dataset(f"{rows} features", bytes_, plain.y, plain.classes)


def changed(
    name: str, change: Callable[[NDArray[np.uint8], NDArray[np.int64]], Dataset]
) -> Dataset:
    plain = halves("halves", 200)
    made = change(plain.x.copy(), plain.y.copy())
    return Dataset(name, made.x, made.y, made.classes)


def _rows(order: Callable[[NDArray[np.int64]], NDArray[np.int64]], name: str) -> Dataset:
    return changed(name, lambda x, y: Dataset(name, x[order(y)], y[order(y)], 2))


def _one_label(x: NDArray[np.uint8], y: NDArray[np.int64]) -> Dataset:
    y[3] = 1 - y[3]
    return Dataset("halves", x, y, 2)


def _one_pixel(x: NDArray[np.uint8], y: NDArray[np.int64]) -> Dataset:
    x[7, 0, 1, 1] ^= 1
    return Dataset("halves", x, y, 2)


_ONE_BIT = np.array([[[[0, 0], [0, 1]]]], dtype=np.uint8)

SAMPLES: dict[str, Callable[[], Dataset]] = {
    "halves": lambda: halves("halves", 200),
    "halves held out": lambda: halves("halves held out", 60),
    "halves unlabelled": lambda: halves("halves unlabelled", 90),
    "halves without a row": lambda: _rows(lambda y: np.arange(1, len(y)), "halves"),
    "halves with a row twice": lambda: _rows(lambda y: np.maximum(np.arange(len(y)), 1), "halves"),
    "halves sorted by label": lambda: _rows(lambda y: np.argsort(y, kind="stable"), "halves"),
    "halves doubled": lambda: _rows(lambda y: np.repeat(np.arange(len(y)), 2), "halves doubled"),
    "halves resampled": lambda: _rows(
        lambda y: noise("which", 3 * len(y)) % len(y), "halves resampled"
    ),
    "halves with lowest bits flipped": lambda: changed(
        "halves with lowest bits flipped", lambda x, y: Dataset("", x ^ _ONE_BIT, y, 2)
    ),
    "halves with one label changed": lambda: changed("halves", _one_label),
    "halves with one pixel changed": lambda: changed("halves", _one_pixel),
    "halves with a third class": lambda: changed(
        "halves", lambda x, y: Dataset("", x, np.where(y[0] == y, 2, y), 3)
    ),
    "halves as floats": lambda: changed(
        "halves", lambda x, y: Dataset("", x.astype(np.float32), y, 2)
    ),
    "one row": lambda: halves("one row", 1),
    "bars": lambda: bars("bars", 120),
    "bars held out": lambda: bars("bars held out", 40),
    "grey bars": lambda: bars("grey bars", 120, (1, 6, 6)),
    "oblong bars": lambda: bars("oblong bars", 120, (1, 6, 4)),
    "table": lambda: table("table", 150),
    "stripes": lambda: bars("stripes", 60, (1, 8, 8)),
    "colour stripes": lambda: bars("colour stripes", 45, (3, 8, 8)),
    "halves features": lambda: featured("halves"),
    "halves held out features": lambda: featured("halves held out"),
    "thousand": lambda: thousand("thousand", 40),
}


@cache
def sample(name: str) -> Dataset:
    """The sample of that name."""
    return SAMPLES[name]()


def file_name(name: str, part: str) -> str:
    """Of the array in tests/certificates/samples: x, y, f (the user's net's scores), or rounds and
    classes (of the user's training).

    >>> file_name("halves held out", "x")
    'halves-held-out.x.npy'
    """
    return f"{name.replace(' ', '-')}.{part}.npy"
