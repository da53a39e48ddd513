"""Two-dimensional convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from cushion.nets.operations.affine import KINDS, Affine, role
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.vocabulary import Refused, Step, feature, pair, tensor, traces
from cushion.nets.operators import Conv2d
from cushion.nets.operators.conv2d import same_padding

KINDS["conv2d"] = Conv2d


@traces(nn.Conv2d, F.conv2d, torch.conv2d)
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Step:
    """Convolution with zero padding."""
    weight, bias = tensor(weight), None if bias is None else tensor(bias)
    steps, spread = pair(stride), pair(dilation)
    if padding == "same":
        zeros = same_padding((weight.shape[2], weight.shape[3]), spread)
    elif padding == "valid":
        zeros = (0, 0, 0, 0)
    else:
        high, wide = pair(padding)
        zeros = (high, high, wide, wide)
    if padding_mode != "zeros" and any(zeros):
        raise Refused(f"it pads with padding_mode={padding_mode!r}", "use padding_mode='zeros'")

    def build(shape: Shape) -> Affine:
        return Affine(Conv2d(weight, shape, steps, zeros, spread, groups), bias, "conv2d")

    return Step(role("conv2d"), (feature(x),), build)
