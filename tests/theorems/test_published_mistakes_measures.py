"""Mistakes of published code for measures, each with a test that fails when it comes back: norms,
noise, state.

`test_published_mistakes_bounds` has those of published code for bounds.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.command_line import ask
from tests.noise_cases import perturb_weights
from tests.theorem_cases import facts, layer
from tests.training_cases import make_data
from torch import Tensor, nn
from torch.nn import functional as F

import cushion
from cushion.certificates.format.posterior import USUAL_PRIOR
from cushion.certificates.format.rounded_gaussian import RoundedGaussians
from cushion.certificates.search.posterior import GaussianNumbers
from cushion.cli import build_parser
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, CushionError, Unsupported
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.families import FAMILIES as FAMILY_TABLE
from cushion.measures.margins import epsilon_margin, margin_loss, sample_margins
from cushion.measures.norms.layers import layer_norms
from cushion.measures.norms.paths import path_norms
from cushion.measures.sharpness.expected import count_noisy_errors
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.loss import all_losses
from cushion.measures.sharpness.measurement import measure_sharpness
from cushion.measures.sharpness.perturbed import NoiseRule, NoisyNet, NoisyPass
from cushion.measures.spectra import layer_spectrum
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.table import measure
from cushion.nets.batch_size import batches
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d
from cushion.nets.tracing import trace
from cushion.progress import working
from cushion.theorems.bounds import BoundOptions, bounds
from cushion.theorems.net_facts import look_at
from cushion.theorems.norms import peeled
from cushion.training import epochs
from cushion.training.recipes import Recipe, fit_recipe
from cushion.training.training import Trainer

FAMILIES = [family.name for family in FAMILY_TABLE]

QUICK: dict[str, Any] = {
    "stability": StabilityOptions(examples=6, draws=2, k=3, attenuation_draws=1),
    "sharpness": SharpnessOptions(alphas=(0.01,), draws=2, ascent_steps=2, batch=5),
    "conditions": ConditionOptions(examples=4),
}


def sample(shape: tuple[int, ...] = (1, 8, 8), m: int = 23, classes: int = 3) -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        "noise",
        rng.integers(0, 256, (m, *shape), dtype=np.uint8),
        rng.integers(0, classes, m),
        classes,
    )


def net(**batch_norm: Any) -> nn.Sequential:
    """A convolution without bias, batch-norm, dropout, pooling: all that reacts to being run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4, **batch_norm),
            nn.ReLU(),
            nn.Dropout(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 3),
        )
        made[1].running_mean.normal_()
        made[1].running_var.uniform_(0.1, 3.0)
    return made.eval()


def two_scores(first: float, kind: str = "dense") -> nn.Sequential:
    """Scores first·x and 0 of one number x, without biases."""
    if kind == "dense":
        made = nn.Sequential(nn.Flatten(), nn.utils.skip_init(nn.Linear, 1, 2, bias=False))
    else:
        made = nn.Sequential(nn.utils.skip_init(nn.Conv2d, 1, 2, 1, bias=False), nn.Flatten())
    parameter = next(made.parameters())
    parameter.data.copy_(torch.tensor([first, 0.0]).reshape(parameter.shape))
    return made


@pytest.mark.parametrize("side", [5, 20, 60])
def test_spectral_norms_are_those_of_the_convolution(side: int) -> None:
    """The norm of the kernel reshaped to a matrix, here 3 for a map of norm 9: every product of
    norms is too small.
    """
    ones = Conv2d(torch.ones(1, 1, 3, 3), (1, side, side), padding=(1, 1, 1, 1))
    true = (1 + 2 * math.cos(math.pi / (side + 1))) ** 2
    found = layer_norms(Affine(ones, None, "conv2d"), trace_norms=False)
    assert found.spectral == pytest.approx(true, rel=1e-6)
    assert true <= found.spectral_upper <= 1.01 * true
    assert found.operator_frobenius == pytest.approx(3 * side - 2)
    if side == 5:
        assert layer_spectrum(ones, seed=0).top[0] == pytest.approx(true, rel=1e-5)
        model = nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(50, 2)
        )
        model[0].weight.data.fill_(1.0)
        row = measure(model, sample((1, 5, 5), classes=2), only="norms").layers[0]
        assert row.spectral == pytest.approx(math.sqrt(2) * true, rel=1e-5)


