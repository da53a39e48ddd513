"""Mistakes of Guha 2023 about laws and counts: for each the printed version is shown wrong, and
ours right.

The letters are those of the list of errata in docs; sketches, the tables and the lottery tickets
have tests elsewhere. What follows (n) was found here.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import betainc
from tests.compressors.test_pruning import normal
from tests.guha_printed import kappa_printed, lemma_d2_printed, lemma_d3_printed, nonzeros_limit

from cushion.compressors.pruning.candidates import rho_limit, rho_limit_printed, rounding_limit
from cushion.compressors.pruning.conditions import SubgaussianFit, fit_subgaussian
from cushion.compressors.pruning.masks import bernoulli_mask, diagonal_mask
from cushion.data.counter import stream
from cushion.measures.margins import margin_loss, sample_margins
from cushion.theorems.pruning import (
    failure_shares,
    fourth_moment,
    gamma_l,
    kappa,
    keep_probability,
    kept_by_d2_d3,
    lemma_d2,
    lemma_d3,
    row_limit,
    row_limit_printed,
    second_moment,
)


def norm(matrix: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix.double(), 2))


def test_a_the_margin_loss_counts_what_is_not_beyond_the_margin() -> None:
    """Printed R̂_γ counts margins ≥ γ, an accuracy: a perfect net would have loss 1, and less as γ
    grows.
    """
    logits = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 0.5], [0.0, 0.2]])
    labels = torch.tensor([0, 1, 0, 0])
    margins = sample_margins(logits, labels).double().numpy()  # 3, 2, 0.5, -0.2
    printed = [float((margins >= gamma).mean()) for gamma in (0.0, 0.5, 2.5)]
    ours = [margin_loss(margins, gamma) for gamma in (0.0, 0.5, 2.5)]
    assert printed == [
        0.75,
        0.75,
        0.25,
    ]  # falls as the margin asked for grows: no upper bound of the error
    assert ours == [0.25, 0.5, 0.75]
    errors = float((logits.argmax(1) != labels).double().mean())
    assert ours[0] == errors != printed[0]
    # Every bound starts from error ≤ R̂_γ: of a net that is always wrong the printed R̂_γ is 0, of
    # a perfect one it is 1
    for found, error in ((np.array([-5.0, -6.0]), 1.0), (np.array([5.0, 6.0]), 0.0)):
        assert margin_loss(found, 1.0) == error
        assert float((found >= 1.0).mean()) == 1.0 - error


def test_b_equation_11_is_the_probability_of_staying() -> None:
    """P(Z = 0), "gets pruned", = (√(d+2) - √d)/√(d+2) in the paper; the coins of Algorithm 1 say
    the opposite.
    """
    d, side = 8.0, 400
    chi = (math.sqrt(d + 2) - math.sqrt(d)) / math.sqrt(d + 2)
    mask = bernoulli_mask(normal(side, side), 1.0, d, 0, 1)[~diagonal_mask((side, side))]
    pruned = 1.0 - mask.double().mean().item()
    error = 5 * math.sqrt(chi * (1 - chi) / mask.numel())
    assert abs(pruned - chi) > 0.7  # the printed reading is off by 1 - 2χ = 0.79
    assert abs(pruned - (1 - chi)) < error
    assert keep_probability(d) == pytest.approx(chi)


def test_c_the_moments_have_powers_of_the_strength_not_of_a_side() -> None:
    """Printed d_2^{3/2}Ψ/(d+2)^{3/2}: at d_2 = 784 that is 4000 Ψ, yet Δ² ≤ w² and E w² = Ψ."""
    d, psi, d_2 = 1.0, 0.3, 784
    printed = d_2**1.5 * psi / (d + 2) ** 1.5
    assert printed > 4000 * psi
    assert second_moment(d, psi) < psi
    assert 3 * d_2**2.5 * psi**2 / (d + 2) ** 2.5 > 3 * psi**2 > fourth_moment(d, psi)  # E w⁴ = 3Ψ²
    w = math.sqrt(psi) * normal(1000, d_2, seed=1, dtype=torch.float64)
    change = (w * ~bernoulli_mask(w, psi, d, 0, 1))[~diagonal_mask((1000, d_2))]
    assert float(change.square().mean()) == pytest.approx(second_moment(d, psi), rel=0.02)


def test_e_rounding_moves_a_layer_by_half_a_step_and_the_root_of_its_nonzeros() -> None:
    """Printed ρJ. Every entry half a step off is the worst case, and has (ρ/2)√J exactly: 2√J times
    less.
    """
    rho, rows, columns = 0.25, 20, 30
    j = rows * columns
    kept = torch.full((rows, columns), rho / 2)
    rounded = rho * torch.round(kept / rho)
    assert norm(rounded - kept) == pytest.approx(rounding_limit(rho, j))
    assert rho * j == pytest.approx(2 * math.sqrt(j) * rounding_limit(rho, j))
    for seed in range(5):
        random = normal(rows, columns, seed=seed)
        assert norm(rho * torch.round(random / rho) - random) <= rounding_limit(rho, j)
    # so the same promise allows a grid 2√J times as coarse
    assert rho_limit(5.0, 5, 0.2, j) == pytest.approx(
        2 * math.sqrt(j) * rho_limit_printed(5.0, 5, 1.0, 0.2, j)
    )


def test_f_the_sketch_has_a_square_of_the_longer_side() -> None:
    """E.4: j·p ≤ 3λχ·d_1·d_2 is said to follow from j ≤ 3λχ·max(d_1, d_2), p = max(d_1, d_2): only
    for square layers.

    And a layer with so many non-zeros in its fullest column exists: the printed limit on the sketch
    is exceeded.
    """
    rows, columns, lambda_l, chi = 784, 10, 1.0, keep_probability(4.0)
    j, p = row_limit_printed(lambda_l, rows, columns, chi), max(rows, columns)
    assert j * p == pytest.approx(3 * lambda_l * chi * p**2)
    assert j * p > 70 * 3 * lambda_l * chi * rows * columns
    square = row_limit_printed(lambda_l, rows, rows, chi) * rows
    assert square == pytest.approx(3 * lambda_l * chi * rows * rows)
    mask = bernoulli_mask(normal(rows, columns), 1.0, 4.0, 0, 1)
    fullest = int(mask.sum(0).max())  # of a column
    assert fullest <= j
    assert fullest * p > 3 * lambda_l * chi * rows * columns


def test_k_balls_and_bins_are_fuller_than_three_times_their_mean() -> None:
    """Lemma E.1: max ≤ 3N/n with probability ≥ 1 - n^{-1/3} = 0.9. With N = n = 1000 balls it fails
    nearly always.

    Ours needs no such lemma: the exact binomial limit for the same mean of one a row holds as often
    as it says.
    """
    n, runs = 1000, 300
    bins = (stream("balls", 0, runs * n) % np.uint64(n)).astype(np.int64).reshape(runs, n)
    fullest = np.array([np.bincount(row, minlength=n).max() for row in bins])
    holds = float((fullest <= 3).mean())
    assert holds < 0.05 < 1 - n ** (-1 / 3)
    limit = row_limit(n, n, 1 / n, 0.1)  # one more than a bin's, for the diagonal
    assert limit > 4
    draw = np.random.default_rng(0)
    broken = [1 + draw.binomial(n - 1, 1 / n, n).max() > limit for _ in range(runs)]
    assert np.mean(broken) <= 0.1 + 4 * math.sqrt(0.09 / runs)
    # well above n ln n balls the printed lemma holds, as its source has it
    many = stream("balls", 1, 50 * n) % np.uint64(n)
    assert np.bincount(many.astype(np.int64)).max() <= 150


def test_l_epsilon_cannot_be_small_and_above_one() -> None:
    """Lemma 4.2 holds with 1 - 1/ε_l, so ε_l > 1; Lemma 4.3 then needs ε_lΓ_l ≤ ‖A‖₂/L, which here
    is false for all.

    The exact ‖Δ‖₂ needs no ε_l and satisfies it.
    """
    side, d, layers = 300, 0.1, 5
    weight = normal(side, side, dtype=torch.float64)
    gamma = gamma_l(d, 1.0, side, side)
    mask = bernoulli_mask(weight, 1.0, d, 0, 1)
    shift, j = norm(weight * ~mask), int(mask.sum())
    assert rho_limit_printed(norm(weight), layers, 1.0, gamma, j) < 0  # and less for any ε_l > 1
    epsilon = failure_shares(0.05, [(side, side)] * layers).epsilon[0]
    assert epsilon > 1
    assert rho_limit_printed(norm(weight), layers, epsilon, gamma, j) < 0
    assert rho_limit(norm(weight), layers, shift, j) > 0
    small = 0.5  # "sufficiently small": the premise holds, with probability at least 1 - 1/ε_l = -1
    assert small * gamma <= norm(weight) / layers
    assert 1 - 1 / small < 0


def test_m_kappa_is_linear_in_t() -> None:
    """One singular vector v: ‖Bx‖ = |⟨x, v⟩|·‖B‖, so |⟨x, v⟩| = t has κ = t, not √t; the proof has
    √d_2·t too.
    """
    t = 0.04
    v = np.array([[1.0, 0.0, 0.0]])
    x = np.array([t, math.sqrt(1 - t * t), 0.0])
    attained = float(np.linalg.norm(v @ x))
    assert kappa(3, 1, t) == pytest.approx(attained)
    assert kappa_printed(3, 1, t) == pytest.approx(
        attained / math.sqrt(t)
    )  # five times what the event says
    assert kappa_printed(100, 25, t) == pytest.approx(kappa(100, 25, t) / math.sqrt(t))
    assert kappa_printed(25, 100, t) == 1.0


def test_n_alpha_is_pruned_in_one_lemma_and_kept_in_the_other() -> None:
    """All matrices of 4 entries of which 1 is pruned, 3 kept, each one of r = 2 values: counted one
    by one.
    """
    entries, pruned, r = 4, 1, 2
    every = sum(
        found.count(0) == pruned for found in itertools.product(range(r + 1), repeat=entries)
    )
    count = lambda alpha: math.comb(entries, alpha) * r**alpha  # noqa: E731
    assert every == count(entries - pruned) == 32
    # with D.3's α: fewer than there are, so that no union over them holds
    assert count(pruned) == 8
    # D.3's α of a real layer is what goes; D.1 must be given the rest
    rows, columns, d, failure = 50, 40, 4.0, 0.01
    kept = kept_by_d2_d3(rows, columns, d, 0.5, failure)
    mask = bernoulli_mask(normal(rows, columns), 1.0, d, 0, 1)
    assert int((~mask).sum()) >= rows * columns - kept
    assert int(mask.sum()) <= kept
    # α is far more than what stays: it bounds nothing kept
    assert int(mask.sum()) < rows * columns - kept


def test_the_diagonal_counts_among_the_nonzeros_of_lemma_5_1() -> None:
    """E N = d_1 d_2 χ forgets the diagonal, which never goes: with few others 3λχ·max(d_1, d_2) is
    below 1.

    Yet Definition 5.1 wants a full diagonal. Markov's limit λ·E N on all non-zeros fails for
    certain, too.
    """
    side, d, lambda_l = 300, 1e6, 100.0
    chi = keep_probability(d)
    mask = bernoulli_mask(normal(side, side), 1.0, d, 0, 1)
    assert int(mask.sum(1).max()) >= 1 > row_limit_printed(lambda_l, side, side, chi)
    assert int(mask.sum()) >= side > lambda_l * side * side * chi  # 300 > 9
    assert int(mask.sum(1).max()) <= row_limit(side, side, chi, 0.01)
    assert int(mask.sum()) <= nonzeros_limit(side, side, chi, 0.01)


def test_lemmas_d2_and_d3_are_one_off_and_count_the_diagonal() -> None:
    """1 - I_{1-p}(n - k, k + 1) = P(Bin > k). Printed as P(≥ τ) it is too small by P(= τ), and at τ
    = 0 not 1.
    """
    d, least = 1.0, 0.5
    p = math.erf(math.sqrt(-d * math.log(least) / 2))
    assert lemma_d2_printed(0, 3, 4, d, least) == pytest.approx(1 - (1 - p) ** 12) != 1.0
    assert lemma_d2(0, 3, 4, d, least) == lemma_d3(0, 5, least) == 1.0
    assert lemma_d3(5, 5, least) == pytest.approx(least**5)
    assert lemma_d3_printed(5, 5, least) == 0.0
    assert 1 - betainc(5 - 2, 2 + 1, 1 - least) == pytest.approx(
        sum(math.comb(5, i) for i in (3, 4, 5)) / 32
    )
    # Two entries of a 2x2 matrix can be pruned at all, yet the printed lemma finds three with
    # probability p⁴ + ...
    assert lemma_d2_printed(2, 2, 2, d, least) == pytest.approx(4 * p**3 * (1 - p) + p**4)
    assert lemma_d2(3, 2, 2, d, least) == 0.0
    masks = [bernoulli_mask(normal(2, 2, seed=seed), 1.0, d, seed, 1) for seed in range(200)]
    assert max(int((~mask).sum()) for mask in masks) == 2


def test_lemma_c_1_needs_a_union_over_the_directions() -> None:
    """x uniform on the circle, B = I: ‖Bx‖ = 1 always, above κ = √2·0.7; printed, that has
    probability ≤ 0.52.

    P(|⟨x, v⟩| ≥ t) = 1 - (2/π) asin t ≤ exp(-2bt²) with b = 0.68, for every v and t: Condition C.1
    holds with a = 1.
    """
    a, b, t = 1.0, 0.68, 0.7
    for at in np.linspace(0.0, 1.0, 1001):
        assert 1 - 2 / math.pi * math.asin(at) <= a * math.exp(-2 * b * at * at)
    angles = np.linspace(0.0, 2 * math.pi, 1000, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert (np.linalg.norm(circle, axis=1) > math.sqrt(2) * t).all()
    assert SubgaussianFit(a, b, 2, inputs=1, directions=1).failure(t) < 0.52  # as printed: no union
    assert SubgaussianFit(a, b, 2, inputs=1, directions=2).failure(t) == 1.0  # ours
    assert kappa(2, 2, 1 / math.sqrt(2)) == pytest.approx(1.0)
    fit = fit_subgaussian(np.abs(circle), 2, a=1.0)
    assert fit.threshold(0.999) >= 1 / math.sqrt(2)  # no smaller t is possible: then κ = 1


def test_lemma_c_1_needs_both_sides() -> None:
    """Printed P(⟨x, v⟩ ≥ t). For x = ±v it is a half, and ‖Bx‖ = ‖B‖ always: with a e^{-b} = ½ the
    lemma says ½.
    """
    x = np.array([[1.0], [-1.0]])
    one_sided, two_sided = float((x[:, 0] >= 1.0).mean()), float((np.abs(x[:, 0]) >= 1.0).mean())
    assert (one_sided, two_sided) == (0.5, 1.0)
    b = math.log(2.0)  # a = 1: P(x ≥ t) ≤ exp(-b t²) for all t in [0, 1], with equality at 1
    assert SubgaussianFit(1.0, b, 1, 1, 1).failure(1.0) == pytest.approx(0.5)
    assert fit_subgaussian(np.abs(x), 1, a=1.0).b == 0.0  # ours sees both sides
    assert fit_subgaussian(np.abs(x), 1, a=1.0).failure(1.0) == 1.0
