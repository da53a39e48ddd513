"""Algorithm 1 under Assumption 3.1 (Guha 2023): moments, shares, counts; printed and corrected.

The weights off the diagonal are independent w ~ N(0, Ψ), and each is pruned with probability
exp(-w²/(dΨ)). The product of that and the normal density is √(d/(d+2)) times the density of N(0,
s²), s² = Ψd/(d+2), since 1/(2s²) = 1/(2Ψ) + 1/(dΨ). So a weight is pruned with probability
√(d/(d+2)), a pruned one is N(0, s²), and for Δ = -w where w is pruned and 0 elsewhere (Lemma 4.1):
E Δ = 0, E Δ² = s²√(d/(d+2)) = Ψ(d/(d+2))^{3/2}, E Δ⁴ = 3s⁴√(d/(d+2)) = 3Ψ²(d/(d+2))^{5/2}.

Every count below is binomial with the one keep probability χ = 1 - √(d/(d+2)), which the paper's
eq. 11 calls the probability of being pruned. The diagonal stays whatever it is. A weight is a
matrix of `rows` (the paper's d_1) and `columns` (d_2). All of it rests on Assumption 3.1 with Ψ
known; nothing here is a certificate of a real net.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cushion.numerics import log_binomial_cdf_upper

_UP = 1 + 1e-12  # for the rounding of a few float operations


def second_moment(d: float, psi: float) -> float:
    """E Δ² = Ψ(d/(d+2))^{3/2} of an entry off the diagonal (Lemma 4.1; d: the strength)."""
    return psi * math.pow(d / (d + 2.0), 1.5)


def fourth_moment(d: float, psi: float) -> float:
    """E Δ⁴ = 3Ψ²(d/(d+2))^{5/2} (Lemma 4.1)."""
    return 3.0 * psi * psi * math.pow(d / (d + 2.0), 2.5)


def keep_probability(d: float) -> float:
    """χ = 1 - √(d/(d+2)): that an entry off the diagonal stays; eq. 11 says "pruned".

    Written as 2/((d+2)(1 + √(d/(d+2)))), which loses no digits where d is large.
    """
    return 2.0 / ((d + 2.0) * (1.0 + math.sqrt(d / (d + 2.0))))


def gamma_l(d: float, psi: float, rows: int, columns: int) -> float:
    """Γ_l of Lemma 4.2 at C = 1: √(E Δ²)(√d_1 + √d_2) + (d_1 d_2 E Δ⁴)^{1/4} (Latala 2005)."""
    spread = math.sqrt(second_moment(d, psi)) * (math.sqrt(rows) + math.sqrt(columns))
    return spread + math.pow(rows * columns * fourth_moment(d, psi), 0.25)


@dataclass(frozen=True)
class Shares:
    """How δ is shared among the lemmas of every layer, the same for each; the paper leaves ε_l and
    λ_l open.

    1/ε_l is what Lemma 4.2 fails with (Markov on ‖Δ‖₂), 1/λ_l what Lemma 5.1's count of non-zeros
    does; corrected, the exact tails of rows and columns share 1/λ_l. Σ 1/ε_l + Σ 1/λ_l ≤ δ.
    Printed, Lemma 5.1 also fails with d_1^{-1/3} + d_2^{-1/3} a layer for its balls and bins:
    `lemma_5_1` is their sum, which no λ_l makes small.
    """

    delta: float
    epsilon: tuple[float, ...]
    lambda_: tuple[float, ...]
    lemma_5_1: float

    @property
    def spent(self) -> float:
        """Σ 1/ε_l + Σ 1/λ_l: with which the corrected lemmas together fail, at most."""
        return math.fsum(1.0 / one for one in (*self.epsilon, *self.lambda_))

    @property
    def printed(self) -> float:
        """With which the lemmas as printed fail."""
        return self.spent + self.lemma_5_1

    @property
    def note(self) -> str:
        """What the printed statement is worth."""
        if self.printed <= self.delta * _UP:
            return ""
        holds = f"holds with probability {1.0 - self.printed:.3g} only"
        worth = "is empty" if self.printed >= 1.0 else holds
        return (
            f"Lemma 5.1 as printed fails with Σ d_1^(-1/3) + d_2^(-1/3) = {self.lemma_5_1:.3g} for "
            f"any λ_l, above δ = {self.delta:g}: the printed statement {worth}; exact binomial "
            "tails take its place"
        )


def failure_shares(delta: float, shapes: Sequence[tuple[int, int]]) -> Shares:
    """ε_l = λ_l = 2L/δ for the L layers of these (rows, columns): each lemma of each layer fails
    with δ/(2L) at most.

    Where Lemma 5.1's own loss leaves something of δ, the shares are of what is left, so that the
    printed statement holds with 1 - δ too.
    """
    lost = math.fsum(rows ** (-1.0 / 3.0) + columns ** (-1.0 / 3.0) for rows, columns in shapes)
    left = delta - lost if lost < delta else delta
    each = 2.0 * len(shapes) / left * _UP
    return Shares(delta, (each,) * len(shapes), (each,) * len(shapes), lost)


def row_limit_printed(lambda_l: float, rows: int, columns: int, chi: float) -> float:
    """3λ_l·max(d_1, d_2)·χ: Lemma 5.1's limit on the non-zeros of any row or column."""
    return 3.0 * lambda_l * max(rows, columns) * chi


