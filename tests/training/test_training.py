"""Training: equal to a naive loop, resumable after kill -9 bit for bit, and honest about what it
did.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.training_cases import RECIPE, RICH, assert_same_weights, make_data, refusal, tensors_of

from cushion.data.dataset import Dataset
from cushion.data.samples import randomize_labels, shuffle_labels
from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.batches import as_floats, mix_seed
from cushion.nets.loading.weights import load_net
from cushion.nets.specs import parse
from cushion.training.epochs import (
    batch_bounds,
    count_errors,
    crop_and_mirror,
    draw_views,
    evaluate,
)
from cushion.training.recipes import RECIPES, Recipe
from cushion.training.training import train


def test_a_run_learns_and_leaves_its_files(tmp_path: Path) -> None:
    data, test = make_data(), make_data(60, seed=1)
    state = torch.random.get_rng_state()
    result = train(
        replace(RECIPE, augment=False), data, tmp_path / "run", test=test, seed=3, epochs=6
    )
    assert torch.equal(state, torch.random.get_rng_state())
    run = tmp_path / "run"
    names = [
        "checkpoint.safetensors",
        "history.jsonl",
        "init.safetensors",
        "net.safetensors",
        "run.json",
    ]
    assert sorted(path.name for path in run.iterdir()) == names
    assert (result.status, result.epochs, result.recipe) == ("trained", 6, "rich")
    net = load_net(run)
    assert net.init is not None
    start = models.build(RICH, 3).state_dict()
    assert all(torch.equal(tensor, start[name]) for name, tensor in net.init.state_dict().items())
    for part, name in ((data, "train"), (test, "test")):
        scores = net.module(torch.from_numpy(part.x).float() / 255)
        y = torch.from_numpy(part.y)
        top = scores.topk(2, dim=1)
        wrong = int(((top.indices[:, 0] != y) | (top.values[:, 0] == top.values[:, 1])).sum())
        assert result.metrics[f"{name}_error"] == wrong / len(part)
        assert result.metrics[f"{name}_loss"] == pytest.approx(
            float(F.cross_entropy(scores.detach(), y)), rel=1e-5
        )
    assert result.metrics["train_error"] < 0.1
    assert net.meta["metrics"] == result.metrics
    assert (net.meta["recipe"], net.meta["seed"], net.meta["data_fingerprint"]) == (
        "rich",
        3,
        data.fingerprint,
    )
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in history] == [1, 2, 3, 4, 5, 6]
    assert set(history[0]) == {"epoch", "train_loss", "train_error", "lr", "seconds"}
    assert history[-1]["train_loss"] < history[0]["train_loss"]
    plan = json.loads((run / "run.json").read_text())
    assert plan["data"]["fingerprint"] == data.fingerprint
    assert plan["test"]["fingerprint"] == test.fingerprint
    assert (plan["spec"], plan["seed"], plan["width"]) == (str(parse(RICH)), 3, 1.0)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_training_equals_a_naive_loop(tmp_path: Path, optimiser: str) -> None:
    data = make_data(50)
    recipe = Recipe(
        "plain",
        "test",
        "",
        "1x6x6: flatten fc9 relu fc3",
        "",
        optimiser,
        0.05,  # type: ignore[arg-type]
        batch=7,
        epochs=5,
        momentum=0.9,
        weight_decay=1e-2,
        lr_halve_every=2,
    )
    train(recipe, data, tmp_path, seed=2)
    net = models.build(recipe.spec, 2)
    naive = (
        torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2, foreach=False)
        if optimiser == "sgd"
        else torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=1e-2, foreach=False)
    )
    x, y = torch.from_numpy(data.x).float() / 255, torch.from_numpy(data.y)
    losses = []
    for epoch in range(5):
        naive.param_groups[0]["lr"] = [0.05, 0.05, 0.025, 0.025, 0.0125][epoch]
        order = torch.randperm(
            50, generator=torch.Generator().manual_seed(mix_seed(2, epoch, "order"))
        )
        total = 0.0
        for rows in [
            order[:7],
            order[7:14],
            order[14:21],
            order[21:28],
            order[28:35],
            order[35:42],
            order[42:],
        ]:
            naive.zero_grad()
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            naive.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / 50)
    for name, tensor in tensors_of(tmp_path).items():
        assert torch.allclose(tensor, net.state_dict()[name], atol=2e-5), name
    history = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [line["train_loss"] for line in history] == pytest.approx(losses, rel=1e-4)
    assert [line["lr"] for line in history] == [0.05, 0.05, 0.025, 0.025, 0.0125]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path: Path) -> None:
    data = make_data()
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(len(folder) + seed * 100)  # the caller's state must not matter
        train(RECIPE, data, tmp_path / folder, seed=seed, epochs=2)
    assert_same_weights(tmp_path / "a", tmp_path / "b")
    assert not torch.equal(
        tensors_of(tmp_path / "a")["fc2.weight"], tensors_of(tmp_path / "c")["fc2.weight"]
    )


def test_a_shorter_run_can_halve_its_learning_rate_sooner(tmp_path: Path) -> None:
    train(RECIPE, make_data(), tmp_path, epochs=5, lr_halve_every=2)
    history = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [line["lr"] / RECIPE.lr for line in history] == [1, 1, 0.5, 0.5, 0.25]
    assert json.loads((tmp_path / "run.json").read_text())["recipe"]["lr_halve_every"] == 2


def test_snapshots_are_the_nets_of_shorter_runs(tmp_path: Path) -> None:
    data = make_data()
    train(RECIPE, data, tmp_path / "long", snapshots=(3, 1, 3), progress=False)
    assert sorted(path.name for path in (tmp_path / "long").glob("epoch-*")) == [
        "epoch-0001.safetensors",
        "epoch-0003.safetensors",
    ]
    train(RECIPE, data, tmp_path / "short", epochs=3, progress=False)
    first, second = (
        tensors_of(tmp_path / "long", "epoch-0003.safetensors"),
        tensors_of(tmp_path / "short"),
    )
    assert all(torch.equal(tensor, second[key]) for key, tensor in first.items())
    net = load_net(tmp_path / "long" / "epoch-0003.safetensors")
    assert net.meta["metrics"] == {"epochs": 3}
    assert net.init is not None, "distances from initialisation can be measured on a snapshot"
    with pytest.raises(BadInput, match="snapshots"):
        train(RECIPE, data, tmp_path / "long", progress=False)
    with pytest.raises(BadInput, match="`snapshots` must be whole numbers of at least 1, not 0"):
        train(RECIPE, data, tmp_path / "none", snapshots=(0,), progress=False)
    assert not (tmp_path / "none").exists()


def test_divergence_stops_with_a_sentence_and_keeps_the_last_good_checkpoint(
    tmp_path: Path,
) -> None:
    data = make_data()
    recipe = replace(
        RECIPE, optimiser="sgd", spec="1x6x6: flatten fc9 relu fc3", lr=1e30, augment=False
    )
    assert "diverged in epoch 1 (the loss is not finite); lower the learning rate 1e+30" in refusal(
        recipe, data, tmp_path
    )
    assert not (tmp_path / "checkpoint.safetensors").exists()
    assert not (tmp_path / "net.safetensors").exists()


def test_weights_that_overflow_in_the_last_step_are_noticed(tmp_path: Path) -> None:
    # One batch an epoch: its loss is finite, but the step after it is not.
    data = make_data(16)
    recipe = replace(
        RECIPE, optimiser="sgd", spec="1x6x6: flatten fc9 relu fc3", lr=3e39, augment=False
    )
    assert "diverged in epoch 1" in refusal(recipe, data, tmp_path)


def test_training_ends_at_the_loss_the_recipe_asks_for(tmp_path: Path) -> None:
    data = make_data(60)
    recipe = Recipe(
        "stop",
        "test",
        "",
        "1x6x6: flatten drop0.5 fc16 relu fc3",
        "",
        "adam",
        1e-2,
        8,
        200,
        stop_loss=0.05,
    )
    result = train(recipe, data, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert result.epochs == len(lines) < 200
    assert [line["eval_loss"] < 0.05 for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["eval_loss"] == pytest.approx(result.metrics["train_loss"], rel=1e-6)
    (
        tmp_path / "net.safetensors"
    ).unlink()  # killed after the last checkpoint: it does not train on
    assert train(recipe, data, tmp_path).epochs == len(lines)


@pytest.mark.parametrize("labels", ["shuffled", "random"])
def test_label_options_are_recorded(tmp_path: Path, labels: str) -> None:
    data = make_data(300)
    train(replace(RECIPE, labels=labels), data, tmp_path, seed=6, epochs=1)  # type: ignore[arg-type]
    expected = shuffle_labels(data, 6) if labels == "shuffled" else randomize_labels(data, 1.0, 6)
    plan = json.loads((tmp_path / "run.json").read_text())
    assert plan["data"]["history"] == list(expected.history)
    assert plan["data"]["fingerprint"] == expected.fingerprint != data.fingerprint
    net = load_net(tmp_path)
    assert net.meta["data_fingerprint"] == expected.fingerprint
    assert net.meta["data_history"] == list(expected.history)
    assert net.meta["metrics"]["train_errors"] == evaluate(net.module, expected)[1]


def test_a_named_recipe_adapts_and_scales(tmp_path: Path) -> None:
    result = train("neyshabur-mlp-64", make_data(), tmp_path, width=0.25, epochs=1)
    assert result.spec == "1x6x6: flatten fc16 relu fc3"
    assert result.to_json()["status"] == "trained"


def test_float_data_and_read_only_memory_maps_train(tmp_path: Path) -> None:
    data = make_data()
    np.save(tmp_path / "x.npy", data.x)
    mapped = replace(data, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    floats = replace(data, x=as_floats(data.x).numpy())
    for name, part in (("bytes", data), ("mapped", mapped), ("floats", floats)):
        train(RECIPE, part, tmp_path / name, epochs=1)
    assert_same_weights(tmp_path / "bytes", tmp_path / "mapped")
    assert_same_weights(tmp_path / "bytes", tmp_path / "floats")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"device": "tpu9"}, "device 'tpu9' is not known; use cpu, cuda"),
        ({"device": "meta"}, "device 'meta' is not supported; use cpu, cuda"),
        ({"width": 0.0}, "`width` must be a number above 0, not 0"),
        ({"epochs": 0}, "`epochs` must be a whole number of at least 1, not 0"),
        ({"data": make_data(1)}, "blobs has a single example"),
        (
            {"test": make_data(shape=(1, 3, 12))},
            "the test set blobs is 1x3x12 with 3 classes, but blobs is 1x6x6",
        ),
        (
            {"data": make_data(shape=(36,)), "recipe": replace(RECIPE, spec="36: fc3")},
            "crops and mirrors images",
        ),
        ({"recipe": "nonsense"}, "recipe 'nonsense' is not known"),
        ({"recipe": "1x8x8: flatten fc3"}, "the spec reads 1x8x8"),
    ],
)
def test_bad_options_leave_nothing_behind(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    options: dict[str, Any] = {
        "recipe": RECIPE,
        "data": make_data(),
        "out": tmp_path / "run",
    } | change
    assert sentence in refusal(**options)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_missing_gpu_is_a_sentence(tmp_path: Path) -> None:
    assert "device 'cuda' is not available on this machine" in refusal(
        RECIPE, make_data(), tmp_path / "run", device="cuda"
    )


def test_ties_and_nan_count_as_errors() -> None:
    nan = float("nan")
    scores = torch.tensor(
        [[2.0, 1, 0], [1, 1, 0], [0, 1, 2], [nan, nan, nan], [nan, 3, 1], [0, 0, 0]]
    )
    y = torch.tensor([0, 0, 2, 0, 1, 1])
    assert [int(count_errors(scores[i : i + 1], y[i : i + 1])) for i in range(6)] == [
        0,
        1,
        0,
        1,
        0,
        1,
    ]
    assert int(count_errors(scores, y)) == 3


def test_evaluation_restores_the_modes_and_covers_every_row() -> None:
    data = make_data(2500)
    net = models.build(RICH)
    net.get_submodule("drop1").eval()
    loss, errors = evaluate(net, data)
    assert net.training
    assert not net.get_submodule("drop1").training
    net.eval()
    scores = net(torch.from_numpy(data.x).float() / 255)
    assert errors == int((scores.argmax(1) != torch.from_numpy(data.y)).sum())
    assert loss == pytest.approx(
        float(F.cross_entropy(scores.detach(), torch.from_numpy(data.y))), rel=1e-5
    )


def test_batches_cover_the_sample_and_none_is_a_single_example() -> None:
    assert batch_bounds(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert batch_bounds(9, 4) == [(0, 4), (4, 9)]
    assert batch_bounds(3, 1) == [(0, 1), (1, 2), (2, 3)]
    assert batch_bounds(3, 10) == [(0, 3)]


def test_crops_equal_the_naive_ones() -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (40, 3, 7, 5), dtype=np.uint8)
    views = draw_views(40, torch.Generator().manual_seed(1))
    fast = crop_and_mirror(x, views)
    assert fast.dtype == np.uint8
    for image, (top, left, mirrored), result in zip(x, views, fast, strict=True):
        padded = np.zeros((3, 15, 13), np.uint8)
        padded[:, 4:11, 4:9] = image
        crop = padded[:, top : top + 7, left : left + 5]
        assert np.array_equal(result, crop[:, :, ::-1] if mirrored else crop)
    assert set(np.unique(views[:, :2])) == set(range(9))
    assert 5 < views[:, 2].sum() < 35


def test_batches_become_floats_in_torch_s_own_memory() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert torch.equal(as_floats(x), torch.arange(6).reshape(2, 3) / 255)
    floats = x.astype(np.float32)
    batch = as_floats(floats)
    batch += 1
    assert floats[0, 0] == 0


def test_the_small_recipe_learns_digits(tmp_path: Path) -> None:
    from cushion.data import load_pair

    sample, held_out = load_pair("digits")
    result = train("small", sample, tmp_path, test=held_out, progress=False)
    assert result.metrics["test_error"] < 0.05


@pytest.mark.parametrize(
    "name", ["arora-vgg19", "neyshabur-vgg", "shin-resnet20", "shin-densenet", "arora-alexnet"]
)
def test_the_papers_nets_train_when_narrow(tmp_path: Path, name: str) -> None:
    random = np.random.default_rng(0)
    data = Dataset(
        "noise",
        random.integers(0, 256, (6, 3, 32, 32), dtype=np.uint8),
        random.integers(0, 10, 6),
        10,
    )
    recipe = replace(RECIPES[name], stop_loss=None)
    result = train(recipe, data, tmp_path, width=1 / 16, epochs=1)
    assert np.isfinite(result.metrics["train_loss"])
