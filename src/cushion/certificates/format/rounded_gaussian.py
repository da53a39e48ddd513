"""Exact draws of ⌊w + 1/2⌋ for w ~ N(μ, σ²), from 64-bit words by inverting tables of the CDF.

Means are quarters (μ = a/4 with a whole), variances powers of two (σ² = 2^e). The number drawn for
a word u is the smallest k with u < T_k, where T_k = ⌊2^64 Φ((k + 1/2 - μ)/σ)⌋ below the mean and
2^64 less its mirror image above it. Each T_k is off by less than 1: below the mean downwards, above
it upwards. So each number's chance is off by less than 2^-64 (the one at the mean by twice that),
the tails left out together by less than 2^-63, and the law of a drawn number is, in total
variation, within ERROR of the rounded Gaussian: half the sum over fewer than 2^11 - 4 numbers.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

QUARTERS = 4
LEAST_EXPONENT, MOST_EXPONENT = -8, 12  # of σ², in steps of the integers
# total variation of one drawn number; the largest table has fewer than 2^11 - 4 entries
ERROR = Fraction(1, 2**54)
_CONTEXT = Context(prec=50, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)
_FLOOR = Context(prec=50, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_INVERSE_ROOT_TWO_PI = Decimal(
    "0.39894228040143267793994605993438186847585863116493465766592582967"
)
_FAR = Decimal("9.2")  # Φ(-9.2) < 2^-64


@cache
def lower_tail(n: int, exponent: int) -> int:
    """⌊2^64 Φ(-x)⌋ for x = n/(4σ) ≥ 0, σ² = 2^exponent.

    Φ(x) - 1/2 = φ(x)·(x + x³/3 + x⁵/(3·5) + …), all terms positive, in 50 digits: the floor is
    right unless the product comes within 10^-20 of a whole number, which the tests exclude for
    every entry of every table.

    >>> lower_tail(0, 0) == 2**63
    True
    """
    c = _CONTEXT
    # exact: a dyadic number of few digits
    square = c.divide(n * n, c.multiply(16, c.power(2, exponent)))
    x = c.sqrt(square)
    if x > _FAR:
        return 0
    term = total = x
    odd = 1
    while term > 0 and c.multiply(term, Decimal("1e45")) > total:
        odd += 2
        term = c.divide(c.multiply(term, square), odd)
        total = c.add(total, term)
    density = c.multiply(c.exp(c.divide(square, -2)), _INVERSE_ROOT_TWO_PI)
    tail = c.subtract(Decimal("0.5"), c.multiply(density, total))
    return int(_FLOOR.to_integral_value(c.multiply(tail, 2**64)))


@cache
def table(exponent: int, quarter: int) -> tuple[int, Words]:
    """(first, T): from N(quarter/4, 2^exponent), the word u draws first + #{t in T : t ≤ u}.

    Entries that are 0 or 2^64 are left out: no word, or every word, lies below them.
    """
    reach = int(_CONTEXT.multiply(_FAR, _CONTEXT.sqrt(_CONTEXT.power(2, exponent)))) + 2
    entries = []
    first = -reach
    for k in range(-reach, reach + 1):
        n = QUARTERS * k + 2 - quarter  # (k + 1/2 - μ) in quarters
        entry = lower_tail(-n, exponent) if n <= 0 else 2**64 - lower_tail(n, exponent)
        if entry == 0:
            first = k + 1
        elif entry < 2**64:
            entries.append(entry)
    return first, np.array(entries, dtype=np.uint64)


class RoundedGaussians:
    """Independent, one for each of [D] means (in quarters) and exponents of variances."""

    def __init__(self, means: Integers, exponents: Integers) -> None:
        self._whole, part = np.divmod(means, QUARTERS)
        keys = exponents * QUARTERS + part
        self._groups = [
            (np.flatnonzero(keys == key), *table(int(key) // QUARTERS, int(key) % QUARTERS))
            for key in np.unique(keys)
        ]

    def draw(self, words: Words) -> Integers:
        """words: [n, D] uniform -> [n, D] numbers, column d from the d-th Gaussian."""
        drawn = np.empty(words.shape, dtype=np.int64)
        for columns, first, entries in self._groups:
            drawn[:, columns] = np.searchsorted(entries, words[:, columns], side="right") + first
        drawn += self._whole
        return drawn

    def largest(self) -> Integers:
        """[D] the largest magnitude that each number can take."""
        found = np.empty(len(self._whole), dtype=np.int64)
        for columns, first, entries in self._groups:
            whole = self._whole[columns]
            found[columns] = np.maximum(np.abs(whole + first), np.abs(whole + first + len(entries)))
        return found


def choose_rows(words: Words, m: int) -> Integers:
    """⌊word·m / 2^64⌋ for m < 2^32: rows 0..m-1, each within m·2^-64 of uniform in total variation.

    >>> choose_rows(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 5).tolist()
    [0, 2, 4]
    """
    half, size = np.uint64(32), np.uint64(m)
    low = (words & np.uint64(0xFFFFFFFF)) * size >> half
    rows: Integers = (((words >> half) * size + low) >> half).astype(np.int64)
    return rows
