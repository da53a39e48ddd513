"""What replacing tries: every threshold that was asked for with every variance and grid; and how it
is stored: kept weights on a grid, √t on a finer one, biases, seed.

W -> W(t) = √t·G + B (Shin 2021, §3.2, Algorithm 1, Appendix E) has three forms. "corrected" keeps
|w| > τ, so that what goes is at most τ in size, as Proposition 1.1 needs it. "algorithm" keeps w >
τ as printed: every negative weight goes, however large. "appendix" is Appendix E as printed: w ≤ σ
goes, signed again, and each of them becomes a draw from N(mean, σ²) with the layer's own mean and
σ; the others are not touched. In the first two √t·G is added everywhere, also to what stays; t = 0
is pruning by magnitude.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.method import Candidate
from cushion.compressors.noise.method import Form, HeavyTailOptions
from cushion.compressors.noise.spiked import Spiked, on_a_grid
from cushion.compressors.storage.pruned import Grid, Pruned, store_pruned
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.storage.stored_net import StoredNet, places
from cushion.compressors.subject import Subject
from cushion.errors import BadInput
from cushion.nets.network import Network, Node
from cushion.nets.operators import Diagonal, Linear
from cushion.theorems.heavy_tails import spread_allowed, spread_allowed_printed

Floats = NDArray[np.float64]
_LAW_BITS = 10  # of √t: to a relative 2^-9
_PAIR_BITS = 16  # of deviation and mean on one grid


@dataclass(frozen=True, eq=False)
class Replacement:
    """What happens to one layer.

    mask: True where the weight stays, bool [*shape]. tau: τ itself. t: the variance of the noise;
    mean: that of the draws of Appendix E, 0 otherwise. everywhere: √t·G is added to what stays too.
    removed_mean, removed_largest: mean and largest magnitude of what goes, 0 where nothing does.
    """

    mask: Tensor
    tau: float
    t: float
    mean: float
    everywhere: bool
    removed_mean: float
    removed_largest: float

    @property
    def kept(self) -> int:
        return int(self.mask.sum())

    @property
    def is_random(self) -> bool:
        return self.t > 0


def spread(weight: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of all entries (divided by their number), in float64."""
    values = _values(weight)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        deviation = float(np.sqrt(np.square(values - mean).mean()))
    if values.min() == values.max():
        why = f"all its {values.size} weights are equal, so that no threshold parts them"
        raise BadInput(f"{why}; leave it out with `layers`")
    if not math.sqrt(sys.float_info.min) <= deviation < math.inf:
        why = "the spread of its weights leaves the range of float64"
        raise BadInput(f"{why}; scale the net's weights")
    return mean, deviation


def replace_layer(weight: Tensor, form: Form, tau: float, t: float) -> Replacement:
    """tau: τ itself; t: in mean squares of what goes, if anything does. "appendix" uses neither."""
    values, mean = _values(weight), 0.0
    if form == "appendix":
        mean, tau = spread(weight)
    stays = (np.abs(values) if form == "corrected" else values) > tau
    gone = values[~stays]
    square = float(np.square(gone).mean()) if gone.size else 0.0
    variance = t * square
    if form == "appendix":
        variance = tau * tau if gone.size else 0.0
    mask = torch.from_numpy(stays).reshape(weight.shape)
    removed = float(gone.mean()) if gone.size else 0.0, float(np.abs(gone).max(initial=0.0))
    return Replacement(mask, tau, variance, mean, form != "appendix", *removed)


def threshold_within(weight: Tensor, form: Form, budget: float, t: float) -> float:
    """The largest τ among the weights with τ² + t ≤ budget, t in mean squares of what goes; else 0.

    Only the weights' own sizes matter: between two of them the same ones go, and the smaller τ
    promises more.
    """
    values = _values(weight)
    ordered = np.sort(np.abs(values) if form == "corrected" else values)
    square = np.cumsum(np.square(ordered)) / np.arange(1, ordered.size + 1)
    last = np.append(ordered[1:] > ordered[:-1], True)  # of equal ones all go
    fits = last & (ordered > 0) & (np.square(ordered) + t * square <= budget)
    return float(ordered[fits].max(initial=0.0))


def choose_layers(net: Network, names: Sequence[str]) -> tuple[bool, ...]:
    """Whether each affine layer is replaced; BadInput where a name is none of them."""
    free = [node for node in net.affine_layers if not isinstance(node.affine.operator, Diagonal)]
    known = [node.name for node in free]
    if not free:
        raise BadInput("the net has no dense or convolutional layer, so nothing to replace")
    if tuple(names) == ("all",):
        names = known
    elif tuple(names) == ("last",):
        names = [node.name for node in free if isinstance(node.affine.operator, Linear)][-1:]
        if not names:
            why = "`layers` = last is the final dense layer, and the net has none"
            raise BadInput(f"{why}; name a layer")
    for name in names:
        if name not in known:
            why = f"`layers` = {name}: the net has no such layer to replace"
            raise BadInput(f"{why}; it has {', '.join(known)}")
    return tuple(node.name in names for node in net.affine_layers)


def standard_deviations(net: Network, chosen: Sequence[bool]) -> tuple[float | None, ...]:
    """σ of every layer that is replaced; BadInput names a layer that has none."""
    found: list[float | None] = []
    for node, take in zip(net.affine_layers, chosen, strict=True):
        try:
            found.append(spread(node.affine.operator.weight)[1] if take else None)
        except BadInput as problem:
            raise BadInput(f"layer {node.name}: {problem}") from None
    return tuple(found)


def _values(weight: Tensor) -> NDArray[Any]:
    """All entries, row by row, in float64."""
    found: Floats = weight.detach().cpu().to(torch.float64).numpy().reshape(-1)
    return found


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
    """`bits` of a kept weight on its layer's own grid; a layer without a replacement keeps all.

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
