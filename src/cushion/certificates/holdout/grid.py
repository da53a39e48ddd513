"""What a look at held-out rows can be told, and what each answer costs every later look.

The answers of one look are the words of a prefix code that is fixed before the look, given the
answers before it. A word of b bits has weight 2^-b, so the weights at every node of the tree of
answers sum to at most 1 (Kraft): what the union bound over all paths needs (docs/holdout.md).

- nothing counted yet: "failed" is 1 bit, a count 1 bit and its place on the ladder;
- with a best count so far: "no better" is 1 bit, "failed" 2, a better count 2 and the gamma word of
  how many steps of the ladder it lies below the best;
- behind a count, for each line asked for besides: its bound on the coarse ladder, and for the
  selective line the threshold (or none) before that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from functools import cache

_FINE = 50  # a stated count is above the true one by less than a fiftieth of it
_COARSE = 10  # the same for the bounds of the other lines
PARTS = 10_000  # those bounds are whole numbers of ten-thousandths

NO_BETTER_BITS = 1
# mantissas of the thresholds of selective lines: twelve a decade, about a fifth apart
_MANTISSAS = ("1.0", "1.2", "1.5", "1.8", "2.2", "2.7", "3.3", "3.9", "4.7", "5.6", "6.8", "8.2")


@cache
def ladder(top: int, part: int) -> tuple[int, ...]:
    """0, 1, 2, ..., top: from v to v + max(1, ⌊v/part⌋), the last step cut at the top.

    >>> ladder(30, 10)
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 24, 26, 28, 30)
    """
    steps = [0]
    while steps[-1] < top:
        steps.append(min(top, steps[-1] + max(1, steps[-1] // part)))
    return tuple(steps)


def counts(n: int) -> tuple[int, ...]:
    """The counts that a look at n rows can state: all up to 100, then a fiftieth apart."""
    return ladder(n, _FINE)


def rates() -> tuple[int, ...]:
    """The bounds that its other lines can state, in ten-thousandths: a tenth apart."""
    return ladder(PARTS, _COARSE)


def at_least(value: int | Decimal, steps: Sequence[int]) -> int:
    """The first step that is not below the value."""
    return steps[bisect_left(steps, value)]


def word_bits(words: int) -> int:
    """Length of words of one length, for so many of them."""
    return (words - 1).bit_length()


def gamma_bits(number: int) -> int:
    """Length of Elias' gamma word of a whole number from 1: Σ 2^-length ≤ 1 over all of them."""
    return 2 * number.bit_length() - 1


def failed_bits(best: int | None) -> int:
    """What "failed" costs, beside the best count so far."""
    return 1 if best is None else 2


def count_bits(n: int, best: int | None, stated: int) -> int:
    """What a stated count costs; with a best so far it is below that."""
    steps = counts(n)
    if best is None:
        return 1 + word_bits(len(steps))
    return 2 + gamma_bits(steps.index(best) - steps.index(stated))


def line_bits() -> int:
    """What the bound of one more line costs."""
    return word_bits(len(rates()))


def threshold_bits() -> int:
    """What the threshold of a selective line costs, "none" being one of the words."""
    return word_bits(len(thresholds()) + 1)


@cache
def thresholds() -> tuple[Decimal, ...]:
    """The gaps above which a selective line may answer, rising: 142, for scores of any scale.

    0.001 to 820, twelve a decade, and as many that near 1 from below, 0.18 to 0.999999, because
    gaps between probabilities crowd there (0.18 and 0.82 are of both kinds).

    >>> len(thresholds()), thresholds()[0], thresholds()[-1]
    (142, Decimal('0.0010'), Decimal('8.2E+2'))
    """
    whole = [Decimal(text).scaleb(e) for e in range(-3, 3) for text in _MANTISSAS]
    near_one = [1 - Decimal(text).scaleb(e) for e in range(-6, 0) for text in _MANTISSAS]
    return tuple(sorted({*whole, *near_one}))
