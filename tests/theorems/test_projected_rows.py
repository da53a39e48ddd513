"""Theorems 4.1 and 5.1 and Corollary C.1 as rows: by their formulas, and where they abstain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.theorem_cases import facts, layer, random_net

from cushion.theorems.facts import NetFacts
from cushion.theorems.noise_stability import (
    LayerStabilityFacts,
    StabilityFacts,
)
from cushion.theorems.projection import theorem_4_1, theorem_5_1
from cushion.theorems.records import Bound


def p(j: int) -> float:
    return 2 / (3 * (abs(j) + 1) * (abs(j) + 2))


def value(row: Bound) -> float:
    assert row.value is not None
    return row.value


X = np.random.default_rng(0).uniform(0, 1, (200, 6))
PROJECTED = StabilityFacts(
    (
        LayerStabilityFacts("fc1", weights=54, frobenius=2.5, cushion=0.4, interlayer=0.2),
        LayerStabilityFacts("fc2", weights=27, frobenius=0.7, cushion=0.7, interlayer=0.25),
    ),
    contraction=1.3,
    m=200,
    width=9,
    smoothness=7.0,
    delta=0.05,
)


def projected_net(**more: object) -> NetFacts:
    weights, biases = random_net([6, 9, 3], 3)
    layers = [layer(a, b) for a, b in zip(weights, biases, strict=True)]
    return facts(layers, X, margin=1.5, largest_score=4.0, **more)


def message_by_hand(numbers: list[float], counts: list[float], epsilon: float) -> float:
    """Bits of k numbers a layer on its grid, k, and 32 bits a bias; 1/32 of ε_i is the grid's."""
    bits = 0.0
    for at, one in enumerate(PROJECTED.layers):
        own = epsilon * one.cushion * one.interlayer / (6 * 1.3 * 2)
        e = math.floor(math.log2(2 * own / 32 * one.frobenius / math.sqrt(one.weights)) + 1e-9)
        width = math.ceil(math.log2(2 * math.sqrt(one.weights) * one.frobenius / 2.0**e + 2))
        bits += numbers[at] * width + 32 * (9, 3)[at] - math.log2(p(e)) - math.log2(p(width))
        bits += math.log2(1.5 * (counts[at] + 2) ** 2)
    return bits


@pytest.mark.parametrize("zeta", [0.0, 0.1])
def test_theorem_4_1_by_its_formula(zeta: float) -> None:
    net = projected_net()
    epsilon = 1.5 / (math.sqrt(2) * 4.0)
    eta = 0.05 / (2 * 4 * 200 * 9)
    counts = []
    for one in PROJECTED.layers:
        own = 31 / 32 * epsilon * one.cushion * one.interlayer / (6 * 1.3 * 2)
        counts.append(float(math.ceil(math.log(4 / eta) / (own**2 / 4 - own**3 / 6))))
    printed, corrected = theorem_4_1(net, PROJECTED, zeta)
    bits = message_by_hand(counts, counts, epsilon)
    expected = 0.05 + zeta + math.sqrt((bits * math.log(2) + math.log(2 / 0.05)) / 400)
    assert corrected.value == pytest.approx(expected, rel=1e-11)
    assert corrected.factors is not None
    assert corrected.factors["log10_numbers"] == pytest.approx(math.log10(sum(counts)))
    assert corrected.factors["log10_bits"] == pytest.approx(math.log10(bits))
    inverse = sum(1 / (one.cushion * one.interlayer) ** 2 for one in PROJECTED.layers)
    capacity = 1.3**2 * 2**2 * 4.0**2 * inverse / 1.5**2
    assert printed.value == pytest.approx(0.05 + zeta + math.sqrt(capacity / 200))
    assert all(row.kind == "measure" and row.about == "g" for row in (printed, corrected))
    assert ("outliers" in printed.name) == (zeta > 0)


