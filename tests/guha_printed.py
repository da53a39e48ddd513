"""Statements of Guha 2023 as they are printed, slips and all: what tests hold the corrected ones
against.
"""

from __future__ import annotations

import math

from scipy.stats import binom

from cushion.theorems.pruning import at_least, likely_pruned


def lemma_d2_printed(tau: int, rows: int, columns: int, d: float, kappa: float) -> float:
    """1 - I_{1-p₁}(N - τ, τ + 1) with N = d_1 d_2, which the paper calls P(|C| ≥ τ): it is P(|C| >
    τ).
    """
    return at_least(tau + 1, rows * columns, likely_pruned(d, kappa))


def lemma_d3_printed(alpha: int, tau: int, kappa: float) -> float:
    """1 - I_{1-κ}(τ - α, α + 1), for "at least α are compressed": it is P(Binomial(τ, κ) > α)."""
    return at_least(alpha + 1, tau, kappa)


def kappa_printed(rows: int, columns: int, t: float) -> float:
    """√(d_2·t) where d_2 ≤ d_1, else 1; the proof of Lemma C.1 has √d_2·t."""
    return math.sqrt(columns * t) if columns <= rows else 1.0


def nonzeros_limit(rows: int, columns: int, chi: float, failure: float) -> int:
    """With probability ≥ 1 - failure at most so many entries stay: min(d_1, d_2) + Binomial(the
    others, χ), exactly.
    """
    diagonal = min(rows, columns)
    others = rows * columns - diagonal
    return diagonal + (int(binom.isf(failure, others, chi)) if others else 0)
