"""W -> W(t) = √t·G + B (Shin 2021, §3.2, Algorithm 1, Appendix E): which weights stay, and what
stands for the others.

Three forms. "corrected" keeps |w| > τ, so that what goes is at most τ in size, as Proposition 1.1
needs it. "algorithm" keeps w > τ as printed: every negative weight goes, however large. "appendix"
is Appendix E as printed: w ≤ σ goes, signed again, and each of them becomes a draw from N(mean, σ²)
with the layer's own mean and σ; the others are not touched. In the first two √t·G is added
everywhere, also to what stays; t = 0 is pruning by magnitude.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.noise.method import Form
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal, Linear

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Replacement:
    """What happens to one layer.

    mask: True where the weight stays, bool [*shape]. tau: τ itself. t: the variance of the noise;
    mean: that of the draws of Appendix E, 0 otherwise. everywhere: √t·G is added to what stays too.
    removed_mean, removed_largest: mean and largest magnitude of what goes, 0 where nothing does.
    """

    mask: Tensor
    tau: float
    t: float
    mean: float
    everywhere: bool
    removed_mean: float
    removed_largest: float

    @property
    def kept(self) -> int:
        return int(self.mask.sum())

    @property
    def is_random(self) -> bool:
        return self.t > 0


def spread(weight: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of all entries (divided by their number), in float64."""
    values = _values(weight)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        deviation = float(np.sqrt(np.square(values - mean).mean()))
    if values.min() == values.max():
        why = f"all its {values.size} weights are equal, so that no threshold parts them"
        raise BadInput(f"{why}; leave it out with `layers`")
    if not math.sqrt(sys.float_info.min) <= deviation < math.inf:
        why = "the spread of its weights leaves the range of float64"
        raise BadInput(f"{why}; scale the net's weights")
    return mean, deviation


def replace_layer(weight: Tensor, form: Form, tau: float, t: float) -> Replacement:
    """tau: τ itself; t: in mean squares of what goes, if anything does. "appendix" uses neither."""
    values, mean = _values(weight), 0.0
    if form == "appendix":
        mean, tau = spread(weight)
    stays = (np.abs(values) if form == "corrected" else values) > tau
    gone = values[~stays]
    square = float(np.square(gone).mean()) if gone.size else 0.0
    variance = t * square
    if form == "appendix":
        variance = tau * tau if gone.size else 0.0
    mask = torch.from_numpy(stays).reshape(weight.shape)
    removed = float(gone.mean()) if gone.size else 0.0, float(np.abs(gone).max(initial=0.0))
    return Replacement(mask, tau, variance, mean, form != "appendix", *removed)


def threshold_within(weight: Tensor, form: Form, budget: float, t: float) -> float:
    """The largest τ among the weights with τ² + t ≤ budget, t in mean squares of what goes; 0 where
    there is none.

    Only the weights' own sizes matter: between two of them the same ones go, and the smaller τ
    promises more.
    """
    values = _values(weight)
    ordered = np.sort(np.abs(values) if form == "corrected" else values)
    square = np.cumsum(np.square(ordered)) / np.arange(1, ordered.size + 1)
    last = np.append(ordered[1:] > ordered[:-1], True)  # of equal ones all go
    fits = last & (ordered > 0) & (np.square(ordered) + t * square <= budget)
    return float(ordered[fits].max(initial=0.0))


def choose_layers(net: Network, names: Sequence[str]) -> tuple[bool, ...]:
    """Whether each affine layer is replaced; BadInput where a name is none of them."""
    free = [node for node in net.affine_layers if not isinstance(node.affine.operator, Diagonal)]
    known = [node.name for node in free]
    if not free:
        raise BadInput("the net has no dense or convolutional layer, so nothing to replace")
    if tuple(names) == ("all",):
        names = known
    elif tuple(names) == ("last",):
        names = [node.name for node in free if isinstance(node.affine.operator, Linear)][-1:]
        if not names:
            why = "`layers` = last is the final dense layer, and the net has none"
            raise BadInput(f"{why}; name a layer")
    for name in names:
        if name not in known:
            why = f"`layers` = {name}: the net has no such layer to replace"
            raise BadInput(f"{why}; it has {', '.join(known)}")
    return tuple(node.name in names for node in net.affine_layers)


def standard_deviations(net: Network, chosen: Sequence[bool]) -> tuple[float | None, ...]:
    """σ of every layer that is replaced; BadInput names a layer that has none."""
    found: list[float | None] = []
    for node, take in zip(net.affine_layers, chosen, strict=True):
        try:
            found.append(spread(node.affine.operator.weight)[1] if take else None)
        except BadInput as problem:
            raise BadInput(f"layer {node.name}: {problem}") from None
    return tuple(found)


def _values(weight: Tensor) -> NDArray[Any]:
    """All entries, row by row, in float64."""
    found: Floats = weight.detach().cpu().to(torch.float64).numpy().reshape(-1)
    return found
