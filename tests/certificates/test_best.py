"""The best so far on disk: a certificate that verifies, taken up by the same search only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.certificates.test_integer_search import blobs
from tests.clock import Clock

import cushion
from cushion.certificates.format.container import pack, unpack
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.search.integer.blueprints import Plan
from cushion.certificates.search.integer.search import search
from cushion.certificates.search.integer.under_way import Course
from cushion.certificates.search.options import SearchOptions
from cushion.certificates.search.sample import Sample
from cushion.certificates.search.task import Place, Start, State, Task, constant_net
from cushion.cli import main
from cushion.data import Dataset
from cushion.errors import BadInput

_QUICK = {"minutes": 0.05}


def test_the_best_so_far_is_a_certificate_that_verifies(tmp_path: Path, clock: Clock) -> None:
    best, told = tmp_path / "b.best", []
    found = cushion.certify(None, blobs(), keep=best, tell=told.append, **_QUICK)
    assert told == []
    claim, _ = unpack(best.read_bytes())
    assert (claim.bound, claim.made_with["interrupted"]) == (found.claim.bound, True)
    assert cushion.verify(best, blobs()).ok


def test_the_same_search_goes_on_and_never_ends_worse(tmp_path: Path, clock: Clock) -> None:
    best, told = tmp_path / "b.best", []
    first = cushion.certify(None, blobs(), keep=best, **_QUICK)
    again = cushion.certify(None, blobs(), keep=best, tell=told.append, **_QUICK)
    assert "going on from" in told[0]
    assert again.bound <= first.bound


def test_the_try_under_way_begins_again_with_the_time_that_was_left(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    tried: list[tuple[int, float]] = []
    kept: list[Place] = []

    def instead(
        _: Plan, __: Sample, ___: Dataset, seconds: float, seed: int, ____: Course
    ) -> Iterator[State]:
        tried.append((seed, seconds))
        clock.sleep(0.4)
        yield State(None, 1.0)

    def judge(net: IntegerNet) -> Decimal:
        return Decimal(len(net.layers[0].source.numbers[0])) / 1000  # type: ignore[union-attr]

    monkeypatch.setattr("cushion.certificates.search.integer.search.attempt", instead)
    data = blobs()
    small = replace(data, x=data.x[:, :, :2])
    start = Start(constant_net(small), Place(5, 2.0))
    task = Task(data, judge, SearchOptions(3 / 60, seed=10), start=start)
    found = search(replace(task, keep=lambda _, place: kept.append(place)))
    assert found.net is start.net
    assert tried[0] == (15, pytest.approx(1.0, abs=0.1))
    assert [seed for seed, _ in tried] == [15, 16, 17]
    assert [place.tries for place in kept] == [5, 5, 6, 7]
    assert kept[2].seconds == pytest.approx(2.5, abs=0.1)


def test_other_data_or_options_begin_anew(tmp_path: Path, clock: Clock) -> None:
    best = tmp_path / "b.best"
    cushion.certify(None, blobs(), keep=best, **_QUICK)
    kept = best.read_bytes()
    teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    for model, data, more in (
        (None, blobs(seed=1), {}),
        (None, blobs(), {"seed": 1}),
        (None, blobs(), {"delta": "0.04"}),
        (None, blobs(), {"minutes": 0.04}),
        (teacher, blobs(), {}),
    ):
        best.write_bytes(kept)
        told: list[str] = []
        cushion.certify(model, data, keep=best, tell=told.append, **{**_QUICK, **more})
        assert "another search" in told[0]
        claim, _ = unpack(best.read_bytes())
        assert claim.data_fingerprint == data.fingerprint


@pytest.mark.parametrize("content", [b"my notes", b"\x89cushion1\nhalf"])
def test_a_file_that_no_search_wrote_is_not_written_over(tmp_path: Path, content: bytes) -> None:
    best = tmp_path / "b.best"
    best.write_bytes(content)
    with pytest.raises(BadInput, match=r"b\.best is no best so far"):
        cushion.certify(None, blobs(), keep=best, **_QUICK)
    assert best.read_bytes() == content


def test_a_best_that_cannot_be_kept_ends_no_search(tmp_path: Path, clock: Clock) -> None:
    told: list[str] = []
    found = cushion.certify(
        None, blobs(), keep=tmp_path / "gone" / "b.best", tell=told.append, **_QUICK
    )
    assert found.claim.made_with["trained"]
    assert [said.split(":")[0] for said in told] == ["the best so far is not kept"]


def test_steps_repeat_after_a_kill_too(tmp_path: Path) -> None:
    best = tmp_path / "b.best"
    options = {"method": "supermask", "steps": 60}
    found = cushion.certify(None, blobs(), **options)
    cushion.certify(None, blobs(), keep=best, **options)
    again = cushion.certify(None, blobs(), keep=best, **options)
    assert (again.claim.bound, again.message) == (found.claim.bound, found.message)


def test_a_killed_command_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "d.cushion"
    best = tmp_path / "d.cushion.best"
    argv = ["certify", "--data", "digits", "-o", str(out), "--minutes", "0.05"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    code = f"from cushion.cli import main; main({argv!r})"
    child = subprocess.Popen([sys.executable, "-c", code], **quiet)  # type: ignore[call-overload]
    until = time.monotonic() + 60
    while not best.exists() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not out.exists()
    so_far, _ = unpack(best.read_bytes())
    assert main([*argv, "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert f"cushion: note: going on from {best}" in printed.err
    assert float(json.loads(printed.out)["bound"]) <= float(so_far.bound)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_before_a_long_search_its_time_and_memory_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise BadInput("far enough")

    monkeypatch.setattr("cushion.certificates.certify.search", stop)
    argv = ["certify", "--data", "digits", "-o", str(tmp_path / "d.cushion")]
    assert main([*argv, "--minutes", "2"]) == 2
    said = "about 2 minutes and 0.7 GB of memory; --minutes sets another time"
    assert said in capsys.readouterr().err
    assert main([*argv, "--kind", "occam"]) == 2
    assert "minute" not in capsys.readouterr().err


@pytest.mark.parametrize("x", [np.zeros((6, 5), np.int64), np.zeros(6, [("ids", np.int64, (4,))])])
def test_what_no_integer_net_reads_is_refused_with_what_to_do(x: np.ndarray) -> None:
    data = blobs()
    object.__setattr__(data, "x", x)  # whatever else a Dataset may hold
    with pytest.raises(BadInput, match="integer nets do not read yet; certify features"):
        cushion.certify(None, data)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": -1e9},
        {"seconds": 1e8},
        {"seconds": "3"},
        {"tries": -5},
        {"tries": 10**30},
        {"tries": 1.5},
        {"tries": True},
    ],
    ids=str,
)
def test_a_place_that_no_search_reaches_is_damage(
    tmp_path: Path, clock: Clock, wrong: dict[str, Any]
) -> None:
    """The file is whole and sealed; only its notes are strange."""
    best = tmp_path / "b.best"
    cushion.certify(None, blobs(), keep=best, **_QUICK)
    claim, message = unpack(best.read_bytes())
    best.write_bytes(pack(replace(claim, made_with=claim.made_with | wrong), message))
    with pytest.raises(BadInput, match=r"b\.best is no best so far of a search, or was damaged"):
        cushion.certify(None, blobs(), keep=best, **_QUICK)


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_one_example_gives_the_constant_net(kind: type) -> None:
    x, y = np.ones((1, 5), kind), np.zeros(1, np.int64)
    made = cushion.certify(None, (x, y), minutes=0.05)
    assert made.claim.errors == 0
    assert Decimal("0.9") < made.bound <= 1
