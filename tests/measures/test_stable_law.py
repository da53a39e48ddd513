"""Standard stable laws: against closed forms, scipy, the Fourier integral and their own
characteristic function.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from cushion.errors import BadInput
from cushion.measures.tails.stable_law import SMALLEST_ALPHA, StableLaw, density, sample_stable

HALF = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 500), [63.999, 64.0, 64.001]])
X = np.unique(np.concatenate([-HALF, HALF]))
LAWS = [
    (0.7, 0.0),
    (0.8, 0.5),
    (0.999, -0.7),
    (1.0, 0.0),
    (1.0, 0.6),
    (1.001, 1.0),
    (1.3, -0.5),
    (1.7, 1.0),
    (1.95, 0.3),
]


def footnote_3(
    u: NDArray[np.float64], alpha: float, beta: float, c: float, delta: float
) -> NDArray[np.complex128]:
    """The characteristic function as Shin 2021 prints it in footnote 3, with c where it has γ at α
    = 1.
    """
    if alpha == 1:
        inside = 1 + 1j * beta * (2 / math.pi) * np.sign(u) * np.log(c * np.abs(u))
        return np.exp(-c * np.abs(u) * inside + 1j * delta * u)
    skew = np.tan(math.pi * alpha / 2) * np.sign(u) * (np.abs(c * u) ** (1 - alpha) - 1)
    return np.exp(-(c**alpha) * np.abs(u) ** alpha * (1 + 1j * beta * skew) + 1j * delta * u)


def fourier_integral(x: float, alpha: float, beta: float) -> float:
    """(1/π) ∫ Re exp(-iux) φ(u) du along the real axis, by Gauss-Legendre in pieces without a sign
    change.
    """
    step = 1.5 / max(abs(x), 1.0)
    near = step * 2.0 ** -np.arange(60.0, 0.0, -1.0)
    cuts = np.concatenate([[0.0], near, np.arange(step, 40 ** (1 / alpha) + step, step)])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(cuts)[:, None] / 2
    u = cuts[:-1, None] + half * (nodes + 1)
    return float(
        (half * weights * (np.exp(-1j * u * x) * footnote_3(u, alpha, beta, 1.0, 0.0)).real).sum()
        / math.pi
    )


def test_alpha_2_is_the_normal_law_of_variance_2() -> None:
    law, normal = StableLaw(2.0, 0.4), stats.norm(scale=math.sqrt(2))  # beta has no meaning there
    x = np.linspace(-50, 50, 401)
    np.testing.assert_allclose(law.log_density(x), normal.logpdf(x), rtol=1e-13)
    np.testing.assert_allclose(law.cdf(x), normal.cdf(x), rtol=1e-12)
    np.testing.assert_array_equal(law.slope(x), -x / 2)
    near = density(np.linspace(-8, 8, 161), 2 - 1e-12)  # the transform, not the closed form
    np.testing.assert_allclose(near, normal.pdf(np.linspace(-8, 8, 161)), rtol=1e-7, atol=1e-14)


def test_alpha_1_is_the_cauchy_law() -> None:
    law = StableLaw(1.0)
    np.testing.assert_allclose(np.exp(law.log_density(X)), stats.cauchy.pdf(X), rtol=1e-8)
    np.testing.assert_allclose(law.cdf(X), stats.cauchy.cdf(X), atol=1e-9)
    np.testing.assert_allclose(law.cdf(-HALF), stats.cauchy.cdf(-HALF), rtol=1e-6)
    np.testing.assert_allclose(law.slope(X), -2 * X / (1 + X * X), rtol=1e-6, atol=1e-6)


def test_alpha_one_half_and_beta_1_is_levys_law_from_minus_one_on() -> None:
    law, levy = StableLaw(0.5, 1.0), stats.levy(loc=-1)
    truth = levy.pdf(X)
    found = np.exp(law.log_density(X))
    there = truth > 1e-3
    there |= X > 64
    np.testing.assert_allclose(found[there], truth[there], rtol=1e-6)
    np.testing.assert_allclose(found, truth, atol=1e-9)
    np.testing.assert_allclose(law.cdf(X), levy.cdf(X), atol=1e-8)
    np.testing.assert_allclose(density(-X, 0.5, -1.0), found, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_the_density_is_the_fourier_integral(alpha: float, beta: float) -> None:
    places = np.concatenate([np.linspace(-70, 70, 47), np.linspace(-3, 3, 48)])
    found = density(places, alpha, beta)
    truth = np.array([fourier_integral(x, alpha, beta) for x in places])
    closely = 1e-8 if alpha >= 0.9 and abs(beta) < 1 else 1e-6
    np.testing.assert_allclose(found, truth, rtol=closely, atol=1e-14)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.7, 0.0), (0.9, 0.5), (1.2, -0.5), (1.5, 0.0), (1.9, 0.9)]
)
def test_density_and_distribution_are_scipys(alpha: float, beta: float) -> None:
    peer = stats.levy_stable.__class__(name="peer")
    peer.parameterization = "S0"
    x = np.array([-30.0, -4.0, -0.9, 0.1, 1.1, 3.0, 60.0])
    law = StableLaw(alpha, beta)
    np.testing.assert_allclose(np.exp(law.log_density(x)), peer.pdf(x, alpha, beta), rtol=1e-6)
    np.testing.assert_allclose(law.cdf(x), peer.cdf(x, alpha, beta), atol=1e-7)


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_slope_and_distribution_are_derivative_and_integral_of_the_density(
    alpha: float, beta: float
) -> None:
    law = StableLaw(alpha, beta)
    x = np.array([-1e12, -700.0, -64.1, -63.9, -5.0, -0.3, 0.0, 0.4, 2.5, 63.9, 64.1, 500.0, 1e15])
    x = x[law.log_density(x) > -60]
    step = 1e-5 * np.maximum(1, np.abs(x))
    rise = law.log_density(x + step) - law.log_density(x - step)
    np.testing.assert_allclose(law.slope(x), rise / (2 * step), rtol=2e-5, atol=2e-5)
    here = np.abs(x) < 1e4
    mass = law.cdf(x[here] + step[here]) - law.cdf(x[here] - step[here])
    np.testing.assert_allclose(
        mass / (2 * step[here]), np.exp(law.log_density(x[here])), rtol=1e-4, atol=1e-10
    )
    ends = law.cdf(np.array([-1e300, -64.0, -64.0 - 1e-9, 64.0, 64.0 + 1e-9, 1e300]))
    assert abs(ends[2] - ends[1]) < 1e-8
    # all of the mass is there: the upper tail is integrated by itself
    assert abs(ends[4] - ends[3]) < 1e-8
    assert ends[0] < 1e-100
    assert ends[-1] == 1.0
    assert (np.diff(law.cdf(X)) >= -1e-9).all()


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0, 1.4, 1.99])
@pytest.mark.parametrize("beta", [0.0, 0.5, -0.9])
def test_far_out_the_density_is_equation_12(alpha: float, beta: float) -> None:
    constant = alpha * math.sin(math.pi * alpha / 2) * math.gamma(alpha) / math.pi
    x = 1e30
    for side in (-1, 1):
        logarithm = math.log(constant * (1 + side * beta)) - (1 + alpha) * math.log(x)
        assert StableLaw(alpha, beta).log_density(np.array(side * x)) == pytest.approx(
            logarithm, abs=1e-6
        )


@pytest.mark.parametrize("alpha", [0.55, 1.0, 1.6])
def test_minus_x_has_minus_beta(alpha: float) -> None:
    one, other = StableLaw(alpha, 0.6), StableLaw(alpha, -0.6)
    np.testing.assert_allclose(one.log_density(X), other.log_density(-X), rtol=1e-9)
    np.testing.assert_allclose(one.cdf(X), 1 - other.cdf(-X), atol=1e-9)


def test_the_laws_are_continuous_in_alpha_at_1() -> None:
    for beta in (0.5, -1.0):
        middle = np.exp(StableLaw(1.0, beta).log_density(X))
        for alpha in (1 - 1e-9, 1 + 1e-9, 1 - 1e-6, 1 + 1e-6):
            np.testing.assert_allclose(
                density(X, alpha, beta), middle, rtol=1e-4, atol=2e-6 * abs(alpha - 1) + 1e-13
            )


def test_a_light_tail_still_has_a_logarithm() -> None:
    for alpha, side in ((0.5, -1), (1.7, -1), (1.0, -1)):
        logs = StableLaw(alpha, 1.0).log_density(side * np.array([40.0, 64.0, 65.0, 1e6, 1e300]))
        assert np.isfinite(logs).all()
        assert (np.diff(logs) <= 1e-9).all()
        assert logs[0] < -33


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_any_shape_of_x(shape: tuple[int, ...]) -> None:
    x = np.linspace(-70, 70, int(np.prod(shape))).reshape(shape)
    found = density(x, 1.5, 0.2)
    assert found.shape == shape
    np.testing.assert_array_equal(found.ravel(), density(x.ravel(), 1.5, 0.2))


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 1.0), (2.0, 0.0), (1 - 1e-12, 0.8), *LAWS])
def test_samples_have_the_characteristic_function(alpha: float, beta: float) -> None:
    n, u = 40_000, np.array([0.05, 0.3, 0.9, 1.7, 3.0])
    scale, location = 0.7, -0.4
    drawn = scale * sample_stable(n, alpha, beta, np.random.default_rng(5)) + location
    found = np.exp(1j * np.outer(u, drawn)).mean(axis=1)
    truth = footnote_3(u, 1.0 if abs(alpha - 1) < 1e-6 else alpha, beta, scale, location)
    assert np.abs(found - truth).max() < 4.5 / math.sqrt(
        n
    )  # |exp(iux)| = 1: each part has variance at most 1/n
    if alpha >= SMALLEST_ALPHA:
        ks = stats.kstest((drawn - location) / scale, StableLaw(alpha, beta).cdf)
        assert ks.pvalue > 1e-3


def test_footnote_3_as_printed_moves_the_law_at_alpha_1() -> None:
    """With a γ other than c the law at α = 1 is moved by -β(2/π)·c·ln(γ/c): no longer the limit of
    those beside it.
    """
    u, c, gamma, beta = np.linspace(0.1, 3, 30), 0.5, 2.0, 0.8
    printed = np.exp(-c * u * (1 + 1j * beta * (2 / math.pi) * np.log(gamma * u)))
    meant = footnote_3(u, 1.0, beta, c, 0.0)
    assert np.abs(footnote_3(u, 1 + 1e-7, beta, c, 0.0) - meant).max() < 1e-6
    assert np.abs(printed - meant).max() > 0.1
    np.testing.assert_allclose(
        printed, footnote_3(u, 1.0, beta, c, -beta * (2 / math.pi) * c * math.log(gamma / c))
    )


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.39, 0.0), (2.01, 0.0), (math.nan, 0.0), (1.5, 1.1), (1.5, math.nan)]
)
def test_no_such_law(alpha: float, beta: float) -> None:
    with pytest.raises(BadInput, match="a stable law has alpha in"):
        density(np.zeros(1), alpha, beta)
    if alpha != 0.39:
        with pytest.raises(BadInput, match="a stable law has alpha in"):
            sample_stable(3, alpha, beta, np.random.default_rng(0))
