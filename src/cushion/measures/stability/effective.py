"""Effective parameters (Arora 2018, Table 1) and the note's capacity: measures without the
theorem's constants.

Layer i counts as c_i²β_i²⌈κ_i/s_i⌉²/(μ_i²μ_{i→}²), with each quantity's worst value over the
sample, or over the sample without the fraction ζ of examples that are worst for the sum over all
layers (Corollaries A.1, C.1). There is no valid theorem behind the convolutional case: Lemma 12 of
the paper is false.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.measures.stability.records import EffectiveParameters
from cushion.nets.network import Node
from cushion.nets.operators import Conv2d, LocalConv2d

Values = NDArray[np.float64]


@dataclass(frozen=True)
class LayerTerms:
    """What one layer contributes, one number per example: c, β, μ and the unclipped μ_{i→} (None:
    no later layer).

    `whole_contraction` and `whole_cushion` are c and μ over all of S, where the arrays hold some of
    its rows only.
    """

    node: Node
    contraction: Values
    beta: Values
    cushion: Values
    interlayer: Values | None
    whole_contraction: float = math.nan
    whole_cushion: float = math.nan

    @property
    def overlap(self) -> float:
        """⌈κ/s⌉²: places of the output that read one place of the input; 1 if dense."""
        operator = self.node.affine.operator
        if isinstance(operator, LocalConv2d):
            return float(operator.overlap)
        if not isinstance(operator, Conv2d):
            return 1.0
        sides = zip(operator.weight.shape[2:], operator.stride, strict=True)
        return float(math.prod(-(-taps // step) for taps, step in sides))

    @property
    def minimal(self) -> Values:
        """μ_{i→}(x), clipped at 1/√h."""
        clip = np.full(len(self.cushion), 1 / math.sqrt(self.node.shape[0]))
        return clip if self.interlayer is None else np.fmin(clip, self.interlayer)

    def whole(self) -> float:
        """c²β²⌈κ/s⌉²/(μ²μ_→²) with the worst of each over everything that was measured."""
        worst = np.fmax(np.fmax.reduce(self.contraction), self.whole_contraction) * np.fmax.reduce(
            self.beta
        )
        best = self.worst_cushion * np.fmin.reduce(self.minimal)
        return math.inf if best == 0 else float(worst / best) ** 2 * self.overlap

    @property
    def worst_cushion(self) -> float:
        """μ over everything that was measured."""
        return float(np.fmin(np.fmin.reduce(self.cushion), self.whole_cushion))

    def count(self, rows: NDArray[np.bool_]) -> float:
        """c²β²⌈κ/s⌉²/(μ²μ_→²), worst of each over the chosen rows; NaN has no say."""
        if not rows.any():
            return math.nan
        worst = float(np.fmax.reduce(self.contraction[rows]) * np.fmax.reduce(self.beta[rows]))
        best = float(np.fmin.reduce(self.cushion[rows]) * np.fmin.reduce(self.minimal[rows]))
        return math.inf if best == 0 else (worst / best) ** 2 * self.overlap

    def each(self) -> Values:
        """The same for every example alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.contraction * self.beta / (self.cushion * self.minimal)
        return np.nan_to_num(ratio**2 * self.overlap, nan=0.0, posinf=np.inf)


def effective_parameters(layers: list[LayerTerms], zeta: float) -> list[EffectiveParameters]:
    """One record a layer; ⌊ζn⌋ examples are dropped, the same ones for all layers."""
    kept = kept_rows(layers, zeta)
    return [
        EffectiveParameters(
            value=(value := layer.whole()),
            percent=100 * value / layer.node.affine.operator.parameters,
            zeta_value=layer.count(kept),
            parameters=layer.node.affine.operator.parameters,
        )
        for layer in layers
    ]


def kept_rows(layers: list[LayerTerms], zeta: float) -> NDArray[np.bool_]:
    """All examples but the ⌊ζn⌋ that are worst for the sum over all layers."""
    total = np.sum([layer.each() for layer in layers], axis=0)
    kept = np.ones(len(total), dtype=bool)
    dropped = math.floor(zeta * len(total) + 1e-9)  # 0.29 · 100 is 28.999... in floating point
    kept[np.argsort(total, kind="stable")[len(total) - dropped :]] = False
    return kept


def capacity(depth: int, contraction: float, layers: list[LayerTerms]) -> float:
    """(depth · c / (μ · μ_→))², the note's eq. 2, at the layer where μ_i·μ_{i→} is smallest."""
    products = [layer.worst_cushion * np.fmin.reduce(layer.minimal) for layer in layers]
    worst = float(np.fmin.reduce(products))  # a layer that never saw a signal is NaN and has no say
    return (depth * contraction / worst) ** 2 if worst > 0 else math.inf
