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

from cushion.certificates.format.arithmetic import Coder

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


class Mixer:
    """Decisions whose odds are mixed from as many counts as there are weights (times 2^-16).

    A count is a list [how often 0, how often 1]; both are halved once they are too many. The loop
    over the counts is written out for five, which is what a matrix has: most of the time of reading
    a net is spent here.
    """

    def __init__(self, coder: Coder, weights: Sequence[int]) -> None:
        self._decide, self._weights = coder.decide_at, list(weights)
        self._logarithms, self._table = _logarithms(), _odds()

    def decide(
        self, bit: int, a: list[int], b: list[int], c: list[int], d: list[int], e: list[int]
    ) -> int:
        logarithms, weights = self._logarithms, self._weights
        one = logarithms[a[1]] - logarithms[a[0]]
        two = logarithms[b[1]] - logarithms[b[0]]
        three = logarithms[c[1]] - logarithms[c[0]]
        four = logarithms[d[1]] - logarithms[d[0]]
        five = logarithms[e[1]] - logarithms[e[0]]
        w1, w2, w3, w4, w5 = weights
        evidence = (w1 * one + w2 * two + w3 * three + w4 * four + w5 * five) >> 16
        if evidence > _SUREST:
            evidence = _SUREST
        elif evidence < -_SUREST:
            evidence = -_SUREST
        zero = self._table[evidence + _SUREST]
        bit = self._decide(bit, zero, _ONE)
        error = (zero if bit else zero - _ONE) * _RATE
        weights[0] = w1 + (error * one >> _RATE_SHIFT)
        weights[1] = w2 + (error * two >> _RATE_SHIFT)
        weights[2] = w3 + (error * three >> _RATE_SHIFT)
        weights[3] = w4 + (error * four >> _RATE_SHIFT)
        weights[4] = w5 + (error * five >> _RATE_SHIFT)
        for count in (a, b, c, d, e):
            count[bit] += 1
            if count[0] + count[1] >= _MOST_COUNT:
                count[0] >>= 1
                count[1] >>= 1
        return bit
