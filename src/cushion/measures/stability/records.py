"""What noise stability (Arora 2018) is reported in: frozen records, no torch, measures.

Layers are named; i is the layer that a record belongs to, j a later one. Distributions hold one
number per example; `standard_error` belongs to random probes or draws and is None where the value
is exact.
"""

from __future__ import annotations

from typing import Any, Literal

from cushion.measures.distribution import Spectrum
from cushion.measures.family import Weights, described
from cushion.records import Distribution, Record, column


class PairCushion(Record):
    """μ_{i,j} for one later layer (Definitions 5, 8): √(n₁n₂)·‖J x^i‖ / (‖J‖_F ‖x^i‖)."""

    to: str = column("layer j")
    value: float = column("the minimum over the examples", label="μ_i,j", better="high")
    exact: bool = column("whether no probe entered")
    standard_error: float | None = column("relative: the mean over examples of that of the ratio")
    bias_gap: float = column("the largest |‖J x^i‖ - ‖x^j‖| / ‖x^j‖: 0 without biases")
    spread: Distribution = column("over the examples")


class InterlayerCushion(Record):
    """μ_{i,j} for all j > i that were measured."""

    value: float = column("the smallest of them", better="high")
    pairs: tuple[PairCushion, ...] = column("one for each j")


class MinimalInterlayerCushion(Record):
    """μ_{i→}, the smallest μ_{i,j} over j ≥ i."""

    value: float = column("min(clip, smallest μ_i,j)", label="μ_i→", better="high")
    clip: float = column("μ_i,i = 1/√h of the layer, which clips μ_i→", label="clipped at")
    unclipped: Distribution | None = column(
        "smallest √places·‖J x‖ / (‖J‖_F ‖x‖)",
        label="interlayer",
        better="high",
        source="Def. 5, 8",
    )
    all_pairs: bool = column("whether every later layer j entered")


class JacobianBeta(Record):
    """β of Definition 9 for layer i; a dense layer has one place and β = 1."""

    value: float = column("the largest √(n₁n₂)·‖J at a place‖_F / ‖J‖_F, over places and examples")
    to: tuple[str, ...] = column("layers j whose Jacobians entered with all their places")
    sampled_to: tuple[str, ...] = column("those of which only sampled places did: β is too small")
    places: int = column("how many places were sampled")
    spread: Distribution = column("over the examples")


class PairSmoothness(Record):
    """ρ for one later layer j alone, as `Smoothness.value` is for all."""

    to: str = column("layer j")
    value: float = column("ρ_δ of this pair", better="high")


class Smoothness(Record):
    """ρ_δ of Definition 7 under one kind of noise at layer i.

    For one draw of the noise ρ is the smallest ‖η‖‖x^j‖ / (‖x^i‖·‖M(x^i+η) - x^j - Jη‖) over the
    examples and j > i.
    """

    noise: str = column("the law of the noise η")
    kind: Literal["gaussian", "sign-projection", "from-initialisation"] = column("of that law")
    level: float | None = column("‖η‖/‖x^i‖ that it is scaled to, if any")
    delta: float = column("the fraction of draws that may be worse", label="δ")
    draws: int = column("of the noise")
    value: float | None = column(
        "reached by a fraction 1 - δ of the draws", label="rho", better="high", source="Def. 7"
    )
    inverse: float = column(
        "departure from linearity: small is smooth", label="1/rho", better="low", source="Def. 7"
    )
    standard_error: float | None = column("of rho, by order statistics; none if too few draws")
    relative_norm: float = column("mean ‖η‖/‖x^i‖", label="‖η‖/‖x‖")
    inverse_spread: Distribution | None = column(
        "each example's own 1/ρ_δ over the draws, 0 on the linear piece", label="1/rho"
    )
    pairs: tuple[PairSmoothness, ...] = column("one for each later layer")


def standard(laws: tuple[Smoothness, ...]) -> Smoothness | None:
    """The law of noise that tables show: Algorithm 1's at a relative norm."""
    shown = (law for law in laws if law.kind == "sign-projection" and law.level is not None)
    return next(shown, None)


class AttenuationPoint(Record):
    """The relative error ‖x̂^j - x^j‖/‖x^j‖ at one layer."""

    to: str = column("layer j")
    mean: float = column("over examples and draws")
    standard_error: float | None = column("over draws")
    sensitivity: float = column("ψ from the noisy input to x^j, noise on a sphere", source="Def. 3")


class AttenuationCurve(Record):
    """Noise in the input of layer i, followed to every later layer, i included."""

    level: float = column("relative norm of the noise")
    draws: int = column("of the noise")
    points: tuple[AttenuationPoint, ...] = column("one for each layer from i on")

    @property
    @described("mean relative error right after the layer that the noise enters", label="after it")
    def after(self) -> float:
        return self.points[0].mean

    @property
    @described("mean relative error at the scores", label="at the end", better="low")
    def at_the_end(self) -> float:
        return self.points[-1].mean


class NoiseSensitivity(Record):
    """ψ of Definition 3 of a part of a net, from one layer's input to another's output."""

    start: str = column("the layer whose input is noisy")
    end: str = column("the layer whose output is looked at")
    noise: str = column("the law of η")
    scale: float = column("that η is multiplied by")
    draws: int = column("of the noise")
    value: float = column("mean over draws, largest over examples: overstates a little")
    standard_error: float | None = column("of the worst example")
    spread: Distribution = column("over the examples")


