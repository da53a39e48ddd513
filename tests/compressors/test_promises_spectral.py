"""Lemmas 1 and 9: layers' shifts against dense matrices, and bounds that no search over tiny nets
breaks.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cases import CASES
from torch import Tensor, nn

import cushion
from cushion.compressors.perturbations import LayerShift, accuracy_for, layer_shifts, lemma_9
from cushion.compressors.projection.checks import lemma_1
from cushion.data.dataset import Dataset
from cushion.measures.table import measure
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d, FlatMap
from cushion.nets.tracing import trace
from cushion.theorems.facts import NetFacts
from cushion.theorems.net_facts import gather, look_at

NAMED = {case.name: case for case in CASES}
NETS = [
    "mlp",
    "mlp-no-bias",
    "mlp-deep",
    "vgg-tiny",
    "conv-overlapping",
    "avg-pool",
    "max-pool-ceil",
    "batchnorm-first",
]


def positive() -> nn.Module:
    """All weights positive, so that no ReLU stops anything and the bound is nearly reached."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 3, bias=False))
    for part in net.parameters():
        part.data.uniform_(0.5, 1.5)
    return net


def pooled() -> nn.Module:
    """Windows that overlap, before the first layer too: Lipschitz constants above 1."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.MaxPool2d(2, 1),
        nn.Conv2d(1, 2, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


def setting(name: str) -> tuple[Network, NetFacts, Tensor]:
    if name == "positive":
        net, shape = trace(positive(), (3,)), (3,)
        x = torch.rand(12, *shape)
    elif name == "pooled":
        net, shape = trace(pooled(), (1, 5, 5)), (1, 5, 5)
        x = torch.rand(12, *shape)
    else:
        net, x = trace(NAMED[name].module(), NAMED[name].input_shape), NAMED[name].inputs(12)
    net = net.double()
    data = Dataset(name, x.numpy(), np.arange(12) % net.classes, net.classes)
    seen = look_at(net, data)
    table = measure(net, data, only=["norms", "paths"], spectra=False)
    return net, gather(net, data, seen, table, None, delta=0.05, epsilon=0.05), x.double()


def shifted(
    net: Network, facts: NetFacts, part: float, directions: list[tuple[Tensor, Tensor | None]]
) -> Network:
    """Every layer moved along its direction until ‖Δ‖₂ of (weight, bias) is this part of ‖A‖₂/d."""
    changes = {}
    for node, (weight, bias), layer in zip(
        net.affine_layers, directions, facts.layers, strict=True
    ):
        affine = node.affine
        matrix = (
            affine.operator.with_weight(weight).dense().reshape(affine.operator.output_size, -1)
        )
        if bias is not None:
            matrix = torch.cat(
                [matrix, bias.repeat_interleave(len(matrix) // len(bias))[:, None]], 1
            )
        scale = part * layer.spectral / facts.depth / float(torch.linalg.matrix_norm(matrix, 2))
        changes[node.index] = replace(
            affine,
            operator=affine.operator.with_weight(affine.operator.weight + scale * weight),
            bias=affine.bias if bias is None else affine.bias + scale * bias,
        )
    return net.with_affine(changes)


def drawn(net: Network, generator: torch.Generator) -> list[tuple[Tensor, Tensor | None]]:
    found = []
    for node in net.affine_layers:
        weight, bias = node.affine.operator.weight, node.affine.bias
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        found.append(
            (
                direction,
                None
                if bias is None
                else torch.randn(len(bias), generator=generator, dtype=torch.float64),
            )
        )
    return found


def gap(net: Network, other: Network, x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(other.evaluate(x) - net.evaluate(x), dim=1)


@pytest.mark.parametrize("name", [*NETS, "positive", "pooled"])
def test_no_perturbation_within_the_condition_exceeds_lemma_9(name: str) -> None:
    net, facts, x = setting(name)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.linalg.vector_norm(x.flatten(1), dim=1).numpy()
    worst = 0.0
    for trial in range(6):
        directions = drawn(net, generator)
        if trial % 2:  # along the weights themselves: everything adds up
            directions = [(n.affine.operator.weight, n.affine.bias) for n in net.affine_layers]
        other = shifted(net, facts, 0.4 + 0.09 * trial, directions)
        shifts = layer_shifts(net, other, facts)
        promised = lemma_9(shifts, facts, lengths)
        assert promised is not None
        for _ in range(8):  # the inputs that move most: gradient ascent at their own length
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(gap(net, other, x).sum(), x)
            step = x + 0.5 * slope / (
                slope.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.ndim - 1)) + 1e-30
            )
            size = step.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.ndim - 1))
            x = (step / size * torch.from_numpy(lengths).reshape(-1, *[1] * (x.ndim - 1))).detach()
        ratio = gap(net, other, x).detach().numpy() / promised
        worst = max(worst, float(ratio.max()))
    assert 0 < worst <= 1
    if name == "positive":  # not vacuous: e against (1 + 1/2)² - 1 = 1.25 of 2·½·e
        assert worst > 0.3


def test_lemma_9_by_its_formula() -> None:
    net, facts, _ = setting("mlp-no-bias")
    other = shifted(net, facts, 0.5, [(n.affine.operator.weight, None) for n in net.affine_layers])
    norms = [
        float(torch.linalg.matrix_norm(n.affine.operator.weight, 2)) for n in net.affine_layers
    ]
    # Every layer moves by a quarter of itself: e · ‖x‖ · ∏‖A‖ · (1/4 + 1/4)
    expected = math.e * 3.0 * math.prod(norms) * 0.5
    found = lemma_9(layer_shifts(net, other, facts), facts, np.array([3.0]))
    assert found is not None
    assert expected <= found[0] <= expected * (1 + 1e-3)
    beyond = shifted(
        net, facts, 1.01, [(n.affine.operator.weight, None) for n in net.affine_layers]
    )
    # beyond ‖A‖/d it is silent
    assert lemma_9(layer_shifts(net, beyond, facts), facts, np.array([3.0])) is None
    same = lemma_9(layer_shifts(net, net, facts), facts, np.array([3.0]))
    assert same is not None
    assert same[0] == 0.0


def test_with_biases_and_pooling_every_factor_is_there() -> None:
    net, facts, _ = setting("pooled")
    other = shifted(
        net, facts, 0.7, [(n.affine.operator.weight, n.affine.bias) for n in net.affine_layers]
    )
    shifts = layer_shifts(net, other, facts)
    product, total = 1.0, 0.0
    for at, node in enumerate(net.affine_layers):
        affine = node.affine
        dense = affine.operator.dense()
        assert affine.bias is not None
        bias = affine.bias.repeat_interleave(len(dense) // len(affine.bias))
        moved = other.nodes[node.index].affine
        assert moved.bias is not None
        moved_bias = moved.bias.repeat_interleave(len(dense) // len(affine.bias)) - bias
        size = float(torch.linalg.matrix_norm(dense, 2))
        blocks = torch.tensor([[size, float(bias.norm())], [0.0, 1.0]], dtype=torch.float64)
        lifted = float(
            torch.linalg.matrix_norm(blocks[: 1 if at else 2], 2)
        )  # the last has no constant to pass on
        shift = math.hypot(
            float(torch.linalg.matrix_norm(moved.operator.dense() - dense, 2)),
            float(moved_bias.norm()),
        )
        assert shifts[at].lifted == pytest.approx(lifted, rel=1e-4)
        assert shifts[at].lifted_shift == pytest.approx(shift, rel=1e-4)
        product, total = product * lifted, total + shift / lifted
    # Both poolings read a number in up to 4 windows: a factor 2 each. The input is (x, 1).
    found = lemma_9(shifts, facts, np.array([2.0]))
    assert found is not None
    assert found[0] == pytest.approx(
        math.e * math.hypot(2.0, 1.0) * 2 * 2 * product * total, rel=1e-3
    )


@pytest.mark.parametrize("name", [*NETS, "pooled"])
@pytest.mark.parametrize("gamma", [0.5, 1e-4])
def test_the_accuracy_that_follows_from_the_margin_keeps_it(name: str, gamma: float) -> None:
    """On every input up to the radius, for the worst that a layer may do: random directions and its
    own.
    """
    net, facts, x = setting(name)
    longest = float(torch.linalg.vector_norm(x.flatten(1), dim=1).max())
    delta = accuracy_for(gamma, facts, longest)
    assert 0 < delta <= 1 / facts.depth
    generator = torch.Generator().manual_seed(1)
    inputs = torch.cat(
        [x, torch.randn(200, *x.shape[1:], generator=generator, dtype=torch.float64)]
    )
    size = inputs.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.ndim - 1))
    inputs = inputs / size * longest
    for trial in range(4):
        own = [(n.affine.operator.weight, n.affine.bias) for n in net.affine_layers]
        other = shifted(
            net, facts, delta * facts.depth, own if trial == 0 else drawn(net, generator)
        )
        assert float(gap(net, other, inputs).max()) <= gamma / math.sqrt(2)
    half = accuracy_for(gamma / 2, facts, longest)
    assert half == pytest.approx(delta / 2) or delta == pytest.approx(1 / facts.depth)


def test_the_accuracy_by_its_formula() -> None:
    net, facts, _ = setting("mlp-no-bias")
    norms = [
        float(torch.linalg.matrix_norm(n.affine.operator.weight, 2)) for n in net.affine_layers
    ]
    expected = 1e-3 / (math.sqrt(2) * math.e * 2.0 * 2 * math.prod(norms))
    assert accuracy_for(1e-3, facts, 2.0) == pytest.approx(expected, rel=1e-4)
    assert accuracy_for(1e-3, facts, 2.0) <= expected  # norms are taken from above
    assert accuracy_for(1e9, facts, 2.0) == 0.5
    assert accuracy_for(1e9, facts, 0.0) == 0.5  # all inputs are 0, and so are all scores
    assert accuracy_for(1e-300, facts, 1e300) > 0
    still = replace(facts, layers=(replace(facts.layers[0], spectral_upper=0.0), facts.layers[1]))
    assert accuracy_for(1e-3, still, 2.0) == 0.5


# ---- Lemma 1


@pytest.mark.parametrize(
    "name", ["vgg-tiny", "conv-everything", "conv-dilation-stride", "batchnorm-first"]
)
@pytest.mark.parametrize("flat", [False, True])
def test_shifts_are_those_of_the_true_maps(name: str, flat: bool) -> None:
    net, facts, _ = setting(name)
    other = shifted(net, facts, 0.9, drawn(net, torch.Generator().manual_seed(2)))
    if flat:  # what a truncated true map is: a matrix between feature maps, with the same bias
        changes = {}
        for node in net.affine_layers:
            affine = other.nodes[node.index].affine
            operator = affine.operator
            if isinstance(operator, Conv2d):
                matrix = FlatMap(operator.dense(), operator.input_shape, operator.output_shape)
                changes[node.index] = replace(affine, operator=matrix)
        other = other.with_affine(changes)
    for node, shift, layer in zip(
        net.affine_layers, layer_shifts(net, other, facts), facts.layers, strict=True
    ):
        mine, theirs = node.affine.operator.dense(), other.nodes[node.index].affine.operator.dense()
        exact = float(torch.linalg.matrix_norm((theirs - mine).reshape(len(mine), -1), 2))
        assert exact <= shift.shift <= exact * (1 + 1e-3)  # from above
        norm = float(torch.linalg.matrix_norm(mine, 2))
        assert norm * (1 - 1e-6) <= shift.spectral <= norm * (1 + 1e-9)  # from below
        assert shift.relative == shift.shift / shift.spectral
        places = math.prod(node.shape[1:])
        ours, moved = node.affine.bias, other.nodes[node.index].affine.bias
        bias = (
            0.0
            if ours is None or moved is None
            else math.sqrt(places) * float((moved - ours).norm())
        )
        assert shift.lifted_shift == pytest.approx(math.hypot(shift.shift, bias), rel=1e-9)
        assert shift.lifted >= layer.spectral


def test_lemma_1_as_one_check() -> None:
    shifts = [
        LayerShift(0.1, 2.0, 0.1, 2.0),
        LayerShift(0.3, 1.0, 0.3, 1.0),
        LayerShift(0.0, 0.0, 0.0, 0.0),
    ]
    held = lemma_1(shifts, [0.05, 0.4, None])
    assert held.own == ((0.05, pytest.approx(1.0)), (0.4, pytest.approx(0.75)), None)
    assert (held.check.held, held.check.worst_ratio, held.check.cases) == (
        True,
        pytest.approx(1.0),
        2,
    )
    broken = lemma_1(shifts, [0.05, 0.2, 0.1])
    assert (broken.check.held, broken.check.worst_ratio) == (False, pytest.approx(1.5))
    assert broken.own[2] == (0.1, 0.0)  # a zero map that stayed one
    assert LayerShift(0.1, 0.0, 0.1, 0.0).relative == math.inf
    given = lemma_1(shifts, [None, None, None])
    assert (given.check.held, given.check.worst_ratio, given.check.cases) == (None, None, 0)


def test_the_whole_way_from_the_margin() -> None:
    """The compressor's layers keep the margin on inputs that it never saw."""
    net, _, x = setting("mlp")
    data = Dataset("mlp", x.float().numpy(), np.arange(12) % 4, 4)
    found = cushion.compress(NAMED["mlp"].module(), data, method="low-rank", gamma=0.2)
    longest = float(torch.linalg.vector_norm(x, dim=1).max())
    inputs = torch.randn(500, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    inputs = inputs / inputs.norm(dim=1, keepdim=True) * longest
    moved = gap(net, found.net.network.double(), inputs)  # type: ignore[union-attr]
    assert 0 < float(moved.max()) <= 0.2 / math.sqrt(2)
    assert found.summary.promise is not None
    assert found.summary.promise.held
