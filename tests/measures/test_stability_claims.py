"""The paper's claims, decided from records alone: each can hold and each can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.cases import CASES

import cushion
from cushion.data.dataset import Dataset
from cushion.measures.records import MeasureTable
from cushion.measures.stability.comparison import check_claims
from cushion.records import Distribution

OPTIONS = cushion.StabilityOptions(draws=3, k=50, attenuation_draws=0)


@pytest.fixture(scope="module")
def table() -> MeasureTable:
    case = next(case for case in CASES if case.name == "vgg-tiny")
    rng = np.random.default_rng(0)
    data = Dataset(
        "noise", rng.random((12, *case.input_shape), dtype=np.float32), rng.integers(0, 3, 12), 3
    )
    return cushion.measure(case.module(), data, only="stability", stability=OPTIONS)


def scaled(spread: Distribution, factor: float) -> Distribution:
    return replace(
        spread,
        value=spread.value * factor,
        quantiles={q: value * factor for q, value in spread.quantiles.items()},
    )


def with_layers(table: MeasureTable, **factors: Any) -> MeasureTable:
    """The table with one field of each layer's spread multiplied by that layer's factor."""
    layers = list(table.layers)
    for name, values in factors.items():
        for at, factor in enumerate(values):
            spread = getattr(layers[at], name)
            layers[at] = replace(layers[at], **{name: spread and scaled(spread, factor)})
    return replace(table, layers=tuple(layers))


def held(found: MeasureTable, beside: MeasureTable) -> dict[str, bool]:
    return {claim.claim: claim.held for claim in check_claims(found, beside)}


def test_all_claims_are_looked_at(table: MeasureTable) -> None:
    assert len(held(table, table)) == 7
    for claim in check_claims(table, table):
        assert claim.found
        assert claim.threshold


def test_growth_is_counted_by_layers_and_compared_by_halves(table: MeasureTable) -> None:
    grown = with_layers(table, layer_cushion=(1.1, 1.1, 1.3, 2.0, 3.0))
    assert held(grown, table)["the layer cushion grows with training"]
    assert held(grown, table)["and most in later layers"]
    assert not held(table, grown)["the layer cushion grows with training"]
    early = with_layers(table, layer_cushion=(3.0, 3.0, 1.1, 1.1, 0.9))
    assert held(early, table)["the layer cushion grows with training"]  # 4 of 5 layers
    assert not held(early, table)["and most in later layers"]
    fewer = with_layers(table, layer_cushion=(3.0, 3.0, 1.1, 0.9, 0.9))
    assert not held(fewer, table)["the layer cushion grows with training"]


def test_contraction_has_a_threshold(table: MeasureTable) -> None:
    name = "the activation contraction is small"
    worst = max(
        layer.activation_contraction.value for layer in table.layers if layer.activation_contraction
    )
    assert held(with_layers(table, activation_contraction=[2.99 / worst] * 4), table)[name]
    assert not held(with_layers(table, activation_contraction=[3.01 / worst] * 4), table)[name]


def test_interlayer_cushions_that_reach_the_clip(table: MeasureTable) -> None:
    name = "clipping sets the minimal interlayer cushion to 1/√h in all layers but the first"
    layers = []
    for layer in table.layers:
        minimal = layer.minimal_interlayer_cushion
        assert minimal is not None
        layers.append(
            replace(layer, minimal_interlayer_cushion=replace(minimal, value=minimal.clip))
        )
    assert held(replace(table, layers=tuple(layers)), table)[name]
    second = layers[1].minimal_interlayer_cushion
    assert second is not None
    layers[1] = replace(
        layers[1], minimal_interlayer_cushion=replace(second, value=second.clip * 0.99)
    )
    assert not held(replace(table, layers=tuple(layers)), table)[name]
    layers[1], layers[0] = (
        replace(layers[1], minimal_interlayer_cushion=second),
        replace(layers[0], minimal_interlayer_cushion=replace(second, value=0.0)),
    )
    assert held(replace(table, layers=tuple(layers)), table)[
        name
    ]  # the first layer may be clipped or not


def test_beta_and_rho(table: MeasureTable) -> None:
    whole = table.net.stability
    assert whole is not None
    for beta, rho, even, small, smooth in (
        (1.2, 20.0, True, True, True),
        (2.1, 0.4, False, False, False),
        (1.9, 1.0, True, True, False),
    ):
        layers = tuple(
            replace(
                layer,
                jacobian_beta=layer.jacobian_beta and replace(layer.jacobian_beta, value=beta),
            )
            for layer in table.layers
        )
        laws = tuple(
            replace(law, value=rho, inverse=1 / rho) for law in whole.interlayer_smoothness
        )
        net = replace(table.net, stability=replace(whole, interlayer_smoothness=laws))
        answer = held(replace(table, layers=layers, net=net), table)
        assert (
            answer["the Jacobian is well distributed: β ≈ 1 for almost all convolutional layers"]
            is even
        )
        assert answer["1/ρ is a small constant"] is small
        assert answer["ρ ≥ 3d, as Theorems 4.1 and 5.1 assume"] is smooth


def test_claims_come_with_a_net_beside_and_not_without(table: MeasureTable) -> None:
    assert table.claims == ()
    assert table.beside is None
