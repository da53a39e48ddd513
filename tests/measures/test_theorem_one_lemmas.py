"""Lemmas 1, 2 and 3 of Neyshabur 2017 simulated on tiny bias-free nets: where they hold, and where
they do not.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.condition_cases import (
    SPHERES,
    Array,
    as_premises,
    conditions_of,
    draw_noise,
    masks_of,
    mean_and_error,
    net_on_the_sphere,
    noisy_levels,
    random_weights,
)

from cushion.measures.conditions.records import NetConditions
from cushion.measures.conditions.theorem import deviation_constants


@pytest.mark.parametrize("shape", [(3, 4, 5, 2), (1, 6, 6, 1), (7, 1, 1, 7), (2, 2, 2, 2)])
def test_lemma_three(shape: tuple[int, int, int, int]) -> None:
    """E‖AνB‖_F <= σ‖A‖_F‖B‖_F, and E‖AνB‖_F² is its square exactly; the bound is at most √(π/2) too
    large.
    """
    rng = np.random.default_rng(sum(shape))
    A, B, sigma = rng.normal(size=shape[:2]), rng.normal(size=shape[2:]), 0.7
    norms = np.linalg.norm(
        A @ (sigma * rng.normal(size=(20000, shape[1], shape[2]))) @ B, axis=(1, 2)
    )
    bound = sigma * np.linalg.norm(A) * np.linalg.norm(B)
    mean, error = mean_and_error(norms)
    square, square_error = mean_and_error(norms**2)
    assert mean <= bound + 4 * error
    assert mean >= bound / math.sqrt(math.pi / 2) - 4 * error
    assert abs(square - bound**2) <= 4.5 * square_error


def lemma_one(
    weights: list[Array], x: Array, sigmas: Array, mu: float, *, masked: bool = True
) -> tuple[float, float]:
    """E‖f with noise and fixed masks - f‖ over (∏(1 + σ_i√(h_i h_{i-1})/(μ²‖D_iW_i‖_F)) - 1)‖f‖,
    and its error.
    """
    masks, levels = masks_of(weights, x)
    noise = draw_noise(weights, list(sigmas), 2000, np.random.default_rng(0))
    fixed, _ = noisy_levels(weights, noise, x, masks)
    mean, error = mean_and_error(np.linalg.norm(fixed[-1] - levels[-1], axis=1))
    sizes = [
        np.linalg.norm(mask[:, None] * w if masked else w)
        for mask, w in zip(masks, weights, strict=True)
    ]
    terms = [
        s * math.sqrt(w.size) / (mu**2 * size)
        for s, w, size in zip(sigmas, weights, sizes, strict=True)
    ]
    bound = (np.prod(1 + np.array(terms)) - 1) * np.linalg.norm(levels[-1])
    return mean / bound, error / bound


def relative(weights: list[Array], pattern: str, size: float) -> Array:
    """σ_i = size · the layer's root mean square, in all layers or some."""
    sigmas = np.array([size * np.sqrt((w**2).mean()) for w in weights])
    keep = {"first": [0], "last": [-1], "adjacent": [0, 1], "all": list(range(len(weights)))}[
        pattern
    ]
    return np.where(np.isin(np.arange(len(weights)), np.arange(len(weights))[keep]), sigmas, 0)


@pytest.mark.parametrize("pattern", ["all", "first", "last", "adjacent"])
@pytest.mark.parametrize("seed", range(8))
def test_lemma_one_with_figure_sixs_indices(seed: int, pattern: str) -> None:
    """It holds with Figure 6's μ (a = 0 is all that it takes), provided that μ <= 1."""
    rng = np.random.default_rng(seed)
    weights = random_weights([int(n) for n in rng.integers(3, 9, size=4)], rng)
    if seed % 2:  # nearly of rank one, where μ is largest
        weights = [
            np.abs(np.outer(*(rng.normal(size=n) for n in w.shape))) + 0.01 * w for w in weights
        ]
    x = np.abs(rng.normal(size=weights[0].shape[1]))
    assert masks_of(weights, x)[1][-1].any()  # a dead net would satisfy every inequality
    found = conditions_of(weights, x[None]).interaction
    assert found is not None
    assert found.from_input.mu is not None
    for size in (0.03, 0.3, 3.0):
        ratio, error = lemma_one(
            weights, x, relative(weights, pattern, size), min(1.0, found.from_input.mu)
        )
        assert ratio <= 1 + 4 * error
        assert ratio > 1e-6  # the bound is loose, not vacuous


def test_lemma_one_fails_with_the_texts_indices() -> None:
    """0 <= a < c < b says nothing about layer 1 and x: a unit nearly orthogonal to x defeats it by
    any factor.
    """
    x = np.array([1.0, 0.0])
    for tiny, factor in ((0.1, 4), (0.01, 40)):
        weights = [np.array([[tiny, 1.0]]), np.array([[1.0], [1.0]])]
        found = conditions_of(weights, x[None]).interaction
        assert found is not None
        assert found.text.mu == pytest.approx(1.0)
        assert lemma_one(weights, x, np.array([1e-3, 0.0]), 1.0)[0] > factor
        assert found.figure6.mu is not None
        assert lemma_one(weights, x, np.array([1e-3, 0.0]), found.figure6.mu)[0] < 1


