"""Lemmas 3, 10, 14 and Theorems 4.1, 5.1 of Arora 2018: formulas written anew, the induction, a
simulation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cushion.theorems.noise_stability import (
    LayerStabilityFacts,
    StabilityFacts,
    epsilon_from_margin,
    epsilon_of_k,
    lemma_3,
    lemma_14,
)

TWO = (
    LayerStabilityFacts("fc1", weights=600, frobenius=2.0, cushion=0.4, interlayer=0.2),
    LayerStabilityFacts(
        "fc2",
        weights=90,
        frobenius=3.0,
        cushion=0.7,
        interlayer=0.25,
        beta=1.5,
        overlap=4,
        places=9,
    ),
)
NET = StabilityFacts(TWO, contraction=1.3, m=500, width=30, smoothness=math.inf, delta=0.1)


def closed_form(net: StabilityFacts, epsilon: float) -> float:
    """What bounds the counts of Lemma 3 before they are rounded up, where every ε_i ≤ 1/6."""
    inverse = sum((one.cushion * one.interlayer) ** -2 for one in net.layers)
    spread = (net.contraction * net.depth / epsilon) ** 2 * inverse
    return 4 * 6**2 * 9 / 8 * math.log(4 / net.eta) * spread


def test_lemma_3_by_its_formula() -> None:
    c, d, m, h, delta, epsilon = 1.3, 2, 500, 30, 0.1, 0.3
    eta = delta / (2 * d * d * m * h)
    counts = lemma_3(NET, epsilon)
    total = bare = inverse = 0.0
    for found, mu, after in zip(counts.layers, (0.4, 0.7), (0.2, 0.25), strict=True):
        own = epsilon * mu * after / (6 * c * d)
        k = math.log(4 / eta) / (own**2 / 4 - own**3 / 6)
        assert found.epsilon == pytest.approx(own)
        assert found.projections == found.numbers == math.ceil(k)
        assert found.log_numbers == pytest.approx(math.log(math.ceil(k)))
        total, bare, inverse = total + math.ceil(k), bare + k, inverse + 1 / (mu * after) ** 2
    assert counts.promised
    assert counts.eta == pytest.approx(eta)
    assert counts.numbers == total
    assert counts.log10 == pytest.approx(math.log10(total))
    closed = 162 * c**2 * d**2 * math.log(8 * d**2 * m * h / delta) / epsilon**2 * inverse
    assert closed == pytest.approx(closed_form(NET, epsilon))
    assert bare <= closed
    assert total <= closed + d


def test_162_is_the_least_constant_of_the_closed_form() -> None:
    """162 = 4·36·9/8: with one unit, one layer and nothing lost ε_i = 1/6, and the count is then
    the closed form.
    """
    one = StabilityFacts((LayerStabilityFacts("fc", 1, 1.0, 1.0, 1.0),), 1.0, 100, 1, None, 0.05)
    counts = lemma_3(one, 1.0)
    assert counts.layers[0].epsilon == pytest.approx(1 / 6)
    closed = closed_form(one, 1.0)
    assert closed == pytest.approx(162 * math.log(8 * 100 / 0.05))
    # so the rounding up is not inside the closed form
    assert closed <= counts.numbers <= closed + 1
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = int(rng.integers(1, 6))
        h = int(rng.integers(1, 50))
        layers = tuple(
            LayerStabilityFacts(
                "fc", 1, 1.0, float(rng.uniform(0.01, 1)), float(rng.uniform(0.1, 1)) / math.sqrt(h)
            )
            for _ in range(d)
        )
        net = StabilityFacts(layers, float(rng.uniform(1, 4)), 1000, h, math.inf, 0.01)
        counts = lemma_3(net, float(rng.uniform(0.01, 1)))
        # μ ≤ 1 and μ_→ ≤ 1/√h: no layer with fewer inputs than this is ever compressed.
        inputs = 144 * (net.contraction * d / counts.epsilon) ** 2 * math.log(4 / net.eta)
        assert all(found.projections >= inputs * h * (1 - 1e-9) for found in counts.layers)
        assert counts.numbers <= closed_form(net, counts.epsilon) * (1 + 1e-9) + d


def test_from_the_initialisation_a_cushion_may_exceed_one() -> None:
    """μ_i is then measured against ‖A - A₀‖_F, ε_i may pass 1/6, the closed form is void, and ε_i
    stops at 1.
    """
    moved = replace(NET, layers=(replace(TWO[0], cushion=30.0), TWO[1]))
    assert lemma_3(moved, 1.0).layers[0].epsilon > 1 / 6
    far = replace(NET, layers=(replace(TWO[0], cushion=1e6), TWO[1]))
    found = lemma_3(far, 1.0).layers[0]
    assert found.epsilon == 1.0
    assert found.projections == math.ceil(12 * math.log(4 / NET.eta))


def share(i: int, d: int, epsilon: Fraction, divisor: Fraction) -> Fraction:
    """How far replacing layer i moves any later layer, relative to it, at worst: ρ = 3d, ε_i =
    εμμ/(divisor·c·d).
    """
    before = Fraction(i - 1, d) * epsilon  # the induction's hypothesis
    # ε_i ‖J‖‖A‖‖φ(x̂)‖, ‖φ(x̂)‖ ≤ (1 + before) c ‖φ(x)‖
    linear = (1 + before) * epsilon / (divisor * d)
    bent = (before + (before + linear)) / (
        3 * d
    )  # smoothness, before and after layer i is replaced
    return linear + bent


def test_the_induction_of_lemma_3_closes_with_six_and_not_with_four() -> None:
    for d in range(1, 41):
        for i in range(1, d + 1):
            for epsilon in (Fraction(1, 100), Fraction(1, 2), Fraction(1)):
                assert share(i, d, epsilon, Fraction(6)) <= epsilon / d
    # The paper's other line: too much from five layers on, 7/6 of the allowance in the limit.
    assert share(4, 4, Fraction(1), Fraction(4)) <= Fraction(1, 4)
    assert all(share(d, d, Fraction(1), Fraction(4)) > Fraction(1, d) for d in range(5, 41))
    assert share(400, 400, Fraction(1), Fraction(4)) * 400 == pytest.approx(7 / 6, rel=0.01)
    # Nor does anything below six, if the net is deep enough.
    assert share(1000, 1000, Fraction(1), Fraction(59, 10)) > Fraction(1, 1000)


def test_the_module_chooses_what_closes_the_induction() -> None:
    for d in (1, 3, 10, 30):
        layers = tuple(LayerStabilityFacts(f"fc{i}", 1, 1.0, 0.5, 0.3) for i in range(d))
        net = StabilityFacts(layers, 1.7, 100, 9, 3.0 * d, 0.05)
        for epsilon in (0.1, 1.0):
            for i, found in enumerate(lemma_3(net, epsilon).layers, start=1):
                divisor = Fraction(
                    epsilon * 0.5 * 0.3 / (found.epsilon * 1.7 * d)
                ).limit_denominator(1000)
                assert share(i, d, Fraction(epsilon), divisor) <= Fraction(epsilon) / d
            assert divisor == 6  # and no more than that: it would cost numbers


def test_lemma_3_holds_on_a_net_whose_units_never_switch() -> None:
    """Positive weights and inputs keep all units active, so ρ = ∞; both layers projected, errors by
    (i/d)ε.
    """
    rng = np.random.default_rng(1)
    first, second = rng.uniform(0.5, 1.5, (4, 3)), rng.uniform(0.5, 1.5, (2, 4))
    x = rng.uniform(0.2, 1, (20, 3))
    one, two = x @ first.T, x @ first.T @ second.T
    norm = np.linalg.norm
    cushions = [
        float((norm(after, axis=1) / norm(a) / norm(before, axis=1)).min())
        for a, before, after in ((first, x, one), (second, one, two))
    ]
    onward = float(
        (norm(two, axis=1) / norm(second) / norm(one, axis=1)).min()
    )  # J^{1,2} is the second matrix
    layers = (
        LayerStabilityFacts(
            "fc1", 12, float(norm(first)), cushions[0], min(onward, 1 / math.sqrt(4))
        ),
        LayerStabilityFacts("fc2", 8, float(norm(second)), cushions[1], 1 / math.sqrt(2)),
    )
    net = StabilityFacts(layers, 1.0, len(x), 4, math.inf, 0.2)
    epsilon = 1.0
    counts = lemma_3(net, epsilon)
    loose = 0
    for _ in range(15):
        rebuilt = []
        for a, found in zip((first, second), counts.layers, strict=True):
            signs = rng.choice([-1.0, 1.0], (int(found.projections), a.size))
            rebuilt.append((signs.T @ (signs @ a.ravel()) / len(signs)).reshape(a.shape))
        errors = norm(x @ rebuilt[0].T @ rebuilt[1].T - two, axis=1) / norm(two, axis=1)
        halfway = norm(x @ rebuilt[0].T @ second.T - two, axis=1) / norm(two, axis=1)
        loose += bool(errors.max() > epsilon or halfway.max() > epsilon / 2)
    assert loose == 0  # each with probability at most δ/2 = 0.1


def test_lemma_10_keeps_every_margin_above_gamma_and_no_more() -> None:
    assert epsilon_from_margin(0.6, 3.0) == pytest.approx(0.6 / (math.sqrt(2) * 3.0))
    assert epsilon_from_margin(9.0, 3.0) == 1.0  # no margin exceeds √2‖f(x)‖
    assert epsilon_from_margin(-0.1, 3.0) == epsilon_from_margin(0.0, 3.0) == 0.0
    # At the error's worst direction the margin γ is used up exactly: a larger ε would be wrong.
    gamma, scores = 0.5, np.array([1.0, 0.5, -0.3])
    length = epsilon_from_margin(gamma, float(np.linalg.norm(scores))) * np.linalg.norm(scores)
    moved = scores + length * np.array([-1.0, 1.0, 0.0]) / math.sqrt(2)
    assert moved[0] - moved[1] == pytest.approx(0.0, abs=1e-12)


def test_epsilon_of_k_inverts_the_count() -> None:
    for eta in (0.3, 1e-3, 1e-12):
        fewest = 12 * math.log(4 / eta)
        assert epsilon_of_k(math.floor(fewest), eta) is None
        assert epsilon_of_k(math.ceil(fewest), eta) is not None
        for k in (math.ceil(fewest), 2 * math.ceil(fewest), 10_000, 10**8, 10**15):
            epsilon = epsilon_of_k(k, eta)
            assert epsilon is not None
            assert math.log(4 / eta) / (epsilon**2 / 4 - epsilon**3 / 6) <= k
            # The root of 2ε³ - 3ε² + 12t = 0 in (0, 1), t = ln(4/η)/k, by Viète: ε = ½ +
            # cos(arccos(1 - 24t)/3 - 2π/3).
            root = 0.5 + math.cos(math.acos(1 - 24 * math.log(4 / eta) / k) / 3 - 2 * math.pi / 3)
            assert epsilon == pytest.approx(root, rel=1e-5, abs=1e-8)
            less = epsilon * (1 - 1e-9)
            assert math.log(4 / eta) / (less**2 / 4 - less**3 / 6) > k
    assert epsilon_of_k(10**15, 0.01) == pytest.approx(
        2 * math.sqrt(math.log(400) / 10**15), rel=1e-6
    )


def test_lemma_14_by_its_formula() -> None:
    c, d, epsilon, q = 1.3, 2, 0.3, 7.0
    eta = 0.1 / (2 * d * d * 500 * 30)
    counts = lemma_14(NET, epsilon, q)
    p = math.ceil(math.log2(1 / eta))
    layers = zip(counts.layers, (0.4, 0.7), (0.2, 0.25), (1.0, 1.5), (1, 4), strict=True)
    for found, mu, after, beta, overlap in layers:
        own = epsilon * mu * after / (6 * c * d * beta)
        k = math.ceil(q * overlap * math.log(1 / eta) ** 2 / own**2)
        assert found.epsilon == pytest.approx(own)
        assert found.projections == k
        assert found.independence == p
        assert found.numbers == k * p
        assert found.log_numbers == pytest.approx(math.log(k * p))
    assert not counts.promised  # erratum (h): whatever Q is
    assert "Lemma 12" in counts.why_not
    assert not counts.layers[0].compresses


def test_counts_beyond_floats_keep_their_logarithms() -> None:
    tiny = replace(NET, layers=(replace(TWO[0], cushion=1e-200), TWO[1]))
    for counts in (lemma_3(tiny, 0.5), lemma_14(tiny, 0.5)):
        assert counts.numbers == math.inf
        assert 400 < counts.log10 < 420
        assert not counts.layers[0].compresses
    zero = replace(NET, layers=(replace(TWO[0], cushion=0.0), TWO[1]))
    assert lemma_3(zero, 0.5).numbers == lemma_3(zero, 0.5).log10 == math.inf
    assert lemma_3(NET, 1.0).layers[0].compresses is False
    assert (
        lemma_3(replace(NET, layers=(replace(TWO[0], weights=10**9), TWO[1])), 1.0)
        .layers[0]
        .compresses
    )


def test_what_is_not_promised_says_why() -> None:
    for smoothness, words in (
        (5.99, "below 3d = 6"),
        (None, "not measured"),
        (math.nan, "below 3d"),
    ):
        net = replace(NET, smoothness=smoothness)
        assert words in net.why_not
        assert not lemma_3(net, 0.5).promised
    assert "5.99" in replace(NET, smoothness=5.99).why_not
    assert replace(NET, smoothness=6.0).why_not == ""
    # one layer: no pair to be smooth between
    assert replace(NET, smoothness=None, layers=TWO[:1]).why_not == ""
    for bad in (0.0, math.nan):
        assert "fc2" in replace(NET, layers=(TWO[0], replace(TWO[1], cushion=bad))).why_not
        assert "fc1" in replace(NET, layers=(replace(TWO[0], interlayer=bad), TWO[1])).why_not
    assert "contraction" in replace(NET, contraction=math.inf).why_not


@pytest.mark.parametrize("count", [lemma_3, lemma_14])
def test_counts_fall_with_stability_and_grow_with_the_sample(count: object) -> None:
    assert callable(count)
    base = count(NET, 0.3).log10
    assert count(NET, 0.6).log10 < base
    better = (replace(TWO[0], cushion=0.5), TWO[1]), (TWO[0], replace(TWO[1], interlayer=0.5))
    assert all(count(replace(NET, layers=layers), 0.3).log10 < base for layers in better)
    for worse in (
        replace(NET, contraction=2.0),
        replace(NET, m=5000),
        replace(NET, width=300),
        replace(NET, delta=0.01),
    ):
        assert count(worse, 0.3).log10 > base
