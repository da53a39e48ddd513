"""`cushion compress` with a trained net: answers, JSON, files; for the rest one sentence and
nothing left behind.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from tests.trained_cases import digits, trained

from cushion.cli import main
from cushion.cli.compression import describe
from cushion.compressors.file import read_compressed
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.records import PromiseCheck
from cushion.compressors.registry import METHODS
from cushion.compressors.run import compress_model

KEYS = {
    "file",
    "certificate",
    "figures",
    "method",
    "helper",
    "seed",
    "gamma",
    "epsilon",
    "zeta",
    "m",
    "parameters",
    "parameters_before",
    "bits",
    "layers",
    "induction",
    "promises",
    "promise",
    "occam",
    "paper_bounds",
    "curve",
}
LAYER = {
    "name",
    "kind",
    "shape",
    "stored_as",
    "size",
    "parameters_before",
    "parameters",
    "bits",
    "promised",
    "measured",
}
SPECS = {
    "mlp": "1x8x8: flatten fc12 relu fc10",
    "linear": "1x8x8: flatten fc10",
    "conv": "1x8x8: conv4k3 relu maxpool2 flatten fc10",
}
RUNS = [
    ("low-rank", "mlp", "--k 40% --sweep 20%,epsilon=0.3"),
    ("matrix-project", "mlp", "--k 60% --examples 20 --level 0.3"),
    ("matrix-project", "conv", "--k 50% --helper srht --examples 20 --zeta 0.1 --level 0.3"),
    ("conv-project", "conv", "--k 3 --p 2 --examples 20 --level 0.3"),
    ("vector-compress", "linear", "--level 0.3"),
    ("vector-project", "linear", "--level 0.3 --k 40 --from-initialisation"),
]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, spec in SPECS.items():
        assert (
            main(["train", spec, "--data", "digits", "--epochs", "40", "-o", str(folder / name)])
            == 0
        )
    return {name: folder / name for name in SPECS}


@pytest.mark.parametrize(("method", "net", "words"), RUNS)
def test_text_and_json(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    runs: dict[str, Path],
    method: str,
    net: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    out = tmp_path / "n.net"
    command = [
        "compress",
        str(runs[net]),
        "--data",
        "digits",
        "--method",
        method,
        "-o",
        str(out),
        *words.split(),
    ]
    code, text, err = ask(capsys, *command)
    assert code == 0, err
    told, lines = text, text.splitlines()
    header = next(line for line in lines if line.startswith("layer "))
    for column in ("measured", "before", "after", "bits"):
        assert column in header
    assert ("(i/d)ε" in header) == (method in ("matrix-project", "conv-project"))
    assert "nan" not in text.lower().split()
    assert "None" not in text
    assert "What the lemmas promise" in text
    assert f"The compressed net is in {out}" in text
    first = out.read_bytes()
    code, text, err = ask(capsys, *command, "--json", "-", "--seed", "0")
    assert (code, err) == (0, "")
    found = json.loads(text)  # nothing but the object
    assert set(found) >= KEYS
    assert set(found["layers"][0]) >= LAYER
    assert (found["method"], found["seed"], found["file"]) == (method, 0, str(out))
    assert found["promise"] is None or set(found["promise"]) == {"held", "worst_ratio"}
    assert len(found["curve"]) == words.count(",") + ("--sweep" in words)
    assert out.read_bytes() == first  # 0 is the default, and the same seed writes the same file
    loaded = read_compressed(out)
    assert (loaded.stored.bits, loaded.stored.parameters) == (found["bits"], found["parameters"])
    assert {row["kind"] for row in found["occam"]} == {"certificate", "this machine"}
    assert found["parameters_before"] == sum(
        layer["parameters_before"] for layer in found["layers"]
    )
    assert (
        f"total: {found['parameters_before']} parameters before, {found['parameters']} numbers and "
        f"{found['bits']} bits after"
    ) in told
    assert ask(capsys, *command, "--seed", "1")[0] == 0
    if method not in ("low-rank",):  # which has no helper string, but its seed is in the file too
        assert out.read_bytes() != first


def test_certificate_json_file_and_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, runs: dict[str, Path]
) -> None:
    files = [str(tmp_path / name) for name in ("n.net", "n.cushion", "n.json", "pictures")]
    command = [
        "compress",
        str(runs["mlp"]),
        "--data",
        "digits",
        "--method",
        "low-rank",
        "--k",
        "50%",
    ]
    command += ["--sweep", "30%,20%", "-o", files[0], "--certificate", files[1], "--json", files[2]]
    code, text, err = ask(capsys, *command, "--figures", files[3])
    assert code == 0, err
    assert f"cushion verify {files[1]} --data digits" in text
    found = json.loads(Path(files[2]).read_text())
    assert (found["file"], found["certificate"]) == (files[0], files[1])
    names = {"low-rank-size.png", "low-rank-size.svg", "low-rank-layers.png", "low-rank-layers.svg"}
    assert (
        {Path(path).name for path in found["figures"]}
        == names
        == {p.name for p in Path(files[3]).iterdir()}
    )
    code, text, err = ask(capsys, "verify", files[1], "--data", "digits", "--json", "-")
    assert code == 0, err
    seen, row = (
        json.loads(text),
        next(row for row in found["occam"] if row["kind"] == "certificate"),
    )
    assert (seen["bits"], float(seen["bound"])) == (row["bits"], row["bound"])


def test_every_outcome_of_a_promise_has_its_word() -> None:
    checks = [
        PromiseCheck("Lemma 1", "a source", True, 0.5, 3, "kept"),
        PromiseCheck("Lemma 2", "a source", False, 3.25, 4, "lost"),
        PromiseCheck("Lemma 3", "a source", None, None, 0, "silent"),
    ]
    (model, _), (data, _) = trained("mlp"), digits()
    summary = compress_model(model, data, method="low-rank", options=NetOptions(k=2)).summary
    text = describe(
        replace(summary, promises=tuple(checks), promise=None), "n.net", "n.cushion", "digits"
    )
    lines = [line.split() for line in text.splitlines() if "[a source]" in line]
    words = [line[2:-3] for line in lines]
    assert words == [["held", "0.5", "3"], ["BROKEN", "3.25", "4"], ["not", "promised", "-", "0"]]
    assert "cushion verify n.cushion --data digits" in text
    assert "Check the certificate" not in describe(summary, "n.net", None, "digits")
    assert "no certificate file" not in text
    refused = replace(summary, occam=(replace(summary.occam[1], because="of this"),))
    assert "no certificate file: of this" in describe(refused, "n.net", None, "digits")


def test_help_runs_and_shows_percentages(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = ask(capsys, "compress", "--help")
    assert (code, err) == (0, "")
    assert "%%" not in text
    assert "--k 20%" in " ".join(text.split())
    options = {name for method in METHODS.values() for name in method.takes}
    flags = (f"--{name.replace('_', '-')}" for name in options)
    for name in (*METHODS, *flags, "--certificate", "--figures"):
        assert name in text.replace("\n", " ").replace("-  ", "-") or name in re.sub(
            r"-\s+", "-", text
        )


BAD = [
    ("{mlp} --data digits --method vector-compress", "linear classifiers"),
    ("{mlp} --data digits --method matrix-project --level 0.3", "asks for .*--k 5%"),
    ("{mlp} --data digits --method matrix-project --k 0", "--k 0"),
    ("{mlp} --data digits --method matrix-project --k 5%%", "--k 5%%"),
    ("{mlp} --data digits --method matrix-project --k 999999999999", "--k 999999999999"),
    ("{mlp} --data digits --method matrix-project --k 9 --helper gaussian", "signs, srht"),
    ("{mlp} --data digits --method matrix-project --k 9 --eta 0.1", "does not take --eta"),
    ("{mlp} --data digits --method matrix-project --k 9 --number-bits 1", "--number-bits"),
    ("{mlp} --data digits --method matrix-project --k 9 --number-bits 33", "--number-bits"),
    ("{mlp} --data digits --method matrix-project --k 9 --zeta 1", "--zeta"),
    ("{mlp} --data digits --method matrix-project --k 9 --level nan", "--level"),
    ("{mlp} --data digits --method matrix-project --k 9 --examples 0", "--examples"),
    ("{mlp} --data digits --method matrix-project --epsilon 1.5", "--epsilon"),
    ("{mlp} --data digits --method low-rank --k 3 --epsilon 0.1", "--k and --epsilon"),
    ("{mlp} --data digits --method low-rank --k 3 --sweep ,", "."),
    ("{mlp} --data digits --method low-rank --k 3 --sweep 4,foo=2", "foo=2"),
    ("{mlp} --data digits --method low-rank --k 3 --seed -1", "--seed"),
    ("{mlp} --data digits --method low-rank --k 3 --delta 0", "--delta"),
    ("{mlp} --data digits --method low-rank --k 3 --minutes 1", "does not take --minutes"),
    ("{mlp} --data digits --method low-rank --k 3 --certificate {out}", "one file"),
    (
        "{mlp} --data digits --method low-rank --k 3 --certificate {tmp}/no/c.cushion",
        "not a folder",
    ),
    (
        "{mlp} --data digits --method low-rank --k 3 --from-initialisation --certificate "
        "{tmp}/c.cushion",
        "initialisation",
    ),
    (
        "{mlp} --data digits --method matrix-project --k 9 --helper srht --certificate "
        "{tmp}/c.cushion",
        "--certificate",
    ),
    (
        "{conv} --data digits --method conv-project --k 1 --p 1 --certificate {tmp}/c.cushion",
        "--certificate",
    ),
    ("{mlp} --data {other} --method low-rank --k 3", "."),
    ("{mlp} --data {empty} --method low-rank --k 3", "."),
    ("{nan} --data digits --method low-rank --k 3", "NaN"),
    ("{fresh} --data digits --method low-rank", "margin"),
    ("--data digits --method low-rank --k 3", "NET"),
    ("{tmp}/nothing --data digits --method low-rank --k 3", "nothing"),
    ("{mlp} --data digits --method integer --certificate {tmp}/c.cushion", "--certificate"),
    ("{mlp} --data digits --method low-rank --k 3 -o {tmp}", "is a folder"),
]


@pytest.fixture
def places(tmp_path: Path, runs: dict[str, Path]) -> dict[str, str]:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "other.npz", x=rng.integers(0, 255, (9, 1, 5, 5), dtype=np.uint8), y=np.arange(9)
    )
    np.savez(tmp_path / "empty.npz", x=np.zeros((0, 1, 8, 8), np.uint8), y=np.zeros(0, np.int64))
    head = "import torch\nfrom torch import nn\ndef make():\n    torch.manual_seed(0)\n"
    body = "    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    (tmp_path / "fresh.py").write_text(head + body + "    return net\n")
    (tmp_path / "nan.py").write_text(
        head + body + "    net[1].weight.data[0, 0] = float('nan')\n    return net\n"
    )
    return {
        **{name: str(path) for name, path in runs.items()},
        "tmp": str(tmp_path),
        "out": str(tmp_path / "n.net"),
        "other": str(tmp_path / "other.npz"),
        "empty": str(tmp_path / "empty.npz"),
        "fresh": f"{tmp_path / 'fresh.py'}:make",
        "nan": f"{tmp_path / 'nan.py'}:make",
    }


@pytest.mark.parametrize(("words", "complaint"), BAD)
def test_bad_input_gets_one_sentence_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    places: dict[str, str],
    words: str,
    complaint: str,
) -> None:
    def listed() -> list[Path]:
        return sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts)

    before = listed()
    code, out, err = ask(
        capsys, "compress", "-o", places["out"], *(word.format(**places) for word in words.split())
    )
    assert (code, out) == (2, ""), err
    sentences = [line for line in err.strip().splitlines() if "note:" not in line]
    assert len(sentences) == 1, err
    assert re.search(complaint, sentences[0]), err
    assert "Traceback" not in err
    assert listed() == before


def test_json_stays_json_where_numbers_are_infinite(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, places: dict[str, str]
) -> None:
    """An input of 0 and nets that guess: whatever is infinite or unknown, JSON has only null for
    it.
    """
    (tmp_path / "zero.py").write_text(
        "import torch\nfrom torch import nn\ndef make():\n    torch.manual_seed(0)\n    return "
        "nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 2))\n"
    )
    torch.manual_seed(0)
    x = np.zeros((6, 1, 4, 4), np.uint8)
    x[1:] = np.random.default_rng(0).integers(0, 255, (5, 1, 4, 4))
    np.savez(tmp_path / "toy.npz", x=x, y=np.array([0, 1, 0, 1, 0, 1]))
    for method in ("low-rank", "matrix-project", "conv-project"):
        command = [
            "compress",
            f"{tmp_path / 'zero.py'}:make",
            "--data",
            str(tmp_path / "toy.npz"),
            "--method",
            method,
        ]
        code, text, err = ask(capsys, *command, "--k", "2", "-o", places["out"], "--json", "-")
        assert code == 0, err
        found: Any = json.loads(
            text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON")
        )
        assert found["m"] == 6