def test_lemma_one_fails_for_mu_above_one() -> None:
    """Matrices of rank one that fit each other have μ = √h; noise in the last layer then exceeds
    the bound by √h.
    """
    h = 9
    weights = [np.ones((h, h)), np.ones((h, h))]
    x = np.ones(h)
    found = conditions_of(weights, x[None]).interaction
    assert found is not None
    assert found.figure6.mu == pytest.approx(3.0)
    sigmas = np.array([0.0, 1e-3])
    assert lemma_one(weights, x, sigmas, 3.0)[0] == pytest.approx(3.0, rel=0.05)
    assert lemma_one(weights, x, sigmas, 1.0)[0] < 1


def test_lemma_one_needs_the_masked_norm() -> None:
    """Theorem 1 has ‖W_i‖_F where the lemma has ‖D_iW_i‖_F: one large unit that is off defeats the
    former.
    """
    weights, x = [np.array([[0.5], [-100.0]]), np.array([[1.0, 0.0], [0.0, 0.0]])], np.ones(1)
    found = conditions_of(weights, x[None])
    assert found.interaction is not None
    assert found.interaction.figure6.mu == pytest.approx(1.0)
    sigmas = np.array([1e-3, 0.0])
    assert lemma_one(weights, x, sigmas, 1.0)[0] < 1
    assert lemma_one(weights, x, sigmas, 1.0, masked=False)[0] > 100
    c3 = found.unit_norms[0].value
    assert c3 is not None
    # ‖W‖_F <= C3‖DW‖_F: C3 is what it costs
    assert lemma_one(weights, x, sigmas, 1.0, masked=False)[0] < c3


def lemma_two(
    weights: list[Array], x: Array, found: NetConditions, sigmas: list[float]
) -> tuple[float, float]:
    """The constants that Lemma 2 needs in front of its two O(.), largest over levels k.

    Flips: their (1 - δ)-quantile over draws against C2 h_k C_{δ_k} σ_k ‖f^{k-1}‖. Err_k: its mean
    against the products.
    """
    p = as_premises(found.theorem[0], weights)
    c_delta = deviation_constants(p, "as printed")
    masks, levels = masks_of(weights, x)
    noise = draw_noise(weights, sigmas, 600, np.random.default_rng(1))
    fixed, _ = noisy_levels(weights, noise, x, masks)
    free, used = noisy_levels(weights, noise, x, None)
    gammas = np.array(
        [
            s * math.sqrt(w.size) / (p.mu**2 * norm)
            for s, w, norm in zip(sigmas, weights, p.frobenius, strict=True)
        ]
    )
    flips, errors = [], []
    for k, weight in enumerate(weights, 1):
        if k < len(weights):
            count = np.quantile(np.abs(used[k - 1] - masks[k - 1]).sum(1), 1 - p.delta)
            flips.append(
                count
                / (
                    p.c2
                    * len(weight)
                    * c_delta[k - 1]
                    * sigmas[k - 1]
                    * np.linalg.norm(levels[k - 1])
                )
            )
        growth = np.prod(1 + gammas[:k] * p.c2 * p.c3)
        change = np.prod(1 + gammas[:k] * c_delta[:k] * p.c2) - 1
        error = np.linalg.norm(free[k - 1] - fixed[k - 1], axis=1).mean()
        errors.append(error / (growth * change * np.linalg.norm(levels[k])))
    return max(flips), max(errors)


@pytest.mark.parametrize(("units", "seed"), SPHERES)
def test_lemma_two_with_equal_relative_noise(units: tuple[int, ...], seed: int) -> None:
    """With equal relative noise in all layers a constant of 3 is enough for the flips, 0.1 for
    E‖Err_k‖.
    """
    weights, x, found = net_on_the_sphere(units, seed, 1)
    most = []
    for size in (0.01, 0.1, 1.0):
        sigmas = [size * math.sqrt((w**2).mean()) for w in weights]
        flips, errors = lemma_two(weights, x[0], found, sigmas)
        assert flips <= 3
        assert errors <= 0.1
        most.append(flips)
    assert max(most) > 0.02  # something does flip


def test_lemma_twos_flips_have_no_constant() -> None:
    """Its proof drops ‖W_k‖‖f̂^{k-1} - f^{k-1}‖ as O(σ²), but it is O(σ): noise in layer 1 alone
    flips layer 2.
    """
    weights, x, found = net_on_the_sphere((10, 20, 20, 4), 0, 1)
    constants = []
    for ratio in (1.0, 1e-2, 1e-4):
        sigmas = [
            0.1 * math.sqrt((w**2).mean()) * (1 if at == 0 else ratio)
            for at, w in enumerate(weights)
        ]
        constants.append(lemma_two(weights, x[0], found, sigmas)[0])
    assert constants[1] > 5
    assert constants[2] > 50 * constants[1]