def test_margins_of_errors_stay_negative() -> None:
    """Margins passed through abs(): the worse a net errs the larger its margin, and its bounds look
    better.
    """
    logits, labels = torch.tensor([[3.0, 1.0], [3.0, 1.0], [0.0, 5.0]]), torch.tensor([0, 1, 0])
    assert sample_margins(logits, labels).tolist() == [2.0, -2.0, -5.0]
    margins = np.array([4.0, -3.0, 1.0, -2.0])
    assert epsilon_margin(margins, 0.25) == -3.0
    assert margin_loss(margins, 0.0) == 0.5
    model = two_scores(1.0)  # prefers class 0 by x
    data = Dataset(
        "one wrong", np.array([[1], [2], [3], [4]], dtype=np.float32), np.array([0, 0, 0, 1]), 2
    )
    table = measure(model, data, only="margins").net
    assert table.errors == 1
    assert table.margin is not None
    assert table.margins is not None
    assert (table.margin.value, table.margin.hard, table.margin_5th, table.margins.value) == (
        -4.0,
    ) * 4
    assert table.margins.mean == 0.5
    assert cushion.margins(model, data).tolist() == [1.0, 2.0, 3.0, -4.0]
    assert look_at(trace(model, (1,)), data).errors == 1
    assert all(row.abstains for row in peeled(facts([layer(np.eye(2))], np.eye(2), margin=-4.0)))


def _weights(kind: str) -> Callable[[float, int], Tensor]:
    """The weights of nets drawn as the definition has it."""

    def draw(sigma: float, n: int) -> Tensor:
        net, generator = trace(two_scores(0.0, kind), (1, 1, 1)), torch.Generator().manual_seed(0)
        nets = [perturb_weights(net, NoiseRule(0.0, 1.0), sigma, generator) for _ in range(n)]
        return torch.cat([one.affine_layers[0].affine.operator.weight.flatten() for one in nets])

    return draw


def _scores(model: nn.Module, shape: tuple[int, ...] = (1, 1, 1)) -> Callable[[float, int], Tensor]:
    """The scores on inputs of one: with weights of zero the noise itself."""

    def draw(sigma: float, n: int) -> Tensor:
        noisy = NoisyNet(trace(model.eval(), shape), NoiseRule(0.0, 1.0))
        return (
            NoisyPass(noisy, torch.ones(n, *shape), n, torch.Generator().manual_seed(0))
            .scores(sigma)
            .flatten()
        )

    return draw


def _law(sigma: float, n: int) -> Tensor:
    exponents, words = (
        np.full(2, round(2 * math.log2(sigma))),
        np.random.default_rng(0).integers(0, 2**64, (n, 2), "u8"),
    )
    drawn = RoundedGaussians(np.zeros(2, dtype=np.int64), exponents.astype(np.int64)).draw(words)
    return torch.from_numpy(drawn).double().flatten()


def _trained(sigma: float, n: int) -> Tensor:
    numbers = GaussianNumbers(
        (n,), torch.Generator().manual_seed(0), 0.0, 2 * math.log2(sigma) - USUAL_PRIOR
    )
    return numbers.integers().detach()


def _deep() -> nn.Sequential:
    """Weight 1, then weights 0: under noise σ its scores are σ(1 + σ·normal)·normal."""
    made = nn.Sequential(
        *two_scores(1.0)[:1], *(nn.utils.skip_init(nn.Linear, 1, n, bias=False) for n in (1, 2))
    )
    for parameter, value in zip(made.parameters(), (1.0, 0.0), strict=True):
        parameter.data.fill_(value)
    return made


NOISE: dict[str, tuple[Callable[[float, int], Tensor], float, float]] = {
    **{f"weights, {kind}": (_weights(kind), 0.25, 0.25) for kind in ("dense", "convolution")},
    **{
        f"scores, {kind}": (_scores(two_scores(0.0, kind)), 0.25, 0.25)
        for kind in ("dense", "convolution")
    },
    "scores, second layer": (_scores(_deep()), 0.25, 0.25 * math.sqrt(1 + 0.25**2)),
    # Noise in a factor and in a summand.
    "scores, batch-norm": (
        _scores(nn.Sequential(nn.BatchNorm1d(2, affine=False)), (2,)),
        0.25,
        math.sqrt(0.125),
    ),
    "a posterior's law": (_law, 8.0, 8.0),
    "a posterior's training": (_trained, 8.0, 8.0),
}


