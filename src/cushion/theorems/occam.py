"""Occam's razor with the exact binomial tail: the bound behind every certificate."""

from __future__ import annotations

import math
from decimal import Context, Decimal

from cushion.errors import BadInput
from cushion.numerics import binomial_inverse, decimal_up, occam_log_delta


def parse_delta(text: str) -> Decimal:
    """δ as an exact decimal in (0, 0.5], as the certificate will state it.

    >>> parse_delta("0.05")
    Decimal('0.05')
    """
    try:
        delta = Decimal(text)
    except ArithmeticError:
        raise BadInput(f"`delta` = {text!r} is not a number; give one such as 0.05") from None
    if not delta.is_finite() or not 0 < delta <= Decimal("0.5"):
        raise BadInput(f"`delta` = {text} must be above 0 and at most 0.5, such as 0.05")
    if delta != delta.quantize(Decimal("1e-18"), context=Context(prec=40)):
        why = "has more digits than a certificate can state"
        raise BadInput(f"`delta` = {text} {why}; give at most 18 decimals")
    return delta.normalize(Context(prec=40))


def occam_bound(errors: int, m: int, bits: int, delta: Decimal) -> str:
    """BinInv(errors; m, δ·2^-bits) as a decimal string, rounded up.

    With probability ≥ 1-δ over S ~ D^m, for every message of the prefix code at once, the net it
    decodes to has true error at most this, given its own errors on S and its own length: a union
    bound in which a message of b bits gets δ·2^-b (Kraft's inequality makes the shares sum to at
    most δ). docs/derivations.md, section 1.

    >>> occam_bound(0, 1000, 0, Decimal("0.05"))  # rounded up from 1 - 0.05^(1/1000)
    '0.002992'
    """
    return decimal_up(binomial_inverse(errors, m, occam_log_delta(delta, bits)))


def holdout_bound(errors: int, n: int, delta: Decimal) -> str:
    """BinInv(errors; n, δ): for a net fixed before the n held-out examples were looked at."""
    return occam_bound(errors, n, 0, delta)


def hoeffding_bound(errors: int, m: int, bits: int, delta: Decimal) -> float:
    """The looser textbook form k/m + sqrt((bits·ln 2 + ln 1/δ) / 2m), for display beside the exact
    one; errs upwards.

    >>> delta = Decimal("0.05")
    >>> hoeffding_bound(0, 1000, 0, delta) > float(occam_bound(0, 1000, 0, delta))
    True
    """
    value = errors / m + math.sqrt(-occam_log_delta(delta, bits) / (2 * m))
    return min(1.0, value * (1 + 1e-12))
