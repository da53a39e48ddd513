"""Layer cushion, activation contraction and noise sensitivity against their definitions, example by
example.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import activations, traced
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.measures.stability.effective import (
    OnePass,
    activation_contractions,
    layer_cushions,
    next_layer,
    noise_sensitivities,
)
from cushion.nets.network import Network, Node, Stage
from cushion.nets.tracing import trace

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
CHAINS = [case for case in CASES if case.chain and len(case.layers) > 1]
each_chain = pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)


def observe(net: Network, x: Tensor) -> OnePass:
    norms: OnePass = {}

    def keep(node: Node, stage: Stage, t: Tensor) -> None:
        norms[node.index, stage] = torch.linalg.vector_norm(t.flatten(1), dim=1).numpy()

    net.run(x, keep)
    return norms


def matrix(node: Node, before: Tensor) -> Tensor:
    """The layer's linear part as a dense matrix, by automatic differentiation: [outputs,
    inputs].
    """
    jacobian = torch.autograd.functional.jacobian(node.op, torch.zeros_like(before))
    assert isinstance(jacobian, Tensor)
    return jacobian.reshape(-1, before.numel())


def inputs_of(net: Network, x: Tensor, node: Node) -> list[Tensor]:
    """φ(x^{i-1}) of every example, [1, ...] each."""
    return list(activations(net, x)[node.inputs[0]].split(1))


@each_case
def test_layer_cushion_is_definition_4(case: Case) -> None:
    net, x = traced(case), case.inputs(6, torch.float64)
    norms = observe(net, x)
    for node in net.affine_layers:
        weight = float(node.affine.operator.weight.square().sum().sqrt())
        found = layer_cushions(norms, node, node.affine.operator.frobenius())
        assert found.shape == (6,)
        before_all = inputs_of(net, x, node)
        dense = matrix(node, before_all[0])
        for before, ratio in zip(before_all, found, strict=True):
            image = dense @ before.flatten()
            assert ratio == pytest.approx(
                float(image.norm() / (weight * before.norm())), rel=1e-10
            ), node.name


@each_case
def test_the_bias_has_no_part_in_the_cushion(case: Case) -> None:
    """What the bias adds is not A φ(x): the definition's A is linear."""
    net, x = traced(case), case.inputs(3, torch.float64)
    first = net.affine_layers[0]
    before = inputs_of(net, x, first)
    zero = first.op(torch.zeros_like(before[0]))  # type: ignore[operator]
    found = layer_cushions(observe(net, x), first, 1.0)
    for b, one in enumerate(before):
        assert found[b] == pytest.approx(
            float((first.op(one) - zero).norm() / one.norm()), rel=1e-9
        )  # type: ignore[operator]


@each_chain
def test_activation_contraction_is_definition_6(case: Case) -> None:
    """φ is replayed node by node from x^i to the next affine layer, pooling included."""
    net, x = traced(case), case.inputs(6, torch.float64)
    norms = observe(net, x)
    layers = net.affine_layers
    for node, after in pairwise(layers):
        assert next_layer(net, node) is after
        found = activation_contractions(norms, node, after)
        phi = whole = activations(net, x)[node.index]
        for between in net.nodes[node.index + 1 : after.index]:
            phi = between.op(phi)  # type: ignore[operator]
        for b in range(6):
            assert found[b] * float(phi[b].norm()) == pytest.approx(
                float(whole[b].norm()), rel=1e-10
            )
        # the smallest c with ‖φ(x)‖ ≥ ‖x‖/c on all of S
        c = found.max()
        assert all(
            float(phi[b].norm()) >= float(whole[b].norm()) / c * (1 - 1e-12) for b in range(6)
        )
        assert not all(
            float(phi[b].norm()) >= float(whole[b].norm()) / (c * 0.999) for b in range(6)
        )
    assert next_layer(net, layers[-1]) is None


