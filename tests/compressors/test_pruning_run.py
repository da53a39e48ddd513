"""Pruning from end to end: every number of its record derived again, the best of what was tried,
certificates.
"""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.compressed_cases import NAMED
from tests.trained_cases import HELD_OUT, ROWS, digits, trained
from torch import nn

import cushion
from cushion.compressors import choice
from cushion.compressors.choice import Compressed, worthless
from cushion.compressors.file import read_compressed
from cushion.compressors.method import BEST_GRIDS
from cushion.compressors.pruning.candidates import norm_at_least
from cushion.compressors.pruning.masks import masks_for
from cushion.compressors.pruning.method import STRENGTHS, PruneOptions
from cushion.compressors.pruning.records import PruningSummary, TriedPruning
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset
from cushion.measures.margins import epsilon_margin, sample_margins
from cushion.measures.table import traced
from cushion.nets.operators import Linear
from cushion.numerics import float_up
from cushion.theorems.occam import occam_bound

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("mlp", {}),
    ("mlp", {"d": (0.1, 1.0), "grid": "6"}),
    ("mlp", {"sparsity": (0.5, 0.8), "grid": "best"}),
    ("mlp", {"sparsity": (0.7,), "grid": "4", "fine_tune": 3}),
    ("conv", {"rule": "layer", "sparsity": (0.3,)}),
    ("conv", {"d": (0.3,), "grid": "8"}),
    ("linear", {"rule": "2:4", "grid": "5"}),
    ("mlp", {"rule": "zeros", "grid": "8"}),
]


def run(net: str, **options: Any) -> Compressed[PruningSummary]:
    data, holdout = digits()
    return compress_model(
        trained(net)[0],
        data,
        method="magnitude",
        options=PruneOptions(**options),
        holdout=holdout,
        seed=3,
    )


def scores(net: Any, data: Dataset) -> torch.Tensor:
    x = torch.from_numpy(data.x).float() / (255 if data.x.dtype == np.uint8 else 1)
    with torch.no_grad():
        return net(x) if isinstance(net, nn.Module) else net.evaluate(x)


def errors(logits: torch.Tensor, data: Dataset) -> int:
    """By hand: the right score is not above all others."""
    wrong = 0
    for row, label in zip(logits.tolist(), data.y.tolist(), strict=True):
        wrong += row[label] <= max(value for at, value in enumerate(row) if at != label)
    return wrong


@pytest.mark.parametrize(("net", "options"), RUNS)
def test_every_number_of_the_record_is_derived_again(
    net: str, options: dict[str, Any], tmp_path: Path
) -> None:
    found = run(net, **options)
    summary, stored, (data, holdout) = found.summary, found.net.stored, digits()
    model = trained(net)[0]
    assert (summary.method, summary.seed, summary.m, summary.delta) == ("magnitude", 3, ROWS, 0.05)
    assert summary.rule == PruneOptions(**options).chosen_rule
    assert summary.parameters_before == sum(part.numel() for part in model.parameters())
    biases = sum(bias.integers.size for bias in stored.biases if bias is not None)
    nonzeros = [int(np.count_nonzero(layer.weight(0))) for layer in stored.layers]
    assert [layer.nonzeros for layer in summary.layers] == nonzeros
    assert summary.parameters == stored.parameters == sum(nonzeros) + biases
    assert summary.sparsity == pytest.approx(
        1 - sum(nonzeros) / sum(layer.weights for layer in summary.layers)
    )
    assert summary.bits == stored.coded.bits
    # seed, kinds, sizes, grids
    assert 0 < summary.bits - sum(layer.bits for layer in summary.layers) < 400

    # The net is what its file says, bit by bit, and the errors are its own.
    loaded = read_compressed(found.save(tmp_path / "n.net"))
    after = scores(found.net.network, data)
    assert torch.equal(scores(loaded.network, data), after)
    before = scores(model, data)
    assert (summary.errors_before, summary.errors) == (errors(before, data), errors(after, data))
    machine, file = summary.occam
    assert (machine.errors, machine.bits) == (summary.errors, summary.bits)
    assert machine.bound == float_up(
        occam_bound(machine.errors, ROWS, summary.bits, Decimal("0.05"))
    )
    assert (machine.holdout_errors, machine.holdout_m) == (
        errors(scores(loaded.network, holdout), holdout),
        HELD_OUT,
    )
    assert summary.output_error == pytest.approx(
        float(torch.linalg.vector_norm(after - before, dim=1).max()), rel=1e-4
    )

    # The certificate holds the same weights, and verifies.
    assert found.certificate is not None
    assert cushion.verify(found.certificate.save(tmp_path / "n.cushion"), data, holdout).ok
    assert (file.errors, file.bits) == (
        found.certificate.claim.errors,
        found.certificate.claim.bits,
    )

    # Theorem D.1 by hand, from the integers that are stored: masks, and 2·max|q| values for each
    # non-zero.
    integers = [layer.integers for layer in stored.layers]
    nats = 0.0
    for matrix, count in zip(integers, nonzeros, strict=True):
        nats += math.log(math.comb(matrix.size, count)) + count * math.log(2 * np.abs(matrix).max())
    margins = sample_margins(before, torch.from_numpy(data.y)).numpy()
    union = next(row for row in summary.paper_bounds if row.source == "Guha 2023, Thm D.1")
    loss = float((margins <= summary.gamma).mean())
    assert union.value == pytest.approx(
        loss + math.sqrt((nats + math.log(20)) / (2 * ROWS)), rel=1e-6
    )

    # The margin, what was tried, and what that costs.
    assert summary.gamma == pytest.approx(epsilon_margin(margins, 0.05), rel=1e-5)
    assert len(summary.tried) == len(summary.curve)
    assert summary.price == pytest.approx(math.log(len(summary.tried)))
    (taken,) = [one for one in summary.tried if one.chosen]
    assert (taken.bits, taken.errors, taken.bound) == (summary.bits, summary.errors, machine.bound)
    assert taken.nonzeros == sum(nonzeros)
    json.loads(summary.dumps())
    assert found.net.notes["chosen"] == taken.asked


