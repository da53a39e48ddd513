"""From a masked net to what is stored: one grid a layer, its non-zeros, its bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.guha.dead_units import Weighted, linked_layers, without_dead_units
from cushion.compressors.guha.grids import discretise, exponent_below, fitted, rho_limit
from cushion.compressors.guha.options import FALLBACK_BITS
from cushion.compressors.guha.pruned import Pruned
from cushion.compressors.storage.stored import Kept, Numbers, StoredLayer, Values
from cushion.compressors.storage.stored_net import StoredNet
from cushion.counter import stream
from cushion.network import Network
from cushion.operators import Diagonal, Operator

_FACTOR_BITS = 16  # of a batch-norm that could not be folded, and at most of a bias
_BIAS_FINER = 1  # bits by which a bias is finer than the weights beside it
_MOST_LEMMA_BITS = 16  # a grid on which the largest weight takes more is no compression
_ITERATIONS = 12  # that usually show a norm to be too large


@dataclass(frozen=True)
class Grid:
    """The grids of all layers: `bits` of a weight on its layer's own grid, or 2^exponent a layer (None: `bits`)."""

    bits: int = FALLBACK_BITS
    exponents: tuple[int | None, ...] | None = None

    def exponent(self, at: int) -> int | None:
        return None if self.exponents is None else self.exponents[at]


def is_pruned(operator: Operator) -> bool:
    """Whether a layer of this kind is pruned; a batch-norm that could not be folded is stored as it is."""
    return not isinstance(operator, Diagonal)


def lemma_grid(net: Network, pruned: Network, masks: Sequence[Tensor], overlaps: Sequence[int]) -> Grid:
    """The coarsest powers of two that Lemma 4.4 (corrected) allows: (ρ/2)√(J·overlap) ≤ ‖A‖₂/L - ‖Δ‖₂.

    overlaps: in how many patches of a layer a number of its input can be, 1 for a dense layer. None for a layer where
    pruning alone leaves no room, or where a weight would take more than 16 bits.
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
    return Grid(exponents=tuple(found))


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


def store_pruned(net: Network, masks: Sequence[Tensor], grid: Grid, seed: int, *, faithful: bool) -> StoredNet:
    """The masked weights of `net` on their grids, as positions and values, and the biases.

    faithful: the mask as Algorithm 1 drew it. Else what the mask and the grid leave without effect goes as well
    (`dead_units`), and a bias stands on a grid _BIAS_FINER bits finer than its layer's weights, of which it is one more
    with a constant input.
    """
    operators = [node.affine.operator for node in net.affine_layers]
    numbers = [
        _on_grid(operator.weight, mask, grid, at) if is_pruned(operator) else _precise(operator.weight)
        for at, (operator, mask) in enumerate(zip(operators, masks, strict=True))
    ]
    given = [None if node.affine.bias is None else _values(node.affine.bias) for node in net.affine_layers]
    if faithful:
        biases = [None if bias is None else Numbers.fitted(bias, _FACTOR_BITS) for bias in given]
    else:
        whole = [Weighted(part.values, bias) for part, bias in zip(numbers, given, strict=True)]
        live = without_dead_units(whole, linked_layers(net))
        numbers = [
            replace(part, integers=np.where(one.weight != 0, part.integers, 0))
            for part, one in zip(numbers, live, strict=True)
        ]
        biases = [_coarse(one.bias, part.exponent) for one, part in zip(live, numbers, strict=True)]
    layers: list[StoredLayer] = [
        Pruned.of(part) if is_pruned(operator) else Kept(part)
        for operator, part in zip(operators, numbers, strict=True)
    ]
    return StoredNet(seed, tuple(layers), tuple(biases))


def _on_grid(weight: Tensor, mask: Tensor, grid: Grid, at: int) -> Numbers:
    exponent = grid.exponent(at)
    return fitted(weight, mask, grid.bits) if exponent is None else discretise(weight, mask, exponent)


def _precise(weight: Tensor) -> Numbers:
    return Numbers.fitted(_values(weight), _FACTOR_BITS)


def _coarse(bias: Values | None, exponent: int) -> Numbers | None:
    """On the grid of its layer's weights, _BIAS_FINER bits finer; never on more than 16 bits."""
    if bias is None:
        return None
    finest = Numbers.fitted(bias, _FACTOR_BITS)
    return finest if finest.exponent >= exponent - _BIAS_FINER else Numbers.rounded(bias, exponent - _BIAS_FINER)


def _values(part: Tensor) -> Values:
    return part.detach().double().numpy()
