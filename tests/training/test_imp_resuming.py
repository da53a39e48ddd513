"""A pruning run that was killed goes on to the same bits; a folder of another run is refused by
what differs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.training_cases import RECIPE, assert_same_weights, make_data, refusal

from cushion.errors import BadInput
from cushion.training.imp import train_imp
from cushion.training.recipes import Recipe
from cushion.training.training import train

MLP = replace(RECIPE, spec="1x6x6: flatten fc7 relu fc3", augment=False)
SCRIPT = """
import sys, time
import torch
torch.set_num_threads(1)
from tests.training_cases import RECIPE, make_data
from cushion.training import training
from cushion.training.imp import train_imp

count_errors = training.count_errors
def slowly(scores, y):
    time.sleep(0.03)
    return count_errors(scores, y)
training.count_errors = slowly
train_imp(RECIPE, make_data(), sys.argv[1], seed=4, epochs=3, rewind=1, rounds=3, progress=False)
"""


def imp(folder: Path, recipe: Recipe = MLP, **change: Any) -> str:
    options: dict[str, Any] = {"rounds": 2, "rewind": 1, "epochs": 2, "progress": False} | change
    return train_imp(recipe, options.pop("data", make_data(30)), folder, **options).status


def refused(folder: Path, **change: Any) -> str:
    with pytest.raises(BadInput) as caught:
        imp(folder, **change)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def assert_same_runs(a: Path, b: Path) -> None:
    names = sorted(str(path.relative_to(a)) for path in a.rglob("*"))
    assert names == sorted(str(path.relative_to(b)) for path in b.rglob("*"))
    for folder in sorted(a.glob("level-*")):
        for name in ("init", "mask", "checkpoint", "net"):
            assert_same_weights(folder, b / folder.name, f"{name}.safetensors")


def test_kill_9_in_the_middle_of_a_level(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(root)]))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed")]
    killed = subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": paths})
    second = tmp_path / "killed" / "level-02"
    deadline = time.monotonic() + 120
    while not (second / "checkpoint.safetensors").exists():
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.01)
    time.sleep(0.05)  # into the middle of the next epoch
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (second / "net.safetensors").exists()
    options: dict[str, Any] = {"seed": 4, "epochs": 3, "rewind": 1, "rounds": 3, "progress": False}
    assert train_imp(RECIPE, make_data(), tmp_path / "killed", **options).status == "resumed"
    assert train_imp(RECIPE, make_data(), tmp_path / "whole", **options).status == "trained"
    assert_same_runs(tmp_path / "whole", tmp_path / "killed")


def test_a_kill_at_any_write_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert imp(tmp_path / "whole") == "trained"
    real = os.replace
    fatal, done = 0, False
    while not done:
        calls = 0

        def dying(source: Any, target: Any, fatal: int = fatal) -> None:
            nonlocal calls
            calls += 1
            if calls > fatal:
                raise KeyboardInterrupt
            real(source, target)

        out = tmp_path / f"killed{fatal}"
        monkeypatch.setattr(os, "replace", dying)
        try:
            imp(out)
            done = True
        except KeyboardInterrupt:
            monkeypatch.setattr(os, "replace", real)
            assert imp(out) == ("resumed" if fatal else "trained")
            assert_same_runs(tmp_path / "whole", out)
        fatal += 1
    # imp.json; run.json, init, two epochs (the first with its rewind file), net, mask; twice the
    # same with one epoch.
    assert fatal - 1 == 1 + (2 + 2 * 2 + 1 + 2) + 2 * (2 + 2 + 2)


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    imp(tmp_path)
    before = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert imp(tmp_path) == "already done"
    after = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert before == after


def test_other_options_are_refused_by_name(tmp_path: Path) -> None:
    imp(tmp_path)
    assert "prune fraction 0.2, but now prune fraction is 0.3" in refused(tmp_path, fraction=0.3)
    assert "prune rewind 1, but now prune rewind is 0" in refused(tmp_path, rewind=0)
    assert "prune scope layer, but now prune scope is global" in refused(tmp_path, scope="global")
    assert "seed 0, but now seed is 1" in refused(tmp_path, seed=1)
    assert "recipe epochs 2, but now recipe epochs is 3" in refused(tmp_path, epochs=3)
    assert "data fingerprint" in refused(tmp_path, data=make_data(31))


def test_plain_runs_and_pruning_runs_do_not_mix(tmp_path: Path) -> None:
    imp(tmp_path / "imp", rewind=0)
    train(MLP, make_data(30), tmp_path / "plain", epochs=2, progress=False)
    data = make_data(30)
    assert "holds a run with `prune` = imp" in refusal(MLP, data, tmp_path / "imp", epochs=2)
    assert "holds a run without `prune` = imp" in refused(tmp_path / "plain")
    # A level that is not finished must not be finished without its mask.
    level = tmp_path / "imp" / "level-01"
    (level / "net.safetensors").unlink()
    assert "but now prune is None" in refusal(MLP, data, level, epochs=2)


def test_a_lost_rewind_file_is_named(tmp_path: Path) -> None:
    imp(tmp_path)
    whole = {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    (tmp_path / "level-00/rewind.safetensors").unlink()
    (tmp_path / "level-02/net.safetensors").unlink()
    assert "rewind.safetensors is missing; delete" in refused(tmp_path)
    for path in (tmp_path / "level-00").iterdir():
        path.unlink()
    assert imp(tmp_path) == "resumed"
    for path, content in whole.items():
        if path.name in ("net.safetensors", "mask.safetensors", "init.safetensors"):
            assert path.read_bytes() == content


def test_a_finished_run_goes_deeper_and_no_level_is_made_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "progress": False}
    train_imp(RECIPE, make_data(), tmp_path / "a", rounds=1, **options)
    first = {path.name: path.read_bytes() for path in (tmp_path / "a" / "level-01").iterdir()}
    deeper = train_imp(RECIPE, make_data(), tmp_path / "a", rounds=2, **options)
    assert (deeper.status, len(deeper.levels)) == ("resumed", 3)
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "a" / "level-01").iterdir()
    } == first
    at_once = train_imp(RECIPE, make_data(), tmp_path / "b", rounds=2, **options)
    assert [level.train_error for level in at_once.levels] == [
        level.train_error for level in deeper.levels
    ]
    last = [(tmp_path / one / "level-02" / "net.safetensors").read_bytes() for one in "ab"]
    assert last[0] == last[1]
    # Asked for fewer, it answers with those that were asked for.
    fewer = train_imp(RECIPE, make_data(), tmp_path / "a", rounds=1, **options)
    assert (fewer.status, len(fewer.levels)) == ("already done", 2)
