"""Odds of a binary decision mixed from several counts, in whole numbers alone.

Each count gives its evidence ln((n1 + ½)/(n0 + ½)); a weighted sum of evidences gives the odds; the
weights follow the decisions (gradient descent on the code length, as in Mahoney's PAQ). Logarithms
and odds come from tables of `decimal`, whose functions are correctly rounded, and all else is
integers: every machine decodes the same.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from decimal import Decimal, localcontext

_NAT = 2**8  # an evidence of one nat
_SUREST = 11 * _NAT
_ONE = 2**16  # a weight, and a probability, of one
_RAREST = 2**4  # no decision is surer than 1 - 2^-12, so each costs 2^-12 bits or more
_MOST_COUNT = 2**10
_RATE = 6
_RATE_SHIFT = 18


@functools.cache
def _logarithms() -> tuple[int, ...]:
    """ln(n + ½) of each count."""
    with localcontext(prec=30):
        halves = (Decimal(2 * n + 1) / 2 for n in range(_MOST_COUNT))
        return tuple(int((_NAT * half.ln()).to_integral_value()) for half in halves)


@functools.cache
def _odds() -> tuple[int, ...]:
    """The probability of a zero for each evidence from -_SUREST to _SUREST."""
    with localcontext(prec=30):
        nats = (Decimal(e) / _NAT for e in range(-_SUREST, _SUREST + 1))
        parts = (int((_ONE / (1 + nat.exp())).to_integral_value()) for nat in nats)
        return tuple(min(max(part, _RAREST), _ONE - _RAREST) for part in parts)


class Count:
    """How often a decision was 0 and 1; both are halved once one is too large."""

    __slots__ = ("ones", "zeros")

    def __init__(self) -> None:
        self.zeros = self.ones = 0

    def seen(self, bit: int) -> None:
        if bit:
            self.ones += 1
        else:
            self.zeros += 1
        if self.ones + self.zeros >= _MOST_COUNT:
            self.ones >>= 1
            self.zeros >>= 1


class Mixer:
    """A context (`arithmetic.Context`) whose odds are those of several counts.

    `by` names the counts of the next decision; the weights begin at `weights` (times 2^-16).
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = list(weights)
        self.total, self.zero = _ONE, _ONE // 2
        self._logarithms, self._table = _logarithms(), _odds()
        self._counts: tuple[Count, ...] = ()
        self._evidence: list[int] = []

    def by(self, *counts: Count) -> Mixer:
        table = self._logarithms
        self._counts = counts
        self._evidence = [table[one.ones] - table[one.zeros] for one in counts]
        found = sum(map(int.__mul__, self.weights, self._evidence)) >> 16
        self.zero = self._table[min(max(found, -_SUREST), _SUREST) + _SUREST]
        return self

    def seen(self, bit: int) -> None:
        error = (self.zero - (0 if bit else _ONE)) * _RATE
        pairs = zip(self.weights, self._evidence, strict=True)
        self.weights = [weight + (error * one >> _RATE_SHIFT) for weight, one in pairs]
        for count in self._counts:
            count.seen(bit)
