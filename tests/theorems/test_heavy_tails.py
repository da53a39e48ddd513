"""Proposition 1.1 of Shin 2021, as printed and corrected: closed forms, all signs, draws; and
Theorem 2's rows.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from cushion.numerics import binomial_inverse
from cushion.theorems.compression import CompressedFacts
from cushion.theorems.heavy_tails import (
    COUNT,
    FACTORS,
    HeavyTailFacts,
    HeavyTailLayerFacts,
    chosen_nats,
    epsilon_promised,
    epsilon_promised_printed,
    failure,
    failure_printed,
    heavy_tail_rows,
    mask_nats,
    spread_allowed,
    spread_allowed_printed,
    spread_seen,
    value_nats,
)
from cushion.theorems.logs import price
from cushion.theorems.records import Bound

SAMPLE = CompressedFacts(
    m=10_000,
    delta=0.05,
    numbers=30,
    values=255,
    gamma=0.5,
    norm="l2",
    below_gamma=300,
    unsure=300,
    failed=20,
    unsure_or_failed=310,
    bits=400,
)
LAYERS = (HeavyTailLayerFacts(200, 20, 15, 3.0), HeavyTailLayerFacts(50, 10, 7))
FACTS = HeavyTailFacts(
    SAMPLE, LAYERS, epsilon=0.01, largest_score=10.0, others=4, other_values=31, tried=8
)


def rows_of(facts: HeavyTailFacts) -> dict[tuple[str, str], Bound]:
    return {(row.name, row.form): row for row in heavy_tail_rows(facts)}


@pytest.mark.parametrize("eta", [0.3, 0.05, 1e-9])
@pytest.mark.parametrize("frobenius", [1.0, 7.0])
def test_the_three_corrected_forms_are_one_statement(eta: float, frobenius: float) -> None:
    spread = spread_allowed(0.2, eta, frobenius)
    assert failure(spread, 0.2, frobenius) == pytest.approx(eta)
    assert epsilon_promised(spread, eta, frobenius) == pytest.approx(0.2)
    assert failure(spread, 0.2 * frobenius) == pytest.approx(eta)  # relative ε is ε‖W‖_F absolute


def test_the_printed_forms_are_their_equations() -> None:
    for place, factor in FACTORS.items():
        spread = spread_allowed_printed(0.2, 0.05, place)
        assert 2 / spread == pytest.approx(factor * math.log(3 / 0.05) / 0.2**2)
        assert epsilon_promised_printed(spread, 0.05, place) == pytest.approx(0.2)
    assert failure_printed(0.01, 0.3) == pytest.approx(3 * math.exp(-(0.3**2) / 0.02))
    assert failure_printed(1.0, 0.1) == failure(1.0, 0.1) == 1.0


def test_what_replaces_nothing_never_fails() -> None:
    assert failure(0.0, 0.1) == failure_printed(0.0, 0.1) == epsilon_promised(0.0, 0.05, 0.0) == 0.0
    assert epsilon_promised(1.0, 0.05, 0.0) == math.inf  # nothing is small beside a zero matrix


def test_the_corrected_tail_holds_for_every_sign_pattern() -> None:
    # All 2^9 signs of a 3x3 matrix, one by one: no draws. Magnitudes at the threshold are the worst
    # case.
    u, v = np.array([1.0, -2.0, 0.5]), np.array([0.3, 1.0, 1.0])
    length = np.linalg.norm(u) * np.linalg.norm(v)
    rng = np.random.default_rng(0)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=9))).reshape(-1, 3, 3)
    for magnitudes in (np.full((3, 3), 0.7), 0.7 * rng.random((3, 3))):
        errors = np.abs(np.einsum("i,bij,j->b", u, signs * magnitudes, v)) / length
        own = spread_seen(magnitudes, u, v, 0.0)
        assert own <= 0.7**2 + 1e-12
        for epsilon in np.linspace(0.05, 2.5, 50):
            seen = float((errors > epsilon).mean())
            assert seen <= failure(own, epsilon) <= failure(0.7**2 + 1e-12, epsilon)


def test_spread_seen_is_the_variance_given_the_magnitudes() -> None:
    rng = np.random.default_rng(1)
    magnitudes, u, v = rng.random((4, 6)), rng.normal(size=4), rng.normal(size=6)
    naive = sum(
        u[i] ** 2 * v[j] ** 2 * (magnitudes[i, j] ** 2 + 0.3)
        for i, j in itertools.product(range(4), range(6))
    )
    assert spread_seen(magnitudes, u, v, 0.3) == pytest.approx(naive / (u @ u) / (v @ v))
    signed = magnitudes * rng.choice((-1.0, 1.0), (40_000, 4, 6)) - math.sqrt(0.3) * rng.normal(
        size=(40_000, 4, 6)
    )
    assert np.var(np.einsum("i,bij,j->b", u, signed, v)) == pytest.approx(naive, rel=0.05)


def test_theorem_2_as_printed_counts_non_zeros_only() -> None:
    row = rows_of(FACTS)["heavy-tail count", "as printed"]
    assert row.value == pytest.approx(0.03 + math.sqrt(30 / 10_000))
    assert row.kind == "measure"
    assert "non-vacuous" in row.meaning
    assert "holds" in row.meaning  # ε = 0.01 is below 0.5/(√2·10)
    assert (
        "fails here"
        in rows_of(replace(FACTS, epsilon=0.036))["heavy-tail count", "as printed"].meaning
    )
    silent = rows_of(replace(FACTS, epsilon=None, silent_because="ρ is too small"))
    assert (
        "promises nothing here: ρ is too small" in silent["heavy-tail count", "as printed"].meaning
    )
    assert all(one.about == "g" for one in silent.values())


def test_theorem_2_corrected_counts_every_net_of_that_kind() -> None:
    # One layer of 4 weights, 2 kept of 3 values: C(4, 2)·3² nets. k is one of 5, r paid, the header
    # given.
    layer = HeavyTailLayerFacts(4, 2, 3, 1.5)
    nets = {
        (places, values)
        for places in itertools.combinations(range(4), 2)
        for values in itertools.product("abc", repeat=2)
    }
    assert math.exp(mask_nats(layer) + value_nats(layer)) == pytest.approx(len(nets))
    assert chosen_nats(layer) == pytest.approx(math.log(5) + price(3) + 1.5)
    row = rows_of(FACTS)["heavy-tail count", "corrected"]
    nats = math.log(math.comb(200, 20) * math.comb(50, 10)) + 20 * math.log(15) + 10 * math.log(7)
    nats += math.log(201 * 51) + price(15) + price(7) + 3.0 + 4 * math.log(31) + math.log(8)
    assert row.factors is not None
    assert row.factors["nats"] == pytest.approx(nats)
    assert row.factors["others"] == pytest.approx(4 * math.log(31) + math.log(8))
    assert row.value == pytest.approx(0.03 + 0.002 + math.sqrt((nats + math.log(20)) / 20_000))
    assert row.kind == "measure"
    assert "L̂ at γ" in row.meaning
    assert (
        "L̂ at 2γ"
        in rows_of(replace(FACTS, compressed=replace(SAMPLE, norm="largest")))[
            row.name, row.form
        ].meaning
    )


def test_the_certificates_have_the_coders_bits() -> None:
    rows = {row.name: row for row in heavy_tail_rows(FACTS) if row.kind == "certificate"}
    assert list(rows) == ["heavy-tail message, coded bits", "heavy-tail message, exact tail"]
    hoeffding = 0.03 + 0.002 + math.sqrt((400 * math.log(2) + math.log(20)) / 20_000)
    assert hoeffding <= rows["heavy-tail message, coded bits"].value <= hoeffding + 2e-6
    exact = binomial_inverse(310, 10_000, math.log(0.05) - 400 * math.log(2))
    assert exact <= rows["heavy-tail message, exact tail"].value <= exact + 2e-6
    assert all(row.about == "g" and "Shin 2021" in row.source for row in rows.values())
    silent = heavy_tail_rows(replace(FACTS, compressed=replace(SAMPLE, bits=None)))
    assert [row.abstains for row in silent] == [False, False, True, True]


def test_no_margin_no_rows() -> None:
    rows = heavy_tail_rows(replace(FACTS, compressed=replace(SAMPLE, gamma=0.0)))
    assert len(rows) == 4
    assert all(row.abstains and "not positive" in row.meaning for row in rows)


def test_an_empty_layer_costs_its_header_only() -> None:
    empty = HeavyTailLayerFacts(100, 0, 0)
    assert mask_nats(empty) == value_nats(empty) == 0.0
    assert chosen_nats(empty) == pytest.approx(math.log(101) + price(0))


def test_without_a_margin_the_counts_are_told() -> None:
    rows = rows_of(replace(FACTS, compressed=replace(SAMPLE, gamma=0.0)))
    assert (
        f"√(Σ k_i/m) alone is {math.sqrt(FACTS.nonzeros / SAMPLE.m):.4g}"
        in rows[COUNT, "as printed"].meaning
    )
    assert "nats" in rows[COUNT, "corrected"].meaning


def test_what_the_whole_net_pays_is_counted() -> None:
    plain, more = (
        rows_of(replace(FACTS, header_nats=nats))[COUNT, "corrected"] for nats in (0.0, 7.5)
    )
    assert plain.factors is not None
    assert more.factors is not None
    assert more.factors["nats"] == pytest.approx(plain.factors["nats"] + 7.5)
    assert more.value is not None
    assert plain.value is not None
    assert more.value > plain.value
