"""The lemmas of Guha 2023 held against a pruned net: what each promises, and the worst seen.

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
from cushion.compressors.perturbations import LayerShift, lemma_9
from cushion.compressors.pruning.records import LayerPruning, Subgaussian
from cushion.compressors.records import PromiseCheck
from cushion.theorems.facts import NetFacts

_STANDARD_ERRORS = 4.0  # a normal number exceeds so many once in 16 000 times
_PAPER = "Guha 2023"
_BERNOULLI = "it is about Algorithm 1 (`rule` = bernoulli)"


def lemma_4_1(layers: Sequence[LayerPruning]) -> PromiseCheck:
    """Moments of Δ and the share that stays, within four standard errors of normal weights'."""
    found = [layer for layer in layers if layer.moments is not None]
    far = (max(layer.moments.deviations) for layer in layers if layer.moments is not None)
    text = (
        "moments of Δ off the diagonal and the share that stays, from what N(0, Ψ) gives, over 4 "
        "standard errors"
    )
    worst = max(far, default=0.0) / _STANDARD_ERRORS
    return _normal("Lemma 4.1", worst, 4 * len(found), text, found)


def lemma_4_2(layers: Sequence[LayerPruning]) -> PromiseCheck:
    """‖Δ‖₂ against ε_lΓ_l with C = 1; C is not known, so the ratio is a measure."""
    found = [layer for layer in layers if _allowed(layer) > 0]
    if not found:
        return _silent("Lemma 4.2", f"{_BERNOULLI} on dense layers that have a variance")
    ratios = [layer.shift / _allowed(layer) for layer in found]
    needed = max(one * (layer.epsilon_l or 1.0) for one, layer in zip(ratios, found, strict=True))
    text = (
        "‖Δ‖₂ of the true map over ε_l·Γ_l with C = 1, every dense layer; the lemma's C is a "
        "constant that nobody states, so this is a measure: it needs C·ε_l ≥ "
        f"{needed:.3g}{_doubt(found, '; ')}"
    )
    return _lemma("Lemma 4.2").seen(None, max(ratios), len(found), text)


def lemma_5_1(layers: Sequence[LayerPruning]) -> PromiseCheck:
    """The most non-zeros of a row or column against the corrected limit."""
    found = [layer for layer in layers if layer.limit]
    ratios = [max(one.row_most, one.column_most) / (one.limit or 1.0) for one in found]
    text = (
        "the most non-zeros of a row or column, over the corrected limit (exact binomial tails, "
        "all rows and columns)"
    )
    if broken := [layer.name for layer in found if not layer.diagonal]:
        text += f"; Definition 5.1 fails: {_some(broken)} has a zero on its diagonal"
    return _normal("Lemma 5.1", max(ratios, default=0.0), len(found), text, found)


