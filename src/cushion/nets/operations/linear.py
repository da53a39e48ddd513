"""Dense layers."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.operations.affine import KINDS, Affine, role
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.vocabulary import Refused, Step, feature, tensor, traces
from cushion.nets.operators import Linear

KINDS["linear"] = Linear


@traces(nn.Linear, F.linear)
def linear(x: Any, weight: Any, bias: Any = None) -> Step:
    """x Wᵀ + b on vectors."""
    weight, bias = tensor(weight), None if bias is None else tensor(bias)

    def build(shape: Shape) -> Affine:
        if len(shape) != 1:
            raise Refused(
                f"it reads the last axis of a feature map of shape {shape}, once per position",
                "flatten the map before it, or use a 1x1 Conv2d",
            )
        if shape[0] != weight.shape[1]:
            raise BadInput(
                f"it reads {weight.shape[1]} numbers but gets {shape[0]}; check the input shape"
            )
        return Affine(Linear(weight), bias, "linear")

    return Step(role("linear"), (feature(x),), build)
