"""A search that is killed goes on from what it kept; what it did not write, it does not take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.certificates.test_integer_search import blobs
from tests.command_line import ask
from torch import Tensor

import cushion
from cushion.certificates.search import pausing
from cushion.certificates.state_file import is_state
from cushion.errors import BadInput
from cushion.nets.loading.checksums import add
from cushion.nets.loading.weights import read_tensors

PAC_BAYES = {"method": "pac-bayes", "minutes": 0.02, "draws": 200}
# a process that keeps its state often
OFTEN = "from cushion.certificates.search import pausing; pausing._EVERY = 0.2; "
OFTEN += "pausing._SHARE = 0.0; from cushion.cli import main; main({!r})"


def killed(argv: list[str], ready: Callable[[], bool]) -> None:
    """Run the command, and kill it as soon as it is ready."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    code = OFTEN.format(argv)
    child = subprocess.Popen([sys.executable, "-c", code], **quiet)  # type: ignore[call-overload]
    until = time.monotonic() + 60
    while not ready() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a search keeps shortly before its end."""
    path = tmp_path_factory.mktemp("kept") / "p.best"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pausing, "_EVERY", 0.2)
        cushion.certify(None, blobs(), keep=path, **PAC_BAYES)
    assert is_state(path)
    return path.read_bytes()


@pytest.fixture
def best(tmp_path: Path, kept: bytes) -> Path:
    path = tmp_path / "p.best"
    path.write_bytes(kept)
    return path


def test_a_killed_posterior_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, best = tmp_path / "d.cushion", tmp_path / "d.cushion.best"
    argv = ["certify", "--data", "digits", "-o", str(out), "--kind", "pac-bayes"]
    argv += ["--minutes", "0.07", "--draws", "500"]
    killed(argv, best.exists)
    assert not out.exists()
    _, said = read_tensors(best)
    begin = time.monotonic()
    code, printed, err = ask(capsys, *argv, "--json", "-")
    assert code == 0, err
    assert f"going on from {best}: a posterior after {said['steps']} steps" in err
    made = json.loads(printed)["made_with"]
    assert made["steps"] > int(said["steps"]) > 0
    assert time.monotonic() - begin < 60
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert cushion.verify(out, "digits").ok


def test_its_clock_is_that_of_the_file(best: Path) -> None:
    rewritten(best, lambda _, said: said.update(seconds="1e9", steps="70"))
    told: list[str] = []
    again = cushion.certify(None, blobs(), keep=best, tell=told.append, **PAC_BAYES)
    assert "going on from" in told[0]
    assert again.claim.made_with["steps"] == 71  # no time was left


@pytest.mark.parametrize("more", [{"seed": 1}, {"minutes": 0.01}, {"delta": "0.04"}, {"draws": 9}])
def test_another_search_begins_anew(best: Path, more: dict[str, object]) -> None:
    told: list[str] = []
    cushion.certify(None, blobs(), keep=best, tell=told.append, **{**PAC_BAYES, **more})
    assert "of another search" in told[0]


def test_the_two_kinds_of_search_know_each_others_files(best: Path) -> None:
    told: list[str] = []
    cushion.certify(None, blobs(), keep=best, minutes=0.02, tell=told.append)
    assert "of another search" in told[0]
    cushion.certify(None, blobs(), keep=best, tell=told.append, **PAC_BAYES)
    assert "of another search" in told[1]


def rewritten(path: Path, change: Callable[[dict[str, Tensor], dict[str, str]], None]) -> None:
    """The file with something changed, and a checksum that fits."""
    tensors, said = load_file(path), read_tensors(path)[1]
    change(tensors, said)
    save_file(tensors, path, add(tensors, said))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def with_nan(path: Path) -> None:
    rewritten(path, lambda tensors, _: next(iter(tensors.values())).fill_(float("nan")))


def with_more(path: Path) -> None:
    rewritten(path, lambda tensors, _: tensors.update(more=torch.zeros(3)))


def with_fewer(path: Path) -> None:
    rewritten(path, lambda tensors, _: [tensors.pop(name) for name in list(tensors)[:3]] and None)


def of_other_shapes(path: Path) -> None:
    def change(tensors: dict[str, Tensor], _: dict[str, str]) -> None:
        tensors |= {name: torch.zeros(2, 2) for name in tensors}

    rewritten(path, change)


def out_of_time(path: Path) -> None:
    rewritten(path, lambda _, said: said.update(seconds="nan"))


def without_a_clock(path: Path) -> None:
    rewritten(path, lambda _, said: said.pop("steps") and None)


def countless(path: Path) -> None:
    rewritten(path, lambda _, said: said.update(steps="9" * 5000))


def pickled(path: Path) -> None:
    torch.save({"os": "system"}, path)


def notes(path: Path) -> None:
    path.write_text("my notes")


def weights(path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, path)


DAMAGE = (cut_short, flipped, with_nan, with_more, with_fewer, of_other_shapes, out_of_time)


@pytest.mark.parametrize("damage", [*DAMAGE, without_a_clock, countless, pickled, notes, weights])
def test_a_file_that_no_such_search_wrote_is_refused_and_stays(
    best: Path, damage: Callable[[Path], None]
) -> None:
    damage(best)
    content = best.read_bytes()
    with pytest.raises(BadInput, match=r"p\.best is no posterior that a search has under way"):
        cushion.certify(None, blobs(), keep=best, **PAC_BAYES)
    assert best.read_bytes() == content


@pytest.mark.parametrize("method", ["integer", "pac-bayes"])
def test_a_pipe_is_no_place_for_the_best_so_far(tmp_path: Path, method: str) -> None:
    pipe = tmp_path / "b.best"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match=r"b\.best is a pipe and not a file; move it away"):
        cushion.certify(None, blobs(), keep=pipe, method=method, minutes=0.02)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    best = tmp_path / "b.best"
    with open(best, "wb") as stream:
        stream.write(b"\x89cushion1\n")
        stream.truncate(2**40)
    with pytest.raises(BadInput, match=r"b\.best is no best so far of a search"):
        cushion.certify(None, blobs(), keep=best, minutes=0.02)


def test_a_state_that_cannot_be_kept_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "_EVERY", 0.2)
    told: list[str] = []
    gone = tmp_path / "gone" / "b.best"
    found = cushion.certify(None, blobs(), keep=gone, tell=told.append, **PAC_BAYES)
    assert np.isfinite(found.bound)
    assert [said.split(":")[0] for said in told] == ["the posterior so far is not kept"]


def test_keeping_takes_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, kept = [0.0], []

    def keep(_: pausing.Paused) -> None:
        kept.append(now[0])
        now[0] += 1.0  # a slow disk

    monkeypatch.setattr(pausing.time, "monotonic", lambda: now[0])
    keeper = pausing.Keeper(keep)
    while now[0] < 200:
        keeper.offer(lambda: pausing.Paused({}, 0.0, 0, 0.5))
        now[0] += 1.0
    assert kept == [5.0, 56.0, 107.0, 158.0]