def output_checks(
    name: str,
    layers: Sequence[LayerPruning],
    shifts: list[LayerShift],
    facts: NetFacts,
    inputs: Values,
    gaps: Values,
    condition: Subgaussian,
    silent: str,
) -> list[PromiseCheck]:
    """Lemma 4.3 or 4.4 on every example: with the exact ‖Δ_l‖₂ (from above); with ε_lΓ_l (and
    ρ_lJ_l for 4.4) in its place, as printed, where every layer has a Γ_l; and with ∏κ_l as a factor
    (Lemma C.3 or C.4), which is never a promise.

    Promised where every layer moved by at most ‖A_l‖₂/L (Lemma B.2); `silent` says what else stands
    in the way. The paper's induction applies κ to differences of inputs too, which Condition C.1
    says nothing about.
    """
    rounded = name == "Lemma 4.4"
    spread = _lemma("Lemma C.4" if rounded else "Lemma C.3")
    if silent:
        base = _silent(name, silent)
        return [base, spread.silent(base.meaning)]
    allowed = lemma_9(shifts, facts, inputs)
    # deterministic: no example may be left out
    ratios = over(gaps, _unconditional(shifts, facts, inputs) if allowed is None else allowed)
    worst = worst_kept(ratios, 0.0)
    net, moved = ("f̃", "Ã_l - A_l") if rounded else ("f̂", "Δ_l")
    text = f"‖{net}(x) - f(x)‖ over e·‖x‖·∏L_l‖A_l‖₂·Σ‖{moved}‖₂/‖A_l‖₂, on every example"
    needs = f"and the lemma needs 1/L = {1 / len(shifts):.3g}"
    unless = f"not promised: a layer moved by {_far(shifts, math.inf):.3g} of ‖A‖₂, {needs}"
    found = [_lemma(name).checked(worst, len(gaps), text, unless if allowed is None else "")]
    if all(_allowed(layer) > 0 for layer in layers):
        sizes = [_allowed(one) + (one.rounding_printed if rounded else 0.0) for one in layers]
        far = [replace(one, lifted_shift=by) for one, by in zip(shifts, sizes, strict=True)]
        terms = "ε_lΓ_l + ρ_lJ_l" if rounded else "ε_lΓ_l"
        said = (
            f"the same with {terms} in place of ‖Δ_l‖₂, C = 1: a measure, since C is not stated; "
            f"its proof needs {terms} ≤ ‖A_l‖₂/L, and here one is {_far(far, math.inf):.3g}·‖A_l‖₂"
        )
        printed = worst_kept(over(gaps, _unconditional(far, facts, inputs)), 0.0)
        lemma = Lemma(f"{name} as printed", _PAPER, name)
        found.append(lemma.seen(None, printed, len(gaps), said))
    product = condition.product
    text = (
        f"{name}'s ratio over ∏κ_l = {product:.3g}: a measure, since Condition C.1 was "
        f"{condition.how} and the proof applies it to differences of inputs, of which it says "
        "nothing"
    )
    over_kappa = worst / product if product > 0 else math.inf
    return [*found, spread.seen(None, over_kappa, len(gaps), text)]


def lemma_c_1(condition: Subgaussian) -> PromiseCheck:
    """‖Δx‖ ≤ κ‖Δ‖₂‖x‖ on the rows that were looked at; a measure."""
    pairs = zip(condition.seen, condition.kappa, strict=True)
    ratios = [seen / kappa for seen, kappa in pairs if kappa > 0]
    text = (
        f"‖Δx‖ over κ‖Δ‖₂‖x‖, every layer, {condition.rows} examples; a measure: Condition C.1 was "
        f"{condition.how}"
    )
    worst, cases = max(ratios, default=0.0), len(ratios) * condition.rows
    return _lemma("Lemma C.1").seen(None, worst, cases, text)


def _unconditional(shifts: Sequence[LayerShift], facts: NetFacts, inputs: Values) -> Values:
    """Lemma 9's expression whatever the shifts are: linear, so small ones are scaled up."""
    scale = max(1.0, 2 * _far(shifts, 0.0) * len(shifts))
    moved = [one.lifted_shift / scale if one.lifted > 0 else 0.0 for one in shifts]
    small = [replace(one, lifted_shift=by) for one, by in zip(shifts, moved, strict=True)]
    found = lemma_9(small, facts, inputs)
    assert found is not None
    return found * scale


def _far(shifts: Sequence[LayerShift], of_zero: float) -> float:
    """The largest shift relative to its layer, a layer of zeros having moved by `of_zero`."""
    return max(one.lifted_shift / one.lifted if one.lifted > 0 else of_zero for one in shifts)


def _normal(
    name: str, worst: float, cases: int, text: str, layers: Sequence[LayerPruning]
) -> PromiseCheck:
    """A check that is a promise only where Assumption 3.1 is plausible on every layer."""
    if not layers:
        return _silent(name, _BERNOULLI)
    if doubt := _doubt(layers):
        return _lemma(name).checked(worst, cases, text, f"not promised{doubt}")
    assumed = f"{text}; assuming normal weights (Assumption 3.1)"
    return _lemma(name).checked(worst, cases, assumed)


def _doubt(layers: Sequence[LayerPruning], before: str = ": ") -> str:
    far = [one.name for one in layers if one.normality is None or not one.normality.plausible]
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
