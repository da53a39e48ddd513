"""Shin 2021: what replacing small weights costs (Propositions 1.1 and 2.1); Theorem 2's count.

W = A + B with A the entries of magnitude at most τ, and W(t) = √t·G + B with G of independent N(0,
1) from the helper string; t = 0 is magnitude pruning. For fixed u, v the error uᵀ(A - √t·G)v is
small where A's entries are independent and symmetric about 0: each A_ij is then sub-Gaussian with
variance proxy τ², and √t·G_ij with t, so that

    P(|uᵀ(W - W(t))v| > s) ≤ 2 exp(-s²/(2(τ² + t)‖u‖²‖v‖²)).

The paper has positive entries, whose mean survives, and thresholds W instead of |W|; its statement
then fails always. Errors here are relative: s = ε‖W‖_F‖u‖‖v‖. With that Lemma 2.2 is Lemma 3 of
Arora 2018, ε_i = ε μ_i μ_{i→}/(6cd) and η = δ/(2d²mh) (`noise_stability.StabilityFacts`), and no
‖W‖_F ≥ 1 is needed. It uses u and v that depend on W (Jacobians, activations): what it says of a
real net is a measure. docs/heavy-tail-bounds.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.theorems.compression import (
    CountedFacts,
    chosen_nats,
    coded_rows,
    counted_row,
    mask_nats,
    value_nats,
)
from cushion.theorems.logs import log
from cushion.theorems.noise_stability import epsilon_from_margin
from cushion.theorems.records import FORMS, Bound, Statement

Place: TypeAlias = Literal["main text", "appendix", "equation 37"]
# 2/(τ² + t) = factor·ln(3/η)/ε²: in Proposition 1.1 and Algorithm 1, after eq. 37, and what eq. 37
# itself needs.
FACTORS: dict[Place, float] = {"main text": 2.0, "appendix": 1.0, "equation 37": 4.0}
COUNT, CODED = "heavy-tail count", "heavy-tail message"
_THEOREM = "Shin 2021, Thm 2"


def failure(spread: float, epsilon: float, frobenius: float = 1.0) -> float:
    """Proposition 2.1 corrected: with which |uᵀ(W - W(t))v| > ε‖W‖_F‖u‖‖v‖ fails at most; `spread`
    is τ² + t.

    For fixed u, v and independent A_ij, each symmetric about 0, |A_ij| ≤ τ. With `frobenius` 1 the
    error is absolute.

    >>> failure(1.0, 1.0)  # 2 exp(-1/2) is more than 1
    1.0
    """
    if spread <= 0:
        return 0.0
    return min(1.0, 2.0 * math.exp(-((epsilon * frobenius) ** 2) / (2.0 * spread)))


def failure_printed(spread: float, epsilon: float) -> float:
    """Eq. 37 at s = ε‖uvᵀ‖_F, 3 exp(-ε²/(2(τ² + t))): of one side, then claimed of both."""
    return min(1.0, 3.0 * math.exp(-epsilon * epsilon / (2.0 * spread))) if spread > 0 else 0.0


def spread_seen(
    magnitudes: NDArray[np.float64], u: NDArray[np.float64], v: NDArray[np.float64], t: float
) -> float:
    """Ours, and sharper: Σ u_i²v_j²(A_ij² + t)/(‖u‖²‖v‖²), which may stand for τ² + t and never
    exceeds it.

    Only the signs of A and the numbers of G need then be random; the magnitudes |A_ij| [N₁, N₂] may
    be anything.
    """
    left, right = np.square(u) / np.square(u).sum(), np.square(v) / np.square(v).sum()
    return float(left @ np.square(magnitudes) @ right) + t


def spread_allowed(epsilon: float, eta: float, frobenius: float = 1.0) -> float:
    """The largest τ² + t with which `failure` is at most η: ε²‖W‖_F²/(2 ln(2/η))."""
    return (epsilon * frobenius) ** 2 / (2.0 * math.log(2.0 / eta))


def spread_allowed_printed(epsilon: float, eta: float, place: Place) -> float:
    """The paper's three τ² + t, 2ε²/(factor·ln(3/η)): the first two allow more than eq. 37 does."""
    return 2.0 * epsilon * epsilon / (FACTORS[place] * math.log(3.0 / eta))


