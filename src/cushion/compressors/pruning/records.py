"""What pruning and sketching (Guha 2023) answer besides what every compression does; no torch.

Letters are those of the paper: Ψ a layer's variance, d the strength of Algorithm 1, Δ = Â - A what
pruning takes away, J the non-zeros left, ρ the grid's step, χ = 1 - √(d/(d+2)) the expected share
of weights that stay. What rests on Assumption 3.1 (normal weights) stands beside `Normality`, which
says how far the layer is from it.
"""

from __future__ import annotations

import math

from cushion.compressors.records import CurvePoint, LayerSummary, Tried, TriedSummary
from cushion.records import Record, column


class Normality(Record):
    """Assumption 3.1 on one layer: its weights (off the diagonal) against N(0, Ψ)."""

    psi: float = column("Ψ, the mean square of the weights", label="Ψ")
    ks_distance: float = column("sup |F_n - F|", label="KS distance")
    ks_critical: float = column(
        "what a true normal sample of this size exceeds once in a hundred times", label="1 % level"
    )
    kurtosis: float = column("mean w⁴/Ψ², 3 for a normal law", label="kurtosis (3)")
    mean_ratio: float = column("mean/√Ψ, 0 for a normal law", label="mean/√Ψ (0)")

    @property
    def plausible(self) -> bool:
        return self.ks_distance <= self.ks_critical


class Moments(Record):
    """Lemma 4.1 on one layer: the moments of Δ's entries off the diagonal, as seen and as N(0, Ψ)
    would give them.

    `*_error`: the standard error of what was seen, given normal weights and Algorithm 1's coins.
    """

    mean: float = column("of Δ; 0 expected", label="mean (0)")
    mean_error: float = column("standard error", label="±")
    second: float = column("second moment of Δ")
    second_expected: float = column("the same by Lemma 4.1", label="Lemma 4.1")
    second_error: float = column("standard error", label="±")
    fourth: float = column("fourth moment of Δ")
    fourth_expected: float = column("the same by Lemma 4.1", label="Lemma 4.1")
    fourth_error: float = column("standard error", label="±")
    kept: float = column("the share of weights that stayed", label="kept")
    kept_expected: float = column("χ of Algorithm 1", label="expected")
    kept_error: float = column("standard error", label="±")

    @property
    def deviations(self) -> tuple[float, ...]:
        """|seen - expected| over the standard error: three moments and the share; 0/0 is 0."""
        pairs = (
            (self.mean, self.mean_error),
            (self.second - self.second_expected, self.second_error),
            (self.fourth - self.fourth_expected, self.fourth_error),
            (self.kept - self.kept_expected, self.kept_error),
        )
        return tuple(
            abs(gap) / error if error > 0 else 0.0 if gap == 0 else math.inf for gap, error in pairs
        )


class LayerSketch(Record):
    """A pruned layer as Y = A X Bᵀ; stored pruned instead where not every number came back."""

    rows: int = column("of Y")
    columns: int = column("of Y")
    ones: int = column("in each column of A and B")
    numbers: int = column("of Y")
    theory: float = column("side by Theorem 5.1, without its constant", label="√(jp) ln p")
    recovered: bool = column("whether every number came back", label="came back")
    wrong: int = column("numbers that did not come back")
    optimal_gap: float = column("(‖X̂‖₁ - dual)/‖X̂‖₁; 0: nothing feasible is smaller", label="gap")
    iterations: int = column("of the recovery")
    seconds: float = column("of the recovery", unit="seconds")
    bits: int = column("of the sketch, its sizes included")
    pruned_bits: int = column("of the same layer as mask and values", label="as mask and values")


