"""A kernel machine in whole numbers: its coefficients, and so its answers, are the same everywhere.

Regularised least squares on codes of the classes, by conjugate residuals, a fixed number
of steps from where the round before ended (FORMAT.md, section 11.4). The kernel of two rows is a
table entry of their dot product: exp(-2γ(1 - dot/2^24)) in units of 2^-16.
"""

from __future__ import annotations

import hashlib
from copy import copy
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Exact: TypeAlias = NDArray[np.float64]  # whole numbers below 2^53
ONE = 2**16  # the kernel of a row with itself, about
_ENTRIES = 2**16
_CODE = 2**14  # the code of a row's own class
_MOST = 2**22  # a coefficient or a residual, in magnitude: 2^15 rows of them keep sums exact
_DIGITS = 2**19  # products of two such, and sums of 2^15 of them, are below 2^53
_AT_ONCE = 512  # rows whose scores are computed together


def table(decay: int) -> NDArray[np.float64]:
    """[2^16] kernel by ⌊dot / 2^8⌋: u = 2^64 for the last, ⌊u · decay / 2^48⌋ for the one before;
    entry ⌊u / 2^48⌋.

    decay = ⌊2^48 exp(-2γ / 2^16)⌋, so that the smallest entry is about exp(-2γ) of the largest.
    """
    entries, u = [], 2**64
    for _ in range(_ENTRIES):
        entries.append(u >> 48)
        u = u * decay >> 48
    return np.array(entries[::-1], np.float64)


class KernelMachine:
    """Rows of training are added group by group, each group's with all its moved copies."""

    def __init__(self, classes: int, decay: int, ridge: int, steps: int) -> None:
        self._table, self._ridge, self._steps = table(decay), float(ridge), steps
        self._classes = classes
        self.rows: Floats = np.empty((0, 0), np.float32)  # [n, d]
        self._gram: Exact = np.empty((0, 0))  # [n, n], room to spare
        self._codes: Exact = np.empty((0, classes))
        self._alpha: Exact = np.empty((0, classes))

    def add(self, rows: Floats, y: NDArray[np.int64]) -> None:
        """More training rows [n, d] and their classes; their coefficients begin as 0."""
        n, more = len(self._codes), len(rows)
        self.rows = np.concatenate([self.rows.reshape(-1, rows.shape[1]), rows])
        self._make_room(n + more)
        for start in range(n, n + more, _AT_ONCE):
            stop = min(start + _AT_ONCE, n + more)
            part = self.kernel(self.rows[start:stop])
            self._gram[start:stop, : n + more] = part
            self._gram[: n + more, start:stop] = part.T
        own = np.arange(self._classes)[None] == y[:, None]
        codes = np.where(own, _CODE, -(_CODE // (self._classes - 1)))
        self._codes = np.concatenate([self._codes, codes.astype(np.float64)])
        self._alpha = np.concatenate([self._alpha, np.zeros((more, self._classes))])

    def _make_room(self, n: int) -> None:
        """The Gram matrix grows by quarters, so that it is not copied with every group."""
        if n > len(self._gram):
            old = self._gram
            self._gram = np.empty((n + n // 4, n + n // 4))
            self._gram[: len(old), : len(old)] = old

    def kernel(self, rows: Floats) -> Exact:
        """[k, n] of rows [k, d] with all training rows; products are exact below 2^24."""
        found: Exact = self._table[(rows @ self.rows.T * np.float32(2**-8)).astype(np.int32)]
        return found

    def train(self) -> None:
        """Conjugate residuals for (K + ridge) α = codes, each class with steps of its own.

        Sums are of whole numbers and below 2^53, so exact in any order; the other products of two
        numbers are doubles, rounded to the nearest whole number.
        """
        alpha = self._alpha
        residual = self._codes - self._times(alpha)
        direction = residual
        through = image = self._times(residual)
        power = _dots(residual, image)
        for _ in range(self._steps):
            step = _ratios(power, _dots(through, through))
            np.clip(alpha + _nearest(step * direction), -_MOST, _MOST, out=alpha)
            residual = residual - _nearest(step * through)
            image = self._times(residual)
            before, power = power, _dots(residual, image)
            share = _ratios(power, before)
            direction = residual + _nearest(share * direction)
            through = image + _nearest(share * through)

    def _times(self, numbers: Exact) -> Exact:
        """⌊(K + ridge) numbers / 2^16⌋ for whole numbers [n, classes]."""
        n = len(numbers)
        numbers = np.clip(numbers, -_MOST, _MOST)
        return _nearest((self._gram[:n, :n] @ numbers + self._ridge * numbers) / ONE)

    def frozen(self) -> KernelMachine:
        """What it answers now, whatever it learns later; it cannot be trained itself."""
        found = copy(self)
        found._alpha, found._gram = self._alpha.copy(), np.empty((0, 0))
        return found

    def scores(self, rows: Floats) -> Exact:
        """[k, classes], exact."""
        parts = [
            self.kernel(rows[i : i + _AT_ONCE]) @ self._alpha for i in range(0, len(rows), _AT_ONCE)
        ]
        return np.concatenate([np.empty((0, self._classes)), *parts])

    def digest(self) -> str:
        """sha256 of the coefficients, row by row, as little-endian 64-bit whole numbers."""
        return hashlib.sha256(self._alpha.astype("<i8").tobytes()).hexdigest()


def classes_of(scores: Exact) -> NDArray[np.int64]:
    """[n] the class of the largest score; -1 where two share it."""
    best = scores.max(axis=1, keepdims=True)
    return np.where((scores == best).sum(axis=1) == 1, scores.argmax(axis=1), -1)


def _nearest(numbers: Exact) -> Exact:
    """⌊v + 1/2⌋: floors alone would all err to one side, along the kernel's largest eigenvector."""
    return np.floor(numbers + 0.5)


def _dots(a: Exact, b: Exact) -> list[int]:
    """Of each class: Σ ⌊a/2^e⌋⌊b/2^f⌋ · 2^(e+f), with the least e and f, for all classes together,
    that bring the numbers below 2^19.
    """
    (short, e), (other, f) = _shortened(a), _shortened(b)
    return [int(total) << (e + f) for total in (short * other).sum(axis=0)]


def _shortened(numbers: Exact) -> tuple[Exact, int]:
    e = 0
    while np.abs(numbers).max(initial=0) >= _DIGITS * 2.0**e:
        e += 1
    return np.floor(numbers / 2.0**e), e


def _ratios(numerators: list[int], denominators: list[int]) -> Exact:
    """Of each class the double nearest to a / b; 0 where b is not above 0."""
    pairs = zip(numerators, denominators, strict=True)
    return np.array([a / b if b > 0 else 0.0 for a, b in pairs])