def test_contraction_by_hand_counts_pooling_as_part_of_phi() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
        ).double()
    x = torch.randn(4, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    net = trace(module, (1, 6, 6)).double()
    conv, last = net.affine_layers
    out = module[0](x).detach()
    pooled = F.max_pool2d(out.clamp_min(0), 2)
    expected = out.flatten(1).norm(dim=1) / pooled.flatten(1).norm(dim=1)
    found = activation_contractions(observe(net, x), conv, last)
    assert np.allclose(found, expected.numpy(), rtol=1e-9)
    assert (
        found
        > (out.flatten(1).norm(dim=1) / out.clamp_min(0).flatten(1).norm(dim=1)).numpy() * 1.01
    ).all()


@each_case
def test_sensitivity_in_closed_form_is_definition_3(case: Case) -> None:
    """Proposition 3.1 against a Monte-Carlo mean, within six of its standard errors; at least the
    stable rank.
    """
    net, x = traced(case), case.inputs(2, torch.float64)
    norms = observe(net, x)
    generator = torch.Generator().manual_seed(11)
    for node in net.affine_layers:
        exact = noise_sensitivities(norms, node, node.affine.operator.operator_frobenius())
        before_all = inputs_of(net, x, node)
        dense = matrix(node, before_all[0])
        for b, before in enumerate(before_all):
            v = before.flatten()
            eta = torch.randn(2000, len(v), dtype=torch.float64, generator=generator)
            moved = (v + eta * v.norm()) @ dense.T - dense @ v
            draws = moved.square().sum(1) / (dense @ v).square().sum()
            error = float(draws.std()) / 2000**0.5
            assert abs(float(draws.mean()) - exact[b]) < 6 * error, node.name
            stable_rank = (
                float(dense.square().sum()) / float(torch.linalg.matrix_norm(dense, 2)) ** 2
            )
            assert exact[b] >= stable_rank * (1 - 1e-9)
            assert exact[b] == pytest.approx(
                float(dense.square().sum() * v.square().sum() / (dense @ v).square().sum()),
                rel=1e-9,
            )


def test_sensitivity_reaches_the_stable_rank_at_the_top_singular_vector() -> None:
    dense = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    module = nn.Sequential(nn.Linear(6, 4))
    _, singular, right = torch.linalg.svd(dense)
    with torch.no_grad():
        module[0].weight.copy_(dense)
    net = trace(module, (6,)).double()
    node = net.affine_layers[0]
    norms = observe(net, right[:1].contiguous() * 7)
    found = noise_sensitivities(norms, node, node.affine.operator.operator_frobenius())
    assert found[0] == pytest.approx(float(singular.square().sum() / singular[0] ** 2), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("residual", {"0.conv1": "0.conv2", "1.conv1": "1.conv2"}),
        ("dense", {"1.norm": "1.conv", "2.norm": "2.conv"}),
        ("methods", {"conv": "conv#2"}),
    ],
)
def test_next_layer_stops_at_forks_and_joins(name: str, expected: dict[str, str]) -> None:
    net = traced(next(case for case in CASES if case.name == name))
    found = {node.name: next_layer(net, node) for node in net.affine_layers}
    assert {node: after.name for node, after in found.items() if after is not None} == expected


def test_a_value_joined_with_itself_has_no_next_layer() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            return self.b(torch.relu(x + x))

    net = trace(Twice(), (3,))
    assert next_layer(net, net.affine_layers[0]) is None


def dead_net(bias: float) -> Network:
    """Two inputs, a hidden layer that is off for the second example, two outputs; no biases unless
    given.
    """
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        module[0].weight.copy_(torch.eye(2))
        module[0].bias.fill_(bias)
        module[2].weight.copy_(torch.tensor([[1.0, 1.0], [1.0, 1.0]]))
        module[2].bias.zero_()
    return trace(module, (2,)).double()


def test_dead_examples() -> None:
    net = dead_net(0.0)
    first, last = net.affine_layers
    x = torch.tensor([[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0]], dtype=torch.float64)
    norms = observe(net, x)
    cushions = layer_cushions(norms, first, 2**0.5)
    assert np.allclose(cushions[:2], 1 / 2**0.5)
    assert np.isnan(cushions[2])  # φ(x) = 0 constrains nothing
    contraction = activation_contractions(norms, first, last)
    assert contraction[0] == pytest.approx(1.0)
    assert contraction[1] == np.inf  # no finite c satisfies ‖0‖ ≥ 5/c
    assert np.isnan(contraction[2])
    assert np.isnan(layer_cushions(norms, last, 2.0)[1:]).all()


def test_an_input_that_the_layer_sends_to_zero_has_an_infinite_sensitivity() -> None:
    net = dead_net(0.0)
    last = net.affine_layers[1]
    with torch.no_grad():
        last.affine.operator.weight.copy_(torch.tensor([[4.0, -3.0], [4.0, -3.0]]))
    norms = observe(net, torch.tensor([[3.0, 4.0], [1.0, 0.0]], dtype=torch.float64))
    assert layer_cushions(norms, last, 50**0.5)[0] == 0.0
    found = noise_sensitivities(norms, last, 50**0.5)
    assert found[0] == np.inf
    assert found[1] == pytest.approx(50 / 32)


def test_a_layer_of_zeros_says_nothing() -> None:
    net = dead_net(0.0)
    last = net.affine_layers[1]
    last.affine.operator.weight.zero_()
    norms = observe(net, torch.ones(2, 2, dtype=torch.float64))
    assert np.isnan(layer_cushions(norms, last, 0.0)).all()
    assert np.isnan(noise_sensitivities(norms, last, 0.0)).all()
