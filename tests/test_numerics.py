"""The tail inversions against an independent high-precision computation, closed forms and
simulation.
"""

from __future__ import annotations

import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cushion import numerics
from cushion.errors import BadInput


def oracle_log_cdf(k: int, m: int, p: mpmath.mpf) -> mpmath.mpf:
    """Textbook: add up all terms with many digits."""
    term = mpmath.binomial(m, k) * p**k * (1 - p) ** (m - k)
    total = mpmath.mpf(0)
    for i in range(k, -1, -1):
        total += term
        if i:
            term = term * i * (1 - p) / ((m - i + 1) * p)
            if p * m > k and term < total * mpmath.mpf(2) ** -180:
                break
    return mpmath.log(total)


def assert_is_the_inverse(ours: float, k: int, m: int, delta: Decimal, bits: int) -> None:
    """The tail falls as p grows, so two values of it at 60 digits say whether its inverse lies in
    (ours - 1e-9, ours].
    """
    if k == m:
        assert ours == 1.0
        return
    with mpmath.workdps(60 + int(math.log10(m + 1))):
        target = mpmath.log(mpmath.mpf(str(delta))) - bits * mpmath.log(2)
        above, below = mpmath.mpf(ours), mpmath.mpf(ours) - mpmath.mpf("1e-9")
        assert above == 1 or oracle_log_cdf(k, m, above) <= target
        assert below < 0 or oracle_log_cdf(k, m, below) > target


CASES = [
    (0, 1, "0.05", 0),
    (0, 1, "0.05", 3),
    (1, 2, "0.5", 0),
    (3, 10, "0.05", 12),
    (9, 10, "0.05", 100),
    (0, 1500, "0.05", 400),
    (75, 1500, "0.05", 400),
    (1499, 1500, "0.05", 4000),
    (0, 60000, "0.05", 1000),
    (1200, 60000, "0.05", 3000),
    (1, 60000, "0.01", 1),
    (30000, 60000, "0.05", 20000),
    (59999, 60000, "0.05", 10**7),
    (0, 60000, "0.05", 10**7),
    (600, 60000, "0.05", 10**7),
    (20000, 50000, "0.05", 0),
    (500, 10000, "0.999", 0),
]


@pytest.mark.parametrize(("k", "m", "delta", "bits"), CASES)
def test_binomial_inverse_is_the_oracle_rounded_up(k: int, m: int, delta: str, bits: int) -> None:
    ours = numerics.binomial_inverse(k, m, numerics.occam_log_delta(Decimal(delta), bits))
    assert_is_the_inverse(ours, k, m, Decimal(delta), bits)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4000),
    st.floats(0, 1),
    st.integers(0, 5000),
    st.sampled_from(["0.05", "0.3", "1e-6"]),
)
def test_binomial_inverse_property(m: int, share: float, bits: int, delta: str) -> None:
    k = int(share * m)
    ours = numerics.binomial_inverse(k, m, numerics.occam_log_delta(Decimal(delta), bits))
    assert_is_the_inverse(ours, k, m, Decimal(delta), bits)


def test_an_inverse_that_is_off_by_1e_9_is_noticed() -> None:
    ours = numerics.binomial_inverse(75, 1500, numerics.occam_log_delta(Decimal("0.05"), 400))
    for wrong in (ours - 1e-9, ours + 1e-9):
        with pytest.raises(AssertionError):
            assert_is_the_inverse(wrong, 75, 1500, Decimal("0.05"), 400)


def test_zero_and_all_errors_have_closed_forms() -> None:
    assert numerics.binomial_inverse(7, 7, -3.0) == 1.0
    for m, bits in ((10, 4), (1500, 300), (60000, 2000)):
        exact = -mpmath.expm1((mpmath.log("0.05") - bits * mpmath.log(2)) / m)
        ours = numerics.binomial_inverse(0, m, numerics.occam_log_delta(Decimal("0.05"), bits))
        assert 0 <= ours - exact < 1e-12


def test_the_naive_scipy_route_is_wrong_at_3000_bits() -> None:
    """A real trap: scipy's logcdf sticks where the tail underflows, and a bound built on it is far
    too small.
    """
    from scipy.stats import binom

    m, k, bits = 60000, 1200, 3000
    log_delta = numerics.occam_log_delta(Decimal("0.05"), bits)
    low, high = k / m, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(all="ignore"):
            value = binom.logcdf(k, m, middle)
        low, high = (middle, high) if value >= log_delta and np.isfinite(value) else (low, middle)
    ours = numerics.binomial_inverse(k, m, log_delta)
    assert 0.080 < ours < 0.082
    assert high < 0.055, "scipy's route would have claimed an error bound 2.6 points too small"


