"""--device on every verb that runs a net: checked before the work, and changing no number."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

import cushion
from cushion.cli import build_parser
from cushion.errors import BadInput
from cushion.nets.network import NetworkModule
from cushion.nets.operations import Affine
from cushion.nets.operations.elementwise import LeakyReLU

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


def test_a_compressed_net_is_rebuilt_and_then_moved(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"compress {NET} --method low-rank --k 1 -o small"
    assert ask(capsys, *words.split())[0] == 0
    asked = ["measure", "small", "--data", "d.npz", "--only", "margins,norms", "--json", "-"]
    answers = [ask(capsys, *asked, *more) for more in ([], ["--device", "cpu"])]
    assert answers[0] == answers[1]
    assert answers[0][0] == 0
    code, _, err = ask(capsys, *asked, "--device", "cuda")
    assert code == 2
    assert "device 'cuda' is not available on this machine" in err


def test_a_compressed_net_takes_all_its_numbers_with_it() -> None:
    leaky = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.1), nn.Linear(4, 2))
    module = NetworkModule(cushion.trace(leaky, (3,))).eval()
    there = copy.deepcopy(module).to(torch.float64)
    ops = [node.op for node in there.network.nodes]
    kinds = {op.operator.weight.dtype for op in ops if isinstance(op, Affine)}
    kinds |= {op.bias.dtype for op in ops if isinstance(op, Affine) and op.bias is not None}
    assert kinds | {op.slope.dtype for op in ops if isinstance(op, LeakyReLU)} == {torch.float64}
    x = torch.rand(5, 3)
    assert torch.allclose(there(x.double()).float(), module(x))
    assert module.network.dtype == torch.float32


def test_python_takes_the_device_of_certify_and_bounds_too(place: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 2))
    more: dict[str, Any] = {"normalise": (0.5, 0.2)}
    for verb in (cushion.certify, cushion.bounds):
        with pytest.raises(BadInput, match="device 'cuda' is not available on this machine"):
            verb(net, "d.npz", device="cuda", **more)
    how: dict[str, Any] = {"method": "supermask", "steps": 5, **more}
    found = [cushion.certify(net, "d.npz", device=device, **how) for device in (None, "cpu")]
    assert found[0].message == found[1].message


def test_python_takes_the_device_of_compress_too(place: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 2))
    found = cushion.compress(net, "d.npz", method="low-rank", k=1, device="cpu")
    alone = cushion.compress(net, "d.npz", method="low-rank", k=1)
    assert found.summary.to_json() == alone.summary.to_json()
    with pytest.raises(BadInput, match="device 'cuda' is not available on this machine"):
        cushion.compress(net, "d.npz", method="low-rank", k=1, device="cuda")
