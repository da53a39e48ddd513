"""Training: a recipe and a sample in, a RUN folder out; once killed, it resumes bit for bit.

Every epoch is a function of (seed, epoch, state at its start) alone: the order of the examples, the
augmentation and dropout all draw from streams seeded by (seed, epoch). So the last checkpoint
determines the rest, bit for bit on the same machine with the same number of threads. The files of a
RUN are described in runs.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cushion.data.dataset import Dataset
from cushion.nets.specs import Spec
from cushion.records import Record
from cushion.training.epochs import evaluate
from cushion.training.options import TrainOptions
from cushion.training.plans import Setting, settle
from cushion.training.recipes import Recipe
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
class Pruning:
    """What sets a run with pruned weights (imp.py) apart from a plain one.

    masks: by parameter name, False where a weight is zero from the start to the end. rewind: the
    checkpoint from which the run goes on (None: it starts at the initialisation). keep: the epoch
    after which a checkpoint is kept for such runs.
    """

    masks: Mapping[str, Tensor]
    rewind: Path | None
    keep: int | None


def train_into(
    folder: Path, setting: Setting, pruning: Pruning | None = None, *, progress: bool
) -> RunResult:
    """Train into one RUN folder, or finish the run that it holds."""
    recipe, sample, device = setting.recipe, setting.sample, setting.device
    status: Status = "already done"
    with Run.open(folder, setting) as run:
        metrics = run.finished()
        if metrics is None:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                trainer = Trainer(recipe, setting.spec, sample, setting.seed, device)
                if pruning is not None:
                    run.keep = pruning.keep
                    if pruning.rewind is not None:
                        run.load(pruning.rewind, trainer.module, trainer.optimiser)
                    trainer.hold(pruning.masks)
                status = run.restore(trainer.module, trainer.optimiser)
                trainer.run(run, progress)
                metrics = {}
                for name, part in (("train", sample), ("test", setting.test)):
                    if part is not None:
                        loss, errors = evaluate(trainer.module, part, device)
                        metrics[f"{name}_loss"] = loss
                        metrics[f"{name}_error"] = errors / len(part)
                        metrics[f"{name}_errors"] = errors
            metrics["epochs"] = len(run.history)
            run.finish(trainer.module, metrics)
    names = recipe.name, str(setting.spec)
    return RunResult(str(folder), str(run.net_path), *names, status, metrics["epochs"], metrics)