@pytest.mark.parametrize("sampler", NOISE)
def test_noise_has_the_standard_deviation_that_it_names(sampler: str) -> None:
    """A variance given where a deviation is asked for: the KL is that of σ, the error that of much
    less noise.
    """
    draw, sigma, expected = NOISE[sampler]
    assert float(draw(sigma, 1500).std()) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("kind", ["dense", "convolution"])
def test_errors_under_noise_are_those_of_the_stated_sigma(kind: str) -> None:
    """σ² for σ where errors are counted for a certificate: it would bound a net with less noise
    than its KL pays.
    """
    data = Dataset(
        "ones", np.full((5, 1, 1, 1), 255, dtype=np.uint8), np.zeros(5, dtype=np.int64), 2
    )
    counted, _ = count_noisy_errors(
        trace(two_scores(1.0, kind), (1, 1, 1)), data, [0.5, 0.25], draws=24_000, seed=0
    )
    for one in counted:
        true = norm.cdf(-1 / (one.sigma * math.sqrt(2)))
        assert abs(one.errors / one.draws - true) < 4 * math.sqrt(true * (1 - true) / one.clusters)
    # ψ of a linear map under N(0, s² I) noise is s²‖A‖_F²‖x‖²/‖Ax‖².
    found = cushion.noise_sensitivity(two_scores(2.0), data, "1", "1", scale=0.5, draws=2000)
    assert found.value == pytest.approx(0.25, rel=0.15)


