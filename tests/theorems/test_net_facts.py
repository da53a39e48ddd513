"""The numbers that theorems read, against dense matrices and direct computation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from tests.cases import CASES
from torch import nn

import cushion
from cushion.data.dataset import Dataset
from cushion.measures.margins import epsilon_margin, margin_loss
from cushion.nets.batch_size import batches
from cushion.nets.operations import Affine, AvgPool, MaxPool
from cushion.nets.tracing import trace
from cushion.theorems.net_facts import _after, gather, in_unit_cube, look_at

CHAINS = [case for case in CASES if case.chain and case.layers != "b"]


def step(net, node, x):
    """What stands between an affine layer and the next."""
    for after in net.nodes[node.index + 1 :]:
        if isinstance(after.op, Affine):
            break
        x = after.op(x)
    return x


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
def test_steps_between_layers_are_as_lipschitz_as_said(case) -> None:
    """Pairs of inputs near and far, and one-hot differences, which are the worst for overlapping
    windows.
    """
    net = trace(case.module(), case.input_shape).double()
    generator = torch.Generator().manual_seed(0)
    for node in net.affine_layers:
        two, sup = _after(net, node)
        shape = (40, *node.shape)
        x = torch.randn(shape, generator=generator, dtype=torch.float64) + 1.0
        sparse = (torch.rand(shape, generator=generator) < 0.1).double() * 5.0
        for change in (
            torch.randn(shape, generator=generator, dtype=torch.float64),
            sparse,
            -sparse,
            sparse.abs() + 1,
        ):
            moved = (step(net, node, x + change) - step(net, node, x)).flatten(1)
            change = change.flatten(1)
            assert bool((moved.norm(dim=1) <= two * change.norm(dim=1) * (1 + 1e-9)).all())
            assert bool((moved.abs().amax(1) <= sup * change.abs().amax(1) * (1 + 1e-9)).all())


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("include_pad", [False, True])
def test_no_average_stretches_more_than_said(ceil: bool, include_pad: bool) -> None:
    """The whole map, also where an edge cuts windows short: its ℓ2 norm is at most the constant."""
    for kernel, stride, size in itertools.product((2, 3), (1, 2, 3), (5, 6, 7, 8)):
        for padding in (0, 1):
            shape = (kernel,) * 2, (stride,) * 2, (padding,) * 2
            op = AvgPool(*shape, ceil, include_pad, None)
            impulses = torch.eye(size * size, dtype=torch.float64).reshape(-1, 1, size, size)
            norm = float(torch.linalg.matrix_norm(op(impulses).flatten(1), 2))
            assert norm <= op.lipschitz((1, size, size))[0] + 1e-12


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"), [(3, 2, 2), (2, 1, 2), (3, 2, 1), (3, 3, 2)]
)
def test_one_input_moves_every_window_that_reads_it(
    kernel: int, stride: int, dilation: int
) -> None:
    """An impulse at each place in turn: its image is as long as the root of the windows there."""
    op = MaxPool((kernel,) * 2, (stride,) * 2, (0, 0), (dilation,) * 2, False)
    impulses = torch.eye(15 * 15, dtype=torch.float64).reshape(-1, 1, 15, 15)
    worst = float(op(impulses).flatten(1).norm(dim=1).max())
    assert worst <= op.lipschitz((1, 15, 15))[0] + 1e-12


def test_disjoint_pools_are_not_overestimated() -> None:
    constants = {}
    for case in CASES:
        if "pool" in case.name or case.name.startswith("adaptive"):
            net = trace(case.module(), case.input_shape)
            constants[case.name] = _after(net, net.affine_layers[0])
    assert constants["max-pool"] == (1.0, 1.0)
    assert constants["avg-pool"] == (0.5, 1.0)
    assert constants["avg-pool-divisor"] == (pytest.approx(2 / 3), pytest.approx(4 / 3))
    assert constants["max-pool-ceil"][0] == 2.0


def test_the_facts_of_a_small_net() -> None:
    case = next(case for case in CASES if case.name == "vgg-tiny")
    rng = np.random.default_rng(0)
    data = Dataset(
        "bytes",
        rng.integers(0, 256, (20, *case.input_shape), dtype=np.uint8),
        rng.integers(0, 3, 20),
        3,
    )
    net = trace(case.module(), case.input_shape)
    other = torch.Generator().manual_seed(1)
    start = net.double().to(torch.float32)
    for node in start.affine_layers:
        assert node.affine.bias is not None
        node.affine.bias.add_(0.1)
        node.affine.operator.weight.mul_(0.5 + 0.01 * float(torch.rand((), generator=other)))
    table = cushion.measure(net, data, only="norms,paths", init=start)
    with batches(7):
        seen = look_at(net, data)
    found = gather(net, data, seen, table, start, delta=0.05, epsilon=0.3)
    x = data.x.reshape(20, -1) / 255.0
    assert found.input_energy == pytest.approx(np.linalg.norm(x), rel=1e-6)
    assert found.input_column == pytest.approx(np.linalg.norm(x, axis=0).max(), rel=1e-6)
    assert found.radius == pytest.approx(math.sqrt(x.shape[1]))
    assert in_unit_cube(data)
    scores = case.module()(torch.tensor(data.x / 255.0, dtype=torch.float32)).detach().numpy()
    assert found.largest_score == pytest.approx(np.linalg.norm(scores, axis=1).max(), rel=1e-5)
    assert seen.errors == int((scores.argmax(1) != data.y).sum())
    margins = np.sort(seen.margins)
    assert found.margin == pytest.approx(margins[5])  # ⌈0.3·20⌉ = 6
    assert found.margin_loss == pytest.approx(6 / 20)
    for layer, node, before in zip(
        found.layers, net.affine_layers, start.affine_layers, strict=True
    ):
        dense = node.affine.operator.dense().double().numpy()
        moved = dense - before.affine.operator.dense().double().numpy()
        places = math.prod(node.shape[1:])
        bias = node.affine.bias.double().numpy()  # type: ignore[union-attr]
        assert layer.frobenius == pytest.approx(np.linalg.norm(dense), rel=1e-6)
        assert layer.spectral_upper >= np.linalg.norm(dense, 2)
        assert layer.l2_1 == pytest.approx(np.linalg.norm(dense, axis=1).sum(), rel=1e-6)
        assert layer.l1_inf == pytest.approx(np.abs(dense).sum(1).max(), rel=1e-6)
        assert layer.moved_l2_1 == pytest.approx(np.linalg.norm(moved, axis=1).sum(), rel=1e-5)
        assert layer.bias == pytest.approx(math.sqrt(places) * np.linalg.norm(bias), rel=1e-6)
        assert layer.moved_bias == pytest.approx(math.sqrt(places * len(bias)) * 0.1, rel=1e-4)
        assert (layer.inputs, layer.outputs) == (dense.shape[1], dense.shape[0])
    assert not found.plain
    assert found.path_logs[1] > 0 or found.path_logs[1] < 0


def test_what_stands_before_the_first_layer_stretches_the_inputs() -> None:
    """A pool that sums four pixels has constant 2 in ℓ2 and 4 in ℓ∞."""
    pooled = nn.Sequential(nn.AvgPool2d(2, divisor_override=1), nn.Flatten(), nn.Linear(4, 2))
    rng = np.random.default_rng(0)
    data = Dataset(
        "bytes", rng.integers(0, 256, (9, 1, 4, 4), dtype=np.uint8), rng.integers(0, 2, 9), 2
    )
    net = trace(pooled, (1, 4, 4))
    seen, table = look_at(net, data), cushion.measure(net, data, only="norms,paths")
    found = gather(net, data, seen, table, None, delta=0.05, epsilon=0.0)
    assert (found.first_lipschitz, found.first_lipschitz_inf) == (2.0, 4.0)
    assert found.radius == pytest.approx(2 * 4.0)
    assert found.input_energy == pytest.approx(2 * np.linalg.norm(data.x / 255.0), rel=1e-6)


def test_margins_at_any_level() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    ordered = np.sort(values)
    for epsilon, rank in (
        (0.0, 1),
        (0.0005, 1),
        (0.001, 1),
        (0.05, 50),
        (0.0501, 51),
        (0.9999, 1000),
    ):
        gamma = epsilon_margin(values, epsilon)
        assert gamma == ordered[rank - 1]
        # What the definition says: at most ⌈εm⌉ examples are below any larger number, and γ is the
        # smallest such.
        assert (values < gamma).sum() < rank
        assert margin_loss(values, gamma) == rank / 1000
    assert margin_loss(np.array([-1.0, 0.0, 2.0]), 0.0) == pytest.approx(2 / 3)
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(cushion.BadInput, match="`epsilon`"):
            epsilon_margin(values, bad)


def test_margins_of_every_example_in_order() -> None:
    case = next(case for case in CASES if case.name == "mlp")
    rng = np.random.default_rng(0)
    data = Dataset("d", rng.random((11, 7), dtype=np.float32), rng.integers(0, 4, 11), 4)
    found = cushion.margins(case.module(), data, batch=4)
    scores = case.module()(torch.from_numpy(data.x)).detach().numpy()
    for row, (score, label) in enumerate(zip(scores, data.y, strict=True)):
        others = np.delete(score, label)
        assert found[row] == pytest.approx(score[label] - others.max(), abs=1e-6)
    assert found.min() < 0  # negative margins stay negative
