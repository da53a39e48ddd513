"""Injected noise against a loop that rebuilds the forward pass; noise sensitivity against
Definition 3.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import activations, traced
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.measures.stability.noise import (
    gaussian_like,
    injected_errors,
    measure_attenuation,
    sample_sensitivity,
)
from cushion.nets.linearisation import Activations
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.tracing import trace

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def sample(x: Tensor) -> Dataset:
    return Dataset("noise", x.float().numpy(), np.arange(len(x)) % 2, 2)


def noisy_pass(net: Network, x: Tensor, source: Node, eta: Tensor) -> dict[int, Tensor]:
    """Every node's output when layer `source` alone reads its input plus η."""
    values = {0: x}
    for node in net.nodes[1:]:
        inputs = [values[i] for i in node.inputs]
        if node.index == source.index:
            inputs[0] = inputs[0] + eta
        values[node.index] = node.op(*inputs)  # type: ignore[operator]
    return values


def depends(net: Network, source: Node) -> set[int]:
    """The affine layers that x^i reaches, itself included."""
    reached = {source.index}
    for node in net.nodes:
        if any(i in reached for i in node.inputs):
            reached.add(node.index)
    return {index for index in reached if isinstance(net.nodes[index].op, Affine)}


@each_case
def test_injected_errors_rebuild_the_forward_pass(case: Case) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    clean = Activations(net, x)
    for source in net.affine_layers:
        before = clean.values[source.inputs[0]]
        eta = torch.randn(
            before.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(source.index)
        )
        seen: list[tuple[Tensor, Node]] = []

        def noise(signal: Tensor, node: Node, eta: Tensor = eta, seen: list = seen) -> Tensor:  # type: ignore[type-arg]
            seen.append((signal, node))
            return eta

        found = injected_errors(clean, source, noise)
        assert len(seen) == 1
        assert seen[0][1] is source
        assert torch.equal(seen[0][0], before)
        assert found.keys() == depends(net, source)
        hatted, whole = noisy_pass(net, x, source, eta), activations(net, x)
        for j, errors in found.items():
            for b in range(3):
                expected = float((hatted[j][b] - whole[j][b]).norm() / whole[j][b].norm())
                assert float(errors[b]) == pytest.approx(expected, rel=1e-9, abs=1e-12), (
                    source.name,
                    j,
                )


@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny", "residual", "linear-only"])
@pytest.mark.parametrize("level", [0.1, 1.0])
def test_the_curves_are_a_naive_loop(name: str, level: float) -> None:
    case, draws = named(name), 3
    net32, net = trace(case.module(), case.input_shape), traced(case)
    x = case.inputs(5)
    found = measure_attenuation(net32, sample(x), level, draws=draws, seed=4, batch=2)
    assert found.keys() == {node.index for node in net.affine_layers}
    whole = activations(net, x.double())
    for source in net.affine_layers:
        before = whole[source.inputs[0]]
        errors: dict[int, Tensor] = {}
        for draw in range(draws):
            parts = [
                gaussian_like(before[s : s + 2].float(), 4, f"attenuation {level}", draw, s, source)
                for s in (0, 2, 4)
            ]
            eta = torch.cat(parts).double()
            scale = level * before.flatten(1).norm(dim=1) / eta.flatten(1).norm(dim=1)
            eta = eta * scale.reshape(-1, *[1] * (eta.ndim - 1))
            hatted = noisy_pass(net, x.double(), source, eta)
            for j in depends(net, source):
                relative = (hatted[j] - whole[j]).flatten(1).norm(dim=1) / whole[j].flatten(1).norm(
                    dim=1
                )
                errors[j] = (
                    torch.cat([errors[j], relative[None]]) if j in errors else relative[None]
                )
        curve = found[source.index]
        assert (curve.level, curve.draws) == (level, draws)
        assert [point.to for point in curve.points] == [net.nodes[j].name for j in sorted(errors)]
        for point, j in zip(curve.points, sorted(errors), strict=True):
            each = errors[j]  # [draws, examples]
            assert point.mean == pytest.approx(float(each.mean()), rel=1e-3, abs=1e-6)
            means = each.mean(1).numpy()
            spread = math.sqrt(sum((m - means.mean()) ** 2 for m in means) / (draws - 1) / draws)
            assert point.standard_error == pytest.approx(spread, rel=1e-2, abs=1e-6)
            assert point.sensitivity == pytest.approx(
                float(each.square().mean(0).max()), rel=1e-3, abs=1e-9
            )


def test_noise_of_one_layer_has_its_relative_norm_in_a_net_of_identities() -> None:
    """Through the identity the relative error is the level itself, in every example and draw."""
    module = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    with torch.no_grad():
        for layer in module:
            layer.weight.copy_(torch.eye(4))
    net = trace(module, (4,))
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    for level in (0.25, 2.0):
        curves = measure_attenuation(net, sample(x), level, draws=2, seed=0, batch=4)
        for curve in curves.values():
            for point in curve.points:
                assert point.mean == pytest.approx(level, rel=1e-5)
                assert point.sensitivity == pytest.approx(level**2, rel=1e-5)
                assert point.standard_error == pytest.approx(0.0, abs=1e-6)


def test_one_draw_has_no_standard_error() -> None:
    case = named("mlp")
    curves = measure_attenuation(
        trace(case.module(), case.input_shape),
        sample(case.inputs(3)),
        0.1,
        draws=1,
        seed=0,
        batch=9,
    )
    assert all(point.standard_error is None for curve in curves.values() for point in curve.points)


