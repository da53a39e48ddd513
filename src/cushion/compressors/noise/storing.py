"""From replacements to what is stored: kept weights on a grid, √t on a finer one, biases, seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from cushion.compressors.noise.replacement import Replacement
from cushion.compressors.noise.spiked import Spiked, on_a_grid
from cushion.compressors.storage.pruned import Grid, Pruned, store_pruned
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.storage.stored_net import StoredNet, places
from cushion.nets.network import Network

_LAW_BITS = 10  # of √t: to a relative 2^-9
_PAIR_BITS = 16  # of deviation and mean on one grid


def store_replaced(
    net: Network,
    replacements: Sequence[Replacement | None],
    bits: int,
    seed: int,
    *,
    faithful: bool = False,
) -> StoredNet:
    """`bits` of a kept weight on its layer's own grid; of a layer without a replacement every
    weight is kept.

    Without any noise this is what pruning stores: units that it left without inputs or readers go
    as well, unless `faithful`. With noise no unit is without inputs, and the biases take 16 bits.
    """
    masks = [
        torch.ones(node.affine.operator.weight.shape, dtype=torch.bool) if one is None else one.mask
        for node, one in zip(net.affine_layers, replacements, strict=True)
    ]
    noisy = any(one is not None and one.is_random for one in replacements)
    plain = store_pruned(net, masks, Grid(bits), seed, faithful=faithful or noisy)
    layers = [
        layer if one is None or not one.is_random else _spiked(layer, one, place)
        for layer, one, place in zip(plain.layers, replacements, places(net), strict=True)
    ]
    return replace(plain, layers=tuple(layers))


def _spiked(layer: StoredLayer, one: Replacement, place: int) -> Spiked:
    assert isinstance(layer, Pruned)
    deviation = math.sqrt(one.t)
    if one.everywhere:
        return Spiked(layer, on_a_grid(np.array([deviation]), _LAW_BITS), place)
    return Spiked(layer, on_a_grid(np.array([deviation, one.mean]), _PAIR_BITS), place)
