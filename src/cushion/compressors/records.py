"""What `cushion compress` answers for the compressors of Arora 2018: sizes, errors, promises,
bounds; no torch.

Relative errors are ‖x̂ - x‖/‖x‖ of one example's values at a layer; "worst" is the largest over the
examples that were looked at. Promises are those of the paper's lemmas with the constants of
docs/compression-bounds.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cushion.records import Record
from cushion.theorems.records import Bound


@dataclass(frozen=True)
class Promise(Record):
    """What a method's theorem promises of the compressed net, checked on the sample.

    worst_ratio: the largest observed deviation over the promised one; held: whether it is at most
    1.
    """

    held: bool
    worst_ratio: float

    @classmethod
    def of(cls, checks: Sequence[PromiseCheck]) -> Promise | None:
        """All promises that were made; None if there was none."""
        made = [one for one in checks if one.held is not None and one.worst_ratio is not None]
        if not made:
            return None
        return cls(
            all(one.held for one in made), max(float(one.worst_ratio or 0.0) for one in made)
        )


@dataclass(frozen=True)
class Dependence(Record):
    """How far the filters at different places are from independent (Lemma 12 claims that they are,
    p at a time).

    correlation: mean ⟨Δ_a, Δ_b⟩ over pairs of places, over the mean ‖Δ_a‖²; 0 for independent
    filters. expected: its closed form. variance_factor: how many times the variance of a sum over
    all places exceeds that of independent ones.
    """

    places: int
    correlation: float
    expected: float
    variance_factor: float


@dataclass(frozen=True)
class LayerCompression(Record):
    """One affine layer, before and after.

    size: the rank, the number k of helper matrices, or the dimension kp of the subspace; 0 where
    the weight is kept. lemma_size: the size that the lemma asks for (log10 in `lemma_size_log10`);
    None where nothing was asked or promised. promised: the relative error at this layer that the
    lemma promises once layers 1 to i are compressed, (i/d)ε; measured: the worst one seen.
    own_accuracy: what the lemma promises of this layer's weight alone (δ of Lemma 1, ε of Lemmas 2
    and 13) and own_ratio the worst observed error over it. step: of the grid. parameters and bits
    count the bias; bits is what the layer's numbers take in the message. dependence: for a filter
    at each place.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    stored_as: str
    size: int
    lemma_size: float | None
    lemma_size_log10: float | None
    parameters_before: int
    parameters: int
    bits: int
    step: float
    promised: float | None
    measured: float
    own_accuracy: float | None
    own_ratio: float | None
    weight_error: (
        float  # ‖Â - A‖_F / ‖A‖_F of the weights; of a filter at each place, the root mean square
    )
    dependence: Dependence | None = None
    note: str = ""


@dataclass(frozen=True)
class PlaceSums(Record):
    """A simulated sum over places of one convolution, with independent filters or with Algorithm
    4's.

    moment_ratio: its p-th moment over the (6p)^p·σ^p that Lemma 15 or Corollary C.2 promises;
    tail_ratio: the largest frequency of a tail over its promised probability. Both are loose, and
    may hold without independence. variance_ratio: its variance over that of independent filters,
    with its standard error. pair_correlation: of neighbouring places.
    """

    claim: str
    layer: str
    filters: Literal["independent", "algorithm 4"]
    k: int
    p: int
    places: int
    trials: int
    moment_ratio: float
    tail_ratio: float
    variance_ratio: float
    variance_error: float
    pair_correlation: float
    pair_error: float


@dataclass(frozen=True)
class InductionError(Record):
    """The relative error at layer `at` when layers 1 to `compressed` are compressed, against
    (i/d)ε.
    """

    compressed: int
    at: str
    promised: float | None
    worst: float
    mean: float


@dataclass(frozen=True)
class PromiseCheck(Record):
    """One lemma on this net: what it promises, on how many cases it was checked, the worst observed
    over promised.

    held: whether the worst ratio is at most 1 (for a promise that may fail on a fraction of the
    examples: whether at most that fraction does). None where the lemma's conditions fail, so that
    it promises nothing; `meaning` says why.
    """

    name: str
    source: str
    held: bool | None
    worst_ratio: float | None
    cases: int
    meaning: str


@dataclass(frozen=True)
class CurvePoint(Record):
    """One compression of the same net by the same method at another size.

    asked: the --k or --epsilon of this point. relative_error: of the scores, ‖f̂(x) - f(x)‖/‖f(x)‖,
    worst and mean over the sample. margin_loss: fraction of the sample with a margin of at most γ
    under the compressed net.
    """

    asked: str
    parameters: int
    bits: int
    worst_relative_error: float
    mean_relative_error: float
    margin_loss: float
    error: float
    test_error: float | None


@dataclass(frozen=True)
class Rate(Record):
    """The explicit bound of one vector algorithm on a linear classifier with this margin, as a
    function of m.
    """

    method: Literal["vector-compress", "vector-project"]
    coordinates: int  # h; Vector-Project's bound does not depend on it
    m: int
    eta: float
    numbers: float
    bits: float
    bound: float


@dataclass(frozen=True)
class Occam(Record):
    """The Occam bound on the compressed net's error, from the bits of its own message.

    kind "certificate": `file` holds an integer net that anybody can recheck with `cushion verify`.
    kind "this machine": scores are floating point and the architecture is taken as fixed before the
    data; the same command recomputes it.
    """

    kind: Literal["certificate", "this machine"]
    errors: int
    m: int
    bits: int
    delta: float
    bound: float
    holdout_errors: int | None = None
    holdout_m: int | None = None
    file: str = ""
    because: str = ""  # why there is no certificate of this kind


@dataclass(frozen=True)
class NetCompression(Record):
    """One compression of a whole net, layer by layer.

    epsilon: the relative error of the scores that is promised (Lemma 3: at every layer j ≥ i,
    (i/d)ε), None where nothing is. gamma: the margin; zeta: the fraction of examples that may be
    left out. promise: all checks together.
    """

    method: str
    helper: str
    variant: str
    from_initialisation: bool
    seed: int
    gamma: float | None
    epsilon: float | None
    zeta: float
    number_bits: int | None  # None where an accuracy or γ sets the grid
    settings: dict[
        str, str | float | int | bool | None
    ]  # every option as it was given or by default
    examples: int
    m: int
    parameters_before: int
    parameters: int
    bits: int
    layers: tuple[LayerCompression, ...]
    induction: tuple[InductionError, ...]
    promises: tuple[PromiseCheck, ...]
    promise: Promise | None
    errors_before: int
    occam: tuple[Occam, ...]
    paper_bounds: tuple[Bound, ...]
    curve: tuple[CurvePoint, ...] = ()
    rates: tuple[Rate, ...] = ()
    place_sums: tuple[PlaceSums, ...] = ()
    assumptions: tuple[str, ...] = ()  # of the bounds, which nobody can check
