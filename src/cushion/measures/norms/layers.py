"""Norms of every affine layer: of its parameters, and of the true linear map that they define."""

from __future__ import annotations

import torch

from cushion.measures.norms.groups import distance_from_initialisation, group_norms
from cushion.measures.norms.records import LayerNorms
from cushion.nets.network import Network
from cushion.nets.operations import Affine


def layer_norms(
    layer: Affine, initial: Affine | None = None, *, trace_norms: bool = True, seed: int = 0
) -> LayerNorms:
    """Norms of one layer, and of what training changed in it. The reshaped kernel is never used in
    place of a convolution: it underestimates ‖A‖₂.
    """
    operator = layer.operator
    spectral, frobenius = operator.spectral(), operator.operator_frobenius()
    return LayerNorms(
        frobenius=operator.frobenius(),
        operator_frobenius=frobenius,
        spectral=spectral,
        spectral_upper=operator.spectral_upper(),
        stable_rank=(frobenius / spectral) ** 2 if spectral > 0 else None,
        group_norms=group_norms(operator, trace_norms=trace_norms, seed=seed),
        distance=None if initial is None else distance_from_initialisation(layer, initial),
    )


def squared_distance(net: Network, other: Network | None = None) -> float:
    """‖w - w₀‖² over all weights and biases, in float64; w₀ = 0 without another net."""
    total = 0.0
    others = (
        [None] * len(net.affine_layers)
        if other is None
        else [node.affine for node in other.affine_layers]
    )
    for node, start in zip(net.affine_layers, others, strict=True):
        weight, bias = node.affine.operator.weight.double(), node.affine.bias
        total += float(
            (weight if start is None else weight - start.operator.weight.double()).square().sum()
        )
        first = None if start is None else start.bias
        if bias is not None or first is not None:
            zero = torch.zeros(node.shape[0], dtype=torch.float64)
            ours, theirs = (zero if part is None else part.double() for part in (bias, first))
            total += float((ours - theirs).square().sum())
    return total
