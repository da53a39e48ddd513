"""What `cushion measure` answers: one row per affine layer, and the whole net; JSON out, no
torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cushion.errors import BadInput
from cushion.measures.conditions.records import NetConditions
from cushion.measures.distribution import Spectrum
from cushion.measures.norms.records import DistanceFromInitialisation, GroupNorms, PathNorm
from cushion.measures.sharpness.records import Sharpness
from cushion.measures.stability.records import (
    AttenuationCurve,
    Claim,
    EffectiveParameters,
    FromInitialisation,
    InterlayerCushion,
    JacobianBeta,
    MinimalInterlayerCushion,
    NetStability,
    Smoothness,
)
from cushion.measures.tails.records import LayerTails
from cushion.records import Distribution, Record

MEASURE_NOTE = "measure: relative, not a bound"
_SHAPES = ("shape", "input_shape", "output_shape")


@dataclass(frozen=True)
class LayerMeasures(Record):
    """What is known of one affine layer, in the order in which data passes them.

    `frobenius` is the norm of the layer's own parameters (for a convolution its kernel, as Arora
    2018 uses it); `operator_frobenius` and `spectral` are those of the true linear map on its
    feature map, with stride, padding, dilation and groups. `spectral` comes from Lanczos iteration
    (converged, from below); `spectral_upper` is an upper bound. `stable_rank` = operator_frobenius²
    / spectral². `layer_cushion` is Definition 4, `activation_contraction` Definition 6 (of φ after
    this layer; none after the last) and `noise_sensitivity` Proposition 3.1 of Arora 2018;
    `tail_alpha` is the exponent of the density of the tail of |w|, p ∝ |w|^-tail_alpha from xmin on
    (`tails.weights.power_law`); `stability_records`, `capacity_records` and `tail_records` document
    the rest.
    """

    name: str
    kind: str  # "linear" | "conv2d" | "batchnorm" (one that no affine layer precedes)
    shape: tuple[int, ...]  # of the weight
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    parameters: int
    layer_cushion: Distribution | None = None
    activation_contraction: Distribution | None = None
    noise_sensitivity: Distribution | None = None
    interlayer_cushion: InterlayerCushion | None = None
    minimal_interlayer_cushion: MinimalInterlayerCushion | None = None
    jacobian_beta: JacobianBeta | None = None
    interlayer_smoothness: tuple[Smoothness, ...] = ()
    noise_attenuation: tuple[AttenuationCurve, ...] = ()
    effective_parameters: EffectiveParameters | None = None
    from_initialisation: FromInitialisation | None = None
    spectrum: Spectrum | None = None
    kernel_spectrum: Spectrum | None = None
    frobenius: float | None = None
    operator_frobenius: float | None = None
    spectral: float | None = None
    spectral_upper: float | None = None
    stable_rank: float | None = None
    group_norms: GroupNorms | None = None
    distance: DistanceFromInitialisation | None = None
    tail_alpha: float | None = None
    tails: LayerTails | None = None


@dataclass(frozen=True)
class Margin(Record):
    """The margin γ that all but a fraction ε of S exceed: the ⌈εm⌉-th smallest (Neyshabur 2017,
    §2.2).

    Negative where more than a fraction ε of S is misclassified. `loss` is L̂_γ, the fraction of S
    with margin at most γ; `hard` the smallest margin of all.
    """

    epsilon: float
    value: float
    loss: float
    hard: float


@dataclass(frozen=True)
class NetMeasures(Record):
    """Whole-net quantities on S. Ties count as errors.

    `l2` is the Euclidean norm of all parameters, biases included, `distance` that of their change
    since initialisation.
    """

    m: int
    classes: int
    parameters: int
    depth: int  # number of affine layers
    is_chain: bool
    not_a_chain_because: str
    data: str
    data_fingerprint: str
    errors: int | None = None
    error_rate: float | None = None
    margins: Distribution | None = None
    margin_5th: float | None = (
        None  # the 5th-percentile margin, the papers' γ; negative margins stay negative
    )
    margin: Margin | None = None
    stability: NetStability | None = None
    l2: float | None = None
    distance: float | None = None
    path_norms: tuple[PathNorm, ...] = ()
    sharpness: Sharpness | None = None
    conditions: NetConditions | None = None


@dataclass(frozen=True)
class MeasureTable(Record):
    """Everything `cushion measure` computed: one row per affine layer, and the whole net.

    `beside` is the same table of the net's initialisation, or of random weights, scaled to match;
    on demand. `claims` are then what Arora 2018 says of trained nets, checked on this one.
    """

    layers: tuple[LayerMeasures, ...]
    net: NetMeasures
    kind: Literal["measure"] = "measure"
    note: str = MEASURE_NOTE
    beside: MeasureTable | None = None
    claims: tuple[Claim, ...] = ()

    def to_frame(self) -> Any:
        """Return the layer table as a pandas DataFrame, one row a layer (needs `pip install
        cushion[frames]`).
        """
        try:
            import pandas
        except ImportError:
            raise BadInput(
                "to_frame needs pandas; install it with: pip install 'cushion[frames]'"
            ) from None

        rows = []
        for layer in self.layers:
            row = layer.to_json()
            row["interlayer_smoothness"] = next(
                (law.value for law in layer.interlayer_smoothness if law.is_standard), None
            )
            for key, value in list(row.items()):
                # its value, and its median where it has one
                if isinstance(value, dict) and "value" in value:
                    row[key] = value["value"]
                    if "quantiles" in value:
                        row[f"{key}_median"] = value["quantiles"]["0.5"]
                elif isinstance(value, (dict, list)) and key not in _SHAPES:
                    del row[key]  # a table of its own; see the record
            rows.append({**row, **({} if layer.tails is None else layer.tails.columns())})
        return pandas.DataFrame(rows).set_index("name")
