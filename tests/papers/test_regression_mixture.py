"""Mixtures of linear regressions: one line in closed form, EM step by step, planted mixtures, the
test of one line.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.simulations import few_and_many

from cushion.errors import BadInput
from cushion.papers.shin.regression_mixture import (
    FLOOR,
    RegressionMixture,
    expectation,
    fit_mixture,
    maximisation,
    one_line_p,
)

Floats = NDArray[np.float64]


def planted(n: int, seed: int, apart: float = 6.0) -> tuple[Floats, Floats, Floats]:
    """x, y and which line: y = 2x + 1 ± 0.5 for two thirds of the points, y = -x + 1 + apart ± 0.8
    for the others.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, n)
    second = rng.random(n) < 1 / 3
    y = np.where(
        second, -x + 1 + apart + 0.8 * rng.normal(size=n), 2 * x + 1 + 0.5 * rng.normal(size=n)
    )
    return x, y, second


def naive_likelihood(x: Floats, y: Floats, found: RegressionMixture) -> float:
    return math.fsum(
        math.log(
            sum(
                line.share
                * float(stats.norm.pdf(b, line.slope * a + line.intercept, line.deviation))
                for line in found.lines
            )
        )
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    )


def test_one_line_is_least_squares() -> None:
    x, y, _ = planted(50, 0)
    found = fit_mixture(x, y, 1, seed=0)
    (line,) = found.lines
    slope, intercept = np.polyfit(x, y, 1)
    assert (line.slope, line.intercept) == (pytest.approx(slope), pytest.approx(intercept))
    rest = y - slope * x - intercept
    assert line.deviation == pytest.approx(math.sqrt(np.mean(rest**2)))
    assert line.share == 1
    assert found.log_likelihood == pytest.approx(naive_likelihood(x, y, found))
    assert found.bic == pytest.approx(3 * math.log(50) - 2 * found.log_likelihood)


@few_and_many("samples", 3, 6)
def test_planted_lines_are_found(samples: int) -> None:
    """The errors of slopes and intercepts at 400 points are about 0.1; responsibilities tell most
    points apart.
    """
    for seed in range(samples):
        x, y, second = planted(400, seed)
        found = fit_mixture(x, y, 2, seed=seed)
        down, up = found.lines
        assert (down.slope, up.slope) == (pytest.approx(-1, abs=0.4), pytest.approx(2, abs=0.2))
        assert (down.intercept, up.intercept) == (
            pytest.approx(7, abs=0.7),
            pytest.approx(1, abs=0.3),
        )
        assert (down.deviation, up.deviation) == (
            pytest.approx(0.8, abs=0.2),
            pytest.approx(0.5, abs=0.1),
        )
        assert down.share == pytest.approx(second.mean(), abs=0.08)
        both = np.array(
            [(one.slope, one.intercept, one.deviation, one.share) for one in (down, up)]
        )
        shares, likelihood = expectation(x, y, both.T)
        assert likelihood == pytest.approx(found.log_likelihood)
        assert np.mean((shares[:, 0] > 0.5) == second) > 0.9
        assert found.log_likelihood == pytest.approx(naive_likelihood(x, y, found), rel=1e-9)
        assert found.bic == pytest.approx(7 * math.log(400) - 2 * found.log_likelihood)
        assert min(range(1, 4), key=lambda lines: fit_mixture(x, y, lines, seed=0).bic) == 2


def test_three_planted_lines() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, 600)
    slopes = np.array([-3.0, 0.0, 4.0])[np.arange(600) % 3]
    found = fit_mixture(x, slopes * x + 0.2 * rng.normal(size=600), 3, seed=0, restarts=30)
    assert [line.slope for line in found.lines] == pytest.approx([-3, 0, 4], abs=0.1)
    assert [line.share for line in found.lines] == pytest.approx([1 / 3] * 3, abs=0.05)


