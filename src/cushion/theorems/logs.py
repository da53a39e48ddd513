"""Natural logarithms of numbers that may be huge, and the price of choosing after the sample.

A theorem for a fixed class holds with probability 1 - δ'. For all classes of a countable family at
once it holds with δ' = δ·p(class), Σ p ≤ 1; the price of a class is ln(1/p) nats. So quantities are
rounded to a grid that was fixed before, here the powers ratio^j, j any integer, with p(j) = 2 / (3
(|j| + 1)(|j| + 2)): over all integers these sum to 1.
"""

from __future__ import annotations

import math

LN2, LN10 = math.log(2.0), math.log(10.0)
FINE = math.log(1.02)  # a step of a grid: finer costs little, since prices grow with ln j only
_LARGEST = math.log(1.7e308)
_SMALLEST = -700.0  # ln of what counts as zero


def log(value: float) -> float:
    """ln, with ln 0 = -∞ and ln ∞ = ∞."""
    return -math.inf if value == 0.0 else math.inf if value == math.inf else math.log(value)


def exp(value: float) -> float:
    """e^value, ∞ where that is no float."""
    return math.inf if value > _LARGEST else math.exp(value)


def log_sum(*logs: float) -> float:
    """ln Σ e^log.

    >>> round(log_sum(log(2.0), log(3.0)), 12) == round(math.log(5.0), 12)
    True
    """
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(part - top) for part in logs))


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def price(j: int) -> float:
    """ln(1/p(j)).

    >>> abs(sum(math.exp(-price(j)) for j in range(-100_000, 100_001)) - 1) < 1e-4
    True
    """
    return math.log(1.5 * (abs(j) + 1.0) * (abs(j) + 2.0))


def at_least(log_value: float, log_ratio: float) -> tuple[float, float]:
    """The smallest grid point that is not below the value, as ln, and its price in nats."""
    if log_value == math.inf:
        return math.inf, 0.0  # no class holds it, and no price matters
    j = math.ceil(max(log_value, _SMALLEST) / log_ratio - 1e-12)
    return j * log_ratio, price(j)


def at_most(log_value: float, log_ratio: float) -> tuple[float, float]:
    """The largest grid point that is not above the value, as ln, and its price in nats."""
    if math.isinf(log_value):
        return log_value, 0.0
    j = math.floor(log_value / log_ratio + 1e-12)
    return j * log_ratio, price(j)


def number_width(log_step: float, log_largest: float) -> tuple[int, float]:
    """Bits of a number up to e^log_largest on the next finer grid 2^j, and the nats that say so:
    2⌊largest/step + ½⌋ + 1 values at most.
    """
    log_step, paid = at_most(log_step, LN2)
    bits = math.ceil(log_sum(LN2 + log_largest - log_step, LN2) / LN2)
    return bits, paid + price(bits)


def deviation(nats: float, m: int, delta: float) -> float:
    """√((nats + ln(1/δ))/(2m)): Hoeffding, for all messages at once."""
    return math.sqrt((nats + math.log(1.0 / delta)) / (2 * m))


def choices(n: int, k: int) -> float:
    """ln C(n, k) nats: which k of the n are meant.

    >>> round(math.exp(choices(4, 2)), 9)
    6.0
    """
    return max(0.0, math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1))
