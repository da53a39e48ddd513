"""cushion's training against a bare hand-written loop: the 784-wide 5-layer MLP, batch 256, Adam,
MNIST's shape.

Both train the same net on the same 60 000 random uint8 images, in turns within one process, one
epoch a turn. cushion's turn is all it does for an epoch: seeded order, conversion from uint8,
running loss and error, divergence checks and the checkpoint on disk. The bare loop holds its data
as floats already and records nothing. The ratio is bare time / cushion time (1 = the same speed,
above 1 = cushion is faster), medians over the turns; the goal is 0.8.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from cushion.data.dataset import Dataset
from cushion.nets import models
from cushion.progress import working
from cushion.training.plans import Setting
from cushion.training.recipes import RECIPES, fit_recipe
from cushion.training.runs import Run
from cushion.training.training import Trainer

GOAL = 0.8


def _bare_epoch(
    net: torch.nn.Module, optimiser: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor
) -> None:
    net.train()
    order = torch.randperm(len(x))
    for start in range(0, len(x), 256):
        rows = order[start : start + 256]
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def run(examples: int = 60_000, turns: int = 5) -> dict[str, Any]:
    """Measure both in turns; `ratio` is of CPU time (steady on a shared machine), `wall_ratio` of
    elapsed time.
    """
    random = np.random.default_rng(0)
    data = Dataset(
        "random images",
        random.integers(0, 256, (examples, 1, 28, 28), dtype=np.uint8),
        random.integers(0, 10, examples),
        10,
    )
    recipe = RECIPES["guha-mlp"]
    spec = fit_recipe(recipe, data.shape, data.classes)
    bare = models.build(spec, 0, init=recipe.init)
    optimiser = torch.optim.Adam(bare.parameters(), lr=recipe.lr)
    x, y = torch.from_numpy(data.x).float() / 255, torch.from_numpy(data.y)
    setting = Setting(recipe, spec, data, None, 1.0, 0, torch.device("cpu"))
    trainer = Trainer(recipe, spec, data, 0, setting.device)
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder, working("bench", hidden=True) as bar:
        saved = Run(Path(folder), setting)

        def cushion_epoch() -> None:
            line = trainer.epoch(len(saved.history), bar)
            saved.checkpoint(trainer.module, trainer.optimiser, line, stop=False)

        for turn in range(turns + 1):
            pair = (_timed(lambda: _bare_epoch(bare, optimiser, x, y)), _timed(cushion_epoch))
            if turn:  # the first turn warms both up
                theirs.append(pair[0])
                ours.append(pair[1])
    wall, cpu = (
        statistics.median(
            bare_time[at] / our_time[at] for bare_time, our_time in zip(theirs, ours, strict=True)
        )
        for at in (0, 1)
    )
    return {
        "name": "training_speed",
        "ratio": cpu,
        "wall_ratio": wall,
        "goal": GOAL,
        "held": cpu >= GOAL,
        "turns": turns,
    }


if __name__ == "__main__":
    result = run()
    print(
        f"training speed, cushion / bare loop: {result['ratio']:.2f} in CPU time, "
        f"{result['wall_ratio']:.2f} elapsed (goal {GOAL}; median of {result['turns']} turns)"
    )
