"""Batch-norm in eval mode: one factor and one shift per channel."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.operations.affine import KINDS, Affine, role
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.vocabulary import Refused, Step, feature, tensor, traces
from cushion.nets.operators import Diagonal

KINDS["batchnorm"] = Diagonal


@traces(nn.BatchNorm1d, nn.BatchNorm2d, F.batch_norm)
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Step:
    """γ (x - mean) / √(var + ε) + β with fixed statistics."""
    del momentum
    if training or running_mean is None or running_var is None:
        raise Refused(
            "it normalises with the statistics of each batch, also in eval mode",
            "use track_running_stats=True and train it so that running statistics exist",
        )
    scale = torch.rsqrt(tensor(running_var) + eps)
    if weight is not None:
        scale = scale * tensor(weight)
    shift = -tensor(running_mean) * scale
    if bias is not None:
        shift = shift + tensor(bias)

    def build(shape: Shape) -> Affine:
        if len(shape) not in (1, 3):
            raise Refused(
                f"it normalises a feature map of shape {shape}",
                "use it on vectors or on (channels, height, width)",
            )
        if shape[0] != len(scale):
            raise BadInput(
                f"it reads {len(scale)} channels but gets {shape[0]}; check the input shape"
            )
        return Affine(Diagonal(scale, shape), shift, "batchnorm")

    return Step(role("batchnorm"), (feature(x),), build)