def test_seeds_and_layers_have_noise_of_their_own() -> None:
    case = named("mlp-deep")
    net, data = trace(case.module(), case.input_shape), sample(case.inputs(4))
    a, b, c = (
        measure_attenuation(net, data, 0.1, draws=2, seed=seed, batch=9) for seed in (0, 0, 1)
    )
    assert a == b
    assert a != c
    assert all(a[index].points[0].mean != c[index].points[0].mean for index in a)
    one = measure_attenuation(net, data, 0.1, draws=1, seed=0, batch=9)
    first = min(a)
    assert a[first].points[0].standard_error
    assert one[first].points[0].mean != a[first].points[0].mean  # the second draw is another one


def gaussian(generator: torch.Generator):  # type: ignore[no-untyped-def]
    """Draws η‖x‖ with η ~ N(0, I)."""

    def noise(signal: Tensor, node: Node) -> Tensor:
        eta = torch.randn(signal.shape, dtype=signal.dtype, generator=generator)
        return eta * signal.flatten(1).norm(dim=1).reshape(-1, *[1] * (signal.ndim - 1))

    return noise


@pytest.mark.parametrize(
    "name", ["mlp-no-bias", "conv-everything", "conv-overlapping", "pre-activation"]
)
def test_sensitivity_of_a_matrix_is_proposition_3_1(name: str) -> None:
    case, draws = named(name), 1500
    net, x = traced(case), case.inputs(2, torch.float64)
    clean = Activations(net, x)
    for node in net.affine_layers:
        if node.affine.bias is not None:
            continue  # the proposition is about a matrix
        before = clean.values[node.inputs[0]]
        jacobian = torch.autograd.functional.jacobian(node.op, torch.zeros_like(before[:1]))
        dense = jacobian.reshape(-1, before[0].numel())  # type: ignore[union-attr]
        mean, error = sample_sensitivity(
            clean, node, node, gaussian(torch.Generator().manual_seed(3)), draws
        )
        assert mean.shape == error.shape == (2,)
        for b in range(2):
            v = before[b].flatten()
            closed = float(dense.square().sum() * v.square().sum() / (dense @ v).square().sum())
            assert abs(float(mean[b]) - closed) < 6 * float(error[b]), node.name
            assert float(error[b]) < 0.1 * closed


@pytest.mark.parametrize("name", ["mlp-deep", "residual"])
def test_sensitivity_of_a_sub_network_under_a_two_point_law(name: str) -> None:
    """η is ±d with probability ½ each, so that Definition 3 is the mean of two numbers."""
    case, draws = named(name), 400
    net, x = traced(case), case.inputs(3, torch.float64)
    clean = Activations(net, x)
    source, target = net.affine_layers[0], net.affine_layers[-1]
    before = clean.values[source.inputs[0]]
    d = torch.randn(
        before[:1].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(8)
    )
    sizes = before.flatten(1).norm(dim=1).reshape(-1, *[1] * (before.ndim - 1))
    generator = torch.Generator().manual_seed(9)
    signs: list[float] = []

    def noise(signal: Tensor, node: Node) -> Tensor:
        signs.append(1.0 if float(torch.rand(1, generator=generator)) < 0.5 else -1.0)
        return signs[-1] * d * sizes

    mean, error = sample_sensitivity(clean, source, target, noise, draws)
    assert len(signs) == draws
    whole = activations(net, x)[target.index]
    squares = []
    for sign in (1.0, -1.0):
        moved = noisy_pass(net, x, source, sign * d * sizes)[target.index]
        squares.append(
            (moved - whole).flatten(1).square().sum(1) / whole.flatten(1).square().sum(1)
        )
    up = signs.count(1.0) / draws
    assert torch.allclose(mean, up * squares[0] + (1 - up) * squares[1], rtol=1e-9)
    exact = (squares[0] + squares[1]) / 2
    assert ((mean - exact).abs() <= 6 * error + 1e-12).all()
    # the standard error of a mean of two-point draws, n - 1 in the variance
    spread = (squares[0] - squares[1]).abs() * math.sqrt(up * (1 - up) / (draws - 1))
    assert torch.allclose(error, spread, rtol=1e-9)


def test_one_draw_of_sensitivity_has_an_unknown_error() -> None:
    net, x = traced(named("mlp")), named("mlp").inputs(2, torch.float64)
    first = net.affine_layers[0]
    _, error = sample_sensitivity(
        Activations(net, x), first, first, gaussian(torch.Generator().manual_seed(0)), 1
    )
    assert (error == math.inf).all()


def dead_net() -> Network:
    """The second layer is zero for inputs of negative sum; the third has a bias."""
    module = nn.Sequential(
        nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False), nn.Linear(2, 2)
    )
    with torch.no_grad():
        module[0].weight.fill_(1.0)
    return trace(module, (2,))


def test_examples_that_a_layer_does_not_answer_to_are_left_out_of_the_mean() -> None:
    """x^j = 0 and x̂^j = 0: 0/0 says nothing, and the other examples still count."""
    net = dead_net()
    x = torch.tensor([[1.0, 2.0], [-5.0, -5.0]])
    curves = measure_attenuation(net, sample(x), 0.01, draws=2, seed=0, batch=9)
    alone = measure_attenuation(net, sample(x[:1]), 0.01, draws=2, seed=0, batch=9)
    first, second, _ = net.affine_layers
    mine, other = curves[first.index].points[1], alone[first.index].points[1]
    assert mine.to == other.to == second.name
    assert math.isfinite(mine.mean)
    assert 0 < mine.mean < 0.1


def test_a_layer_that_is_dead_for_all_examples_gives_no_warning() -> None:
    curves = measure_attenuation(
        dead_net(), sample(torch.tensor([[-5.0, -5.0]])), 0.01, draws=2, seed=0, batch=9
    )
    first = min(curves)
    assert math.isnan(curves[first].points[1].mean)
