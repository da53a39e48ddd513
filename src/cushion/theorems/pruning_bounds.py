"""The bounds of Guha 2023 for one pruned, discretised net: Theorem 5.2, Lemma D.1, Theorem D.1, and
the coder's.

All are about g, the pruned net on its grid, and all start from how often f is unsure on the sample.
What differs is how many g there are. Lemma D.1 counts masks and values: Σ ln C(N_l, J_l) + J_l ln
r_l nats. Theorem 5.2 counts the numbers of a sketch in their place: m_l² of them with m_l = √(j_l
p_l) ln p_l, up to the constant of Theorem 5.1; that is more, not less (erratum g), and each row
says by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cushion.theorems.compression import CompressedFacts, coded_rows, counted_row
from cushion.theorems.pruning import kept_by_d2_d3
from cushion.theorems.records import Bound, Form
from cushion.theorems.rows import LN10, Statement, log
from cushion.theorems.union import choices, price

_FORMS: tuple[Form, ...] = ("as printed", "as plotted", "corrected")
SKETCH, NAIVE, CODED = "sketch count", "naive count", "mask and values"
_THEOREM, _LEMMA, _UNION = "Guha 2023, Thm 5.2", "Guha 2023, Lemma D.1", "Guha 2023, Thm D.1"


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
    def longer(self) -> int:
        """p_l, the longer side."""
        return max(self.rows, self.columns)


@dataclass(frozen=True)
class PrunedFacts:
    """A pruned net on its sample."""

    compressed: CompressedFacts  # f and g compared, with γ, δ and the bits that a coder wrote
    layers: tuple[PrunedLayerFacts, ...]
    measured: bool  # whether χ was measured, since the rule is not Algorithm 1
    # The γ that Lemma 4.4 asks for, √2·e·max‖x‖·∏L_l‖A_l‖₂·Σ‖A_l - Ã_l‖₂/‖A_l‖₂; None where the
    # lemma is silent.
    gamma_needed: float | None
    normal: bool = True  # whether Assumption 3.1, from which χ is expected, is plausible everywhere
    tried: int = 1  # how many settings were tried
    others: int = 0  # biases and what else is stored as it is
    other_values: int = 1  # how many values each of them has

    @property
    def price(self) -> float:
        """ln of the number of settings: what the choice of the best costs, in nats."""
        return math.log(self.tried)


def sketch_nats_printed(layer: PrunedLayerFacts, share: float) -> float:
    """3λχ·d₁d₂·ln²p·ln(1/ρ) of Theorem 5.2; not positive for ρ ≥ 1, where it says nothing."""
    if not layer.nonzeros:
        return 0.0
    return (
        3
        * share
        * layer.chi
        * layer.weights
        * math.log(layer.longer) ** 2
        * math.log(1 / layer.rho)
    )


def sketch_numbers(layer: PrunedLayerFacts) -> int:
    """⌈j·p·ln²p⌉: the numbers of a sketch of side √(jp)·ln p (Theorem 5.1 with 1 for its constant),
    j as measured.
    """
    j = max(layer.row_most, layer.column_most)
    return math.ceil(j * layer.longer * math.log(layer.longer) ** 2)


def sketch_nats(layer: PrunedLayerFacts) -> float:
    """As many numbers of r values each. They are sums of weights, and have more values: the count
    errs downwards.
    """
    return sketch_numbers(layer) * math.log(max(1, layer.values))


def mask_nats(layer: PrunedLayerFacts) -> float:
    """ln C(N, J): which J of the N weights are not zero."""
    return choices(layer.weights, layer.nonzeros)


def naive_nats_printed(layer: PrunedLayerFacts) -> float:
    """ln C(d₁d₂, α) + α ln(1/ρ) of Lemma D.1, with α = J."""
    return mask_nats(layer) + layer.nonzeros * math.log(1 / layer.rho)


def naive_nats(layer: PrunedLayerFacts) -> float:
    """ln C(N, J) + J ln r, with r counted in place of 1/ρ: what Theorem D.1 has for the layer."""
    return mask_nats(layer) + layer.nonzeros * math.log(max(1, layer.values))


def chosen_nats(layer: PrunedLayerFacts) -> float:
    """What J (one of N + 1), r and the grid's exponent cost, chosen after seeing the net."""
    return math.log(layer.weights + 1) + price(layer.values) + price(round(math.log2(layer.rho)))


def pruning_rows(found: PrunedFacts) -> list[Bound]:
    """Theorem 5.2, Lemma D.1 and Theorem D.1, each as printed and corrected, then the two rows with
    a coder's bits of mask and values; all about g.
    """
    coded = coded_rows(found.compressed, CODED, f"{_LEMMA}, counted by a coder")
    return [*_sketch_rows(found), *_naive_rows(found), *coded]


