"""Noise drawn in a net's pre-activations has the law of noise drawn in its weights, example by
example.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from tests.cases import CASES, Case
from tests.noise_cases import perturb_weights
from tests.simulations import few_and_many
from torch import Tensor, nn

from cushion.measures.sharpness.perturbed import NoiseRule, NoisyNet, NoisyPass
from cushion.nets.network import Network
from cushion.nets.tracing import trace

NAMES = (
    "mlp",
    "mlp-no-bias",
    "mlp-deep",
    "mlp-batchnorm",
    "batchnorm-first",
    "conv-everything",
    "conv-overlapping",
    "pre-activation",
    "residual",
    "dense",
    "methods",
)
each_net = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in NAMES], ids=lambda case: case.name
)
RULES = (NoiseRule(10.0, 1.0), NoiseRule(0.0, 1.0), NoiseRule(2.0, 0.0))
ALPHA = {RULES[0]: 0.05, RULES[1]: 0.2, RULES[2]: 0.2}  # large enough to switch many ReLUs


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def traced(case: Case) -> Network:
    return case.network()


def gen(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fast_scores(
    net: Network, rule: NoiseRule, alpha: float, x: Tensor, count: int, seed: int
) -> Tensor:
    """[count, classes]: `count` draws for one example, each a mini-batch of its own."""
    return NoisyPass(NoisyNet(net, rule), x.expand(count, *x.shape), count, gen(seed)).scores(alpha)


def textbook_scores(
    net: Network, rule: NoiseRule, alpha: float, x: Tensor, count: int, seed: int
) -> Tensor:
    """[count, classes]: add normal noise to every number of every layer, evaluate, start again."""
    generator, scores = gen(seed), []

    def moved(w: Tensor) -> Tensor:
        return w + torch.normal(
            torch.zeros_like(w), alpha * (rule.scale * w.abs() + rule.offset), generator=generator
        )

    for _ in range(count):
        changes = {}
        for node in net.affine_layers:
            a = node.affine
            bias = None if a.bias is None else moved(a.bias)
            changes[node.index] = replace(
                a, operator=a.operator.with_weight(moved(a.operator.weight)), bias=bias
            )
        scores.append(net.with_affine(changes).forward(x[None])[0])
    return torch.stack(scores)


def same_law(a: Tensor, b: Tensor) -> float:
    """The smallest p-value of Kolmogorov-Smirnov tests on scores, their differences and sums, times
    their number.
    """
    k = a.shape[1]
    pairs = [(i, j) for i in range(k) for j in range(i)]
    views = [*range(k), *[(i, j, sign) for i, j in pairs for sign in (-1, 1)]]

    def view(t: Tensor, which: object) -> np.ndarray:
        if isinstance(which, tuple):
            return (t[:, which[0]] + which[2] * t[:, which[1]]).numpy()
        return t[:, which].numpy()

    return len(views) * min(
        float(ks_2samp(view(a, which), view(b, which)).pvalue) for which in views
    )


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        pytest.param(named(name), rule, id=f"{name}, {rule.scale:g}|w|+{rule.offset:g}")
        for name in NAMES
        for rule in (RULES if name in ("mlp", "batchnorm-first", "conv-everything") else RULES[:1])
    ],
)
@few_and_many("count", 700, 2000)
def test_the_law_of_an_examples_scores_is_that_of_drawn_weights(
    case: Case, rule: NoiseRule, count: int
) -> None:
    net, x, alpha = traced(case), case.inputs(1)[0], ALPHA[rule]
    fast = fast_scores(net, rule, alpha, x, 4 * count if "c" not in case.layers else count, 1)
    slow = textbook_scores(net, rule, alpha, x, count, 2)
    assert same_law(fast, slow) > 0.01
    noise = (slow.var(0) / count + fast.var(0) / len(fast)).sqrt()
    assert bool(((fast.mean(0) - slow.mean(0)).abs() < 4.5 * noise).all())


@pytest.mark.parametrize("name", ["mlp", "batchnorm-first", "conv-everything"])
def test_the_test_of_the_law_can_fail(name: str) -> None:
    """Published code draws noise of standard deviation σ², not σ; and a fifth more noise is seen as
    well.
    """
    case, rule = named(name), RULES[0]
    net, x = traced(case), case.inputs(1)[0]
    slow = textbook_scores(net, rule, 0.05, x, 2000, 2)

    class Squared(NoiseRule):
        def unit_std(self, parameter: Tensor) -> Tensor:
            return super().unit_std(parameter).square() * 0.05

    assert same_law(fast_scores(net, Squared(10.0, 1.0), 0.05, x, 2000, 1), slow) < 1e-3
    assert same_law(fast_scores(net, rule, 0.06, x, 2000, 1), slow) < 0.01


@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_the_explicit_sampler_has_that_law_too(name: str) -> None:
    case, rule, generator = named(name), RULES[0], gen(5)
    net, x = traced(case), case.inputs(1)[0]
    drawn = torch.cat(
        [perturb_weights(net, rule, 0.05, generator).forward(x[None]) for _ in range(1000)]
    )
    assert same_law(drawn, textbook_scores(net, rule, 0.05, x, 1000, 2)) > 0.01


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.scale:g}w+{rule.offset:g}")
def test_a_linear_net_has_the_variance_in_closed_form(rule: NoiseRule) -> None:
    case, count, alpha = named("linear-only"), 200_000, 0.1
    net, x = traced(case), case.inputs(1)[0]
    affine = net.affine_layers[0].affine
    weight, bias = affine.operator.weight.double(), affine.bias.double()
    variance = (alpha * (rule.scale * weight.abs() + rule.offset)).square() @ x.double().square()
    variance += (alpha * (rule.scale * bias.abs() + rule.offset)).square()
    scores = fast_scores(net, rule, alpha, x, count, 0).double()
    assert torch.allclose(scores.var(0), variance, rtol=4.5 * math.sqrt(2 / count))
    off = scores.T.corrcoef() - torch.eye(3)
    assert float(off.abs().max()) < 5 / math.sqrt(count)  # outputs are independent
    assert torch.allclose(
        scores.mean(0),
        net.forward(x[None])[0].double(),
        atol=5 * float(variance.max() / count) ** 0.5,
    )


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Linear(4, 3), (4,)), (nn.Conv2d(1, 3, 2), (1, 2, 2)), (nn.BatchNorm1d(3), (3,))],
)
def test_at_an_input_of_zeros_only_the_bias_is_noisy(
    layer: nn.Module, shape: tuple[int, ...]
) -> None:
    nn.init.normal_(layer.bias, generator=gen(4))
    net, count = trace(nn.Sequential(layer, nn.Flatten()).eval(), shape), 2000
    std, zeros, generator = 0.1 * (10 * layer.bias.detach().abs() + 1), torch.zeros(shape), gen(1)
    drawn = [
        perturb_weights(net, RULES[0], 0.1, generator).forward(zeros[None])[0] for _ in range(count)
    ]
    for scores in (fast_scores(net, RULES[0], 0.1, zeros, count, 0), torch.stack(drawn)):
        assert torch.allclose(scores.std(0), std, rtol=5 / math.sqrt(2 * count))
        assert torch.allclose(
            scores.mean(0), layer.bias.detach(), atol=5 * float(std.max()) / math.sqrt(count)
        )


def test_examples_share_kernels_within_a_mini_batch_and_nothing_else() -> None:
    conv = trace(nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten()).eval(), (1, 3, 3))
    x = torch.ones(6, 1, 3, 3)
    scores = NoisyPass(NoisyNet(conv, RULES[0]), x, 3, gen(0)).scores(0.1)
    assert torch.equal(scores[::2], scores[1::2])
    assert len(scores[::2].unique(dim=0)) == 3
    for name in ("mlp", "batchnorm-first"):
        case = named(name)
        x = case.inputs(1).expand(6, *case.input_shape)
        assert (
            len(NoisyPass(NoisyNet(traced(case), RULES[0]), x, 3, gen(0)).scores(0.1).unique(dim=0))
            == 6
        )


@each_net
def test_scores_at_two_alphas_share_their_numbers(case: Case) -> None:
    net, x = traced(case), case.inputs(4)
    noise = NoisyPass(NoisyNet(net, RULES[0]), x, 2, gen(0))
    first, other = noise.scores(0.01), noise.scores(-0.02)
    assert torch.equal(noise.scores(0.01), first)
    assert not torch.equal(first, other)
    assert torch.equal(NoisyPass(NoisyNet(net, RULES[0]), x, 2, gen(0)).scores(-0.02), other)
    assert torch.allclose(noise.scores(0.0), net.forward(x), atol=1e-5)
