"""Bounds of Guha 2023 for a pruned net: Theorem 5.2, Lemma D.1, Theorem D.1, the coder's.

All are about g, the pruned net on its grid, and all start from how often f is unsure on the sample.
What differs is how many g there are. Lemma D.1 counts masks and values: Σ ln C(N_l, J_l) + J_l ln
r_l nats. Theorem 5.2 counts the numbers of a sketch in their place: m_l² of them with m_l = √(j_l
p_l) ln p_l, up to the constant of Theorem 5.1; that is more, not less (erratum g), and each row
says by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cushion.theorems.compression import (
    CountedFacts,
    chosen_nats,
    coded_rows,
    counted_row,
    mask_nats,
    value_nats,
)
from cushion.theorems.logs import LN10, finite, log, price
from cushion.theorems.pruning import kept_by_d2_d3
from cushion.theorems.records import Bound, Statement

SKETCH, NAIVE, CODED = "sketch count", "naive count", "mask and values"
_THEOREM, _LEMMA = "Guha 2023, Thm 5.2", "Guha 2023, Lemma D.1"
_ROWS = (
    Statement(SKETCH, _THEOREM, "as printed", "g"),
    Statement(SKETCH, _THEOREM, "as plotted", "g"),
    Statement(SKETCH, _THEOREM, "corrected", "g"),
    Statement(NAIVE, _LEMMA, "as printed", "g"),
    Statement(f"{NAIVE}, with its δ", "Guha 2023, Thm D.1", "as printed", "g"),
    Statement(NAIVE, _LEMMA, "corrected", "g"),
)


@dataclass(frozen=True)
class PrunedLayerFacts:
    """One pruned layer, its weight seen as a matrix."""

    rows: int  # d₁
    columns: int  # d₂
    nonzeros: int  # J of the weight as it is stored
    # χ, the share of weights that stay: as Algorithm 1 expects it or, for another rule, as measured
    chi: float
    rho: float  # the step of the grid, a power of two
    values: int  # r: how many values a non-zero has there
    row_most: int  # the most non-zeros of a row
    column_most: int  # and of a column
    share: float  # λ_l of Lemma 5.1

    @property
    def weights(self) -> int:
        return self.rows * self.columns

    @property
    def header_nats(self) -> float:
        """What the grid's exponent costs."""
        return price(round(math.log2(self.rho)))

    @property
    def longer(self) -> int:
        """p_l, the longer side."""
        return max(self.rows, self.columns)


@dataclass(frozen=True, kw_only=True)
class PrunedFacts(CountedFacts):
    """A pruned net on its sample; its layers are `PrunedLayerFacts`."""

    measured: bool  # whether χ was measured, since the rule is not Algorithm 1
    # The γ that Lemma 4.4 asks for, √2·e·max‖x‖·∏L_l‖A_l‖₂·Σ‖A_l - Ã_l‖₂/‖A_l‖₂; None where the
    # lemma is silent.
    gamma_needed: float | None
    normal: bool = True  # whether Assumption 3.1, from which χ is expected, is plausible everywhere


def sketch_nats_printed(layer: PrunedLayerFacts, share: float) -> float:
    """3λχ·d₁d₂·ln²p·ln(1/ρ) of Theorem 5.2; not positive for ρ ≥ 1, where it says nothing."""
    if not layer.nonzeros:
        return 0.0
    kept = 3 * share * layer.chi * layer.weights
    return kept * math.log(layer.longer) ** 2 * math.log(1 / layer.rho)


def sketch_numbers(layer: PrunedLayerFacts) -> int:
    """⌈j·p·ln²p⌉: a sketch of side √(jp)·ln p (Theorem 5.1 with 1 for its constant), j measured."""
    j = max(layer.row_most, layer.column_most)
    return math.ceil(j * layer.longer * math.log(layer.longer) ** 2)


def sketch_nats(layer: PrunedLayerFacts) -> float:
    """As many numbers of r values each; being sums they have more, so this errs downwards."""
    return sketch_numbers(layer) * math.log(max(1, layer.values))


def naive_nats_printed(layer: PrunedLayerFacts) -> float:
    """ln C(d₁d₂, α) + α ln(1/ρ) of Lemma D.1, with α = J."""
    return mask_nats(layer) + layer.nonzeros * math.log(1 / layer.rho)


def naive_nats(layer: PrunedLayerFacts) -> float:
    """ln C(N, J) + J ln r, with r counted in place of 1/ρ: what Theorem D.1 has for the layer."""
    return mask_nats(layer) + value_nats(layer)


