"""Cushions and contractions of each layer, the effective parameters that they make (Arora 2018,
Table 1), and the note's capacity: measures without the theorem's constants.

Layer i counts as c_i²β_i²⌈κ_i/s_i⌉²/(μ_i²μ_{i→}²), with each quantity's worst value over the
sample, or over the sample without the fraction ζ of examples that are worst for the sum over all
layers (Corollaries A.1, C.1). There is no valid theorem behind the convolutional case: Lemma 12 of
the paper is false.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.measures.stability.records import EffectiveParameters
from cushion.nets.network import Network, Node, Stage
from cushion.nets.operators import Conv2d, ConvNd, LocalConv2d

Values: TypeAlias = NDArray[np.float64]  # one number per example
# ‖φ(x^{i-1})‖, ‖A^i φ(x^{i-1})‖, ‖x^i‖ by node index and stage, from the one pass
OnePass: TypeAlias = dict[tuple[int, Stage], Values]


def layer_cushions(norms: OnePass, node: Node, frobenius: float) -> Values:
    """‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖) for each example.

    Definition 4: the layer cushion μ_i is the largest number with μ_i ‖A^i‖_F ‖φ(x^{i-1})‖ ≤ ‖A^i
    φ(x^{i-1})‖ on all of S, the minimum of these. ‖A‖_F is the norm of the parameters (a
    convolution's kernel, as in Section C of the paper), or of A - A₀ for the version from
    initialisation. The paper has no biases: A φ(x) is the layer's output without its bias. An
    example whose φ(x^{i-1}) is zero constrains nothing; its ratio is NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return norms[node.index, "linear"] / (frobenius * norms[node.index, "input"])


def activation_contractions(norms: OnePass, node: Node, after: Node) -> Values:
    """‖x^i‖ / ‖φ(x^i)‖ for each example; φ is all between layer i and the next, pooling included.

    Definition 6: c is the smallest number with ‖φ(x^i)‖ ≥ ‖x^i‖/c, the maximum. Infinite where
    φ(x^i) = 0; NaN where x^i = 0 too.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return norms[node.index, "output"] / norms[after.index, "input"]


def noise_sensitivities(norms: OnePass, node: Node, operator_frobenius: float) -> Values:
    """ψ of the layer's true map at φ(x^{i-1}) for noise N(0, I): ‖A‖_F²‖φ(x)‖²/‖Aφ(x)‖², exact.

    Proposition 3.1. Definition 3 takes the maximum over S. At least the map's stable rank.
    """
    with np.errstate(divide="ignore"):
        return layer_cushions(norms, node, operator_frobenius) ** -2.0


def next_layer(net: Network, node: Node) -> Node | None:
    """The one layer that reads this one's output through φ; None at the end or at branches."""
    index = node.index
    while len(users := net.users[index]) == 1:
        following = net.nodes[users[0]]
        if len(following.inputs) != 1:
            return None
        if following in net.affine_layers:
            return following
        index = following.index
    return None


@dataclass(frozen=True)
class LayerTerms:
    """What one layer contributes, one number per example: c, β, μ and the unclipped μ_{i→} (None:
    no later layer). `whole_contraction` and `whole_cushion` are c and μ over all of S, where the
    arrays hold some of its rows only.
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
        if isinstance(operator, ConvNd) and operator.transposed:
            return float(math.prod(operator.weight.shape[2:]))
        if not isinstance(operator, Conv2d | ConvNd):
            return 1.0
        sides = zip(operator.weight.shape[2:], operator.stride, strict=True)
        return float(math.prod(-(-taps // step) for taps, step in sides))

    @property
    def minimal(self) -> Values:
        """μ_{i→}(x), clipped at 1/√h."""
        clip = np.full(len(self.cushion), 1 / math.sqrt(self.node.shape[0]))
        return clip if self.interlayer is None else np.fmin(clip, self.interlayer)

    @property
    def worst_cushion(self) -> float:
        """μ over everything that was measured."""
        return float(np.fmin(np.fmin.reduce(self.cushion), self.whole_cushion))

    def whole(self) -> float:
        """c²β²⌈κ/s⌉²/(μ²μ_→²) with the worst of each over everything that was measured."""
        contraction = np.fmax(np.fmax.reduce(self.contraction), self.whole_contraction)
        return self._count(contraction, self.worst_cushion, slice(None))

    def count(self, rows: NDArray[np.bool_]) -> float:
        """The same over the chosen rows; NaN has no say."""
        if not rows.any():
            return math.nan
        contraction = np.fmax.reduce(self.contraction[rows])
        return self._count(contraction, np.fmin.reduce(self.cushion[rows]), rows)

    def _count(self, contraction: float, cushion: float, rows: slice | NDArray[np.bool_]) -> float:
        worst = float(contraction * np.fmax.reduce(self.beta[rows]))
        best = float(cushion * np.fmin.reduce(self.minimal[rows]))
        return math.inf if best == 0 else (worst / best) ** 2 * self.overlap

    def each(self) -> Values:
        """The same for every example alone."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.contraction * self.beta / (self.cushion * self.minimal)
        return np.nan_to_num(ratio**2 * self.overlap, nan=0.0, posinf=np.inf)


def effective_parameters(layers: list[LayerTerms], zeta: float) -> list[EffectiveParameters]:
    """One record a layer; ⌊ζn⌋ examples are dropped, the same ones for all layers."""
    kept, records = kept_rows(layers, zeta), []
    for layer in layers:
        value, parameters = layer.whole(), layer.node.affine.operator.parameters
        percent = 100 * value / parameters
        records.append(EffectiveParameters(value, percent, layer.count(kept), parameters))
    return records


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
