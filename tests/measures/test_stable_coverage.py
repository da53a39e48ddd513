"""Standard errors of stable fits, simulated: 95 % intervals hold the truth that often, whatever the
scale.
"""

from __future__ import annotations

import numpy as np
import pytest

from cushion.measures.tails.stable_fit import fit_stable
from cushion.measures.tails.stable_law import sample_stable

ALPHAS = (0.8, 1.2, 1.5, 1.8)
NAMES = ("alpha", "beta", "scale", "location")


def standardised_errors(alpha: float, beta: float, n: int, seed: int) -> dict[str, float]:
    """(estimate - truth)/standard error of every parameter; scale and location of the law are
    drawn, too.
    """
    rng = np.random.default_rng([seed, n])
    truth = {"alpha": alpha, "beta": beta, "scale": 10.0 ** rng.uniform(-6, 6)}
    truth["location"] = truth["scale"] * rng.uniform(-30, 30)
    x = truth["scale"] * sample_stable(n, alpha, beta, rng) + truth["location"]
    found = fit_stable(x, symmetric=beta == 0.0)
    errors = {name: found.errors[name] for name in NAMES}
    return {
        name: (getattr(found, name) - truth[name]) / error
        for name, error in errors.items()
        if error is not None
    }


def check(
    found: list[dict[str, float]], names: tuple[str, ...], least: float, within: float = 0.25
) -> None:
    for name in names:
        z = np.array([one[name] for one in found])
        assert np.mean(np.abs(z) <= 1.96) >= least, name
        # neither too small nor too large
        assert np.sqrt(np.mean(z * z)) == pytest.approx(1, abs=within), name


@pytest.mark.full
@pytest.mark.parametrize(("samples", "least", "within"), [(64, 0.88, 0.25)])
def test_symmetric_fits_cover(samples: int, least: float, within: float) -> None:
    """Seen in 100 samples of 2000 for each alpha: 93 to 98 %."""
    found = [standardised_errors(ALPHAS[seed % 4], 0.0, 2000, seed) for seed in range(samples)]
    check(found, ("alpha", "scale", "location"), least, within)


@pytest.mark.full
@pytest.mark.parametrize(  # 95 % of so many, less three deviations
    ("samples", "least", "within"), [(48, 0.85, 0.25)]
)
def test_skewed_fits_cover(samples: int, least: float, within: float) -> None:
    """Seen in 100 samples of 2000 for each alpha and sign of beta: 93 to 99 %."""
    found = [
        standardised_errors(ALPHAS[seed % 4], (0.5, -0.5)[seed // 4 % 2], 2000, seed)
        for seed in range(samples)
    ]
    check(found, NAMES, least, within)


@pytest.mark.parametrize(("alpha", "beta"), [(0.8, -0.5), (1.8, 0.0)])
def test_a_large_sample_is_within_its_errors(alpha: float, beta: float) -> None:
    z = standardised_errors(alpha, beta, 100_000, 5)
    assert len(z) == (3 if beta == 0 else 4)
    assert max(abs(value) for value in z.values()) < 3.5


@pytest.mark.full
@pytest.mark.parametrize("beta", [0.0, 0.5, -0.5])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [2000, 20_000])
def test_every_law_covers(alpha: float, beta: float, n: int) -> None:
    found = [standardised_errors(alpha, beta, n, seed) for seed in range(100)]
    check(found, ("alpha", "scale", "location") if beta == 0 else NAMES, 0.9)