def test_averages_are_over_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums divided by the last batch's index, or means of batch means: wrong wherever a last batch
    is smaller.
    """
    data, model = make_data(m=23, shape=(1, 8, 8)), net()
    with torch.no_grad():
        logits = model(torch.from_numpy(data.x).float() / 255)
    y = torch.from_numpy(data.y)
    loss, wrong = float(F.cross_entropy(logits, y)), int((logits.argmax(1) != y).sum())
    assert 0 < wrong < 23
    margins = sample_margins(logits, y).double()
    for batch in (1, 5, 22, 100):
        table = measure(model, data, only=["margins"], batch=batch).net
        assert table.margins is not None
        assert table.margins.mean == pytest.approx(float(margins.mean()), rel=1e-5)
        assert table.error_rate == wrong / 23
        with batches(batch):
            found = all_losses(trace(model, data.shape), data)
        assert (found.loss, found.error) == pytest.approx((loss, wrong / 23), rel=1e-5)
        monkeypatch.setattr(epochs, "EVALUATION_BATCH", batch)
        assert epochs.evaluate(model, data) == pytest.approx((loss, wrong), rel=1e-5)


@pytest.mark.parametrize("batch", [5, 7, 22])
def test_the_averages_of_an_epoch_are_over_examples(batch: int) -> None:
    """The same in training's own history, where early stopping and plots read it: 23 examples, no
    learning.
    """
    data = make_data(m=23)
    recipe = Recipe(
        "still", "test", "", "1x6x6: flatten fc8 relu fc3", "", "sgd", 1e-30, batch=batch, epochs=1
    )
    trainer = Trainer(recipe, fit_recipe(recipe, data.shape, 3), data, 0, torch.device("cpu"))
    expected = epochs.evaluate(trainer.module, data)
    with torch.random.fork_rng(devices=[]), working("", hidden=True) as bar:
        line = trainer.epoch(0, bar)
    assert line["train_loss"] == pytest.approx(expected[0], rel=1e-5)
    assert line["train_error"] == expected[1] / 23


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norms_fold_without_a_bias_and_leave_nothing_behind(bias: bool, affine: bool) -> None:
    """Folding that needs conv.bias crashes on the usual nets; a batch-norm left in place scales by
    1/√(1 + ε) again.
    """
    model = net(eps=0.5, affine=affine).double()
    model[0] = nn.Conv2d(1, 4, 3, padding=1, bias=bias).double()
    traced = trace(model, (1, 8, 8))
    assert [node.affine.kind for node in traced.affine_layers] == ["conv2d", "linear"]
    x = torch.randn(9, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(traced.forward(x), model(x), rtol=1e-12, atol=1e-12)


def _state(model: nn.Module) -> list[object]:
    """Everything that running a model could change, as plain values."""
    tensors = [(name, tensor.numpy().tobytes()) for name, tensor in model.state_dict().items()]
    modes = [(name, module.training) for name, module in model.named_modules()]
    flags = [
        (name, p.requires_grad, p.grad is None, p._version) for name, p in model.named_parameters()
    ]
    draws = [
        torch.get_rng_state().numpy().tobytes(),
        repr(np.random.get_state()),
        random.getstate(),
    ]
    return [*tensors, *modes, *flags, *draws, torch.is_grad_enabled(), torch.get_default_dtype()]


RUNS: dict[str, Callable[[nn.Module, nn.Module], object]] = {
    **{
        family: lambda model, init, family=family: measure(
            model, sample(), only=family, init=init, **QUICK
        )  # type: ignore[misc]
        for family in FAMILIES
    },
    "all, beside the initialisation": lambda model, init: measure(
        model, sample(), init=init, beside="init", **QUICK
    ),
    "bounds": lambda model, init: bounds(
        model,
        sample(),
        init=init,
        options=BoundOptions(noisy_draws=64, **{**QUICK, "sharpness": SHARPNESS}),
    ),
    "margins": lambda model, _: cushion.margins(model, sample()),
    "noise sensitivity": lambda model, _: cushion.noise_sensitivity(
        model, sample(), "0", "6", draws=2
    ),
    "support": lambda model, _: cushion.support(model, (1, 8, 8)),
}
SHARPNESS = replace(QUICK["sharpness"], ascent_steps=0)


@pytest.mark.parametrize("what", RUNS)
def test_measuring_leaves_the_model_and_every_generator_alone(what: str) -> None:
    """Weights not restored, statistics updated in train mode, gradients left, seeds reset: later
    results change.
    """
    model = net().train()
    model[3].eval()
    model[6].weight.requires_grad_(False)
    init = copy.deepcopy(model)
    with torch.no_grad():
        init[0].weight.mul_(0.5)
    for draw in (torch.rand, np.random.rand, lambda _: random.random()):
        draw(1)  # what an earlier test left behind may be what a seed makes
    before = _state(model), _state(init)
    RUNS[what](model, init)
    assert (_state(model), _state(init)) == before


@pytest.mark.parametrize(
    "model", [net(), nn.Sequential(nn.Flatten(), net()[6])], ids=["convolution", "dense"]
)
def test_perturbations_are_taken_back(model: nn.Module) -> None:
    """A loop that adds noise and does not restore the weights walks away: every draw starts from
    the last one's net.
    """
    traced, data = trace(model, (1, 8, 8)), sample()
    weights = [node.affine.operator.weight.clone() for node in traced.affine_layers]
    first, second = (measure_sharpness(traced, data, QUICK["sharpness"]) for _ in range(2))
    assert first == second
    x = torch.from_numpy(data.x).float()
    noise = NoisyPass(NoisyNet(traced, NoiseRule(0.0, 1.0)), x, 1, torch.Generator().manual_seed(0))
    scores = [noise.scores(alpha).clone() for alpha in (0.2, -0.1, 0.2, 0.0)]
    assert torch.equal(scores[0], scores[2])
    assert torch.allclose(scores[3], traced.forward(x))
    assert all(
        map(torch.equal, weights, (node.affine.operator.weight for node in traced.affine_layers))
    )


def _leaves(
    parser: argparse.ArgumentParser, *verbs: str
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every verb with its parser, those with actions of their own (data list, data get) one by
    one.
    """
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, sub in action.choices.items():
            yield from _leaves(sub, *verbs, name)
    if not below:
        yield verbs, parser


LEAVES = dict(_leaves(build_parser()))


