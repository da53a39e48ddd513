"""Nets scaled to match: norms layer by layer, scores up to one positive factor, cushions
unchanged.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from torch import Tensor, nn

import cushion
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.records import MeasureTable
from cushion.measures.stability.comparison import check_alike, random_like, scaled_to_match
from cushion.measures.stability.family import StabilityOptions
from cushion.nets.network import Network
from cushion.nets.tracing import trace

CHAINS = [case for case in CASES if case.chain]
each_chain = pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
QUICK = StabilityOptions(draws=0, attenuation_draws=0, method="exact")


def other_weights(case: Case) -> nn.Module:
    """The same architecture with weights and biases of its own."""
    module = case.module()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return module


def both(case: Case) -> tuple[Network, Network]:
    return (
        trace(case.module(), case.input_shape).double(),
        trace(other_weights(case), case.input_shape).double(),
    )


def norms(net: Network) -> list[float]:
    return [float(node.affine.operator.weight.double().norm()) for node in net.affine_layers]


def biases(net: Network) -> list[Tensor | None]:
    return [node.affine.bias for node in net.affine_layers]


@each_chain
def test_scores_are_a_positive_multiple_and_norms_match(case: Case) -> None:
    net, other = both(case)
    kept = [
        node.affine.operator.weight.clone() for node in (*net.affine_layers, *other.affine_layers)
    ]
    found = scaled_to_match(net, other)
    assert norms(found) == pytest.approx(norms(net), rel=1e-9)
    assert norms(other) != pytest.approx(norms(net), rel=1e-3)
    after = [node.affine.operator.weight for node in (*net.affine_layers, *other.affine_layers)]
    assert all(
        torch.equal(a, b) for a, b in zip(kept, after, strict=True)
    )  # neither net was written to
    x = case.inputs(6, torch.float64)
    factor = math.prod(mine / own for mine, own in zip(norms(net), norms(other), strict=True))
    assert factor > 0
    assert torch.allclose(
        found.forward(x), factor * other.forward(x), rtol=1e-8, atol=1e-10 * factor
    )
    for a, b in zip(
        found.affine_layers, other.affine_layers, strict=True
    ):  # directions stay those of the other net
        mine, own = a.affine.operator.weight, b.affine.operator.weight
        assert torch.allclose(mine, own * float(mine.norm() / own.norm()), rtol=1e-9)


@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny", "conv-overlapping", "batchnorm-first"])
def test_cushions_do_not_see_the_scales(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    net, other = (
        trace(case.module(), case.input_shape),
        trace(other_weights(case), case.input_shape),
    )
    data = Dataset("noise", case.inputs(8).numpy(), np.arange(8) % 2, 2)
    mine, theirs = (
        cushion.measure(which, data, only="stability", stability=QUICK)
        for which in (scaled_to_match(net, other), other)
    )
    for a, b in zip(mine.layers, theirs.layers, strict=True):
        assert a.layer_cushion is not None
        assert b.layer_cushion is not None
        assert a.layer_cushion.value == pytest.approx(b.layer_cushion.value, rel=1e-4)
        assert a.minimal_interlayer_cushion is not None
        assert b.minimal_interlayer_cushion is not None
        assert a.minimal_interlayer_cushion.value == pytest.approx(
            b.minimal_interlayer_cushion.value, rel=1e-3
        )
        for one, two in zip(
            a.interlayer_cushion.pairs if a.interlayer_cushion else (),
            b.interlayer_cushion.pairs if b.interlayer_cushion else (),
            strict=True,
        ):
            assert one.value == pytest.approx(two.value, rel=1e-3)
            assert one.bias_gap == pytest.approx(two.bias_gap, rel=1e-2, abs=1e-4)


def test_the_net_beside_is_the_one_that_was_asked_for() -> None:
    """Cushions do not see scales: beside init they are those of the initialisation, beside random
    those of no net.
    """
    case = next(case for case in CASES if case.name == "vgg-tiny")
    module, start = case.module(), other_weights(case)
    data = Dataset("noise", case.inputs(8).numpy(), np.arange(8) % 2, 2)

    def cushions(table: MeasureTable | None) -> list[float]:
        assert table is not None
        return [
            layer.layer_cushion.value for layer in table.layers if layer.layer_cushion is not None
        ]

    def measured(which: nn.Module | Network, **more: Any) -> MeasureTable:
        return cushion.measure(which, data, only="stability", stability=QUICK, **more)

    own, first = cushions(measured(module)), cushions(measured(start))
    drawn = cushions(measured(random_like(trace(module, case.input_shape), QUICK.seed)))
    beside_init = measured(module, init=start, beside="init")
    beside_random = measured(module, init=start, beside="random")
    assert cushions(beside_init) == cushions(beside_random) == own
    assert cushions(beside_init.beside) == pytest.approx(first, rel=1e-4)
    assert cushions(beside_random.beside) == pytest.approx(drawn, rel=1e-4)
    assert cushions(measured(module, beside="random").beside) == pytest.approx(drawn, rel=1e-4)
    assert first != pytest.approx(drawn, rel=1e-2)
    assert first != pytest.approx(own, rel=1e-2)


def test_a_layer_of_zeros_stays_zero() -> None:
    case = next(case for case in CASES if case.name == "mlp")
    net, other = both(case)
    other.affine_layers[0].affine.operator.weight.zero_()
    found = scaled_to_match(net, other)
    assert not found.affine_layers[0].affine.operator.weight.any()
    assert torch.isfinite(found.affine_layers[1].affine.operator.weight).all()


@each_case
def test_random_like_keeps_architecture_and_norms(case: Case) -> None:
    net = trace(case.module(), case.input_shape)
    found, again, other = random_like(net, 3), random_like(net, 3), random_like(net, 4)
    assert norms(found) == pytest.approx(norms(net), rel=1e-5)
    assert biases(found) == [None] * len(net.affine_layers)
    assert [node.name for node in found.nodes] == [node.name for node in net.nodes]
    assert found.forward(case.inputs(2)).shape == net.forward(case.inputs(2)).shape
    for a, b, c, old in zip(
        found.affine_layers,
        again.affine_layers,
        other.affine_layers,
        net.affine_layers,
        strict=True,
    ):
        assert a.affine.operator.weight.shape == old.affine.operator.weight.shape
        assert torch.equal(a.affine.operator.weight, b.affine.operator.weight)
        assert not torch.allclose(a.affine.operator.weight, c.affine.operator.weight)
        assert not torch.allclose(a.affine.operator.weight, old.affine.operator.weight)


def test_random_weights_are_gaussian_and_layers_differ() -> None:
    module = nn.Sequential(nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 60))
    found = random_like(trace(module, (60,)), 0)
    first, second = (node.affine.operator.weight.double().flatten() for node in found.affine_layers)
    for weight in (first, second):
        unit = weight / weight.std()
        n = unit.numel()
        assert abs(float(unit.mean())) < 6 / math.sqrt(n)
        assert abs(float((unit**4).mean()) - 3) < 6 * math.sqrt(96 / n)
    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 6 / math.sqrt(3600)


def shape_net(*layers: nn.Module) -> Network:
    return trace(nn.Sequential(*layers), (1, 6, 6))


ALIKE = (nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))


@pytest.mark.parametrize(
    "other",
    [
        (nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)),
        (nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)),
        (nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2)),
        (nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2), nn.ReLU(), nn.Linear(2, 2)),
        (nn.Flatten(), nn.Linear(36, 2)),
    ],
)
def test_nets_with_other_layers_are_refused(other: tuple[nn.Module, ...]) -> None:
    with pytest.raises(BadInput, match=r"^the start has other layers than the net"):
        check_alike(shape_net(*ALIKE), shape_net(*other), "the start")


def test_alike_nets_pass() -> None:
    check_alike(shape_net(*ALIKE), shape_net(*ALIKE), "the start")
    assert shape_net(*ALIKE).is_chain


def test_measure_refuses_an_initialisation_of_another_net() -> None:
    data = Dataset("noise", np.zeros((4, 1, 6, 6), np.uint8), np.arange(4) % 2, 2)
    with pytest.raises(BadInput, match="the initialisation has other layers"):
        cushion.measure(
            nn.Sequential(*ALIKE), data, init=nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
        )
