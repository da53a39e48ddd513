"""The grids that Lemma 4.4 (Guha 2023) allows the layers of a pruned net."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.pruning.grids import exponent_below, rho_limit
from cushion.compressors.pruning.options import FALLBACK_BITS
from cushion.compressors.storage.pruned import Grid, is_pruned
from cushion.data.counter import stream
from cushion.nets.network import Network
from cushion.nets.operators import Operator

_MOST_LEMMA_BITS = 16  # a grid on which the largest weight takes more is no compression
_ITERATIONS = 12  # that usually show a norm to be too large


def lemma_grid(
    net: Network, pruned: Network, masks: Sequence[Tensor], overlaps: Sequence[int]
) -> Grid:
    """The coarsest powers of two that Lemma 4.4 (corrected) allows: (ρ/2)√(J·overlap) ≤ ‖A‖₂/L -
    ‖Δ‖₂.

    overlaps: in how many patches of a layer a number of its input can be, 1 for a dense layer. None
    for a layer where pruning alone leaves no room, or where a weight would take more than 16 bits.
    """
    depth = len(net.affine_layers)
    found: list[int | None] = []
    for node, mask, overlap in zip(net.affine_layers, masks, overlaps, strict=True):
        operator = node.affine.operator
        if not is_pruned(operator):
            found.append(None)
            continue
        moved = pruned.nodes[node.index].affine.operator.minus(operator)
        whole = operator.spectral()
        if depth * norm_at_least(moved) >= whole:
            found.append(None)
            continue
        step = rho_limit(whole, depth, moved.spectral(), int(mask.sum()), overlap)
        largest = float(operator.weight.abs().max())
        fits = step > 0 and math.isfinite(step) and largest < 2.0 ** (_MOST_LEMMA_BITS - 2) * step
        found.append(exponent_below(step) if fits else None)
    return Grid(FALLBACK_BITS, tuple(found))


def norm_at_least(operator: Operator) -> float:
    """A quick lower bound on ‖A‖₂: some steps of the power method, from a fixed start."""
    raw = stream("power method", 0, operator.input_size)
    signs = torch.from_numpy(np.where(raw >> np.uint64(63), 1.0, -1.0))
    vector = signs.to(operator.weight.dtype).reshape(1, *operator.input_shape)
    norm = 0.0
    for _ in range(_ITERATIONS):
        size = float(torch.linalg.vector_norm(vector))
        if not size > 0:
            return norm
        image = operator.apply(vector / size)
        norm = max(norm, float(torch.linalg.vector_norm(image)))
        vector = operator.adjoint(image)
    return norm * (1 - 1e-5)  # the products were rounded, in float32 perhaps
