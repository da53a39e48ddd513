"""Nets that items train: planned as data, trained once, found again by a fingerprint of all that
decides their weights.

A plan names a recipe and what a smaller size changes of it; `changes` says so on the page. Two
items whose plans are equal share one RUN folder, and with it one training.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cushion.data import Dataset, load_pair
from cushion.errors import BadInput
from cushion.papers.runner import Unrecorded, Workshop
from cushion.records import Record
from cushion.training.options import TrainOptions
from cushion.training.plans import Setting, label_sample, settle
from cushion.training.recipes import Recipe, find_recipe
from cushion.training.training import RunResult, train

_WORDS = ("title", "source", "notes")  # of a recipe, that decide nothing


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
        halved = f"{self.halve} epochs instead of {paper.lr_halve_every or 'never'}"
        ends = f"{self.stop_loss} instead of {paper.stop_loss}"
        parts = {
            f"data {self.data}": self.data != paper.dataset,
            f"width {self.width:g} of the paper's": self.width != 1,
            f"at most {self.epochs} epochs instead of {paper.epochs}": self.epochs,
            f"learning rate halved every {halved}": self.halve,
            f"training ends at a cross-entropy of {ends}": self.stop_loss and paper.stop_loss,
            "without dropout": not self.dropout,
            "without augmentation": paper.augment and not self.augment,
        }
        return ", ".join(words for words, differs in parts.items() if differs) or "none"


def counted(run: RunResult, data: Dataset, test: Dataset) -> dict[str, int]:
    """Errors on sample and test set, and the sizes of both."""
    errors, test_errors = (run.metrics[f"{part}_errors"] for part in ("train", "test"))
    return {"m": len(data), "test_m": len(test), "errors": errors, "test_errors": test_errors}


def training_error(net: Mapping[str, Any]) -> float:
    """Of a record that has what `counted` returns."""
    return float(net["errors"] / net["m"])


def held_out_error(net: Mapping[str, Any]) -> float:
    """The same on the test set."""
    return float(net["test_errors"] / net["test_m"])


def train_plan(workshop: Workshop, plan: TrainingPlan) -> tuple[RunResult, Dataset, Dataset]:
    """Train it, or find it trained; with the sample as its recipe labels it, and the test set."""
    data, test = load_pair(plan.data)
    if test is None:
        raise BadInput(f"{plan.data} has no test set, and test errors are counted on one")
    seed, recipe, kept = plan.seed + workshop.seed, plan.settled(), plan.snapshots
    run = train_once(workshop, recipe, data, test, width=plan.width, seed=seed, snapshots=kept)
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
        why = "and nothing is made with `from_records`"
        raise Unrecorded(f"{recipe.name} would have to be trained, {why}")
    device = workshop.device
    setting = settle(recipe, data, test, TrainOptions(width=width, seed=seed, device=device))
    folder = workshop.runs / f"{recipe.name}-{run_fingerprint(setting, snapshots)}"
    return train(
        recipe, data, folder, test=test, width=width, seed=seed, device=device, snapshots=snapshots
    )


def run_fingerprint(setting: Setting, snapshots: tuple[int, ...] = ()) -> str:
    """16 hex digits of the sha256 of all that decides the trained weights."""
    recipe = {key: value for key, value in setting.recipe.to_json().items() if key not in _WORDS}
    sets = [None if part is None else part.fingerprint for part in (setting.sample, setting.test)]
    numbers = [setting.width, setting.seed, str(setting.device), list(snapshots)]
    parts = [recipe, str(setting.spec), sets, *numbers]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
