"""Lemma 15 and Corollary C.2 (Arora 2018) simulated on a net's own convolution: sums over places,
two kinds of filter.

Both bound the moments and tails of a sum of p-wise independent terms. Truly independent filters
satisfy them; Algorithm 4's share a subspace and are not independent even two at a time, which the
variance of the sum shows first.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from cushion.compressors.projection.conv_project import Located
from cushion.compressors.projection.location_sums import location_sums
from cushion.compressors.projection.records import PlaceSums
from cushion.compressors.storage.stored_net import StoredNet
from cushion.nets.network import Network
from cushion.nets.operators.gaussian_projection import gaussian_rows

_NORMALS = 1 << 25  # that one simulation may draw: some seconds
_LEAST, _MOST = 50, 2000  # trials
_PLACES = 64
_ROWS = 4  # of U for the vectors of Corollary C.2


def simulate_places(net: Network, stored: StoredNet, seed: int) -> tuple[PlaceSums, ...]:
    """Numbers (Lemma 15) and vectors (Corollary C.2) with independent filters and with Algorithm
    4's: four records.

    On the smallest convolution whose subspace is affordable, with its own kernel, k, p and places
    (at most 64 of them). The direction U is seeded and the same at all places, as where the mean of
    a constant image is taken: there the dependence of the filters adds up. () where there is no
    such convolution.
    """
    found = [
        (layer, node)
        for layer, node in zip(stored.layers, net.affine_layers, strict=True)
        if isinstance(layer, Located) and layer.places > 1 and layer.p > 1
    ]
    found = [pair for pair in found if _LEAST * _cost(pair[0], _ROWS) <= _NORMALS]
    if not found:
        return ()
    layer, node = min(found, key=lambda pair: math.prod(pair[0].shape))
    kernel = node.affine.operator.weight.double().numpy().reshape(-1)
    places = min(layer.places, _PLACES)
    records = []
    for rows, claim in ((1, "Lemma 15"), (_ROWS, "Corollary C.2")):
        trials = max(_LEAST, min(_MOST, _NORMALS // _cost(layer, rows)))
        normals = gaussian_rows(kernel.size, 0, rows, seed, "directions of a sum over places")
        directions = np.repeat(normals[None] / math.sqrt(kernel.size), places, axis=0)
        kinds: tuple[Literal["independent", "algorithm 4"], ...] = ("independent", "algorithm 4")
        for filters in kinds:
            one = location_sums(kernel, directions, layer.k, layer.p, filters, trials, seed)
            records.append(
                PlaceSums(
                    claim=claim,
                    layer=node.name,
                    filters=filters,
                    k=one.k,
                    p=one.p,
                    places=one.places,
                    trials=one.trials,
                    moment_ratio=one.moment_ratio,
                    tail_ratio=max(seen / promised for _, seen, promised in one.tails),
                    variance_ratio=one.variance_ratio,
                    variance_error=one.variance_error,
                    pair_correlation=one.pair_correlation,
                    pair_error=one.pair_error,
                )
            )
    return tuple(records)


def _cost(layer: Located, rows: int) -> int:
    """Normals of one trial."""
    n = int(np.prod(layer.shape))
    return layer.k * layer.p * n + min(layer.places, _PLACES) * (1 + rows) * (layer.k + n)
