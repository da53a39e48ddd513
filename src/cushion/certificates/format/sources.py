"""Where a layer's numbers come from: stored one by one, or made from a seed, exactly.

Anything that a declared seed makes is helper string and costs nothing but the seed; what is coded
is paid. Every source gives whole numbers that are the same on every machine (FORMAT.md, section 4).
The word for index i of layer n under seed s is SplitMix64's output i from the state sha256("weights
n s")[:8].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cushion.data.counter import stream
from cushion.errors import Malformed

Integers = NDArray[np.int64]
EXACT = 2**53
_CHUNK = 2**20
_BLOCK = 2**14  # entries of a sign projection at once: what the fastest cache holds


@dataclass(frozen=True, eq=False)
class _Stored:
    """coded: one number for each of the layer's."""

    coded: Integers

    @property
    def shape(self) -> tuple[int, ...]:
        return self.coded.shape

    @property
    def numbers(self) -> Integers:
        return self.coded


@dataclass(frozen=True, eq=False)
class Grid(_Stored):
    """Numbers in -levels..levels, each coded: zero, sign, magnitude in unary."""

    levels: int


class Values(_Stored):
    """A mask and wide values: zero or not, then sign, bit length and bits of those that are not."""


@dataclass(frozen=True, eq=False)
class SeededMask(_Stored):
    """Signs from a seed, of which a coded mask of zeros and ones keeps some (a supermask)."""

    seed: int
    layer: int

    @cached_property
    def numbers(self) -> Integers:
        return self.coded * signs(self.seed, self.layer, 0, self.coded.size).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class SeededNoise(_Stored):
    """A coded value where it is not 0; elsewhere amplitude times bell-shaped noise from a seed."""

    seed: int
    layer: int
    amplitude: int

    @cached_property
    def numbers(self) -> Integers:
        made = self.amplitude * noise(self.seed, self.layer, 0, self.coded.size)
        return np.where(self.coded != 0, self.coded, made.reshape(self.shape))


@dataclass(frozen=True, eq=False)
class _Projection:
    """coded: [count] coefficients of seeded sign matrices."""

    coded: Integers
    shape: tuple[int, ...]
    seed: int
    layer: int
    shift: int

    @property
    def count(self) -> int:
        return len(self.coded)


