"""Discretisation (Guha 2023, Lemma 4.4): how coarse a grid may be.

A = Â + Δ is the layer, Â what pruning leaves, Ã = Â rounded to the nearest multiples of ρ. The
perturbation bound needs ‖A - Ã‖₂ ≤ ‖A‖₂/L. An entry moves by at most ρ/2, and only the J that
stayed move, so ‖Ã - Â‖₂ ≤ ‖Ã - Â‖_F ≤ (ρ/2)√J: the paper's ρJ is 2√J times as much. A convolution's
map reads a number of its input at up to `overlap` places, which multiplies the squared norm of a
map over that of its kernel's matrix by at most as much.

A stored grid's ρ is a power of two (`storage.pruned`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.perturbations import overlap
from cushion.compressors.pruning.method import FALLBACK_BITS
from cushion.compressors.storage.pruned import Grid, is_pruned
from cushion.compressors.storage.stored import grid_within
from cushion.data.counter import stream
from cushion.nets.network import Network, Node
from cushion.nets.operators import Operator

_MOST_LEMMA_BITS = 16  # a grid on which the largest weight takes more is no compression
_ITERATIONS = 12  # that usually show a norm to be too large


def rho_limit_printed(
    spectral: float, layers: int, epsilon_l: float, gamma_l: float, nonzeros: int
) -> float:
    """(‖A‖₂/L - ε_lΓ_l)/J, as Lemma 4.4 has it; not positive where no grid satisfies it."""
    return (spectral / layers - epsilon_l * gamma_l) / max(nonzeros, 1)


def rho_limit(spectral: float, layers: int, shift: float, nonzeros: int, overlap: int = 1) -> float:
    """2(‖A‖₂/L - ‖Δ‖₂)/√(J·overlap): Lemma 4.4 with the shift itself and what rounding can do.

    Up to this step ‖A - Ã‖₂ ≤ ‖A‖₂/L; not positive where pruning alone took more than that. J
    counts what stayed before rounding: a weight that rounds to zero has moved too. A layer of which
    nothing stayed counts as J = 1.
    """
    return 2.0 * (spectral / layers - shift) / math.sqrt(max(nonzeros, 1) * overlap)


def rounding_limit(rho: float, nonzeros: int, overlap: int = 1) -> float:
    """(ρ/2)√(J·overlap), which ‖Ã - Â‖₂ cannot exceed; J counts what stayed before rounding."""
    return rho / 2.0 * math.sqrt(nonzeros * overlap)


def lemma_grid(net: Network, pruned: Network, masks: Sequence[Tensor]) -> Grid:
    """The coarsest powers of two that Lemma 4.4 (corrected) allows: (ρ/2)√(J·overlap) ≤ ‖A‖₂/L -
    ‖Δ‖₂.

    None for a layer where pruning alone leaves no room, or where a weight would take more than 16
    bits.
    """
    depth = len(net.affine_layers)

    def exponent(node: Node, kept: int) -> int | None:
        operator = node.affine.operator
        if not is_pruned(operator):
            return None
        moved, whole = pruned.nodes[node.index].affine.operator.minus(operator), operator.spectral()
        if depth * norm_at_least(moved) >= whole:
            return None
        step = rho_limit(whole, depth, moved.spectral(), kept, overlap(operator))
        largest = float(operator.weight.abs().max())
        fits = step > 0 and math.isfinite(step) and largest < 2.0 ** (_MOST_LEMMA_BITS - 2) * step
        return grid_within(step) if fits else None

    kept = [int(mask.sum()) for mask in masks]
    return Grid(FALLBACK_BITS, tuple(map(exponent, net.affine_layers, kept)))


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
