"""The PAC-Bayes bound: closed forms, the two implementations against each other and the truth, and
its coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from tests.posterior_cases import STILL, coin, few_draws, linear, ones, verify_claim, whole

import cushion_verify
from cushion.certificates import pac_bayes
from cushion.certificates.format import rounded_gaussian
from cushion.certificates.format.posterior import Factor
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.data.dataset import Dataset
from cushion.numerics import decimal_up, float_up


@pytest.fixture(scope="module", autouse=True)
def _any_number_of_draws() -> Iterator[None]:
    with few_draws():
        yield


def factor(mean: int, exponent: int, prior: int) -> Factor:
    return Factor(1, "weights", prior, whole([mean]), whole([exponent]))


@pytest.mark.parametrize(
    ("mean", "exponent", "prior"), [(0, 8, 8), (40, 2, 8), (-7, -3, 5), (3, 12, -2), (100, 7, 7)]
)
def test_kl_is_the_integral_that_defines_it(mean: int, exponent: int, prior: int) -> None:
    q, p = stats.norm(mean / 4, 2 ** (exponent / 2)), stats.norm(0, 2 ** (prior / 2))
    low, high = q.ppf(1e-15), q.ppf(1 - 1e-15)
    value, _ = integrate.quad(
        lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), low, high, epsabs=1e-11, limit=500
    )
    assert float(pac_bayes.gaussian_kl(factor(mean, exponent, prior))) == pytest.approx(
        value, rel=1e-8, abs=1e-9
    )


def true_kl(f: Factor) -> mpmath.mpf:
    s, total = mpmath.mpf(2) ** f.prior, mpmath.mpf(0)
    for a, e in zip(f.means.reshape(-1).tolist(), f.variances.reshape(-1).tolist(), strict=True):
        variance = mpmath.mpf(2) ** e
        total += (
            mpmath.log(s / variance) / 2
            + (variance + mpmath.mpf(a) ** 2 / 16) / (2 * s)
            - mpmath.mpf(1) / 2
        )
    return total


@given(
    st.integers(0, 2**32), st.integers(1, 40), st.integers(-8, 12), st.sampled_from([1, 50, 2**20])
)
@settings(max_examples=60, deadline=None)
def test_both_divergences_are_just_above_the_true_one(
    seed: int, n: int, prior: int, reach: int
) -> None:
    rng = np.random.default_rng(seed)
    f = Factor(1, "weights", prior, rng.integers(-reach, reach + 1, n), rng.integers(-8, 13, n))
    with mpmath.workdps(80):
        truth = true_kl(f)
        for value in (mpmath.mpf(str(_divergence(f))), _exact(pac_bayes.gaussian_kl(f))):
            assert 0 <= value - truth < mpmath.mpf(10) ** -20


def _divergence(f: Factor) -> Decimal:
    return cushion_verify.divergence(f.means.reshape(-1), f.variances.reshape(-1), f.prior)


def _exact(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def test_a_posterior_equal_to_the_prior_costs_nothing() -> None:
    f = Factor(1, "weights", 8, whole([0] * 9), whole([8] * 9))
    assert pac_bayes.gaussian_kl(f) == 0
    assert 0 <= _divergence(f) < Decimal("1e-40")
    # Equation (6) of Neyshabur 2017 with prior and posterior of the same variance: ‖w‖²/(2σ²), the
    # ½ included.
    moved = Factor(1, "weights", 8, whole([64, 0]), whole([8, 8]))
    assert pac_bayes.gaussian_kl(moved) == Fraction(1, 2)


@pytest.mark.parametrize("m", [1, 2, 7, 100, 60000, 10**7])
@pytest.mark.parametrize("delta", ["0.05", "0.000001", "0.5"])
def test_confidence_is_ln_of_two_root_m_over_delta(m: int, delta: str) -> None:
    with mpmath.workdps(70):
        truth = mpmath.log(2 * mpmath.sqrt(m) / mpmath.mpf(delta))
        assert (
            0
            <= mpmath.mpf(str(cushion_verify.confidence_nats(m, Decimal(delta)))) - truth
            < mpmath.mpf(10) ** -45
        )
        assert 0 <= mpmath.mpf(pac_bayes.confidence_nats(m, Fraction(delta))) - truth < 1e-9
        misread = mpmath.log(2 * mpmath.sqrt(m)) / mpmath.mpf(
            delta
        )  # a slip seen in published code
        assert m == 1 or abs(misread - truth) > 1e-3


def test_maurer_s_constant_covers_every_small_m() -> None:
    for m in range(1, 200):
        exact = sum(
            math.exp(math.lgamma(m + 1) - math.lgamma(k + 1) - math.lgamma(m - k + 1) + _log(k, m))
            for k in range(m + 1)
        )
        assert exact <= 2 * math.sqrt(m) * (1 + 1e-12)


def _log(k: int, m: int) -> float:
    return sum(n * math.log(n / m) for n in (k, m - k) if n)


@given(
    st.integers(1, 30000),
    st.floats(0, 1),
    st.integers(1, 10**7),
    st.floats(0, 20000),
    st.sampled_from([1, 20, 999]),
    st.sampled_from([0, 80]),
)
@settings(max_examples=100, deadline=None)
def test_stated_bounds_pass_the_verifier_and_smaller_ones_do_not(
    draws: int, share: float, m: int, nats: float, millis: int, bits: int
) -> None:
    errors, delta = round(share * draws), Fraction(millis, 2000)
    empirical = Decimal(pac_bayes.binomial_bound(errors, draws, delta, bits, Fraction(0)))
    exact_delta = Decimal(millis) / 2000
    assert cushion_verify.bound_holds(errors, draws, bits, exact_delta, empirical)
    bound, price = Decimal(pac_bayes.pac_bayes_bound(str(empirical), m, nats)), Decimal(nats) / m
    assert cushion_verify.kl_reaches(empirical, bound, price)
    less = Decimal("0.000002")
    if less < empirical < 1:
        assert not cushion_verify.bound_holds(errors, draws, bits, exact_delta, empirical - less)
    if empirical < bound - less < 1 - less:
        assert not cushion_verify.kl_reaches(empirical, bound - less, price)
    assert not cushion_verify.kl_reaches(
        empirical, min(empirical, Decimal("0.999")), Decimal(0)
    )  # never at or below it


def test_no_errors_have_a_closed_form() -> None:
    for bits in (0, 80):
        bound = pac_bayes.binomial_bound(0, 1000, Fraction(1, 20), bits, Fraction(0))
        assert float(bound) == pytest.approx(1 - (0.05 * 2.0**-bits) ** 0.001, abs=1e-6)
    assert pac_bayes.binomial_bound(1000, 1000, Fraction(1, 20), 0, Fraction(0)) == "1.000000"
    assert pac_bayes.pac_bayes_bound("1.000000", 10, 0.1) == "1.000000"


def test_one_example_is_enough_for_a_certificate() -> None:
    made = certify_gaussian(coin(), ones(1), Decimal("0.05"), draws=5000)
    assert 0.9 < made.bound <= 1
    assert verify_claim(made.claim, made.message, ones(1), None).ok


# Coverage. Every scenario draws samples or messages anew and asks how often the bound lies below
# the truth.

Bound = Callable[[int], float]


def failures(bound: Bound, truth: float, trials: int = 150) -> float:
    return sum(bound(trial) < truth for trial in range(trials)) / trials


def of_draws(seed: int) -> float:
    """Q errs on every example alike, with probability Φ(-1); few draws, so that the Monte-Carlo
    step decides.
    """
    return certify_gaussian(coin(seed), MANY, Decimal("0.5"), draws=60).bound


@pytest.fixture
def _tries_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the draws here, so nothing of δ' is left over for tries."""
    monkeypatch.setattr(pac_bayes, "TRIES_BITS", 0)


