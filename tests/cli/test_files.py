"""No command writes over what the user brought, or one of its own files over another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion.cli import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.integers(0, 256, (60, 1, 4, 4), dtype=np.uint8), y=np.arange(60) % 3)
    Path("net.py").write_text(
        "from torch import nn\ndef make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))\n"
    )
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).state_dict(), "w.pt")
    cushion.certify(None, "d.npz", method="supermask", steps=2).save("c.cushion")
    return tmp_path


NET = "net.py:make --weights w.pt --data d.npz"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("certify --data d.npz -o x.cushion --json x.cushion", "-o and --json are one file"),
        ("certify --data d.npz -o ./x.cushion --json x.cushion", "-o and --json are one file"),
        ("certify --data d.npz -o d.npz", "-o is the data, d.npz"),
        ("certify --data d.npz,subset=30 -o d.npz", "-o is the data, d.npz"),
        (f"certify --net {NET} -o w.pt", "-o is the net's weights, w.pt"),
        ("verify c.cushion --data d.npz --json c.cushion", "--json is the certificate itself"),
        ("inspect c.cushion --json c.cushion", "--json is the certificate itself"),
        (f"compress {NET} --method low-rank --k 1 -o d.npz", "-o is the data, d.npz"),
        (f"compress {NET} --method low-rank --k 1 -o n --certificate n", "are one file"),
        (f"measure {NET} --only margins --save-margins m --json m", "are one file"),
        (f"measure {NET} --only margins --json w.pt", "--json is the net's weights, w.pt"),
    ],
)
def test_nothing_is_overwritten(
    capsys: pytest.CaptureFixture[str], place: Path, words: str, sentence: str
) -> None:
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert main(words.split()) == 2
    assert sentence in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def test_other_files_are_written(place: Path) -> None:
    assert main(["inspect", "c.cushion", "--json", "seen.json"]) == 0
    assert main(["inspect", "c.cushion", "--json", "seen.json"]) == 0  # its own answer of before
