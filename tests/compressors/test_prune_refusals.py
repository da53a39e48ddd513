"""What pruning refuses, in one sentence and with nothing half-written, and what it takes although
little is left.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from tests.trained_cases import digits, trained
from torch import nn

from cushion.cli import main
from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, CushionError
from cushion.measures.table import traced
from cushion.nets.network import Network


def spoiled(value: float, *, bias: bool = False) -> nn.Module:
    net = copy.deepcopy(trained("mlp")[0])
    with torch.no_grad():
        if bias:
            net[3].bias[0] = value
        else:
            net[1].weight[0, 0] = value
    return net


def traced_nan(*, bias: bool) -> Network:
    """A net that was traced before it was spoiled."""
    net = traced(trained("mlp")[0], digits()[0])
    node = net.affine_layers[0]
    weight, other = node.affine.operator.weight, node.affine.bias
    assert other is not None
    worse = (weight, other * math.inf) if bias else (weight * math.nan, other)
    return net.with_affine(
        {
            node.index: replace(
                node.affine, operator=node.affine.operator.with_weight(worse[0]), bias=worse[1]
            )
        }
    )


class OnlyNorm(nn.Module):
    """A net without any weight that could be pruned."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x))


BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "nan": (lambda: spoiled(math.nan), digits, {}, "parameter 1.weight holds NaN"),
    "infinite bias": (
        lambda: spoiled(math.inf, bias=True),
        digits,
        {},
        "parameter 3.bias holds NaN or infinite",
    ),
    "traced nan": (
        lambda: traced_nan(bias=False),
        digits,
        {},
        "^layer 1: a weight or bias is infinite or not a number",
    ),
    "traced bias": (
        lambda: traced_nan(bias=True),
        digits,
        {},
        "^layer 1: a weight or bias is infinite or not a number",
    ),
    "other shape": (
        lambda: trained("mlp")[0],
        lambda: (Dataset("o", np.zeros((4, 1, 5, 5), np.uint8), np.zeros(4, np.int64), 10),),
        {},
        "shape|sizes|mat1",
    ),
    "more classes": (
        lambda: trained("mlp")[0],
        lambda: (Dataset("o", np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 1, 2, 11]), 12),),
        {},
        "gives 10 scores, but o has 12 classes",
    ),
    "nothing to prune": (
        OnlyNorm,
        lambda: (Dataset("o", np.ones((4, 3), np.float32), np.array([0, 1, 2, 0]), 3),),
        {},
        "nothing to prune",
    ),
    "huge scores": (
        lambda: spoiled(3e38),
        lambda: (Dataset("o", np.full((4, 1, 8, 8), 255, np.uint8), np.zeros(4, np.int64), 10),),
        {"grid": "8"},
        "not finite|exceeds float64",
    ),
    "rule": (
        lambda: trained("mlp")[0],
        digits,
        {"rule": "random"},
        "`rule` = random must be one of",
    ),
    "pattern": (lambda: trained("mlp")[0], digits, {"rule": "5:4"}, "1 to M may stay"),
    "d of another rule": (
        lambda: trained("mlp")[0],
        digits,
        {"rule": "layer", "d": (1.0,)},
        "`d` goes with",
    ),
    "no sparsity": (lambda: trained("mlp")[0], digits, {"rule": "global"}, "needs `sparsity`"),
    "sparsity of one": (
        lambda: trained("mlp")[0],
        digits,
        {"sparsity": (1.0,)},
        "below 1, not 1",
    ),
    "d too small": (
        lambda: trained("mlp")[0],
        digits,
        {"d": (1e-9,)},
        "`d` must be numbers of at least 1e-06",
    ),
    "grid": (lambda: trained("mlp")[0], digits, {"grid": "1"}, "bits of a weight, 2 to 32"),
    "constants": (lambda: trained("mlp")[0], digits, {"subgaussian": "1,2"}, "the numbers a,b,t"),
    "sketch's option": (
        lambda: trained("mlp")[0],
        digits,
        {"m": 9},
        "`m` belongs to `method` = sketch",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_sentence(case: str) -> None:
    model, data, options, sentence = BAD[case]
    with pytest.raises(CushionError, match=sentence) as caught:
        compress_model(model(), data()[0], method="magnitude", options=PruneOptions(**options))
    assert "\n" not in str(caught.value)


def test_arguments_of_the_function() -> None:
    model, data = trained("mlp")[0], digits()[0]
    with pytest.raises(BadInput, match="takes NetOptions, not PruneOptions"):
        compress_model(model, data, method="low-rank", options=PruneOptions())
    for seed in (-1, 2**40):
        with pytest.raises(BadInput, match="`seed`"):
            compress_model(model, data, method="magnitude", seed=seed)
    with pytest.raises(BadInput, match="`delta`"):
        compress_model(model, data, method="magnitude", delta="0.7")
    with pytest.raises(BadInput):
        compress_model(
            model,
            data,
            method="magnitude",
            holdout=Dataset("h", np.zeros((2, 1, 5, 5), np.uint8), np.zeros(2, np.int64), 10),
        )


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"d": (1e6,)}, "the diagonal"),  # χ = 10^-6: everything else goes
        ({"d": (1e-6,)}, "nearly all"),
        ({"rule": "1:128"}, "one a row"),  # wider than any row, so the largest of each row stays
        ({"rule": "4:4"}, "all"),
        ({"sparsity": (0.0,)}, "all"),
        ({"rule": "layer", "sparsity": (0.9999,)}, "none"),
    ],
)
def test_the_ends_of_every_option_are_taken(options: dict[str, Any], left: str) -> None:
    found = compress_model(
        trained("mlp")[0],
        digits()[0],
        method="magnitude",
        options=PruneOptions(grid="16", **options),
    )
    (first, second), summary = found.summary.layers, found.summary
    expected = {"the diagonal": 16 + 10, "one a row": 16 + 10, "all": 1184, "none": 0}
    kept = first.kept + second.kept
    assert kept == expected[left] if left in expected else 1150 < kept < 1184
    assert ("nothing was pruned" in " ".join(summary.notes)) == (left == "all")
    assert ("no weight left" in " ".join(summary.notes)) == (left == "none")
    if left == "none":
        assert summary.sparsity == 1.0
        assert summary.output_error > 0
    assert summary.m == len(digits()[0])


