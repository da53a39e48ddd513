"""What `cushion compress --method magnitude` and `sketch` answer: layers, promises, counts, bounds;
no torch.

Letters are those of Guha 2023: Ψ a layer's variance, d the strength of Algorithm 1, Δ = Â - A what
pruning takes away, J the non-zeros left, ρ the grid's step, χ = 1 - √(d/(d+2)) the expected share
of weights that stay. What rests on Assumption 3.1 (normal weights) stands beside `Normality`, which
says how far the layer is from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cushion.compressors.records import CurvePoint, Occam, Promise, PromiseCheck
from cushion.records import Record
from cushion.theorems.records import Bound


@dataclass(frozen=True)
class Normality(Record):
    """Assumption 3.1 on one layer: its weights (off the diagonal) against N(0, Ψ).

    ks_distance: sup |F_n - F|; a true normal sample of this size exceeds `ks_critical` once in a
    hundred times. kurtosis: mean w⁴ / Ψ², 3 for a normal law. mean_ratio: mean / √Ψ, 0 for it.
    """

    psi: float
    ks_distance: float
    ks_critical: float
    kurtosis: float
    mean_ratio: float

    @property
    def plausible(self) -> bool:
        return self.ks_distance <= self.ks_critical


@dataclass(frozen=True)
class Moments(Record):
    """Lemma 4.1 on one layer: the moments of Δ's entries off the diagonal, as seen and as N(0, Ψ)
    would give them.

    kept: the share of weights that stayed (χ expected). `*_error`: the standard error of what was
    seen, given normal weights and Algorithm 1's coins.
    """

    mean: float
    mean_error: float
    second: float
    second_expected: float
    second_error: float
    fourth: float
    fourth_expected: float
    fourth_error: float
    kept: float
    kept_expected: float
    kept_error: float

    @property
    def deviations(self) -> tuple[float, ...]:
        """|seen - expected| over the standard error, of the three moments and the share; 0 where
        both are 0.
        """
        pairs = (
            (self.mean, self.mean_error),
            (self.second - self.second_expected, self.second_error),
            (self.fourth - self.fourth_expected, self.fourth_error),
            (self.kept - self.kept_expected, self.kept_error),
        )
        return tuple(
            abs(gap) / error if error > 0 else 0.0 if gap == 0 else math.inf for gap, error in pairs
        )


@dataclass(frozen=True)
class LayerSketch(Record):
    """A pruned layer as Y = A X Bᵀ, and what came back.

    rows, columns: of Y. ones: in each column of A and B. recovered: whether every number came back;
    else `wrong` did not, and the layer is stored pruned instead. optimal_gap: (‖X̂‖₁ - dual
    value)/‖X̂‖₁, a proof that nothing feasible has a smaller ℓ1 norm where it is 0. theory:
    √(jp)·ln p of Theorem 5.1, without its constant. bits: what Y takes, against `pruned_bits` for
    the same layer as mask and values.
    """

    rows: int
    columns: int
    ones: int
    numbers: int
    theory: float
    recovered: bool
    wrong: int
    optimal_gap: float
    iterations: int
    seconds: float
    bits: int
    pruned_bits: int


@dataclass(frozen=True)
class LayerPruning(Record):
    """One affine layer, before and after; a batch-norm that could not be folded is kept as it is.

    kept: weights that the mask lets stay; nonzeros: J, those that rounding leaves; dead: those that
    went because their unit has no inputs or no reader left, which changes nothing and is no
    rounding. spectral: ‖A‖₂; shift: ‖Δ‖₂ of the true map, both to a relative 1e-6; gamma_l: Γ_l of
    Lemma 4.2 with C = 1 (None for a deterministic rule, and for a convolution, whose map has no
    independent entries), so that the lemma needs C·ε_l ≥ shift/gamma_l. rho: the grid's step;
    rho_limit: what Lemma 4.4 allows, as printed with ε_lΓ_l (C = 1) and corrected with ‖Δ‖₂ and
    (ρ/2)√J; not positive where no grid satisfies it. rounding: ‖Ã - Â‖₂, against ρJ as printed and
    (ρ/2)√J corrected. row_most, column_most: the most non-zeros of a row (the paper's j_c) and of a
    column (j_r); limit: what Lemma 5.1 allows either, as printed and corrected. diagonal: whether
    no diagonal entry is zero, so that Definition 5.1 holds.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters_before: int
    kept: int
    nonzeros: int
    dead: int
    bits: int
    normality: Normality | None
    moments: Moments | None
    spectral: float
    shift: float
    gamma_l: float | None
    epsilon_l: float | None
    lambda_l: float | None
    rho: float
    rho_limit_printed: float | None
    rho_limit: float
    rounding: float
    rounding_printed: float
    rounding_limit: float
    row_most: int
    column_most: int
    limit_printed: float | None
    limit: float | None
    diagonal: bool
    stored_as: str
    sketch: LayerSketch | None = None

    @property
    def weights(self) -> int:
        """Numbers in its weight, the bias left out."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Subgaussian(Record):
    """Condition C.1 and what Lemma C.1 makes of it, layer by layer; a measure, since a, b, t were
    given or fitted.

    It was looked at on `rows` examples, scaled to length 1, along `directions` right singular
    vectors of Δ a layer (all of them, or the leading ones). kappa: √min(d₁, d₂)·t, at most 1;
    product: ∏κ, the factor that Lemmas C.2 to C.4 put on the error bounds of Lemmas 4.3 and 4.4.
    failure: the probability that Lemma C.1 allows for, Σ m·k·a·exp(-b t² d) over layers with κ < 1,
    k the singular vectors of the layer and d the numbers of its input. seen: the largest
    ‖Δx‖/(‖Δ‖₂‖x‖), which κ should bound.
    """

    how: str  # "given", or "fitted to the layers' inputs"
    a: float
    b: tuple[float, ...]
    t: tuple[float, ...]
    kappa: tuple[float, ...]
    seen: tuple[float, ...]
    product: float
    failure: float
    rows: int
    directions: tuple[int, ...]


@dataclass(frozen=True)
class Tried(Record):
    """One value of d or of the sparsity with one grid, of those that were tried; the smallest bound
    is taken.

    bits: of the message as positions and values; an estimate, to a few in a thousand, where it was
    not `written` because the net has more than 32 768 numbers and another was taken.
    """

    asked: str
    grid: str
    nonzeros: int
    bits: int
    errors: int
    bound: float
    written: bool
    chosen: bool = False


@dataclass(frozen=True)
class NetPruning(Record):
    """One pruned net, layer by layer.

    failure: how δ is shared: ε_l, λ_l of every layer such that all lemmas together fail with at
    most δ (Σ 1/ε_l + Σ 1/λ_l + what Lemma 5.1 adds). tried: every setting that was tried, for which
    `price` nats are paid in the paper's bounds; the certificate's code covers all messages, so that
    there the choice is free. errors_after_pruning: before fine-tuning and rounding. output_error:
    worst ‖x̃ - x‖ of the scores over the sample. notes: what a reader should know of this run.
    """

    method: str
    rule: str
    d: float | None
    sparsity: float
    seed: int
    settings: dict[str, Any]
    gamma: float | None
    m: int
    delta: float
    parameters_before: int
    parameters: int
    bits: int
    layers: tuple[LayerPruning, ...]
    failure: dict[str, float]
    promises: tuple[PromiseCheck, ...]
    promise: Promise | None
    subgaussian: Subgaussian | None
    tried: tuple[Tried, ...]
    price: float
    errors_before: int
    errors_after_pruning: int
    errors: int
    fine_tuned: int
    output_error: float
    occam: tuple[Occam, ...]
    paper_bounds: tuple[Bound, ...]
    curve: tuple[CurvePoint, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
