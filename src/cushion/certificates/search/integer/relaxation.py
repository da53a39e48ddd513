"""A smooth stand-in for the bound, by which searches steer; in the end the exact one counts."""

from __future__ import annotations

import math

from cushion.numerics import kl_inverse

_LN2 = math.log(2.0)
_CONFIDENCE = 3.0  # nats, at δ = 0.05


def relaxed_bound(error: float, bits: float, m: int) -> float:
    """The kl form of the bound at δ = 0.05, for steering: smooth, and close to the exact one."""
    return kl_inverse(error, (bits * _LN2 + _CONFIDENCE) / m)


def price_of_a_bit(error: float, bits: float, m: int) -> float:
    """How much error rate one bit is worth.

    >>> 1e-6 < price_of_a_bit(0.02, 2000, 60000) < 1e-4
    True
    """
    return _LN2 * price_of_a_nat(error, bits * _LN2 + _CONFIDENCE, m)


def price_of_a_nat(error: float, nats: float, m: int) -> float:
    """How much error rate one nat is worth: ∂bound/∂nats over ∂bound/∂error of the kl bound.

    >>> 1e-6 < price_of_a_nat(0.02, 2000.0, 60000) < 1e-4
    True
    """
    error = min(0.9, max(error, 1.0 / m))
    step = 0.02 * error
    here = kl_inverse(error, nats / m)
    slope = (kl_inverse(error + step, nats / m) - here) / step
    return (kl_inverse(error, (nats + 32) / m) - here) / 32 / max(slope, 1e-3)
