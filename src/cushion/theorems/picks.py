"""Preferent sample compression: what is bounded by the number of rows that a classifier needs.

A rule c picks k of the N rows of a sample, and not one of the others changes what it picks
(preference). With probability ≥ 1-δ over S ~ D^N, a new row would change the picks with probability
at most ε(k), where ε(N) = 1 and otherwise ε(k) solves

    (δ/N) · Σ_{m=k}^{N-1} [C(m,k)/C(N,k)] · (1-ε)^-(N-m) = 1

(Campi and Garatti 2023). Proof, and why the rule of `certificates.picks` is preferent:
docs/derivations.md, section 6.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from cushion.errors import BadInput
from cushion.numerics import occam_log_delta

_EPS = 2.0**-52
_CHUNK = 4096  # terms summed at once
_PLACES = 6  # a bound is stated in millionths


def picks_bound(k: int, m: int, delta: Decimal, choices: int = 1) -> str:
    """ε(k; m, δ/choices) as a decimal string of six places, rounded up.

    With probability ≥ 1-δ over S ~ D^m, for `choices` preferent rules at once, the classifier that
    was made of the picks errs on at most this share of new rows; k counts the rows picked and the
    errors on the others (more is allowed: ε rises with k).

    >>> picks_bound(18_369, 50_000, Decimal("0.05")), picks_bound(1_682, 60_000, Decimal("0.05"))
    ('0.375608', '0.030408')
    """
    if m < 1 or k < 0 or choices < 1:
        raise BadInput(f"{k} picks and errors among {m} examples, {choices} choices: no such count")
    if k >= m:
        return f"{1:.{_PLACES}f}"
    share = occam_log_delta(delta, 0)
    log_share = share - math.log(choices) - math.log(m)
    log_share -= 8 * _EPS * (abs(share) + math.log(choices) + math.log(m))
    low, high = 0, 10**_PLACES  # the sum rises with ε, and is above 1 at ε = 1
    while high - low > 1:
        middle = (low + high) // 2
        if log_share + _log_sum_lower(k, m, middle / 10**_PLACES) >= 0.0:
            high = middle
        else:
            low = middle
    return str(Decimal(high).scaleb(-_PLACES))


def _log_sum_lower(k: int, n: int, p: float) -> float:
    """ln Σ_{m=k}^{n-1} [C(m,k)/C(n,k)] (1-p)^-(n-m) for 0 < p < 1, erring downwards.

    The terms rise up to m = k/p and fall behind it, so the sum runs from there to both sides; what
    is left out only makes it smaller.
    """
    top = min(n - 1, max(k, round(k / p)))
    parts = (
        math.lgamma(top + 1),
        -math.lgamma(top - k + 1),
        -math.lgamma(n + 1),
        math.lgamma(n - k + 1),
        -(n - top) * math.log1p(-p),
    )
    below, below_error = _series(top, k, n, p, -1)
    above, above_error = _series(top, k, n, p, 1)
    # each part is good to a few units in the last place; p itself is rounded by one
    error = 16 * _EPS * (1.0 + sum(map(abs, parts)) + (n - top) * p / (1.0 - p))
    return math.fsum(parts) + math.log(1.0 + below + above) - error - below_error - above_error


def _series(top: int, k: int, n: int, p: float, step: int) -> tuple[float, float]:
    """Σ of the terms on one side of the largest one, in its units, and an allowance for rounding.

    T(m+1)/T(m) = (1-p)(m+1)/(m+1-k); the side ends where what is left cannot matter.
    """
    total = last = 0.0
    largest, count, m = 1.0, 0, top
    end = k if step < 0 else n - 1
    while m != end:
        size = min(_CHUNK, abs(end - m))
        upper = m + np.arange(0, step * size, step, dtype=np.float64) + (step > 0)
        ratios = np.log1p(-p) + np.log(upper / (upper - k))
        logs = last + step * np.cumsum(ratios)
        total += float(np.exp(logs).sum())
        last, largest = float(logs[-1]), max(largest, float(np.abs(logs).max()))
        m, count = m + step * size, count + size
        if last + math.log(abs(end - m) + 1) < -40.0:
            break
    return total, 8 * _EPS * (count + 1) * largest
