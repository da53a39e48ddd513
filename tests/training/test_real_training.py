"""A paper's recipe on real data, killed in the middle of an epoch: the resumed run writes the very
same file.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cushion.data import get

pytestmark = pytest.mark.full


def command(folder: Path) -> list[str]:
    train = ["train", "guha-mlp", "--data", "mnist", "--epochs", "3", "-o", str(folder)]
    return [sys.executable, "-m", "cushion", *train]


def test_kill_9_and_resume_gives_the_same_weights(tmp_path: Path) -> None:
    get("mnist")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, capture_output=True)
    process = subprocess.Popen(
        command(broken), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 600
    while not (broken / "checkpoint.safetensors").exists():
        assert process.poll() is None, "it ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)  # well into the second epoch
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (broken / "net.safetensors").exists()
    shown = subprocess.run(command(broken), check=True, capture_output=True, text=True)
    assert "resumed" in shown.stdout
    assert (broken / "net.safetensors").read_bytes() == (whole / "net.safetensors").read_bytes()
    assert (broken / "init.safetensors").read_bytes() == (whole / "init.safetensors").read_bytes()
