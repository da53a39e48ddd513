"""How fine a grid each weight gets, when all share one: units of layers and channels are free.

A channel may carry its values in any unit if the weights that read it undo that: positive factors
pass through ReLU and pooling. So each weight may be stretched by (unit of its layer) x (unit of its
output channel) / (unit of its input channel) before it is rounded. Rounding a weight that was
stretched by s costs the loss about need/(24 s²), need being the loss's curvature, and log2 s bits.
At a given number of bits the loss is smallest where Σ need/s² is, divided by the squared geometric
mean of s: a convex function of the logarithms of the units (a sum of exponentials), minimised by
L-BFGS. The same exchange, bits for loss, holds for all weights then; rounding each layer to the
same number of steps instead costs more of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cushion.certificates.format.layers import Conv, Pool
from cushion.certificates.format.limits import Stage

_DAMPING = 0.05  # of a layer's mean need is added to each: estimates of small ones vary
_IDLE = 1e-4  # of all layers' mean need · weight², for each: see `_damped`
_HOLD_BACK = 1e-3  # keeps units that nothing determines near 1


@dataclass(frozen=True)
class Stretch:
    """A layer's factor, those of its output channels, and how far each weight is stretched."""

    layer: float
    channels: Tensor  # [outputs]
    each: Tensor  # as the weights


def balanced(
    stages: list[Stage], weights: list[Tensor], needs: list[Tensor], spread: float
) -> tuple[list[Stretch], float]:
    """The stretches of layers with weights, in order, and the mean need of a stretched weight.

    stages: the blueprint's. weights: stored numbers by layer, zero where pruned. needs: squared
    gradients, alike. spread: root mean square of all kept weights once stretched, in steps of the
    grid.
    """
    layered = [stage for stage in stages if not isinstance(stage.layer, Pool)]
    kept = torch.cat([(w != 0).reshape(-1) for w in weights])
    pairs = list(zip(needs, weights, strict=True))
    worth = sum(float((n * w.square()).sum()) for n, w in pairs) / max(1, int(kept.sum()))
    need = torch.cat([_damped(n, w, worth).reshape(-1) for n, w in pairs])[kept].log()
    layers = torch.tensor([-_log_size(w) for w in weights], dtype=torch.float64, requires_grad=True)
    channels = [torch.zeros(len(w), dtype=torch.float64, requires_grad=True) for w in weights[:-1]]
    # scores of all classes are compared: one unit
    fixed = torch.zeros(len(weights[-1]), dtype=torch.float64)
    start = layers.detach().clone()
    optimiser = torch.optim.LBFGS([layers, *channels], max_iter=300, line_search_fn="strong_wolfe")

    def stretched() -> list[Tensor]:
        """Logarithms of the stretches, in the shapes of the weights."""
        before = torch.zeros(layered[0].before.shape[0], dtype=torch.float64)
        found = []
        for stage, weight, layer, own in zip(
            layered, weights, layers, [*channels, fixed], strict=True
        ):
            step = layer + _along_outputs(own, weight) - _along_inputs(before, weight, stage)
            found.append(step.expand(weight.shape))
            before = own
        return found

    def loss() -> Tensor:
        optimiser.zero_grad()
        steps = torch.cat([found.reshape(-1) for found in stretched()])[kept]
        value = torch.logsumexp(need - 2.0 * (steps - steps.mean()), 0)
        for units in (layers - start, *channels):
            value = value + _HOLD_BACK * units.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    if int(kept.sum()):
        optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        found = stretched()
        sizes = [(w * s.exp()).reshape(-1) for w, s in zip(weights, found, strict=True)]
        common = math.log(spread) - _log_size(torch.cat(sizes)[kept])
        steps = torch.cat([s.reshape(-1) for s in found])[kept] + common
        stretches = [
            Stretch(math.exp(float(layer) + common), own.exp().float(), (s + common).exp().float())
            for layer, own, s in zip(layers, [*channels, fixed], found, strict=True)
        ]
        return stretches, float((need - 2.0 * steps).exp().mean()) if len(steps) else 1.0


def _damped(need: Tensor, weight: Tensor, worth: float) -> Tensor:
    """In double precision, none zero or far below the mean of the kept weights' needs.

    worth: the mean need · weight² of all layers. A layer that the loss does not mind at all (cut
    off by pruning) would shrink without end, and with it the units of all that follow.
    """
    need, kept = need.double(), weight != 0
    mean = float(need[kept].mean()) if bool(kept.any()) else 0.0
    return need + _DAMPING * mean + _IDLE * worth * math.exp(-2.0 * _log_size(weight)) + 1e-30


def _log_size(values: Tensor) -> float:
    """Logarithm of the root mean square of what is not zero; 0 where nothing is left."""
    total, count = float(values.double().square().sum()), int((values != 0).sum())
    return 0.5 * math.log(total / count) if total else 0.0


def _along_outputs(units: Tensor, weight: Tensor) -> Tensor:
    return units.reshape(-1, *[1] * (weight.ndim - 1))


def _along_inputs(units: Tensor, weight: Tensor, stage: Stage) -> Tensor:
    """Of the channels that a layer reads, along its weights: [outputs, inputs, ...]."""
    if isinstance(stage.layer, Conv) and not stage.layer.groups:
        return _along_outputs(units, weight)
    # A flattened or unfolded input has several entries a channel, next to each other.
    several = weight.shape[1] // len(units)
    return units.repeat_interleave(several).reshape(1, -1, *[1] * (weight.ndim - 2))