def test_the_mask_is_the_rule_s_and_nothing_else_moves_but_by_rounding() -> None:
    for net, options in (
        ("mlp", {"d": (0.5,), "grid": "9"}),
        ("conv", {"rule": "layer", "sparsity": (0.4,), "grid": "9"}),
    ):
        found = run(net, **options)
        model = traced(trained(net)[0], digits()[0])
        masks = masks_for(
            model,
            found.summary.rule,
            d=found.summary.d,
            sparsity=options.get("sparsity", (None,))[0],
            seed=3,
        )
        pruned = 0
        for node, mask, layer, row in zip(
            model.affine_layers, masks, found.net.stored.layers, found.summary.layers, strict=True
        ):
            weight, kept = node.affine.operator.weight.double().numpy(), mask.numpy()
            rounded = layer.weight(0)
            assert (rounded[~kept] == 0).all()
            assert np.abs(rounded - weight)[kept].max() <= row.rho / 2
            assert row.kept == kept.sum()
            if weight.ndim == 2:
                shift = np.linalg.norm(np.where(kept, 0.0, weight), 2)
                assert row.shift == pytest.approx(shift, rel=2e-6)
                assert row.rounding == pytest.approx(
                    np.linalg.norm(np.where(kept, rounded - weight, 0.0), 2), rel=2e-6
                )
            pruned += int((~kept).sum())
        assert pruned > 0
        wrong = model.with_affine(
            {
                node.index: replace(
                    node.affine,
                    operator=node.affine.operator.with_weight(node.affine.operator.weight * mask),
                )
                for node, mask in zip(model.affine_layers, masks, strict=True)
            }
        )
        assert found.summary.errors_after_pruning == errors(scores(wrong, digits()[0]), digits()[0])


def test_every_combination_is_tried_and_the_smallest_bound_is_taken() -> None:
    found = run("mlp", sparsity=(0.5, 0.8, 0.5), grid="best").summary
    assert [(one.asked, one.grid) for one in found.tried] == [
        (f"sparsity={share}", f"{bits} bits") for share in (0.5, 0.8) for bits in BEST_GRIDS
    ]
    taken = next(at for at, one in enumerate(found.tried) if one.chosen)
    for at, one in enumerate(found.tried):
        share, bits = float(one.asked.partition("=")[2]), one.grid.split()[0]
        alone = run("mlp", sparsity=(share,), grid=bits).summary
        assert (one.bits, one.bound) == (alone.bits, alone.occam[0].bound)
        assert (one.errors, one.nonzeros) == (
            alone.errors,
            alone.layers[0].nonzeros + alone.layers[1].nonzeros,
        )
        assert (found.curve[at].error, found.curve[at].asked) == (
            one.errors / ROWS,
            f"{one.asked}, {one.grid}",
        )
        assert alone.occam[0].bound >= found.occam[0].bound
        if at == taken:
            assert alone.bits == found.bits
            assert found.curve[at].test_error == found.occam[0].holdout_errors / HELD_OUT
        else:
            # held-out examples are only looked at once it is chosen
            assert found.curve[at].test_error is None


