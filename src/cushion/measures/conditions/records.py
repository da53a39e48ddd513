"""What the conditions of Neyshabur 2017's Theorem 1 are reported in: frozen records, no torch. All
are measures.

A net is a chain of affine layers 1..d, W_i the true map of layer i (a convolution's too). D_i is
what follows layer i, ReLU and pooling, linearised at an example; D_d = I if nothing follows the
last layer. M_{a..b} = D_b W_b ... D_a W_a, and M_{0..b} = D_b W_b ... D_1 W_1 x with W_0 = x, D_0 =
I. h_i is the number of units after D_i, h_0 that of layer 1's input. Masks are those of the net
with its biases; the products leave biases out, as the paper does. The theorem has ‖x‖ = 1:
pre-activations and outputs are divided by ‖x‖ where it needs them. An infinite float is null in
JSON, as everywhere; `infinite` or `because` then says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cushion.records import Distribution, Record

Version: TypeAlias = Literal["as printed", "simplified", "corrected"]
DeltaRange: TypeAlias = Literal["all", "restricted"]


@dataclass(frozen=True)
class TripleCondition(Record):
    """C1 at one (a, c, b): the largest 1/μ = ‖M_{c+1..b}‖_F ‖M_{a..c}‖_F / (√h_c ‖M_{a..b}‖_F) over
    the examples.

    `inverse_mu` is ∞ where M_{a..b} vanishes and its factors do not, and None if C1 reads 0 >= 0 on
    every example; `undefined` counts those examples: they allow every μ (a layer that is off on an
    example makes all of them so). `standard_error` is relative, that of the worst example; None
    where the three norms are exact.
    """

    a: int
    c: int
    b: int
    inverse_mu: float | None
    undefined: int
    standard_error: float | None


@dataclass(frozen=True)
class IndexSet(Record):
    """C1 over one set of triples: μ = the smallest over triples and examples, `inverse` = 1/μ over
    all of both.

    `mu` is None if nothing constrains it; `because` then says why. It may exceed 1 (up to √h).
    """

    triples: int
    mu: float | None
    inverse: Distribution | None
    because: str = ""


@dataclass(frozen=True)
class LayerInteraction(Record):
    """Condition C1 in the versions that the paper and its figures use.

    `text`: 0 <= a < c < b <= d. `figure6`: a <= c <= b - 1, which contains it; `inner` (a < c < b -
    1) and `outer` (c = a or c = b - 1) are the figure's parts. `from_input`: a = 0 in `figure6`,
    which is what a proof of Lemma 1 uses. `triples` are those of `figure6`. `exact`: no probe
    entered; else `standard_error` is the mean relative one of 1/μ, and the largest of noisy 1/μ
    overstates the largest a little. `bias_gap`: the largest |‖M_{0..d}‖ - ‖f(x)‖|/‖f(x)‖.
    """

    text: IndexSet
    figure6: IndexSet
    inner: IndexSet
    outer: IndexSet
    from_input: IndexSet
    triples: tuple[TripleCondition, ...]
    exact: bool
    standard_error: float | None
    bias_gap: float | None


@dataclass(frozen=True)
class ActivationFlips(Record):
    """Condition C2 at one ReLU: C2 = sup over δ > 0 of #{units with |pre-activation| <= δ‖x‖} /
    (h_k δ).

    `value` is its largest over the examples (∞ if a pre-activation is exactly 0), `spread` its
    distribution. `restricted` leaves out the δ at which less than a fraction `at_least` of the
    units can flip: one tiny pre-activation then no longer decides. `mean_fraction` and
    `max_fraction` are over examples, one number for each of `deltas`: Figure 7.
    """

    layer: str
    units: int  # that the ReLU reads
    value: float
    spread: Distribution
    at_least: float
    restricted: float
    restricted_spread: Distribution
    deltas: tuple[float, ...]
    mean_fraction: tuple[float, ...]
    max_fraction: tuple[float, ...]


@dataclass(frozen=True)
class UnitNorms(Record):
    """Condition C3 at one layer: √h_i ‖W_i‖_{2,∞} / ‖D_i W_i‖_F, its largest over the examples and
    its spread.

    `value` is ∞ where the ReLU switches the whole layer off, None for a layer of zeros (any C3 will
    do). `unit_ratio`: each unit's incoming norm over the mean incoming norm of its layer's units
    (Figure 5, right), units of the true map.
    """

    layer: str
    value: float | None
    spread: Distribution | None
    largest_norm: float  # ‖W_i‖_{2,∞}
    unit_ratio: Distribution | None
    exact: bool


@dataclass(frozen=True)
class TheoremOne(Record):
    """Theorem 1's right-hand side with 1 in place of its O(.), at the σ of a grid that makes it
    smallest: no bound.

    γ_i = σ/(C_{δ_i} d), so that σ_i = γ_i μ² ‖W_i‖_F / √(h_i h_{i-1}), with δ_i = δ/d. sharpness =
    [∏(1+γ_i) - 1 + ∏(1+γ_i C2 C3) (∏(1+γ_i C_{δ_i} C2) - 1)] C_L · mean ‖f(x)‖/‖x‖. "as printed":
    C_{δ_i} = (1+δ_i)√(2 ln h_i), complexity = √((Σ‖W_i‖_F²/σ_i² + ln(1/δ))/m). "simplified" is the
    display after it: sharpness = σ(1 + (1+σ C2 C3) C2) C_L · mean, no C_δ² in the complexity.
    "corrected": C_{δ_i} = √(2 ln(2 h_i m/δ_i)), complexity = √((½Σ‖W_i‖_F²/σ_i² + ln(2√m/δ))/(2m)).
    `mu` is Figure 6's, at most 1: a proof of Lemma 1 needs both. It also needs ‖D_i W_i‖_F, down to
    ‖W_i‖_F/C3, where the theorem has ‖W_i‖_F; the latter is kept in all versions, so that no
    constant makes any of them true (a net with large units that are off). C2 and C3 are the largest
    over layers; `delta_range` says which C2. `finite` is False, with the reason in `because`, if a
    condition fails for every constant.
    """

    version: Version
    delta_range: DeltaRange
    m: int
    delta: float
    mu: float
    c2: float
    c3: float
    lipschitz: float  # C_L: √2, of the cross-entropy in the scores
    mean_output: float  # mean of ‖f(x)‖/‖x‖
    finite: bool
    because: str
    sigma: float | None
    layer_sigmas: tuple[float, ...]
    log10_linear: float | None  # of ∏(1+γ_i) - 1
    log10_growth: float | None  # of ∏(1+γ_i C2 C3)
    log10_flips: float | None  # of ∏(1+γ_i C_{δ_i} C2) - 1
    sharpness: float
    complexity: float
    total: float
    log10_sharpness: float | None
    log10_complexity: float | None
    log10_total: float | None


@dataclass(frozen=True)
class NetConditions(Record):
    """C1, C2, C3 and Theorem 1 of one net on `examples` rows of its sample, and how they were
    measured.

    `not_measured_because` is "" for a chain; otherwise nothing else is filled in. `units` are
    h_0..h_d. `outputs`: ‖f(x)‖ as it is (Figure 8). `zero_inputs` counts rows with x = 0: they
    cannot be scaled to ‖x‖ = 1, and enter C1, C3 and `outputs` only.
    """

    examples: int
    probes: int
    method: Literal["auto", "exact", "probes"]
    seed: int
    delta: float
    not_measured_because: str = ""
    layers: tuple[str, ...] = ()
    units: tuple[int, ...] = ()
    interaction: LayerInteraction | None = None
    activation_flips: tuple[ActivationFlips, ...] = ()
    unit_norms: tuple[UnitNorms, ...] = ()
    outputs: Distribution | None = None
    zero_inputs: int = 0
    theorem: tuple[TheoremOne, ...] = ()
