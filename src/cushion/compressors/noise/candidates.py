"""What replacing tries: every threshold that was asked for with every variance and grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.method import Candidate
from cushion.compressors.noise.options import HeavyTailOptions
from cushion.compressors.noise.replacement import (
    Replacement,
    choose_layers,
    replace_layer,
    standard_deviations,
    threshold_within,
)
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.noise.storing import store_replaced
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.subject import Subject
from cushion.errors import BadInput
from cushion.nets.network import Network, Node
from cushion.theorems.heavy_tails import spread_allowed, spread_allowed_printed


@dataclass(frozen=True)
class Setting:
    """One threshold, in standard deviations (None: from epsilon), and one variance."""

    asked: str
    tau: float | None
    t: float


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


def settings(options: HeavyTailOptions) -> list[Setting]:
    """What is tried, each once."""
    if options.epsilon is not None:
        return [Setting(f"epsilon={options.epsilon:g}, t={t:g}", None, t) for t in options.ts]
    if options.form == "appendix":
        return [Setting("Appendix E", 1.0, 1.0)]
    return [Setting(f"tau={tau:g}, t={t:g}", tau, t) for tau in options.taus for t in options.ts]


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Every setting with every grid."""
    net, options, seed = subject.net, subject.options, subject.seed
    deviations = standard_deviations(net, choose_layers(net, options.chosen_layers))
    for setting in settings(options):
        replaced = _replacements(net, options, setting, deviations)
        gone = sum(one.mask.numel() - one.kept for one in replaced if one is not None)
        if 2 * (net.parameters - gone) > MOST_NUMBERS:
            raise BadInput(
                f"{setting.asked} leaves more weights than the {MOST_NUMBERS // 2} of a file; use "
                "a larger `tau`"
            )
        counts = {"kept": sum(one.kept for one in replaced if one is not None)}
        for bits in _grids(net, options, replaced, seed):
            stored = store_replaced(net, replaced, bits, seed)
            made = ReplacedNet(replaced, deviations, setting.t, bits)
            yield Candidate(stored, setting.asked, f"{bits} bits", counts, made)


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


def _replacements(
    net: Network, options: HeavyTailOptions, setting: Setting, deviations: Sequence[float | None]
) -> tuple[Replacement | None, ...]:
    form = options.form
    found: list[Replacement | None] = []
    for node, deviation in zip(net.affine_layers, deviations, strict=True):
        if deviation is None:
            found.append(None)
            continue
        weight, norm = node.affine.operator.weight, node.affine.operator.frobenius()
        if setting.tau is not None:
            tau = setting.tau * deviation
        else:
            assert options.epsilon is not None
            assert options.eta is not None
            budget = spread_allowed(options.epsilon, options.eta, norm)
            if form == "algorithm":
                budget = spread_allowed_printed(options.epsilon * norm, options.eta, "main text")
            tau = threshold_within(weight, form, budget, setting.t)
        found.append(replace_layer(weight, form, tau, setting.t))
    return tuple(found)


def rounding(node: Node, one: Replacement | None, stored: StoredLayer) -> float:
    """‖B̂ - B‖_F/‖W‖_F of what stays in a layer, every kept weight stored; 0 for zeros."""
    weight = node.affine.operator.weight.double().numpy()
    norm = float(np.linalg.norm(weight))
    kept = weight if one is None else np.where(one.mask.numpy(), weight, 0.0)
    return float(np.linalg.norm(kept_values(stored) - kept)) / norm if norm > 0 else 0.0


def kept_values(layer: StoredLayer) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What is stored of a weight, without the noise."""
    return layer.kept.weight(0) if isinstance(layer, Spiked) else layer.weight(0)
