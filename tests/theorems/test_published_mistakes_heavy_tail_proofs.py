"""Slips in the proofs and in Section 5 of Shin 2021 beyond errata a to f, each with exact numbers
or draws.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from cushion.papers.shin.resilience import bracket_probability, brackets, brackets_printed
from cushion.theorems.heavy_tails import (
    epsilon_promised,
    failure,
    spread_allowed,
    spread_allowed_printed,
)
from cushion.theorems.sparsity import exceeds


def pareto(rng: np.random.Generator, shape: tuple[int, ...], alpha: float) -> np.ndarray:
    return rng.random(shape) ** (-1 / alpha) * rng.choice((-1.0, 1.0), shape)


def test_equation_22_is_no_markov() -> None:
    # E X/s bounds P(X > s) for X ≥ 0 only. X = ±1 has mean 0, and exceeds ½ half of the time.
    assert np.mean([-1.0, 1.0]) / 0.5 < np.mean(np.array([-1.0, 1.0]) > 0.5)


def test_equation_26_needs_positive_numbers_in_u_and_v() -> None:
    # A_ij ≤ τ gives a_ij A_ij ≤ a_ij τ where a_ij ≥ 0. With a = -1, A = 0.1, τ = 1 it is the other
    # way round.
    a, small, tau = -1.0, 0.1, 1.0
    assert a * small > a * tau


def test_equation_29_squares_a_sum_as_the_sum_of_squares() -> None:
    # exp(λτΣa) ≤ exp(1 + λ²τ²(Σa)²/2) is right. With Σa² in the place of (Σa)² it is not, and that
    # hides the mean.
    a, rate, tau = np.full(100, 0.1), 1.0, 1.0
    left = rate * tau * a.sum()
    assert left <= 1 + rate**2 * tau**2 * a.sum() ** 2 / 2
    assert left > 1 + rate**2 * tau**2 * np.square(a).sum() / 2


def test_appendix_a_writes_a_density_that_is_none() -> None:
    mass = integrate.quad(lambda w: 2.5 * w**-2.5, 1, math.inf)[0]  # αw_m^α w^-α
    assert mass == pytest.approx(2.5 / 1.5)
    assert integrate.quad(lambda w: 2.5 * w**-3.5, 1, math.inf)[0] == pytest.approx(1.0)


def test_footnote_2_is_no_density() -> None:
    scale = 4.0
    printed = integrate.quad(
        lambda x: 1 / (math.pi * scale * (1 + x**2 / scale)), -math.inf, math.inf
    )[0]
    assert printed == pytest.approx(1 / math.sqrt(scale))
    right = integrate.quad(
        lambda x: 1 / (math.pi * scale * (1 + (x / scale) ** 2)), -math.inf, math.inf
    )[0]
    assert right == pytest.approx(1.0)


def test_lemma_2_2_uses_vectors_that_depend_on_the_weights() -> None:
    # 1ᵀ relu(Wx): the row of the Jacobian at Wx marks the units with Wx > 0, and so leans towards
    # A's positive side.
    rng = np.random.default_rng(0)
    rows, columns, tau, eta, draws = 512, 32, 2.0, 0.05, 60
    weights = pareto(rng, (draws, rows, columns), 2.5)
    small = (weights * (np.abs(weights) <= tau)).sum(axis=2)
    own = (weights.sum(axis=2) > 0).astype(float)
    fixed = np.tile(rng.integers(0, 2, rows).astype(float), (draws, 1))
    failed = {
        name: np.mean(
            np.abs((u * small).sum(axis=1))
            > epsilon_promised(tau**2, eta) * np.sqrt(u.sum(axis=1) * columns)
        )
        for name, u in (("own", own), ("fixed", fixed))
    }
    assert failed["own"] > 0.9
    assert failed["fixed"] <= eta + 4 * math.sqrt(eta / draws)


def test_lemma_2_2_needs_an_error_relative_to_the_norm() -> None:
    # One linear layer, so f = Wx. Scaled down, all of W is below the printed τ: the error is ‖f‖
    # itself, for any ε < 1.
    rng = np.random.default_rng(1)
    weight = pareto(rng, (30, 40), 4.0)
    epsilon, eta = 0.5, 1e-3
    for scale in (1e-3, 1.0, 1e3):
        scaled = scale * weight
        norm_f = np.linalg.norm(scaled)
        printed = math.sqrt(spread_allowed_printed(epsilon, eta, "equation 37"))
        relative = math.sqrt(spread_allowed(epsilon, eta, norm_f))
        shares = [np.mean(np.abs(scaled) <= tau) for tau in (printed, relative)]
        if scale < 1:
            assert norm_f < 1  # which the paper excludes by assuming ‖W‖_F ≥ 1
            assert shares[0] == 1.0
        assert shares[1] == pytest.approx(
            np.mean(np.abs(weight) <= math.sqrt(spread_allowed(epsilon, eta, norm_f / scale)))
        )
        assert failure(relative**2, epsilon, norm_f) == pytest.approx(eta)


def test_the_covering_argument_forgets_the_norm_of_the_noise() -> None:
    # ‖W(t)‖_F ≤ β(1 + 1/d) is said to follow from Lemma 2.2. The t that it allows adds √(t·N₁N₂),
    # far more than β.
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((200, 200))
    beta = float(np.linalg.norm(weight))
    t = spread_allowed(0.5, 0.05, beta)  # τ = 0: nothing is even replaced
    noisy = np.linalg.norm(weight + math.sqrt(t) * rng.standard_normal(weight.shape))
    assert noisy > 10 * beta * (1 + 1 / 2)
    assert noisy == pytest.approx(math.sqrt(beta**2 + t * weight.size), rel=0.02)


def test_equation_91_is_not_equation_90_but_lemma_2_3_holds() -> None:
    rng = np.random.default_rng(3)
    gamma, a, c = 2.0, 0.3, 0.8
    assert gamma**2 + 4 * gamma * (a - c) != pytest.approx(
        (gamma + 2 * gamma * (a - c)) ** 2 - (2 * (a - c)) ** 2
    )
    assert gamma**2 + 4 * gamma * (a - c) == pytest.approx(
        (gamma + 2 * (a - c)) ** 2 - 4 * (a - c) ** 2
    )
    # A margin above γ stays positive where the scores move by at most γ/√2: a margin moves by √2‖f
    # - g‖ at most.
    for _ in range(2_000):
        scores = rng.normal(size=4)
        scores[0] = scores[1:].max() + gamma * (1 + 1e-9)
        moved = rng.normal(size=4)
        moved *= gamma / math.sqrt(2) / np.linalg.norm(moved)
        assert (scores + moved)[0] > (scores + moved)[1:].max()
    worst = np.array([-1.0, 1.0]) * gamma / 2  # of length γ/√2: it takes the whole margin
    assert np.linalg.norm(worst) == pytest.approx(gamma / math.sqrt(2))
    assert (np.array([gamma, 0.0]) + worst).tolist() == [1.0, 1.0]


def test_section_5_2_says_the_opposite_of_remark_1() -> None:
    # At one τ, as Proposition 1.1 has it, fewer weights go as α shrinks; relative to ‖W‖_F it is
    # more.
    rng = np.random.default_rng(4)
    alphas = (0.75, 1.0, 1.5, 2.5, 4.0)
    fixed = [1 - exceeds(2.0, alpha) for alpha in alphas]
    assert fixed == sorted(fixed)
    shares = []
    for alpha in alphas:
        weights = pareto(rng, (50, 4096), alpha)
        limits = [
            math.sqrt(spread_allowed(0.05, 0.05, float(length)))
            for length in np.linalg.norm(weights, axis=1)
        ]
        shares.append((np.abs(weights) <= np.array(limits)[:, None]).mean())
    assert shares == sorted(shares, reverse=True)


def test_equation_13_is_no_decomposition() -> None:
    rng = np.random.default_rng(5)
    weights = 1.3 * rng.standard_cauchy(100_000)
    printed = brackets_printed(weights, 1.3, 5)
    below = 0.5 + math.atan(1 / 1.3) / math.pi  # of the law: negative, or up to c^0 = 1
    assert printed.lost / weights.size == pytest.approx(below, abs=0.01)
    assert below > 0.7
    ours = brackets(weights, 1.3, 5)
    assert ours.lost == int((np.abs(weights) < 1).sum())
    # For c < 1, as weights of trained nets have it, every bracket c^i < W < c^(i+1) is empty.
    assert brackets_printed(0.05 * rng.standard_cauchy(10_000), 0.05, 5).inside == (0,) * 6


def test_equation_14_is_far_off_at_the_powers_of_figure_2() -> None:
    cauchy = [(math.atan(1.3**i) - math.atan(1.3 ** (i - 1))) / math.pi for i in range(6)]
    ratios = [bracket_probability(i, 1.0, 1.3) / exact for i, exact in enumerate(cauchy)]
    assert ratios[0] > 2
    assert ratios[5] > 1.05
    # At α = 2 the law is N(0, 2c²), and eq. 14 says that nothing lies there.
    normal = norm.cdf(1.3 / (1.3 * math.sqrt(2))) - norm.cdf(1 / (1.3 * math.sqrt(2)))
    assert normal > 0.05
    assert bracket_probability(0, 2.0, 1.3) == 0.0
