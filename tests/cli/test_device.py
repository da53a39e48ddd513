"""--device on every verb that runs a net: checked before the work, and changing no number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

import cushion
from cushion.cli import build_parser
from cushion.errors import BadInput

VERBS = ("train", "measure", "bounds", "compress", "certify", "verify", "reproduce")
NET = "net.py:make --data d.npz"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.integers(0, 256, (40, 6), dtype=np.uint8), y=np.arange(40) % 2)
    lines = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Linear(6, 4), nn.ReLU()"
    Path("net.py").write_text(f"{lines}, nn.Linear(4, 2))\n")
    return tmp_path


def test_every_verb_that_runs_a_net_has_the_flag() -> None:
    actions = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    assert {verb for verb in actions if "--device" in actions[verb]._option_string_actions} == {
        *VERBS
    }


@pytest.mark.parametrize(
    "words",
    [
        f"measure {NET} --only margins",
        f"bounds {NET}",
        f"compress {NET} --method low-rank --k 1 -o out",
        f"certify --net {NET} -o out",
        "train small --data digits -o out",
        "reproduce arora2018-table1 -o out",
    ],
)
@pytest.mark.parametrize(("device", "said"), [("cuda", "not available"), ("gpu", "not known")])
def test_a_device_that_is_not_there_is_one_sentence_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], words: str, device: str, said: str
) -> None:
    code, out, err = ask(capsys, *words.split(), "--device", device)
    assert (code, out, (place / "out").exists()) == (2, "", False)
    assert err.splitlines()[-1].startswith(f"cushion: device '{device}' is {said}")


def test_the_device_changes_no_number(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"measure {NET} --only margins,norms --json -".split()
    answers = [ask(capsys, *words, *more)[1] for more in ([], ["--device", "cpu"])]
    assert answers[0] == answers[1] != ""


def test_a_device_without_a_net_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ask(capsys, "certify", "--data", "d.npz", "-o", "out", "--device", "cpu")
    assert code == 2
    assert "--device say how to load a net; give --net as well" in err


def test_a_compressed_net_stays_where_it_is_rebuilt(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"compress {NET} --method low-rank --k 1 -o small"
    assert ask(capsys, *words.split())[0] == 0
    code, _, err = ask(capsys, *["measure", "small", "--data", "d.npz", "--device", "cpu"])
    assert code == 2
    assert "rebuilt on the CPU; leave it out" in err


def test_python_takes_the_device_of_compress_too(place: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 2))
    found = cushion.compress(net, "d.npz", method="low-rank", k=1, device="cpu")
    alone = cushion.compress(net, "d.npz", method="low-rank", k=1)
    assert found.summary.to_json() == alone.summary.to_json()
    with pytest.raises(BadInput, match="device 'cuda' is not available on this machine"):
        cushion.compress(net, "d.npz", method="low-rank", k=1, device="cuda")
