"""What noise stability (Arora 2018) is reported in: frozen records, no torch. Every one is a
measure, not a bound.

Layers are named; i is the layer that a record belongs to, j a later one. Distributions hold one
number per example; `standard_error` belongs to random probes or draws and is None where the value
is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cushion.measures.distribution import Spectrum
from cushion.records import Distribution, Record

Weights: TypeAlias = Literal["trained", "initial", "random"]  # whose weights a table is about


@dataclass(frozen=True)
class PairCushion(Record):
    """μ_{i,j} for one later layer (Definitions 5, 8): √(n₁n₂)·‖J x^i‖ / (‖J‖_F ‖x^i‖), its minimum
    over the examples.

    `standard_error` is relative: the mean over examples of that of the ratio. `bias_gap` is the
    largest |‖J x^i‖ - ‖x^j‖| / ‖x^j‖: 0 without biases, and beyond rounding a sign that they
    matter.
    """

    to: str
    value: float
    exact: bool
    standard_error: float | None
    bias_gap: float
    spread: Distribution


@dataclass(frozen=True)
class InterlayerCushion(Record):
    """μ_{i,j} for all j > i that were measured; `value` is the smallest of them."""

    value: float
    pairs: tuple[PairCushion, ...]


@dataclass(frozen=True)
class MinimalInterlayerCushion(Record):
    """μ_{i→}: `value` = min(`clip`, smallest μ_{i,j}); `clip` = μ_{i,i} = 1/√h^i; `unclipped`
    leaves μ_{i,i} out.
    """

    value: float
    clip: float
    unclipped: Distribution | None
    all_pairs: bool  # whether every later layer j entered


@dataclass(frozen=True)
class JacobianBeta(Record):
    """β of Definition 9 for layer i: the largest √(n₁n₂)·‖J restricted to a place‖_F / ‖J‖_F, over
    places and examples.

    `to` names the layers j whose Jacobians entered with all their places; `sampled_to` those of
    which only `places` sampled ones did (their β is then too small). A dense layer has one place
    and β = 1.
    """

    value: float
    to: tuple[str, ...]
    sampled_to: tuple[str, ...]
    places: int
    spread: Distribution


@dataclass(frozen=True)
class PairSmoothness(Record):
    """ρ for one later layer j alone, as `Smoothness.value` is for all."""

    to: str
    value: float


@dataclass(frozen=True)
class Smoothness(Record):
    """ρ_δ of Definition 7 under one kind of noise at layer i: the larger, the smoother.

    For one draw of the noise ρ is the smallest ‖η‖‖x^j‖ / (‖x^i‖·‖M(x^i+η) - x^j - Jη‖) over the
    examples and j > i. `value` is the largest number that at least a fraction 1 - δ of the draws
    reach (None: none left the linear piece); `standard_error` comes from the order statistics one
    binomial standard deviation away (None: too few draws). `inverse_spread` describes each
    example's own 1/ρ_δ over the draws, 0 where it never left the linear piece. `inverse` =
    1/`value`. `relative_norm` is the mean ‖η‖/‖x^i‖.
    """

    noise: str
    kind: Literal["gaussian", "sign-projection", "from-initialisation"]
    level: float | None
    delta: float
    draws: int
    value: float | None
    inverse: float
    standard_error: float | None
    relative_norm: float
    inverse_spread: Distribution | None
    pairs: tuple[PairSmoothness, ...]

    @property
    def is_standard(self) -> bool:
        """Whether this is the law that tables show first: Algorithm 1's noise at a stated relative
        norm.
        """
        return self.kind == "sign-projection" and self.level is not None


@dataclass(frozen=True)
class AttenuationPoint(Record):
    """The relative error ‖x̂^j - x^j‖/‖x^j‖ at one layer: mean over examples and draws, its
    standard error over draws.

    `sensitivity` is the noise sensitivity ψ of Definition 3 of the part of the net from the noisy
    input to x^j, for noise uniform on the sphere of radius `level`: the largest over the examples
    of the mean squared relative error.
    """

    to: str
    mean: float
    standard_error: float | None
    sensitivity: float


@dataclass(frozen=True)
class AttenuationCurve(Record):
    """Noise of relative norm `level` in the input of layer i, followed to every later layer, i
    included.
    """

    level: float
    draws: int
    points: tuple[AttenuationPoint, ...]


@dataclass(frozen=True)
class NoiseSensitivity(Record):
    """ψ of Definition 3 of the part from the input of layer `start` to the output of `end`, largest
    over the examples.

    η is `scale` times a draw of `noise`; the value is a mean over `draws` with the worst example's
    `standard_error`; the largest of noisy means overstates the largest mean a little.
    """

    start: str
    end: str
    noise: str
    scale: float
    draws: int
    value: float
    standard_error: float | None
    spread: Distribution


@dataclass(frozen=True)
class EffectiveParameters(Record):
    """Table 1 of Arora 2018: c_i²β_i²⌈κ_i/s_i⌉²/(μ_i²μ_{i→}²), without the theorem's constants and
    logarithms.

    `percent` is of the layer's weights, `parameters` (the table leaves biases out). `zeta_value` is
    the same on the sample without its worst fraction ζ (Corollaries A.1, C.1), one set of examples
    for all layers.
    """

    value: float
    percent: float
    zeta_value: float
    parameters: int


@dataclass(frozen=True)
class FromInitialisation(Record):
    """A layer seen from its initialisation: A - A₀ in place of A wherever the weights are what is
    compressed.

    `distance` = ‖A - A₀‖_F of the parameters; `layer_cushion` = min ‖Aφ(x)‖/(‖A - A₀‖_F‖φ(x)‖).
    `spectrum` is that of the true map of A - A₀.
    """

    distance: float
    layer_cushion: Distribution | None
    noise_sensitivity: Distribution | None
    interlayer_smoothness: tuple[Smoothness, ...]
    effective_parameters: EffectiveParameters | None
    spectrum: Spectrum | None = None


@dataclass(frozen=True)
class Claim(Record):
    """One qualitative claim of the paper: what was found on this net, the threshold that decides,
    and the answer.
    """

    claim: str
    found: str
    threshold: str
    held: bool


@dataclass(frozen=True)
class NetStability(Record):
    """Whole-net noise stability, and how it was measured.

    `activation_contraction` is Definition 6's c over all layers. `capacity` is the note's
    (depth·c/(μ·μ_→))² at the layer whose μ_i·μ_{i→} is smallest, with that c. The effective
    parameters are sums over layers. `bias_gap` is the largest of the pairs'. `examples` are the
    rows on which all but layer cushion, contraction and sensitivity were measured.
    """

    examples: int
    probes: int
    method: Literal["auto", "exact", "probes"]
    zeta: float
    seed: int
    activation_contraction: float | None
    interlayer_smoothness: tuple[Smoothness, ...]
    capacity: float | None
    effective_parameters: float | None
    effective_parameters_zeta: float | None
    effective_parameters_from_initialisation: float | None
    bias_gap: float | None
    weights: Weights = "trained"
