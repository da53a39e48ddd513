"""What replacing tries: every threshold that was asked for with every variance and grid; and how it
is stored: kept weights on a grid, √t on a finer one, biases, seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.method import Candidate
from cushion.compressors.noise.method import HeavyTailOptions
from cushion.compressors.noise.replacement import (
    Replacement,
    choose_layers,
    replace_layer,
    standard_deviations,
    threshold_within,
)
from cushion.compressors.noise.spiked import Spiked, on_a_grid
from cushion.compressors.storage.pruned import Grid, Pruned, store_pruned
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.storage.stored_net import StoredNet, places
from cushion.compressors.subject import Subject
from cushion.errors import BadInput
from cushion.nets.network import Network, Node
from cushion.theorems.heavy_tails import spread_allowed, spread_allowed_printed

_LAW_BITS = 10  # of √t: to a relative 2^-9
_PAIR_BITS = 16  # of deviation and mean on one grid


@dataclass(frozen=True, eq=False)
class ReplacedNet:
    """One replacement of a net.

    replacements: one a layer, None for a layer that is left as it is; deviations: σ of the others.
    asked_t: t as it was asked for. bits: of a kept weight.
    """

    replacements: tuple[Replacement | None, ...]
    deviations: tuple[float | None, ...]
    asked_t: float
    bits: int


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Every setting with every grid."""
    net, options, seed = subject.net, subject.options, subject.seed
    deviations = standard_deviations(net, choose_layers(net, options.chosen_layers))
    for asked, tau, t in options.asked:
        replaced = tuple(
            None if deviation is None else _replaced(node, options, tau, deviation, t)
            for node, deviation in zip(net.affine_layers, deviations, strict=True)
        )
        gone = sum(one.mask.numel() - one.kept for one in replaced if one is not None)
        if 2 * (net.parameters - gone) > MOST_NUMBERS:
            many = f"{asked} leaves more weights than the {MOST_NUMBERS // 2} of a file"
            raise BadInput(f"{many}; use a larger `tau`")
        counts = {"kept": sum(one.kept for one in replaced if one is not None)}
        for bits in _grids(net, options, replaced, seed):
            stored = store_replaced(net, replaced, bits, seed)
            made = ReplacedNet(replaced, deviations, t, bits)
            yield Candidate(stored, asked, f"{bits} bits", counts, made)


def _grids(
    net: Network, options: HeavyTailOptions, replaced: Sequence[Replacement | None], seed: int
) -> Iterator[int]:
    """The grids that are tried; for a given ε those that round no layer by more, and the finest."""
    for bits in options.grids:
        if options.epsilon is not None and bits != options.grids[-1]:
            layers = store_replaced(net, replaced, bits, seed, faithful=True).layers
            moved = map(rounding, net.affine_layers, replaced, layers)
            if max(moved) > options.epsilon:
                continue
        yield bits


def _replaced(
    node: Node, options: HeavyTailOptions, tau: float | None, deviation: float, t: float
) -> Replacement:
    operator, form, epsilon, eta = node.affine.operator, options.form, options.epsilon, options.eta
    if tau is not None:
        return replace_layer(operator.weight, form, tau * deviation, t)
    assert epsilon is not None
    assert eta is not None
    norm = operator.frobenius()
    budget = spread_allowed(epsilon, eta, norm)
    if form == "algorithm":
        budget = spread_allowed_printed(epsilon * norm, eta, "main text")
    within = threshold_within(operator.weight, form, budget, t)
    return replace_layer(operator.weight, form, within, t)


def rounding(node: Node, one: Replacement | None, stored: StoredLayer) -> float:
    """‖B̂ - B‖_F/‖W‖_F of what stays in a layer, every kept weight stored; 0 for zeros."""
    weight = node.affine.operator.weight.double().numpy()
    norm = float(np.linalg.norm(weight))
    kept = weight if one is None else np.where(one.mask.numpy(), weight, 0.0)
    return float(np.linalg.norm(kept_values(stored) - kept)) / norm if norm > 0 else 0.0


def kept_values(layer: StoredLayer) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What is stored of a weight, without the noise."""
    return layer.kept.weight(0) if isinstance(layer, Spiked) else layer.weight(0)


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
    law, bits = [math.sqrt(one.t)], _LAW_BITS
    if not one.everywhere:
        law, bits = [*law, one.mean], _PAIR_BITS
    return Spiked(layer, on_a_grid(np.array(law), bits), place)