def test_theorem_5_1_and_corollary_c_1_by_their_formulas() -> None:
    filters = replace(
        PROJECTED,
        layers=(replace(PROJECTED.layers[0], beta=1.4, overlap=9, places=16), PROJECTED.layers[1]),
    )
    net = projected_net()
    epsilon, eta, q = 1.5 / (math.sqrt(2) * 4.0), 0.05 / (2 * 4 * 200 * 9), 3.0
    independence = math.ceil(math.log2(1 / eta))
    counts = [
        float(
            math.ceil(
                q
                * overlap
                * (math.log(1 / eta) * 6 * 1.3 * 2 * beta / (31 / 32 * epsilon * mu * after)) ** 2
            )
        )
        for mu, after, beta, overlap in ((0.4, 0.2, 1.4, 9), (0.7, 0.25, 1.0, 1))
    ]
    bits = message_by_hand([independence * k for k in counts], counts, epsilon)
    dev = math.sqrt((bits * math.log(2) + math.log(2 / 0.05)) / 400)
    main = math.sqrt(1.3**2 * 4 * 16 / 1.5**2 / 200 * ((1.4 * 3 / 0.08) ** 2 + 1 / 0.175**2))
    for rows, zeta in (
        (theorem_5_1(net, filters, constant=q), 0.0),
        (theorem_5_1(net, filters, 0.02, q), 0.02),
    ):
        printed, counted = rows
        assert printed.value == pytest.approx(0.05 + zeta + main)
        assert counted.value == pytest.approx(0.05 + zeta + dev, rel=1e-11)
        assert counted.form == printed.form == "as printed"
        assert counted.name == f"{printed.name}, Lemma 14's count"
        assert counted.kind == printed.kind == "measure"
        assert "Lemma 12 is false" in counted.meaning
    assert "16" not in theorem_4_1(net, PROJECTED)[0].meaning
    assert all("fc1 is a convolution" in row.meaning for row in theorem_4_1(net, filters))


def test_projected_rows_abstain_and_say_why() -> None:
    net = projected_net()
    negative, branching = (
        replace(net, margin=-0.1),
        replace(net, is_chain=False, not_a_chain_because="a is read twice"),
    )
    dead = replace(
        PROJECTED, layers=(replace(PROJECTED.layers[0], cushion=0.0), PROJECTED.layers[1])
    )
    cases = [
        (negative, PROJECTED, "is not positive"),
        (branching, PROJECTED, "read twice"),
        (net, dead, "cushion of layer fc1"),
    ]
    for one, stability, words in cases:
        rows = [
            *theorem_4_1(one, stability),
            *theorem_5_1(one, stability),
            *theorem_5_1(one, stability, 0.1),
        ]
        assert len(rows) == 6
        for row in rows:
            assert row.abstains
            assert row.vacuous
            assert row.about == "g"
            assert words in row.meaning


def test_where_only_rho_fails_the_rows_keep_their_values_and_say_so() -> None:
    net = projected_net()
    for smoothness, words in (
        (5.0, "fails here: the interlayer smoothness ρ = 5 is below 3d = 6"),
        (None, "not measured"),
    ):
        for bound in (theorem_4_1, theorem_5_1):
            for row, same in zip(
                bound(net, replace(PROJECTED, smoothness=smoothness)),
                bound(net, PROJECTED),
                strict=True,
            ):
                assert value(row) == value(same)  # rho enters as a condition only
                assert words in row.meaning
                assert words not in same.meaning


def test_projected_rows_move_as_they_should_and_survive_beyond_floats() -> None:
    net = projected_net()
    base = value(theorem_4_1(net, PROJECTED)[1])
    assert value(theorem_4_1(replace(net, margin=2.0), PROJECTED)[1]) < base
    assert value(theorem_4_1(replace(net, largest_score=8.0), PROJECTED)[1]) > base
    assert value(theorem_4_1(replace(net, m=2000), replace(PROJECTED, m=2000))[1]) < base
    assert "on 50 of 200" in theorem_4_1(net, replace(PROJECTED, examples=50))[1].meaning
    tiny = replace(
        PROJECTED, layers=(replace(PROJECTED.layers[0], cushion=1e-200), PROJECTED.layers[1])
    )
    for rows in (theorem_4_1(net, tiny), theorem_5_1(net, tiny)):
        for row in rows:
            assert row.log10 is not None
            assert 195 < row.log10 < 215
            assert row.vacuous
