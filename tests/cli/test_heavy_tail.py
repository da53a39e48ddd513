"""`cushion compress --method heavy-tail`: text that a person can read, JSON, certificate,
refusals.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.command_line import ask

import cushion
from cushion.cli import main
from cushion.compressors.file import read_compressed

KEYS = {
    "file",
    "certificate",
    "figures",
    "method",
    "form",
    "seed",
    "settings",
    "gamma",
    "m",
    "delta",
    "parameters_before",
    "parameters",
    "bits",
    "layers",
    "eta",
    "epsilon",
    "smoothness",
    "induction",
    "promises",
    "promise",
    "tried",
    "price",
    "errors_before",
    "errors",
    "trials",
    "accuracy",
    "holdout_accuracy",
    "output_error",
    "occam",
    "paper_bounds",
    "assumptions",
    "notes",
}
RUNS = [
    "--level 0.3",
    "--tau 1 --t 1 --trials 3 --level 0.3",
    "--form algorithm --tau 0.5,1 --trials 2",
    "--form appendix --trials 2",
    "--epsilon 0.2 --eta 0.01 --grid best --gamma 0.5",
    "--tau 1 --t 0.5 --layers fc2 --trials 1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tails") / "mlp"
    words = [
        "1x8x8: flatten fc12 relu fc10",
        "--data",
        "digits",
        "--epochs",
        "12",
        "-o",
        str(folder),
    ]
    assert main(["train", *words]) == 0
    return folder


def command(folder: Path, out: Path, words: str) -> list[str]:
    start = ["compress", str(folder), "--data", "digits", "--method", "heavy-tail", "-o", str(out)]
    return [*start, *words.split()]


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
    code, text, err = ask(capsys, *command(folder, out, words), "--json", str(tmp_path / "n.json"))
    assert (code, err) == (0, "")
    found = json.loads((tmp_path / "n.json").read_text())
    assert set(found) == KEYS
    assert (found["method"], found["file"], found["certificate"], found["figures"]) == (
        "heavy-tail",
        str(out),
        None,
        [],
    )
    assert set(found["promise"]) == {"held", "worst_ratio"}
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
        "Accuracy on held-out examples",
        "What was tried",
        "What the lemmas promise",
        "The paper's bounds",
    ):
        assert heading in text
    # Accuracy, mean and standard deviation over the trials, in percent.
    seen = found["holdout_accuracy"]
    at, trials = lines.index("Accuracy on held-out examples"), len(found["trials"])
    rows = dict(line.split()[:2] for line in lines[at + 1 : at + 4 + (trials > 1) + 1])
    assert rows["m"] == str(seen["m"])
    assert rows["before"] == f"{100 * seen['before']:.2f}"
    assert rows["after"] == f"{100 * seen['mean']:.2f}"
    assert ("±" in rows) == (trials > 1)
    if trials > 1:
        assert rows["±"] == f"{100 * seen['deviation']:.2f}"
    assert rows["trials"] == str(trials)
    # A certificate and a measure never mix: every bound says which it is.
    rows = [line for line in lines if re.match(r"heavy-tail (count|message)", line)]
    assert len(rows) == sum(row["value"] is not None for row in found["paper_bounds"])
    assert all(("certificate" in line) == line.startswith("heavy-tail message") for line in rows)
    assert all(("measure" in line) == line.startswith("heavy-tail count") for line in rows)
    assert f"The compressed net is in {out}" in text
    assert ("add --certificate" in text) == (not any(row["because"] for row in found["occam"]))


def test_the_same_command_gives_the_same_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    out, words = tmp_path / "n.net", "--tau 1 --t 1 --trials 2"
    code, written, err = ask(capsys, *command(folder, out, words), "--json", "-")
    assert (code, err) == (0, "")
    first = out.read_bytes()
    code, again, _ = ask(capsys, *command(folder, out, words), "--json", "-")
    assert (again, out.read_bytes()) == (written, first)


def test_the_slips_of_the_paper_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    code, text, _ = ask(capsys, *command(folder, tmp_path / "n", "--form appendix --trials 2"))
    assert code == 0
    told = " ".join(text.split())
    assert (
        "every large negative weight was replaced, as Appendix E prints it: in fc2 one of -" in told
    )
    assert "the mean survives: what goes from fc2 has the mean" in told
    code, text, _ = ask(
        capsys, *command(folder, tmp_path / "n", "--form algorithm --tau 1 --trials 2")
    )
    assert code == 0
    assert "as Algorithm 1 prints it" in " ".join(text.split())
    code, text, _ = ask(capsys, *command(folder, tmp_path / "n", "--tau 1 --t 0"))
    assert code == 0
    assert "without noise (t = 0) every trial is the same net, so one was run" in text


@pytest.mark.parametrize(
    "words", ["--tau 1 --t 0", "--tau 1 --t 1 --trials 1", "--form appendix --trials 1 --grid 8"]
)
def test_certificates_verify(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path, words: str
) -> None:
    files = [str(tmp_path / name) for name in ("n.net", "n.cushion", "n.json")]
    more = ["--certificate", files[1], "--json", files[2]]
    code, text, err = ask(capsys, *command(folder, Path(files[0]), words), *more)
    assert code == 0, err
    assert f"Check the certificate with: cushion verify {files[1]} --data digits" in text
    found = json.loads(Path(files[2]).read_text())
    code, text, err = ask(capsys, "verify", files[1], "--data", "digits", "--json", "-")
    assert code == 0, err
    seen, row = (
        json.loads(text),
        next(row for row in found["occam"] if row["kind"] == "certificate"),
    )
    assert (seen["ok"], seen["bits"], float(seen["bound"])) == (True, row["bits"], row["bound"])
    code, text, err = ask(
        capsys, "measure", files[0], "--data", "digits", "--only", "norms"
    )  # OUT is a NET
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "--tau 0",
            "--tau must be numbers above 0 and at most 1e+06, not 0",
        ),
        ("--tau=-1", "--tau must be numbers above 0"),
        ("--tau nan", "--tau must be numbers above 0"),
        ("--tau x", "--tau must be numbers above 0"),
        ("--t=-1", "--t must be numbers of at least 0"),
        ("--trials 0", "--trials must be a whole number of at least 1"),
        ("--layers nope", "--layers nope: the net has no such layer to replace; it has fc1, fc2"),
        ("--layers all,fc1", "--layers all and last stand alone"),
        ("--form correct", "--form must be one of corrected, algorithm, appendix, not correct"),
        ("--form appendix --tau 2", "leave out --tau"),
        ("--form appendix --t 0", "leave out --t"),
        ("--epsilon 0.1", "--epsilon goes with --eta"),
        ("--epsilon 0.1 --eta 0.1 --tau 1", "--tau and --epsilon both set the threshold"),
        ("--grid 1", "--grid 1 must be best, or bits of a weight, 2 to 32"),
        ("--sparsity 0.5", "--method heavy-tail does not take --sparsity"),
        ("--k 5", "--method heavy-tail does not take --k"),
        (
            "--form appendix --layers all --trials 1 --certificate c.cushion",
            "its draws have a mean",
        ),
    ],
)
def test_bad_input_ends_with_one_sentence(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(capsys, *command(folder, tmp_path / "n.net", words))
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


NETS = """
import torch
from torch import nn