def pruning_rows(found: PrunedFacts) -> list[Bound]:
    """Theorem 5.2, Lemma D.1 and Theorem D.1, each as printed and corrected, then the two rows with
    a coder's bits of mask and values; all about g.
    """
    given = found.compressed
    coded = coded_rows(given, CODED, f"{_LEMMA}, counted by a coder")
    if why := given.no_gamma:
        return [*(row.abstains(why) for row in _ROWS), *coded]
    printed, plotted, sketch, lemma, union, naive = _ROWS
    if why := _too_coarse(found):
        formulas = [row.abstains(why) for row in (printed, plotted, lemma)]
    else:
        formulas = _formulas(found, printed, plotted, lemma)
    sketches, nats, chosen = map(found.total, (sketch_nats, naive_nats, chosen_nats))
    counted = _corrected(
        sketch,
        found,
        sketches,
        "(√(jp)·ln p)² numbers of r values a layer, j measured; up to the constant of Theorem 5.1; "
        "a sketch's numbers are sums of weights and have more values than r, which is not counted",
        numbers=float(sum(map(sketch_numbers, found.layers))),
        over_naive=_ratio(sketches, nats),
    )
    listed = _corrected(
        naive,
        found,
        nats + chosen,
        "masks and values counted exactly, with J, r and the grid of each layer paid",
        numbers=float(found.nonzeros),
        chosen=chosen,
    )
    roots = union.states(
        log(given.loss + math.sqrt(log_root(nats, given.delta) / given.m)),
        "√(ln √(J/δ)/n) with J the count of masks and values: what exp(-2τ²n) gives (the proof's "
        "exp(-2τn) is a slip that its result does not share); L̂_γ where a margin may move by 2γ; J "
        "and r are not paid for",
        nats=nats,
    )
    return [*formulas[:2], counted, formulas[2], roots, listed, *coded]


def _formulas(
    found: PrunedFacts, printed: Statement, plotted: Statement, lemma: Statement
) -> list[Bound]:
    """The paper's expressions with 1 for O(.)."""
    doubt = "" if found.normal else ", though the weights are not"
    share = f"χ = 1 - √(d/(d+2)) as of normal weights (Assumption 3.1){doubt}, λ_l from δ"
    if found.measured:
        share = "χ as measured, since the rule is not Algorithm 1, λ_l = 1, since J is counted"
    own = found.total(lambda layer: sketch_nats_printed(layer, layer.share))
    one = found.total(lambda layer: sketch_nats_printed(layer, 1.0))
    naive, listed = found.total(naive_nats), found.total(naive_nats_printed)
    values = [
        log(found.compressed.loss + math.sqrt(nats / found.compressed.m))
        for nats in (own, one, listed)
    ]
    drawn = (
        "the same with 1 for λ_l, which the paper does not state; its Tables 1 and 2 hold ln of "
        f"such values, here {values[1]:.4g}"
    )
    ratios = [_ratio(nats, naive) for nats in (own, one)]
    text, condition = "expression with 1 for O(.)", _condition(found)
    counts = f"the lemma's {text} and α = J as counted{_allowed(found)}; {condition}"
    theorem = f"the theorem's {text}, {share}; {condition}"
    row = plotted.states(values[1], drawn, nats=one, over_naive=ratios[1], ln=values[1])
    return [
        printed.states(values[0], theorem, nats=own, over_naive=ratios[0]),
        replace(row, capacity=finite(one), capacity_log10=finite(log(one) / LN10)),
        lemma.states(values[2], counts, nats=listed),
    ]


def _allowed(found: PrunedFacts) -> str:
    """What Lemmas D.2 and D.3 promise of J beforehand: Algorithm 1 on normal weights, κ = ½."""
    if found.measured:
        return ""
    share = found.compressed.delta / len(found.layers)
    total = 0
    for layer in found.layers:
        pruned = (1.0 - layer.chi) ** 2  # = d/(d+2)
        total += kept_by_d2_d3(layer.rows, layer.columns, 2.0 * pruned / (1.0 - pruned), 0.5, share)
    return f" (Lemmas D.2 and D.3 at κ = ½ allow {total}, here there are {found.nonzeros})"


def log_root(nats: float, delta: float) -> float:
    """ln √(J/δ) for J = e^nats: Theorem D.1's expression, half of ln(J/δ)."""
    return (nats - math.log(delta)) / 2


def _corrected(
    row: Statement, found: PrunedFacts, nats: float, text: str, **factors: float
) -> Bound:
    """With the biases and the choice of the best setting paid too."""
    said = [text, "biases as they are stored"] if found.others else [text]
    nats = nats + found.other_nats + found.price
    return counted_row(row, found, nats, *said, price=found.price, **factors)


def _too_coarse(found: PrunedFacts) -> str:
    """Why ln(1/ρ) is no count: it is not positive."""
    largest = max((layer.rho for layer in found.layers if layer.nonzeros), default=0.0)
    why = f"a layer's grid has the step ρ = {largest:g}, and ln(1/ρ) must be positive"
    return why if largest >= 1 else ""


def _condition(found: PrunedFacts) -> str:
    """Whether γ is as large as the theorem asks, by the exact norms."""
    gamma, needed = found.compressed.gamma, found.gamma_needed
    if needed is None:
        return "its condition on γ fails here: a layer moved by more than ‖A‖₂/L"
    holds = "holds" if gamma >= needed else "fails here"
    return f"its condition on γ {holds} (γ = {gamma:.3g}, and Lemma 4.4 asks for {needed:.3g})"


def _ratio(one: float, other: float) -> float:
    return one / other if other > 0 else math.inf if one > 0 else 1.0
