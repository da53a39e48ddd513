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
from cushion.certificates.search.integer.blueprints import Plan, convolutional
from cushion.certificates.search.integer.search import attempt, train
from cushion.certificates.search.integer.under_way import LEARNING, SETTLING, Course
from cushion.certificates.search.sample import Sample
from cushion.certificates.state_file import is_state
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.nets.loading.checksums import add
from cushion.nets.loading.weights import read_tensors

PAC_BAYES = {"method": "pac-bayes", "minutes": 0.02, "draws": 100_000}
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


@pytest.mark.full
def test_a_killed_posterior_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, best = tmp_path / "d.cushion", tmp_path / "d.cushion.best"
    argv = ["certify", "--data", "digits", "-o", str(out), "--kind", "pac-bayes"]
    argv += ["--minutes", "0.07", "--draws", "100000"]
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


@pytest.mark.parametrize(
    "more",
    [
        {"delta": "0.04"},
        *(
            pytest.param(other, marks=pytest.mark.full)
            for other in ({"seed": 1}, {"minutes": 0.01}, {"draws": 100_001})
        ),
    ],
)
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
    assert [said.split(":")[0] for said in told] == ["a posterior so far is not kept"]


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


def images(m: int = 300) -> Dataset:
    """Two classes of 16x16 images, on which a try learns and settles."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 90, (m, 1, 16, 16), dtype=np.uint8), np.arange(m) % 2
    x[y == 1, :, 4:9] += 120
    return Dataset("stripes", x, y, 2)


PLAN = Plan(convolutional(2, 2, 2, 1), 0.5, 2.5, 300)


@pytest.fixture(scope="module")
def tried() -> dict[str, list[pausing.Paused]]:
    """The states that a try hands out, by phase."""
    found: dict[str, list[pausing.Paused]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pausing, "_EVERY", 0.0)
        patch.setattr(pausing, "_SHARE", 0.0)
        keeper = pausing.Keeper(lambda one: found.setdefault(one.phase, []).append(one))
        data = images()
        list(attempt(PLAN, Sample.of(data, 0, 0), data, 60, 0, Course(4, None, keeper)))
    return found


@pytest.mark.parametrize("phase", [LEARNING, SETTLING])
def test_a_try_goes_on_in_the_phase_and_with_the_numbers_that_it_had(
    tried: dict[str, list[pausing.Paused]], phase: str
) -> None:
    data, left, again = images(), tried[phase][-1], []
    assert (left.tries, left.phase, left.steps > 0) == (4, phase, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pausing, "_EVERY", 0.0)
        patch.setattr(pausing, "_SHARE", 0.0)
        course = Course(4, left, pausing.Keeper(again.append))
        assert course.spent == pytest.approx(left.before + left.seconds, abs=0.5)
        *_, final = attempt(PLAN, Sample.of(data, 0, 0), data, 60, 0, course)
    assert final.net is not None
    assert final.net.errors(data.x, data.y) < 30
    assert LEARNING not in {one.phase for one in again} or phase == LEARNING
    assert all(one.steps > left.steps for one in again if one.phase == phase)


def test_what_is_put_back_is_what_was_kept(tried: dict[str, list[pausing.Paused]]) -> None:
    left, kept = tried[SETTLING][0], []
    data = images()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pausing, "_EVERY", 0.0)
        patch.setattr(Sample, "descend", lambda *_, **__: 0.1)  # nothing moves
        patch.setattr("cushion.certificates.search.integer.search.hold", lambda *_: None)
        course = Course(4, left, pausing.Keeper(kept.append))
        list(train(PLAN, Sample.of(data, 0, 0), 60, course))
    assert kept[0].tensors.keys() == left.tensors.keys()
    for name, tensor in left.tensors.items():
        assert torch.equal(kept[0].tensors[name], tensor), name


@pytest.mark.full
def test_a_killed_try_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out, under_way = images(), tmp_path / "s.cushion", tmp_path / "s.cushion.best.try"
    np.savez(tmp_path / "s.npz", x=data.x, y=data.y)
    argv = ["certify", "--data", str(tmp_path / "s.npz"), "-o", str(out), "--minutes", "0.15"]

    def late() -> bool:
        """In the third try, the long one."""
        return under_way.exists() and read_tensors(under_way)[1]["tries"] == "2"

    killed(argv, late)
    assert not out.exists()
    _, said = read_tensors(under_way)
    code, _, err = ask(capsys, *argv, "--json", "-")
    assert code == 0, err
    assert f"going on from {under_way}: a try after {said['steps']} steps" in err
    assert {path.name for path in tmp_path.iterdir()} == {out.name, "s.npz"}
    assert cushion.verify(out, tmp_path / "s.npz").ok


@pytest.mark.parametrize("damage", [*DAMAGE, without_a_clock, pickled, notes, weights])
def test_a_damaged_try_is_refused_and_stays(
    tmp_path: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    best = tmp_path / "b.best"
    under_way = tmp_path / "b.best.try"
    monkeypatch.setattr(pausing, "_EVERY", 0.0)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    how = {"keep": best, "minutes": 0.02, "seed": 1}
    cushion.certify(None, images(), **how)
    monkeypatch.undo()
    best.unlink(missing_ok=True)
    rewritten(under_way, lambda _, said: said.update(tries="0"))
    monkeypatch.setattr("cushion.certificates.search.integer.search.plans", lambda *_: [PLAN])
    damage(under_way)
    content = under_way.read_bytes()
    with pytest.raises(BadInput, match=r"b\.best\.try is no try that a search has under way"):
        cushion.certify(None, images(), **how)
    assert under_way.read_bytes() == content