def test_the_table_of_bounds_at_60000_examples() -> None:
    """The kl form in percent, as tabulated: 2 % training error at 1000, 2000, 4000 bits, and
    others.
    """
    cells = (
        (500, 0.0, 0.58),
        (1000, 0.02, 4.91),
        (2000, 0.02, 6.59),
        (4000, 0.05, 14.4),
        (8000, 0.08, 24.5),
    )
    for bits, error, percent in cells:
        budget = (bits * math.log(2) + math.log(1 / 0.05)) / 60000
        assert 100 * numerics.kl_inverse(error, budget) == pytest.approx(percent, abs=0.051)


@settings(max_examples=150, deadline=None)
@given(st.floats(0, 1), st.floats(1e-9, 50))
def test_kl_inverse_is_never_below_the_root(q: float, budget: float) -> None:
    p = mpmath.mpf(numerics.kl_inverse(q, budget))
    with mpmath.workdps(50):
        exact_q = mpmath.mpf(q)

        def divergence(p: mpmath.mpf) -> mpmath.mpf:
            left = exact_q * mpmath.log(exact_q / p) if q > 0 else mpmath.mpf(0)
            right = (1 - exact_q) * mpmath.log((1 - exact_q) / (1 - p)) if q < 1 else mpmath.mpf(0)
            return left + right

        if p < 1:
            assert divergence(p) >= budget
        if p > exact_q + 2e-9:
            assert divergence(p - mpmath.mpf("1e-9")) < budget


def test_kl_inverse_is_above_the_binomial_inverse() -> None:
    """Chernoff: the kl form relaxes the exact tail, so it is never the smaller one."""
    for k, m, bits in ((0, 1000, 50), (30, 1500, 300), (900, 60000, 2500)):
        log_delta = numerics.occam_log_delta(Decimal("0.05"), bits)
        assert (
            numerics.binomial_inverse(k, m, log_delta)
            <= numerics.kl_inverse(k / m, -log_delta / m) + 1e-12
        )


def test_coverage_and_that_a_broken_bound_is_caught() -> None:
    """P[p > BinInv(k; m, δ)] ≤ δ for k ~ Bin(m, p); the plain k/m + a half of the correction fails
    the same check.
    """
    rng = np.random.default_rng(7)
    m, p, delta, draws = 200, 0.07, 0.1, 20000
    counts = np.bincount(rng.binomial(m, p, size=draws), minlength=m + 1)
    bounds = {
        k: numerics.binomial_inverse(k, m, math.log(delta)) for k in range(m + 1) if counts[k]
    }

    def failure_rate(shrink: float) -> float:
        return sum(counts[k] for k, b in bounds.items() if p > k / m + shrink * (b - k / m)) / draws

    slack = 3 * math.sqrt(delta * (1 - delta) / draws)
    assert failure_rate(1.0) <= delta + slack
    assert failure_rate(0.5) > delta + slack


def test_rounding_has_a_direction() -> None:
    assert numerics.decimal_up(0.5) == "0.500000"
    assert numerics.decimal_up(0.1) == "0.100001"  # the float 0.1 lies above 1/10
    assert numerics.percent_up("0.4299999") == "43.00 %"
    for text in ("0.1", "0.3", "0.7", "0.123457"):
        assert Decimal(numerics.float_up(text)) >= Decimal(text)
        assert Decimal(math.nextafter(numerics.float_up(text), 0)) < Decimal(text)


@pytest.mark.parametrize(
    "call",
    [
        lambda: numerics.binomial_inverse(-1, 10, -1.0),
        lambda: numerics.binomial_inverse(11, 10, -1.0),
        lambda: numerics.binomial_inverse(0, 0, -1.0),
        lambda: numerics.binomial_inverse(0, 10, 0.0),
        lambda: numerics.binomial_inverse(0, 10, math.nan),
        lambda: numerics.occam_log_delta(Decimal("1.5"), 3),
        lambda: numerics.occam_log_delta(Decimal("0.05"), -1),
        lambda: numerics.kl_inverse(1.2, 0.1),
        lambda: numerics.kl_inverse(0.2, math.nan),
    ],
)
def test_nonsense_is_refused(call) -> None:
    with pytest.raises(BadInput):
        call()