def test_the_smallest_bound_is_taken_where_bounds_say_something() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (5000, 12)).astype(np.float32)
    truth = np.concatenate([np.ones(3), 0.05 * np.ones(9)]).astype(np.float32)
    net = nn.Sequential(nn.Linear(12, 2, bias=False)).eval()
    net[0].weight.data = torch.from_numpy(np.stack([truth, -truth]))
    data = Dataset("half-space", x, (x @ truth < 0).astype(np.int64), 2)
    options = PruneOptions(rule="layer", sparsity=(0.0, 0.5, 0.75, 0.9), grid="best")
    found = compress_model(net, data, method="magnitude", options=options).summary
    bounds = [one.bound for one in found.tried]
    assert max(bounds) < 0.6
    assert len(set(bounds)) > 8
    taken = next(one for one in found.tried if one.chosen)
    assert taken.bound == min(bounds) == found.occam[0].bound
    assert not found.tried[0].chosen
    assert not found.tried[-1].chosen


def test_long_messages_are_compared_by_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    written = run("mlp", sparsity=(0.1, 0.3), grid="8").summary
    monkeypatch.setattr(choice, "_WRITTEN", 0)
    estimated = run("mlp", sparsity=(0.1, 0.3), grid="8").summary
    for one, other in zip(estimated.tried, written.tried, strict=True):
        assert one.bits == pytest.approx(other.bits, rel=0.02)  # sizes and grids are left out
        assert (one.bits == other.bits) == one.chosen


def test_without_a_setting_algorithm_1_tries_its_strengths() -> None:
    found = run("mlp").summary
    assert [one.asked for one in found.tried] == [f"d={d:g}" for d in STRENGTHS]
    assert found.d in STRENGTHS
    assert f"d={found.d:g}" == next(one.asked for one in found.tried if one.chosen)
    shares = [one.nonzeros for one in found.tried]
    assert shares == sorted(shares, reverse=True)  # a larger d prunes more


def test_held_out_examples_choose_nothing() -> None:
    data, holdout = digits()
    other = replace(holdout, y=(holdout.y + 1) % 10)
    options = PruneOptions(sparsity=(0.5, 0.8), grid="best")
    found = [
        compress_model(
            trained("mlp")[0], data, method="magnitude", options=options, holdout=one, seed=3
        )
        for one in (holdout, other, None)
    ]
    assert len({one.net.stored.coded.data for one in found}) == 1
    assert found[0].summary.occam[0].holdout_errors != found[1].summary.occam[0].holdout_errors
    assert found[2].summary.occam[0].holdout_errors is None


def test_the_seed_decides_the_threads_do_not_and_the_model_stays() -> None:
    model = trained("conv")[0]
    before = copy.deepcopy(model.state_dict())
    first = run("conv", d=(1.0,), grid="8")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        again = run("conv", d=(1.0,), grid="8")
    finally:
        torch.set_num_threads(threads)
    assert first.net.stored.coded.data == again.net.stored.coded.data
    data, _ = digits()
    other = compress_model(
        model, data, method="magnitude", options=PruneOptions(d=(1.0,), grid="8"), seed=4
    )
    assert other.net.stored.coded.data != first.net.stored.coded.data
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_fine_tuning_keeps_the_zeros_and_helps() -> None:
    plain, tuned = (
        run("mlp", sparsity=(0.8,), grid="8"),
        run("mlp", sparsity=(0.8,), grid="8", fine_tune=20),
    )
    for one, other, row in zip(
        plain.net.stored.layers, tuned.net.stored.layers, tuned.summary.layers, strict=True
    ):
        assert not (other.weight(0)[one.weight(0) == 0] != 0).any() or row.kept > np.count_nonzero(
            one.weight(0)
        )
        assert np.count_nonzero(other.weight(0)) <= row.kept
    assert tuned.summary.errors < plain.summary.errors
    assert tuned.summary.errors_after_pruning == plain.summary.errors_after_pruning
    assert tuned.summary.fine_tuned == 20
    # rounding is of the weights that were trained on, not of the pruned ones
    for row in tuned.summary.layers:
        assert 0 < row.rounding <= row.rounding_limit
    assert [layer.shift for layer in tuned.summary.layers] == [
        layer.shift for layer in plain.summary.layers
    ]


