"""Weights beyond a threshold, and what they do to a vector (Shin 2021, Prop. 1.2, eq. 9-11).

Weights are Pareto: |w| has density α w_m^α w^-(α+1) on [w_m, ∞), and B keeps those above τ ≥ w_m,
each with probability p = (w_m/τ)^α. So the number X of non-zeros among n independent ones is
Binomial(n, p). The paper bounds P(X ≥ k) by Chernoff's inequality (eq. 6; eq. 11 and 15 with a row
for n); the exact tail stands beside it. All of it rests on that law: nothing here is a certificate
of a real net.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binom

_ROUNDING = 1e-12  # a power that should be whole, like √2², may come out above it
# below it a probability is near the smallest float, and its logarithm is summed instead
_UNDERFLOW = -600.0
_FORGOTTEN = 40.0  # nats: terms so far below the first are left out


def exceeds(tau: float, alpha: float, w_m: float = 1.0) -> float:
    """p = (w_m/τ)^α of eq. 5 and 38, that a weight exceeds τ in magnitude; 1 for τ ≤ w_m."""
    return min(1.0, math.pow(w_m / tau, alpha))


def exceeds_printed(tau: float, alpha: float) -> float:
    """τ^-α/α, what eq. 40 has in the place of p: no probability where τ^α < 1/α."""
    return math.pow(tau, -alpha) / alpha


def log_expression(k: float, n: int, p: float) -> float:
    """ln of (np/k)^k ((1-p)/(1-k/n))^(n-k), eq. 6 as printed, whatever k is: exp(-n·kl(k/n‖p)).

    It bounds P(X ≥ k) where k > np only; below np it bounds P(X ≤ k).
    """
    if k > n or (k > 0 and p <= 0.0) or (k < n and p >= 1.0):
        return -math.inf
    kept = k * math.log(n * p / k) if k > 0 else 0.0
    return min(0.0, kept + ((n - k) * (math.log1p(-p) - math.log1p(-k / n)) if k < n else 0.0))


def log_chernoff(k: float, n: int, p: float) -> float:
    """ln of Proposition 1.2's bound on P(X ≥ k), which says nothing, 1, where k ≤ np."""
    return 0.0 if k <= n * p else log_expression(k, n, p)


def log_tail(k: float, n: int, p: float) -> float:
    """ln P(X ≥ k), exactly, at the next whole number from k on.

    scipy takes the logarithm of a probability, which is 0 beyond the smallest float: there the
    terms are summed as logarithms. They shrink at least by the ratio of the first two, since k is
    far above np.
    """
    k = max(0, math.ceil(k * (1.0 - _ROUNDING)))
    if k == 0 or p >= 1.0:
        return 0.0 if k <= n else -math.inf
    if k > n or p <= 0.0:
        return -math.inf
    found = float(binom.logsf(k - 1, n, p))
    if found > _UNDERFLOW:
        return found
    ratio, terms = (n - k) * p / ((k + 1) * (1.0 - p)), n - k + 1
    if ratio > 0.0:
        terms = min(terms, math.ceil(_FORGOTTEN / -math.log(ratio)) + 1)
    return float(logsumexp(binom.logpmf(np.arange(k, k + terms), n, p)))


def sparsity(
    n: int, p: float, failure: float, log_bound: Callable[[float, int, float], float] = log_tail
) -> int:
    """k_i of Theorem 2: the smallest k ≥ 1 with P(X ≥ k) ≤ failure by `log_bound`; n + 1 where not
    even X = n is rare.

    So there are at most k - 1 non-zeros with probability ≥ 1 - failure.
    """
    allowed = math.log(failure)
    return 1 + bisect_left(range(1, n + 1), True, key=lambda k: log_bound(k, n, p) <= allowed)


def spike_mean(tau: float, alpha: float, w_m: float = 1.0) -> float:
    """E B_ij of positive weights, α w_m^α τ^(1-α)/(α-1); ∞ for α ≤ 1."""
    return _moment(1, tau, alpha, w_m)


def spike_square(tau: float, alpha: float, w_m: float = 1.0) -> float:
    """E B_ij² = α w_m^α τ^(2-α)/(α-2); ∞ for α ≤ 2, where eq. 10 as printed is negative."""
    return _moment(2, tau, alpha, w_m)


def _moment(power: int, tau: float, alpha: float, w_m: float) -> float:
    if alpha <= power:
        return math.inf
    return alpha * exceeds(tau, alpha, w_m) * max(tau, w_m) ** power / (alpha - power)


def energy_printed(x_i: float, columns: int, tau: float, alpha: float, w_m: float = 1.0) -> float:
    """E[Bx]_i² of eq. 10, N₂·α w_m^α τ^(2-α)/(α-2)·x_i²: of one x_i, negative for α < 2."""
    law = columns * alpha * math.pow(w_m, alpha) * math.pow(tau, 2.0 - alpha)
    return law / (alpha - 2.0) * x_i * x_i


def energy(
    x: NDArray[np.float64], tau: float, alpha: float, w_m: float = 1.0, *, symmetric: bool = True
) -> float:
    """E[Bx]_i² corrected, the same for every i: ‖x‖²·E B²; so E‖Bx‖² is N₁ times that.

    Of symmetric weights the cross terms vanish. Of positive ones, as the paper has them, they are
    (E B)²((Σ x_j)² - ‖x‖²), which eq. 10 drops.
    """
    squares, total = float(np.square(x).sum()), float(x.sum())
    own = squares * spike_square(tau, alpha, w_m)
    if symmetric or not math.isfinite(own):
        return own
    return own + spike_mean(tau, alpha, w_m) ** 2 * (total * total - squares)
