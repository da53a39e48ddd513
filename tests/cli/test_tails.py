"""`cushion measure --only tails` as a user sees it: tables, words, refusals, pictures' names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.command_line import ask

from cushion.measures.tails.records import LikelihoodRatio, Rival, TailFits

NET = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    layers = [nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 10)]
    net = nn.Sequential(nn.Flatten(), *layers)
    with torch.no_grad():
        net[3].weight.fill_(0.25)
        net[5].weight.copy_(torch.distributions.StudentT(2.0).sample((10, 60)))
    return net
"""


WIDE = 200  # characters of a line: all columns beside each other


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDE))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("net") / "net.py"
    path.write_text(NET)
    return f"{path}:make"


def test_the_answer_has_tables_doubts_and_meanings(
    net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ask(capsys, "measure", net, "--data", "digits", "--only", "tails")
    assert code == 0
    lines = out.splitlines()
    headings = [
        "Tails of the weights |w| (Shin 2021): a power law from xmin on",
        "Stable laws of all weights of a layer",
        "Tails of the eigenvalues of WWᵀ (heavy-tailed self-regularisation)",
        "Why not to believe them",
    ]
    places = [lines.index(heading) for heading in headings]
    assert places == sorted(places)
    for reason in (
        "3: no fit: all 3600 non-zero weights have the magnitude 0.25: a constant has no tail",
        "3: no fit: all 3600 weights are 0.25: a constant has no law",
        "3: no fit: only 1 non-zero eigenvalues beside 59 that are zero up to rounding, and 50 are "
        "needed",
        "5: no fit: only 10 non-zero eigenvalues, and 50 are needed",
    ):
        assert f"layer {reason}" in lines
    assert any(line.startswith("layer 1, weights: ") for line in lines)
    assert "index: alpha - 1: P(X > x) falls as x^-index" in out
    header = "layer shape count alpha ± index xmin KS tail share reach likeliest"
    assert lines[places[0] + 1].split() == header.split()
    assert "bootstrap" not in out


@pytest.mark.parametrize(
    "columns", [60, *(pytest.param(wider, marks=pytest.mark.full) for wider in (100, WIDE))]
)
def test_no_line_is_longer_than_the_terminal(
    net: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["measure", net, "--data", "digits", "--only", "tails,norms", "--beside", "random"]
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, ask(capsys, *asked)[1].splitlines())) <= columns


def test_the_numbers_of_the_table_are_those_of_the_record(
    net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = ask(capsys, "measure", net, "--data", "digits", "--only", "tails")
    code, text, _ = ask(
        capsys, "measure", net, "--data", "digits", "--only", "tails", "--json", "-"
    )
    assert code == 0
    layer = json.loads(text)["layers"][2]
    law, stable, skewed = (
        layer["tails"]["weights"][key] for key in ("power_law", "stable", "stable_skewed")
    )
    rows = [line.split() for line in out.splitlines() if line.startswith("5 ")]
    assert layer["tail_alpha"] == law["alpha"]
    fitted = [law[key] for key in ("alpha", "alpha_error")]
    fitted += [law["alpha"] - 1, law["xmin"], law["ks_distance"], law["tail"]]
    check(rows[0], ["5", "10x60", "600", *fitted])
    assert rows[0][9:11] == [f"{100 * law['tail'] / 600:.2f}", "%"]
    plain, turned = (
        [[one[name], one["errors"][name]] for name in names]
        for one, names in ((stable, ["alpha"]), (skewed, ["alpha", "beta"]))
    )
    rest = [[one[key] for key in ("scale", "location", "ks_distance")] for one in (stable, skewed)]
    check(rows[1], ["5", "600", *plain[0], *rest[0], *turned[0], *turned[1], *rest[1]])


def check(cells: list[str], expected: list[str | float]) -> None:
    """Numbers as far as they are printed."""
    for cell, value in zip(cells, expected, strict=False):
        if isinstance(value, str):
            assert cell == value
        else:
            assert float(cell) == pytest.approx(value, rel=0.05, abs=6e-3)


def test_the_bootstrap_has_a_column_and_a_meaning(
    net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "measure",
        net,
        "--data",
        "digits",
        "--only",
        "tails",
        "--bootstrap",
        "20",
        "--seed",
        "3",
    ]
    code, out, _ = ask(capsys, *asked)
    assert code == 0
    assert " ".join(out.split()).count("share reach p likeliest") == 2
    assert "of the bootstrap test (--bootstrap)" in out
    assert ask(capsys, *asked)[1] == out


def test_beside_shows_both_exponents(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ask(
        capsys, "measure", net, "--data", "digits", "--only", "tails", "--beside", "random"
    )
    assert code == 0
    lines = out.splitlines()
    at = lines.index("The exponents, and those of the net beside it")
    header = (
        "layer weights power law: alpha beside eigenvalues power law: alpha beside weights "
        "symmetric: alpha beside"
    )
    assert " ".join(lines[at + 1].split()) == header
    assert lines[at + 3].split()[:2] == ["3", "-"]


def test_pictures_are_drawn_on_demand(
    net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "figures"
    code, _, err = ask(
        capsys, "measure", net, "--data", "digits", "--only", "tails", "--figures", str(folder)
    )
    assert code == 0
    assert "drew hill-eigenvalues, hill-weights, tails-eigenvalues, tails-weights" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        *(
            (
                ["--bootstrap", text],
                "argument --bootstrap: must be a whole number of at least 0 and at most 1e+06, not "
                f"{shown}",
            )
            for text, shown in (("-1", "-1"), ("x", "'x'"), ("1.5", "'1.5'"))
        ),
        (["--only", "tails,foo"], "--only foo: there is no family of measures called so; choose"),
        (["--only", "tail"], "conditions, tails"),
    ],
)
def test_refusals_are_one_sentence(
    net: str, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ask(capsys, "measure", net, "--data", "digits", *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def ratio(rival: Rival, value: float, p: float) -> LikelihoodRatio:
    return LikelihoodRatio(rival, value, p, {})


def test_the_law_that_is_named_is_the_likeliest_of_those_that_win_or_all_that_are_left() -> None:
    fits = TailFits("weights", 100)
    better = (
        ratio("log-normal", -5.0, 0.01),
        ratio("exponential", 2.0, 0.5),
        ratio("gaussian", -7.0, 0.05),
    )
    assert replace(fits, comparisons=better).likeliest == "gaussian"
    left = (
        ratio("log-normal", -0.1, 0.8),
        ratio("exponential", 2.0, 0.5),
        ratio("gaussian", 7.0, 0.05),
    )
    assert replace(fits, comparisons=left).likeliest == "power law or exponential"
    unknown = (
        ratio("log-normal", -0.1, 0.8),
        ratio("exponential", 2.0, 0.5),
        ratio("gaussian", -7.0, 0.2),
    )
    assert replace(fits, comparisons=unknown).likeliest == "undecided"
    alone = (
        ratio("log-normal", 0.0, 1.0),
        ratio("exponential", 9.0, 0.001),
        ratio("gaussian", 9.0, 0.001),
    )
    assert replace(fits, comparisons=alone).likeliest == "power law"
