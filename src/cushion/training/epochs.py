"""What one epoch feeds to the net: the examples' order, batches and augmentation, all seeded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data.dataset import Dataset
from cushion.nets.batches import as_floats, mix_seed

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
    cropped: NDArray[Any] = padded[
        examples, channels, rows[:, None, :, None], columns[:, None, None, :]
    ]
    return cropped