def epsilon_promised(spread: float, eta: float, frobenius: float = 1.0) -> float:
    """ε with probability ≥ 1 - η: √(2(τ² + t) ln(2/η))/‖W‖_F; 0 where nothing is replaced."""
    if spread == 0.0:
        return 0.0
    return math.sqrt(2.0 * spread * math.log(2.0 / eta)) / frobenius if frobenius > 0 else math.inf


def epsilon_promised_printed(spread: float, eta: float, place: Place) -> float:
    """The paper's ε, absolute: √(factor·(τ² + t)·ln(3/η)/2)."""
    return math.sqrt(FACTORS[place] * spread * math.log(3.0 / eta) / 2.0)


@dataclass(frozen=True)
class HeavyTailLayerFacts:
    """One layer as it is stored."""

    weights: int  # N
    nonzeros: int  # k of them have a value
    values: int  # r: how many values there are
    # what else a decoder reads of it, such as the exponent of its grid and t; k and r count apart
    header_nats: float = 0.0


@dataclass(frozen=True, kw_only=True)
class HeavyTailFacts(CountedFacts):
    """A net whose small weights were replaced, on its sample; its layers are
    `HeavyTailLayerFacts`, those that were left as they are too.
    """

    epsilon: float | None  # Lemma 2.2 promises ‖f(x) - g(x)‖ ≤ ε‖f(x)‖; None: nothing
    largest_score: float  # max‖f(x)‖₂ over the sample
    silent_because: str = ""  # why it promises nothing
    header_nats: float = 0.0  # what else a decoder reads: the seed, and the grids of the others


def heavy_tail_rows(found: HeavyTailFacts) -> list[Bound]:
    """Theorem 2 as printed and corrected, then two certificates with a coder's bits; about g."""
    given = found.compressed
    printed, corrected = (Statement(COUNT, _THEOREM, form, "g") for form in FORMS)
    coded = coded_rows(given, CODED, f"{_THEOREM}, counted by a coder")
    positions, values, chosen = map(found.total, (mask_nats, value_nats, chosen_nats))
    rest = found.other_nats + (found.header_nats + found.price)
    nats = positions + values + chosen + rest
    alone = math.sqrt(found.nonzeros / given.m)
    if why := given.no_gamma:
        count = f"the count is {nats:.0f} nats, {positions:.0f} of them for positions"
        return [
            printed.abstains(f"{why}; √(Σ k_i/m) alone is {alone:.4g}"),
            corrected.abstains(f"{why}; {count}"),
            *coded,
        ]
    nonzeros = float(found.nonzeros)
    parts = {"positions": positions, "values": values, "chosen": chosen, "others": rest}
    return [
        printed.states(
            log(given.loss + alone),
            "the theorem's expression with 1 for Õ(.): positions, values and all else are left "
            f"out; the paper calls it non-vacuous and gives no value; {_condition(found)}",
            nonzeros=nonzeros,
        ),
        counted_row(
            corrected,
            found,
            nats,
            "positions and values counted exactly, with k, r and the header of each layer paid, G "
            "from the helper string",
            nonzeros=nonzeros,
            **parts,
        ),
        *coded,
    ]


def _condition(found: HeavyTailFacts) -> str:
    """Whether Lemma 2.2 promises as little error as Lemma 2.3 needs at this γ."""
    epsilon, why = found.epsilon, found.silent_because
    if epsilon is None:
        return f"Lemma 2.2 promises nothing here{': ' if why else ''}{why}"
    needed = epsilon_from_margin(found.compressed.gamma, found.largest_score)
    words = "holds" if epsilon <= needed else "fails here"
    return f"its condition {words} (Lemma 2.2 promises ε = {epsilon:.3g}, γ needs {needed:.3g})"