class EffectiveParameters(Record):
    """Table 1 of Arora 2018, without the theorem's constants and logarithms."""

    value: float = column("c²β²⌈κ/s⌉²/(μ²μ_→²)", label="effective", better="low")
    percent: float = column("of the layer's weights", label="% of actual", better="low")
    zeta_value: float = column("without the sample's worst fraction ζ", source="Cor. A.1, C.1")
    parameters: int = column("the layer's weights (the table leaves biases out)")


class FromInitialisation(Record):
    """A layer seen from its initialisation: A - A₀ in place of A as what is compressed."""

    distance: float = column("‖A - A₀‖_F of the parameters")
    layer_cushion: Distribution | None = column("min ‖Aφ(x)‖/(‖A - A₀‖_F‖φ(x)‖)", better="high")
    noise_sensitivity: Distribution | None = column("Proposition 3.1 for A - A₀", better="low")
    interlayer_smoothness: tuple[Smoothness, ...] = column("under projections of A - A₀")
    effective_parameters: EffectiveParameters | None = column("with that cushion")
    spectrum: Spectrum | None = column("of the true map of A - A₀")


class LayerStability(Record):
    """One layer's share."""

    layer_cushion: Distribution | None = column(
        "‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖), smallest: the larger, the less noise in A matters",
        label="cushion",
        better="high",
        source="Def. 4",
    )
    activation_contraction: Distribution | None = column(
        "‖x‖ / ‖φ(x)‖ of a layer's output, largest",
        label="contraction",
        better="low",
        source="Def. 6",
    )
    noise_sensitivity: Distribution | None = column(
        "ψ of the true map, Gaussian noise", label="sensitivity", better="low", source="Prop. 3.1"
    )
    interlayer_cushion: InterlayerCushion | None = column(
        "μ_i,j of all later layers", better="high", source="Def. 5, 8"
    )
    minimal_interlayer_cushion: MinimalInterlayerCushion | None = column(
        "the smallest μ_i,j, clipped", better="high", source="Def. 5, 8"
    )
    jacobian_beta: JacobianBeta | None = column(
        "largest share of one place in J, 1 = even", label="beta", better="low", source="Def. 9"
    )
    interlayer_smoothness: tuple[Smoothness, ...] = column("ρ_δ, a law of noise each, Def. 7")
    noise_attenuation: tuple[AttenuationCurve, ...] = column("of injected noise, a curve a level")
    effective_parameters: EffectiveParameters | None = column(
        "parameters it counts as: c²β²⌈κ/s⌉²/(μ²μ_→²)",
        label="effective",
        better="low",
        source="Table 1",
    )
    from_initialisation: FromInitialisation | None = column("with A - A₀ in place of A")

    @property
    def smoothness(self) -> Smoothness | None:
        """ρ_δ under the law that tables show."""
        return standard(self.interlayer_smoothness)

    @property
    @described("whether the interlayer cushion is exact, by probes (~), or lacks later layers (?)")
    def pairs(self) -> str:
        minimal, cushion = self.minimal_interlayer_cushion, self.interlayer_cushion
        if minimal is None or cushion is None:
            return ""
        marks = "~" * any(not pair.exact for pair in cushion.pairs) + "?" * (not minimal.all_pairs)
        return marks or "exact"

    def flat_columns(self) -> dict[str, Any]:
        """Of a DataFrame, beyond what every record lays flat."""
        return {"interlayer_smoothness": getattr(self.smoothness, "value", None)}


class NetStability(Record):
    """Whole-net noise stability, and how it was measured."""

    examples: int = column("rows for all but cushion, contraction and sensitivity, which saw all")
    probes: int = column("Gaussian probes a pair where exact norms cost more")
    method: Literal["auto", "exact", "probes"] = column("of the Jacobian norms")
    zeta: float = column("the fraction of examples that may be dropped", label="ζ")
    seed: int = column("of every probe, draw, subset and place")
    activation_contraction: float | None = column(
        "c over all layers", label="contraction c", better="low", source="Def. 6"
    )
    interlayer_smoothness: tuple[Smoothness, ...] = column("ρ_δ over all pairs, a law each")
    capacity: float | None = column(
        "(depth·c/(μ·μ_→))² at the layer whose μ·μ_→ is smallest, with that c, without β and ⌈κ/s⌉",
        better="low",
    )
    effective_parameters: float | None = column("sum over the layers", better="low")
    effective_parameters_zeta: float | None = column(
        "without the worst fraction ζ of examples", label="effective parameters, ζ", better="low"
    )
    effective_parameters_from_initialisation: float | None = column(
        "with A - A₀ in place of A", label="effective parameters, A - A₀", better="low"
    )
    bias_gap: float | None = column("the largest of the pairs: above 0.001 biases matter")
    weights: Weights = column("whose weights these are", default="trained")
    blocks_left_out: str = column("why nothing was measured between blocks", default="")


class BlockStability(Record):
    """One block of a net that hooks see: residual or transformer, or a layer outside of these."""

    name: str = column("the block, as the net calls it", label="block")
    kind: str = column("its class")
    shape: tuple[int, ...] = column("of what it puts out")
    interlayer_cushion: InterlayerCushion | None = column(
        "√places·‖J x‖ / (‖J‖_F ‖x‖), smallest over later blocks", label="interlayer", better="high"
    )
    interlayer_smoothness: Smoothness | None = column("ρ_δ to later blocks under Gaussian noise")


class StabilityOfNet(Record):
    """What stability adds to the net's row."""

    stability: NetStability | None = column("noise stability of the whole net")
    blocks: tuple[BlockStability, ...] = column("of a net that hooks see", default=())
