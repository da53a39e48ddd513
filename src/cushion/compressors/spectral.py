"""Lemmas 1 and 9 (Arora 2018): how far a net moves when every layer's map moves by a known spectral
norm.

Lemma 9: if ‖Δ^i‖₂ ≤ ‖A^i‖₂/d for every layer, then ‖f̂(x) - f(x)‖ ≤
e·‖x‖·∏L_i‖A^i‖₂·Σ‖Δ^i‖₂/‖A^i‖₂, with L_i the Lipschitz constant of what follows layer i. A net with
biases is one without on (x, 1): each layer then is [[A, b], [0, 1]] (the last [A, b]), and Δ = [[Â
- A, b̂ - b], [0, 0]].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.nets.network import Network
from cushion.nets.operations import Affine
from cushion.nets.operators import FlatMap
from cushion.theorems.facts import NetFacts, lifted_spectral


@dataclass(frozen=True)
class LayerShift:
    """One layer: ‖Â - A‖₂ from above, ‖A‖₂ from below, and both lifted to (x, 1) from above."""

    shift: float
    spectral: float
    lifted_shift: float
    lifted: float

    @property
    def relative(self) -> float:
        """‖Â - A‖₂/‖A‖₂, erring upwards."""
        if self.spectral == 0:
            return 0.0 if self.shift == 0 else math.inf
        return self.shift / self.spectral


def layer_shifts(net: Network, compressed: Network, facts: NetFacts) -> list[LayerShift]:
    """Every layer's shift, of the true maps."""
    found = []
    for at, (node, layer) in enumerate(zip(net.affine_layers, facts.layers, strict=True)):
        mine, other = node.affine, compressed.nodes[node.index].affine
        shift = _shift(mine, other)
        moved = math.hypot(shift, _bias_shift(mine, other, math.prod(node.shape[1:])))
        lifted = lifted_spectral(layer, facts.has_bias, last=at == len(facts.layers) - 1)
        found.append(LayerShift(shift, layer.spectral, moved, lifted))
    return found


def _shift(mine: Affine, other: Affine) -> float:
    """At least ‖Â - A‖₂."""
    if type(mine.operator) is type(other.operator):
        return other.operator.minus(mine.operator).spectral_upper()
    ours, theirs = (one.operator.to(torch.float64) for one in (mine, other))
    moved = FlatMap(theirs.dense() - ours.dense(), ours.input_shape, ours.output_shape)
    return moved.spectral_upper()


def _bias_shift(mine: Affine, other: Affine, places: int) -> float:
    """‖b̂ - b‖₂ over all units."""
    if mine.bias is None and other.bias is None:
        return 0.0
    zero = torch.zeros((), dtype=torch.float64)
    ours, theirs = (zero if one.bias is None else one.bias.double() for one in (mine, other))
    return float(torch.linalg.vector_norm(theirs - ours)) * math.sqrt(places) * (1 + 1e-12)


def lemma_9(
    shifts: list[LayerShift], facts: NetFacts, inputs: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The promised ‖f̂(x) - f(x)‖, [n]; None where a layer moved by more than ‖A‖₂/d."""
    if any(shift.lifted_shift > shift.lifted / facts.depth for shift in shifts):
        return None
    logs = [math.log(shift.lifted) if shift.lifted > 0 else -math.inf for shift in shifts]
    steps = [facts.log_step(layer) for layer in facts.layers]
    product = math.exp(math.fsum(logs) + math.fsum(steps))
    total = math.fsum(shift.lifted_shift / shift.lifted for shift in shifts if shift.lifted > 0)
    sizes = np.hypot(inputs, 1.0) if facts.has_bias else inputs
    return np.asarray(math.e * product * total * (1 + 1e-9) * sizes * first_step(facts))


def first_step(facts: NetFacts) -> float:
    """The Lipschitz constant of what stands before the first layer."""
    return max(1.0, facts.first_lipschitz) if facts.has_bias else facts.first_lipschitz


def accuracy_for(gamma: float, facts: NetFacts, longest: float) -> float:
    """δ = γ/(√2·e·max‖x‖·d·∏L‖A‖₂), at most 1/d: Lemma 1 at this δ in every layer keeps ‖f̂ - f‖₂ ≤
    γ/√2 (Thm 2.2).
    """
    biased, final = facts.has_bias, facts.layers[-1]
    norms = [lifted_spectral(one, biased, last=one is final) for one in facts.layers]
    size = (math.hypot(longest, 1.0) if facts.has_bias else longest) * first_step(facts)
    if not all(one > 0 for one in (*norms, size)):
        return 1.0 / facts.depth  # the scores are 0 whatever the other layers do
    total = math.fsum(map(math.log, norms)) + math.fsum(map(facts.log_step, facts.layers))
    log_delta = math.log(gamma) - total - math.log(math.sqrt(2.0) * math.e * size * facts.depth)
    return min(1.0 / facts.depth, math.exp(min(max(log_delta, -700.0), 0.0)))
