"""The state of a run in memory, and one epoch of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.batches import mix_seed
from cushion.nets.specs import Spec
from cushion.progress import working
from cushion.training.epochs import batch_bounds, batches, count_errors, evaluate, learn
from cushion.training.recipes import Recipe
from cushion.training.runs import Run

LOOK_EVERY = 32  # batches between two looks at the running loss (a look waits for the device)


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
