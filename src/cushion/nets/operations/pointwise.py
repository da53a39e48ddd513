"""Operations on each number alone: the batch itself, ReLU, and what changes nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.operations.operation import Masked, Operation, Shape
from cushion.nets.operations.vocabulary import Feature, Refused, Step, feature, traces


@dataclass(frozen=True, eq=False)
class Input(Operation):
    """Where the net begins: its node reads no other, and nobody computes it."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class ReLU(Operation):
    """max(x, 0); at exactly 0 it counts as inactive."""

    unitwise: ClassVar[bool] = True

    def __call__(self, x: Tensor) -> Tensor:
        return F.relu(x)

    def linearise(self, x: Tensor) -> tuple[Tensor, Masked]:
        return F.relu(x), Masked((x > 0).to(x.dtype))

    def decisions(self, shape: Shape) -> int:
        """One a unit."""
        return math.prod(shape)


@traces(nn.ReLU, F.relu, torch.relu, "relu")
def relu(x: Any, inplace: bool = False) -> Step:
    return Step("relu", (feature(x),), lambda _: ReLU(), in_place=inplace)


traces(F.relu_, torch.relu_, "relu_")(partial(relu, inplace=True))


@traces(nn.Identity, "contiguous", "clone", "detach")
def unchanged(x: Any, *_: Any, **__: Any) -> Feature:
    """The same numbers: the net gets no node for it."""
    return feature(x)


@traces(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)
@traces(F.dropout, F.dropout2d, F.alpha_dropout, torch.dropout)
def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Feature:
    """Nothing in eval mode, which functional dropout does not know about by itself."""
    if training and p > 0:
        raise Refused("it also drops units in eval mode", "pass training=self.training")
    return feature(x)
