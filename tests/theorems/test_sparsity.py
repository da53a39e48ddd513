"""Proposition 1.2 and eq. 9-11 of Shin 2021: Chernoff beside the exact tail, k, the moments of
spikes, and draws.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate

from cushion.theorems.sparsity import (
    energy,
    exceeds,
    log_chernoff,
    log_expression,
    log_tail,
    sparsity,
    spike_mean,
    spike_square,
)


@pytest.mark.parametrize(("n", "p"), [(12, 0.2), (30, 0.03), (7, 0.9), (1, 0.5)])
def test_both_tails_against_the_exact_sum(n: int, p: float) -> None:
    chance = Fraction(p)
    for k in range(n + 2):
        exact = float(
            sum(math.comb(n, j) * chance**j * (1 - chance) ** (n - j) for j in range(k, n + 1))
        )
        assert math.exp(log_tail(k, n, p)) == pytest.approx(exact, rel=1e-9, abs=0)
        assert math.exp(log_chernoff(k, n, p)) >= exact * (1 - 1e-12)
        if n * p < k < n:
            printed = (n * p / k) ** k * ((1 - p) / (1 - k / n)) ** (n - k)
            assert math.exp(log_expression(k, n, p)) == pytest.approx(printed)
            assert log_chernoff(k, n, p) == log_expression(k, n, p)
        elif k <= n * p:
            assert log_chernoff(k, n, p) == 0.0
            assert math.exp(log_expression(k, n, p)) < 1 or k == n * p  # the other tail's bound


def test_tails_at_their_ends() -> None:
    assert log_tail(0, 5, 0.0) == log_chernoff(0, 5, 0.0) == 0.0
    assert log_tail(1, 5, 0.0) == log_chernoff(1, 5, 0.0) == -math.inf
    assert log_tail(5, 5, 1.0) == log_chernoff(5, 5, 1.0) == log_expression(5, 5, 1.0) == 0.0
    assert log_tail(6, 5, 1.0) == log_chernoff(6, 5, 1.0) == -math.inf
    assert log_expression(4, 5, 1.0) == -math.inf  # P(X ≤ 4) is 0 there
    assert log_expression(5, 5, 0.3) == pytest.approx(5 * math.log(0.3))
    assert log_tail(2.2, 9, 0.3) == log_tail(3, 9, 0.3)


def test_the_exact_tail_goes_on_below_the_smallest_float() -> None:
    # 40 nats of terms are enough: against the sum over all of them, in logarithms.
    n, p, k = 20_000, 0.01, 6_000
    logs = [
        math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) for j in range(k, n + 1)
    ]
    logs = [
        one + j * math.log(p) + (n - j) * math.log1p(-p)
        for one, j in zip(logs, range(k, n + 1), strict=True)
    ]
    top = max(logs)
    naive = top + math.log(math.fsum(math.exp(one - top) for one in logs))
    assert naive < -1e4
    assert log_tail(k, n, p) == pytest.approx(naive, rel=1e-9)
    assert naive <= log_chernoff(k, n, p) < naive + 10
    assert log_tail(n, n, p) == pytest.approx(n * math.log(p))
    # The two ways of summing meet: the logarithm is concave over k on both sides of the change and
    # across it.
    logs = [log_tail(k, n, p) for k in range(600, 1_000)]
    assert logs[0] > -600 > logs[-1]
    assert np.diff(logs, 2).max() < 0


@pytest.mark.parametrize(
    ("n", "p", "delta"), [(50, 0.1, 0.05), (400, 0.3, 1e-6), (4, 0.9, 0.01), (9, 1.0, 0.5)]
)
def test_k_is_the_first_that_is_rare(n: int, p: float, delta: float) -> None:
    for log_bound in (log_tail, log_chernoff):
        k = sparsity(n, p, delta, log_bound)
        naive = next((j for j in range(1, n + 2) if log_bound(j, n, p) <= math.log(delta)), None)
        assert k == naive
    assert sparsity(n, p, delta) <= sparsity(n, p, delta, log_chernoff)


def test_draws_exceed_k_as_seldom_as_promised() -> None:
    rng = np.random.default_rng(2)
    n, alpha, tau, delta, draws = 300, 1.7, 3.0, 0.05, 20_000
    p = exceeds(tau, alpha, 1.2)
    assert p == pytest.approx((1.2 / 3.0) ** 1.7)
    counts = (1.2 * rng.random((draws, n)) ** (-1 / alpha) > tau).sum(axis=1)
    k = sparsity(n, p, delta)
    noise = 4 * math.sqrt(delta / draws)
    assert (counts >= k).mean() <= delta + noise
    assert (counts >= k - 1).mean() > delta - noise  # no smaller k would do
    assert (counts >= k).mean() == pytest.approx(math.exp(log_tail(k, n, p)), abs=noise)


@pytest.mark.parametrize(
    ("alpha", "w_m", "tau"), [(3.5, 1.0, 2.0), (2.2, 0.3, 0.7), (6.0, 1.0, 0.5)]
)
def test_moments_of_spikes_are_their_integrals(alpha: float, w_m: float, tau: float) -> None:
    def moment(power: int) -> float:
        low = max(tau, w_m)
        return integrate.quad(
            lambda w: alpha * w_m**alpha * w ** (power - alpha - 1), low, math.inf
        )[0]

    assert exceeds(tau, alpha, w_m) == pytest.approx(moment(0), rel=1e-6)
    assert spike_mean(tau, alpha, w_m) == pytest.approx(moment(1), rel=1e-6)
    assert spike_square(tau, alpha, w_m) == pytest.approx(moment(2), rel=1e-6)


def test_no_moment_where_the_tail_is_too_heavy() -> None:
    assert spike_mean(2.0, 1.0) == spike_square(2.0, 2.0) == math.inf
    assert (
        energy(np.ones(3), 2.0, 1.39, symmetric=False) == energy(np.ones(3), 2.0, 1.39) == math.inf
    )


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_energy_of_a_component_is_seen(symmetric: bool) -> None:
    rng = np.random.default_rng(3)
    x = np.array([1.0, -0.5, 2.0, 2.0, 0.0])
    weights = rng.random((400_000, 5)) ** (-1 / 6.0)
    weights *= rng.choice((-1.0, 1.0), weights.shape) if symmetric else 1.0
    spikes = weights * (np.abs(weights) > 1.3)
    assert np.square(spikes @ x).mean() == pytest.approx(
        energy(x, 1.3, 6.0, symmetric=symmetric), rel=0.03
    )
