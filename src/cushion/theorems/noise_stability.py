"""Noise stability as counts: how many numbers the projected net of Arora 2018 takes for an error,
and the way back.

Algorithm 1 stores k numbers ⟨A, M_t⟩ a layer, M_t sign matrices of the helper string. With k ≥
ln(4/η)/(ε²/4 - ε³/6) a fixed |uᵀ(Â - A)v| is at most ε‖A‖_F‖u‖‖v‖ with probability ≥ 1 - η
(docs/compression-bounds.md, "One layer"). Lemma 3 gives layer i the error ε_i = ε μ_i μ_{i→}/(6cd)
and shows ‖f(x) - g(x)‖ ≤ ε‖f(x)‖ on the whole sample if ρ ≥ 3d.

Counts are floats, with their logarithms beside them: small cushions need more numbers than any
memory holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cushion.theorems.logs import LN10, exp, log_sum

# of ε_i = ε μ_i μ_{i→}/(6cd): the paper's other line has 4, with which the induction does not close
_DIVISOR = 6.0
_SLACK = 1 + 1e-12  # for the rounding of a few float operations


@dataclass(frozen=True)
class LayerStabilityFacts:
    """One layer and what was measured on the sample. From the initialisation `frobenius` is ‖A -
    A₀‖_F and `cushion` was measured with it; the formulas are the same.
    """

    name: str
    weights: int
    frobenius: float
    cushion: float  # μ_i
    interlayer: float  # μ_{i→}, clipped at 1/√h^i
    beta: float = 1.0  # β_i
    overlap: int = 1  # ⌈κ/s⌉², 1 for a dense layer
    places: int = 1  # n₁n₂

    @property
    def log_stability(self) -> float:
        """ln(μ_i μ_{i→}); -∞ where one of them is 0 or unknown."""
        pair = (self.cushion, self.interlayer)
        return math.fsum(map(math.log, pair)) if all(one > 0 for one in pair) else -math.inf


@dataclass(frozen=True)
class StabilityFacts:
    """A net on its sample of m examples."""

    layers: tuple[LayerStabilityFacts, ...]
    contraction: float
    m: int
    width: int  # h, the largest number of units of a layer's output
    # ρ_δ over all pairs of layers: ∞ where no noise left the linear piece, None: not measured
    smoothness: float | None
    delta: float
    examples: int | None = None  # on which the Jacobians were measured; None: all m

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def eta(self) -> float:
        """What one row of a Jacobian may fail with: d layers, d·m·h rows each, δ/2 in all."""
        return self.delta / (2.0 * self.depth**2 * self.m * self.width)

    @property
    def why_not(self) -> str:
        """Why Lemma 3 promises nothing for this net; empty where it does."""
        return self.undefined or self.unmet

    @property
    def undefined(self) -> str:
        """Why the counts have no value; empty where they have one."""
        for layer in self.layers:
            if not layer.log_stability > -math.inf:
                why = f"a cushion of layer {layer.name} is 0 or unknown"
                return f"{why}, so no number of projections is enough"
        if math.isfinite(self.contraction):
            return ""
        why = "the activation contraction is not finite"
        return f"{why}: an example is blocked by all units of a layer"

    @property
    def unmet(self) -> str:
        """Which condition of the lemma fails: its counts promise nothing; empty where none."""
        rho, needed = self.smoothness, 3 * self.depth
        if self.depth == 1 or (rho is not None and rho >= needed):  # ρ is about pairs of layers
            return ""
        if rho is None:
            lacks = "the interlayer smoothness ρ was not measured"
            return f"{lacks}, and the proof needs ρ ≥ 3d = {needed}"
        return f"the interlayer smoothness ρ = {rho:.3g} is below 3d = {needed}"

    def log_share(self, layer: LayerStabilityFacts, epsilon: float) -> float:
        """ln ε_i, ε_i = ε μ_i μ_{i→}/(6cd): the error that layer i may make if the net ε."""
        lost = math.log(_DIVISOR * self.contraction * self.depth)
        return math.log(epsilon) + layer.log_stability - lost


@dataclass(frozen=True)
class LayerCount:
    """What one layer takes: `projections` k, a whole number or ∞, and p = `independence` times as
    many numbers stored.

    p is 1 but for Algorithm 4, whose subspace has k·p dimensions.
    """

    name: str
    weights: int
    epsilon: float
    projections: float
    log_projections: float
    independence: int = 1

    @classmethod
    def of(
        cls, layer: LayerStabilityFacts, log_epsilon: float, log_count: float, independence: int = 1
    ) -> LayerCount:
        """With the count, given as ln, rounded up; beyond 2^51 a float shows no fraction."""
        count = exp(log_count)
        if count < 2.0**51:
            count = float(max(1, math.ceil(count * _SLACK)))
            log_count = math.log(count)
        return cls(layer.name, layer.weights, math.exp(log_epsilon), count, log_count, independence)

    @property
    def numbers(self) -> float:
        return self.projections * self.independence

    @property
    def log_numbers(self) -> float:
        return self.log_projections + math.log(self.independence)

    @property
    def compresses(self) -> bool:
        """Whether fewer numbers are stored than the layer has weights."""
        return self.numbers < self.weights


@dataclass(frozen=True)
class StabilityCounts:
    """A net's counts; they promise nothing where `why_not` says which condition fails."""

    epsilon: float
    eta: float
    layers: tuple[LayerCount, ...]
    why_not: str

    @property
    def promised(self) -> bool:
        return not self.why_not

    @property
    def log10(self) -> float:
        return log_sum(*(layer.log_numbers for layer in self.layers)) / LN10

    @property
    def numbers(self) -> float:
        return math.fsum(layer.numbers for layer in self.layers)


