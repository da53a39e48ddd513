"""Propositions and lemmas of Shin 2021 on a net: each ratio by hand, where Lemma 2.2 speaks and
where it does not.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.compressors.test_pruning_run import scores
from tests.trained_cases import digits, trained
from torch import nn

from cushion.compressors.choice import worthless
from cushion.compressors.lemmas import LayerErrors
from cushion.compressors.noise.candidates import replace_layer, store_replaced
from cushion.compressors.noise.checks import lemma_2_1, lemma_2_2, notes_on, proposition_1_1
from cushion.compressors.noise.method import HeavyTailOptions
from cushion.compressors.noise.records import LayerReplacement, ReplacementSummary, TriedTail
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.perturbations import PairRatios
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.records import PromiseCheck
from cushion.compressors.run import compress_model
from cushion.compressors.subject import Subject
from cushion.data.dataset import Dataset
from cushion.measures.table import traced
from cushion.measures.tails.power_law import Magnitudes, fit_power_law

heavy_tailed = functools.partial(compress_model, method="heavy-tail")

DELTA = 0.05


def found(options: dict[str, Any], net: str = "mlp", seed: int = 3) -> ReplacementSummary:
    chosen = HeavyTailOptions(**{"trials": 1, "grid": "10", **options})
    return heavy_tailed(trained(net)[0], digits()[0], options=chosen, seed=seed).summary


def check(summary: ReplacementSummary, name: str) -> PromiseCheck:
    return next(one for one in summary.promises if one.name == name)


def faithful(options: dict[str, Any], seed: int = 3) -> list[torch.Tensor]:
    """Weights of the mlp as the form makes them, from the stored record of a run."""
    model, data = trained("mlp")[0], digits()[0]
    chosen = HeavyTailOptions(**{"trials": 1, "grid": "10", **options})
    run = heavy_tailed(model, data, options=chosen, seed=seed)
    if any(isinstance(layer, Spiked) for layer in run.net.stored.layers):
        return [torch.from_numpy(layer.weight(seed)).float() for layer in run.net.stored.layers]
    net = traced(model, data)
    replaced = [
        replace_layer(node.affine.operator.weight, "corrected", row.tau or 0.0, 0.0)
        for node, row in zip(net.affine_layers, run.summary.layers, strict=True)
    ]
    stored = store_replaced(net, replaced, 10, seed, faithful=True)
    return [torch.from_numpy(layer.weight(seed)).float() for layer in stored.layers]


@pytest.mark.parametrize(
    "options",
    [
        {"tau": (1.0,), "t": (0.0,)},
        {"tau": (1.0,), "t": (1.0,)},
        {"tau": (0.5,), "form": "algorithm"},
        {"form": "appendix", "layers": ("all",), "grid": "10"},
    ],
)
def test_every_ratio_by_hand(options: dict[str, Any]) -> None:
    """One example, one unit and one row of a Jacobian at a time."""
    summary = found(options)
    (_, first, _, second), data = trained("mlp")[0], digits()[0]
    weights = [first.weight.detach(), second.weight.detach()]
    made = faithful(options)
    x = torch.from_numpy(data.x).float().flatten(1) / 255
    hidden = x @ weights[0].T + first.bias.detach()
    inputs = [x, hidden.relu()]
    d, m, h = 2, len(data), 16
    eta = DELTA / (2 * d * d * m * h)
    assert summary.eta == pytest.approx(eta)
    printed = summary.form != "corrected"
    units, pairs = [], {0: [], 1: []}
    for i, (weight, new, v, row) in enumerate(
        zip(weights, made, inputs, summary.layers, strict=True)
    ):
        norm = float(weight.double().norm())
        spread = row.tau**2 + row.t
        own = math.sqrt(2 * spread * math.log(2 / eta)) / norm
        paper = math.sqrt(spread * math.log(3 / eta)) / norm
        assert row.rounding < 0.01
        assert row.epsilon_printed == pytest.approx(paper + row.rounding, rel=1e-5)
        assert (row.epsilon is None) == printed
        if row.epsilon is not None:
            assert row.epsilon == pytest.approx(own + row.rounding, rel=1e-5)
        epsilon = row.epsilon_printed if printed else row.epsilon
        moved = v @ (new - weight).T
        allowed = epsilon * norm * v.norm(dim=1)
        units.append((moved.abs() / allowed[:, None]).double())
        pairs[i].append(moved.norm(dim=1) / (allowed * math.sqrt(moved.shape[1])))
        if i == 0:
            for at in range(m):
                jacobian = weights[1] * (hidden[at] > 0).float()
                pairs[0].append(
                    (jacobian @ moved[at]).norm()[None] / (allowed[at] * jacobian.norm())
                )
    everything = torch.cat([one.reshape(-1) for one in units])
    name = " as printed" if printed else ""
    proposition, lemma = (
        check(summary, f"Proposition 1.1{name}"),
        check(summary, f"Lemma 2.1{name}"),
    )
    assert proposition.worst_ratio == pytest.approx(float(everything.max()), rel=1e-3)
    assert proposition.cases == everything.numel()
    assert proposition.held == (float((everything > 1).double().mean()) <= eta)
    worst = [max(float(part.max()) for part in pairs[i]) for i in (0, 1)]
    assert [row.worst_ratio for row in summary.layers] == pytest.approx(worst, rel=1e-3)
    assert lemma.worst_ratio == pytest.approx(max(worst), rel=1e-3)
    assert lemma.held == (max(worst) <= 1)
    assert lemma.cases == 3 * m
    assert "depend on the weights" in lemma.meaning


def test_the_net_s_epsilon_by_hand() -> None:
    """max_i 6cd·ε_i/(μ_i μ_{i→}), with the cushions and the contraction of the sample."""
    summary = found({"tau": (1.0,), "t": (1.0,)})
    net, data = traced(trained("mlp")[0], digits()[0]), digits()[0]
    options = NetOptions(examples=len(data))
    facts = Subject(net, None, data, "heavy-tail", options, DELTA, 3).stability
    assert facts is not None
    assert summary.smoothness == facts.smoothness
    by_hand = [
        12 * facts.contraction * row.epsilon / (layer.cushion * layer.interlayer)
        for row, layer in zip(summary.layers, facts.layers, strict=True)
        if row.epsilon is not None
    ]
    assert summary.epsilon == pytest.approx(max(by_hand), rel=1e-6)
    lemma = check(summary, "Lemma 2.2")
    assert lemma.held is None
    assert f"ρ = {facts.smoothness:.3g} is below 3d = 6" in lemma.meaning
    assert all(one.promised is None for one in summary.induction)


def test_the_rounding_of_a_layer_that_is_left_out_is_spent_too() -> None:
    net, data = traced(trained("mlp")[0], digits()[0]), digits()[0]
    summary = found({"tau": (0.05,), "t": (0.0,), "layers": ("3",), "grid": "3"})
    facts = Subject(
        net, None, data, "heavy-tail", NetOptions(examples=len(data)), DELTA, 3
    ).stability
    assert facts is not None
    first, second = summary.layers
    assert first.epsilon is None
    assert second.epsilon is not None
    by_hand = [
        12 * facts.contraction * own / (layer.cushion * layer.interlayer)
        for own, layer in zip((first.rounding, second.epsilon), facts.layers, strict=True)
    ]
    assert by_hand[0] > by_hand[1]
    assert summary.epsilon == pytest.approx(by_hand[0], rel=1e-6)


def test_a_convolution_has_the_factor_of_its_overlaps() -> None:
    """‖Δv‖ ≤ ε·⌈κ/s⌉·‖K‖_F·√(outputs)·‖v‖: of one layer J is the identity."""
    data = digits()[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 10, 4, stride=4), nn.ReLU(), nn.Conv2d(10, 10, 2), nn.Flatten()
        ).eval()
    run = heavy_tailed(
        model, data, options=HeavyTailOptions(tau=(1.0,), t=(1.0,), trials=1), seed=3
    )
    row, layer = run.summary.layers[1], run.net.stored.layers[1]
    assert row.epsilon is not None
    with torch.no_grad():
        v = model[:2](torch.from_numpy(data.x).float() / 255)
        moved = nn.functional.conv2d(v, torch.from_numpy(layer.weight(3)).float() - model[2].weight)
    allowed = row.epsilon * 2 * row.frobenius * math.sqrt(10) * v.flatten(1).norm(dim=1)
    assert row.worst_ratio == pytest.approx(
        float((moved.flatten(1).norm(dim=1) / allowed).max()), rel=1e-3
    )


def positive(tiny: float) -> tuple[nn.Module, Dataset]:
    """No unit ever switches (ρ = ∞) and nothing contracts; a third of the weights is tiny, and
    signed.
    """
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(
        nn.Linear(40, 30, bias=False), nn.ReLU(), nn.Linear(30, 3, bias=False)
    ).eval()
    for part in net.parameters():
        size = torch.rand(part.shape, generator=generator) + 0.5
        sign = torch.where(torch.rand(part.shape, generator=generator) < 0.5, -1.0, 1.0)
        part.data = torch.where(
            torch.rand(part.shape, generator=generator) < 0.33, tiny * sign, size
        )
    x = np.random.default_rng(0).uniform(0.1, 1.0, (30, 40)).astype(np.float32)
    with torch.no_grad():
        y = net(torch.from_numpy(x)).argmax(1).numpy()
    return net, Dataset("positive", x, y, 3)


@pytest.mark.parametrize("t", [0.0, 1.0])
def test_lemma_2_2_promises_and_holds_where_its_conditions_do(t: float) -> None:
    net, data = positive(1e-4)
    options = HeavyTailOptions(tau=(0.01,), t=(t,), grid="24", trials=2)
    summary = heavy_tailed(net, data, options=options, seed=2).summary
    lemma = check(summary, "Lemma 2.2")
    assert lemma.held is True, lemma.meaning
    assert lemma.worst_ratio is not None
    assert 0 < lemma.worst_ratio <= 1
    assert summary.smoothness == math.inf
    assert summary.epsilon is not None
    assert 0 < summary.epsilon <= 1
    assert [(one.compressed, one.promised) for one in summary.induction] == [
        (1, pytest.approx(summary.epsilon / 2)),
        (1, pytest.approx(summary.epsilon / 2)),
        (2, pytest.approx(summary.epsilon)),
    ]
    for one in summary.induction:
        assert one.worst <= one.promised
    ratios = [one.worst / one.promised for one in summary.induction]
    assert lemma.worst_ratio == pytest.approx(max(ratios))
    row = next(row for row in summary.paper_bounds if row.form == "as printed")
    assert "Lemma 2.2 promises ε = " in row.meaning


def test_lemma_2_2_says_why_it_is_silent() -> None:
    net, data = positive(0.2)
    large = heavy_tailed(net, data, options=HeavyTailOptions(tau=(0.5,), t=(0.0,)), seed=2).summary
    assert "the induction needs ε ≤ 1" in check(large, "Lemma 2.2").meaning
    assert check(large, "Lemma 2.2").worst_ratio is not None  # what was seen is shown all the same
    net, data = positive(1e-4)
    with_bias = nn.Sequential(net[0], nn.ReLU(), nn.Linear(30, 3)).eval()
    with torch.no_grad():
        with_bias[2].weight.copy_(net[2].weight)
        with_bias[2].bias.fill_(1e-3)
    options = HeavyTailOptions(tau=(0.01,), t=(0.0,), grid="24")
    biased = heavy_tailed(with_bias, data, options=options, seed=2).summary
    assert "without biases" in check(biased, "Lemma 2.2").meaning
    printed = heavy_tailed(
        net, data, options=HeavyTailOptions(form="algorithm", tau=(0.01,), trials=1)
    ).summary
    assert "is false: the mean of what goes survives" in check(printed, "Lemma 2.2").meaning


def test_proposition_1_1_as_printed_breaks_where_the_mean_survives() -> None:
    """Erratum a: positive weights, as the paper models them, and zero-mean noise in place of the
    small ones.
    """
    rng = np.random.default_rng(3)
    weight = (rng.pareto(3.0, (20, 2000)) + 1.0).astype(np.float32)
    net = nn.Sequential(nn.Linear(2000, 20, bias=False)).eval()
    net[0].weight.data = torch.from_numpy(weight)
    x = rng.uniform(0.5, 1.0, (50, 2000)).astype(np.float32)
    data = Dataset("positive", x, rng.integers(0, 20, 50), 20)
    options = HeavyTailOptions(
        form="algorithm", epsilon=0.05, eta=0.05, t=(0.1,), grid="12", trials=1
    )
    summary = heavy_tailed(net, data, options=options).summary
    proposition = check(summary, "Proposition 1.1 as printed")
    assert proposition.held is False
    assert "100 % exceed it, and η = 0.05 of them may" in proposition.meaning
    assert any("the mean survives" in note for note in summary.notes)
    # The same sizes with random signs: the corrected form holds.
    net[0].weight.data = torch.from_numpy(
        weight * rng.choice([-1.0, 1.0], weight.shape).astype(np.float32)
    )
    options = HeavyTailOptions(epsilon=0.05, eta=0.05, t=(0.1,), grid="12", trials=1)
    corrected = heavy_tailed(net, data, options=options).summary
    assert check(corrected, "Proposition 1.1").held is True
    assert corrected.layers[0].replaced > 10_000


def test_the_power_law_s_k() -> None:
    rng = np.random.default_rng(5)
    sizes = (rng.pareto(2.5, (40, 200)) + 1.0) * 0.1
    net = nn.Sequential(nn.Linear(200, 40, bias=False)).eval()
    net[0].weight.data = torch.from_numpy(sizes * rng.choice([-1.0, 1.0], sizes.shape)).float()
    data = Dataset("d", rng.normal(size=(30, 200)).astype(np.float32), rng.integers(0, 40, 30), 40)
    (row,) = heavy_tailed(net, data, options=HeavyTailOptions(tau=(2.0,), t=(0.0,))).summary.layers
    fit = fit_power_law(Magnitudes.of(net[0].weight.detach().double().numpy()))
    assert (row.alpha, row.xmin) == (fit.alpha, fit.xmin)
    share = (fit.xmin / row.tau) ** (fit.alpha - 1)
    assert row.kept_model == pytest.approx(8000 * share)
    assert row.kept_fitted == pytest.approx(fit.tail * share)
    assert row.kept == pytest.approx(
        row.kept_fitted, rel=0.1
    )  # such weights are what the proposition is about
    below = heavy_tailed(net, data, options=HeavyTailOptions(tau=(1e-3,), t=(0.0,))).summary.layers[
        0
    ]
    assert (below.kept_model, below.kept_fitted) == (None, None)


def test_checks_on_edges() -> None:
    none = lemma_2_1(PairRatios({}, frozenset()), 0.1, printed=False)
    assert (none.held, none.cases) == (None, 0)
    bad = PairRatios(
        {(0, 0): np.array([0.5, math.nan]), (0, 1): np.array([1.5, 0.1])}, frozenset({(0, 0)})
    )
    broken = lemma_2_1(bad, 0.1, printed=False)
    assert (broken.held, broken.worst_ratio, broken.cases) == (False, 1.5, 4)
    assert "2 pairs of layers (1 with an exact ‖J‖_F) on 2 examples" in broken.meaning
    empty = np.zeros(2)
    errors = LayerErrors(
        {(0, 0): np.array([0.3, 0.1]), (0, 1): np.array([0.1, 0.2]), (1, 1): np.array([0.1, 0.7])},
        empty,
        empty,
        empty,
        empty,
        empty,
    )
    lemma = lemma_2_2(errors, 0.7, "")
    assert (lemma.held, lemma.worst_ratio, lemma.cases) == (True, pytest.approx(1.0), 6)
    assert lemma_2_2(errors, 0.5, "").held is False
    assert lemma_2_2(errors, 0.5, "of this").held is None
    assert lemma_2_2(errors, None, "of that").meaning == "not promised: of that"
    assert lemma_2_2(errors, math.inf, "of that").worst_ratio is None
    assert "nothing moves" in lemma_2_2(errors, 0.0, "").meaning


def test_a_fraction_eta_of_the_units_may_exceed() -> None:
    net = traced(trained("linear")[0], digits()[0])
    node = net.affine_layers[0]
    weight = node.affine.operator.weight
    moved = weight.clone()
    moved[0, :] += 0.05  # one of ten units
    other = net.with_affine(
        {node.index: replace(node.affine, operator=node.affine.operator.with_weight(moved))}
    )
    for eta, held in ((0.05, False), (0.1, True), (0.2, True)):
        one = proposition_1_1(net, other, digits()[0], [1e-4], eta, printed=False)
        assert one.held is held, one.meaning
        assert "10 % exceed it" in one.meaning
    gap = (scores(net, digits()[0]) - scores(other, digits()[0])).abs().max(1).values.double()
    x = torch.from_numpy(digits()[0].x).double().flatten(1) / 255
    wanted = gap / (1e-4 * float(weight.double().norm()) * x.norm(dim=1))
    assert one.worst_ratio == pytest.approx(float(wanted.max()), rel=1e-3)


def test_notes() -> None:
    summary = found({"tau": (1.0,), "t": (0.0, 1.0)})
    first = TriedTail(
        asked="tau=1, t=0", grid="8 bits", kept=10, bits=100, errors=20, bound=1.0, written=True
    )
    tried = (first, replace(first, asked="tau=1, t=1", errors=80, bound=0.95, chosen=True))
    row = next(row for row in summary.layers)
    noisy = replace(summary, tried=tried, layers=(replace(row, t=0.1),))
    notes = notes_on(noisy)
    assert "without noise, tau=1, t=0 errs on 20 examples and with it on 80" in notes
    (said,) = worthless(tried, 10)
    assert "tau=1, t=0 with grid 8 bits errs least (20 of the examples)" in said
    assert worthless(tried, 2 * 10**6) == []
    assert worthless((tried[0], replace(tried[1], bound=0.89)), 10) == []
    other = replace(
        noisy, tried=(replace(tried[0], grid="4 bits"), tried[1])
    )  # another grid is no comparison
    assert not any("without noise" in note for note in notes_on(other))
    alone = notes_on(replace(noisy, tried=tried[1:]))
    assert alone == ("noise only adds error to what is left out; `t` = 0 replaces by zeros",)
    rounded: LayerReplacement = replace(row, nonzeros=0, rounded_away=row.kept)
    assert any("left on its grid" in note for note in notes_on(replace(noisy, layers=(rounded,))))
    unread: LayerReplacement = replace(row, nonzeros=0, rounded_away=row.kept - 1)
    assert any(
        "does not read its units" in note for note in notes_on(replace(noisy, layers=(unread,)))
    )
    coarse = replace(noisy, settings={**noisy.settings, "epsilon": row.rounding / 2})
    assert any("rounding alone moves" in note for note in notes_on(coarse))
    fine = replace(noisy, settings={**noisy.settings, "epsilon": 2 * row.rounding})
    assert not any("rounding alone moves" in note for note in notes_on(fine))
