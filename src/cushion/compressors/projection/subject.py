"""What the lemmas of Arora 2018 ask of a net and its sample besides what every method does."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.vectors import LinearTask
from cushion.compressors.subject import Subject
from cushion.errors import BadInput, Unsupported
from cushion.nets.network import Network, Node
from cushion.nets.operators import Conv2d
from cushion.theorems.noise_stability import StabilityCounts, epsilon_from_margin, lemma_3, lemma_14
from cushion.theorems.projection import ROUNDING


class ProjectionSubject(Subject):
    """`swept` gives the same subject under other options, with what is known already."""

    options: NetOptions

    @property
    def shared_kernels(self) -> bool:  # type: ignore[override]
        return self.method == "matrix-project"

    @cached_property
    def epsilon(self) -> float | None:
        """The ε of Lemmas 3 and 14: as given, or the one that keeps margins of γ (Lemma 10)."""
        if self.options.epsilon is not None:
            return self.options.epsilon
        if self.gamma is None:
            return None
        return epsilon_from_margin(self.gamma, float(self.seen.scores.max()))

    @cached_property
    def counts(self) -> StabilityCounts | None:
        """What Lemma 3 (with the ε that Theorem 4.1 leaves to it) or Lemma 14 asks for."""
        if self.stability is None or self.epsilon is None or self.stability.contraction == math.inf:
            return None
        dense = lemma_3(self.stability, (1 - ROUNDING) * self.epsilon)
        if self.method != "conv-project":
            return dense
        filters = lemma_14(self.stability, self.epsilon, self.options.constant)
        layers = list(filters.layers)
        for at, node in enumerate(self.net.affine_layers):
            if not isinstance(node.affine.operator, Conv2d):
                layers[at] = dense.layers[at]  # by Algorithm 1
        return replace(filters, layers=tuple(layers))

    @cached_property
    def outside_the_lemma(self) -> str:
        """What the chain of inequalities of Lemma 3 does not know of this net or of these
        measurements; else empty.

        With biases neither ‖Aφ(x)‖ = ‖x^i‖ nor ‖J x^i‖ = ‖x^j‖; pooling over windows that overlap
        may lengthen noise.
        """
        if self.facts.has_bias:
            return "the lemma is about nets without biases"
        if any(layer.lipschitz > 1 + 1e-9 for layer in self.facts.layers[:-1]):
            return "φ must lengthen nothing, and windows of this net's pooling overlap"
        some, m = self.options.examples, len(self.sample)
        return f"cushions were measured on {some} of {m} examples (`examples`)" * (some < m)

    @cached_property
    def vector_eta(self) -> float:
        """As given; else (γ²m)^{-1/3} for Vector-Compress (Lemma 6), 1/m else (Lemma 8)."""
        if self.options.eta is not None:
            return min(self.options.eta, 1 - 1e-9)
        m = len(self.sample)
        if self.method == "vector-project":
            return 1.0 / max(2, m)
        return float(min(0.5, (self.unit_gamma**2 * m) ** (-1 / 3)))

    @property
    def linear(self) -> LinearTask:
        """What margin and inputs ask of the vectors of a linear classifier."""
        return self._linear(self.vector_eta)

    @cached_property
    def unit_gamma(self) -> float:
        """The margin for vectors and inputs of length 1."""
        return self._linear(0.5).unit_gamma

    def _linear(self, eta: float) -> LinearTask:
        own = linear_layer(self.net, self.method).affine
        first = None if self.start is None else self.start.affine_layers[0].affine
        start = None if first is None else (first.operator.weight, first.bias)
        gamma, radius = self.need_gamma(), self.radius
        return LinearTask(own.operator.weight, own.bias, start, gamma, eta, radius)

    @property
    def radius(self) -> float:
        return float(self.seen.inputs.max())

    def need_gamma(self) -> float:
        """γ, or BadInput where the net has none and none was given."""
        if self.gamma is None:
            raise BadInput(
                f"the net's margin γ is not positive (it errs on {self.seen.errors} of "
                f"{len(self.sample)} examples, a fraction above `level` = {self.options.level:g}), "
                f"and `method` = {self.method} needs one; give a larger `level`, or `gamma`"
            )
        return self.gamma

    def swept(self, asked: str) -> ProjectionSubject:
        """The same net and sample at one point of the sweep."""
        options = self.options.at(self.method, asked)
        setting = self.method, options, self.delta, self.seed
        other = ProjectionSubject(self.net, self.start, self.sample, *setting)
        same = ["seen", "net_scores", "stability"]
        same += ["facts"] if options.gamma == self.options.gamma else []
        known = self.__dict__
        other.__dict__.update({name: known[name] for name in same if name in known})
        return other


def linear_layer(net: Network, method: str) -> Node:
    """The one layer of a linear classifier; Unsupported for any other net."""
    layers = net.affine_layers
    if len(layers) != 1 or layers[0].affine.operator.weight.ndim != 2:
        raise Unsupported(
            f"`method` = {method} is for linear classifiers, nets of one dense layer, and this net "
            f"has {len(layers)} layers; use low-rank or matrix-project, or train a spec such as "
            "'1x28x28: flatten fc10'"
        )
    return layers[0]
