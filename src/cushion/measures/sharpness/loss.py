"""The loss whose sharpness is measured, on all rows and on mini-batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.margins import sample_margins
from cushion.measures.probing import feed, stream
from cushion.measures.sharpness.functional import MovedNet
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Network

AnyNet: TypeAlias = Network | HookedNet | MovedNet


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
    logits = logits if logits.dtype.itemsize > 2 else logits.float()  # half precision
    wrong = ~(sample_margins(logits, labels) > 0)
    return F.cross_entropy(logits, labels, reduction="none"), wrong


def batch_of(data: Dataset, rows: NDArray[np.int64] | slice, net: AnyNet) -> tuple[Any, Tensor]:
    """The inputs of some rows as the net reads them, and their labels."""
    return feed(data, rows, net), torch.from_numpy(np.array(data.y[rows])).to(net.device)


def all_losses(net: AnyNet, data: Dataset, describe: str = "loss") -> Losses:
    """One pass over all rows."""

    def work(x: Any, rows: slice) -> dict[str, Tensor]:
        labels = torch.from_numpy(np.array(data.y[rows])).to(net.device)
        losses, wrong = sample_losses(net.forward(x), labels)
        return {"loss": losses, "wrong": wrong}

    found = stream(net, data, rows_at_a_time(), work, describe)
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
