"""Nets that items train: planned as data, trained once, found again by a fingerprint of all that
decides their weights.

A plan names a recipe and what a smaller size changes of it; `changes` says so on the page. Two
items whose plans are equal share one RUN folder, and with it one training.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from cushion.data import Dataset, load_pair
from cushion.errors import BadInput
from cushion.papers.runner import Unrecorded, Workshop
from cushion.records import Record
from cushion.training.options import TrainOptions
from cushion.training.recipes import Recipe, find_recipe
from cushion.training.training import RunResult, Setting, label_sample, settle, train

_WORDS = ("title", "source", "notes")  # of a recipe, that decide nothing


@dataclass(frozen=True)
class TrainingPlan(Record):
    """A recipe on a sample, with what differs from the recipe; None and True: as the recipe has it.

    width: the factor of the hidden widths. halve: epochs after which the learning rate is halved.
    dropout, augment: False leaves them out. snapshots: epochs after which the net stays.
    """

    recipe: str
    data: str
    width: float = 1.0
    epochs: int | None = None
    halve: int | None = None
    stop_loss: float | None = None
    dropout: bool = True
    augment: bool = True
    snapshots: tuple[int, ...] = ()
    seed: int = 0

    def settled(self) -> Recipe:
        """The recipe with the plan's changes."""
        recipe = find_recipe(self.recipe)
        if not self.dropout:
            recipe = replace(recipe, spec=re.sub(r" drop[0-9.]+", "", recipe.spec))
        return replace(
            recipe,
            epochs=self.epochs or recipe.epochs,
            lr_halve_every=self.halve or recipe.lr_halve_every,
            stop_loss=self.stop_loss or recipe.stop_loss,
            augment=recipe.augment and self.augment,
        )

    def changes(self) -> str:
        """What differs from the paper's settings, in words."""
        paper = find_recipe(self.recipe)
        parts = [
            f"data {self.data}" if self.data != paper.dataset else "",
            f"width {self.width:g} of the paper's" if self.width != 1 else "",
            f"at most {self.epochs} epochs instead of {paper.epochs}" if self.epochs else "",
            f"learning rate halved every {self.halve} epochs instead of "
            f"{paper.lr_halve_every or 'never'}"
            if self.halve
            else "",
            f"training ends at a cross-entropy of {self.stop_loss:g} instead of {paper.stop_loss:g}"
            if self.stop_loss and paper.stop_loss
            else "",
            "without dropout" if not self.dropout else "",
            "without augmentation" if paper.augment and not self.augment else "",
        ]
        return ", ".join(part for part in parts if part) or "none"


def train_plan(workshop: Workshop, plan: TrainingPlan) -> tuple[RunResult, Dataset, Dataset]:
    """Train it, or find it trained; with the sample as its recipe labels it, and the test set."""
    data, test = load_pair(plan.data)
    if test is None:
        raise BadInput(f"{plan.data} has no test set, and test errors are counted on one")
    seed, recipe = plan.seed + workshop.seed, plan.settled()
    run = train_once(
        workshop, recipe, data, test, width=plan.width, seed=seed, snapshots=plan.snapshots
    )
    return run, label_sample(recipe, data, seed), test


def train_once(
    workshop: Workshop,
    recipe: Recipe,
    data: Dataset,
    test: Dataset,
    *,
    width: float = 1.0,
    seed: int = 0,
    snapshots: tuple[int, ...] = (),
) -> RunResult:
    """Train into OUT/.runs/NAME-FINGERPRINT; a finished run of that fingerprint is taken."""
    if workshop.from_records:
        raise Unrecorded(
            f"{recipe.name} would have to be trained, and nothing is made with `from_records`"
        )
    chosen = TrainOptions(width=width, seed=seed, device=workshop.device)
    setting = settle(recipe, data, test, chosen)
    folder = workshop.runs / f"{recipe.name}-{run_fingerprint(setting, snapshots)}"
    options: dict[str, Any] = {
        "test": test,
        "width": width,
        "seed": seed,
        "device": workshop.device,
    }
    return train(recipe, data, folder, snapshots=snapshots, **options)


def run_fingerprint(setting: Setting, snapshots: tuple[int, ...] = ()) -> str:
    """16 hex digits of the sha256 of all that decides the trained weights."""
    recipe = {key: value for key, value in setting.recipe.to_json().items() if key not in _WORDS}
    sets = [None if part is None else part.fingerprint for part in (setting.sample, setting.test)]
    parts = [
        recipe,
        str(setting.spec),
        sets,
        setting.width,
        setting.seed,
        str(setting.device),
        list(snapshots),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
