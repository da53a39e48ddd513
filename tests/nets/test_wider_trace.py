"""Operations beyond those of ReLU nets: against torch's own Jacobians, sums over single paths, and
slopes on a grid; and what is refused where a premise fails.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.cases import WIDER, Case, traced
from torch import Tensor, nn

from cushion.compressors.file import describe_graph, rebuild_graph
from cushion.errors import Unsupported
from cushion.measures.norms.paths import path_norms
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operations.elementwise import Elementwise
from cushion.nets.operations.selections import Selection
from cushion.nets.tracing import support, trace
from cushion.theorems.net_facts import decisions

torch.set_num_threads(1)
EVERY = pytest.mark.parametrize("case", WIDER, ids=lambda case: case.name)


@EVERY
def test_traced_net_equals_module(case: Case) -> None:
    module, net = case.module(), case.network()
    kinds = "".join(node.affine.kind[0] for node in net.affine_layers)
    assert (kinds, net.is_chain) == (case.layers, case.chain)
    x = case.inputs(dtype=torch.float64)
    with torch.no_grad():
        expected = module.double()(x)
    torch.testing.assert_close(net.double().forward(x), expected, rtol=1e-5, atol=1e-5)
    assert support(module, case.input_shape).understood


def _after(net: Network, first: Node, x: Tensor) -> tuple[Tensor, Tensor]:
    """The Jacobian of the logits with respect to the output of `first`, by torch: [B, out, in]."""
    values = {0: x}
    for node in net.nodes[1:]:
        values[node.index] = node.op(*(values[i] for i in node.inputs))

    def rest(t: Tensor) -> Tensor:
        changed = {**values, first.index: t}
        for node in net.nodes[first.index + 1 :]:
            if any(changed[i] is not values[i] for i in node.inputs):
                changed[node.index] = node.op(*(changed[i] for i in node.inputs))
        return changed[net.nodes[-1].index].flatten(1)

    start = values[first.index]
    whole = torch.autograd.functional.jacobian(rest, start)
    each = torch.stack([whole[b, :, b] for b in range(len(x))])
    return values[net.nodes[-1].index], each.flatten(2)


@EVERY
def test_derivatives_are_torchs(case: Case) -> None:
    net, x = case.network().double(), case.inputs(3, torch.float64)
    if not isinstance(net.nodes[-1].op, Affine):  # vectors are shown where affine layers end
        net = _closed(net)
    line, first, last = Linearisation(net, x), net.affine_layers[0], net.affine_layers[-1]
    if first is last:
        return
    scores, jacobian = _after(net, first, x)
    torch.testing.assert_close(line.scores, scores)
    basis = torch.eye(first.affine.operator.output_size, dtype=torch.float64)
    found: dict[int, Tensor] = {}
    keep = lambda node, v: found.update({node.index: v.clone()})  # noqa: E731
    line.push(first, basis.reshape(-1, 1, *first.shape), keep)
    torch.testing.assert_close(found[last.index].flatten(2).permute(1, 2, 0), jacobian)
    rows = torch.eye(last.affine.operator.output_size, dtype=torch.float64)
    line.pull(last, rows.reshape(-1, 1, *last.shape), keep)
    torch.testing.assert_close(found[first.index].flatten(2).permute(1, 0, 2), jacobian)
    if (answer := line.pull_energy(last)) is not None:
        source, energy = answer
        _, own = _after(net, source, x)
        torch.testing.assert_close(energy.flatten(1), own.square().sum(1))


def _closed(net: Network) -> Network:
    """The net up to its last affine layer."""
    return Network(net.nodes[: net.affine_layers[-1].index + 1])


@pytest.mark.parametrize("name", ["leakyrelu", "prelu", "shuffled", "unet", "volume", "circular"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_path_norms_sum_over_single_paths(name: str, p: float) -> None:
    """An input of ones through |w|^p, with activations as the identity; means divide by n^p."""
    net = traced(name).double()
    values = {0: torch.ones(1, *net.input_shape, dtype=torch.float64)}
    for node in net.nodes[1:]:
        inputs = [values[i] for i in node.inputs]
        if isinstance(node.op, Affine):
            operator = node.op.operator
            weight = operator.weight.abs() ** p
            values[node.index] = operator.with_weight(weight).apply(*inputs)
        elif node.op.linear:
            scale = 1.0
            if type(node.op).__name__ == "AdaptiveAvgPool":
                scale = (inputs[0].numel() / node.op(*inputs).numel()) ** (1 - p)
            values[node.index] = node.op(*inputs) * scale
        else:
            assert node.op.contracts
            values[node.index] = inputs[0]
    (found,) = path_norms(net, [p])
    total = float(values[net.nodes[-1].index].sum())
    assert 10**found.log10 == pytest.approx(total ** (1 / p), rel=1e-9)


@EVERY
def test_no_slope_exceeds_the_lipschitz_constant(case: Case) -> None:
    for node in case.network().double().nodes:
        shape = case.network().nodes[node.inputs[0]].shape if node.inputs else ()
        if isinstance(node.op, Elementwise):
            channels = shape[0]
            x = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
            x = x[:, None].expand(-1, channels).reshape(-1, channels, *(1 for _ in shape[1:]))
            _, step = node.op.linearise(x.contiguous())
            steepest = float(step.mask.abs().max())
            assert steepest <= node.op.lipschitz(shape)[0] <= steepest * (1 + 1e-3)
        elif isinstance(node.op, Selection):
            ones = torch.eye(int(np.prod(shape)), dtype=torch.float64).reshape(-1, *shape)
            matrix = node.op(ones).flatten(1).numpy()
            assert np.linalg.norm(matrix, 2) <= node.op.lipschitz(shape)[0] * (1 + 1e-12)
            assert set(np.unique(matrix)) <= {0.0, 1.0}
            assert node.op.feeds_one(shape) == (matrix.sum(1).max() <= 1)


@EVERY
def test_a_stored_graph_is_rebuilt(case: Case) -> None:
    text = json.dumps(describe_graph(case.network()))
    again = rebuild_graph(json.loads(text), "it")
    assert json.dumps(describe_graph(again)) == text
    assert [node.shape for node in again.nodes] == [node.shape for node in case.network().nodes]


CURVED = ("gelu", "gelu-tanh", "silu", "mish", "tanh", "sigmoid", "softplus", "softsign")
BENT = ("relu6", "hardtanh", "hardsigmoid")


@pytest.mark.parametrize("name", [*CURVED, *BENT, "hardswish", "elu", "celu", "selu", "logsigmoid"])
def test_where_a_premise_fails_the_layer_and_the_premise_are_named(name: str) -> None:
    net = traced(name)
    said = r"^a path norm holds for .* only: 1 \(\w+\) is not positively homogeneous with slopes"
    with pytest.raises(Unsupported, match=said):
        path_norms(net, [2.0])
    said = r"^noise stability .*: 1 \(\w+\) is not positively homogeneous: f\(c x\) = c f\(x\)"
    with pytest.raises(Unsupported, match=said):
        net.require("homogeneous", "noise stability")
    if name in BENT:
        assert [level.count for level in decisions(net)] == [12, 6]  # two bends a unit
    else:
        with pytest.raises(Unsupported, match=r"^the bound by .*: 1 \(\w+\) is not piecewise"):
            decisions(net)


def test_a_leaky_relu_keeps_every_premise_unless_it_is_steep_or_a_theorem_is_about_relu() -> None:
    gentle, steep = (
        traced("leakyrelu"),
        trace(nn.Sequential(nn.Linear(5, 6), nn.LeakyReLU(1.5), nn.Linear(6, 3)), (5,)),
    )
    for premise in ("homogeneous", "piecewise_linear", "contracts"):
        assert not gentle.lacks(premise, "it")
    assert "neither is linear nor passes its input or 0" in gentle.lacks("rectifies", "it")
    assert "slopes of at most 1" in steep.lacks("contracts", "it")
    assert steep.nodes[2].op.lipschitz((6,)) == (1.5, 1.5)


def test_a_constant_for_each_unit_is_a_layer_of_its_own() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 3, 4))
            self.fc = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return (3 - 2 * self.fc(x + self.table)).mean(1)

    module = Positions()
    net, x = trace(module, (3, 4)), torch.randn(2, 3, 4)
    kinds = [node.affine.kind for node in net.affine_layers]
    assert kinds == ["scale", "positionwise", "scale"]
    torch.testing.assert_close(net.forward(x), module(x).detach())
