"""The lemmas of Guha 2023 held against a pruned net: what each promises here, and the worst that
was seen.

Lemmas 4.1, 4.2 and 5.1 speak of weights that are normal (Assumption 3.1) and of Algorithm 1's
coins: where the weights are not plausibly normal, or another rule chose, they promise nothing.
Lemmas 4.3 and 4.4 come from the perturbation bound, which holds for any change of the layers that
is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cushion.compressors.lemmas import Lemma, Values, over, worst_kept
from cushion.compressors.pruning.records import LayerPruning, Subgaussian
from cushion.compressors.records import PromiseCheck
from cushion.compressors.spectral import LayerShift, lemma_9
from cushion.theorems.facts import NetFacts

STANDARD_ERRORS = 4.0  # a normal number exceeds so many once in 16 000 times
_PAPER = "Guha 2023"


def lemma_4_1(layers: Sequence[LayerPruning]) -> PromiseCheck:
    """Moments of Δ and the share that stays, within four standard errors of normal weights'."""
    found = [
        (layer, max(layer.moments.deviations)) for layer in layers if layer.moments is not None
    ]
    if not found:
        return _silent("Lemma 4.1", "it is about Algorithm 1 (`rule` = bernoulli)")
    worst = max(deviation for _, deviation in found) / STANDARD_ERRORS
    text = (
        "moments of Δ off the diagonal and the share that stays, from what N(0, Ψ) gives, over 4 "
        "standard errors"
    )
    return _normal("Lemma 4.1", worst, 4 * len(found), text, [layer for layer, _ in found])


def lemma_4_2(layers: Sequence[LayerPruning]) -> PromiseCheck:
    """‖Δ‖₂ against ε_lΓ_l with C = 1; C is not known, so the ratio is a measure."""
    found = [(layer, layer.shift / _allowed(layer)) for layer in layers if _allowed(layer) > 0]
    if not found:
        return _silent(
            "Lemma 4.2",
            "it is about Algorithm 1 (`rule` = bernoulli) on dense layers that have a variance",
        )
    needed = max(ratio * (layer.epsilon_l or 1.0) for layer, ratio in found)
    text = (
        "‖Δ‖₂ of the true map over ε_l·Γ_l with C = 1, every dense layer; the lemma's C is a "
        "constant that nobody states, so this is a measure: it needs C·ε_l ≥ "
        f"{needed:.3g}{_doubt([layer for layer, _ in found], '; ')}"
    )
    return _lemma("Lemma 4.2").seen(None, max(one for _, one in found), len(found), text)


def lemma_5_1(layers: Sequence[LayerPruning]) -> PromiseCheck:
    """The most non-zeros of a row or column against the corrected limit."""
    found = [
        (layer, max(layer.row_most, layer.column_most) / layer.limit)
        for layer in layers
        if layer.limit is not None and layer.limit > 0
    ]
    if not found:
        return _silent("Lemma 5.1", "it is about Algorithm 1 (`rule` = bernoulli)")
    text = (
        "the most non-zeros of a row or column, over the corrected limit (exact binomial tails, "
        "all rows and columns)"
    )
    worst = max(ratio for _, ratio in found)
    broken = [layer.name for layer, _ in found if not layer.diagonal]
    if broken:
        text += f"; Definition 5.1 fails: {_some(broken)} has a zero on its diagonal"
    return _normal("Lemma 5.1", worst, len(found), text, [layer for layer, _ in found])


def output_check(
    name: str,
    shifts: Sequence[LayerShift],
    facts: NetFacts,
    inputs: Values,
    gaps: Values,
    silent: str,
) -> PromiseCheck:
    """Lemma 4.3 or 4.4 with the exact ‖Δ_l‖₂ (from above): ‖f̂(x) - f(x)‖ on every example.

    Promised where every layer moved by at most ‖A_l‖₂/L (Lemma B.2); `silent` says what else stands
    in the way.
    """
    if silent:
        return _silent(name, silent)
    allowed = lemma_9(list(shifts), facts, inputs)
    ratios = over(gaps, _unconditional(shifts, facts, inputs) if allowed is None else allowed)
    worst = worst_kept(ratios, 0.0)  # deterministic: no example may be left out
    moved = "‖f̂(x) - f(x)‖ over e·‖x‖·∏L_l‖A_l‖₂·Σ‖Δ_l‖₂/‖A_l‖₂"
    stored = "‖f̃(x) - f(x)‖ over e·‖x‖·∏L_l‖A_l‖₂·Σ‖Ã_l - A_l‖₂/‖A_l‖₂"
    text = f"{stored if name == 'Lemma 4.4' else moved}, on every example"
    if allowed is None:
        far = max(one.lifted_shift / one.lifted if one.lifted > 0 else math.inf for one in shifts)
        unless = (
            f"not promised: a layer moved by {far:.3g} of ‖A‖₂, and the lemma needs 1/L = "
            f"{1 / len(shifts):.3g}"
        )
        return _lemma(name).checked(worst, len(gaps), text, unless)
    return _lemma(name).checked(worst, len(gaps), text)


