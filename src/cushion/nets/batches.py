"""What one epoch feeds to the net: the order of the examples, their batches and augmentation, all
seeded.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PAD = 4  # zeros on each side of an image before it is cropped


def mix_seed(seed: int, epoch: int, purpose: str) -> int:
    """The seed of one stream of one epoch."""
    digest = hashlib.sha256(f"{purpose} {seed} {epoch}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def batch_bounds(m: int, batch: int) -> list[tuple[int, int]]:
    """Consecutive batches; a last one of a single example joins the one before (batch-norm needs
    two).
    """
    starts = list(range(0, m, batch))
    if len(starts) > 1 and m - starts[-1] == 1 and batch > 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], m], strict=True))


def draw_views(m: int, generator: torch.Generator) -> NDArray[np.int64]:
    """[m, 3]: for every example the crop's row and column in the padded image, and whether it is
    mirrored.
    """
    corners = torch.randint(0, 2 * PAD + 1, (m, 2), generator=generator)
    mirrored = torch.randint(0, 2, (m, 1), generator=generator)
    return torch.cat([corners, mirrored], dim=1).numpy()


def crop_and_mirror(x: NDArray[Any], views: NDArray[np.int64]) -> NDArray[Any]:
    """Images [b, C, H, W] zero-padded by 4 and cropped and mirrored by their views; the dtype
    stays.
    """
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


def as_floats(x: NDArray[Any]) -> Tensor:
    """A batch as the net reads it: uint8 divided by 255, floats as they are; in memory that torch
    aligned.

    Matrix products may round differently by alignment, so numpy's memory would break bit-identical
    resuming.
    """
    batch = torch.from_numpy(
        np.require(x, requirements="W")
    )  # torch warns about memory-mapped, read-only rows
    return batch.float().div_(255) if batch.dtype == torch.uint8 else batch.clone()
