"""A masked net as it is stored: one grid a layer, the weights that stay, and the biases.

A grid's step is a power of two, so that a stored weight is a whole number and an exponent, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from cushion.compressors.storage.dead_units import WithBias, linked_layers, without_dead_units
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import MOST_BITS, Kept, Numbers, StoredLayer, Values
from cushion.compressors.storage.stored_net import StoredNet
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal, Operator

_BLOCK = 1 << 16  # weights rounded at a time: what is computed on the way stays in the cache
_FACTOR_BITS = 16  # of a batch-norm that could not be folded, and at most of a bias
_BIAS_FINER = 1  # bits by which a bias is finer than the weights beside it


@dataclass(frozen=True)
class Grid:
    """The grids of all layers: `bits` of a weight on its layer's own grid, or 2^exponent a layer
    (None: `bits`).
    """

    bits: int
    exponents: tuple[int | None, ...] | None = None

    def of(self, at: int, weight: Tensor, mask: Tensor) -> Numbers:
        """What the mask leaves of the weight of layer `at`, on its grid: [*weight.shape]."""
        exponent = None if self.exponents is None else self.exponents[at]
        if exponent is None:
            return fitted(weight, mask, self.bits)
        return discretise(weight, mask, exponent)


def is_pruned(operator: Operator) -> bool:
    """Whether such a layer is pruned; a batch-norm that could not be folded is not."""
    return not isinstance(operator, Diagonal)


def store_pruned(
    net: Network, masks: Sequence[Tensor], grid: Grid, seed: int, *, faithful: bool
) -> StoredNet:
    """The masked weights of `net` on their grids, as positions and values, and the biases.

    faithful: the mask as Algorithm 1 drew it. Else what the mask and the grid leave without effect
    goes as well (`dead_units`), and a bias stands on a grid _BIAS_FINER bits finer than its layer's
    weights, of which it is one more with a constant input (16 bits where no weight is left).
    """
    operators = [node.affine.operator for node in net.affine_layers]
    numbers = [
        grid.of(at, operator.weight, mask)
        if is_pruned(operator)
        else Numbers.fitted(_values(operator.weight), _FACTOR_BITS)
        for at, (operator, mask) in enumerate(zip(operators, masks, strict=True))
    ]
    given = [
        None if node.affine.bias is None else _values(node.affine.bias)
        for node in net.affine_layers
    ]
    if faithful:
        biases = [None if bias is None else Numbers.fitted(bias, _FACTOR_BITS) for bias in given]
    else:
        whole = [WithBias(part.values, bias) for part, bias in zip(numbers, given, strict=True)]
        live = without_dead_units(whole, linked_layers(net))
        numbers = [
            replace(part, integers=np.where(one.weight != 0, part.integers, 0))
            for part, one in zip(numbers, live, strict=True)
        ]
        biases = [_coarse(one.bias, part) for one, part in zip(live, numbers, strict=True)]
    layers: list[StoredLayer] = [
        Pruned.of(part) if is_pruned(operator) else Kept(part)
        for operator, part in zip(operators, numbers, strict=True)
    ]
    return StoredNet(seed, tuple(layers), tuple(biases))


def _coarse(bias: Values | None, weights: Numbers) -> Numbers | None:
    """On the grid of its layer's weights, _BIAS_FINER bits finer; never on more than 16 bits.

    A layer without weights has no grid, and its bias is all that it computes: 16 bits.
    """
    if bias is None:
        return None
    finest, exponent = Numbers.fitted(bias, _FACTOR_BITS), weights.exponent - _BIAS_FINER
    if finest.exponent >= exponent or not weights.integers.any():
        return finest
    return Numbers.rounded(bias, exponent)


def _values(part: Tensor) -> Values:
    return part.detach().double().numpy()


def discretise(weight: Tensor, mask: Tensor, exponent: int) -> Numbers:
    """The nearest multiples of 2^exponent, ties to even, [*weight.shape]; zeros where the mask is
    False.

    What the mask drops takes no part, however large it is; what stays may still round to zero.
    """
    _check_fit(weight, mask)
    values, stays = weight.detach().cpu().reshape(-1), mask.detach().cpu().reshape(-1)
    integers = np.empty(values.numel(), dtype=np.int64)
    for first in range(0, integers.size, _BLOCK):
        here = slice(first, first + _BLOCK)
        kept = values[here].masked_fill(~stays[here], 0.0).double().numpy()
        integers[here] = _rounded(kept, exponent).integers
    return Numbers(integers.reshape(tuple(weight.shape)), exponent)


def fitted(weight: Tensor, mask: Tensor, bits: int) -> Numbers:
    """On the finest grid of a power of two on which every weight that stays takes at most `bits`
    bits, with its sign.

    Zeros where the mask is False; [*weight.shape].
    """
    _check_fit(weight, mask)
    kept = weight.detach().masked_fill(~mask.to(weight.device), 0.0).abs()
    largest = np.array([float(kept.max()) if kept.numel() else 0.0])
    # the largest alone decides the grid
    return discretise(weight, mask, Numbers.fitted(largest, bits).exponent)


def _rounded(kept: Values, exponent: int) -> Numbers:
    try:
        return Numbers.rounded(kept, exponent)
    except BadInput:
        if not np.isfinite(kept).all():
            raise
        raise BadInput(
            f"on a grid of 2^{exponent} the largest weight takes more than {MOST_BITS} bits; give "
            "the bits of a weight with `grid`, such as 8"
        ) from None


def _check_fit(weight: Tensor, mask: Tensor) -> None:
    if weight.shape != mask.shape:
        raise BadInput(
            f"a mask of shape {tuple(mask.shape)} does not fit a weight of shape "
            f"{tuple(weight.shape)}"
        )