def epsilon_from_margin(gamma: float, largest_score: float) -> float:
    """Lemma 10: the relative error ε that leaves every margin above γ positive, γ/(√2 max‖f(x)‖),
    at most 1.

    ‖f - g‖ ≤ ε‖f(x)‖ ≤ γ/√2 moves a difference of two scores by at most γ. 0 where γ is not
    positive.
    """
    if not gamma > 0.0:
        return 0.0
    return min(1.0, gamma / (math.sqrt(2.0) * largest_score)) if largest_score > 0.0 else 1.0


def log_projections(log_epsilon: float, eta: float) -> float:
    """ln of Lemma 2's count with our constants, ln(4/η)/(ε²/4 - ε³/6); ∞ for ε = 0."""
    if log_epsilon == -math.inf:
        return math.inf
    slack = math.log1p(-2.0 / 3.0 * math.exp(log_epsilon))
    return math.log(4.0 * math.log(4.0 / eta)) - 2 * log_epsilon - slack


def lemma_3(facts: StabilityFacts, epsilon: float) -> StabilityCounts:
    """‖f(x) - g(x)‖ ≤ ε‖f(x)‖ ≤ ‖f(x)‖ on the sample; fails with δ/2 and what ρ fails with."""
    layers = []
    for layer in facts.layers:
        own = min(0.0, facts.log_share(layer, epsilon))  # Lemma 2 knows no larger error
        layers.append(LayerCount.of(layer, own, log_projections(own, facts.eta)))
    return StabilityCounts(epsilon, facts.eta, tuple(layers), facts.why_not)


def epsilon_of_k(k: int, eta: float) -> float | None:
    """The least ε in (0, 1] with ln(4/η)/(ε²/4 - ε³/6) ≤ k, erring upwards; None where even ε = 1
    needs more.

    >>> epsilon_of_k(12, 0.01) is None
    True
    """
    needed = math.log(4.0 / eta) * _SLACK

    def enough(epsilon: float) -> bool:
        return k * epsilon * epsilon * (0.25 - epsilon / 6.0) >= needed

    if not enough(1.0):
        return None
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2.0) not in (low, high) and high - low > 1e-15 * high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def lemma_14(facts: StabilityFacts, epsilon: float, constant: float = 1.0) -> StabilityCounts:
    """The counts of Algorithm 4: k_i = Q⌈κ/s⌉² ln²(1/η)/ε_i² with ε_i = ε μ_i μ_{i→}/(6cdβ_i), and
    p = ⌈log₂(1/η)⌉.

    A measure whatever the constant Q: the filters of Algorithm 4 are not p-wise independent as
    Lemma 12 claims.
    """
    nats = -math.log(facts.eta)
    independence = math.ceil(nats / math.log(2.0) - 1e-12)  # Lemma 13 needs 2^-p ≤ η
    layers = []
    for layer in facts.layers:
        own = min(0.0, facts.log_share(layer, epsilon) - math.log(layer.beta))
        log_count = math.log(constant * layer.overlap) + 2 * math.log(nats) - 2 * own
        layers.append(LayerCount.of(layer, own, log_count, independence))
    why = facts.why_not or "the proof rests on Lemma 12, which is false"
    return StabilityCounts(epsilon, facts.eta, tuple(layers), why)