def constant():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    nn.init.constant_(net[1].weight, 0.25)
    return net


def nan():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    with torch.no_grad():
        net[1].weight[0, 0] = float("nan")
    return net


def no_dense():
    return nn.Sequential(nn.Conv2d(1, 10, 8), nn.Flatten()).eval()
"""


@pytest.mark.parametrize(
    ("factory", "words", "sentence"),
    [
        (
            "constant",
            "",
            "1: all its 640 weights are equal, so that no threshold parts them; leave it out with",
        ),
        ("nan", "", "1.weight holds NaN"),
        (
            "no_dense",
            "--layers last",
            "--layers last is the final dense layer, and the net has none",
        ),
    ],
)
def test_nets_that_cannot_be_replaced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, factory: str, words: str, sentence: str
) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    start = [
        "compress",
        f"{tmp_path / 'nets.py'}:{factory}",
        "--data",
        "digits",
        "--method",
        "heavy-tail",
    ]
    code, out, err = ask(capsys, *start, "-o", str(tmp_path / "n.net"), *words.split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert not (tmp_path / "n.net").exists()


def test_nothing_stays_is_an_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    code, text, err = ask(capsys, *command(folder, tmp_path / "n.net", "--tau 100 --t 0"))
    assert code == 0, err
    assert "nothing stays in fc1, fc2 (B = 0): a weight of zeros stands for it" in " ".join(
        text.split()
    )


def test_the_same_in_python(folder: Path) -> None:
    data, holdout = cushion.load_pair("digits")
    model = cushion.load_net(str(folder)).module
    found = cushion.compress(
        model,
        data,
        method="heavy-tail",
        tau=1,
        t=[0, 1],
        layers="fc1,fc2",
        trials=2,
        holdout=holdout,
    )
    assert found.summary.method == "heavy-tail"
    assert [one.asked for one in found.summary.tried] == ["tau=1, t=0", "tau=1, t=1"]
    with pytest.raises(cushion.BadInput, match="give `model`"):
        cushion.compress(None, data, method="heavy-tail", tau=1)


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ask(capsys, "compress", "--help")
    assert code == 0
    told = " ".join(out.split())
    for part in (
        "heavy-tail: NET with its small weights replaced",
        "--form",
        "--tau",
        "--trials",
        "[heavy-tail]",
    ):
        assert part in told
