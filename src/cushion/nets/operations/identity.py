"""What changes nothing in eval mode: the net gets no node for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from cushion.nets.operations.vocabulary import Feature, Refused, feature, traces


@traces(nn.Identity, "contiguous", "clone", "detach")
def unchanged(x: Any, *_: Any, **__: Any) -> Feature:
    """The same numbers."""
    return feature(x)


@traces(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)
@traces(F.dropout, F.dropout2d, F.alpha_dropout, torch.dropout)
def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Feature:
    """Functional dropout does not know about eval mode by itself."""
    if training and p > 0:
        raise Refused("it also drops units in eval mode", "pass training=self.training")
    return feature(x)
