"""Norm-based bounds: against their formulas written out naively, and their ingredients by
simulation.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.theorem_cases import facts, layer, random_net, run

from cushion.theorems.facts import lifted_frobenius, lifted_l1_inf, lifted_spectral
from cushion.theorems.logs import at_least, at_most, log_sum, price
from cushion.theorems.norms import _l2_1, cells, covered, noise_tolerance, peeled, rebalanced

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (200, 6))


def p(j: int) -> float:
    return 2 / (3 * (abs(j) + 1) * (abs(j) + 2))


def grid_up(value: float, ratio: float = 1.02) -> tuple[float, int]:
    j = 0
    while ratio**j < value * (1 - 1e-12):
        j += 1
    while ratio ** (j - 1) >= value * (1 - 1e-12):
        j -= 1
    return ratio**j, j


def grid_down(value: float, ratio: float = 1.02) -> tuple[float, int]:
    up, j = grid_up(value, ratio)
    return (up, j) if up <= value * (1 + 1e-12) else (ratio ** (j - 1), j - 1)


def test_the_grid_is_a_probability_and_rounds_to_the_safe_side() -> None:
    assert sum(p(j) for j in range(-200_000, 200_001)) == pytest.approx(1, abs=1e-4)
    assert sum(p(j) for j in range(-200_000, 200_001)) <= 1
    for value in [*RNG.lognormal(0, 5, 200), 1.0, 2.0, 0.5, 1.5]:
        up, paid = at_least(math.log(value), math.log(1.5))
        down, _ = at_most(math.log(value), math.log(1.5))
        assert math.exp(down) <= value * (1 + 1e-9)
        assert math.exp(up) >= value * (1 - 1e-9)
        assert math.exp(up - down) <= 1.5 * (1 + 1e-9)
        assert paid == pytest.approx(-math.log(p(grid_up(value, 1.5)[1])))
    assert at_least(-math.inf, 0.5)[0] <= -699  # a norm of zero has a class of its own
    assert price(0) == pytest.approx(-math.log(p(0)))


@pytest.mark.parametrize("biased", [True, False])
def test_lifted_norms_bound_those_of_the_augmented_matrix(biased: bool) -> None:
    for seed in range(20):
        (a, *_), (b, *_) = random_net([5, 4, 3], seed, scale=3.0)
        b = b if biased else np.zeros_like(b)
        one = layer(a, b)
        for last in (True, False):
            whole = np.hstack([a, b[:, None]])
            if not last:
                whole = np.vstack([whole, [[0.0] * a.shape[1] + [1.0]]])
            if not biased:
                whole = a
            assert lifted_spectral(one, biased, last=last) >= np.linalg.norm(whole, 2) * (1 - 1e-12)
            assert lifted_frobenius(one, biased, last=last) == pytest.approx(np.linalg.norm(whole))
            assert lifted_l1_inf(one, biased, last=last) >= np.abs(whole).sum(1).max() * (1 - 1e-12)


def test_peeling_by_its_formula_without_biases() -> None:
    weights, _ = random_net([6, 5, 4, 3], 1)
    net = facts([layer(a) for a in weights], X)
    m, d, classes = len(X), 3, 3
    gamma, at = grid_down(0.5)
    confidence = math.log(2 / 0.05) - math.log(p(at))
    fro = [np.linalg.norm(a) for a in weights[:2]] + [np.linalg.norm(weights[2], axis=1).max()]
    sup = [np.abs(a).sum(1).max() for a in weights]
    for row, norms, start in (
        (0, sup, math.sqrt(2 * math.log(12)) * np.linalg.norm(X, axis=0).max() * 2 ** (d - 1)),
        (1, fro, np.linalg.norm(X) * 2 ** (d - 1)),
        (2, fro, np.linalg.norm(X) * (math.sqrt(2 * math.log(2) * d) + 1)),
    ):
        points = [grid_up(value) for value in norms]
        average = classes * start * math.prod(value for value, _ in points) / m
        nats = confidence - sum(math.log(p(j)) for _, j in points)
        expected = 0.05 + 2 * (2 / gamma) * average + 3 * math.sqrt(nats / (2 * m))
        found = peeled(net)[row]
        assert found.value == pytest.approx(expected, rel=1e-9)
        assert found.vacuous
        assert found.kind == "measure"


@pytest.mark.parametrize("seed", range(3))
def test_the_peeled_average_is_above_what_search_finds(seed: int) -> None:
    """E sup over nets of given norms of Σ ε_ik f_k(x_i): random search from below stays below the
    bound.
    """
    rng = np.random.default_rng(seed)
    x = X[:20, :3]
    weights, _ = random_net([3, 4, 2], seed)
    found_sup = found_fro = 0.0
    draws, tries = 40, 300
    for _ in range(draws):
        signs = rng.choice([-1.0, 1.0], (len(x), 2))
        best = {"sup": 0.0, "fro": 0.0}
        for _ in range(tries):
            a, b = rng.normal(size=(4, 3)), rng.normal(size=(2, 4))
            sup = (a / np.abs(a).sum(1, keepdims=True), b / np.abs(b).sum(1, keepdims=True))
            fro = (a / np.linalg.norm(a), b / np.linalg.norm(b, axis=1, keepdims=True))
            for name, (one, two) in (("sup", sup), ("fro", fro)):
                scores = np.maximum(x @ one.T, 0) @ two.T
                best[name] = max(best[name], float((signs * scores).sum()))
        found_sup += best["sup"] / draws
        found_fro += best["fro"] / draws
    unit = [layer(a) for a in weights]
    ones = [replace(one, frobenius=1.0, l2_inf=1.0, l1_inf=1.0) for one in unit]
    net = facts(ones, x, margin=1.0, margin_loss=0.0)
    # Undo the rest of the formula: value - confidence = 2·(2/γ)·average, with norms and γ exactly
    # on the grid.
    confidence = 3 * math.sqrt((math.log(2 / 0.05) + 3 * math.log(3)) / (2 * len(x)))
    for row, found in ((0, found_sup), (1, found_fro), (2, found_fro)):
        value = peeled(net)[row].value
        assert value is not None
        assert (value - confidence) / 4 * len(x) >= found


def test_covering_by_its_formula_without_biases() -> None:
    weights, _ = random_net([6, 5, 3], 2)
    starts = [0.9 * a for a in weights]
    net = facts([layer(a, start=s) for a, s in zip(weights, starts, strict=True)], X)
    m, (gamma, at) = len(X), grid_down(0.5)
    for row, moved in enumerate((weights, [a - s for a, s in zip(weights, starts, strict=True)])):
        s = [grid_up(np.linalg.norm(a, 2) * (1 + 1e-9)) for a in weights]
        a = [grid_up(np.linalg.norm(delta, axis=1).sum()) for delta in moved]
        nats = math.log(2 / 0.05) - math.log(p(at)) - sum(math.log(p(j)) for _, j in s + a)
        spread = sum((x / y) ** (2 / 3) for (x, _), (y, _) in zip(a, s, strict=True)) ** 1.5
        average = (
            4 / m
            + 48
            * math.log(m)
            * math.sqrt(math.log(2 * 36))
            / (gamma * m)
            * np.linalg.norm(X)
            * math.prod(value for value, _ in s)
            * spread
        )
        expected = 0.05 + 2 * average + 3 * math.sqrt(nats / (2 * m))
        assert covered(net)[row].value == pytest.approx(expected, rel=1e-9)
    assert covered(net)[1].value < covered(net)[0].value  # type: ignore[operator]


def test_the_constant_input_has_a_row_of_its_own_but_in_the_last_layer() -> None:
    a, b = RNG.normal(size=(4, 3)), RNG.normal(size=4)
    rows = np.linalg.norm(a, axis=1).sum() + 2 * np.linalg.norm(b)
    one = layer(a, b)
    assert _l2_1(False, one, True, True) == pytest.approx(rows)
    assert _l2_1(False, one, True, False) == pytest.approx(rows + 1)
    moved = layer(a, b, start=0.5 * a)
    half = np.linalg.norm(0.5 * a, axis=1).sum() + 2 * np.linalg.norm(b)
    assert _l2_1(True, moved, True, False) == pytest.approx(half)


def test_maurey_covers_a_layer_with_the_norm_of_rows() -> None:
    """The lemma behind the covering number: averages of n of 2·in·out atoms reach X Aᵀ within
    ‖A‖_{2,1}‖X‖_F/√n.
    """
    rng = np.random.default_rng(3)
    x, a = rng.normal(size=(15, 6)), rng.normal(size=(4, 6)) * rng.lognormal(size=(4, 1))
    columns = np.linalg.norm(x, axis=0)
    weights = np.abs(a) * columns  # of the atoms ± x_k e_jᵀ / ‖x_k‖
    total = weights.sum()
    bound = np.linalg.norm(a, axis=1).sum() * np.linalg.norm(x)
    assert total <= bound  # Cauchy-Schwarz row by row
    n, errors = 25, []
    atoms = [(j, k) for j in range(4) for k in range(6)]
    for _ in range(400):
        picks = rng.choice(len(atoms), n, p=(weights / total).ravel())
        image = np.zeros((15, 4))
        for j, k in (atoms[i] for i in picks):
            image[:, j] += total / n * np.sign(a[j, k]) * x[:, k] / columns[k]
        errors.append(((image - x @ a.T) ** 2).sum())
    assert np.mean(errors) <= bound**2 / n


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_noise_of_the_stated_size_moves_no_score_by_a_quarter_margin(
    biased: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights, biases = random_net([6, 8, 7, 3], seed)
    biases = [b if biased else np.zeros_like(b) for b in biases]
    net = facts([layer(a, b) for a, b in zip(weights, biases, strict=True)], X, margin=2.0)
    row = noise_tolerance(net)
    assert row.factors is not None
    sigma = 10 ** row.factors["log10_sigma"]
    # The net is first rescaled to equal spectral norms.
    layers = rebalanced(net.layers)
    factors = [
        new.spectral_upper / old.spectral_upper for new, old in zip(layers, net.layers, strict=True)
    ]
    assert math.prod(factors) == pytest.approx(1.0)
    so_far = np.cumprod(factors)
    weights = [c * a for c, a in zip(factors, weights, strict=True)]
    biases = [c * b for c, b in zip(so_far, biases, strict=True)]
    for new, b in zip(layers, biases, strict=True):
        assert new.bias_largest == pytest.approx(np.abs(b).max())
    before = run(weights, biases, X)
    quiet = 0
    for _ in range(200):
        noisy = [a + sigma * rng.normal(size=a.shape) for a in weights]
        shifted = [b + sigma * rng.normal(size=b.shape) if biased else b for b in biases]
        quiet += bool(np.abs(run(noisy, shifted, X) - before).max() <= 2.0 / 4)
    assert quiet >= 100
    louder = [a + 100 * sigma * rng.normal(size=a.shape) for a in weights]
    assert (
        np.abs(run(louder, biases, X) - before).max() > np.abs(run(noisy, biases, X) - before).max()
    )


def test_noise_tolerance_by_its_formula() -> None:
    weights, _ = random_net([6, 5, 3], 5)
    net = facts([layer(a) for a in weights], X, margin=1.0)
    d, m, radius = 2, len(X), np.linalg.norm(X, axis=1).max()
    s = math.sqrt(math.prod(np.linalg.norm(a, 2) * (1 + 1e-9) for a in weights))
    kappa = [
        math.sqrt(a.shape[0]) + math.sqrt(a.shape[1]) + math.sqrt(2 * math.log(2 * d))
        for a in weights
    ]
    largest = min(
        1.0 / (4 * math.e * radius * s**d * sum(k / s for k in kappa)), s / (d * max(kappa))
    )
    sigma, j = grid_down(largest)
    kl = sum((np.linalg.norm(a) * s / np.linalg.norm(a, 2) / (1 + 1e-9)) ** 2 for a in weights) / (
        2 * sigma**2
    )
    nats = (
        2 * kl
        + 2 * math.log(2)
        + math.log(2 * math.sqrt(m) / 0.05)
        - math.log(p(j))
        - math.log(p(0))
    )
    assert noise_tolerance(net).value == pytest.approx(0.05 + math.sqrt(nats / (2 * m)), rel=1e-9)


def test_cells_by_formula_and_margins_stay_inside_them() -> None:
    weights, biases = random_net([2, 4, 3], 6)
    net = facts([layer(a, b) for a, b in zip(weights, biases, strict=True)], X[:, :2], margin=0.3)
    lipschitz = {
        "lipschitz-inf": 2 * math.prod(np.abs(a).sum(1).max() for a in weights),
        "lipschitz-2": math.sqrt(2 * 2)
        * math.prod(np.linalg.norm(a, 2) * (1 + 1e-9) for a in weights),
    }
    rng = np.random.default_rng(0)
    for row in cells(net, True):
        side, j = grid_down(0.3 / lipschitz[row.name])
        count = 3 * math.ceil(1 / side) ** 2
        nats = 2 * count * math.log(2) + 2 * (math.log(1 / 0.05) - math.log(p(j)))
        assert row.value == pytest.approx(0.05 + math.sqrt(nats / len(X)), rel=1e-9)
        corner = rng.uniform(0, 1, (500, 2))
        pair = [run(weights, biases, corner + side * rng.uniform(0, 1, (500, 2))) for _ in range(2)]
        margins = [score[:, 0] - score[:, 1:].max(1) for score in pair]
        assert np.abs(margins[0] - margins[1]).max() <= 0.3
    assert all(row.abstains for row in cells(net, False))


def test_rows_without_a_margin_or_a_chain_abstain_and_say_why() -> None:
    weights, _ = random_net([6, 5, 3], 7)
    good = facts([layer(a) for a in weights], X)
    negative = replace(good, margin=-0.1)
    branching = replace(
        good, is_chain=False, plain=False, not_a_chain_because="the output of a is read by b and c"
    )
    for net, words in ((negative, "is not positive"), (branching, "read by b and c")):
        for row in (*covered(net), noise_tolerance(net), *cells(net, True)):
            assert row.abstains
            assert row.value is None
            assert words in row.meaning
    assert all("pooling" in row.meaning for row in peeled(branching))
    pooled = replace(good, plain=False)
    assert all(row.abstains for row in peeled(pooled))
    assert not noise_tolerance(pooled).abstains
    assert noise_tolerance(replace(good, layers=(layer(np.zeros((5, 6))), good.layers[1]))).abstains


def test_a_pool_that_shrinks_does_not_shrink_the_constant_input_of_biases() -> None:
    weights, biases = random_net([6, 5, 3], 9)
    for biased in (True, False):
        layers = [layer(a, b if biased else None) for a, b in zip(weights, biases, strict=True)]
        plain = facts(layers, X)
        pooled = facts([replace(layers[0], lipschitz=0.25), layers[1]], X)
        for bound in (lambda net: covered(net)[0].value, lambda net: noise_tolerance(net).value):
            if biased:
                assert bound(pooled) == bound(plain)
            else:
                assert bound(pooled) < bound(plain)
        stretched = facts([replace(layers[0], lipschitz=4.0), layers[1]], X)
        assert noise_tolerance(stretched).value > noise_tolerance(plain).value  # type: ignore[operator]


def test_values_beyond_a_float_are_logarithms() -> None:
    weights, _ = random_net([6, 6, 6, 3], 8)
    many = [layer(1e100 * weights[0])] * 8 + [layer(weights[2])]
    for row in (*peeled(facts(many, X)), *covered(facts(many, X)), noise_tolerance(facts(many, X))):
        assert row.value is None
        assert row.log10 is not None
        assert row.log10 > 700
        assert row.vacuous
    infinite = facts(
        [replace(layer(weights[0]), frobenius=math.inf, l1_inf=math.inf), layer(weights[2])], X
    )
    for row in peeled(infinite):
        assert row.abstains
        assert "infinite" in row.meaning
    assert log_sum(-math.inf, -math.inf) == -math.inf
