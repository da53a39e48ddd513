"""Iterative magnitude pruning: equal to a naive loop, exact counts, masks that hold, folders that
every verb takes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.training_cases import RECIPE, RICH, make_data, tensors_of

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.batches import as_floats, mix_seed
from cushion.nets.loading.weights import load_net
from cushion.training.epochs import batch_bounds, crop_and_mirror, draw_views
from cushion.training.imp import ImpResult, count_rounds, grouped, prune, train_imp
from cushion.training.recipes import Recipe
from cushion.training.training import train

SGD = replace(RECIPE, name="sgd", optimiser="sgd", lr=0.05, momentum=0.9, weight_decay=0.01)
ADAM = replace(RECIPE, weight_decay=0.01)
PRUNED = ("conv1.weight", "fc1.weight", "fc2.weight")
SIZES = {"conv1.weight": 36, "fc1.weight": 144 * 12, "fc2.weight": 36}


def naive(
    recipe: Recipe, data: Dataset, rounds: int, rewind: int, scope: str, seed: int
) -> list[dict[str, Any]]:
    """Every level's final state, from loops that a textbook would write: multiply by the mask after
    every step.
    """
    levels: list[dict[str, Any]] = []
    masks = {name: torch.ones_like(models.build(RICH).get_parameter(name)) for name in PRUNED}
    kept_state: Any = None
    for level in range(rounds + 1):
        net = models.build(RICH, seed)
        adam = recipe.optimiser == "adam"
        settings = {"lr": recipe.lr, "weight_decay": recipe.weight_decay, "fused": True} | (
            {} if adam else {"momentum": recipe.momentum}
        )
        optimiser = (torch.optim.Adam if adam else torch.optim.SGD)(net.parameters(), **settings)  # type: ignore[operator]
        first = 0
        if level and rewind:
            weights, memory = kept_state
            net.load_state_dict(weights)
            optimiser.load_state_dict(copied(memory))  # it would go on with these very tensors
            first = rewind
        with torch.no_grad():
            for name, mask in masks.items():
                net.get_parameter(name).mul_(mask)
        for epoch in range(first, recipe.epochs):
            torch.manual_seed(mix_seed(seed, epoch, "dropout"))
            generator = torch.Generator().manual_seed(mix_seed(seed, epoch, "order"))
            order = torch.randperm(len(data), generator=generator).numpy()
            views = draw_views(len(data), generator)
            net.train()
            for start, stop in batch_bounds(len(data), recipe.batch):
                rows = order[start:stop]
                scores = net(as_floats(crop_and_mirror(data.x[rows], views[rows])))
                optimiser.zero_grad()
                F.cross_entropy(scores, torch.from_numpy(data.y[rows])).backward()
                optimiser.step()
                with torch.no_grad():
                    for name, mask in masks.items():
                        net.get_parameter(name).mul_(mask)
            if level == 0 and epoch + 1 == rewind:
                copies = {name: tensor.clone() for name, tensor in net.state_dict().items()}
                kept_state = copies, copied(optimiser.state_dict())
        levels.append(
            {"state": {k: v.clone() for k, v in net.state_dict().items()}, "masks": dict(masks)}
        )
        masks = naive_prune(
            {name: net.get_parameter(name).detach() for name in PRUNED}, masks, scope
        )
    return levels


def copied(state: dict[str, Any]) -> dict[str, Any]:
    memory = {
        at: {k: v.clone() if torch.is_tensor(v) else v for k, v in entry.items()}
        for at, entry in state["state"].items()
    }
    return {**state, "state": memory}


def naive_prune(
    weights: dict[str, Any], masks: dict[str, Any], scope: str, fraction: float = 0.2
) -> dict[str, Any]:
    """One weight at a time: the smallest that is left, as often as the share of what was left
    says.
    """
    new = {name: mask.clone() for name, mask in masks.items()}
    groups = [list(PRUNED)] if scope == "global" else [[name] for name in PRUNED]
    for group in groups:
        share = fraction / 2 if group == ["fc2.weight"] else fraction
        entries = [
            (float(abs(w)), name, at)
            for name in group
            for at, (w, m) in enumerate(
                zip(weights[name].flatten(), masks[name].flatten(), strict=True)
            )
            if m
        ]
        less = -(-len(entries) * round(share * 100) // 100)  # rounded up
        for _, name, at in sorted(entries, key=lambda entry: entry[0])[:less]:
            new[name].view(-1)[at] = 0
    return new


@pytest.mark.parametrize(
    ("recipe", "rewind", "scope"),
    [(ADAM, 0, "layer"), (ADAM, 2, "global"), (SGD, 1, "layer"), (SGD, 0, "global")],
)
def test_levels_equal_the_naive_loop(
    tmp_path: Path, recipe: Recipe, rewind: int, scope: Any
) -> None:
    data = make_data(50)
    state = torch.random.get_rng_state()
    found = train_imp(
        recipe,
        data,
        tmp_path,
        rounds=3,
        rewind=rewind,
        scope=scope,
        epochs=3,
        seed=2,
        progress=False,
    )
    assert torch.equal(state, torch.random.get_rng_state())
    expected = naive(replace(recipe, epochs=3), data, 3, rewind, scope, 2)
    torch.random.set_rng_state(state)
    for level, (one, theirs) in enumerate(zip(found.levels, expected, strict=True)):
        folder = Path(one.folder)
        mine, masks = tensors_of(folder), tensors_of(folder, "mask.safetensors")
        start = tensors_of(folder, "init.safetensors")
        assert set(masks) == set(PRUNED)
        for name, mask in masks.items():
            assert torch.equal(mask, theirs["masks"][name].bool())
            assert bool((mine[name][~mask] == 0).all())
            assert bool((start[name][~mask] == 0).all())
        for name, tensor in theirs["state"].items():
            assert torch.equal(mine[name], tensor), (level, name)
        kept = sum(int(mask.sum()) for mask in masks.values())
        assert (one.level, one.nonzeros, one.epochs) == (level, kept, 3)
        assert one.sparsity == 1 - kept / 1800
        # The optimiser remembers nothing of what is pruned: the state stays exactly zero.
        memory = tensors_of(folder, "checkpoint.safetensors")
        held = [key for key in memory if key.startswith("optimiser.") and not key.endswith(".step")]
        assert len(held) == 8 * (2 if recipe.optimiser == "adam" else 1)
        for key in held:
            name = key.removeprefix("optimiser.").rsplit(".", 1)[0]
            if name in masks:
                assert bool((memory[key][~masks[name]] == 0).all())


def test_the_start_is_the_state_at_the_end_of_the_epoch(tmp_path: Path) -> None:
    data = make_data(40)
    train_imp(ADAM, data, tmp_path / "imp", rounds=2, rewind=1, epochs=3, progress=False)
    train(ADAM, data, tmp_path / "one", epochs=1, progress=False)
    train(ADAM, data, tmp_path / "dense", epochs=3, progress=False)
    one = tensors_of(tmp_path / "one")
    dense = tensors_of(tmp_path / "dense")
    assert all(
        torch.equal(tensor, dense[name])
        for name, tensor in tensors_of(tmp_path / "imp/level-00").items()
    )
    for level in ("level-01", "level-02"):
        folder = tmp_path / "imp" / level
        masks = tensors_of(folder, "mask.safetensors")
        for name, tensor in tensors_of(folder, "init.safetensors").items():
            assert torch.equal(tensor, one[name] * masks[name] if name in masks else one[name])
        history = [
            json.loads(line)["epoch"]
            for line in (folder / "history.jsonl").read_text().splitlines()
        ]
        assert history == [1, 2, 3]  # the first is level 0's own
        assert load_net(folder).init is not None
    fresh = train_imp(ADAM, data, tmp_path / "zero", rounds=1, epochs=2, progress=False)
    start = models.build(RICH, 0).state_dict()
    masks = tensors_of(Path(fresh.levels[1].folder), "mask.safetensors")
    for name, tensor in tensors_of(Path(fresh.levels[1].folder), "init.safetensors").items():
        assert torch.equal(tensor, start[name] * masks[name] if name in masks else start[name])
    assert not (tmp_path / "zero/level-00/rewind.safetensors").exists()


def test_metrics_are_those_of_the_levels_nets(tmp_path: Path) -> None:
    data, test = make_data(60), make_data(40, seed=1)
    found = train_imp(RECIPE, data, tmp_path, test=test, rounds=2, epochs=2, progress=False)
    assert isinstance(found, ImpResult)
    for level in found.levels:
        module = load_net(level.folder).module
        for part, error in ((data, level.train_error), (test, level.test_error)):
            scores = module(torch.from_numpy(part.x).float() / 255)
            assert error == float((scores.argmax(1).numpy() != part.y).mean())
    assert found.to_json()["levels"][2]["nonzeros"] == found.levels[2].nonzeros
    assert (found.weights, found.rewind, found.scope, found.fraction) == (1800, 0, "layer", 0.2)


def test_counts_are_exact() -> None:
    # 36 -> 36 - ceil(7.2) = 28 -> 28 - ceil(5.6) = 22; the last layer at a tenth: 36 - 4 = 32 -> 32
    # - 4 = 28.
    groups = grouped(list(SIZES), "layer", 0.2)
    assert [share for _, share in groups] == [0.2, 0.2, 0.1]
    weights = {name: torch.arange(count).float() for name, count in SIZES.items()}
    masks = {name: torch.ones(count, dtype=torch.bool) for name, count in SIZES.items()}
    once = prune(weights, masks, groups)
    twice = prune(weights, once, groups)
    assert [int(mask.sum()) for mask in once.values()] == [28, 1728 - 346, 32]
    assert [int(mask.sum()) for mask in twice.values()] == [22, 1382 - 277, 28]
    assert all(bool(mask.all()) for mask in masks.values())  # the given masks are left alone
    # weights grow with their place, so the first of each layer go
    assert twice["conv1.weight"].tolist() == [False] * 14 + [True] * 22
    everywhere = prune(weights, masks, grouped(list(SIZES), "global", 0.5))
    assert sum(int(mask.sum()) for mask in everywhere.values()) == 900
    # A weight that is zero by chance is not a pruned one: it counts as left, and goes as the
    # smallest.
    some = prune(
        {"a": torch.tensor([0.0, 5.0, -1.0, 3.0])},
        {"a": torch.tensor([True, True, True, False])},
        [(("a",), 0.3)],
    )
    assert some["a"].tolist() == [False, True, True, False]
    # Equal magnitudes: the first goes, whatever the sign.
    tie = prune(
        {"a": torch.tensor([2.0, -1.0, 1.0])},
        {"a": torch.ones(3, dtype=torch.bool)},
        [(("a",), 0.3)],
    )
    assert tie["a"].tolist() == [True, False, True]


@pytest.mark.parametrize(("to", "rounds"), [(0.1, 1), (0.2, 2), (0.95, 14), (0.99, 21)])
def test_rounds_until_the_sparsity_is_reached(to: float, rounds: int) -> None:
    # Of 1 000 000 weights with a last layer of none to speak of: 0.8^n <= 1 - to.
    sizes = {"a": 1_000_000, "b": 1}
    groups = grouped(list(sizes), "layer", 0.2)
    assert count_rounds(sizes, groups, None, to) == rounds
    assert 0.8**rounds <= 1 - to + 1e-5 < 0.8 ** (rounds - 1) + 2e-5


def test_bad_options_are_one_sentence_and_leave_nothing(tmp_path: Path) -> None:
    data = make_data(20)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"fraction": 0.0}, "`fraction` must be a number above 0 and below 1, not 0"),
        ({"fraction": 1.0}, "`fraction` must be a number above 0 and below 1"),
        ({"fraction": float("nan")}, "`fraction` must be a number above 0 and below 1"),
        ({"to": 1.0}, "`to` must be a number above 0 and below 1"),
        ({"to": 0.999}, "`to` = 0.999 cannot be reached: after"),
        ({"rounds": 400}, "`rounds` = 400 is too many: after"),
        ({"rounds": 0}, "`rounds` must be a whole number of at least 1"),
        ({"rounds": 2, "to": 0.5}, "give one of them"),
        ({"fraction": 1e-7}, "takes more than 99 rounds"),
        ({"rewind": 4}, "`rewind` must be below the 4 epochs of a level, not 4"),
        ({"rewind": -1}, "`rewind` must be a whole number of at least 0"),
        ({"scope": "net"}, "`scope` must be one of layer, global, not net"),
        ({"recipe": "nonsense"}, "recipe 'nonsense' is not known"),
    ]
    for change, sentence in cases:
        options = {"recipe": RECIPE, "data": data, "out": tmp_path / "run", **change}
        with pytest.raises(BadInput) as caught:
            train_imp(**options)
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()


def test_a_recipe_that_stops_before_the_rewind_epoch_says_so(tmp_path: Path) -> None:
    recipe = replace(
        RECIPE, spec="1x6x6: flatten fc3", stop_loss=100.0, augment=False
    )  # reached at once
    with pytest.raises(BadInput, match=r"level-00 reached the recipe's loss after 1 epochs"):
        train_imp(recipe, make_data(20), tmp_path, rounds=1, rewind=2, epochs=3, progress=False)
