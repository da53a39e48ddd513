"""The loss whose sharpness is measured, on all rows and on mini-batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
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
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    return F.cross_entropy(logits, labels, reduction="none"), ~(own > others)


def batch_of(
    data: Dataset, rows: NDArray[np.int64] | slice, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The inputs of some rows as the net reads them, and their labels."""
    return as_floats(data.x[rows]).to(dtype), torch.from_numpy(np.array(data.y[rows]))


def all_losses(net: Network, data: Dataset, describe: str = "loss") -> Losses:
    """One pass over all rows."""

    def work(rows: slice) -> Accumulators[str]:
        x, y = batch_of(data, rows, net.dtype)
        losses, wrong = sample_losses(net.forward(x), y)
        return {
            "loss": Samples.of(rows.start, losses.double().numpy()),
            "wrong": Samples.of(rows.start, wrong.double().numpy()),
        }

    merged: dict[str, Any] = map_shards(len(data), _SHARD, work, describe=describe)
    found = Losses(merged["loss"].values(), merged["wrong"].values())
    if not np.isfinite(found.cross_entropy).all():
        raise BadInput(
            f"the cross-entropy of row {int(np.flatnonzero(~np.isfinite(found.cross_entropy))[0])} "
            "is not finite, so its sharpness cannot be measured; check the net's weights, or use a "
            "smaller `step_size` or `max_alpha`"
        )
    return found


def mini_batches(rows: int, batch: int, generator: torch.Generator) -> Iterator[NDArray[np.int64]]:
    """Batches of min(batch, rows) different rows without end: consecutive parts of one shuffle
    after another.

    What is left of a shuffle and too small for a batch is dropped, so that every row is equally
    likely in each.
    """
    size = min(batch, rows)
    while True:
        order = torch.randperm(rows, generator=generator).numpy()
        for start in range(0, rows - size + 1, size):
            yield order[start : start + size]