def test_a_net_that_errs_too_often_has_no_margin_but_is_pruned() -> None:
    found = compress_model(
        trained("mlp")[1], digits()[0], method="magnitude", options=PruneOptions(d=(1.0,))
    ).summary
    assert found.gamma is None
    assert all(row.abstains for row in found.paper_bounds)
    assert found.occam[0].bound <= 1


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mlp"
    assert (
        main(
            [
                "train",
                "1x8x8: flatten fc12 relu fc10",
                "--data",
                "digits",
                "--epochs",
                "3",
                "-o",
                str(folder),
            ]
        )
        == 0
    )
    return folder


WORDS = [
    ("--method sketch --certificate {c}", "the format has no sketches; use --method magnitude"),
    ("--method magnitude --m 9", "does not take --m"),
    ("--method magnitude --k 9", "does not take --k"),
    ("--method magnitude --sparsity 1.5", "--sparsity"),
    ("--method magnitude --sparsity x", "--sparsity"),
    ("--method magnitude --d 0", "--d must be numbers of at least 1e-06"),
    ("--method magnitude --rule 3:2", "1 to M may stay"),
    ("--method magnitude --grid coarse", "--grid coarse"),
    ("--method magnitude --grid ²", "--grid ²"),
    ("--method magnitude --fine-tune -1", "--fine-tune"),
    ("--method magnitude --gamma -1", "--gamma"),
    ("--method low-rank --sparsity 0.5", "does not take --sparsity"),
    ("--method magnitude --certificate {n}", "are one file"),
]


@pytest.mark.parametrize(("words", "sentence"), WORDS)
def test_the_command_refuses_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, run_folder: Path, words: str, sentence: str
) -> None:
    net, certificate = tmp_path / "n.net", tmp_path / "c.cushion"
    command = ["compress", str(run_folder), "--data", "digits", "-o", str(net)]
    code, out, err = ask(capsys, *command, *words.format(c=certificate, n=net).split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_net_that_no_certificate_can_hold_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # A sum of two branches is no chain, and the format holds chains.
    factory = tmp_path / "fork.py"
    factory.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Fork(nn.Module):\n    def __init__(self):\n "
        "       super().__init__()\n        torch.manual_seed(0)\n        self.a = nn.Linear(64, "
        "10)\n        self.b = nn.Linear(64, 10)\n\n    def forward(self, x):\n        x = "
        "x.flatten(1)\n        return self.a(x) + self.b(x)\n\n\ndef factory():\n    return "
        "Fork().eval()\n"
    )
    net, certificate = tmp_path / "n.net", tmp_path / "c.cushion"
    command = [
        "compress",
        f"{factory}:factory",
        "--data",
        "digits",
        "--method",
        "magnitude",
        "--d",
        "1",
        "-o",
        str(net),
    ]
    code, out, err = ask(capsys, *command, "--certificate", str(certificate))
    assert (code, out) == (2, "")
    assert "there is none for this net" in err
    assert not net.exists()
    assert not certificate.exists()
    code, out, err = ask(capsys, *command)  # without one it is pruned, and says why
    assert code == 0, err
    assert "no certificate file: " in out
    assert net.exists()


def test_nothing_is_written_into_the_folder_of_the_net(
    capsys: pytest.CaptureFixture[str], run_folder: Path
) -> None:
    before = {path.name: path.read_bytes() for path in run_folder.iterdir()}
    for option in (
        ["-o", str(run_folder / "net.safetensors")],
        ["-o", str(run_folder / ".." / run_folder.name / "new")],
    ):
        code, _, err = ask(
            capsys,
            "compress",
            str(run_folder),
            "--data",
            "digits",
            "--method",
            "magnitude",
            "--d",
            "1",
            *option,
        )
        assert code == 2
        assert "the folder of the net's run; give another folder" in err
    assert {path.name: path.read_bytes() for path in run_folder.iterdir()} == before


def test_options_as_python_gives_them() -> None:
    assert PruneOptions(sparsity=0.5, grid=4) == PruneOptions(sparsity=(0.5,), grid="4")
    assert (
        PruneOptions(d=np.array([0.5, 1.0]))
        == PruneOptions(d=(0.5, 1.0))
        == PruneOptions(d=[0.5, 1])
    )
    with pytest.raises(BadInput, match="`grid` must be a word, not None"):
        PruneOptions(grid=None)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="`seed` = x"):
        compress_model(trained("mlp")[0], digits()[0], method="magnitude", seed="x")  # type: ignore[arg-type]
