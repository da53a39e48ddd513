"""`cushion compress --method magnitude`: text that a person can read, JSON, certificate,
pictures.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.command_line import ask

from cushion.cli import main
from cushion.cli.compression import describe
from cushion.cli.figures import draw
from cushion.cli.render import fitted
from cushion.compressors.file import read_compressed
from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.pruning.records import LayerSketch, PruningSummary
from cushion.compressors.run import compress_model

KEYS = {
    "file",
    "certificate",
    "figures",
    "method",
    "rule",
    "d",
    "sparsity",
    "seed",
    "settings",
    "gamma",
    "m",
    "delta",
    "parameters_before",
    "parameters",
    "bits",
    "layers",
    "failure",
    "promises",
    "promise",
    "subgaussian",
    "tried",
    "price",
    "errors_before",
    "errors_after_pruning",
    "errors",
    "occam",
    "paper_bounds",
    "curve",
    "assumptions",
    "notes",
}
RUNS = [
    "--d 1 --level 0.3",
    "--level 0.3",
    "--sparsity 0.5,0.8 --grid best --level 0.3",
    "--rule 2:4 --grid 4",
    "--rule layer --sparsity 0.6 --grid 5 --fine-tune 1 --gamma 0.5 --subgaussian 2,0.5,0.3",
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prune") / "mlp"
    words = [
        "1x8x8: flatten fc12 relu fc10",
        "--data",
        "digits",
        "--epochs",
        "40",
        "-o",
        str(folder),
    ]
    assert main(["train", *words]) == 0
    return folder


@pytest.fixture(scope="session")
def summary() -> PruningSummary:
    from tests.trained_cases import digits, trained

    return compress_model(
        trained("mlp")[0], digits()[0], method="magnitude", options=PruneOptions(d=(0.5, 1.0))
    ).summary


@pytest.mark.parametrize("words", RUNS)
def test_text_and_json(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    folder: Path,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "190")
    out = tmp_path / "n.net"
    command = [
        "compress",
        str(folder),
        "--data",
        "digits",
        "--method",
        "magnitude",
        "-o",
        str(out),
        *words.split(),
    ]
    code, text, err = ask(capsys, *command)
    assert code == 0, err
    first = out.read_bytes()
    code, written, err = ask(capsys, *command, "--json", "-")
    assert (code, err) == (0, "")
    found = json.loads(written)
    assert set(found) >= KEYS
    assert (found["method"], found["file"], found["certificate"]) == ("magnitude", str(out), None)
    assert found["promise"] is None or set(found["promise"]) == {"held", "worst_ratio"}
    assert out.read_bytes() == first
    loaded = read_compressed(out)
    assert (loaded.stored.bits, loaded.stored.parameters) == (found["bits"], found["parameters"])

    lines = text.splitlines()
    assert "None" not in text
    assert "nan" not in text.lower().split()
    assert max(map(cell_len, lines)) <= 190
    assert (
        f"total: {found['parameters_before']} parameters before, {found['parameters']} numbers and "
        f"{found['bits']} bits after"
    ) in text
    for heading in (
        "What was tried",
        "Assumption 3.1",
        "What the lemmas promise",
        "The paper's bounds",
    ):
        assert heading in text
    at = lines.index("What was tried") + 2
    tried = [line.split()[-2] for line in lines[at : at + len(found["tried"])]]
    assert sorted(tried) == ["no"] * (len(tried) - 1) + ["yes"]
    assert ("Moments of Δ" in text) == (found["rule"] == "bernoulli")
    assert ("ε_l: share of δ" in text) == (found["rule"] == "bernoulli")
    choice = (
        f"The best of {len(found['tried'])} settings was taken. That is free here: the code covers "
        "every message"
    )
    assert (choice in text) == (len(found["tried"]) > 1)
    # A certificate and a measure never mix: every bound says which it is.
    rows = [line for line in lines if re.match(r"(sketch count|naive count|mask and values)", line)]
    assert len(rows) == sum(row["value"] is not None for row in found["paper_bounds"])
    assert all(("certificate" in line) == line.startswith("mask and values") for line in rows)
    assert all(("measure" in line) != line.startswith("mask and values") for line in rows)
    assert f"The compressed net is in {out}" in text
    assert "add --certificate" in text


def test_certificate_json_file_and_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    files = [str(tmp_path / name) for name in ("n.net", "n.cushion", "n.json", "pictures")]
    command = [
        "compress",
        str(folder),
        "--data",
        "digits",
        "--method",
        "magnitude",
        "--sparsity",
        "0.5,0.7",
        "--grid",
    ]
    command += [
        "best",
        "-o",
        files[0],
        "--certificate",
        files[1],
        "--json",
        files[2],
        "--figures",
        files[3],
    ]
    code, text, err = ask(capsys, *command)
    assert code == 0, err
    assert f"Check the certificate with: cushion verify {files[1]} --data digits" in text
    found = json.loads(Path(files[2]).read_text())
    assert (found["file"], found["certificate"]) == (files[0], files[1])
    names = {f"magnitude-{part}.{kind}" for part in ("tried", "layers") for kind in ("png", "svg")}
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
    assert (seen["ok"], seen["bits"], float(seen["bound"])) == (True, row["bits"], row["bound"])


def test_one_setting_draws_no_curve(tmp_path: Path, summary: PruningSummary) -> None:
    alone = replace(summary, tried=summary.tried[:1])
    assert {path.name for path in draw(alone, str(tmp_path))} == {
        "magnitude-layers.png",
        "magnitude-layers.svg",
    }
    paths = draw(summary, str(tmp_path / "both"))
    assert len(paths) == 4
    assert all(path.stat().st_size > 3000 for path in paths)
    svg = (tmp_path / "both" / "magnitude-tried.svg").read_text()
    assert "lemma" in svg or "<path" in svg


def test_words_for_sketches_broken_promises_and_missing_certificates(
    summary: PruningSummary,
) -> None:
    sketch = LayerSketch(20, 21, 4, 420, 33.3, True, 0, 0.0, 12, 0.25, 5000, 1200)
    lost = replace(sketch, recovered=False, wrong=7)
    first, second = summary.layers
    layers = (
        replace(first, sketch=sketch, stored_as="sketch 20x21"),
        replace(second, sketch=lost, stored_as="mask and values (no sketch came back)"),
    )
    broken = replace(summary.promises[0], held=False, worst_ratio=3.25, meaning="lost")
    machine, file = summary.occam
    told = replace(
        summary,
        method="sketch",
        layers=layers,
        promises=(broken,),
        occam=(machine, replace(file, because="of this")),
        notes=("a note",),
        subgaussian=None,
    )
    text = describe(told, "n.net", None, "digits")
    assert "20x21" in text
    table = text[text.index("Sketches A X Bᵀ") :].splitlines()
    assert [line.split()[5:8] for line in table[2:4]] == [["33.3", "yes", "0"], ["33.3", "no", "7"]]
    assert re.search(r"Lemma 4.1 +BROKEN +3.25", text)
    assert "no certificate file: of this" in text
    assert "add --certificate" not in text
    assert "note: a note" in text
    assert "Condition C.1" not in text
    assert "cushion verify c.cushion --data digits" in describe(
        summary, "n.net", "c.cushion", "digits"
    )
    silent = replace(
        summary,
        gamma=None,
        paper_bounds=tuple(
            replace(row, value=None, log10=None, capacity_log10=None, meaning="abstains: why")
            for row in summary.paper_bounds
        ),
    )
    text = describe(silent, "n.net", None, "digits")
    assert "no positive margin" in text
    assert "No value for sketch count" in text


def test_no_line_is_wider_than_the_terminal(
    summary: PruningSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (60, 100, 190):
        monkeypatch.setenv("COLUMNS", str(width))
        text = fitted(describe(summary, "n.net", None, "digits"))
        assert max(map(cell_len, text.splitlines())) <= width
