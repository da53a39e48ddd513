"""Training: a recipe and a sample in, a RUN folder out; once killed, it resumes bit for bit.

Every epoch is a function of (seed, epoch, state at its start) alone: the order of the examples, the
augmentation and dropout all draw from streams seeded by (seed, epoch). So the last checkpoint
determines the rest, bit for bit on the same machine with the same number of threads. The files of a
RUN are described in runs.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.data.samples import randomize_labels, shuffle_labels
from cushion.errors import BadInput
from cushion.nets.specs import Spec, scale_width, write_shape
from cushion.records import Record
from cushion.training.evaluation import evaluate
from cushion.training.options import TrainOptions
from cushion.training.recipes import Recipe, find_recipe, fit_recipe
from cushion.training.runs import Run, Status
from cushion.training.trainer import Trainer


@dataclass(frozen=True)
class RunResult(Record):
    """What `train` reached; `status` "already done": nothing changed."""

    folder: str
    net: str
    recipe: str
    spec: str
    status: Status
    epochs: int
    metrics: dict[str, Any]


def train(
    recipe: Recipe | Spec | str,
    data: Dataset,
    out: str | Path,
    *,
    test: Dataset | None = None,
    width: float = TrainOptions.width,
    epochs: int | None = TrainOptions.epochs,
    lr_halve_every: int | None = TrainOptions.lr_halve_every,
    seed: int = TrainOptions.seed,
    device: str = TrainOptions.device,
    snapshots: Sequence[int] = (),
    progress: bool = True,
) -> RunResult:
    """Train a recipe (name, Recipe or spec) on `data` into the RUN folder `out`, or finish that.

    `width` scales the hidden widths; `epochs` and `lr_halve_every` (the epochs after which the
    learning rate is halved) replace the recipe's numbers, so that a shorter run can keep its
    schedule's shape. After each epoch that `snapshots` names, the net stays in the folder as
    epoch-NNNN.safetensors. Metrics of the final net, in evaluation mode: train_error and test_error
    (fractions; a tie for the highest score is an error) and train_loss, test_loss (mean
    cross-entropy). The caller's random state is left as it was.
    """
    kept = tuple(sorted(set(snapshots))) or None
    options = TrainOptions(width, epochs, lr_halve_every, kept, seed, device)
    return train_into(Path(out), settle(recipe, data, test, options), progress=progress)


@dataclass(frozen=True, eq=False)
class Setting:
    """What is trained on what: the options of `train`, checked and put together."""

    recipe: Recipe
    spec: Spec
    sample: Dataset
    test: Dataset | None
    width: float
    seed: int
    device: torch.device
    snapshots: tuple[int, ...] = ()  # epochs after which the net stays

    @property
    def options(self) -> dict[str, Any]:
        """What the plan of a run says besides spec and data."""
        plan = {
            "recipe": self.recipe,
            "width": self.width,
            "seed": self.seed,
            "device": str(self.device),
        }
        return plan | ({"snapshots": list(self.snapshots)} if self.snapshots else {})


def settle(
    recipe: Recipe | Spec | str, data: Dataset, test: Dataset | None, options: TrainOptions
) -> Setting:
    """The setting that the options describe, or one sentence about the first that does not fit."""
    if not isinstance(recipe, Recipe):
        recipe = find_recipe(str(recipe))
    changes = {"epochs": options.epochs, "lr_halve_every": options.lr_halve_every}
    recipe = replace(recipe, **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type]
    device = find_device(options.device)
    width, seed = float(options.width), options.seed
    spec = scale_width(fit_recipe(recipe, data.shape, data.classes), width)
    _check_sets(recipe, data, test)
    sample = label_sample(recipe, data, seed)
    return Setting(recipe, spec, sample, test, width, seed, device, options.snapshots or ())


@dataclass(frozen=True, eq=False)
class Pruning:
    """What sets a run with pruned weights (imp.py) apart from a plain one.

    plan: what run.json says about it. masks: by parameter name, False where a weight is zero from
    the start to the end. rewind: the checkpoint from which the run goes on (None: it starts at the
    initialisation). keep: the epoch after which a checkpoint is kept for such runs.
    """

    plan: dict[str, Any]
    masks: Mapping[str, Tensor]
    rewind: Path | None
    keep: int | None


def train_into(
    folder: Path, setting: Setting, pruning: Pruning | None = None, *, progress: bool
) -> RunResult:
    """Train into one RUN folder, or finish the run that it holds."""
    recipe, device = setting.recipe, setting.device
    plan = setting.options | ({} if pruning is None else {"prune": pruning.plan})
    with Run.open(folder, setting.spec, setting.sample, setting.test, plan) as run:
        done = run.finished()
        if done is not None:
            return _result(run, recipe, "already done", done)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            trainer = Trainer(recipe, setting.spec, setting.sample, setting.seed, device)
            run.snapshots = setting.snapshots
            if pruning is not None:
                run.keep = pruning.keep
                if pruning.rewind is not None:
                    run.load(pruning.rewind, trainer.module, trainer.optimiser)
                trainer.hold(pruning.masks)
            status = run.restore(trainer.module, trainer.optimiser)
            trainer.run(run, progress)
            metrics = _final_metrics(trainer.module, setting.sample, setting.test, device)
        metrics["epochs"] = len(run.history)
        run.finish(trainer.module, metrics)
        return _result(run, recipe, status, metrics)


def label_sample(recipe: Recipe, data: Dataset, seed: int) -> Dataset:
    """The sample as the recipe labels it, seeded by the run's seed and told in its history."""
    if recipe.labels == "shuffled":
        return shuffle_labels(data, seed)
    if recipe.labels == "random":
        return randomize_labels(data, 1.0, seed)
    return data


def _final_metrics(
    module: nn.Module, sample: Dataset, test: Dataset | None, device: torch.device
) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for name, part in (("train", sample), ("test", test)):
        if part is not None:
            loss, errors = evaluate(module, part, device)
            metrics |= {
                f"{name}_loss": loss,
                f"{name}_error": errors / len(part),
                f"{name}_errors": errors,
            }
    return metrics


def _check_sets(recipe: Recipe, data: Dataset, test: Dataset | None) -> None:
    if recipe.augment and len(data.shape) != 3:
        raise BadInput(
            f"recipe {recipe.name} crops and mirrors images, but {data.name} has shape "
            f"{write_shape(data.shape)}; use data of shape channels x height x width"
        )
    if test is not None and (test.shape, test.classes) != (data.shape, data.classes):
        raise BadInput(
            f"the test set {test.name} is {write_shape(test.shape)} with {test.classes} classes, "
            f"but {data.name} is {write_shape(data.shape)} with {data.classes}; use sets of one "
            "kind"
        )
    if len(data) < 2:
        raise BadInput(f"{data.name} has a single example; training needs at least 2")


def find_device(name: str) -> torch.device:
    """cpu, or a cuda device that is there; else a sentence."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadInput(f"device '{name}' is not known; use cpu or cuda") from None
    if device.type not in ("cpu", "cuda"):
        raise BadInput(f"device '{name}' is not supported; use cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"device '{name}' is not available on this machine; use `device` = cpu")
    return device


def _result(run: Run, recipe: Recipe, status: Status, metrics: dict[str, Any]) -> RunResult:
    return RunResult(
        folder=str(run.folder),
        net=str(run.net_path),
        recipe=recipe.name,
        spec=str(run.spec),
        status=status,
        epochs=int(metrics["epochs"]),
        metrics=metrics,
    )
