"""What passes through the net: an epoch's batches, all seeded, a step of learning, evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.nets.batches import as_floats, mix_seed
from cushion.progress import progress

EVALUATION_BATCH = 1024
PAD = 4  # zeros on each side of an image before it is cropped


def batches(
    data: Dataset, batch: int, seed: int, epoch: int, *, augment: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """The inputs and labels of an epoch's batches, a function of (seed, epoch) alone."""
    m = len(data)
    generator = torch.Generator().manual_seed(mix_seed(seed, epoch, "order"))
    order = torch.randperm(m, generator=generator).numpy()
    views = draw_views(m, generator) if augment else None
    for start, stop in batch_bounds(m, batch):
        rows = order[start:stop]
        x = data.x[rows] if views is None else crop_and_mirror(data.x[rows], views[rows])
        yield as_floats(x), torch.from_numpy(data.y[rows])


def batch_bounds(m: int, batch: int) -> list[tuple[int, int]]:
    """Consecutive batches; a last single example joins the one before (batch-norm needs two)."""
    starts = list(range(0, m, batch))
    if len(starts) > 1 and m - starts[-1] == 1 and batch > 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], m], strict=True))


def draw_views(m: int, generator: torch.Generator) -> NDArray[np.int64]:
    """[m, 3]: the crop's row and column in each padded image, and whether it is mirrored."""
    corners = torch.randint(0, 2 * PAD + 1, (m, 2), generator=generator)
    mirrored = torch.randint(0, 2, (m, 1), generator=generator)
    return torch.cat([corners, mirrored], dim=1).numpy()


def crop_and_mirror(x: NDArray[Any], views: NDArray[np.int64]) -> NDArray[Any]:
    """Images [b, C, H, W] zero-padded by 4, cropped and mirrored by their views."""
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    rows = views[:, :1] + np.arange(height)
    columns = views[:, 1:2] + np.where(views[:, 2:] == 1, np.arange(width)[::-1], np.arange(width))
    examples = np.arange(len(x))[:, None, None, None]
    channels = np.arange(x.shape[1])[:, None, None]
    places = (examples, channels, rows[:, None, :, None], columns[:, None, None, :])
    cropped: NDArray[Any] = padded[places]
    return cropped


def learn(
    optimiser: torch.optim.Optimizer, loss: Tensor, pruned: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """One step down the loss; of each pruned weight, where its mask is set nothing moves.

    Gradients of zero keep the optimiser's state, and with it the weight, at zero.
    """
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    for weight, gone in pruned:
        if weight.grad is not None:  # None: no path leads from this layer to the scores
            weight.grad.masked_fill_(gone, 0.0)
    optimiser.step()


def evaluate(
    module: nn.Module, data: Dataset, device: str | torch.device = "cpu"
) -> tuple[float, int]:
    """Mean cross-entropy and errors in evaluation mode; a tie for the highest is an error."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    loss, errors = 0.0, 0
    try:
        with torch.inference_mode():
            starts = range(0, len(data), EVALUATION_BATCH)
            for start in progress(starts, "evaluating", "batch"):
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
    """How many rows of [b, classes] do not put the label strictly first; NaN rows are errors."""
    return ((scores >= scores.gather(1, y[:, None])).sum(dim=1) != 1).sum()
