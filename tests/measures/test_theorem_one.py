"""Theorem 1 of Neyshabur 2017: its value against the formulas written out, and its sharpness term
simulated.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.condition_cases import (
    SPHERES,
    Array,
    as_premises,
    conditions_of,
    cross_entropy,
    draw_noise,
    masks_of,
    net_on_the_sphere,
    noisy_levels,
    random_weights,
)

from cushion.measures.conditions.records import TheoremOne, Version
from cushion.measures.conditions.theorem import (
    SIGMAS,
    Premises,
    deviation_constants,
    evaluate,
    minimise,
)


def by_hand(p: Premises, version: Version, sigma: float) -> tuple[float, float]:
    """Sharpness and complexity, written out as docs and the paper have them; layer by layer, no
    logarithms.
    """
    d, delta_i = len(p.units) - 1, p.delta / (len(p.units) - 1)
    linear, growth, flips, divergence, pairs = 1.0, 1.0, 1.0, 0.0, 0.0
    for i in range(1, d + 1):
        h, before, norm = p.units[i], p.units[i - 1], p.frobenius[i - 1]
        printed = (1 + delta_i) * math.sqrt(2 * math.log(h))
        c_delta = (
            math.sqrt(2 * math.log(2 * h * p.m / delta_i)) if version == "corrected" else printed
        )
        gamma = sigma / (c_delta * d)
        sigma_i = gamma * p.mu**2 * norm / math.sqrt(h * before)
        linear *= 1 + gamma
        growth *= 1 + gamma * p.c2 * p.c3
        flips *= 1 + gamma * c_delta * p.c2
        divergence += norm**2 / sigma_i**2
        pairs += h * before
    scale = math.sqrt(2) * p.mean_output
    sharpness = (linear - 1 + growth * (flips - 1)) * scale
    if version == "as printed":
        return sharpness, math.sqrt((divergence + math.log(1 / p.delta)) / p.m)
    if version == "corrected":
        return sharpness, math.sqrt(
            (divergence / 2 + math.log(2 * math.sqrt(p.m) / p.delta)) / (2 * p.m)
        )
    sharpness = sigma * (1 + (1 + sigma * p.c2 * p.c3) * p.c2) * scale
    return sharpness, math.sqrt((d**2 / p.mu**4 * pairs / sigma**2 + math.log(1 / p.delta)) / p.m)


PREMISES = Premises(
    (5, 8, 6, 3), (2.0, 3.0, 0.5), mu=0.4, c2=7.0, c3=1.5, mean_output=0.3, m=50, delta=0.05
)
each_version = pytest.mark.parametrize("version", ["as printed", "simplified", "corrected"])


@each_version
def test_the_terms_are_the_formulas(version: Version) -> None:
    sigmas = np.array([1e-6, 0.01, 0.3, 20.0])
    terms = evaluate(PREMISES, version, sigmas)
    for at, sigma in enumerate(sigmas):
        sharpness, complexity = by_hand(PREMISES, version, float(sigma))
        assert math.exp(terms.sharpness[at]) == pytest.approx(sharpness, rel=1e-9)
        assert math.exp(terms.complexity[at]) == pytest.approx(complexity, rel=1e-9)
        assert math.exp(terms.total[at]) == pytest.approx(sharpness + complexity, rel=1e-9)


@each_version
def test_the_record_is_the_best_of_the_grid(version: Version) -> None:
    best = minimise(PREMISES, version, "all")
    sums = [sum(by_hand(PREMISES, version, float(sigma))) for sigma in SIGMAS[200:350]]
    assert best.total == pytest.approx(min(sums), rel=1e-9)
    assert best.sigma == pytest.approx(SIGMAS[200 + int(np.argmin(sums))])
    assert best.sigma is not None
    assert (best.sharpness, best.complexity) == pytest.approx(
        by_hand(PREMISES, version, best.sigma)
    )
    assert best.log10_total == pytest.approx(math.log10(best.total))
    assert best.log10_sharpness == pytest.approx(math.log10(best.sharpness))
    assert best.log10_complexity == pytest.approx(math.log10(best.complexity))
    c_delta = deviation_constants(PREMISES, version)
    for i, sigma in enumerate(best.layer_sigmas):
        gamma = (
            sigma
            * math.sqrt(PREMISES.units[i] * PREMISES.units[i + 1])
            / (0.4**2 * PREMISES.frobenius[i])
        )
        assert gamma == pytest.approx(best.sigma / (c_delta[i] * 3))
    factors = (best.log10_linear, best.log10_growth, best.log10_flips)
    if version == "simplified":
        assert factors == (None, None, None)
    else:
        linear, growth, flips = (10**part for part in factors if part is not None)
        assert (linear + growth * flips) * math.sqrt(2) * 0.3 == pytest.approx(best.sharpness)


def test_what_explodes_is_infinite_and_keeps_its_logarithm() -> None:
    deep = Premises(
        (30,) * 201, (1.0,) * 200, mu=1e-90, c2=1e30, c3=1e3, mean_output=1.0, m=10, delta=0.05
    )
    for version in ("as printed", "simplified", "corrected"):
        found = minimise(deep, version, "all")
        assert found.finite
        assert found.log10_total is not None
        assert found.log10_total > 90
        # no overflow, no warning
        assert evaluate(deep, version, np.array([1e-300])).total[0] > 1000
        json.loads(found.dumps())
    products = evaluate(deep, "as printed", np.array([1e5])).products
    assert products is not None
    assert products[2][0] == pytest.approx(
        200 * math.log1p(1e5 / 200 * 1e30)
    )  # γ C_δ = σ/d; the -1 is lost
    calm = minimise(replace(PREMISES, mean_output=0.0), "as printed", "all")
    assert (calm.sharpness, calm.finite) == (0.0, True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mu": 0.0}, "μ is 0"),
        ({"c2": math.inf}, "C2 is infinite"),
        ({"c3": math.inf}, "C3 is infinite"),
        ({"mean_output": math.nan}, "x ≠ 0"),
        ({"units": (5, 1, 6, 3)}, "one unit"),
    ],
)
def test_conditions_that_fail_are_named(change: dict[str, float], reason: str) -> None:
    found = minimise(replace(PREMISES, **change), "as printed", "all")  # type: ignore[arg-type]
    assert not found.finite
    assert reason in found.because
    assert (found.total, found.sigma, found.log10_total) == (math.inf, None, None)


def test_one_unit_fails_as_printed_only() -> None:
    thin = replace(PREMISES, units=(5, 1, 6, 3))
    assert minimise(thin, "corrected", "all").finite
    assert minimise(thin, "simplified", "all").finite


def test_the_net_feeds_the_theorem() -> None:
    """μ is Figure 6's, at most 1; C2 and C3 are the worst layers'; the mean is of ‖f(x)‖/‖x‖; m is
    len(data).
    """
    rng = np.random.default_rng(3)
    weights, x = random_weights((5, 8, 6, 3), rng), 10 * rng.normal(size=(9, 5))
    found = conditions_of(weights, x, examples=4, seed=1, delta=0.1)
    assert found.examples == 4
    assert found.interaction is not None
    assert {(part.version, part.delta_range) for part in found.theorem} == {
        (version, span)
        for version in ("as printed", "simplified", "corrected")
        for span in ("all", "restricted")
    }
    whole = conditions_of(weights, x).theorem
    sizes = [np.linalg.norm(masks_of(weights, row)[1][-1]) / np.linalg.norm(row) for row in x]
    assert all(part.mean_output == pytest.approx(np.mean(sizes), rel=1e-5) for part in whole)
    for part in found.theorem:
        assert (part.m, part.delta, part.lipschitz) == (9, 0.1, pytest.approx(math.sqrt(2)))
        assert part.mu == min(1.0, found.interaction.figure6.mu or 0)
        assert part.c3 == max(layer.value or 0 for layer in found.unit_norms)
        spans = [
            layer.value if part.delta_range == "all" else layer.restricted
            for layer in found.activation_flips
        ]
        assert part.c2 == max(spans)
    aligned = conditions_of([np.ones((9, 9)), np.ones((9, 9))], np.ones((1, 9)))
    assert all(part.mu == 1 for part in aligned.theorem)


def theorems_sigmas(p: Premises, version: Version, sigma: float) -> list[float]:
    gammas = sigma / (deviation_constants(p, version) * len(p.frobenius))
    sizes = zip(gammas, p.frobenius, p.units[:-1], p.units[1:], strict=True)
    return [float(gamma * p.mu**2 * norm / math.sqrt(a * b)) for gamma, norm, a, b in sizes]


def sharpness_over_bound(weights: list[Array], x: Array, record: TheoremOne, sigma: float) -> float:
    """E|L̂(w+ν) - L̂(w)| for cross-entropy, over the theorem's sharpness term with constant 1 at
    this σ.
    """
    p = as_premises(record, weights)
    noise = draw_noise(
        weights, theorems_sigmas(p, record.version, sigma), 400, np.random.default_rng(2)
    )
    labels = [at % len(weights[-1]) for at in range(len(x))]
    rows = list(zip(x, labels, strict=True))
    noisy = np.mean(
        [cross_entropy(noisy_levels(weights, noise, row, None)[0][-1], y) for row, y in rows],
        axis=0,
    )
    still = np.mean([cross_entropy(masks_of(weights, row)[1][-1], y) for row, y in rows])
    bound = math.exp(evaluate(p, record.version, np.array([sigma])).sharpness[0])
    return float(np.abs(noisy - still).mean() / bound)


@pytest.mark.parametrize(("units", "seed"), SPHERES)
def test_theorem_ones_sharpness(units: tuple[int, ...], seed: int) -> None:
    """On random nets it holds with constant 1, every version, and by a factor of ten."""
    weights, x, found = net_on_the_sphere(units, seed, 5)
    for record in found.theorem:
        ratios = [
            sharpness_over_bound(weights, x, record, sigma) for sigma in (1e-3, 0.1, 1.0, 10.0)
        ]
        assert max(ratios) <= 0.1
        assert max(ratios) > 1e-5


def test_theorem_one_has_no_constant() -> None:
    """γ_i with ‖W_i‖_F in place of Lemma 1's ‖D_iW_i‖_F: a unit that is off, and large, defeats it
    by any factor.
    """
    ratios = []
    for large in (1.0, 100.0, 10000.0):
        weights = [np.array([[0.5], [-large]]), np.array([[1.0, 0.0], [0.0, 0.0]])]
        found = conditions_of(weights, np.ones((1, 1)))
        ratios.append(
            [sharpness_over_bound(weights, np.ones((1, 1)), r, 1e-8) for r in found.theorem[:3]]
        )
    assert max(ratios[0]) < 1
    assert min(ratios[1]) > 3
    assert min(ratios[2]) > 300