def _sketch_rows(found: PrunedFacts) -> list[Bound]:
    loss, m = found.compressed.below_gamma / found.compressed.m, found.compressed.m
    rows = [Statement(SKETCH, _THEOREM, form, "g") for form in _FORMS]
    if why := found.compressed.no_gamma:
        return [row.abstains(why) for row in rows]
    naive = math.fsum(map(naive_nats, found.layers))
    doubt = "" if found.normal else ", though the weights are not"
    share = f"χ = 1 - √(d/(d+2)) as of normal weights (Assumption 3.1){doubt}"
    share = "χ as measured, since the rule is not Algorithm 1" if found.measured else share
    lambdas = "λ_l = 1, since J is counted" if found.measured else "λ_l from δ"
    counted = math.fsum(map(sketch_nats, found.layers))
    corrected = _corrected(
        rows[2],
        found,
        counted,
        "(√(jp)·ln p)² numbers of r values a layer, j measured; up to the constant of Theorem 5.1; "
        "a sketch's numbers are sums of weights and have more values than r, which is not counted",
        numbers=float(sum(map(sketch_numbers, found.layers))),
        over_naive=_ratio(counted, naive),
    )
    if why := _too_coarse(found):
        return [rows[0].abstains(why), rows[1].abstains(why), corrected]
    printed, plotted = (
        math.fsum(sketch_nats_printed(layer, layer.share if own else 1.0) for layer in found.layers)
        for own in (True, False)
    )
    value = log(loss + math.sqrt(plotted / m))
    drawn = rows[1].states(
        value,
        "the same with 1 for λ_l, which the paper does not state; its Tables 1 and 2 hold ln of "
        f"such values, here {value:.4g}",
        nats=plotted,
        over_naive=_ratio(plotted, naive),
        ln=value,
    )
    return [
        rows[0].states(
            log(loss + math.sqrt(printed / m)),
            f"the theorem's expression with 1 for O(.), {share}, {lambdas}; {_condition(found)}",
            nats=printed,
            over_naive=_ratio(printed, naive),
        ),
        replace(drawn, capacity=_finite(plotted), capacity_log10=_finite(log(plotted) / LN10)),
        corrected,
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
    return (
        f" (Lemmas D.2 and D.3 at κ = ½ allow {total}, here there are "
        f"{sum(one.nonzeros for one in found.layers)})"
    )


def _naive_rows(found: PrunedFacts) -> list[Bound]:
    m, delta = found.compressed.m, found.compressed.delta
    loss = found.compressed.below_gamma / m
    lemma = Statement(NAIVE, _LEMMA, "as printed", "g")
    union = Statement(f"{NAIVE}, with its δ", _UNION, "as printed", "g")
    corrected = Statement(NAIVE, _LEMMA, "corrected", "g")
    if why := found.compressed.no_gamma:
        return [row.abstains(why) for row in (lemma, union, corrected)]
    nats = math.fsum(map(naive_nats, found.layers))
    chosen = math.fsum(map(chosen_nats, found.layers))
    rows = [
        union.states(
            log(loss + math.sqrt(log_root(nats, delta) / m)),
            "√(ln √(J/δ)/n) with J the count of masks and values: what exp(-2τ²n) gives (the "
            "proof's exp(-2τn) is a slip that its result does not share); L̂_γ where a margin may "
            "move by 2γ; J and r are not paid for",
            nats=nats,
        ),
        _corrected(
            corrected,
            found,
            nats + chosen,
            "masks and values counted exactly, with J, r and the grid of each layer paid",
            numbers=float(sum(layer.nonzeros for layer in found.layers)),
            chosen=chosen,
        ),
    ]
    if why := _too_coarse(found):
        return [lemma.abstains(why), *rows]
    printed = math.fsum(map(naive_nats_printed, found.layers))
    text = (
        f"the lemma's expression with 1 for O(.) and α = J as counted{_allowed(found)}; "
        f"{_condition(found)}"
    )
    return [lemma.states(log(loss + math.sqrt(printed / m)), text, nats=printed), *rows]


def log_root(nats: float, delta: float) -> float:
    """ln √(J/δ) for J = e^nats: Theorem D.1's expression, half of ln(J/δ)."""
    return (nats - math.log(delta)) / 2


def _corrected(
    row: Statement, found: PrunedFacts, nats: float, text: str, **factors: float
) -> Bound:
    """With the biases and the choice of the best setting paid too."""
    total = nats + found.others * math.log(max(1, found.other_values)) + found.price
    remarks = ["biases as they are stored"] if found.others else []
    return counted_row(
        row,
        found.compressed,
        total,
        text,
        tried=found.tried,
        remarks=remarks,
        price=found.price,
        **factors,
    )


def _too_coarse(found: PrunedFacts) -> str:
    """Why ln(1/ρ) is no count: it is not positive."""
    largest = max((layer.rho for layer in found.layers if layer.nonzeros), default=0.0)
    return (
        ""
        if largest < 1
        else f"a layer's grid has the step ρ = {largest:g}, and ln(1/ρ) must be positive"
    )


def _condition(found: PrunedFacts) -> str:
    """Whether γ is as large as the theorem asks, by the exact norms."""
    if found.gamma_needed is None:
        return "its condition on γ fails here: a layer moved by more than ‖A‖₂/L"
    gamma = found.compressed.gamma
    needed = f"γ = {gamma:.3g}, and Lemma 4.4 asks for {found.gamma_needed:.3g}"
    return (
        f"its condition on γ {'holds' if gamma >= found.gamma_needed else 'fails here'} ({needed})"
    )


def _ratio(one: float, other: float) -> float:
    return one / other if other > 0 else math.inf if one > 0 else 1.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