MANY = ones(10**6)
TRUE_ERROR = float(stats.norm.cdf(-1))


@pytest.mark.usefixtures("_tries_are_free")
def test_the_draws_fail_no_more_often_than_their_share_of_delta() -> None:
    assert failures(of_draws, TRUE_ERROR) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 150)


@pytest.mark.usefixtures("_tries_are_free")
def test_coverage_catches_a_missing_monte_carlo_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pac_bayes, "binomial_bound", lambda errors, draws, *_: decimal_up(errors / draws)
    )
    assert failures(of_draws, TRUE_ERROR) > 0.25


@pytest.mark.usefixtures("_tries_are_free")
def test_coverage_catches_noise_with_variance_for_deviation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = rounded_gaussian.table
    monkeypatch.setattr(
        rounded_gaussian, "table", lambda e, quarter: table(max(2 * e, STILL), quarter)
    )
    assert failures(of_draws, TRUE_ERROR, 50) > 0.9


def of_memory(seed: int) -> float:
    """Labels are coins, so every net errs half the time or more; the posterior remembers the labels
    of its sample.
    """
    rng = np.random.default_rng(seed)
    at, y = rng.permutation(24)[:16], rng.integers(0, 2, 16)
    x = np.zeros((16, 1, 1, 24), dtype=np.uint8)
    x[np.arange(16), 0, 0, at] = 1
    means = whole(np.zeros((2, 24)))
    means[1, at] = (2 * y - 1) * 96  # 24 = 1.5 prior deviations, at half of one
    variances = whole(np.full((2, 24), 8))
    variances[1, at] = 6
    variances[0] = STILL
    sample = Dataset("memory", x, y.astype(np.int64), 2)
    return certify_gaussian(linear(means, variances), sample, Decimal("0.05"), draws=200).bound


def test_a_posterior_that_memorises_gets_no_bound_below_chance() -> None:
    assert failures(of_memory, 0.5, 25) == 0


@pytest.mark.usefixtures("_tries_are_free")
def test_coverage_catches_an_unpaid_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pac_bayes, "gaussian_kl", lambda _: Fraction(0))
    monkeypatch.setattr(pac_bayes, "_LN2_UP", Fraction(0))  # nor the header
    assert failures(of_memory, 0.5, 25) > 0.9


def test_coverage_of_the_whole_bound_with_a_posterior_chosen_from_the_sample() -> None:
    """Four features, each with its own error rate; Q leans on the one that did best on the sample.
    L(Q) is exact.
    """
    rates, delta, m = np.array([0.3, 0.3, 0.35, 0.4]), 0.2, 60
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        wrong = rng.random((m, 4)) < rates  # feature f errs on an example with its own rate
        share = np.exp(-wrong.mean(axis=0) * 20)
        q = share / share.sum()
        kl = float((q * np.log(4 * q)).sum())  # against the uniform prior
        nats = kl + pac_bayes.confidence_nats(m, Fraction(delta))
        bound = pac_bayes.pac_bayes_bound(decimal_up(float(q @ wrong.mean(axis=0))), m, nats)
        missed += float_up(bound) < q @ rates
    assert missed / 400 <= delta
