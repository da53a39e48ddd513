"""Nets of other kinds on the command line: certified, verified, refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

import cushion
from cushion.data import load_pair

pytestmark = pytest.mark.usefixtures("clock")
FILE = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from torch import nn
from cushion.data import load

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def wide():
    return net().double()

def fitted():
    data = load("digits")
    rows = slice(0, None, 5)
    return LogisticRegression(max_iter=20).fit(data.x[rows].reshape(-1, 64), data.y[rows])
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FILE)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    torch.save(
        {"state_dict": {f"model.{k}": v for k, v in net.state_dict().items()}}, tmp_path / "w.ckpt"
    )
    return tmp_path / "mine.py"


@pytest.mark.filterwarnings("ignore")
def test_a_fitted_classifier_is_certified_and_its_answers_are_replayed(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(mine.with_name("f.cushion"))
    f = ["--net", f"{mine}:fitted", "--unlabelled", "digits,split=test"]
    code, said, err = ask(
        capsys,
        "certify",
        "--data",
        "digits",
        *f,
        "--kind",
        "occam",
        "--minutes",
        "0.02",
        "-o",
        out,
        "--json",
        "-",
    )
    assert code == 0, err
    found = json.loads(said)
    assert found["about"] == "f"
    assert 0 < found["net"]["errors"] < 150
    code, said, err = ask(capsys, "verify", out, "--data", "digits", *f)
    assert code == 0, (said, err)
    assert "f and g disagree on" in said
    assert "NOT" not in said


def test_normalise_stands_in_the_certificate_and_in_the_net(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(mine.with_name("f.cushion"))
    f = ["--net", f"{mine}:wide", "--weights", str(mine.with_name("w.ckpt"))]
    f += ["--unlabelled", "digits,split=test"]
    constants = ["--normalise", "0.3,0.2"]
    code, said, err = ask(
        capsys,
        "certify",
        "--data",
        "digits",
        *f,
        *constants,
        "--kind",
        "occam",
        "--minutes",
        "0.02",
        "-o",
        out,
    )
    assert code == 0, err
    assert "f reads (x - 0.3) / 0.2, as --normalise says." in said
    assert "--normalise 0.3,0.2" in said.splitlines()[-1]
    assert ask(capsys, "verify", out, "--data", "digits", *f, *constants)[0] == 0
    assert ask(capsys, "verify", out, "--data", "digits", *f)[0] == 1  # another net


def test_normalise_in_python_is_the_same_net(tmp_path: Path) -> None:
    data, held = load_pair("digits")
    assert held is not None
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).bfloat16()
    found = cushion.certify(
        net, data, unlabelled=held, method="subspace", steps=5, normalise=([0.3], 0.2)
    )
    claim = found.claim
    assert claim.made_with["normalise"] == "(x - 0.3) / 0.2"
    searched = cushion.compress(
        net, data, method="subspace", steps=5, normalise=(0.3, 0.2)
    ).certificate
    assert searched is not None
    assert searched.claim.made_with["normalise"] == "(x - 0.3) / 0.2"
    for wrong in (0.5, (0.5,), "0.5,0.2", (0.1, 0.2, 0.3)):
        with pytest.raises(cushion.BadInput, match=r"a pair \(mean, std\)"):
            cushion.certify(net, data, normalise=wrong)  # type: ignore[arg-type]
    with pytest.raises(cushion.BadInput, match="give `model` as well"):
        cushion.certify(None, data, normalise=(0.1, 0.2))


def test_refusals_on_the_command_line_are_sentences(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "last.npz", x=np.zeros((4, 8, 8, 3), np.uint8), y=np.array([0, 1, 0, 1]))
    (tmp_path / "conv.py").write_text("from torch import nn\nnet = nn.Conv2d(3, 2, 8)")
    for argv, words in (
        (f"measure {mine} --data digits", "mine.py:net (it also has wide, fitted)"),
        (f"measure {tmp_path}/w.ckpt --data digits", "give file.py:factory with --weights"),
        (f"measure {tmp_path}/a.joblib --data digits", "never read here"),
        (f"measure {mine}:net --data digits --normalise 0.5", "--normalise must be MEAN,STD"),
        (f"measure {mine}:net --data digits --normalise 0.5,0", "a std above 0"),
        ("certify --data digits -o x --normalise 0.5,0", "give --net as well"),
        (f"measure {tmp_path}/conv.py:net --data {tmp_path}/last.npz", "8x8x3"),
        (f"measure {tmp_path}/conv.py:net --data {tmp_path}/last.npz", "transpose(0, 3, 1, 2)"),
        (f"compress {mine}:net --data digits --method low-rank --k 200% -o x", "up to 100%"),
        (f"compress {mine}:net --data digits --method magnitude --sparsity 2 -o x", "below 1"),
        (f"measure {mine}: --data digits", "names no factory; write"),
        (f"measure {mine}:net --weights n.onnx --data digits", "n.onnx is a whole net and no"),
        (
            f"measure {mine}:net --weights n.pt2 --data digits",
            "without --weights, and with --trust",
        ),
    ):
        code, _, err = ask(capsys, *argv.split())
        assert code == 2
        assert words in err.splitlines()[-1], err
        assert "Traceback" not in err
