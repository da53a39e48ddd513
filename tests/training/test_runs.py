"""The RUN folder: resumed after kill -9 bit for bit, and refused with a sentence when it is damaged
or not ours.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training_cases import RECIPE, assert_same_weights, make_data, refusal

from cushion.errors import BadInput, Malformed
from cushion.nets.loading.weights import load_net, read_tensors, save_tensors
from cushion.training.training import train

SCRIPT = """
import sys, time
import torch
torch.set_num_threads(1)
from tests.training_cases import RECIPE, make_data
from cushion.training import training

count_errors = training.count_errors
def slowly(scores, y):
    time.sleep(0.05)
    return count_errors(scores, y)
training.count_errors = slowly
training.train(RECIPE, make_data(), sys.argv[1], seed=4, epochs=5, progress=False)
"""


def test_kill_9_and_resume_gives_the_uninterrupted_weights_bit_for_bit(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed")]
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(root)]))
    killed = subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": paths})
    history = tmp_path / "killed" / "history.jsonl"
    deadline = time.monotonic() + 120
    while not (history.exists() and history.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.02)
    time.sleep(0.12)  # into the middle of the next epoch
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "net.safetensors").exists()
    with pytest.raises(BadInput, match="is an unfinished run"):
        load_net(tmp_path / "killed")
    with history.open("a") as file:  # as if killed between two files
        file.write('{"epoch": 9')
    assert train(RECIPE, make_data(), tmp_path / "killed", seed=4, epochs=5).status == "resumed"
    assert train(RECIPE, make_data(), tmp_path / "whole", seed=4, epochs=5).status == "trained"
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    assert_same_weights(tmp_path / "whole", tmp_path / "killed", "checkpoint.safetensors")
    assert learning(tmp_path / "whole") == learning(tmp_path / "killed")


def learning(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_a_kill_at_any_write_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data()
    recipe = replace(RECIPE, optimiser="sgd", momentum=0.9)
    train(recipe, data, tmp_path / "whole", epochs=3)
    real = os.replace
    for fatal in range(
        8
    ):  # run.json, init, then checkpoint and history three times; the net is the ninth
        calls = 0

        def dying(source: Any, target: Any, fatal: int = fatal) -> None:
            nonlocal calls
            calls += 1
            if calls > fatal:
                raise KeyboardInterrupt
            real(source, target)

        out = tmp_path / f"killed{fatal}"
        monkeypatch.setattr(os, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, data, out, epochs=3)
        monkeypatch.setattr(os, "replace", real)
        train(recipe, data, out, epochs=3)
        assert_same_weights(tmp_path / "whole", out)
        assert_same_weights(tmp_path / "whole", out, "init.safetensors")
        assert sorted(p.name for p in out.iterdir()) == sorted(
            p.name for p in (tmp_path / "whole").iterdir()
        )


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    data = make_data()
    first = train(RECIPE, data, tmp_path, epochs=2)
    before = {
        path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()
    }
    again = train(RECIPE, data, tmp_path, epochs=2)
    assert again.status == "already done"
    assert again.metrics == first.metrics
    assert {
        path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()
    } == before


def test_other_options_in_the_same_folder_are_refused_by_name(tmp_path: Path) -> None:
    data = make_data()
    train(RECIPE, data, tmp_path, epochs=2)
    assert "recipe epochs 2, but now recipe epochs is 3" in refusal(
        RECIPE, data, tmp_path, epochs=3
    )
    assert "seed 0, but now seed is 1" in refusal(RECIPE, data, tmp_path, epochs=2, seed=1)
    assert "width 1.0, but now width is 0.5" in refusal(RECIPE, data, tmp_path, epochs=2, width=0.5)
    assert "recipe rich, but now recipe is small" in refusal("small", data, tmp_path)
    assert "data fingerprint" in refusal(RECIPE, make_data(seed=9), tmp_path, epochs=2)
    assert "test fingerprint None" in refusal(
        RECIPE, data, tmp_path, epochs=2, test=make_data(seed=9)
    )
    assert "recipe lr 0.01" in refusal(replace(RECIPE, lr=0.5), data, tmp_path, epochs=2)


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    data = make_data()
    (tmp_path / "file").write_text("")
    assert "cannot be used as a run's folder" in refusal(RECIPE, data, tmp_path / "file")
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "net.safetensors").write_bytes(b"")
    assert "holds weights but no run.json" in refusal(RECIPE, data, weights)
    (weights / "run.json").write_text("{")
    with pytest.raises(Malformed, match=r"run\.json is damaged"):
        train(RECIPE, data, weights)
    (weights / "run.json").write_text('{"format": "other"}')
    assert "has format 'other'" in refusal(RECIPE, data, weights)


def test_a_damaged_checkpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data()
    train(RECIPE, data, tmp_path, epochs=2)
    (tmp_path / "net.safetensors").unlink()
    content = (tmp_path / "checkpoint.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(content[:-50])
    with pytest.raises(
        Malformed,
        match=r"checkpoint\.safetensors is not a complete safetensors file; delete it to start "
        r"the run again$",
    ):
        train(RECIPE, data, tmp_path, epochs=2)
    (tmp_path / "checkpoint.safetensors").write_bytes((tmp_path / "init.safetensors").read_bytes())
    with pytest.raises(
        Malformed, match=r"checkpoint\.safetensors is damaged .*; delete it to start the run again$"
    ):
        train(RECIPE, data, tmp_path, epochs=2)
    (tmp_path / "checkpoint.safetensors").unlink()
    assert train(RECIPE, data, tmp_path, epochs=2).status == "trained"


DEEP = "[" * 100_000
NO_EPOCHS, NO_STATE = (
    "its history is not a list of epochs",
    "the optimiser's state of fc2.weight is missing or misshapen",
)


@pytest.mark.parametrize(
    ("metadata", "tensors", "sentence"),
    [
        ({"history": "{}"}, {}, NO_EPOCHS),
        ({"history": "5"}, {}, NO_EPOCHS),
        ({"history": "[]"}, {}, NO_EPOCHS),
        ({"history": "[1, 2]"}, {}, NO_EPOCHS),
        ({"history": '[{"epoch": [1]}]'}, {}, NO_EPOCHS),
        ({"history": '[{"epoch": 2}]'}, {}, "the epochs of its history are not numbered 1, 2, 3"),
        ({"history": '[{"epoch": 1.0}]'}, {}, "the epochs of its history are not numbered 1, 2, 3"),
        ({"history": "[{}]"}, {}, "the epochs of its history are not numbered 1, 2, 3"),
        ({"history": DEEP}, {}, "its history cannot be read"),
        ({"history": None}, {}, "its history cannot be read"),
        ({"stopped": None}, {}, "its history cannot be read"),
        ({"stopped": '"no"'}, {}, "it does not say whether training stopped"),
        ({"stopped": "1"}, {}, "it does not say whether training stopped"),
        ({"format": None}, {}, "its format is not cushion-checkpoint-1"),
        ({}, {"optimiser.fc2.weight.exp_avg": torch.zeros(2, 2)}, NO_STATE),
        ({}, {"optimiser.fc2.weight.exp_avg": torch.zeros(3, 12, dtype=torch.int64)}, NO_STATE),
        ({}, {"optimiser.fc2.weight.step": torch.zeros(7)}, NO_STATE),
        ({}, {"optimiser.fc2.weight.exp_avg_sq": None}, NO_STATE),
        ({}, {"optimiser.fc2.weight.other": torch.zeros(3, 12)}, NO_STATE),
        (
            {},
            {"optimiser.fc9.weight.exp_avg": torch.zeros(3, 12)},
            "it holds tensors that are not of this net",
        ),
        ({}, {"model.fc2.weight": torch.zeros(2, 2)}, "state_dict"),
        ({}, {"model.fc2.weight": None}, "state_dict"),
    ],
)
def test_a_hostile_checkpoint_is_refused(
    tmp_path: Path,
    metadata: dict[str, str | None],
    tensors: dict[str, torch.Tensor | None],
    sentence: str,
) -> None:
    data = make_data(20)
    train(RECIPE, data, tmp_path, epochs=1)
    (tmp_path / "net.safetensors").unlink()
    path = tmp_path / "checkpoint.safetensors"
    held, said = read_tensors(path)
    save_tensors(
        path,
        {name: tensor for name, tensor in {**held, **tensors}.items() if tensor is not None},
        {key: value for key, value in {**said, **metadata}.items() if value is not None},
    )
    with pytest.raises(Malformed) as caught:
        train(RECIPE, data, tmp_path, epochs=1)
    assert sentence in str(caught.value)
    assert str(caught.value).endswith("; delete it to start the run again")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("momentum", "entries"), [(0.9, 4), (0.0, 0)])
def test_sgd_resumes_with_exactly_its_own_state(
    tmp_path: Path, momentum: float, entries: int
) -> None:
    data = make_data(20)
    spec = "1x6x6: flatten fc9 relu fc3"
    recipe = replace(RECIPE, optimiser="sgd", momentum=momentum, spec=spec)
    train(recipe, data, tmp_path, epochs=1)
    (tmp_path / "net.safetensors").unlink()
    path = tmp_path / "checkpoint.safetensors"
    held, said = read_tensors(path)
    assert sum(name.startswith("optimiser.") for name in held) == entries
    assert train(recipe, data, tmp_path, epochs=1).status == "resumed"
    (tmp_path / "net.safetensors").unlink()
    other = {name: tensor for name, tensor in held.items() if name.startswith("model.")}
    if not entries:
        other |= {"optimiser.fc1.weight.momentum_buffer": torch.zeros(9, 36)}
    save_tensors(path, other, said)
    with pytest.raises(
        Malformed, match=r"the optimiser's state of fc1\.weight is missing or misshapen"
    ):
        train(recipe, data, tmp_path, epochs=1)


@pytest.mark.parametrize(
    "metrics",
    [
        None,
        "[]",
        "5",
        "{}",
        '{"train_error": 0.5}',
        '{"epochs": "2"}',
        '{"epochs": 1, "train_loss": [1]}',
    ],
)
def test_a_finished_run_without_metrics_is_refused(tmp_path: Path, metrics: str | None) -> None:
    data = make_data(20)
    train(RECIPE, data, tmp_path, epochs=1)
    path = tmp_path / "net.safetensors"
    held, said = read_tensors(path)
    del said["metrics"]
    save_tensors(path, held, said if metrics is None else {**said, "metrics": metrics})
    with pytest.raises(
        Malformed, match=r"holds no metrics of a run; delete it to finish the run again$"
    ):
        train(RECIPE, data, tmp_path, epochs=1)
    path.unlink()
    assert train(RECIPE, data, tmp_path, epochs=1).status == "resumed"


@pytest.mark.parametrize(
    "changes",
    [{"recipe": 5}, {"recipe": None}, {"data": []}, {"data": "mnist"}, {"test": 5}, {"format": 5}],
)
def test_a_hostile_run_json_is_damaged(tmp_path: Path, changes: dict[str, Any]) -> None:
    data = make_data(20)
    train(RECIPE, data, tmp_path, epochs=1)
    path = tmp_path / "run.json"
    plan = json.loads(path.read_text())
    for content in (json.dumps({**plan, **changes}), DEEP, "[]", '"format"', "{}"):
        path.write_text(content)
        with pytest.raises(Malformed, match=r"run\.json is damaged; choose another folder$"):
            train(RECIPE, data, tmp_path, epochs=1)


def test_a_value_in_run_json_cannot_make_the_sentence_long(tmp_path: Path) -> None:
    data = make_data(20)
    train(RECIPE, data, tmp_path, epochs=1)
    path = tmp_path / "run.json"
    plan = json.loads(path.read_text())
    for value in ("a\n" * 100_000, json.loads("[" * 900 + "]" * 900), list(range(100_000))):
        path.write_text(json.dumps({**plan, "seed": value}))
        assert len(refusal(RECIPE, data, tmp_path, epochs=1)) < 2000
    path.unlink()
    path.mkdir()
    assert "run.json is a folder and not a file; choose another folder" in refusal(
        RECIPE, data, tmp_path
    )


def test_two_trainings_do_not_share_a_folder(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert "is in use by another training" in refusal(RECIPE, make_data(), tmp_path)
    os.close(handle)
    assert train(RECIPE, make_data(), tmp_path, epochs=1).status == "trained"
