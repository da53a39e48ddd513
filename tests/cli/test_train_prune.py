"""`cushion train --prune imp` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import ask

SPEC = "1x8x8: flatten fc8 relu fc10"
IMP = ("train", SPEC, "--data", "digits,subset=200", "--epochs", "2", "--prune", "imp")


def test_a_run_prints_its_levels_and_every_level_is_a_net(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    code, out, err = ask(
        capsys, *IMP, "--prune-rounds", "2", "-o", str(run), "--json", str(tmp_path / "imp.json")
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "trained: spec, 3 levels, 391 of 592 weights left"
    assert lines[1].split("  ")[0] == "level"
    # First layer 512 -> 409 -> 327 (103 and 82 go), last layer 80 -> 72 -> 64 (8 and 7.2, rounded
    # up, go).
    assert [line.split()[:4] for line in lines[2:5]] == [
        ["0", "0.00", "%", "592"],
        ["1", "18.75", "%", "481"],
        ["2", "33.95", "%", "391"],
    ]
    assert "--rule zeros" in lines[-1]
    record = json.loads((tmp_path / "imp.json").read_text())
    assert [level["level"] for level in record["levels"]] == [0, 1, 2]
    code, out, _ = ask(capsys, *IMP, "--prune-rounds", "2", "-o", str(run))
    assert (code, out.splitlines()[0][:13]) == (0, "already done:")
    code, out, err = ask(
        capsys, "measure", str(run / "level-02"), "--data", "digits,subset=200", "--json", "-"
    )
    assert (code, err) == (0, "")
    code, _, err = ask(capsys, "measure", str(run), "--data", "digits,subset=200")
    assert code == 2
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--prune-fraction", "1.5"), "--prune-fraction: must be a number above 0 and below 1"),
        (("--prune-to", "0"), "--prune-to: must be a number above 0 and below 1, not 0"),
        (("--prune-to", "0.9999"), "--prune-to 0.9999 cannot be reached"),
        (("--rewind-epoch", "2"), "--rewind-epoch must be below the 2 epochs of a level, not 2"),
        (("--rewind-epoch", "-1"), "must be a whole number of at least 0"),
        (("--prune-rounds", "0"), "must be a whole number of at least 1"),
        (("--prune-rounds", "1", "--prune-to", "0.5"), "give one of them"),
        (("--prune-scope", "all"), "must be one of layer, global, not all"),
        (("--prune-fraction", "x"), "must be a number above 0 and below 1, not 'x'"),
    ],
)
def test_bad_options_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], sentence: str
) -> None:
    code, out, err = ask(capsys, *IMP, *options, "-o", str(tmp_path / "run"))
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--prune-fraction", "0.2"),
        ("--prune-to", "0.9"),
        ("--prune-rounds", "2"),
        ("--rewind-epoch", "0"),
        ("--prune-scope", "layer"),
    ],
)
def test_pruning_options_without_prune_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    code, _, err = ask(capsys, *IMP[:-2], *options, "-o", str(tmp_path / "run"))
    assert code == 2
    assert f"{options[0]} goes with --prune imp" in err
    assert not (tmp_path / "run").exists()