class LayerPruning(LayerSummary, kw_only=True):
    """One affine layer, before and after; a batch-norm that could not be folded is kept as it is.

    rho_limit, rounding and limit stand corrected and as printed (with ε_lΓ_l at C = 1, ρJ, and
    Lemma 5.1's own limit). Of a convolution J counts a weight once for each patch that can share an
    input.
    """

    kept: int = column("weights that the mask lets stay")
    nonzeros: int = column("J, those that rounding leaves; biases left out", label="non-zeros")
    dead: int = column("more that went, since their unit has no inputs or no reader left")
    spectral: float = column("of the true map, to a relative 1e-6", label="‖A‖₂")
    shift: float = column("of what pruning took away, to a relative 1e-6", label="‖Δ‖₂")
    gamma_l: float | None = column(
        "‖Δ‖₂ ≤ C·ε_l·Γ_l (Lemma 4.2), C unstated; - for convolutions and other rules", label="Γ_l"
    )
    epsilon_l: float | None = column("share of δ that Lemma 4.2 may fail with: 1/ε_l", label="ε_l")
    lambda_l: float | None = column("share of δ that Lemma 5.1 may fail with: 1/λ_l", label="λ_l")
    rho: float = column("step of the grid", label="ρ")
    rho_limit: float = column(
        "that Lemma 4.4 allows with ‖Δ‖₂ and (ρ/2)√J; not positive: no grid does", label="ρ limit"
    )
    rho_limit_printed: float | None = column("the same as printed", label="ρ printed")
    rounding: float = column("‖Ã - Â‖₂")
    rounding_limit: float = column("what rounding cannot exceed", label="(ρ/2)√J")
    rounding_printed: float = column("the same as printed", label="ρJ")
    row_most: int = column("the most non-zeros of a row, the paper's j_c", label="most in a row")
    column_most: int = column("the same of a column, j_r", label="in a column")
    limit: float | None = column("what Lemma 5.1 allows either", label="Lemma 5.1")
    limit_printed: float | None = column("the same as printed", label="5.1 printed")
    diagonal: bool = column("no zero on it, so that Definition 5.1 holds", label="diagonal whole")
    normality: Normality | None = column(
        "Assumption 3.1, on which Γ_l, χ and Lemmas 4.1, 4.2 and 5.1 rest: weights off the "
        "diagonal against N(0, Ψ)"
    )
    moments: Moments | None = column(
        "Moments of Δ off the diagonal and the share that stays, beside Lemma 4.1 and χ"
    )
    sketch: LayerSketch | None = column(
        "Sketches A X Bᵀ, and what the smallest ℓ1 norm recovers", default=None
    )


class Subgaussian(Record):
    """Condition C.1 and Lemma C.1 layer by layer; a measure: a, b, t were given or fitted."""

    how: str = column("given, or fitted to the layers' inputs", label="Condition C.1 was")
    a: float = column("of Condition C.1")
    b: tuple[float, ...] = column("of Condition C.1, a layer each")
    t: tuple[float, ...] = column("of Lemma C.1, a layer each")
    kappa: tuple[float, ...] = column("√min(d₁, d₂)·t, at most 1", label="κ")
    seen: tuple[float, ...] = column("the largest ‖Δx‖/(‖Δ‖₂‖x‖), which κ should bound")
    product: float = column(
        "∏κ, the factor that Lemmas C.2 to C.4 put on the bounds of Lemmas 4.3 and 4.4", label="∏κ"
    )
    failure: float = column(
        "the probability that Lemma C.1 allows for, Σ m·k·a·exp(-b t² d) over layers with κ < 1"
    )
    rows: int = column("examples that were looked at, scaled to length 1")
    directions: tuple[int, ...] = column("right singular vectors of Δ, of all or the leading ones")


class TriedPruning(Tried, kw_only=True):
    """One value of d or of the sparsity with one grid; bits are those as positions and values."""

    nonzeros: int = column("", label="non-zeros")

    @property
    def count(self) -> int:
        return self.nonzeros


class PruningSummary(TriedSummary, kw_only=True):
    """One pruned net, layer by layer.

    failure: how δ is shared: ε_l, λ_l of every layer such that all lemmas together fail with at
    most δ (Σ 1/ε_l + Σ 1/λ_l + what Lemma 5.1 adds).
    """

    rule: str = column("how weights were chosen")
    d: float | None = column("strength of Algorithm 1", label="d")
    sparsity: float = column("fraction of the weights that is zero", unit="error")
    failure: dict[str, float]
    subgaussian: Subgaussian | None = column(
        "Condition C.1 on the layers' inputs, and what it makes of the error bound; a measure"
    )
    errors_after_pruning: int = column("before fine-tuning and rounding", label="errors pruned")
    fine_tuned: int = column("epochs of fine-tuning", label="fine-tuned for")
    curve: tuple[CurvePoint, ...]
