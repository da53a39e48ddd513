"""Nets of reproductions: planned in words, trained once, found by a fingerprint of what decides
their weights.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cushion.errors import BadInput
from cushion.papers import nets
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.runner import Workshop
from cushion.training.recipes import find_recipe

PLAN = TrainingPlan("1x8x8: flatten fc6 relu fc10", "digits,subset=60", epochs=1)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, "quick")


def folders(workshop: Workshop) -> int:
    return len(list(workshop.runs.iterdir()))


def test_equal_plans_share_one_training(workshop: Workshop) -> None:
    first, data, test = train_plan(workshop, PLAN)
    again, _, _ = train_plan(workshop, PLAN)
    assert (first.status, again.status, first.folder) == ("trained", "already done", again.folder)
    assert (len(data), len(test)) == (60, 297)
    assert folders(workshop) == 1


def test_the_same_rows_under_another_name_are_the_same_training(workshop: Workshop) -> None:
    """No confusion set at all is the plain subset: equal fingerprints, one RUN."""
    first, _, _ = train_plan(workshop, PLAN)
    same, _, _ = train_plan(workshop, replace(PLAN, data="digits,confusion=60+0"))
    assert same.folder == first.folder
    assert same.status == "already done"


@pytest.mark.parametrize(
    "change",
    [
        {"data": "digits,subset=61"},
        {"data": "digits,subset=60,random-labels=1"},
        {"epochs": 2},
        {"width": 0.5},
        {"seed": 1},
        {"halve": 1},
        {"snapshots": (1,)},
    ],
    ids=str,
)
def test_what_changes_the_weights_is_another_training(
    workshop: Workshop, change: dict[str, object]
) -> None:
    train_plan(workshop, PLAN)
    train_plan(workshop, replace(PLAN, **change))  # type: ignore[arg-type]
    assert folders(workshop) == 2


def test_the_workshop_s_seed_is_added(workshop: Workshop) -> None:
    shifted, _, _ = train_plan(replace(workshop, seed=1), PLAN)
    own, _, _ = train_plan(workshop, replace(PLAN, seed=1))
    assert own.folder == shifted.folder


def test_a_recipe_that_shuffles_labels_gives_the_shuffled_sample(workshop: Workshop) -> None:
    plan = TrainingPlan(
        "arora-alexnet-shuffled",
        "digits,subset=50",
        width=0.05,
        epochs=1,
        dropout=False,
        augment=False,
    )
    with pytest.raises(BadInput, match="does not fit"):  # digits are too small for an AlexNet
        train_plan(workshop, plan)
    recipe = replace(find_recipe(PLAN.recipe), labels="shuffled", epochs=1)

    class Shuffling(TrainingPlan):
        def settled(self) -> object:  # type: ignore[override]
            return recipe

    _, data, _ = train_plan(workshop, Shuffling(PLAN.recipe, PLAN.data))
    assert any("shuffled" in line for line in data.history)


def test_changes_are_said_in_words() -> None:
    paper = TrainingPlan("neyshabur-vgg", "cifar10")
    assert paper.changes() == "none"
    assert paper.settled() == find_recipe("neyshabur-vgg")
    small = TrainingPlan(
        "arora-vgg19",
        "cifar10,subset=9",
        width=0.5,
        epochs=7,
        halve=2,
        dropout=False,
        augment=False,
    )
    words = small.changes()
    for part in (
        "subset=9",
        "width 0.5",
        "7 epochs instead of 299",
        "every 2 epochs instead of 30",
    ):
        assert part in words
    assert words.endswith("without dropout, without augmentation")
    recipe = small.settled()
    assert "drop" not in recipe.spec
    assert (recipe.epochs, recipe.lr_halve_every, recipe.augment) == (7, 2, False)
    assert "1e-4" not in replace(paper, stop_loss=1e-3).changes().split("instead")[0]


def test_data_without_a_test_set_are_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nets, "load_pair", lambda source: (None, None))
    with pytest.raises(BadInput, match="no test set"):
        train_plan(workshop, PLAN)
