"""Training: a recipe and a sample in, a RUN folder out; killed at any time, it resumes to the same
weights.

Every epoch is a function of (seed, epoch, state at its start) alone: the order of the examples, the
augmentation and dropout all draw from streams seeded by (seed, epoch). So the last checkpoint
determines the rest, bit for bit on the same machine with the same number of threads. The files of a
RUN are described in runs.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cushion.data.corruption import randomize_labels, shuffle_labels
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.batches import as_floats, batch_bounds, crop_and_mirror, draw_views, mix_seed
from cushion.nets.specs import Spec, scale_width, write_shape
from cushion.progress import progress as shown
from cushion.progress import working
from cushion.records import Record
from cushion.training.recipes import Recipe, find_recipe, fit_recipe
from cushion.training.runs import Run, Status

EVALUATION_BATCH = 1024
LOOK_EVERY = 32  # batches between two looks at the running loss (a look waits for the device)


@dataclass(frozen=True)
class RunResult(Record):
    """What `train` did and reached. `status`: "trained", "resumed" or "already done" (then nothing
    changed).
    """

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
    width: float = 1.0,
    epochs: int | None = None,
    lr_halve_every: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    snapshots: Sequence[int] = (),
    progress: bool = True,
) -> RunResult:
    """Train a recipe (its name, a Recipe, or a spec) on `data` into the RUN folder `out`, or finish
    such a run.

    `width` scales the hidden widths; `epochs` and `lr_halve_every` (the epochs after which the
    learning rate is halved) replace the recipe's numbers, so that a shorter run can keep its
    schedule's shape. After each epoch that `snapshots` names, the net stays in the folder as
    epoch-NNNN.safetensors. Metrics of the final net, in evaluation mode: train_error and test_error
    (fractions; a tie for the highest score is an error) and train_loss, test_loss (mean
    cross-entropy). The caller's random state is left as it was.
    """
    setting = settle(recipe, data, test, width, epochs, lr_halve_every, seed, device)
    return train_into(
        Path(out), replace(setting, snapshots=_settle_snapshots(snapshots)), progress=progress
    )


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
    recipe: Recipe | Spec | str,
    data: Dataset,
    test: Dataset | None,
    width: float,
    epochs: int | None,
    lr_halve_every: int | None,
    seed: int,
    device: str,
) -> Setting:
    """The setting that the options of `train` describe, or one sentence about the first that does
    not fit.
    """
    if not isinstance(recipe, Recipe):
        recipe = find_recipe(str(recipe))
    recipe = recipe if epochs is None else replace(recipe, epochs=epochs)
    recipe = recipe if lr_halve_every is None else replace(recipe, lr_halve_every=lr_halve_every)
    target = find_device(device)
    spec = scale_width(fit_recipe(recipe, data.shape, data.classes), width)
    _check_sets(recipe, data, test)
    return Setting(recipe, spec, label_sample(recipe, data, seed), test, float(width), seed, target)


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
        with _private_randomness(device):
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
    """The sample as the recipe labels it, seeded by the run's seed; its history records what was
    done.
    """
    if recipe.labels == "shuffled":
        return shuffle_labels(data, seed)
    if recipe.labels == "random":
        return randomize_labels(data, 1.0, seed)
    return data


def evaluate(
    module: nn.Module, data: Dataset, device: str | torch.device = "cpu"
) -> tuple[float, int]:
    """Mean cross-entropy and number of errors in evaluation mode; a tie for the highest score is an
    error.
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    loss, errors = 0.0, 0
    try:
        with torch.inference_mode():
            starts = range(0, len(data), EVALUATION_BATCH)
            for start in shown(starts, "evaluating", "batch"):
                rows = np.arange(start, min(start + EVALUATION_BATCH, len(data)))
                y = torch.from_numpy(data.y[rows]).to(device)
                scores = module(as_floats(data.x[rows]).to(device))
                loss += float(F.cross_entropy(scores, y, reduction="sum"))
                errors += int(count_errors(scores, y))
    finally:
        for part, mode in modes.items():
            part.training = mode
    return loss / len(data), errors


def count_errors(scores: Tensor, y: Tensor) -> Tensor:
    """How many rows of [b, classes] scores do not put the label strictly first; NaN rows are
    errors.
    """
    return ((scores >= scores.gather(1, y[:, None])).sum(dim=1) != 1).sum()


