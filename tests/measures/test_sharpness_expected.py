"""Expected sharpness against quadrature and against drawn weights, its standard errors, its
options.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from tests.cases import CASES, Case
from tests.noise_cases import ExplicitPass
from torch import nn
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.sharpness import expected, perturbed
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.loss import all_losses, mini_batches, sample_losses
from cushion.measures.sharpness.measurement import measure_sharpness
from cushion.measures.sharpness.records import ExpectedSharpness
from cushion.nets.network import Network
from cushion.nets.tracing import trace


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def traced(case: Case) -> Network:
    return case.network()


def gen(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_classes(m: int = 40) -> tuple[Network, Dataset]:
    """A linear net and labels that it mostly gets right."""
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.5, -0.2, 0.1], [-0.3, 0.4, 0.0]]))
        module.bias.copy_(torch.tensor([0.1, -0.1]))
    x = torch.randn(m, 3, generator=gen(3))
    y = (module(x).argmax(1) + (torch.arange(m) % 7 == 0)) % 2
    return trace(nn.Sequential(module).eval(), (3,)), Dataset("two", x.numpy(), y.numpy(), 2)


def curve(
    net: Network, data: Dataset, *, shared: bool = False, **chosen: object
) -> ExpectedSharpness:
    options = SharpnessOptions(ascent_steps=0, **chosen)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        if shared:
            patch.setattr(perturbed, "NoisyPass", ExplicitPass)
        return expected.expected_sharpness(net, data, options, all_losses(net, data))


def noisy_loss(z: float, gap: float, std: float) -> float:
    """The density of z times the cross-entropy of two classes whose scores are gap + std·z
    apart.
    """
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * float(np.logaddexp(0, -gap - std * z))


@pytest.mark.parametrize("shared", [False, True])
def test_two_classes_by_quadrature(shared: bool) -> None:
    """The difference of two scores is normal: the expected error is a tail, the expected loss one
    integral.
    """
    net, data = two_classes()
    affine = net.affine_layers[0].affine
    weight, bias = affine.operator.weight.double().numpy(), affine.bias.double().numpy()
    found = curve(net, data, shared=shared, alphas=(0.02, 0.1, 0.3), draws=1200, batch=16)
    for point in found.points:
        losses, errors = [], []
        for x, y in zip(data.x.astype(float), data.y, strict=True):
            scores = weight @ x + bias
            gap = scores[y] - scores[1 - y]
            std = point.alpha * math.sqrt(
                ((10 * abs(weight) + 1) ** 2 @ x**2 + (10 * abs(bias) + 1) ** 2).sum()
            )
            errors.append(norm.cdf(-gap / std))
            losses.append(quad(noisy_loss, -9, 9, (gap, std))[0])
        assert point.expected_loss == pytest.approx(
            np.mean(losses), abs=4 * point.sharpness_standard_error
        )
        assert point.expected_error == pytest.approx(
            np.mean(errors), abs=4 * point.error_sharpness_standard_error
        )
        assert point.sharpness == pytest.approx(point.expected_loss - found.loss)
        assert point.error_sharpness == pytest.approx(point.expected_error - found.error)
        assert point.sharpness_standard_error < 0.05 * point.expected_loss
    assert found.error == pytest.approx(6 / 40)


def test_standard_errors_describe_the_spread_over_seeds() -> None:
    case = named("mlp")
    net, x = traced(case), case.inputs(50)
    data = Dataset("noise", x.numpy(), np.arange(50) % 4, 4)
    points = [
        curve(net, data, alphas=(0.05,), draws=40, batch=50, seed=seed).points[0]
        for seed in range(200)
    ]
    for value, error in (
        ("sharpness", "sharpness_standard_error"),
        ("error_sharpness", "error_sharpness_standard_error"),
    ):
        spread = np.std([getattr(point, value) for point in points], ddof=1)
        stated = np.mean([getattr(point, error) for point in points])
        # all rows in every batch: else shuffles make it err upwards
        assert 0.85 < stated / spread < 1.18


@pytest.mark.parametrize("name", ["mlp-deep", "residual"])
def test_fast_and_explicit_curves_agree(name: str) -> None:
    case = named(name)
    net, x = traced(case), case.inputs(30)
    data = Dataset("noise", x.numpy(), net.forward(x).argmax(1).numpy(), net.classes)
    fast, slow = (
        curve(net, data, shared=shared, alphas=(0.03, 0.1), draws=300, batch=30)
        for shared in (False, True)
    )
    for a, b in zip(fast.points, slow.points, strict=True):
        for value in ("sharpness", "error_sharpness"):
            error = math.hypot(*(getattr(point, f"{value}_standard_error") for point in (a, b)))
            assert 0 < abs(getattr(a, value) - getattr(b, value)) < 4 * error
        assert a.kl == b.kl


def test_what_is_linear_in_the_noise_cancels() -> None:
    """With ν and -ν on the same rows the spread falls as α², not as α."""
    net, data = two_classes()
    large, small = (
        point.sharpness_standard_error
        for point in curve(net, data, alphas=(1e-1, 1e-2), draws=64).points
    )
    assert small is not None
    assert large is not None
    assert small < 0.02 * large


def test_stacks_have_noise_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    net, data = two_classes()
    monkeypatch.setattr("cushion.measures.sharpness.expected._STACK", 1)
    (point,) = curve(net, data, shared=True, alphas=(0.1,), draws=20).points
    assert point.sharpness_standard_error is not None
    assert point.sharpness_standard_error > 0.05 * point.sharpness


def test_little_noise_makes_little_sharpness() -> None:
    net, data = two_classes()
    (point,) = curve(net, data, alphas=(1e-8,), draws=64).points
    assert abs(point.sharpness) < 1e-6
    assert point.error_sharpness == 0
    assert point.batch == 40  # all rows, where there are fewer than a mini-batch


def test_a_tie_is_an_error() -> None:
    losses, wrong = sample_losses(
        torch.tensor([[1.0, 1.0], [2.0, 1.0], [torch.nan, 0.0]]), torch.tensor([0, 0, 0])
    )
    assert wrong.tolist() == [True, False, True]
    assert float(losses[0]) == pytest.approx(math.log(2))


def test_mini_batches_are_parts_of_shuffles() -> None:
    batches = mini_batches(10, 4, gen(0))
    first, second, third = (next(batches) for _ in range(3))
    assert len({*first, *second}) == 8
    assert len(set(third)) == 4
    assert sorted(next(mini_batches(3, 64, gen(0)))) == [0, 1, 2]


def test_seeds_repeat_and_nothing_is_touched() -> None:
    case = named("mlp-batchnorm")
    module = case.module().train()
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    net = trace(module, case.input_shape)
    weights = [node.affine.operator.weight.clone() for node in net.affine_layers]
    data = Dataset("noise", case.inputs(20).numpy(), np.arange(20) % 3, 3)
    options = SharpnessOptions(draws=10, ascent_steps=5, batch=8)
    found = measure_sharpness(net, data, options)
    assert found == measure_sharpness(net, data, options)
    assert found != measure_sharpness(net, data, replace(options, seed=1))
    assert torch.equal(torch.get_rng_state(), state)
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    for node, weight in zip(net.affine_layers, weights, strict=True):
        assert torch.equal(node.affine.operator.weight, weight)
        assert not node.affine.operator.weight.requires_grad
    assert found.expected is not None
    assert found.expected.rule == "alpha*(10|w|+1)"
    assert found.to_json()["expected"]["points"][0]["draws"] == 10


def test_noise_beyond_the_floats_is_refused() -> None:
    net, data = two_classes()
    with pytest.raises(BadInput, match="`alphas`"):
        curve(net, data, alphas=(1e38,), draws=4)


def test_a_single_pair_has_no_standard_error() -> None:
    net, data = two_classes()
    (point,) = curve(net, data, alphas=(0.1,), draws=1).points
    assert point.draws == 2
    assert point.sharpness_standard_error is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("alphas", ()),
        ("alphas", (0.1, 0.0)),
        ("alphas", (0.1, math.nan)),
        ("alphas", (0.1, 0.1)),
        ("draws", -1),
        ("draws", 2.5),
        ("ascent_steps", -1),
        ("batch", 0),
        ("step_size", 0.0),
        ("step_size", math.inf),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("max_alpha", -1e-4),
        ("scale", -1.0),
        ("offset", math.nan),
        ("seed", -1),
    ],
)
def test_bad_options_are_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"`{option}` "):
        SharpnessOptions(**{option: value})  # type: ignore[arg-type]


def test_no_noise_at_all_is_refused_and_the_papers_counts_are_there() -> None:
    with pytest.raises(BadInput, match="`scale` and `offset`"):
        SharpnessOptions(scale=0, offset=0)
    paper = SharpnessOptions.as_published()
    assert (paper.draws, paper.ascent_steps, paper.batch, paper.max_alpha) == (1000, 2000, 64, 5e-4)


def test_the_loss_is_the_mean_cross_entropy() -> None:
    case = named("conv")
    net, x = traced(case), case.inputs(300)
    y = torch.arange(300) % 3
    found = all_losses(net, Dataset("noise", x.numpy(), y.numpy(), 3))
    assert found.loss == pytest.approx(F.cross_entropy(case.module()(x), y).item(), rel=1e-6)
