"""What the conditions of Neyshabur 2017's Theorem 1 are reported in: frozen records, measures.

A net is a chain of affine layers 1..d, W_i the true map of layer i (a convolution's too). D_i is
what follows layer i, ReLU and pooling, linearised at an example; D_d = I if nothing follows the
last layer. M_{a..b} = D_b W_b ... D_a W_a, and M_{0..b} = D_b W_b ... D_1 W_1 x with W_0 = x, D_0 =
I. h_i is the number of units after D_i, h_0 that of layer 1's input. Masks are those of the net
with its biases; the products leave biases out, as the paper does. The theorem has ‖x‖ = 1:
pre-activations and outputs are divided by ‖x‖ where it needs them. An infinite float is null in
JSON, as everywhere; `infinite` or `because` then says so.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from cushion.measures.family import described
from cushion.records import Distribution, Record, column

Version: TypeAlias = Literal["as printed", "simplified", "corrected"]
DeltaRange: TypeAlias = Literal["all", "restricted"]


class TripleCondition(Record):
    """C1 at one (a, c, b): 1/μ = ‖M_{c+1..b}‖_F ‖M_{a..c}‖_F / (√h_c ‖M_{a..b}‖_F)."""

    a: int = column("first layer of the product")
    c: int = column("where it is cut")
    b: int = column("its last layer")
    inverse_mu: float | None = column(
        "the largest over the examples; ∞: only M_a..b vanishes, none: C1 reads 0 >= 0",
        better="low",
    )
    undefined: int = column("examples where C1 reads 0 >= 0: they allow every μ")
    standard_error: float | None = column("relative, of the worst example; none where exact")


class IndexSet(Record):
    """C1 over one set of triples."""

    triples: int = column("how many")
    mu: float | None = column("the smallest, up to √h; none if unconstrained", better="high")
    inverse: Distribution | None = column("over triples and examples", label="1/μ", better="low")
    because: str = column("why there is no μ", default="")


class LayerInteraction(Record):
    """Condition C1 in the versions that the paper and its figures use."""

    text: IndexSet = column("0 <= a < c < b <= d", label="C1, a < c < b as in the text")
    figure6: IndexSet = column(
        "a <= c <= b - 1, which contains it", label="C1, a ≤ c ≤ b-1 as in Figure 6"
    )
    inner: IndexSet = column("a < c < b - 1, a part of the figure")
    outer: IndexSet = column("c = a or c = b - 1, the other part")
    from_input: IndexSet = column("a = 0 in figure6: what a proof of Lemma 1 uses")
    triples: tuple[TripleCondition, ...] = column("those of figure6")
    exact: bool = column("whether no probe entered", label="C1 exact")
    standard_error: float | None = column("mean relative one of 1/μ, whose largest is overstated")
    bias_gap: float | None = column("the largest |‖M_0..d‖ - ‖f(x)‖|/‖f(x)‖")


class ActivationFlips(Record):
    """Condition C2 at a ReLU: sup over δ > 0 of #{units with |pre-activation| ≤ δ‖x‖} / (h_k δ)."""

    layer: str = column("before the ReLU")
    units: int = column("that the ReLU reads")
    value: float = column("the largest over the examples; ∞ if a pre-activation is exactly 0")
    spread: Distribution = column("over the examples")
    at_least: float = column("the share of units that must be able to flip, in `restricted`")
    restricted: float = column("without the δ at which fewer units can flip than `at_least`")
    restricted_spread: Distribution = column("over the examples")
    deltas: tuple[float, ...] = column("the δ of Figure 7")
    mean_fraction: tuple[float, ...] = column("of units that each δ can flip, mean over examples")
    max_fraction: tuple[float, ...] = column("of units that each δ can flip, largest over examples")


class UnitNorms(Record):
    """Condition C3 at one layer: √h_i ‖W_i‖_{2,∞} / ‖D_i W_i‖_F."""

    layer: str = column("its name")
    value: float | None = column("the largest over the examples; ∞: a layer off, none: of zeros")
    spread: Distribution | None = column("over the examples")
    largest_norm: float = column("‖W_i‖_2,∞")
    unit_ratio: Distribution | None = column("unit norms over their mean", source="Figure 5, right")
    exact: bool = column("whether no probe entered")


