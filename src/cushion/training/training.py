"""Training: a recipe and a sample in, a RUN folder out; once killed, it resumes bit for bit.

Every epoch is a function of (seed, epoch, state at its start) alone: the order of the examples, the
augmentation and dropout all draw from streams seeded by (seed, epoch). So the last checkpoint
determines the rest, bit for bit on the same machine with the same number of threads. The files of a
RUN are described in runs.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cushion.data import AnyData
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.batches import mix_seed
from cushion.nets.loading.weights import RUN_FILE
from cushion.nets.specs import Spec
from cushion.progress import working
from cushion.records import Record
from cushion.training.epochs import batch_bounds, batches, count_errors, evaluate, learn
from cushion.training.options import TrainOptions
from cushion.training.plans import Setting, open_folder, settle
from cushion.training.recipes import Recipe
from cushion.training.runs import Run, Status

LOOK_EVERY = 32  # batches between two looks at the running loss (a look waits for the device)


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
    data: AnyData,
    out: str | Path,
    *,
    test: AnyData | None = None,
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


class Trainer:
    """The state of a run in memory, and one epoch of it."""

    def __init__(
        self, recipe: Recipe, spec: Spec, sample: Dataset, seed: int, device: torch.device
    ) -> None:
        self.recipe, self.sample, self.seed, self.device = recipe, sample, seed, device
        self.module = models.build(spec, seed, init=recipe.init).to(device)
        setting: dict[str, Any] = {"weight_decay": recipe.weight_decay, "fused": True}
        how: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
        if recipe.optimiser == "sgd":
            how, setting["momentum"] = torch.optim.SGD, recipe.momentum
        self.optimiser = how(self.module.parameters(), lr=recipe.lr, **setting)
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
                state = self.optimiser.state.get(parameter, {}).values()
                for tensor in (parameter, *(one for one in state if one.shape == parameter.shape)):
                    tensor.masked_fill_(pruned, 0.0)

    def run(self, run: Run, progress: bool) -> None:
        """The epochs that are missing, each ended by a checkpoint."""
        each = len(batch_bounds(len(self.sample), self.recipe.batch))
        total = (self.recipe.epochs - len(run.history)) * each
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
        """One pass over the sample; its line of the history, with loss and error while learning."""
        started = time.perf_counter()
        lr = self.recipe.learning_rate(epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        torch.manual_seed(mix_seed(self.seed, epoch, "dropout"))
        m, seen = len(self.sample), 0
        loss_sum = torch.zeros((), device=self.device)
        error_sum = torch.zeros((), dtype=torch.int64, device=self.device)
        self.module.train()
        fed = batches(self.sample, self.recipe.batch, self.seed, epoch, augment=self.recipe.augment)
        for number, (x, labels) in enumerate(fed, 1):
            y, seen = labels.to(self.device), seen + len(labels)
            scores = self.module(x.to(self.device))
            loss = F.cross_entropy(scores, y)
            learn(self.optimiser, loss, self.pruned)
            with torch.no_grad():
                loss_sum += loss * len(y)
                error_sum += count_errors(scores, y)
            if number % LOOK_EVERY == 0 or seen == m:
                loss_now, error = float(loss_sum) / seen, int(error_sum) / seen
                self.look(epoch, loss_now)
                bar.say(f"epoch {epoch + 1}, loss {loss_now:.4g}, error {error:.2%}")
            bar.advance()
        if not all(bool(t.isfinite().all()) for t in self.module.state_dict().values()):
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
            said = f"training {self.recipe.name} diverged in epoch {epoch + 1} (the loss is not"
            fix = f"lower the learning rate {self.recipe.learning_rate(epoch):g}"
            raise BadInput(f"{said} finite); {fix}; the last good checkpoint is kept")


def train_into(
    folder: Path, setting: Setting, pruning: Pruning | None = None, *, progress: bool
) -> RunResult:
    """Train into one RUN folder, or finish the run that it holds."""
    recipe, sample, device = setting.recipe, setting.sample, setting.device
    status: Status = "already done"
    with open_folder(folder, RUN_FILE, setting.plan()):
        run = Run(folder, setting)
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
