"""Shin 2021 held against a net whose small weights were replaced: Proposition 1.1, Lemma 2.1 and
Lemma 2.2; and what a reader should know of it: the paper's slips, and what is left of the net.

The proposition is about u, v that were fixed before the weights were drawn. Here u are rows of
Jacobians and v are activations, which depend on them; so all three are measures of how far the
paper's argument carries, not proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.lemmas import LayerErrors, Lemma, induction_check
from cushion.compressors.noise.records import LayerReplacement, ReplacementSummary
from cushion.compressors.perturbations import PairRatios
from cushion.compressors.records import PromiseCheck
from cushion.data import Dataset
from cushion.measures.probing import lengths, stream
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.linearisation import Activations
from cushion.nets.network import Network

_PAPER = "Shin 2021"
_DEPENDS = "a measure: u and v depend on the weights here, and the proof fixes them before"
_BATCH = 128


def proposition_1_1(
    net: Network,
    compressed: Network,
    data: Dataset,
    epsilons: Sequence[float | None],
    eta: float,
    *,
    printed: bool,
) -> PromiseCheck:
    """|(W - W(t))φ(x)|_u over ε‖W‖_F‖φ(x)‖ of every unit u and example: a fraction η of them may
    exceed 1.

    The proposition with a unit vector for u. epsilons: what it promises each layer, None where it
    is not asked.
    """
    asked = [
        (at, node, epsilon * float(torch.linalg.vector_norm(node.affine.operator.weight.double())))
        for at, (node, epsilon) in enumerate(zip(net.affine_layers, epsilons, strict=True))
        if epsilon is not None
    ]

    @torch.no_grad()
    def work(x: Tensor, rows: slice) -> dict[tuple[int, str], Tensor]:  # noqa: ARG001
        clean, found = Activations(net, x).values, {}
        for at, node, allowed in asked:
            v = clean[node.inputs[0]]
            moved = compressed.nodes[node.index].affine.operator.apply(v)
            size = (moved - node.affine.operator.apply(v)).double().abs().flatten(1)
            ratio = torch.where(size == 0, 0.0, size / (allowed * lengths(v))[:, None])
            found[at, "worst"] = ratio.amax(1)
            found[at, "above"] = (~(ratio <= 1)).sum(1).double()
        return found

    merged = stream(net, data, min(_BATCH, rows_at_a_time()), work, "units")
    cases = len(data) * sum(node.affine.operator.output_size for _, node, _ in asked)
    above = sum(float(part.sum()) for (_, what), part in merged.items() if what == "above")
    worst = max(float(part.max()) for (_, what), part in merged.items() if what == "worst")
    name = "Proposition 1.1" + (" as printed" if printed else "")
    text = (
        f"|(W - W(t))φ(x)| of every unit over ε‖W‖_F‖φ(x)‖; {100 * above / max(1, cases):.3g} % "
        f"exceed it, and η = {eta:.3g} of them may; {_DEPENDS}"
    )
    return Lemma(name, _PAPER, "Prop. 1.1").seen(above <= eta * cases, worst, cases, text)


def lemma_2_1(ratios: PairRatios, eta: float, *, printed: bool) -> PromiseCheck:
    """‖JΔφ(x)‖ over ε_i‖J‖_F‖W_i‖_F‖φ(x)‖: every replaced layer, later layer and example."""
    lemma = Lemma("Lemma 2.1" + (" as printed" if printed else ""), _PAPER, "Lemma 2.1")
    if not ratios.ratios:
        return lemma.silent("no layer was replaced")
    each = np.fmax.reduce(list(ratios.ratios.values()))
    sure = sum(pair in ratios.exact for pair in ratios.ratios)
    text = (
        f"‖JΔφ(x)‖ over ε_i‖J‖_F‖W‖_F‖φ(x)‖ at η = {eta:.3g}, {len(ratios.ratios)} pairs of layers "
        f"({sure} with an exact ‖J‖_F) on {len(each)} examples; {_DEPENDS}"
    )
    worst = float(np.fmax(np.fmax.reduce(each), 0.0))  # NaN says nothing
    return lemma.checked(worst, len(each) * len(ratios.ratios), text)


def lemma_2_2(errors: LayerErrors, epsilon: float | None, why: str) -> PromiseCheck:
    """‖x̂_i^j - x^j‖ ≤ (i/d)ε‖x^j‖ for all i ≤ j and examples; `why` it is silent, or empty."""
    lemma = Lemma("Lemma 2.2", _PAPER)
    if epsilon is None or not math.isfinite(epsilon):
        return lemma.silent(f"not promised: {why}")
    if epsilon == 0.0:
        return lemma.silent("nothing was replaced or rounded, so nothing moves")
    return induction_check(lemma, errors, epsilon, why, 0.0, _DEPENDS)


def notes_on(found: ReplacementSummary) -> tuple[str, ...]:
    """One sentence each."""
    layers = [layer for layer in found.layers if layer.is_replaced]
    signs = [] if found.form == "corrected" else _signs(found.form, layers)
    return (*signs, *_left(layers, found.settings["epsilon"]), *_noise(found, layers))


def _signs(form: str, layers: Sequence[LayerReplacement]) -> list[str]:
    """Errata a and b: signed thresholds take all large negative weights; the mean survives."""

    def beyond(layer: LayerReplacement) -> float:
        return layer.replaced_largest / (layer.tau or 1.0)

    def apart(layer: LayerReplacement) -> float:
        return abs(layer.replaced_mean - layer.noise_mean) / (layer.deviation or 1.0)

    notes = []
    if large := [layer for layer in layers if layer.replaced_largest > (layer.tau or 0.0)]:
        worst, where = (
            max(large, key=beyond),
            "Algorithm 1" if form == "algorithm" else "Appendix E",
        )
        notes.append(
            f"every large negative weight was replaced, as {where} prints it: in {worst.name} one "
            f"of {-worst.replaced_largest:.3g} went, {beyond(worst):.3g} times the threshold"
        )
    far = max(layers, key=apart)
    means = f"has the mean {far.replaced_mean:.3g} and what replaces it {far.noise_mean:.3g}"
    gap = f"{apart(far):.3g} standard deviations apart"
    return [*notes, f"the mean survives: what goes from {far.name} {means}, {gap}"]


def _left(layers: Sequence[LayerReplacement], epsilon: float | None) -> list[str]:
    """What stays, and a grid that costs a layer more than the error that τ was chosen for."""
    rest = "noise alone" if any(layer.t > 0 for layer in layers) else "a weight of zeros"
    lost = [layer for layer in layers if layer.kept > 0 and layer.nonzeros == 0]
    notes: list[str] = []

    def note(text: str, said_of: list[LayerReplacement]) -> None:
        if said_of:
            notes.append(text.format(", ".join(layer.name for layer in said_of)))

    empty = f"nothing stays in {{}} (B = 0): {rest} stands for it"
    note(empty, [one for one in layers if one.kept == 0])
    whole = "nothing was replaced in {}: every weight stays, on its grid"
    note(whole, [one for one in layers if one.replaced == 0])
    rounded = "no weight of {} is left on its grid; give more `grid` bits"
    note(rounded, [one for one in lost if one.rounded_away == one.kept])
    unread = "no weight of {} is stored: what a later layer keeps does not read its units"
    note(unread, [one for one in lost if one.rounded_away != one.kept])
    if epsilon is not None:
        coarse = f"rounding alone moves {{}} by more than ε = {epsilon:g}; give more `grid` bits"
        note(coarse, [one for one in layers if one.rounding > epsilon])
    return notes


def _noise(found: ReplacementSummary, layers: Sequence[LayerReplacement]) -> list[str]:
    """Erratum d: noise only adds error."""
    if not any(layer.t > 0 for layer in layers):
        return ["without noise (t = 0) every trial is the same net, so one was run"]
    chosen = next(one for one in found.tried if one.chosen)
    quiet = f"{chosen.asked.rpartition(', t=')[0]}, t=0"
    for one in found.tried:
        if one.grid == chosen.grid and one.asked == quiet:
            both = f"errs on {one.errors} examples and with it on {chosen.errors}"
            return [f"without noise, {quiet} {both}"]
    only = "noise only adds error to what is left out; `t` = 0 replaces by zeros"
    return [only] if found.form == "corrected" else []
