"""A smooth stand-in for the bound, by which a search steers: what counts in the end is the exact
one.
"""

from __future__ import annotations

import math

from cushion.numerics import kl_inverse


def relaxed_bound(error: float, bits: float, m: int) -> float:
    """The kl form of the bound at δ = 0.05, for steering: smooth, and close to the exact one."""
    return kl_inverse(error, (bits * math.log(2.0) + 3.0) / m)


def price_of_a_bit(error: float, bits: float, m: int) -> float:
    """How much error rate one bit is worth: ∂bound/∂bits over ∂bound/∂error of the relaxed bound.

    >>> 1e-6 < price_of_a_bit(0.02, 2000, 60000) < 1e-4
    True
    """
    error = min(0.9, max(error, 1.0 / m))
    step = 0.02 * error
    here = relaxed_bound(error, bits, m)
    slope = (relaxed_bound(error + step, bits, m) - here) / step
    return (relaxed_bound(error, bits + 64, m) - here) / 64 / max(slope, 1e-3)