class TheoremOne(Record):
    """Theorem 1's right-hand side with 1 in place of its O(.), at the σ of a grid that makes it
    smallest: no bound.

    γ_i = σ/(C_{δ_i} d), so that σ_i = γ_i μ² ‖W_i‖_F / √(h_i h_{i-1}), with δ_i = δ/d. sharpness =
    [∏(1+γ_i) - 1 + ∏(1+γ_i C2 C3) (∏(1+γ_i C_{δ_i} C2) - 1)] C_L · mean ‖f(x)‖/‖x‖. "as printed":
    C_{δ_i} = (1+δ_i)√(2 ln h_i), complexity = √((Σ‖W_i‖_F²/σ_i² + ln(1/δ))/m). "simplified" is the
    display after it: sharpness = σ(1 + (1+σ C2 C3) C2) C_L · mean, no C_δ² in the complexity.
    "corrected": C_{δ_i} = √(2 ln(2 h_i m/δ_i)), complexity = √((½Σ‖W_i‖_F²/σ_i² + ln(2√m/δ))/(2m)).
    A proof of Lemma 1 also needs ‖D_i W_i‖_F, down to ‖W_i‖_F/C3, where the theorem has ‖W_i‖_F;
    the latter is kept in all versions, so that no constant makes any of them true (a net with large
    units that are off).
    """

    version: Version = column("of the formula")
    delta_range: DeltaRange = column("which C2: over all δ, or restricted")
    m: int = column("examples of S")
    delta: float = column("the probability that the statement fails", label="δ")
    mu: float = column("Figure 6's, at most 1: a proof of Lemma 1 needs both")
    c2: float = column("the largest over layers")
    c3: float = column("the largest over layers")
    lipschitz: float = column("C_L: √2, of the cross-entropy in the scores")
    mean_output: float = column("mean of ‖f(x)‖/‖x‖")
    finite: bool = column("whether the conditions hold for some constant")
    because: str = column("why not")
    sigma: float | None = column("the best of the grid", default=None)
    layer_sigmas: tuple[float, ...] = column("σ_i", default=())
    log10_linear: float | None = column("of ∏(1+γ_i) - 1", default=None)
    log10_growth: float | None = column("of ∏(1+γ_i C2 C3)", default=None)
    log10_flips: float | None = column("of ∏(1+γ_i C_δ_i C2) - 1", default=None)
    sharpness: float = column("first summand", default=math.inf)
    complexity: float = column("second summand", default=math.inf)
    total: float = column("their sum", default=math.inf)
    log10_sharpness: float | None = column("of the first summand", default=None)
    log10_complexity: float | None = column("of the second", default=None)
    log10_total: float | None = column("of their sum", unit="log10", default=None)


class NetConditions(Record):
    """C1, C2, C3 and Theorem 1 of one net on some rows of its sample, and how they were found."""

    examples: int = column("rows that were measured")
    probes: int = column("a layer, where C1 is not exact")
    method: Literal["auto", "exact", "probes"] = column("of C1")
    seed: int = column("of rows and probes")
    delta: float = column("of Theorem 1")
    not_measured_because: str = column("empty for a chain; else nothing is filled in", default="")
    layers: tuple[str, ...] = column("their names", default=())
    units: tuple[int, ...] = column("h_0..h_d", default=())
    interaction: LayerInteraction | None = column("condition C1", label="", default=None)
    activation_flips: tuple[ActivationFlips, ...] = column("condition C2, a ReLU each", default=())
    unit_norms: tuple[UnitNorms, ...] = column("condition C3, a layer each", default=())
    outputs: Distribution | None = column("‖f(x)‖ as it is", source="Figure 8", default=None)
    zero_inputs: int = column("rows with x = 0: they enter C1, C3 and `outputs` only", default=0)
    theorem: tuple[TheoremOne, ...] = column("Theorem 1, in all versions", default=())

    @property
    @described("largest share of units that a step of δ can flip, over δ", label="C2 for all δ")
    def c2_for_all(self) -> float | None:
        return max((flips.value for flips in self.activation_flips), default=None)

    @property
    @described("that share for δ that flip at least 1 %: the paper reports at most 5", label="C2")
    def c2(self) -> float | None:
        return max((flips.restricted for flips in self.activation_flips), default=None)

    @property
    @described("of C2 over the examples, in the worst layer", label="C2: median")
    def c2_median(self) -> float | None:
        medians = [flips.restricted_spread.quantiles["0.5"] for flips in self.activation_flips]
        return max(medians, default=None)

    @property
    @described(
        "largest unit norm over the active units' root mean square: 3 in the paper", label="C3"
    )
    def c3(self) -> float | None:
        values = [part.value for part in self.unit_norms if part.value is not None]
        return max(values, default=None)

    def theorem_one(self, version: Version) -> TheoremOne | None:
        """Theorem 1 with the restricted C2."""
        versions = (one for one in self.theorem if one.delta_range == "restricted")
        return next((one for one in versions if one.version == version), None)

    @property
    @described("sharpness plus norm term, 1 for O(.)", label="Theorem 1, printed", unit="log10")
    def theorem_printed(self) -> float | None:
        return getattr(self.theorem_one("as printed"), "log10_total", None)

    @property
    @described("the same with its slips mended", label="Theorem 1, corrected", unit="log10")
    def theorem_corrected(self) -> float | None:
        return getattr(self.theorem_one("corrected"), "log10_total", None)


class ConditionsOfNet(Record):
    """What conditions add to the net's row."""

    conditions: NetConditions | None = column("of Theorem 1, Neyshabur 2017")
