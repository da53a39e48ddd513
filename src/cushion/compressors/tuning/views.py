"""Other views of a picture, drawn anew each time it is shown: what a class does not depend on.

Crops and mirrors are those of `training.epochs.batches`.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.specs import Shape

Augment: TypeAlias = Literal["none", "moved", "crop-flip"]

_TURN = math.radians(8)
_SHIFT = 0.11  # of half the side: a pixel and a half of 28
_STRETCH, _SHEAR = 0.08, 0.1


def check_augment(name: Augment, shape: Shape) -> None:
    if name != "none" and len(shape) != 3:
        raise BadInput(f"`augment` = {name} is for images, and an example's shape is {shape}")


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
