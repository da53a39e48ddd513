"""Tails and their inverses in the log domain; every function says on which side it errs.

A certificate of a few thousand bits needs the binomial tail at probabilities like 2^-3000, far
below the smallest float, so everything here works with logarithms. Inverses return the safe side:
never below the true upper bound, and within 1e-9 of it. `cushion_verify` does not use this file: it
rechecks with its own arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal

import numpy as np

from cushion.errors import BadInput

_EPS = 2.0**-52
_CHUNK = 4096  # terms of the tail summed at once


def log_binomial_cdf_upper(k: int, m: int, p: float) -> float:
    """ln P[Bin(m, p) ≤ k], erring upwards.

    The sum runs down from its last term t_k: Σ_{i≤k} t_i = t_k (1 + r_k + r_k r_{k-1} + …) with r_i
    = t_{i-1}/t_i = i(1-p) / ((m-i+1)p), which shrinks with i, so the rest is below a geometric
    series.

    >>> abs(log_binomial_cdf_upper(0, 100, 0.5) - 100 * math.log(0.5)) < 1e-9
    True
    """
    if k >= m or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return -math.inf
    parts = (
        math.lgamma(m + 1),
        -math.lgamma(k + 1),
        -math.lgamma(m - k + 1),
        k * math.log(p),
        (m - k) * math.log1p(-p),
    )
    log_ratio, ratio_error = _log_tail_over_last_term(k, m, p)
    # Each part is good to a few units in the last place; 16 covers the library functions with room.
    error = 16 * _EPS * (1.0 + sum(map(abs, parts))) + ratio_error
    return min(0.0, math.fsum(parts) + log_ratio + error)


def _log_tail_over_last_term(k: int, m: int, p: float) -> tuple[float, float]:
    """ln(Σ_{i≤k} t_i / t_k), its truncation bounded from above, and an allowance for rounding."""
    odds = (1.0 - p) / p
    total = term = 0.0  # both logarithms, relative to t_k
    largest = 1.0
    i = k
    while i > 0:
        steps = np.arange(i, max(i - _CHUNK, 0), -1, dtype=np.float64)
        logs = term + np.cumsum(np.log(steps * odds / (m - steps + 1.0)))
        top = max(total, float(logs.max()))
        total = top + math.log(math.exp(total - top) + float(np.exp(logs - top).sum()))
        largest = max(largest, float(np.abs(logs).max()))
        term = float(logs[-1])
        i -= len(steps)
        ratio = i * odds / (m - i + 1.0)
        if i > 0 and ratio < 1.0:
            rest = term + math.log(ratio / (1.0 - ratio))
            if rest < total - 40.0:
                total += math.log1p(math.exp(rest - total))
                break
    return total, 8 * _EPS * (k - i + 1) * largest


def binomial_inverse(k: int, m: int, log_delta: float) -> float:
    """BinInv(k; m, δ) = max{p : P[Bin(m, p) ≤ k] ≥ δ} from ln δ, erring upwards by less than 1e-9.

    With probability ≥ 1-δ over k ~ Bin(m, p), p ≤ BinInv(k; m, δ) (Clopper-Pearson's upper end).

    >>> binomial_inverse(5, 5, math.log(0.05))
    1.0
    >>> abs(binomial_inverse(0, 1000, math.log(0.05)) - (1 - 0.05 ** (1 / 1000))) < 1e-12
    True
    """
    if m < 1 or not 0 <= k <= m:
        rule = "it must lie between 0 and m, and m be at least 1"
        raise BadInput(f"{k} errors among {m} examples is not a count; {rule}")
    if not log_delta < 0.0:
        raise BadInput("the failure probability δ must lie strictly between 0 and 1")
    if k == m:
        return 1.0
    # Where the upper bound on the tail is at most δ, so is the tail, and p is at least BinInv.
    return _first_true(lambda p: log_binomial_cdf_upper(k, m, p) <= log_delta, 0.0, 1.0)


def occam_log_delta(delta: Decimal, bits: int) -> float:
    """ln(δ·2^-bits), erring downwards (a smaller δ gives a larger, safe bound)."""
    if not 0 < delta < 1:
        raise BadInput(f"δ = {delta} must lie strictly between 0 and 1")
    if bits < 0:
        raise BadInput(f"a message cannot have {bits} bits")
    value = math.log(delta) - bits * math.log(2.0)
    return value - 8 * _EPS * (abs(value) + 1.0)


def kl(q: float, p: float) -> float:
    """kl(q‖p) between two coins, in nats (to nearest; the inverse below accounts for it)."""
    if (q > 0.0 and p <= 0.0) or (q < 1.0 and p >= 1.0):
        return math.inf
    left = q * math.log(q / p) if q > 0.0 else 0.0
    right = (1.0 - q) * (math.log1p(-q) - math.log1p(-p)) if q < 1.0 else 0.0
    return max(0.0, left + right)


def kl_inverse(q: float, budget: float) -> float:
    """max{p ≥ q : kl(q‖p) ≤ budget}, erring upwards.

    >>> kl_inverse(1.0, 0.3), kl_inverse(0.25, math.inf)
    (1.0, 1.0)
    >>> abs(kl_inverse(0.0, 0.1) - (1 - math.exp(-0.1))) < 1e-12
    True
    """
    if not 0.0 <= q <= 1.0:
        raise BadInput(f"an error rate of {q} must lie between 0 and 1")
    if not budget >= 0.0:
        raise BadInput(f"a kl budget of {budget} must not be negative")
    if q == 1.0:
        return 1.0

    def beyond(p: float) -> bool:
        # Rounding of the two terms, each a few units in the last place of its largest part.
        first = abs(q * math.log(q / p)) if q > 0.0 else 0.0
        parts = first + abs((1 - q) * math.log1p(-p)) + abs(math.log1p(-q))
        return kl(q, p) - 8 * _EPS * (1.0 + parts) >= budget

    return _first_true(lambda p: p >= 1.0 or beyond(p), q, 1.0)


def _first_true(test: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest p with test(p), by bisection, upwards to the last bit; test(high) must hold."""
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high
        if test(middle):
            high = middle
        else:
            low = middle


def decimal_up(value: float | Decimal, places: int = 6) -> str:
    """A probability as a decimal string, rounded up.

    >>> decimal_up(0.1234560001), decimal_up(1.0)
    ('0.123457', '1.000000')
    """
    return str(Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING))


def percent_up(value: str | float, places: int = 2) -> str:
    """A probability as a percentage for people, rounded up.

    >>> percent_up("0.34561"), percent_up(0.05)
    ('34.57 %', '5.01 %')
    """
    return f"{decimal_up(Decimal(value) * 100, places)} %"


def float_up(text: str) -> float:
    """The smallest float that is not below the decimal string.

    >>> Decimal(float_up("0.1")) >= Decimal("0.1")
    True
    """
    value = float(text)
    return value if Decimal(value) >= Decimal(text) else math.nextafter(value, math.inf)


def counted(number: int | str, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "error"), counted("1 500", "error")
    ('1 error', '1 500 errors')
    """
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"