class Trainer:
    """The state of a run in memory, and one epoch of it."""

    def __init__(
        self, recipe: Recipe, spec: Spec, sample: Dataset, seed: int, device: torch.device
    ) -> None:
        self.recipe, self.sample, self.seed, self.device = recipe, sample, seed, device
        self.module = models.build(spec, seed, init=recipe.init).to(device)
        parameters = self.module.parameters()
        self.optimiser: torch.optim.Optimizer
        if recipe.optimiser == "adam":
            self.optimiser = torch.optim.Adam(
                parameters, lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True
            )
        else:
            self.optimiser = torch.optim.SGD(
                parameters,
                lr=recipe.lr,
                momentum=recipe.momentum,
                weight_decay=recipe.weight_decay,
                fused=True,
            )
        self.pruned: list[tuple[nn.Parameter, Tensor]] = []

    @torch.no_grad()
    def hold(self, masks: Mapping[str, Tensor]) -> None:
        """From now on the weights outside the masks are exactly zero.

        They and what the optimiser remembers of them are set to zero, and their gradients are from
        now on: neither optimiser, momentum nor weight decay then moves them.
        """
        for name, parameter in self.module.named_parameters():
            if name in masks:
                pruned = ~masks[name].to(self.device)
                self.pruned.append((parameter, pruned))
                state = (
                    self.optimiser.state[parameter].values()
                    if parameter in self.optimiser.state
                    else ()
                )
                for tensor in (parameter, *(one for one in state if one.shape == parameter.shape)):
                    tensor.masked_fill_(pruned, 0.0)

    def run(self, run: Run, progress: bool) -> None:
        """The epochs that are missing, each ended by a checkpoint."""
        batches = len(batch_bounds(len(self.sample), self.recipe.batch))
        total = (self.recipe.epochs - len(run.history)) * batches
        with working(self.recipe.name, total, "batch", hidden=not progress) as bar:
            while len(run.history) < self.recipe.epochs and not run.stopped:
                line = self.epoch(len(run.history), bar)
                stop = False
                if self.recipe.stop_loss is not None:
                    loss, errors = evaluate(self.module, self.sample, self.device)
                    line |= {"eval_loss": loss, "eval_error": errors / len(self.sample)}
                    stop = loss < self.recipe.stop_loss
                run.checkpoint(self.module, self.optimiser, line, stop)

    def epoch(self, epoch: int, bar: Any) -> dict[str, Any]:
        """One pass over the sample; its line of the history, with the loss and error while it was
        learning.
        """
        started = time.perf_counter()
        lr = self.recipe.learning_rate(epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        torch.manual_seed(mix_seed(self.seed, epoch, "dropout"))
        generator = torch.Generator().manual_seed(mix_seed(self.seed, epoch, "order"))
        m = len(self.sample)
        order = torch.randperm(m, generator=generator).numpy()
        views = draw_views(m, generator) if self.recipe.augment else None
        loss_sum = torch.zeros((), device=self.device)
        error_sum = torch.zeros((), dtype=torch.int64, device=self.device)
        self.module.train()
        for number, (start, stop) in enumerate(batch_bounds(m, self.recipe.batch), 1):
            rows = order[start:stop]
            x = self.sample.x[rows]
            x = x if views is None else crop_and_mirror(x, views[rows])
            y = torch.from_numpy(self.sample.y[rows]).to(self.device)
            scores = self.module(as_floats(x).to(self.device))
            loss = F.cross_entropy(scores, y)
            self.optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            for parameter, pruned in self.pruned:
                assert parameter.grad is not None
                parameter.grad.masked_fill_(pruned, 0.0)
            self.optimiser.step()
            with torch.no_grad():
                loss_sum += loss * len(rows)
                error_sum += count_errors(scores, y)
            if number % LOOK_EVERY == 0 or stop == m:
                self.look(epoch, float(loss_sum) / stop)
                loss_now, error = float(loss_sum) / stop, int(error_sum) / stop
                bar.say(f"epoch {epoch + 1}, loss {loss_now:.4g}, error {error:.2%}")
            bar.advance()
        if not all(
            bool(torch.isfinite(tensor).all()) for tensor in self.module.state_dict().values()
        ):
            self.look(epoch, math.nan)
        return {
            "epoch": epoch + 1,
            "train_loss": float(loss_sum) / m,
            "train_error": int(error_sum) / m,
            "lr": lr,
            "seconds": round(time.perf_counter() - started, 3),
        }

    def look(self, epoch: int, loss: float) -> None:
        if not math.isfinite(loss):
            raise BadInput(
                f"training {self.recipe.name} diverged in epoch {epoch + 1} (the loss is not "
                f"finite); lower the learning rate {self.recipe.learning_rate(epoch):g}; the last "
                "good checkpoint is kept"
            )


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


def _settle_snapshots(epochs: Sequence[int]) -> tuple[int, ...]:
    if any(epoch < 1 for epoch in epochs):
        raise BadInput(f"`snapshots` must name epochs, counted from 1, not {min(epochs)}")
    return tuple(sorted(set(epochs)))


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


@contextmanager
def _private_randomness(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


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
