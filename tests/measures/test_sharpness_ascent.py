"""Keskar's sharpness: the ascent against torch's own optimiser and against all corners of the
box.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.loss import Losses, all_losses, mini_batches
from cushion.measures.sharpness.measurement import ascend, max_sharpness, measure_sharpness
from cushion.measures.sharpness.perturbed import parameters
from cushion.nets.batches import mix_seed
from cushion.nets.network import Network
from cushion.nets.tracing import trace


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def sample(case: Case, rows: int, classes: int) -> Dataset:
    return Dataset("noise", case.inputs(rows).numpy(), np.arange(rows) % classes, classes)


def naive_ascent(module: nn.Module, data: Dataset, options: SharpnessOptions) -> list[Tensor]:
    """ν of every parameter, by torch.optim.SGD on a copy of the module whose parameters are clamped
    after each step.
    """
    module = copy.deepcopy(module)
    start = [parameter.detach().clone() for parameter in module.parameters()]
    optimiser = torch.optim.SGD(
        module.parameters(), options.step_size, options.momentum, maximize=True
    )
    seed = mix_seed(options.seed, 0, "sharpness ascent")
    batches = mini_batches(len(data), options.batch, torch.Generator().manual_seed(seed))
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    for _ in range(options.ascent_steps):
        rows = torch.from_numpy(next(batches))
        optimiser.zero_grad()
        F.cross_entropy(module(x[rows].to(start[0])), y[rows]).backward()
        optimiser.step()
        with torch.no_grad():
            for parameter, w in zip(module.parameters(), start, strict=True):
                bound = options.max_alpha * (w.abs() + 1)
                parameter.copy_(torch.minimum(torch.maximum(parameter, w - bound), w + bound))
    return [parameter.detach() - w for parameter, w in zip(module.parameters(), start, strict=True)]


@pytest.mark.parametrize("alpha", [0.005, 10.0])  # most bounds reached, and none
@pytest.mark.parametrize("name", ["mlp", "mlp-deep", "conv-everything", "vgg-tiny"])
def test_steps_are_those_of_torchs_optimiser(name: str, alpha: float) -> None:
    case = named(name)
    module, data = case.module().double(), sample(case, 30, 3)
    options = SharpnessOptions(ascent_steps=12, batch=8, step_size=0.05, max_alpha=alpha)
    _, found = ascend(trace(module, case.input_shape), data, options)
    for ours, theirs in zip(found, naive_ascent(module, data, options), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_net_climbs_and_stays_in_its_box(case: Case) -> None:
    net = trace(case.module(), case.input_shape)
    data = sample(case, 20, 2)
    options = SharpnessOptions(ascent_steps=15, batch=20, step_size=0.01, max_alpha=1e-3, draws=0)
    end, shifts = ascend(net, data, options)
    for start, point, shift in zip(parameters(net), parameters(end), shifts, strict=True):
        assert bool((shift.abs() <= options.max_alpha * (start.abs() + 1) * (1 + 1e-6)).all())
        assert torch.equal(point, start + shift)
        assert not point.requires_grad
    assert sum(int((shift != 0).sum()) for shift in shifts) > 0
    found = max_sharpness(net, data, options, all_losses(net, data))
    assert found.difference > 0
    assert found.loss_after == pytest.approx(found.loss_before + found.difference)
    assert 0 < found.at_the_edge <= 1


def tiny() -> tuple[Network, Dataset]:
    """Two inputs, two classes: six parameters, and a loss that is convex in them."""
    module = nn.Linear(2, 2).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.6, -0.4], [0.1, 0.8]]))
        module.bias.copy_(torch.tensor([0.2, -0.3]))
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    y = (module(x.double()).argmax(1) + (torch.arange(30) % 5 == 0)) % 2
    return trace(nn.Sequential(module), (2,)), Dataset("tiny", x.numpy(), y.numpy(), 2)


def corner_losses(net: Network, data: Dataset, alpha: float) -> list[float]:
    """The loss in each of the 64 corners of the box."""
    node = net.affine_layers[0]
    weight, bias = node.affine.operator.weight, node.affine.bias
    assert bias is not None
    found = []
    for signs in itertools.product((-1.0, 1.0), repeat=6):
        shift = torch.tensor(signs, dtype=torch.float64) * alpha
        w = weight + shift[:4].reshape(2, 2) * (weight.abs() + 1)
        b = bias + shift[4:] * (bias.abs() + 1)
        moved = replace(node.affine, operator=node.affine.operator.with_weight(w), bias=b)
        found.append(all_losses(net.with_affine({node.index: moved}), data).loss)
    return found


@pytest.mark.parametrize("alpha", [5e-4, 5e-3])
def test_a_convex_loss_is_largest_in_a_corner_and_the_ascent_gets_there(alpha: float) -> None:
    net, data = tiny()
    largest, clean = max(corner_losses(net, data, alpha)), all_losses(net, data)
    options = SharpnessOptions(ascent_steps=300, batch=30, step_size=0.1, max_alpha=alpha)
    found = max_sharpness(net, data, options, clean)
    assert found.loss_after == pytest.approx(largest, rel=1e-12)
    assert found.at_the_edge == 1
    assert found.value == pytest.approx((largest - clean.loss) / (1 + clean.loss))
    few = max_sharpness(net, data, replace(options, ascent_steps=1, step_size=1e-4), clean)
    assert 0 < few.value < found.value
    assert few.at_the_edge < 1


def test_in_a_large_box_the_ascent_may_end_in_a_lower_corner() -> None:
    """Why the record calls its value a lower estimate: even a convex loss has several local maxima
    in a box.
    """
    net, data = tiny()
    corners = corner_losses(net, data, 0.2)
    options = SharpnessOptions(ascent_steps=300, batch=30, step_size=0.1, max_alpha=0.2)
    found = max_sharpness(net, data, options, all_losses(net, data))
    assert found.loss_before < found.loss_after < max(corners) - 0.01
    assert min(abs(found.loss_after - corner) for corner in corners) < 1e-12


def test_an_ascent_that_ends_below_its_start_says_so() -> None:
    net, data = tiny()
    real = all_losses(net, data)
    higher = Losses(real.cross_entropy + 1, real.wrong)
    found = max_sharpness(net, data, SharpnessOptions(ascent_steps=1), higher)
    assert found.ended_below
    assert found.loss_after < found.loss_before == higher.loss
    assert found.value == found.difference == 0


def test_it_works_where_gradients_are_off_and_leaves_no_trace() -> None:
    net, data = tiny()
    weight = net.affine_layers[0].affine.operator.weight
    before, state = weight.clone(), torch.get_rng_state()
    options = SharpnessOptions(ascent_steps=5, batch=7, draws=0)
    with torch.no_grad():
        quiet = measure_sharpness(net, data, options)
        assert not torch.is_grad_enabled()
    assert quiet == measure_sharpness(net, data, options)
    assert quiet.expected is None
    other = measure_sharpness(net, data, replace(options, seed=3)).maximum
    assert quiet.maximum is not None
    assert other is not None
    assert other.loss_after != quiet.maximum.loss_after
    assert torch.equal(weight, before)
    assert weight.grad is None
    assert not weight.requires_grad
    assert torch.equal(torch.get_rng_state(), state)
    assert measure_sharpness(net, data, SharpnessOptions(ascent_steps=0, draws=2)).maximum is None