def test_every_step_raises_the_likelihood_and_is_the_weighted_least_squares() -> None:
    x, y, _ = planted(80, 3)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    lines = np.array([[1.0, -0.3], [0.0, 0.5], [1.0, 1.0], [0.5, 0.5]])
    shares, before = expectation(x, y, lines)
    assert shares.sum(axis=1) == pytest.approx(np.ones(80))
    for _ in range(30):
        lines = maximisation(x, y, shares, lines)
        for k in range(2):
            slope, intercept = np.polyfit(x, y, 1, w=np.sqrt(shares[:, k]))
            assert (lines[0, k], lines[1, k]) == (
                pytest.approx(slope),
                pytest.approx(intercept),
            )
            rest = y - slope * x - intercept
            assert lines[2, k] == pytest.approx(
                max(FLOOR, math.sqrt(np.average(rest**2, weights=shares[:, k])))
            )
        shares, reached = expectation(x, y, lines)
        assert reached >= before - 1e-10
        before = reached


def test_units_and_order_do_not_matter() -> None:
    x, y, _ = planted(60, 4)
    found = fit_mixture(x, y, 2, seed=0)
    turn = np.random.default_rng(0).permutation(60)
    for other in (
        fit_mixture(x[turn], y[turn], 2, seed=0),
        fit_mixture(x, y, 2, seed=5),
    ):
        assert other.log_likelihood == pytest.approx(found.log_likelihood, rel=1e-6)
    scaled = fit_mixture(1e3 * x - 7, 1e-3 * y + 2, 2, seed=0)
    assert [line.slope for line in scaled.lines] == pytest.approx(
        [1e-6 * line.slope for line in found.lines], rel=1e-4
    )
    assert [line.share for line in scaled.lines] == pytest.approx(
        [line.share for line in found.lines], rel=1e-4
    )
    assert scaled.log_likelihood == pytest.approx(
        found.log_likelihood + 60 * math.log(1e3), rel=1e-6
    )


def test_no_line_passes_through_two_points() -> None:
    """The floor is a twentieth of the deviation about one line; the test of one line does not
    believe such lines.
    """
    rng = np.random.default_rng(6)
    x, y = rng.uniform(size=20), rng.normal(size=20)
    one = fit_mixture(x, y, 1, seed=0).lines[0].deviation
    for lines in (2, 3):
        assert min(
            line.deviation for line in fit_mixture(x, y, lines, seed=0).lines
        ) >= FLOOR * one * (1 - 1e-9)


@pytest.mark.full
@pytest.mark.parametrize("samples", [40])
def test_the_test_of_one_line_holds_its_level_and_finds_two(samples: int) -> None:
    """p ≤ 0.2 in at most a fifth of samples of one line (30 points); BIC alone takes two lines in
    over a tenth.
    """
    small, by_bic = 0, 0
    for seed in range(samples):
        rng = np.random.default_rng(seed)
        x = rng.uniform(2, 8, 30)
        y = 0.13 * x + 0.7 * rng.normal(size=30)
        small += one_line_p(x, y, 2, draws=9, seed=seed) <= 0.2
        by_bic += fit_mixture(x, y, 2, seed=0).bic < fit_mixture(x, y, 1, seed=0).bic
    assert small <= stats.binom.ppf(0.999, samples, 0.2)
    assert by_bic > 0.1 * samples
    x, y, _ = planted(60, 0)
    assert one_line_p(x, y, 2, draws=19, seed=0) == 0.05
    assert one_line_p(x, y, 2, draws=19, seed=0) == one_line_p(x, y, 2, draws=19, seed=0)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        ([2.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0], "all 5 points have the x 2: no slope"),
        ([1.0, 2.0, 3.0, 4.0], [3.0, 5.0, 7.0, 9.0], "lie on one straight line exactly"),
    ],
)
def test_points_that_cannot_be_fitted(x: list[float], y: list[float], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        fit_mixture(x, y, 1, seed=0)
