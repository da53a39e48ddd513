"""Section 5.2 of Shin 2021: eq. 12's constant, eq. 13's brackets, eq. 14's integral, eq. 16 beside
the exact tail.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import binom, levy_stable

from cushion.papers.shin.resilience import (
    asymptotic_density,
    bracket_probability,
    brackets,
    brackets_printed,
    path_probability,
    tail_constant,
)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.5, 1.9])
def test_equation_12_is_the_tail_of_one_side(alpha: float) -> None:
    far = 300.0
    assert levy_stable.pdf(far, alpha, 0.0) == pytest.approx(
        asymptotic_density(far, alpha), rel=0.05
    )
    beyond = integrate.quad(lambda w: levy_stable.pdf(w, alpha, 0.0), far, 100 * far)[0]
    assert beyond == pytest.approx(
        tail_constant(alpha) * (far**-alpha - (100 * far) ** -alpha), rel=0.05
    )
    scaled = levy_stable.pdf(far, alpha, 0.0, scale=1.3)
    assert scaled == pytest.approx(asymptotic_density(far, alpha, 1.3), rel=0.05)


def test_the_constant_of_known_laws() -> None:
    assert tail_constant(1.0) == pytest.approx(1 / math.pi)  # Cauchy: 1/(πx)
    assert tail_constant(2.0) == 0.0  # the normal law has no such tail
    assert tail_constant(1e-9) == pytest.approx(0.5)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("i", [0, 1, 2.5, 5])
def test_equation_14_is_the_integral_of_equation_12(alpha: float, i: float) -> None:
    c = 1.3
    integral = integrate.quad(lambda w: asymptotic_density(w, alpha, c), c**i, c ** (i + 1))[0]
    assert bracket_probability(i, alpha, c) == pytest.approx(integral, rel=1e-9)


def test_equation_14_can_exceed_1_and_is_then_1() -> None:
    assert asymptotic_density(1.0, 1.0, 100.0) > 1  # so the integral would be 31
    assert bracket_probability(0, 1.0, 100.0) == 1.0
    found = path_probability(0, 1.0, 100.0, 0, 10)
    assert (found.chernoff, found.exact, found.applies) == (1.0, 1.0, False)


def test_brackets_fill_as_the_cauchy_law_says() -> None:
    # Of |W| each has twice as many as of W; the law is exact here, eq. 14 good for large powers
    # only.
    rng = np.random.default_rng(0)
    c, m, draws = 3.0, 4, 400_000
    weights = c * np.tan(math.pi * (rng.random(draws) - 0.5))
    printed, ours = brackets_printed(weights, c, m), brackets(weights, c, m)
    for i in range(m + 1):
        exact = (math.atan(c**i) - math.atan(c ** (i - 1))) / math.pi
        noise = 5 * math.sqrt(exact / draws)
        assert printed.inside[i] / draws == pytest.approx(exact, abs=noise)
        assert ours.inside[i] / draws == pytest.approx(2 * exact, abs=2 * noise)
    assert bracket_probability(m, 1.0, c) == pytest.approx(
        (math.atan(c**m) - math.atan(c ** (m - 1))) / math.pi, rel=0.01
    )
    for found in (printed, ours):
        assert sum(found.inside) + found.beyond + found.lost == draws


def test_brackets_by_hand() -> None:
    weights = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, -3.0, -9.0, 9.0, 0.0, 8.0])
    printed = brackets_printed(weights, 2.0, 1)  # (1, 2), (2, 4), above 4: 1, 2 and 4 are in none
    assert (printed.inside, printed.beyond, printed.lost) == ((1, 1), 2, 7)
    ours = brackets(weights, 2.0, 1)  # [1, 2), [2, 4), from 4 on
    assert (ours.inside, ours.beyond, ours.lost) == ((2, 3), 4, 2)


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0, 1.4, 1.8])
@pytest.mark.parametrize("i", [0.0, 1.3, 3.0, 5.0])
def test_equation_16_beside_the_exact_tail(alpha: float, i: float) -> None:
    c, m, n = 1.3, 5, 64
    found = path_probability(i, alpha, c, m, n)
    p = tail_constant(alpha) / c ** (alpha * (i - 1)) * (1 - c**-alpha)
    kappa = c ** (m - i)
    assert (found.p, found.kappa) == (pytest.approx(p), pytest.approx(kappa))
    printed = (n * p / kappa) ** kappa * ((1 - p) / (1 - kappa / n)) ** (n - kappa)
    assert found.printed == pytest.approx(printed)
    assert found.applies == (kappa > n * p)
    assert found.chernoff == pytest.approx(printed if kappa > n * p else 1.0)
    whole = math.ceil(round(kappa, 9))
    exact = sum(binom.pmf(j, n, p) for j in range(whole, n + 1))
    assert found.exact == pytest.approx(exact)
    assert found.exact <= found.chernoff * (1 + 1e-12)


def test_more_entries_than_a_row_has() -> None:
    found = path_probability(0, 1.0, 1.3, 20, 64)
    assert found.kappa > 64
    assert (found.printed, found.chernoff, found.exact) == (0.0, 0.0, 0.0)


def test_a_power_that_is_whole_but_for_rounding_is_whole() -> None:
    found = path_probability(0, 1.0, math.sqrt(2.0), 2, 10)
    assert found.kappa > 2  # by one unit in the last place
    assert found.exact == pytest.approx(float(binom.sf(1, 10, found.p)))
