"""Resilient classification (Shin 2021, Section 5.2): entries of a row between powers of c.

W's entries are symmetric α-stable with scale c. Far out their density is α c^α c_α w^-(α+1) on
either side (eq. 12), so an entry lies between c^i and c^(i+1) with p = c_α c^(-α(i-1))(1 - c^-α)
(eq. 14) if c > 1 and c^i is well above c; its magnitude does with 2p. A score of c^M can be had
from κ = c^(M-i) such entries of a row of N: eq. 16 bounds that probability, where κ > Np.
Heuristics about a law of weights: nothing here is a certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cushion.theorems.sparsity import log_chernoff, log_expression, log_tail


def tail_constant(alpha: float) -> float:
    """c_α = sin(πα/2)Γ(α)/π of eq. 12, one side: P(W > w) ~ c_α (c/w)^α; 0 at α = 2."""
    return math.sin(math.pi * alpha / 2.0) * math.gamma(alpha) / math.pi if alpha < 2.0 else 0.0


def asymptotic_density(w: float, alpha: float, c: float = 1.0) -> float:
    """Eq. 12: what the density at w > 0 tends to, α c^α c_α w^-(α+1)."""
    return alpha * tail_constant(alpha) * math.pow(c, alpha) * math.pow(w, -alpha - 1.0)


def bracket_probability(i: float, alpha: float, c: float) -> float:
    """Eq. 14: that c^i < W < c^(i+1), at most 1, for c > 1; for |W| it is twice as likely."""
    tail = tail_constant(alpha) * math.pow(c, -alpha * (i - 1.0))
    return min(1.0, tail * -math.expm1(-alpha * math.log(c)))


@dataclass(frozen=True)
class PathProbability:
    """P(X ≥ κ) for the κ = c^(M-i) entries of a row that reach c^M, X ~ Binomial(N, p) with eq.
    14's p.

    printed: eq. 16's expression whatever κ is, also where κ ≤ Np and it bounds nothing. chernoff:
    the same, 1 there. exact: the binomial tail, at the next whole number from κ on. applies:
    whether κ > Np, eq. 16's condition.
    """

    kappa: float
    p: float
    printed: float
    chernoff: float
    exact: float
    applies: bool


def path_probability(i: float, alpha: float, c: float, m: float, n: int) -> PathProbability:
    """Eq. 16 at bracket i, target c^m, rows of n entries; κ > n cannot be had: all are 0."""
    kappa, p = math.pow(c, m - i), bracket_probability(i, alpha, c)
    logs = (log_expression(kappa, n, p), log_chernoff(kappa, n, p), log_tail(kappa, n, p))
    printed, chernoff, exact = map(math.exp, logs)
    return PathProbability(kappa, p, printed, chernoff, exact, kappa > n * p)


@dataclass(frozen=True)
class Brackets:
    """Eq. 13: how many entries of W fall in C^0 … C^M, beyond them in D, and in none."""

    inside: tuple[int, ...]
    beyond: int
    lost: int


def brackets_printed(weights: NDArray[np.float64], c: float, m: int) -> Brackets:
    """As printed, c^i < W < c^(i+1) and W > c^(M+1): entries up to 1, and so all negative ones, and
    powers are lost.
    """
    inside = tuple(int(((c**i < weights) & (weights < c ** (i + 1))).sum()) for i in range(m + 1))
    beyond = int((weights > c ** (m + 1)).sum())
    return Brackets(inside, beyond, weights.size - sum(inside) - beyond)


def brackets(weights: NDArray[np.float64], c: float, m: int) -> Brackets:
    """Of magnitudes, c^i ≤ |W| < c^(i+1), so that no power is lost; what is below 1 is in no
    bracket still. c > 1.
    """
    reached = [int((np.abs(weights) >= c**i).sum()) for i in range(m + 2)]
    inside = tuple(more - fewer for more, fewer in pairwise(reached))
    return Brackets(inside, reached[-1], weights.size - reached[0])