@dataclass(frozen=True, eq=False)
class SeededProjection(_Projection):
    """amplitude·noise + ⌊(Σ_j coded[j]·Z_j) / 2^shift⌋, Z_j the j-th matrix of seeded signs.

    Numbers inside a random subspace around a random start. Noise is that of SeededNoise, from words
    after those of the signs.
    """

    amplitude: int

    @cached_property
    def numbers(self) -> Integers:
        size = math.prod(self.shape)
        _check_exact(self.coded)
        total = np.zeros(size)
        rows = max(1, _CHUNK // size)
        for start in range(0, self.count, rows):
            part = self.coded[start : start + rows].astype(np.float64)
            # exact: below 2^53
            total += part @ sign_rows(self.seed, self.layer, start, len(part), size)
        result: Integers = total.astype(np.int64) >> self.shift
        if self.amplitude:
            words = -(-size // 64) * self.count
            result = result + self.amplitude * noise(self.seed, self.layer, words, size)
        return result.reshape(self.shape)


class SignProjection(_Projection):
    """⌊(Σ_t coded[t]·M_t) / 2^shift⌋: Matrix-Project, Algorithm 1 of Arora 2018, but for its factor
    1/k, which a net's running scale takes. M_t: the sign matrices of `sign_combination`.
    """

    @cached_property
    def numbers(self) -> Integers:
        total = sign_combination(self.coded, math.prod(self.shape), self.seed, self.layer)
        return (total >> self.shift).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Product:
    """⌊left·right / 2^shift⌋, of low rank.

    coded: left's numbers [out, rank], then right's [rank, rest], row by row, for a shape (out, ...)
    with rest numbers behind each output.
    """

    coded: Integers
    shape: tuple[int, ...]
    rank: int
    shift: int

    @cached_property
    def numbers(self) -> Integers:
        parts = np.split(self.coded, [self.shape[0] * self.rank])
        left, right = parts[0].reshape(-1, self.rank), parts[1].reshape(self.rank, -1)
        columns, rows = _largest(left.T), _largest(right)
        if sum(a * b for a, b in zip(columns, rows, strict=True)) >= EXACT:
            raise Malformed("the factors of a product could leave the exact range of ±2^53")
        # exact: every partial sum is below 2^53
        total = left.astype(np.float64) @ right.astype(np.float64)
        return (total.astype(np.int64) >> self.shift).reshape(self.shape)


Source = Grid | Values | SeededMask | SeededProjection | SeededNoise | SignProjection | Product


def _bytes(seed: int, layer: int, first: int, n: int) -> NDArray[np.uint8]:
    """[8n] the bytes of words first..first+n-1 of a layer's stream, each word's lowest first."""
    return stream(f"weights {layer}", seed, n, first).astype("<u8").view(np.uint8)


def signs(seed: int, layer: int, first: int, n: int) -> Integers:
    """n signs from word `first` on: +1 where a bit is set (lowest first), else -1."""
    bits = np.unpackbits(_bytes(seed, layer, first, -(-n // 64)), bitorder="little")[:n]
    return 2 * bits.astype(np.int64) - 1


def sign_rows(seed: int, layer: int, start: int, rows: int, size: int) -> NDArray[np.float64]:
    """Sign matrices start..start+rows-1, [rows, size] floats; each begins with a fresh word."""
    width = -(-size // 64)
    made = _bytes(seed, layer, start * width, rows * width).reshape(rows, width * 8)
    bits = np.unpackbits(made, axis=1, bitorder="little")[:, :size]
    return 2.0 * bits.astype(np.float64) - 1.0


def sign_combination(coefficients: Integers, n: int, seed: int, layer: int) -> Integers:
    """Σ_t coefficients[t]·M_t, exactly: [n]; Malformed unless Σ|coefficients| is below 2^53.

    Entry s of M_t is bit t mod 64 of word ⌊t/64⌋·n + s of the layer's stream, 1 for +1 and 0 for
    -1: the layout of `operators.sign_projection`. Eight signs of an entry are a byte, so a table of
    the 256 signed sums of eight coefficients gives their part at one look ("four Russians"). Memory
    is O(n): never k·n signs.
    """
    _check_exact(coefficients)
    k = len(coefficients)
    # zero coefficients at the end, whose signs do not matter
    padded = np.zeros(-(-k // 8) * 8, dtype=np.int64)
    padded[:k] = coefficients
    total = np.zeros(n, dtype=np.int64)
    for first in range(0, k, 64):  # the coefficients of one word
        tables = _signed_sums(padded[first : first + 64].reshape(-1, 8))
        for start in range(0, n, _BLOCK):
            part = total[start : start + _BLOCK]
            made = _bytes(seed, layer, first // 64 * n + start, len(part)).reshape(-1, 8)
            for byte, table in enumerate(tables):
                part += table.take(made[:, byte])
    return total


def _signed_sums(eights: Integers) -> Integers:
    """[m, 8] -> [m, 256]: entry b sums the eight, number i with + where bit i of b is set."""
    tables = np.zeros((len(eights), 1), dtype=np.int64)
    for bit in range(8):
        number = eights[:, bit : bit + 1]
        # the upper half has this bit set
        tables = np.concatenate((tables - number, tables + number), axis=1)
    return tables


def _check_exact(coefficients: Integers) -> None:
    if sum(abs(c) for c in coefficients.tolist()) >= EXACT:
        raise Malformed("the coefficients of a projection could leave the exact range of ±2^53")


def _largest(rows: Integers) -> list[int]:
    """The largest magnitude of each row, in Python's integers (np.abs would wrap at -2^63)."""
    lows, highs = rows.min(axis=1).tolist(), rows.max(axis=1).tolist()
    return [max(high, -low) for low, high in zip(lows, highs, strict=True)]


def noise(seed: int, layer: int, first: int, n: int) -> Integers:
    """n bell-shaped whole numbers with variance 16: the set bits of a word, less 32."""
    made = _bytes(seed, layer, first, n).reshape(n, 8)
    count: Integers = np.unpackbits(made, axis=1).sum(axis=1, dtype=np.int64)
    return count - 32
