"""The verifier's own arithmetic: tails in 50 digits, every operation rounded up."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, ROUND_UP, Context, Decimal
from math import prod

# Every inexact operation names its context: the program around us may have changed the default one.
_UP = Context(prec=50, rounding=ROUND_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN = Context(prec=50, rounding=ROUND_DOWN, Emin=MIN_EMIN, Emax=MAX_EMAX)
_AT_ONCE = 6  # whole factors below 10^8 are multiplied exactly, without a rounding each
_SCALE = 10**18  # a stated decimal is a whole number of these


def bound_holds(errors: int, m: int, bits: int, delta: Decimal, bound: Decimal) -> bool:
    """Is bound ≥ BinInv(errors; m, δ·2^-bits)?

    The tail P[Bin(m, p) ≤ k] falls in p, so it is enough that it is at most δ·2^-bits at p = bound.
    A bound at or below k/m is never enough for δ ≤ 1/2, because there the tail is at least 1/2 (k
    is at least a median).
    """
    p = int(bound.scaleb(18, _UP))  # exact: at most 18 decimals
    if p == _SCALE:
        return True
    if errors == m or p * m <= errors * _SCALE:
        return False
    return _UP.multiply(_power(Decimal(2), bits), _tail(errors, m, p)) <= delta


def _tail(k: int, m: int, p: int) -> Decimal:
    """P[Bin(m, p/10^18) ≤ k] for p/10^18 > k/m, rounded up.

    The last term times a falling series, 1 + r_k + r_k r_{k-1} + …, whose rest is below a geometric
    one.
    """
    q = _SCALE - p
    term = _UP.multiply(_power(_UP.divide(p, _SCALE), k), _power(_UP.divide(q, _SCALE), m - k))
    few = min(k, m - k)
    for i in range(1, few + 1, _AT_ONCE):  # the binomial coefficient, some factors at a time
        factors = range(i, min(i + _AT_ONCE, few + 1))
        term = _UP.divide(_UP.multiply(term, prod(m - few + j for j in factors)), prod(factors))
    total = term
    for i in range(k, 0, -1):
        ratio = _UP.divide(i * q, (m - i + 1) * p)  # r_i, below 1 and falling with i
        term = _UP.multiply(term, ratio)
        total = _UP.add(total, term)
        if _UP.multiply(term, 10**40) < total:
            return _UP.add(total, _UP.divide(term, _DOWN.subtract(1, ratio)))
    return total


def _power(base: Decimal, exponent: int) -> Decimal:
    """base^exponent by repeated squaring, every product rounded up."""
    result, square = Decimal(1), base
    while exponent:
        if exponent & 1:
            result = _UP.multiply(result, square)
        square = _UP.multiply(square, square)
        exponent >>= 1
    return result
