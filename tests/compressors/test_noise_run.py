"""compress_model from end to end: every number of its record derived again, the best of what was
tried, certificates.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.compressed_cases import NAMED
from tests.compressors.test_pruning_run import errors, scores
from tests.trained_cases import HELD_OUT, ROWS, digits, trained
from torch import nn

import cushion
from cushion.compressors import choice
from cushion.compressors.choice import Compressed
from cushion.compressors.file import read_compressed
from cushion.compressors.method import BEST_GRIDS
from cushion.compressors.noise.candidates import threshold_within
from cushion.compressors.noise.method import TAUS, HeavyTailOptions
from cushion.compressors.noise.records import ReplacementSummary
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, CushionError
from cushion.measures.table import traced
from cushion.numerics import float_up
from cushion.theorems.logs import price
from cushion.theorems.occam import occam_bound

heavy_tailed = functools.partial(compress_model, method="heavy-tail")

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("mlp", {"tau": (0.5, 1.0)}),
    ("mlp", {"tau": (1.0,), "t": (1.0,), "trials": 4}),
    ("mlp", {"form": "algorithm", "tau": (0.3,), "trials": 3}),
    ("mlp", {"form": "appendix", "trials": 3}),
    ("conv", {"tau": (0.7,), "t": (0.5,), "grid": "6", "trials": 2}),
    ("linear", {"epsilon": 0.1, "eta": 0.05, "t": (0.0, 1.0), "trials": 2}),
    ("mlp", {"tau": (1.0,), "t": (1.0,), "layers": ("3",), "grid": "12", "trials": 2}),
]


@cache
def _run(net: str, options: HeavyTailOptions) -> Compressed[ReplacementSummary]:
    data, holdout = digits()
    return heavy_tailed(trained(net)[0], data, options=options, holdout=holdout, seed=3)


def run(net: str, **options: Any) -> Compressed[ReplacementSummary]:
    return _run(net, HeavyTailOptions(**options))


@pytest.mark.parametrize(("net", "options"), RUNS)
def test_every_number_of_the_record_is_derived_again(
    net: str, options: dict[str, Any], tmp_path: Path
) -> None:
    found = run(net, **options)
    summary, stored, (data, holdout) = found.summary, found.net.stored, digits()
    model = trained(net)[0]
    assert (summary.method, summary.seed, summary.m, summary.delta) == ("heavy-tail", 3, ROWS, 0.05)
    assert summary.form == options.get("form", "corrected")
    assert summary.parameters_before == sum(part.numel() for part in model.parameters())
    assert (summary.parameters, summary.bits) == (stored.parameters, stored.coded.bits)
    # seed, kinds, sizes, grids
    assert 0 < summary.bits - sum(layer.bits for layer in summary.layers) < 400

    # The net is what its file says, bit by bit, and the errors are its own.
    loaded = read_compressed(found.save(tmp_path / "n.net"))
    after, before = scores(found.net.network, data), scores(model, data)
    assert torch.equal(scores(loaded.network, data), after)
    assert (summary.errors_before, summary.errors) == (errors(before, data), errors(after, data))
    machine, file = summary.occam
    assert (machine.errors, machine.bits) == (summary.errors, summary.bits)
    assert machine.bound == float_up(
        occam_bound(machine.errors, ROWS, summary.bits, Decimal("0.05"))
    )
    assert summary.output_error == pytest.approx(
        float(torch.linalg.vector_norm(after - before, dim=1).max()), rel=1e-4
    )

    # Trials: the same thresholds, other seeds.
    noisy = any(isinstance(layer, Spiked) for layer in stored.layers)
    assert len(summary.trials) == (options.get("trials", 10) if noisy else 1)
    own, others = [], []
    for at, trial in enumerate(summary.trials):
        other = replace(stored, seed=3 + at).network(found.net.frame)
        own.append(1 - errors(scores(other, data), data) / ROWS)
        others.append(1 - errors(scores(other, holdout), holdout) / HELD_OUT)
        assert (trial.seed, trial.errors) == (3 + at, round(ROWS * (1 - own[-1])))
        assert trial.holdout_errors == round(HELD_OUT * (1 - others[-1]))
    for seen, values, m, wrong in (
        (summary.accuracy, own, ROWS, errors(before, data)),
        (summary.holdout_accuracy, others, HELD_OUT, errors(scores(model, holdout), holdout)),
    ):
        assert seen is not None
        assert (seen.m, seen.trials, seen.before) == (m, len(values), 1 - wrong / m)
        assert seen.mean == pytest.approx(sum(values) / len(values))
        if len(values) == 1:
            assert seen.deviation is None
        else:
            mean = sum(values) / len(values)
            assert seen.deviation == pytest.approx(
                math.sqrt(sum((one - mean) ** 2 for one in values) / (len(values) - 1))
            )

    # The certificate holds the same weights, and verifies.
    assert found.certificate is not None, file.because
    assert cushion.verify(found.certificate.save(tmp_path / "n.cushion"), data, holdout).ok
    assert (file.errors, file.bits) == (
        found.certificate.claim.errors,
        found.certificate.claim.bits,
    )
    assert abs(file.errors - machine.errors) <= 8  # activations are rounded

    # Layers, and what Theorem 2 counts: positions and values of what is stored.
    nats, chosen = 0.0, 0.0
    biases = [bias for bias in stored.biases if bias is not None]
    values_of_a_bias = max((2 * int(np.abs(bias.integers).max()) + 1 for bias in biases), default=1)
    rest = sum(bias.integers.size for bias in biases) * math.log(values_of_a_bias) + price(
        values_of_a_bias
    )
    # 3: the seed
    rest += price(3) + sum(price(bias.exponent) for bias in biases) + math.log(len(summary.tried))
    for layer, row, node in zip(
        stored.layers, summary.layers, found.net.frame.affine_layers, strict=True
    ):
        kept = layer.kept if isinstance(layer, Spiked) else layer
        values = kept.integers[kept.integers != 0]
        assert (row.nonzeros, row.name, row.shape) == (values.size, node.name, kept.shape)
        nats += math.log(math.comb(kept.integers.size, values.size))
        most = 2 * int(np.abs(values).max(initial=0))
        nats += values.size * math.log(max(1, most))
        chosen += math.log(kept.integers.size + 1) + price(most) + price(kept.values.exponent)
        if isinstance(layer, Spiked):
            chosen += price(layer.law.exponent) + sum(price(int(one)) for one in layer.law.integers)
        assert row.t == (layer.deviation**2 if isinstance(layer, Spiked) else 0.0)
        assert row.kept + row.replaced == row.weights
        weight = node.affine.operator.weight.double()
        assert row.frobenius == pytest.approx(float(weight.norm()))
        if row.is_replaced:
            stays = weight.abs() > row.tau if summary.form == "corrected" else weight > row.tau
            assert row.kept == int(stays.sum())
            assert row.replaced_mean == pytest.approx(float(weight[~stays].mean()), abs=1e-12)
            assert row.replaced_largest == pytest.approx(float(weight[~stays].abs().max()))
            assert row.deviation == pytest.approx(float(weight.std(unbiased=False)))
        else:
            assert (row.replaced, row.epsilon, row.worst_ratio, row.stored_as) == (
                0,
                None,
                None,
                "all weights",
            )
    corrected = next(
        row
        for row in summary.paper_bounds
        if row.name == "heavy-tail count" and row.form == "corrected"
    )
    assert corrected.factors is not None
    assert corrected.factors["positions"] + corrected.factors["values"] == pytest.approx(
        nats, rel=1e-9
    )
    assert corrected.factors["chosen"] == pytest.approx(chosen, rel=1e-9)
    assert corrected.factors["others"] == pytest.approx(rest, rel=1e-9)

    # What was tried, and what that costs.
    (taken,) = [one for one in summary.tried if one.chosen]
    assert (taken.bits, taken.errors, taken.bound, taken.written) == (
        summary.bits,
        summary.errors,
        machine.bound,
        True,
    )
    assert taken.kept == sum(row.kept for row in summary.layers if row.is_replaced)
    assert summary.price == pytest.approx(math.log(len(summary.tried)))
    assert found.net.notes["chosen"] == taken.asked
    assert set(json.loads(summary.dumps())["promise"]) == {"held", "worst_ratio"}


def test_every_combination_is_tried_and_the_smallest_bound_is_taken() -> None:
    found = run("mlp", tau=(1.0, 2.0, 1.0), t=(0.0, 1.0), grid="best", trials=1).summary
    assert [(one.asked, one.grid) for one in found.tried] == [
        (f"tau={tau:g}, t={t:g}", f"{bits} bits")
        for tau in (1, 2)
        for t in (0, 1)
        for bits in BEST_GRIDS
    ]
    taken = next(one for one in found.tried if one.chosen)
    value = [
        one.errors / ROWS + math.sqrt(one.bits * math.log(2) / (2 * ROWS)) for one in found.tried
    ]
    key = [(one.bound, rest) for one, rest in zip(found.tried, value, strict=True)]
    assert key[found.tried.index(taken)] == min(key)
    for one in (found.tried[3], found.tried[8]):
        tau, t = (float(part.partition("=")[2]) for part in one.asked.split(", "))
        alone = run("mlp", tau=(tau,), t=(t,), grid=one.grid.split()[0], trials=1).summary
        assert (one.bits, one.errors, one.kept) == (alone.bits, alone.errors, alone.tried[0].kept)


def test_without_a_setting_the_defaults_are_tried() -> None:
    found = run("mlp", trials=1).summary
    assert [one.asked for one in found.tried] == [
        f"tau={tau:g}, t={t:g}" for tau in TAUS for t in (0, 1)
    ]
    kept = [one.kept for one in found.tried]
    assert kept == sorted(kept, reverse=True)


def test_noise_only_adds_error() -> None:
    """Erratum d: at one threshold and grid a larger t errs more, on average over seeds."""
    means = [
        run("mlp", tau=(1.0,), t=(t,), trials=6).summary.accuracy.mean  # type: ignore[union-attr]
        for t in (0.0, 1.0, 4.0)
    ]
    assert means == sorted(means, reverse=True)
    assert means[0] > means[2] + 0.05


def test_t_0_is_pruning_by_magnitude() -> None:
    """Of a linear classifier: as many weights by the rule "layer" of Guha 2023 give the same
    message.
    """
    found = run("linear", tau=(1.0,), t=(0.0,), grid="6")
    (row,) = found.summary.layers
    options = PruneOptions(rule="layer", sparsity=(row.replaced / row.weights,), grid="6")
    pruned = compress_model(
        trained("linear")[0], digits()[0], method="magnitude", options=options, seed=3
    )
    assert pruned.net.stored.coded.data == found.net.stored.coded.data
    assert {layer.kind for layer in found.net.stored.layers} == {"pruned"}
    assert any("every trial is the same net" in note for note in found.summary.notes)


def test_epsilon_chooses_the_threshold() -> None:
    found = run("mlp", epsilon=0.2, eta=0.01, grid="12").summary
    for row in found.layers:
        budget = (0.2 * row.frobenius) ** 2 / (2 * math.log(2 / 0.01))
        assert row.tau is not None
        assert row.tau**2 <= budget
        assert row.replaced_largest == row.tau  # the threshold is the largest weight that goes
    check = next(one for one in found.promises if one.name == "Proposition 1.1")
    assert "η = 0.01" in check.meaning
    run_printed = run("mlp", form="algorithm", epsilon=0.2, eta=0.01, t=(0.5,), grid="12", trials=1)
    layers = run_printed.net.frame.affine_layers
    for row in run_printed.summary.layers:
        budget = (0.2 * row.frobenius) ** 2 / math.log(
            3 / 0.01
        )  # as printed: nearly twice the corrected one
        weight = next(one for one in layers if one.name == row.name).affine.operator.weight
        assert row.tau == threshold_within(weight, "algorithm", budget, 0.5)
    nothing = run("mlp", epsilon=1e-4, eta=0.01).summary
    assert all(row.replaced == 0 or row.replaced_largest <= 1e-3 for row in nothing.layers)


def test_a_grid_that_rounds_by_more_than_epsilon_is_not_tried() -> None:
    """Of the grids that `best` tries only those within ε, and the finest, which a note may then
    complain of.
    """
    found = run("mlp", epsilon=0.02, eta=0.01, grid="best").summary
    assert 1 <= len(found.tried) < 6
    assert found.tried[-1].grid == "8 bits"
    assert all(row.rounding <= 0.02 for row in found.layers) or "rounding alone" in " ".join(
        found.notes
    )
    every = run("mlp", epsilon=0.9, eta=0.01, grid="best").summary
    assert len(every.tried) == 6


def test_appendix_e_of_any_layer_and_its_certificates() -> None:
    last = run("mlp", form="appendix", trials=2)
    assert [row.is_replaced for row in last.summary.layers] == [False, True]
    assert last.certificate is not None
    whole = run("mlp", form="appendix", layers=("all",), trials=2)
    assert whole.certificate is None
    assert whole.summary.occam[1].because.startswith("layer 1: its draws have a mean")
    row = last.summary.layers[1]
    weight = last.net.frame.affine_layers[1].affine.operator.weight.double()
    assert (row.tau, row.t_asked) == (row.deviation, None)
    assert row.noise_mean == pytest.approx(float(weight.mean()), abs=1e-4)
    assert row.t == pytest.approx(float(weight.var(unbiased=False)), rel=1e-3)


def test_held_out_examples_choose_nothing() -> None:
    data, holdout = digits()
    other = replace(holdout, y=(holdout.y + 1) % 10)
    options = HeavyTailOptions(tau=(1.0, 2.0), trials=2)
    found = [
        heavy_tailed(trained("mlp")[0], data, options=options, holdout=one, seed=3)
        for one in (holdout, other, None)
    ]
    assert len({one.net.stored.coded.data for one in found}) == 1
    assert found[0].summary.occam[0].holdout_errors != found[1].summary.occam[0].holdout_errors
    assert found[2].summary.occam[0].holdout_errors is None
    assert found[2].summary.holdout_accuracy is None
    assert found[2].summary.trials[0].holdout_errors is None


def test_the_seed_decides_the_threads_do_not_and_the_model_stays() -> None:
    model, data = trained("conv")[0], digits()[0]
    before = copy.deepcopy(model.state_dict())
    options = HeavyTailOptions(tau=(1.0,), t=(1.0,), trials=1)
    first = heavy_tailed(model, data, options=options, seed=3)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        again = heavy_tailed(model, data, options=options, seed=3)
    finally:
        torch.set_num_threads(threads)
    assert first.net.stored.coded.data == again.net.stored.coded.data
    other = heavy_tailed(model, data, options=options, seed=4).net.stored
    assert other.coded.data != first.net.stored.coded.data
    for one, two in zip(other.layers, first.net.stored.layers, strict=True):  # the noise alone
        assert isinstance(one, Spiked)
        assert isinstance(two, Spiked)
        assert np.array_equal(one.kept.integers, two.kept.integers)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_long_messages_are_compared_by_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    options = HeavyTailOptions(tau=(0.3, 0.5), t=(1.0,), trials=1)
    written = run(
        "mlp", **{name: getattr(options, name) for name in ("tau", "t", "trials")}
    ).summary
    monkeypatch.setattr(choice, "_WRITTEN", 0)
    estimated = heavy_tailed(trained("mlp")[0], digits()[0], options=options, seed=3).summary
    for one, other in zip(estimated.tried, written.tried, strict=True):
        assert one.bits == pytest.approx(other.bits, rel=0.02)
        assert (one.bits == other.bits) == one.chosen == one.written


@pytest.mark.parametrize(
    "name", ["residual", "vgg-tiny", "batchnorm-first", "conv-everything", "linear-only"]
)
def test_every_kind_of_net(name: str) -> None:
    case = NAMED[name]
    model = case.module()
    x = case.inputs(12).numpy()
    with torch.no_grad():
        y = model(torch.from_numpy(x)).argmax(1).numpy()
    data = Dataset("noise", x, y, max(2, int(y.max()) + 1))
    options = HeavyTailOptions(tau=(0.5,), t=(1.0,), trials=2)
    found = heavy_tailed(model, data, options=options, seed=1).summary
    net = traced(model, data)
    assert [layer.kind for layer in found.layers] == [
        node.affine.kind for node in net.affine_layers
    ]
    assert all(layer.is_replaced == (layer.kind != "batchnorm") for layer in found.layers)
    lemma = next(one for one in found.promises if one.name == "Lemma 2.2")
    if not net.is_chain or any(layer.kind != "linear" for layer in found.layers):
        assert lemma.held is None
        assert "fully connected" in lemma.meaning
        assert found.epsilon is None
    assert found.errors_before == 0
    check = next(one for one in found.promises if one.name == "Lemma 2.1")
    assert check.worst_ratio is not None
    assert check.worst_ratio < 1  # convolutions have their own factor


def spoiled(value: float) -> nn.Module:
    net = copy.deepcopy(trained("mlp")[0])
    with torch.no_grad():
        net[3].weight[0, 0] = value
    return net


def constant() -> nn.Module:
    net = copy.deepcopy(trained("mlp")[0])
    with torch.no_grad():
        net[3].weight.fill_(0.5)
    return net


def no_dense() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 10, 8), nn.Flatten()).eval()


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (lambda: spoiled(math.nan), {}, "parameter 3.weight holds NaN"),
        (constant, {}, "^layer 3: all its 160 weights are equal"),
        (no_dense, {"form": "appendix"}, "final dense layer, and the net has none"),
        (lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)).eval(), {}, "nothing to replace"),
        (lambda: trained("mlp")[0], {"layers": ("nope",)}, "`layers` = nope: .*; it has 1, 3$"),
        (
            lambda: trained("mlp")[0],
            {"form": "typo"},
            "`form` must be one of corrected, algorithm, appendix, not typo",
        ),
        (lambda: trained("mlp")[0], {"tau": (0.0,)}, "`tau`"),
        (lambda: trained("mlp")[0], {"trials": 0}, "`trials`"),
    ],
)
def test_one_sentence(model: Any, options: dict[str, Any], words: str) -> None:
    data = digits()[0]
    if words == "nothing to replace":
        data = Dataset("d", data.x, data.y, 10)
    with pytest.raises(CushionError, match=words) as caught:
        heavy_tailed(model(), data, options=HeavyTailOptions(**options))
    assert "\n" not in str(caught.value)


def test_a_constant_layer_that_is_left_out_is_no_problem() -> None:
    found = heavy_tailed(
        constant(), digits()[0], options=HeavyTailOptions(tau=(1.0,), layers=("1",), trials=1)
    )
    assert [row.is_replaced for row in found.summary.layers] == [True, False]


def test_arguments_of_the_function() -> None:
    model, data = trained("mlp")[0], digits()[0]
    with pytest.raises(BadInput, match="takes NetOptions, not HeavyTailOptions"):
        heavy_tailed(model, data, method="low-rank", options=HeavyTailOptions())
    with pytest.raises(BadInput, match="compresses no net"):
        heavy_tailed(model, data, method="integer")
    for seed in (-1, 2**40, 2**40 - 5, "x", True):
        with pytest.raises(BadInput, match="`seed`"):
            heavy_tailed(model, data, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="`delta`"):
        heavy_tailed(model, data, delta="0.7")


def test_nothing_stays_and_everything_stays() -> None:
    empty = run("mlp", tau=(50.0,), t=(1.0,), trials=2).summary
    assert any(
        "nothing stays in 1, 3 (B = 0): noise alone stands for it" in note for note in empty.notes
    )
    assert [row.nonzeros for row in empty.layers] == [0, 0]
    bare = run("mlp", tau=(50.0,), t=(0.0,)).summary
    assert any("a weight of zeros stands for it" in note for note in bare.notes)
    whole = run("mlp", tau=(1e-9,), t=(1.0,), grid="16").summary
    assert any("nothing was replaced in 1, 3" in note for note in whole.notes)
    assert whole.trials[0].errors == whole.errors_before
    assert len(whole.trials) == 1  # nothing is random
