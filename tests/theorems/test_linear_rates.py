"""The explicit rates of Lemmas 6 and 8: bits that really name the vectors, steps that hold in
simulation, slopes.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import pytest

from cushion.compressors.projection.matrix_project import Projected
from cushion.compressors.projection.vectors import (
    vector_compress,
    vector_compress_on_grid,
    vector_project,
    vector_project_k,
)
from cushion.theorems.linear_rates import (
    LinearRate,
    bound_compress,
    bound_project,
    nonzeros,
    project_numbers,
)

MS = [10**e for e in range(6, 13)]


def slope(rates: Sequence[LinearRate]) -> float:
    """The exponent a of the least-squares fit bound ∝ m^a."""
    points = [(math.log(rate.m), math.log(rate.bound)) for rate in rates]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def occam(rate: LinearRate, delta: str) -> Decimal:
    """η + √((bits·ln 2 + ln(1/δ'))/(2m)) to 40 digits."""
    with localcontext() as context:
        context.prec = 40
        nats = rate.bits * Decimal(2).ln() - Decimal(delta).ln()
        return Decimal(rate.eta) + (nats / (2 * rate.m)).sqrt()


def bits_at_eta(gamma: float, h: int, eta: float) -> int:
    """Steps 1-4 of the derivation for one η, with exact binomials."""
    mean = 8 / (eta * gamma**2)
    n = min(
        h,
        math.ceil(
            mean + math.log(4) / 3 + math.sqrt(math.log(4) ** 2 / 9 + 2 * math.log(4) * mean)
        ),
    )
    step = 2.0 ** math.floor(math.log2(gamma / (2 * math.sqrt(h))))
    a = math.floor(max(1.0, eta * gamma * math.sqrt(h) / 2) / step + 0.5)
    where = math.comb(h, min(n, h // 2))  # the largest of them up to n
    return (
        math.ceil(math.log2(n + 1)) + math.ceil(math.log2(where)) + math.ceil(n * math.log2(2 * a))
    )


@pytest.mark.parametrize(
    ("m", "gamma", "h", "sparse"),
    [
        (1000, 0.9, 40, False),
        (10**6, 0.4, 1000, False),
        (10**4, 0.9, 10**6, True),
        (10**5, 0.5, 10**7, True),
    ],
)
def test_vector_compress_is_the_best_of_all_eta(m: int, gamma: float, h: int, sparse: bool) -> None:
    rate = bound_compress(m, gamma, h, 0.05)
    assert (rate.numbers < h) is sparse
    assert (
        rate.eta * gamma * math.sqrt(h) / 2 > 1
    ) is sparse  # a sampled coordinate may be longer than c itself
    exact = bits_at_eta(gamma, h, rate.eta)
    # positions and values are rounded up with a margin, which may cost a bit each
    assert exact <= rate.bits <= exact + 2
    for eta in np.geomspace(
        1e-2 if sparse else 1e-6, 0.99, 300
    ):  # the binomials of many among 1e7 are too large
        nats = (bits_at_eta(gamma, h, eta) + 2) * math.log(2) + math.log(1 / 0.05)
        assert rate.bound <= (eta + math.sqrt(nats / (2 * m))) * (1 + 1e-3)


@pytest.mark.parametrize(("gamma", "h"), [(0.9, 3), (0.9, 30), (0.5, 2000)])
def test_the_bits_name_every_outcome(gamma: float, h: int) -> None:
    """Σ_j C(h, j)·(2a)^j vectors with at most n non-zeros of 2a values each must have a code
    word.
    """
    rate = bound_compress(10**5, gamma, h, 0.05)
    step = vector_compress_on_grid(
        np.eye(h)[0], gamma, rate.eta, 0, "step"
    ).step  # the grid of the algorithm itself
    largest = max(1.0, rate.eta * gamma * math.sqrt(h) / 2)
    values = 2 * round(largest / step)
    assert sum(math.comb(h, j) * values**j for j in range(rate.numbers + 1)) <= 2**rate.bits


def test_the_values_are_erring_upwards() -> None:
    for m in (1, 100, 10**7, 10**12):
        compress, project = bound_compress(m, 0.3, 10**6, 0.05), bound_project(m, 0.3, 0.05)
        for rate, delta in (
            (compress, "0.05"),
            (project, "0.025"),
        ):  # Vector-Project pays δ/2 for its helper strings
            assert (
                occam(rate, delta)
                < Decimal(rate.bound)
                < occam(rate, delta) * (1 + Decimal("1e-9"))
            )


def test_vector_project_by_hand() -> None:
    rate = bound_project(10**6, 0.5, 0.05)
    assert rate.eta == 1e-6
    assert rate.numbers == math.ceil(16 * math.log(4e6) / (0.25 * (1 - 0.5 / 3))) == 1168
    # τ = √(2 ln 4672) = 4.111 is 16.44 steps of 1/4: 33 values. (3/4)^13 = 0.0238 ≤ 0.025: 13
    # helper strings, 4 bits
    assert rate.bits == 4 + math.ceil(1168 * math.log2(33))
    assert 0.75**13 <= 0.025 < 0.75**12


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.37, 0.9])
@pytest.mark.parametrize("eta", [0.3, 1e-3, 1e-12])
def test_k_is_that_of_the_compressor(gamma: float, eta: float) -> None:
    assert project_numbers(gamma, eta) == vector_project_k(gamma, eta)


@pytest.mark.parametrize("gamma", [0.05, 0.1, 0.3])
def test_the_slopes(gamma: float) -> None:
    compress = [bound_compress(m, gamma, 10**9, 0.05) for m in MS]
    project = [bound_project(m, gamma, 0.05) for m in MS]
    # the bits b of a non-zero fall from 43 to 34 as n grows (fewer for a position), and the bound
    # is 3η ∝ (b/m)^1/3
    falls = math.log(
        (compress[-1].bits / compress[-1].numbers) / (compress[0].bits / compress[0].numbers)
    )
    assert falls < 0
    assert slope(compress) == pytest.approx(-1 / 3 + falls / math.log(1e6) / 3, abs=0.005)
    assert -0.345 < slope(compress) < -1 / 3
    for rate in compress:  # the optimum: the root is twice η
        assert rate.bound == pytest.approx(3 * rate.eta, rel=0.1)
    # k ∝ ln(4m) adds ln(ln 4e12 / ln 4e6)/(2 ln 1e6) = 0.0234
    logarithm = math.log(math.log(4e12) / math.log(4e6)) / (2 * math.log(1e6))
    assert slope(project) == pytest.approx(-1 / 2 + logarithm, abs=0.002)
    assert -0.48 < slope(project) < -0.47
    # without the logarithm and the bits of a number the exponent is -1/2 to three digits
    plain = [dataclasses.replace(rate, bound=rate.bound / math.sqrt(rate.bits)) for rate in project]
    assert slope(plain) == pytest.approx(-0.5, abs=1e-3)
    assert project[-1].bound < compress[-1].bound / 5


def test_where_the_lines_cross() -> None:
    """With few examples Vector-Compress is the better one; for h = 1e9 and γ = 0.1 they cross
    between 1e4 and 1e5.
    """
    few, many = (
        (bound_compress(m, 0.1, 10**9, 0.05), bound_project(m, 0.1, 0.05)) for m in (10**4, 10**5)
    )
    assert few[0].bound < few[1].bound
    assert many[0].bound > many[1].bound


def test_few_coordinates_end_the_regime() -> None:
    """Once all h = 784 coordinates are kept, bits no longer depend on η: the slope is that of
    counting parameters.
    """
    rates = [bound_compress(m, 0.1, 784, 0.05) for m in MS]
    assert all(rate.numbers == 784 for rate in rates)
    assert slope(rates) == pytest.approx(-0.5, abs=1e-6)


def test_slope_is_the_exponent() -> None:
    def power(m: int, value: float) -> LinearRate:
        return LinearRate("vector-project", 1, m, 0.0, 1, 1, value)

    assert slope([power(m, 7 * m**-0.4) for m in (10, 50, 1000)]) == pytest.approx(-0.4)
    # residuals: x = 0, 1, 2 and y = 0, 0, -3 in units of ln 10 have the least-squares slope -3/2
    assert slope([power(1, 1.0), power(10, 1.0), power(100, 1e-3)]) == pytest.approx(-1.5)


def test_nonzeros_are_within_their_bound() -> None:
    h, gamma, eta, n = 4000, 0.5, 0.4, 400
    c = np.random.default_rng(0).standard_normal(h)
    c /= np.linalg.norm(c)
    counts = np.array(
        [np.count_nonzero(vector_compress(c, gamma / 2, eta, seed, "count")) for seed in range(n)]
    )
    mean = np.minimum(1.0, 8 * c**2 / (eta * gamma**2)).sum()
    assert mean == pytest.approx(8 / (eta * gamma**2))  # nothing is clipped: the worst case
    assert abs(counts.mean() - mean) < 5 * math.sqrt(mean / n)
    most = nonzeros(gamma, eta, h)
    assert np.mean(counts > most) <= 0.25
    # Bernstein is honest about the order: the bound is 1.3 standard deviations or so above the
    # mean, not 10
    assert mean + math.sqrt(mean) < most < mean + 3 * math.sqrt(mean)
    assert nonzeros(gamma, eta, 50) == 50


def test_a_good_outcome_is_as_likely_as_stated() -> None:
    """Steps 1-3 on a sample: F ≤ η and at most n non-zeros, in at least a quarter of the draws."""
    h, gamma, eta, m = 1000, 0.6, 0.3, 200
    c = np.full(h, 1 / math.sqrt(h))
    x = np.random.default_rng(1).standard_normal((m, h))
    x[:100] = np.eye(h)[:100]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    good = 0
    for seed in range(100):
        found = vector_compress_on_grid(c, gamma, eta, seed, "good")
        failing = np.mean(np.abs(x @ (found.values - c)) > gamma)
        good += failing <= eta and np.count_nonzero(found.integers) <= nonzeros(gamma, eta, h)
        assert (
            np.abs(found.values).max() <= max(1.0, eta * gamma * math.sqrt(h) / 2) + found.step / 2
        )
    assert good >= 25


def test_a_good_helper_string_is_as_likely_as_stated() -> None:
    """At most one example fails and all numbers are within τ = √(2 ln 4k), in at least a quarter of
    the draws.
    """
    h, gamma, m = 40, 0.9, 300
    k = bound_project(m, gamma, 0.05).numbers
    x = np.random.default_rng(2).standard_normal((m, h))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    good = 0
    for seed in range(60):
        z = vector_project(x[0], gamma, k, seed, "weights 1")
        failing = np.abs(x @ (Projected(z, (h,), "gaussian", 1).weight(seed) - x[0])) > gamma
        good += (
            failing.sum() <= 1
            and np.abs(z.values).max() <= math.sqrt(2 * math.log(4 * k)) + z.step / 2
        )
    assert good >= 15


@pytest.mark.parametrize(
    ("m", "gamma", "h", "delta"),
    [(0, 0.1, 10, 0.05), (9, 1.0, 10, 0.05), (9, 0.1, 0, 0.05), (9, 0.1, 10, 0.0)],
)
def test_what_is_no_setting_is_refused(m: int, gamma: float, h: int, delta: float) -> None:
    with pytest.raises(ValueError, match=r"need m|at least 1 coordinate"):
        bound_compress(m, gamma, h, delta)
    if h > 0:
        with pytest.raises(ValueError, match="need m"):
            bound_project(m, gamma, delta)
