"""Condition C.1 and Lemma C.1 of Guha 2023: the fit against a loop, both on spheres, where they are
known to hold.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betainc

from cushion.compressors.pruning.conditions import SubgaussianFit, fit_subgaussian
from cushion.theorems.pruning import kappa


def on_the_sphere(m: int, dimension: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((m, dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def directions(k: int, dimension: int, seed: int = 1) -> np.ndarray:
    """k orthonormal rows."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dimension, k)))[0].T


def holds(projections: np.ndarray, dimension: int, a: float, b: float) -> bool:
    """Condition C.1 on the sample, entry by entry; a hair of slack for the rounding of the
    exponential.
    """
    m, k = projections.shape
    for j in range(k):
        column = projections[:, j].tolist()
        for t in column:
            share = sum(other >= t for other in column) / m
            if share > a * math.exp(-b * t * t * dimension) * (1 + 1e-9):
                return False
    return True


@pytest.mark.parametrize("a", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("digits", [1, 12])  # with ties and without
def test_b_is_the_largest_that_holds_on_the_sample(a: float, digits: int) -> None:
    x = on_the_sphere(60, 9)
    projections = np.abs(x @ directions(4, 9).T).round(digits)
    found = fit_subgaussian(projections, 9, a)
    assert (found.a, found.dimension, found.inputs, found.directions) == (a, 9, 60, 4)
    if a > 1.0:
        assert found.b > 0
    assert holds(projections, 9, a, found.b)
    assert not holds(projections, 9, a, found.b * 1.001 + 1e-6)


def test_the_worst_direction_decides() -> None:
    """Pooled, the sparse direction would hide behind the others: P(|⟨x, v⟩| ≥ 0.9) is 1/2 there and
    1/12 overall.
    """
    projections = np.full((100, 6), 0.1)
    projections[:50, 3] = 0.9
    assert fit_subgaussian(projections, 10).b == pytest.approx(math.log(2 / 0.5) / (0.81 * 10))


@pytest.mark.parametrize("dimension", [2, 3, 10, 500])
def test_the_sphere_has_a_2_and_b_a_half(dimension: int) -> None:
    """⟨x, v⟩² is Beta(½, (d-1)/2): the exact tail is below 2 exp(-t²d/2), and a sample's fit cannot
    be far below ½.
    """
    for t in np.linspace(0.0, 1.0, 101):
        tail = 1.0 - betainc(0.5, (dimension - 1) / 2, t * t)
        assert tail <= 2.0 * math.exp(-0.5 * t * t * dimension) + 1e-15
    fit = fit_subgaussian(
        np.abs(on_the_sphere(4000, dimension) @ directions(2, dimension).T), dimension
    )
    assert 0.4 < fit.b < 1.2


def test_threshold_and_failure_are_inverse() -> None:
    fit = SubgaussianFit(2.0, 0.5, 2500, 60_000, 10)
    t = fit.threshold(0.01)
    assert t == pytest.approx(math.sqrt(math.log(60_000 * 10 * 2 / 0.01) / (0.5 * 2500)))
    assert fit.failure(t) == pytest.approx(0.01)
    assert fit.failure(0.0) == 1.0
    # no product of unit vectors exceeds 1
    assert SubgaussianFit(2.0, 0.5, 3, 60_000, 2).threshold(0.01) == 1.0
    assert SubgaussianFit(2.0, 0.0, 3, 60, 2).threshold(0.01) == 1.0
    assert SubgaussianFit(2.0, math.inf, 3, 60, 2).threshold(0.01) == 0.0


def test_on_its_own_sample_the_fit_keeps_the_lemma() -> None:
    """threshold ≥ every projection, so ‖Bx‖ ≤ κ‖B‖‖x‖ for each input; κ < 1 for a wide layer."""
    x = on_the_sphere(300, 400) * np.linspace(0.5, 3.0, 300)[:, None]
    b = np.random.default_rng(3).standard_normal((5, 400))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    projections = np.abs(unit @ np.linalg.svd(b, full_matrices=False)[2].T)
    fit = fit_subgaussian(projections, 400)
    t = fit.threshold(0.5)
    assert t >= projections.max()
    assert kappa(5, 400, t) < 1
    limit = kappa(5, 400, t) * np.linalg.norm(b, 2) * np.linalg.norm(x, axis=1)
    assert (np.linalg.norm(x @ b.T, axis=1) <= limit).all()


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 30), (4, 60)])
def test_lemma_c_1_by_simulation(outputs: int, inputs: int) -> None:
    """On the sphere a = 2, b = ½: samples of 20 points break ‖Bx‖ ≤ κ‖B‖‖x‖ at most as often as the
    union allows.
    """
    runs, m, allowed = 2000, 20, 0.3
    t = SubgaussianFit(2.0, 0.5, inputs, m, outputs).threshold(allowed)
    assert t < 1
    b = np.random.default_rng(1).standard_normal((outputs, inputs))
    lengths = np.linalg.norm(on_the_sphere(runs * m, inputs, seed=2) @ b.T, axis=1).reshape(runs, m)
    limit = math.sqrt(outputs) * t * np.linalg.norm(b, 2)
    broken = float((lengths.max(1) > limit).mean())
    assert broken <= allowed
    if outputs == 1:  # then the event is |⟨x, v⟩| > t itself, and the union is all that is lost
        exact = 1 - (betainc(0.5, (inputs - 1) / 2, t * t)) ** m
        assert abs(broken - exact) < 5 * math.sqrt(exact / runs)


def test_a_layer_whose_change_sees_nothing_of_its_inputs() -> None:
    dead = fit_subgaussian(np.zeros((3, 2)), 5)
    assert (dead.b, dead.threshold(0.1), dead.failure(0.0)) == (math.inf, 0.0, 0.0)