def row_limit(rows: int, columns: int, chi: float, failure: float) -> int:
    """Lemma 5.1 corrected: with probability ≥ 1 - failure no row has more non-zeros. For columns
    swap the sides.

    A row with a diagonal entry keeps 1 + Binomial(columns - 1, χ) entries, another
    Binomial(columns, χ); the smallest j for which the exact tails beyond j, added over the rows,
    are at most `failure`. No λ_l, no balls and bins.
    """
    diagonal = min(rows, columns)

    def fails(j: int) -> float:
        without = (rows - diagonal) * _above(j, columns, chi) if rows > diagonal else 0.0
        return diagonal * _above(j - 1, columns - 1, chi) + without

    return _first(lambda j: fails(j) * _UP <= failure, columns)


def lemma_d2(tau: int, rows: int, columns: int, d: float, kappa: float) -> float:
    """P(|C| ≥ τ), erring downwards: of at least τ entries each is pruned with probability ≥ κ.

    |C| ~ Binomial(N, p₁), p₁ = erf(√(-d ln κ / 2)). N leaves out the diagonal, which Algorithm 1
    never prunes.
    """
    return at_least(tau, rows * columns - min(rows, columns), likely_pruned(d, kappa))


def lemma_d3(alpha: int, tau: int, kappa: float) -> float:
    """P(Binomial(τ, κ) ≥ α), erring downwards: so likely at least α entries are *pruned*, given
    Lemma D.2's event.

    Lemma D.1 calls α what is *kept*; with this one it is N - α.
    """
    return at_least(alpha, tau, kappa)


def kept_by_d2_d3(rows: int, columns: int, d: float, kappa: float, failure: float) -> int:
    """The most non-zeros that Lemmas D.2 and D.3 leave with probability ≥ 1 - failure, half of it
    each.

    Never fewer than the exact tail of min(d_1, d_2) + Binomial(the others, χ) at the same failure:
    "pruned with probability ≥ κ" forgets by how much more.
    """
    size, half = rows * columns, failure / 2.0
    others = size - min(rows, columns)
    tau = others - _first(
        lambda less: 1.0 - lemma_d2(others - less, rows, columns, d, kappa) <= half, others
    )
    alpha = tau - _first(lambda less: 1.0 - lemma_d3(tau - less, tau, kappa) <= half, tau)
    return size - alpha


def kappa(rows: int, columns: int, t: float) -> float:
    """Lemma C.1 corrected: ‖Bx‖ ≤ κ‖B‖₂‖x‖ where |⟨x, v⟩| ≤ t‖x‖ for each of B's right singular
    vectors v.

    There are r = min(d_1, d_2) of them with a singular value above 0, so ‖Bx‖² = Σ σ_i²⟨x, v_i⟩² ≤
    r t²‖B‖₂²‖x‖²: κ = √r·t, and 1 where that is less. (A square or tall B has as many v as x has
    numbers, so t ≥ 1/√r and κ = 1: the lemma helps where a layer has fewer outputs than inputs,
    whichever of the two the paper's d_2 stands for.)
    """
    return min(1.0, math.sqrt(min(rows, columns)) * t)


def likely_pruned(d: float, kappa: float) -> float:
    """p₁ of Lemma D.2: that exp(-w²/(dΨ)) ≥ κ, so |w| ≤ √(-dΨ ln κ)."""
    return math.erf(math.sqrt(-d * math.log(kappa) / 2.0))


def _above(j: int, n: int, p: float) -> float:
    """P[Binomial(n, p) > j], erring upwards: that at most n - j - 1 of the n fail."""
    if not 0 <= j < n:
        return 1.0 if j < 0 else 0.0
    return math.exp(log_binomial_cdf_upper(n - j - 1, n, math.nextafter(1.0 - p, 0.0))) * _UP


def at_least(k: int, n: int, p: float) -> float:
    """P[Binomial(n, p) ≥ k], erring downwards."""
    if not 0 < k <= n:
        return 1.0 if k <= 0 else 0.0
    return max(0.0, -math.expm1(log_binomial_cdf_upper(k - 1, n, p)) / _UP)


def _first(holds: Callable[[int], bool], most: int) -> int:
    """The smallest j from 0 to `most` for which `holds`, which is True from some j on."""
    return bisect_left(range(most), True, key=holds)