def printed_check(
    name: str,
    layers: Sequence[LayerPruning],
    shifts: Sequence[LayerShift],
    facts: NetFacts,
    inputs: Values,
    gaps: Values,
    *,
    rounded: bool,
) -> PromiseCheck | None:
    """The same with ε_lΓ_l (and ρ_lJ_l where `rounded`) for ‖Δ_l‖₂; None without Γ."""
    if not all(_allowed(layer) > 0 for layer in layers):
        return None
    moved = [
        replace(shift, lifted_shift=_allowed(layer) + (layer.rounding_printed if rounded else 0.0))
        for layer, shift in zip(layers, shifts, strict=True)
    ]
    worst = worst_kept(over(gaps, _unconditional(moved, facts, inputs)), 0.0)
    terms = "ε_lΓ_l + ρ_lJ_l" if rounded else "ε_lΓ_l"
    far = max(one.lifted_shift / one.lifted if one.lifted > 0 else math.inf for one in moved)
    text = (
        f"the same with {terms} in place of ‖Δ_l‖₂, C = 1: a measure, since C is not stated; its "
        f"proof needs {terms} ≤ ‖A_l‖₂/L, and here one is {far:.3g}·‖A_l‖₂"
    )
    return Lemma(f"{name} as printed", _PAPER, name).seen(None, worst, len(gaps), text)


def lemma_c_1(condition: Subgaussian) -> PromiseCheck:
    """‖Δx‖ ≤ κ‖Δ‖₂‖x‖ on the rows that were looked at; a measure."""
    ratios = [
        seen / kappa
        for seen, kappa in zip(condition.seen, condition.kappa, strict=True)
        if kappa > 0
    ]
    text = (
        f"‖Δx‖ over κ‖Δ‖₂‖x‖, every layer, {condition.rows} examples; a measure: Condition C.1 was "
        f"{condition.how}"
    )
    worst, cases = max(ratios, default=0.0), len(ratios) * condition.rows
    return _lemma("Lemma C.1").seen(None, worst, cases, text)


def subgaussian_check(
    promises: Sequence[PromiseCheck], name: str, condition: Subgaussian
) -> PromiseCheck:
    """Lemma C.3 (of Lemma 4.3) or C.4 (of 4.4): the same with ∏κ_l as a factor; never a promise.

    The paper's induction applies κ to differences of inputs too, which Condition C.1 says nothing
    about.
    """
    own = {"Lemma 4.3": "Lemma C.3", "Lemma 4.4": "Lemma C.4"}[name]
    base = next(one for one in promises if one.name == name)
    if base.worst_ratio is None:
        return _lemma(own).silent(base.meaning)
    worst = base.worst_ratio / condition.product if condition.product > 0 else math.inf
    text = (
        f"{name}'s ratio over ∏κ_l = {condition.product:.3g}: a measure, since Condition C.1 was "
        f"{condition.how} and the proof applies it to differences of inputs, of which it says "
        "nothing"
    )
    return _lemma(own).seen(None, worst, base.cases, text)


def _unconditional(shifts: Sequence[LayerShift], facts: NetFacts, inputs: Values) -> Values:
    """Lemma 9's expression whatever the shifts are: linear, so small ones are scaled up."""
    far = max(
        (one.lifted_shift / one.lifted if one.lifted > 0 else 0.0 for one in shifts), default=0.0
    )
    scale = max(1.0, 2 * far * len(shifts))
    small = [
        replace(one, lifted_shift=one.lifted_shift / scale if one.lifted > 0 else 0.0)
        for one in shifts
    ]
    found = lemma_9(small, facts, inputs)
    assert found is not None
    return found * scale


def _normal(
    name: str, worst: float, cases: int, text: str, layers: Sequence[LayerPruning]
) -> PromiseCheck:
    """A check that is a promise only where Assumption 3.1 is plausible on every layer."""
    if doubt := _doubt(layers):
        return _lemma(name).checked(worst, cases, text, f"not promised{doubt}")
    assumed = f"{text}; assuming normal weights (Assumption 3.1)"
    return _lemma(name).checked(worst, cases, assumed)


def _doubt(layers: Sequence[LayerPruning], before: str = ": ") -> str:
    far = [
        layer.name for layer in layers if layer.normality is None or not layer.normality.plausible
    ]
    return f"{before}the weights of {_some(far)} are not normal (Assumption 3.1)" if far else ""


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def _allowed(layer: LayerPruning) -> float:
    """ε_l·Γ_l with C = 1; 0 where the lemma has no Γ_l."""
    return (layer.epsilon_l or 0.0) * (layer.gamma_l or 0.0)


def _silent(name: str, why: str) -> PromiseCheck:
    return _lemma(name).silent(f"not promised: {why}")


def _lemma(name: str) -> Lemma:
    return Lemma(name, _PAPER)
