"""The rows of Guha 2023 for a pruned net: counts against enumeration, values against their formulas
by hand.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from cushion.theorems.compression import CompressedFacts, corollary_a_1
from cushion.theorems.logs import price
from cushion.theorems.pruning import kept_by_d2_d3
from cushion.theorems.pruning_bounds import (
    PrunedFacts,
    PrunedLayerFacts,
    chosen_nats,
    log_root,
    mask_nats,
    naive_nats,
    naive_nats_printed,
    pruning_rows,
    sketch_nats,
    sketch_nats_printed,
    sketch_numbers,
)
from cushion.theorems.records import Bound

SAMPLE = CompressedFacts(
    m=60_000,
    delta=0.05,
    numbers=5000,
    values=31,
    gamma=1.5,
    norm="l2",
    below_gamma=600,
    unsure=600,
    failed=300,
    unsure_or_failed=850,
    bits=40_000,
)
LAYERS = (
    PrunedLayerFacts(
        rows=300,
        columns=784,
        nonzeros=4000,
        chi=0.02,
        rho=2.0**-5,
        values=30,
        row_most=40,
        column_most=22,
        share=60.0,
    ),
    PrunedLayerFacts(
        rows=10,
        columns=300,
        nonzeros=500,
        chi=0.02,
        rho=2.0**-3,
        values=12,
        row_most=80,
        column_most=6,
        share=60.0,
    ),
)
FACTS = PrunedFacts(
    SAMPLE, LAYERS, measured=False, gamma_needed=7.0, tried=6, others=310, other_values=2**16 - 1
)


def rows_of(found: PrunedFacts) -> dict[tuple[str, str], Bound]:
    rows = pruning_rows(found)
    assert all(row.about == "g" for row in rows)
    keyed = {(row.name, row.form): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


@pytest.mark.parametrize(
    ("size", "nonzeros", "levels"), [(4, 2, 1), (5, 3, 2), (6, 0, 2), (3, 3, 1), (7, 1, 3)]
)
def test_the_naive_count_is_the_number_of_sparse_matrices(
    size: int, nonzeros: int, levels: int
) -> None:
    layer = PrunedLayerFacts(1, size, nonzeros, 0.5, 0.5, 2 * levels, nonzeros, 1, 1.0)
    values = range(-levels, levels + 1)
    listed = [
        one
        for one in itertools.product(values, repeat=size)
        if sum(v != 0 for v in one) == nonzeros
    ]
    assert math.exp(naive_nats(layer)) == pytest.approx(len(listed), rel=1e-9)
    masks = {tuple(v != 0 for v in one) for one in listed}
    assert math.exp(mask_nats(layer)) == pytest.approx(len(masks), rel=1e-9)


def test_what_was_chosen_afterwards_is_paid_so_that_all_messages_together_weigh_at_most_one() -> (
    None
):
    # For each J, r and exponent there are e^naive messages, each of weight e^-(naive + chosen): the
    # sum over all of them is that of e^-chosen over the three choices.
    total = 0.0
    for j, r, exponent in itertools.product(range(7), range(40), range(-40, 41)):
        layer = PrunedLayerFacts(2, 3, j, 0.5, 2.0**exponent, r, 1, 1, 1.0)
        total += math.exp(-chosen_nats(layer))
    assert 0.4 < total <= 1.0  # r and exponents beyond these have the rest
    assert chosen_nats(LAYERS[0]) == pytest.approx(math.log(300 * 784 + 1) + price(30) + price(-5))


def test_the_sketch_has_the_square_of_its_side_in_numbers() -> None:
    layer = LAYERS[1]
    side = math.sqrt(80 * 300) * math.log(300)
    assert sketch_numbers(layer) == math.ceil(side**2 - 1e-6)
    assert sketch_nats(layer) == pytest.approx(sketch_numbers(layer) * math.log(12))
    assert sketch_numbers(replace(layer, row_most=3)) == math.ceil(6 * 300 * math.log(300) ** 2)


def test_values_by_hand() -> None:
    rows = rows_of(FACTS)
    m = 60_000
    first = 3 * 60 * 0.02 * 300 * 784 * math.log(784) ** 2 * 5 * math.log(2)
    second = 3 * 60 * 0.02 * 3000 * math.log(300) ** 2 * 3 * math.log(2)
    printed = rows["sketch count", "as printed"]
    assert printed.value == pytest.approx(0.01 + math.sqrt((first + second) / m), rel=1e-9)
    assert printed.kind == "measure"
    assert printed.vacuous
    assert "Lemma 4.4 asks for 7" in printed.meaning
    assert "fails here" in printed.meaning
    plotted = rows["sketch count", "as plotted"]
    assert plotted.value == pytest.approx(0.01 + math.sqrt((first + second) / 60 / m), rel=1e-9)
    assert plotted.capacity == pytest.approx((first + second) / 60)
    assert plotted.factors["ln"] == pytest.approx(math.log(plotted.value))

    choose = [math.log(math.comb(300 * 784, 4000)), math.log(math.comb(3000, 500))]
    lemma = rows["naive count", "as printed"]
    nats = sum(choose) + 4000 * 5 * math.log(2) + 500 * 3 * math.log(2)
    assert lemma.value == pytest.approx(0.01 + math.sqrt(nats / m), rel=1e-9)
    counted = sum(choose) + 4000 * math.log(30) + 500 * math.log(12)
    union = rows["naive count, with its δ", "as printed"]
    assert union.value == pytest.approx(
        0.01 + math.sqrt((counted + math.log(20)) / (2 * m)), rel=1e-9
    )

    # Corrected: failures are counted, the best of six settings and every bias is paid.
    chosen = sum(map(chosen_nats, LAYERS))
    paid = counted + chosen + 310 * math.log(2**16 - 1) + math.log(6)
    corrected = rows["naive count", "corrected"]
    assert corrected.value == pytest.approx(
        0.01 + 0.005 + math.sqrt((paid + math.log(20)) / (2 * m)), rel=1e-9
    )
    assert corrected.factors["price"] == pytest.approx(math.log(6))
    sketched = sum(map(sketch_nats, LAYERS))
    paid = sketched + 310 * math.log(2**16 - 1) + math.log(6)
    sketch = rows["sketch count", "corrected"]
    assert sketch.value == pytest.approx(
        0.01 + 0.005 + math.sqrt((paid + math.log(20)) / (2 * m)), rel=1e-9
    )
    assert sketch.kind == "measure"
    assert "up to the constant of Theorem 5.1" in sketch.meaning
    assert sketch.factors["over_naive"] == pytest.approx(sketched / counted)
    assert printed.factors["over_naive"] == pytest.approx((first + second) / counted)


def test_the_coder_s_rows_are_corollary_a_1_of_arora_and_pay_for_no_choice() -> None:
    rows = rows_of(FACTS)
    theirs = [row for row in corollary_a_1(SAMPLE) if row.kind == "certificate"]
    ours = [
        rows["mask and values, coded bits", "corrected"],
        rows["mask and values, exact tail", "corrected"],
    ]
    assert [row.kind for row in ours] == ["certificate", "certificate"]
    assert [row.value for row in ours] == [row.value for row in theirs]
    many = rows_of(replace(FACTS, tried=60))
    assert many["mask and values, exact tail", "corrected"] == ours[1]
    assert many["naive count", "corrected"].value > rows["naive count", "corrected"].value
    assert many["naive count", "as printed"] == rows["naive count", "as printed"]
    measures = [row for row in rows.values() if row.name not in {one.name for one in ours}]
    assert {row.kind for row in measures} == {"measure"}


def test_a_grid_as_coarse_as_one_has_no_printed_count() -> None:
    coarse = replace(FACTS, layers=(LAYERS[0], replace(LAYERS[1], rho=1.0)))
    rows = rows_of(coarse)
    for name, form in (
        ("sketch count", "as printed"),
        ("sketch count", "as plotted"),
        ("naive count", "as printed"),
    ):
        assert rows[name, form].abstains
        assert "ρ = 1" in rows[name, form].meaning
    assert not rows["naive count", "corrected"].abstains
    assert not rows["sketch count", "corrected"].abstains
    # A layer of which nothing is left counts for nothing, whatever its grid.
    empty = replace(LAYERS[1], rho=1.0, nonzeros=0, values=0, row_most=0, column_most=0, chi=0.02)
    rows = rows_of(replace(FACTS, layers=(LAYERS[0], empty)))
    assert not rows["sketch count", "as printed"].abstains
    assert (
        sketch_nats_printed(empty, 60.0)
        == sketch_nats(empty)
        == naive_nats(empty)
        == naive_nats_printed(empty)
        == 0
    )


def test_without_a_margin_every_row_says_so() -> None:
    rows = pruning_rows(replace(FACTS, compressed=replace(SAMPLE, gamma=0.0)))
    assert all(row.abstains and "not positive" in row.meaning for row in rows)
    assert len(rows) == len(pruning_rows(FACTS))


def test_words() -> None:
    expected = rows_of(FACTS)["sketch count", "as printed"].meaning
    assert "Assumption 3.1)," in expected
    doubted = rows_of(replace(FACTS, normal=False))["sketch count", "as printed"].meaning
    assert "though the weights are not" in doubted
    rows = rows_of(replace(FACTS, measured=True, gamma_needed=None, tried=1))
    assert "χ as measured" in rows["sketch count", "as printed"].meaning
    assert "moved by more than ‖A‖₂/L" in rows["naive count", "as printed"].meaning
    assert "settings" not in rows["naive count", "corrected"].meaning
    holds = rows_of(replace(FACTS, gamma_needed=1.0))["naive count", "as printed"].meaning
    assert "holds" in holds
    largest = rows_of(replace(FACTS, compressed=replace(SAMPLE, norm="largest")))
    assert "L̂ at 2γ" in largest["naive count", "corrected"].meaning


def test_theorem_d_1_is_hoeffding_with_a_union_over_j() -> None:
    # J·exp(-2τ²n) = δ at τ = √(ln √(J/δ)/n).
    count, delta, n = 1234.0, 0.01, 500
    tau = math.sqrt(log_root(math.log(count), delta) / n)
    assert count * math.exp(-2 * tau**2 * n) == pytest.approx(delta)


def test_what_lemmas_d2_and_d3_allow_stands_beside_the_count() -> None:
    d = 2 * 0.98**2 / (1 - 0.98**2)  # χ = 0.02
    allowed = sum(kept_by_d2_d3(layer.rows, layer.columns, d, 0.5, 0.05 / 2) for layer in LAYERS)
    text = rows_of(FACTS)["naive count", "as printed"].meaning
    assert f"D.2 and D.3 at κ = ½ allow {allowed}, here there are 4500" in text
    assert "D.2" not in rows_of(replace(FACTS, measured=True))["naive count", "as printed"].meaning
