"""The power-law fit against the package `powerlaw`, with its range for alpha switched off: xmin,
alpha, distance.
"""

from __future__ import annotations

import warnings

import numpy as np
import powerlaw
import pytest
from tests.tail_cases import LAWS, drawn

from cushion.measures.tails.power_law import Magnitudes, fit_power_law


def assert_is_the_packages(values: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of zeros, of ties, and of optimisers that begin at the optimum
        theirs = powerlaw.Fit(np.abs(values), verbose=0, parameter_ranges={"alpha": [None, None]})
    ours = fit_power_law(Magnitudes.of(values))
    assert ours.xmin == theirs.xmin
    assert ours.alpha == pytest.approx(theirs.alpha, rel=1e-9)
    assert ours.ks_distance == pytest.approx(theirs.D, abs=1e-12)
    assert ours.tail == theirs.n_tail
    assert ours.alpha_error == pytest.approx((theirs.alpha - 1) / np.sqrt(theirs.n_tail), rel=1e-9)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "seed"), [(60, 1), (150, 2), (250, 3)])
def test_it_is_the_packages_fit(name: str, n: int, seed: int) -> None:
    assert_is_the_packages(drawn(name, n, seed))


def test_it_is_the_packages_fit_of_few_distinct_values() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = rng.geometric(rng.uniform(0.1, 0.5), 100)
        assert len(set(values.tolist())) > 3  # the package answers nan below
        assert_is_the_packages(values / 8)


def test_the_package_clips_alpha_by_default() -> None:
    """Why the range is switched off: by default no alpha is above 3, and xmin is another."""
    values = np.abs(drawn("normal", 200, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clipped = powerlaw.Fit(values, verbose=0)
    assert clipped.alpha <= 3 < fit_power_law(Magnitudes.of(values)).alpha


@pytest.mark.full
@pytest.mark.parametrize("name", LAWS)
def test_it_is_the_packages_fit_of_two_thousand_numbers(name: str) -> None:
    for seed in (10, 11):
        assert_is_the_packages(drawn(name, 2000, seed))