@pytest.mark.parametrize(
    "name", ["pre-activation", "residual", "vgg-tiny", "dense", "conv-everything"]
)
def test_every_kind_of_net(name: str) -> None:
    case = NAMED[name]
    model = case.module()
    x = case.inputs(12).numpy()
    with torch.no_grad():
        y = model(torch.from_numpy(x)).argmax(1).numpy()
    data = Dataset("noise", x, y, max(2, int(y.max()) + 1))
    found = compress_model(
        model, data, method="magnitude", options=PruneOptions(d=(0.05,), grid="lemma"), seed=1
    )
    summary = found.summary
    net = traced(model, data)
    for layer, stored in zip(summary.layers, found.net.stored.layers, strict=True):
        assert (layer.stored_as == "kept") == (stored.kind == "kept") == (layer.kind == "batchnorm")
        assert (layer.normality is None) == (layer.kind == "batchnorm")
        assert (layer.gamma_l is None) == (layer.kind != "linear")
        assert layer.rounding <= layer.rounding_limit * (1 + 1e-6) or layer.kind == "batchnorm"
        if layer.kind != "batchnorm" and layer.rho_limit > 0:
            assert layer.rho <= layer.rho_limit
    output = next(one for one in summary.promises if one.name == "Lemma 4.4")
    assert output.held in (True, None)
    if not net.is_chain:
        assert output.held is None
        assert output.worst_ratio is None
    assert summary.errors_before == 0


def test_notes_on_what_is_left() -> None:
    nothing = run("mlp", sparsity=(0.0,), grid="8").summary
    assert nothing.notes == ("nothing was pruned: every weight stays, on its grid",)
    assert all(layer.shift == 0 and layer.kept == layer.weights for layer in nothing.layers)
    empty = run("mlp", sparsity=(0.999,), grid="8").summary
    assert any(
        "no weight left: the net gives every example the same scores" in note
        for note in empty.notes
    )
    data = digits()[0]
    assert (
        len(torch.unique(scores(run("mlp", sparsity=(0.999,), grid="8").net.network, data), dim=0))
        == 1
    )


def test_where_all_bounds_are_vacuous_the_choice_still_prefers_the_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        choice, "occam_bound", lambda *_: "1.000000"
    )  # as on many more bits than examples
    found = run("mlp", sparsity=(0.5, 0.99), grid="8").summary
    taken = next(one for one in found.tried if one.chosen)
    value = {
        one.asked: one.errors / ROWS + math.sqrt(one.bits * math.log(2) / (2 * ROWS))
        for one in found.tried
    }
    assert taken.asked == min(value, key=lambda asked: value[asked])


def test_a_quick_lower_bound_on_a_norm() -> None:
    draw = torch.Generator().manual_seed(0)
    for rows, columns in ((40, 30), (1, 7), (25, 90)):
        weight = torch.randn(rows, columns, generator=draw)
        exact = float(torch.linalg.matrix_norm(weight.double(), 2))
        assert 0.7 * exact <= norm_at_least(Linear(weight)) <= exact
    assert norm_at_least(Linear(torch.zeros(3, 4))) == 0.0


def test_algorithm_1_leaves_biases_as_they_are_to_sixteen_bits() -> None:
    found = run("mlp", d=(1.0,), grid="4")
    net = traced(trained("mlp")[0], digits()[0])
    for node, stored in zip(net.affine_layers, found.net.stored.biases, strict=True):
        bias = node.affine.bias
        assert bias is not None
        assert stored is not None
        own = bias.double().numpy()
        # The largest takes 16 bits with its sign: a step is at most 2^-14 of it, and rounding half
        # a step.
        assert np.abs(stored.values - own).max() <= 2.0**-15 * np.abs(own).max()


def test_a_word_where_no_bound_beats_guessing() -> None:
    gentle = TriedPruning(
        asked="d=1", grid="lemma", nonzeros=50, bits=900, errors=20, bound=1.0, written=True
    )
    tried = [replace(gentle, asked="d=8", errors=80, bound=0.95, chosen=True), gentle]
    (said,) = worthless(tried, 10)
    assert "d=1 with grid lemma errs least (20 of the examples)" in said
    assert worthless([replace(tried[0], bound=0.89), tried[1]], 10) == []  # better than guessing
    assert worthless([replace(tried[0], bound=0.89), tried[1]], 2) != []  # of two classes it is not
    assert worthless([replace(tried[0], errors=20), tried[1]], 10) == []  # the taken one errs least
    assert worthless(tried[:1], 10) == []
