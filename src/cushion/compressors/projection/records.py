"""What the compressors of Arora 2018 answer besides what every compression does; no torch.

Promises are those of the paper's lemmas with the constants of docs/compression-bounds.md.
"""

from __future__ import annotations

from typing import Literal

from cushion.compressors.records import CurvePoint, InductionError, LayerSummary, Summary
from cushion.records import Record, column
from cushion.theorems.linear_rates import LinearRate


class Dependence(Record):
    """How far filters at different places are from independent, as Lemma 12 calls them."""

    places: int = column("of the layer's output")
    correlation: float = column(
        "mean ⟨Δ_a, Δ_b⟩ over pairs of places, over the mean ‖Δ_a‖²; 0 if Lemma 12 held"
    )
    expected: float = column("its closed form")
    variance_factor: float = column(
        "how many times the variance of a sum over all places exceeds that of independent filters",
        label="variance",
    )


class LayerProjection(LayerSummary, kw_only=True):
    """One affine layer, before and after. size: 0 where the weight is kept."""

    size: int = column("the rank, the number k of helper matrices, or the dimension kp", label="k")
    lemma_size: float | None
    lemma_size_log10: float | None = column(
        "the size that the lemma asks for; - where nothing was asked or promised",
        label="lemma's k",
        unit="log10",
    )
    own_accuracy: float | None = column(
        "what the lemma allows this layer alone (δ of Lemma 1, ε of Lemmas 2 and 13)",
        label="accuracy",
    )
    own_ratio: float | None = column(
        "the worst error of this layer alone that was seen, over its accuracy", label="seen/allowed"
    )
    promised: float | None = column(
        "the relative error here that Lemma 3 promises, where it applies, once layers 1 to i are "
        "compressed",
        label="(i/d)ε",
    )
    measured: float = column(
        "relative error of the layer's output once it and all before it are compressed, the worst "
        "of all examples"
    )
    parameters: int = column("numbers stored, biases included", label="after")
    step: float  # of the grid
    weight_error: float  # ‖Â - A‖_F/‖A‖_F; of a filter at each place, the root mean square
    dependence: Dependence | None = column(
        "The filters of two places, which Lemma 12 calls independent", default=None
    )
    note: str = column("what a reader should know", default="")


class PlaceSums(Record):
    """A simulated sum over places of one convolution, with independent filters or with Algorithm
    4's. Moment and tail ratios are loose, and may hold without independence.
    """

    claim: str = column("whose promise")
    layer: str = column("the convolution")
    filters: Literal["independent", "algorithm 4"] = column("drawn independently, or as they are")
    k: int = column("vectors of a place")
    p: int = column("places taken as independent")
    places: int = column("in the sum")
    trials: int = column("simulated")
    moment_ratio: float = column(
        "the p-th moment over the (6p)^p·σ^p that is promised (loose)", label="moment"
    )
    tail_ratio: float = column(
        "the largest frequency of a tail over its promised probability (loose)", label="tail"
    )
    variance_ratio: float = column("over that of independent filters", label="variance")
    variance_error: float = column("its standard error", label="±")
    pair_correlation: float = column("of neighbouring places", label="correlation")
    pair_error: float = column("its standard error", label="± of it")


class ProjectionSummary(Summary, kw_only=True):
    """One compression of a whole net by a method of Arora 2018."""

    helper: str = column("the helper string", label="helper string")
    variant: str = column("what is not the paper's", label="variant")
    from_initialisation: bool = column(
        "yes: what training changed is compressed, the initialisation is helper string",
        label="from initialisation",
    )
    epsilon: float | None = column(
        "relative error of the scores that is promised (Lemma 3: (i/d)ε at every layer j ≥ i)",
        label="epsilon",
    )
    zeta: float = column("fraction of examples that may be left out", label="zeta")
    number_bits: int | None  # None where an accuracy or γ sets the grid
    examples: int
    induction: tuple[InductionError, ...]
    curve: tuple[CurvePoint, ...] = column("Relative error of scores, over size", default=())
    rates: tuple[LinearRate, ...] = column(
        "What the two vector algorithms add to the margin loss at this margin", default=()
    )
    place_sums: tuple[PlaceSums, ...] = column("Sums over places, simulated", default=())
