"""A compression that was killed or interrupted goes on, to the same file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion.compressors.tuning.learner import Learner, Pace
from cushion.compressors.tuning.memory import Folder
from cushion.errors import BadInput


class Stop(Exception):
    pass


def run(net: nn.Module, sample: cushion.Dataset, folder: Path | None) -> Any:
    return cushion.compress(net, sample, epochs=2, resume=folder)


def test_what_was_climbed_is_not_climbed_again_and_the_file_is_the_same(
    net: nn.Module, sample: cushion.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(net, sample, None)
    real, calls = Learner.epoch, [0]

    def epoch(self: Learner, number: int, pace: Pace) -> float:
        if calls[0] == 5:
            raise Stop
        calls[0] += 1
        return real(self, number, pace)

    monkeypatch.setattr(Learner, "epoch", epoch)
    with pytest.raises(Stop):
        run(net, sample, tmp_path / "part")
    assert sorted(path.name for path in (tmp_path / "part").glob("rung*")) == [
        "rung-0.safetensors",
        "rung-1.safetensors",
        "rung-2.safetensors",
    ]
    calls[0] = -1000
    again = run(net, sample, tmp_path / "part")
    assert again.net.to_bytes() == whole.net.to_bytes()
    assert again.summary == whole.summary
    total = 2 * sum("strength" in one.asked for one in whole.summary.tried)
    assert calls[0] == -1000 + total - 5
    assert not (tmp_path / "part").exists()


def test_another_run_begins_anew_and_other_folders_are_left_alone(tmp_path: Path) -> None:
    first = Folder.of(tmp_path / "part", seed=0)
    (first.path / "rung-0.safetensors").write_bytes(b"damaged")
    (first.path / "mine.txt").write_text("...")
    assert Folder.of(tmp_path / "part", seed=0).recall(0) is None  # damaged: trained again
    Folder.of(tmp_path / "part", seed=1)
    assert not (tmp_path / "part" / "rung-0.safetensors").exists()
    assert (tmp_path / "part" / "mine.txt").exists()
    Folder.of(tmp_path / "part", seed=1).forget()
    assert [one.name for one in (tmp_path / "part").iterdir()] == ["mine.txt"]
    (tmp_path / "link").symlink_to(tmp_path / "part")
    with pytest.raises(BadInput, match="link is in the way"):
        Folder.of(tmp_path / "link", seed=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("...")
    (tmp_path / "mine" / "which.json").write_text("{}")
    with pytest.raises(BadInput, match="mine is in the way"):
        Folder.of(tmp_path / "mine", seed=0)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_an_interrupt_keeps_the_best_so_far(
    net: nn.Module, sample: cushion.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Learner.epoch, [0]

    def epoch(self: Learner, number: int, pace: Pace) -> float:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return real(self, number, pace)

    monkeypatch.setattr(Learner, "epoch", epoch)
    summary = cushion.compress(net, sample, epochs=1).summary
    assert summary.interrupted
    assert summary.met
    assert sum("strength" in one.asked for one in summary.tried) == 3


@pytest.mark.full
def test_kill_9_anywhere_and_the_same_file(
    net: nn.Module, sample: cushion.Dataset, tmp_path: Path
) -> None:
    torch.save(net.state_dict(), tmp_path / "w.pt")
    np.savez(tmp_path / "d.npz", x=sample.x, y=sample.y)
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 12), nn.Tanh(),"
        " nn.Linear(12, 3))\n"
    )

    def command(out: str) -> list[str]:
        words = f"compress mine.py:net --weights w.pt --data d.npz --epochs 2 -o {out}"
        return [sys.executable, "-m", "cushion", *words.split()]

    quiet: Any = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command("whole.net"), check=True, **quiet)
    for kill in range(8):
        with subprocess.Popen(command("killed.net"), **quiet) as process:
            deadline = time.monotonic() + 60
            some = kill + 1
            while len(list(tmp_path.glob("killed.net.part/rung*"))) < some:
                if process.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
    subprocess.run(command("killed.net"), check=True, **quiet)
    assert (tmp_path / "killed.net").read_bytes() == (tmp_path / "whole.net").read_bytes()
    assert not (tmp_path / "killed.net.part").exists()
