"""Method sketch: the same weights as magnitude, stored as what they are recovered
from, or plainly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from tests.compressors.test_pruning_run import digits, scores
from tests.trained_cases import trained

from cushion.cli import main
from cushion.compressors.choice import Compressed
from cushion.compressors.file import read_compressed
from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.pruning.records import PruningSummary
from cushion.compressors.run import compress_model

SPARSE: dict[str, Any] = {"sparsity": (0.9,), "grid": "5"}


def run(method: str, net: str = "mlp", **options: Any) -> Compressed[PruningSummary]:
    data, holdout = digits()
    given = PruneOptions(**{**SPARSE, **options})
    return compress_model(
        trained(net)[0], data, method=method, options=given, holdout=holdout, seed=3
    )


def test_a_sketched_net_is_the_pruned_net(tmp_path: Path) -> None:
    plain, found = run("magnitude"), run("sketch")
    data, _ = digits()
    assert torch.equal(scores(found.net.network, data), scores(plain.net.network, data))
    summary = found.summary
    sketched = [layer for layer in summary.layers if layer.stored_as.startswith("sketch")]
    assert sketched  # at least one comes back
    for layer, stored, other in zip(
        summary.layers, found.net.stored.layers, plain.net.stored.layers, strict=True
    ):
        assert layer.sketch is not None
        assert layer.sketch.recovered == (stored.kind == "sketched")
        assert np.array_equal(stored.weight(3), other.weight(3))
        if layer.sketch.recovered:
            assert layer.stored_as == f"sketch {layer.sketch.rows}x{layer.sketch.columns}"
            assert stored.parameters == layer.sketch.rows * layer.sketch.columns
    assert summary.errors == plain.summary.errors
    # What is told and what is proved is about the bits that are written.
    assert [one.bits for one in summary.tried] == [summary.bits] != [plain.summary.bits]
    assert summary.bits == found.net.stored.bits == summary.occam[0].bits
    assert summary.curve[0].bits == summary.bits
    loaded = read_compressed(found.save(tmp_path / "s.net"))
    assert torch.equal(scores(loaded.network, data), scores(found.net.network, data))
    assert found.certificate is None
    assert "sketch" in summary.occam[1].because
    json.loads(summary.dumps())


def test_a_sketch_that_is_too_small_says_so_and_the_weights_are_still_there() -> None:
    plain, found = run("magnitude"), run("sketch", m=3)
    summary = found.summary
    assert [layer.stored_as for layer in summary.layers] == [
        "mask and values (no sketch came back)"
    ] * 2
    assert any("came back exactly" in note for note in summary.notes)
    assert found.net.stored.coded.data == plain.net.stored.coded.data
    assert all(layer.sketch is not None and layer.sketch.wrong > 0 for layer in summary.layers)
    assert found.certificate is not None  # these are weights that the format holds


def test_convolutions_are_sketched_as_matrices() -> None:
    found = run("sketch", "conv", sparsity=(0.8,), m=60)
    data, _ = digits()
    plain = run("magnitude", "conv", sparsity=(0.8,))
    assert torch.equal(scores(found.net.network, data), scores(plain.net.network, data))


@pytest.mark.parametrize("words", ["", "--m 2"])
def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str) -> None:
    folder = tmp_path / "run"
    assert (
        main(
            ["train", "1x8x8: flatten fc10", "--data", "digits", "--epochs", "3", "-o", str(folder)]
        )
        == 0
    )
    capsys.readouterr()
    command = [
        "compress",
        str(folder),
        "--data",
        "digits",
        "--method",
        "sketch",
        "--sparsity",
        "0.95",
        "--grid",
        "4",
    ]
    code, text, err = ask(capsys, *command, "-o", str(tmp_path / "s.net"), *words.split())
    assert code == 0, err
    assert "Sketches A X Bᵀ" in text
    row = next(line for line in text[text.index("Sketches A X Bᵀ") :].splitlines()[2:])
    assert ("no" in row.split(), "yes" in row.split()) == (bool(words), not words)
    assert "√(jp) ln p" in text
    assert read_compressed(tmp_path / "s.net").stored.layers[0].kind == (
        "pruned" if words else "sketched"
    )


def test_rows_named_mask_and_values_count_these_and_not_the_sketch() -> None:
    sketched, plain = run("sketch").summary, run("magnitude").summary
    rows = [
        [row.factors for row in found.paper_bounds if row.name.startswith("mask and values")]
        for found in (sketched, plain)
    ]
    assert rows[0] == rows[1] != []
    assert rows[0][0] is not None
    assert rows[0][0]["bits"] == plain.bits != sketched.bits
