"""The loss whose sharpness is measured, on all rows and on mini-batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.margins import sample_margins
from cushion.measures.probing import stream
from cushion.nets.batches import as_floats
from cushion.nets.network import Network

_SHARD = 256  # rows of a pass over all of them


@dataclass(frozen=True, eq=False)
class Losses:
    """Cross-entropy and 0-1 loss of each row, [m] float64 both."""

    cross_entropy: NDArray[np.float64]
    wrong: NDArray[np.float64]

    @property
    def loss(self) -> float:
        """L̂, the mean cross-entropy."""
        return float(self.cross_entropy.mean())

    @property
    def error(self) -> float:
        """The fraction of errors."""
        return float(self.wrong.mean())


def sample_losses(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """[n, classes], [n] -> cross-entropy [n], and whether the true class loses or ties [n]."""
    wrong = ~(sample_margins(logits, labels) > 0)
    return F.cross_entropy(logits, labels, reduction="none"), wrong


def batch_of(
    data: Dataset, rows: NDArray[np.int64] | slice, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The inputs of some rows as the net reads them, and their labels."""
    return as_floats(data.x[rows]).to(dtype), torch.from_numpy(np.array(data.y[rows]))


def all_losses(net: Network, data: Dataset, describe: str = "loss") -> Losses:
    """One pass over all rows."""

    def work(x: Tensor, rows: slice) -> dict[str, Tensor]:
        losses, wrong = sample_losses(net.forward(x), torch.from_numpy(np.array(data.y[rows])))
        return {"loss": losses, "wrong": wrong}

    found = stream(net, data, _SHARD, work, describe)
    if len(rows := np.flatnonzero(~np.isfinite(found["loss"]))):
        raise BadInput(
            f"the cross-entropy of row {rows[0]} is not finite, so its sharpness cannot be "
            "measured; check the net's weights, or use a smaller `step_size` or `max_alpha`"
        )
    return Losses(found["loss"], found["wrong"])


def mini_batches(rows: int, batch: int, generator: torch.Generator) -> Iterator[NDArray[np.int64]]:
    """Batches of min(batch, rows) different rows without end: parts of one shuffle after another,
    without what is too small for a batch, so that every row is equally likely in each.
    """
    size = min(batch, rows)
    while True:
        order = torch.randperm(rows, generator=generator).numpy()
        for start in range(0, rows - size + 1, size):
            yield order[start : start + size]