@pytest.mark.parametrize("verb", LEAVES, ids=" ".join)
def test_misspelt_options_are_refused(
    capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]
) -> None:
    """An unknown option ignored, or --epoch taken for --epochs: the run is not the one that was
    asked for.
    """
    needed, known = list(verb), set()
    for action in LEAVES[verb]._actions:
        known |= set(action.option_strings)
        if action.required:
            needed += [*action.option_strings[:1], "no-such-thing"]
    long = sorted(option for option in known if option.startswith("--") and option != "--help")
    shortened = [option[:-1] for option in long if len(option) > 3 and option[:-1] not in known]
    for wrong in ["--no-such-option", *shortened]:
        for written in ([wrong], [f"{wrong}=1"]):
            code, out, err = ask(capsys, *needed, *written)
            assert (code, out) == (2, "")
            assert f"unrecognized arguments: {written[0]}" in err


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: measure(net(), sample(), only="stabilty"), BadInput),
        (lambda: measure(net(), sample(), only=["norms", "path"]), BadInput),
        (lambda: measure(net(), sample(), epsilonn=0.1), TypeError),  # type: ignore[call-arg]
        (lambda: bounds(net(), sample(), delta=0.1), TypeError),  # type: ignore[call-arg]
        (lambda: BoundOptions(epsilonn=0.1), TypeError),  # type: ignore[call-arg]
        (lambda: StabilityOptions(probe=3), TypeError),  # type: ignore[call-arg]
        (lambda: SharpnessOptions(draw=3), TypeError),  # type: ignore[call-arg]
        (lambda: ConditionOptions(method="exactly"), BadInput),  # type: ignore[arg-type]
        (lambda: cushion.noise_sensitivity(net(), sample(), "0", "6", noise="gausian"), BadInput),
        (lambda: cushion.noise_sensitivity(net(), sample(), "0", "7"), BadInput),
        (lambda: cushion.certify(None, sample(), minuets=1), TypeError),  # type: ignore[call-arg]
        (lambda: cushion.compress(None, sample(), method="integers"), BadInput),
        (lambda: cushion.compress(None, sample(), method="integer", minuets=1), BadInput),
        (lambda: cushion.load("digits,subst=10"), BadInput),
        (lambda: cushion.train("small-nett", sample(), "never-made"), BadInput),
        (lambda: cushion.train("1x6x6: flaten fc3", sample(), "never-made"), BadInput),
    ],
)
def test_misspelt_arguments_are_refused(call: Callable[[], object], error: type[Exception]) -> None:
    """The same in Python: a misspelt family or keyword must not leave something out, or its default
    in place.
    """
    with pytest.raises(error):
        call()


class Doubling(nn.Module):
    """An operation that no rule knows."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


def with_odd(odd: nn.Module) -> nn.Module:
    layers = nn.Flatten(), nn.Linear(64, 6), nn.Sequential(nn.ReLU(), odd), nn.Linear(6, 3)
    return nn.Sequential(*layers)


odd_ones = pytest.mark.parametrize(
    "odd", [nn.LayerNorm(6), Doubling()], ids=lambda odd: type(odd).__name__
)


@odd_ones
@pytest.mark.parametrize("what", ["trace", "paths", "conditions", "noise sensitivity"])
def test_a_net_that_is_not_understood_is_refused_by_name(what: str, odd: nn.Module) -> None:
    """Layers that no rule knows skipped: an empty table, or one that leaves layers out, looks like
    a result.
    """
    model = with_odd(odd)
    with pytest.raises(Unsupported, match=r"2\.1"):
        trace(model, (1, 8, 8)) if what == "trace" else RUNS[what](model, model)


@odd_ones
def test_what_does_not_need_the_trace_says_how_it_saw_the_net(odd: nn.Module) -> None:
    """The other way round: weights and answers need no trace; nothing is left out in silence."""
    table = measure(
        with_odd(odd),
        sample(),
        stability=StabilityOptions(examples=2, draws=1, probes=2),
        sharpness=SharpnessOptions(draws=2, ascent_steps=1),
    )
    assert table.net.way == "hooks"
    assert [layer.name for layer in table.layers] == ["1", "3"]
    assert all(layer.spectral and layer.layer_cushion and layer.tails for layer in table.layers)
    assert table.net.sharpness is not None
    assert {one.family for one in table.left_out} == {"paths", "conditions"}
    assert all("2.1" in one.why for one in table.left_out)


@pytest.mark.parametrize("model", [nn.Flatten(), nn.Sequential(nn.Flatten(), nn.ReLU())])
def test_a_net_without_layers_is_refused(model: nn.Module) -> None:
    """The same for a net in which there are no weights to measure."""
    for call in (
        lambda: trace(model, (1, 8, 8)),
        lambda: measure(model, sample(), only="norms"),
        lambda: measure(model, sample(), only="sharpness"),
        lambda: bounds(model, sample()),
    ):
        with pytest.raises(CushionError, match="no affine layer"):
            call()
    table = measure(model, sample())
    assert table.net.way == "answers"
    assert all("no affine layer" in one.why for one in table.left_out)


def test_path_norms_sum_over_a_pooling_window() -> None:
    """The forward pass on ones takes the largest path of a window instead of all: 2 where the path
    norm is 8.
    """
    model = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1, 2, bias=False)
    )
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    traced = trace(model, (1, 2, 2))
    assert path_norms(traced, [1.0])[0].value == pytest.approx(8.0)
    assert path_norms(traced, [2.0])[0].value == pytest.approx(math.sqrt(8.0))
