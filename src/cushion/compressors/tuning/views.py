"""Other views of a picture, drawn anew each time it is shown: what a class does not depend on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.specs import Shape
from cushion.training.epochs import PAD

View: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]

_TURN = math.radians(8)
_SHIFT = 0.11  # of half the side: a pixel and a half of 28
_STRETCH, _SHEAR = 0.08, 0.1


def view_named(name: str, shape: Shape) -> View | None:
    """none; moved: shifts, turns, stretches by a little; crop-flip: cropped and mirrored."""
    if name == "none":
        return None
    if len(shape) != 3:
        raise BadInput(f"`augment` = {name} is for images, and an example's shape is {shape}")
    return {"moved": moved, "crop-flip": cropped}[name]


def moved(x: Tensor, generator: torch.Generator) -> Tensor:
    """[B, C, H, W], each picture by an affine map of its own."""
    draws = torch.rand(len(x), 5, generator=generator) * 2 - 1
    turn, stretch, shear = _TURN * draws[:, 0], _STRETCH * draws[:, 1], _SHEAR * draws[:, 2]
    maps = torch.zeros(len(x), 2, 3)
    maps[:, 0, 0] = turn.cos() * (1 + stretch)
    maps[:, 0, 1] = shear - turn.sin()
    maps[:, 1, 0] = turn.sin()
    maps[:, 1, 1] = turn.cos() * (1 - stretch)
    maps[:, :, 2] = _SHIFT * draws[:, 3:]
    grid = F.affine_grid(maps, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid.to(x.dtype), align_corners=False)


def cropped(x: Tensor, generator: torch.Generator) -> Tensor:
    """[B, C, H, W], zeros around, cropped to its size anywhere, half of them mirrored."""
    count, _, height, width = x.shape
    rows = torch.randint(0, 2 * PAD + 1, (count, 1), generator=generator) + torch.arange(height)
    across = torch.arange(width).expand(count, width)
    flipped = torch.randint(0, 2, (count, 1), generator=generator) == 1
    columns = torch.randint(0, 2 * PAD + 1, (count, 1), generator=generator)
    columns = columns + torch.where(flipped, across.flip(1), across)
    padded = F.pad(x, (PAD, PAD, PAD, PAD))
    examples = torch.arange(count)[:, None, None]
    # advanced indices around a slice put the channels last
    return padded[examples, :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
