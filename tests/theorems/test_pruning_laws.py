"""The laws of Guha 2023 under Assumption 3.1: forms against integrals and simulation, counts
against sums.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import betainc
from tests.compressors.test_pruning import normal
from tests.guha_printed import lemma_d2_printed, lemma_d3_printed, nonzeros_limit

from cushion.compressors.pruning.masks import bernoulli_mask, diagonal_mask
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

STRENGTHS = [1e-6, 0.05, 0.25, 1.0, 4.0, 50.0, 1e6]


def of_pruned(power: int, d: float, psi: float) -> float:
    """E w^power·exp(-w²/(dΨ)), w ~ N(0, Ψ), by quadrature as far as the narrower of the two bells
    reaches.
    """

    def integrand(w: float) -> float:
        bell = math.exp(-w * w / (2 * psi)) / math.sqrt(2 * math.pi * psi)
        return w**power * math.exp(-w * w / (d * psi)) * bell

    end = 12 * math.sqrt(psi * min(1.0, d))
    return 2 * float(quad(integrand, 0.0, end, epsabs=0, epsrel=1e-11, limit=200)[0])


@pytest.mark.parametrize("d", STRENGTHS)
@pytest.mark.parametrize("psi", [1e-4, 1.0, 9.0])
def test_the_closed_forms_are_the_integrals(d: float, psi: float) -> None:
    assert keep_probability(d) == pytest.approx(1.0 - of_pruned(0, d, psi), abs=1e-11)
    assert second_moment(d, psi) == pytest.approx(of_pruned(2, d, psi), rel=1e-9)
    assert fourth_moment(d, psi) == pytest.approx(of_pruned(4, d, psi), rel=1e-9)


def test_the_keep_probability_has_all_its_digits() -> None:
    """(1 - χ)² = d/(d+2), so χ(2 - χ)(d + 2) = 2: checked in rational numbers."""
    for d in (*STRENGTHS, 1e15):  # there 1 - √(d/(d+2)) in floats is off by a tenth
        chi = Fraction(keep_probability(d))
        assert abs(chi * (2 - chi) * (Fraction(d) + 2) - 2) < Fraction(1, 10**14)


@pytest.mark.parametrize("d", [0.25, 1.0, 4.0])
def test_lemma_4_1_by_simulation(d: float) -> None:
    """Algorithm 1 itself on 10^6 normal weights: mean, moments and share of what stays within 5
    standard errors.
    """
    psi, side = 0.04, 1000
    weight = math.sqrt(psi) * normal(side, side, seed=11, dtype=torch.float64)
    mask = bernoulli_mask(weight, psi, d, 7, 1)
    off = ~diagonal_mask((side, side))
    change = (-weight * ~mask)[off].numpy()  # Δ = Â - A
    n, gone = change.size, 1 - keep_probability(d)
    # a pruned weight is N(0, s²): its moments of order 2, 4, 8 are s², 3s⁴, 105s⁸
    s2 = psi * d / (d + 2)
    second, fourth, eighth = gone * s2, gone * 3 * s2**2, gone * 105 * s2**4
    assert abs(change.mean()) < 5 * math.sqrt(second / n)
    assert abs((change**2).mean() - second_moment(d, psi)) < 5 * math.sqrt((fourth - second**2) / n)
    assert abs((change**4).mean() - fourth_moment(d, psi)) < 5 * math.sqrt((eighth - fourth**2) / n)
    kept = mask[off].double().mean().item()
    assert abs(kept - keep_probability(d)) < 5 * math.sqrt(gone * (1 - gone) / n)
    assert mask[diagonal_mask((side, side))].all()


@pytest.mark.parametrize("shape", [(300, 300), (100, 400)])
def test_gamma_is_of_the_size_of_the_norm(shape: tuple[int, int]) -> None:
    """Γ_l with C = 1 against ‖Δ‖₂ of a simulated layer: (√d_1 + √d_2)√EΔ² alone is the norm's limit
    (Bai-Yin).
    """
    d, psi = 1.0, 0.5
    weight = math.sqrt(psi) * normal(*shape, seed=2, dtype=torch.float64)
    shift = float(torch.linalg.matrix_norm(weight * ~bernoulli_mask(weight, psi, d, 0, 1), 2))
    edge = math.sqrt(second_moment(d, psi)) * (math.sqrt(shape[0]) + math.sqrt(shape[1]))
    assert shift == pytest.approx(edge, rel=0.05)
    fourth = (shape[0] * shape[1] * fourth_moment(d, psi)) ** 0.25
    assert gamma_l(d, psi, *shape) == pytest.approx(edge + fourth)
    assert gamma_l(d, 4 * psi, *shape) == pytest.approx(
        2 * gamma_l(d, psi, *shape)
    )  # a norm: linear in √Ψ


def test_shares_add_up_to_delta_and_say_what_is_printed() -> None:
    shapes = [(2500, 784), (2500, 2500), (10, 2500)]
    shares = failure_shares(0.05, shapes)
    assert len(shares.epsilon) == len(shares.lambda_) == 3
    exact = sum(1 / Fraction(one) for one in (*shares.epsilon, *shares.lambda_))
    assert exact <= Fraction(0.05)
    assert float(exact) == pytest.approx(0.05)
    assert shares.spent == pytest.approx(0.05)
    assert min(shares.epsilon) > 1
    lost = sum(side ** (-1 / 3) for shape in shapes for side in shape)
    assert shares.lemma_5_1 == pytest.approx(lost)
    assert shares.printed == pytest.approx(0.05 + lost)
    assert "holds with probability" in shares.note
    assert "is empty" in failure_shares(0.05, shapes * 3).note
    # sides of 10^9 would leave something: then the printed statement holds too
    wide = failure_shares(0.05, [(10**9, 10**9)])
    assert wide.note == ""
    assert wide.printed == pytest.approx(0.05)
    assert wide.epsilon[0] == pytest.approx(2 / 0.048)


def binomial_above(j: int, n: int, p: Fraction) -> Fraction:
    return sum(
        (math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(max(j + 1, 0), n + 1)),
        Fraction(0),
    )


def rows_fail(rows: int, columns: int, p: Fraction, j: int) -> Fraction:
    """Σ over rows of P(more than j stay), row by row: the diagonal entry, where there is one, is no
    coin.
    """
    total = Fraction(0)
    for i in range(rows):
        total += (
            binomial_above(j - 1, columns - 1, p) if i < columns else binomial_above(j, columns, p)
        )
    return total


@pytest.mark.parametrize("shape", [(4, 4), (9, 5), (5, 9), (1, 7), (7, 1), (12, 12)])
@pytest.mark.parametrize("d", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("failure", [0.5, 0.05, 1e-4, 1e-9])
def test_row_and_total_limits_are_the_smallest(
    shape: tuple[int, int], d: float, failure: float
) -> None:
    rows, columns = shape
    chi = keep_probability(d)
    p = Fraction(chi)
    j = row_limit(rows, columns, chi, failure)
    assert rows_fail(rows, columns, p, j) <= Fraction(failure)
    assert j == 0 or rows_fail(rows, columns, p, j - 1) > Fraction(failure)
    most, diagonal = nonzeros_limit(rows, columns, chi, failure), min(shape)
    others = rows * columns - diagonal
    assert binomial_above(most - diagonal, others, p) <= Fraction(failure)
    assert most == diagonal or binomial_above(most - diagonal - 1, others, p) > Fraction(failure)


def test_row_limits_hold_as_often_as_they_say() -> None:
    """400 layers of 60x40 pruned by Algorithm 1: a fifth may fail at failure = 0.2, and the limit
    is not slack.
    """
    rows, columns, d, runs = 60, 40, 2.0, 400
    chi = keep_probability(d)
    limit, total = row_limit(rows, columns, chi, 0.2), nonzeros_limit(rows, columns, chi, 0.2)
    draw = torch.Generator().manual_seed(0)
    worst, all_of_them = [], []
    for seed in range(runs):
        mask = bernoulli_mask(torch.randn(rows, columns, generator=draw), 1.0, d, seed, 1)
        worst.append(int(mask.sum(1).max()))
        all_of_them.append(int(mask.sum()))
    error = 4 * math.sqrt(0.2 * 0.8 / runs)
    assert np.mean(np.array(worst) > limit) < 0.2 + error
    assert np.mean(np.array(worst) > limit - 1) > 0.2 - error
    # exact, up to the steps of a count
    assert abs(np.mean(np.array(all_of_them) > total) - 0.2) < error + 0.02


def test_the_corrected_limit_is_far_below_the_printed_one() -> None:
    chi = keep_probability(1.0)
    printed = row_limit_printed(100.0, 784, 784, chi)
    assert printed == pytest.approx(300 * 784 * chi)
    assert printed > 784  # more than a row has
    assert 784 * chi < row_limit(784, 784, chi, 0.005) < 784 * chi * 1.25
    assert (
        row_limit_printed(2.0, 10, 300, chi)
        == row_limit_printed(2.0, 300, 10, chi)
        == pytest.approx(1800 * chi)
    )


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (6, 6)])
@pytest.mark.parametrize("d", [0.5, 3.0])
@pytest.mark.parametrize("least", [0.3, 0.7])
def test_lemmas_d2_and_d3_are_binomial_sums(
    rows: int, columns: int, d: float, least: float
) -> None:
    n, p = rows * columns, math.erf(math.sqrt(-d * math.log(least) / 2))
    others = n - min(rows, columns)
    for tau in range(n + 2):
        corrected = float(binomial_above(tau - 1, others, Fraction(p)))
        assert lemma_d2(tau, rows, columns, d, least) == pytest.approx(corrected, abs=1e-11)
        assert lemma_d2(tau, rows, columns, d, least) <= binomial_above(
            tau - 1, others, Fraction(p)
        )
        if tau < n:  # the incomplete beta function of the paper, with its arguments
            beta = 1 - betainc(n - tau, 1 + tau, 1 - p)
            assert lemma_d2_printed(tau, rows, columns, d, least) == pytest.approx(beta, abs=1e-11)
    for alpha in range(n + 1):
        assert lemma_d3(alpha, n, least) == pytest.approx(
            float(binomial_above(alpha - 1, n, Fraction(least))), abs=1e-11
        )
        if alpha < n:
            beta = 1 - betainc(n - alpha, alpha + 1, 1 - least)
            assert lemma_d3_printed(alpha, n, least) == pytest.approx(beta, abs=1e-11)


def test_the_share_of_likely_pruned_entries_by_simulation() -> None:
    """p₁ of Lemma D.2: how often exp(-w²/(dΨ)) ≥ κ for a normal w; through P(|C| ≥ 1) of one entry
    off the diagonal.
    """
    d, psi, least = 1.5, 4.0, 0.4
    w = 2.0 * normal(400_000, seed=5, dtype=torch.float64)
    seen = float((torch.exp(-w * w / (d * psi)) >= least).double().mean())
    one = lemma_d2(1, 1, 2, d, least)  # a 1x2 matrix has one entry off the diagonal
    assert seen == pytest.approx(one, abs=5 * math.sqrt(0.25 / 400_000))


@pytest.mark.parametrize("least", [0.2, 0.5, 0.9])
def test_what_d2_and_d3_leave_is_never_below_the_exact_count(least: float) -> None:
    rows, columns, d, failure = 40, 30, 1.0, 0.02
    kept = kept_by_d2_d3(rows, columns, d, least, failure)
    exact = nonzeros_limit(rows, columns, keep_probability(d), failure)
    assert exact <= kept <= rows * columns
    others = rows * columns - 30
    taus = [
        tau
        for tau in range(others + 1)
        if lemma_d2(tau, rows, columns, d, least) >= 1 - failure / 2
    ]
    alphas = [
        alpha
        for alpha in range(max(taus) + 1)
        if lemma_d3(alpha, max(taus), least) >= 1 - failure / 2
    ]
    assert kept == rows * columns - max(alphas)


def test_kappa_is_the_root_of_the_rank_times_t() -> None:
    assert kappa(2500, 10, 0.1) == kappa(10, 2500, 0.1) == pytest.approx(math.sqrt(10) * 0.1)
    assert kappa(100, 100, 0.5) == 1.0  # ‖Bx‖ ≤ ‖B‖‖x‖ whatever t is
    draw = np.random.default_rng(0)
    for _ in range(50):  # with t the largest product, the inequality itself
        b, x = draw.standard_normal((3, 40)), draw.standard_normal(40)
        v = np.linalg.svd(b, full_matrices=False)[2]
        t = float(np.abs(v @ x).max() / np.linalg.norm(x))
        assert np.linalg.norm(b @ x) <= kappa(3, 40, t) * np.linalg.norm(b, 2) * np.linalg.norm(
            x
        ) * (1 + 1e-12)


def test_large_layers_take_no_time() -> None:
    """The exact tail of 6 250 000 coins: mean plus about three standard deviations at 0.1 %."""
    chi = keep_probability(1.0)
    n = 2500 * 2500 - 2500
    expected = 2500 + n * chi + 3.09 * math.sqrt(n * chi * (1 - chi))
    assert nonzeros_limit(2500, 2500, chi, 0.001) == pytest.approx(expected, abs=20)
