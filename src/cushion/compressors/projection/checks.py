"""The lemmas of Arora 2018 held against a compressed net: the promise, and the worst seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cushion.compressors.lemmas import LayerErrors, Lemma, Values, over, worst_kept
from cushion.compressors.perturbations import Allowance, LayerShift, PairRatios, overlap
from cushion.compressors.projection.conv_project import Located, epsilon_of
from cushion.compressors.projection.matrix_project import Projected, rounding_share
from cushion.compressors.records import PromiseCheck
from cushion.compressors.storage.stored_net import StoredNet
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d
from cushion.theorems.noise_stability import StabilityCounts, epsilon_of_k

_PAPER = "Arora 2018"


@dataclass(frozen=True)
class Checked:
    """A check, and for each layer (what was promised of it alone, the worst over that)."""

    check: PromiseCheck
    own: tuple[tuple[float, float] | None, ...] = ()


def lemma_1(shifts: Sequence[LayerShift], accuracies: Sequence[float | None]) -> Checked:
    """‖Â - A‖₂ ≤ δ‖A‖₂ of the true maps: the left side from above, the right from below."""
    own = tuple(
        None if delta is None else (delta, shift.relative / delta)
        for shift, delta in zip(shifts, accuracies, strict=True)
    )
    lemma, ratios = Lemma("Lemma 1", _PAPER), [pair[1] for pair in own if pair is not None]
    if not ratios:
        return Checked(lemma.silent("ranks were given, so no accuracy was promised"), own)
    text = "‖Â - A‖₂ over δ‖A‖₂ of the true maps, rounding to the grid included; every layer"
    return Checked(lemma.checked(max(ratios), len(ratios), text), own)


def lemma_9(promised: Values | None, errors: LayerErrors, why: str) -> PromiseCheck:
    """‖f̂(x) - f(x)‖ on every example against e·‖x‖·∏‖A‖₂·Σ‖Δ‖₂/‖A‖₂."""
    lemma = Lemma("Lemma 9", _PAPER)
    if promised is None:
        return lemma.silent(why)
    worst = worst_kept(over(errors.gaps, promised), 0.0)  # deterministic: none may be left out
    text = "‖f̂(x) - f(x)‖ over what the layers' spectral errors allow, on every example"
    return lemma.checked(worst, len(errors.gaps), text)


def within_margin(gamma: float, errors: LayerErrors) -> PromiseCheck:
    """‖f̂(x) - f(x)‖₂ ≤ γ/√2 on every example, as Theorem 2.2 needs it."""
    worst = worst_kept(errors.gaps / (gamma / math.sqrt(2.0)), 0.0)
    text = "‖f̂(x) - f(x)‖₂ over γ/√2, on every example: then no margin above γ is lost"
    return Lemma("Theorem 2.2", _PAPER, "Thm 2.2").checked(worst, len(errors.gaps), text)


def allowances(
    net: Network, stored: StoredNet, eta: float, constant: float, norms: Sequence[float]
) -> list[Allowance]:
    """What Lemma 2 or 13 allows each layer at its k, the rounding of its numbers included; ε may
    exceed 1.

    norms: ‖A‖_F (or ‖A - A₀‖_F) of each layer. A layer that is kept, or whose k is too small for
    any ε ≤ 1, is allowed an infinite error: nothing is promised of it.
    """
    found = []
    for node, layer, norm in zip(net.affine_layers, stored.layers, norms, strict=True):
        operator = node.affine.operator
        if isinstance(layer, Located):
            assert isinstance(operator, Conv2d)
            kernel = (operator.weight.shape[2], operator.weight.shape[3])
            epsilon = epsilon_of(layer.k, eta, kernel, operator.stride, constant)
            found.append(Allowance(epsilon, norm, spread=True))
            continue
        epsilon = math.inf
        if isinstance(layer, Projected) and norm > 0:
            least = epsilon_of_k(layer.coefficients.integers.size, eta)
            if least is not None:
                epsilon = least + rounding_share(layer, least, norm)
        found.append(Allowance(epsilon, norm, factor=math.sqrt(overlap(operator))))
    return found


def lemma_pairs(
    name: str,
    ratios: PairRatios,
    allowed: Sequence[Allowance],
    zeta: float,
    *,
    chosen: Sequence[bool],
    silent: str = "",
    note: str = "",
) -> Checked:
    """Lemma 2 or 13 on every pair of layers and example. `silent`: why it does not speak."""
    own = tuple(
        (one.epsilon, ratios.worst(i)) if take and math.isfinite(one.epsilon) else None
        for i, (one, take) in enumerate(zip(allowed, chosen, strict=True))
    )
    lemma = Lemma(name, _PAPER)
    picked = {pair: values for pair, values in ratios.ratios.items() if own[pair[0]] is not None}
    if not picked:
        return Checked(lemma.silent("k is too small for any ε up to 1: nothing is promised"), own)
    each = np.fmax.reduce(list(picked.values()))  # an example's worst
    worst = worst_kept(each, zeta)
    sure = sum(pair in ratios.exact for pair in picked)
    said = [
        f"‖JΔv‖ over its allowance, {len(picked)} pairs of layers ({sure} with an exact ‖J‖_F) on "
        f"{len(each)} examples"
    ]
    taken = [one for one, take in zip(allowed, chosen, strict=True) if take]
    loose = max((one.epsilon for one in taken if one.spread), default=0.0)
    if loose > 1 and not silent:
        silent = (
            f"not promised: the k that was used stands for an ε of up to {loose:.3g}, and the "
            "lemma needs at most 1"
        )
    said.append(silent)
    missing = [str(i) for i, take in enumerate(chosen, 1) if take and own[i - 1] is None]
    if missing:
        layers = ", ".join(missing)
        said.append(f"silent on layer {layers}, whose k is too small for any ε up to 1")
    text = "; ".join(part for part in (*said, note) if part)
    held = None if silent else worst <= 1
    return Checked(lemma.seen(held, worst, len(picked) * len(each), text), own)


def why_no_induction(
    counts: StabilityCounts | None,
    sizes: Sequence[int],
    spent: Sequence[float],
    shares: Sequence[float],
    also: str,
) -> str:
    """Why Lemma 3 or 14 promises nothing of this compression; empty where it does.

    sizes: each layer's k. spent: the ε_i that it allows itself, the rounding of its numbers
    included; shares: the ε_i that the induction leaves to it. `also`: what else stands in the way,
    whatever k is.
    """
    if counts is None:
        return "cushions are not defined for this net"
    if counts.why_not or also:
        return counts.why_not or also
    pairs = zip(counts.layers, sizes, strict=True)
    short = [layer.name for layer, size in pairs if size < layer.projections]
    if short:
        some = f"{', '.join(short[:3])}{', ...' if len(short) > 3 else ''}"
        return f"{some} got a smaller k than the lemma asks for"
    for layer, own, share in zip(counts.layers, spent, shares, strict=True):
        if not own <= share:
            beyond = "rounding takes it beyond its share of the error; give more `number_bits`"
            return f"layer {layer.name}: {beyond}"
    return ""
