"""What ranks nets and proves nothing: capacities as the papers report them, without constants
(Neyshabur 2017 §2.1-2.3, Figure 2 of Arora 2018), and what is in no units of the error.

γ is the margin that all but a fraction ε of the examples exceed, d the depth, h_i the number of
units of layer i, n the number of inputs.
"""

from __future__ import annotations

import math

from cushion.measures.records import NetMeasures
from cushion.measures.sharpness.records import Sharpness
from cushion.theorems.facts import NetFacts
from cushion.theorems.logs import log, log_sum
from cushion.theorems.records import Bound, Form, Statement, no_margin

_NEYSHABUR = "Neyshabur 2017"
_RISE = 0.05  # of the error, at which the bi-criteria curve is read


def norm_capacities(facts: NetFacts) -> list[Bound]:
    """§2.2: ℓ2, ℓ1-path, ℓ2-path and spectral norm over γ; without and with depth and width."""
    widths = facts.log_product(lambda layer: layer.outputs)
    fro = 2 * facts.log_product(lambda layer: layer.frobenius)
    spectral = 2 * facts.log_product(lambda layer: layer.spectral)
    four = facts.depth * math.log(4.0)
    paths = {p: 2 * facts.path_logs[p] for p in (1, 2)}
    norms = [
        ("l2-norm", fro, four, "∏‖W_i‖_F² / γ²", "4^d"),
        ("l1-path", paths[1], four, "(sum over paths of |∏ weights|)² / γ²", "4^d"),
        ("l2-path", paths[2], four + widths, "sum over paths of ∏ weights² / γ²", "∏ 4h_i"),
        ("spectral", spectral, widths, "∏‖W_i‖₂² / γ²", "∏ h_i"),
    ]
    rows = []
    for name, norm, factor, formula, words in norms:
        plotted = Statement(name, _NEYSHABUR, "as plotted")
        printed = Statement(name, _NEYSHABUR, "as printed")
        rows.append(plotted.over_margin(norm, facts, f"{formula}, as in Figures 1, 3 and 4"))
        rows.append(printed.over_margin(norm + factor, facts, f"{formula}, times {words} (§2.2)"))
    return rows


def figure_two(facts: NetFacts, effective_parameters: float | None) -> list[Bound]:
    """Figure 2 of Arora 2018: rivals, and its own, Σ c²β²⌈κ/s⌉²/(μ²μ_→²) · max‖f(x)‖²/γ²."""
    l1 = facts.log_product(lambda layer: layer.l1_inf)
    fro = 2 * facts.log_product(lambda layer: layer.frobenius)
    spectral = 2 * facts.log_product(lambda layer: layer.spectral)
    units = [log(layer.l2_1) - log(layer.spectral) for layer in facts.layers]
    ranks = [
        math.log(layer.outputs) + 2 * (log(layer.frobenius) - log(layer.spectral))
        for layer in facts.layers
    ]
    squared = spectral + log_sum(*(2 * one for one in units))
    thirds = spectral + 3 * log_sum(*(2 / 3 * one for one in units))

    def rival(name: str, norm: float, text: str, form: Form = "as plotted") -> Bound:
        return Statement(name, "Arora 2018, Figure 2", form).over_margin(norm, facts, text)

    left_out = "∏‖A‖_{1,∞}² / γ²: with the square that the figure leaves out"
    powers = "∏‖A‖₂² (Σ (‖A‖_{2,1}/‖A‖₂)^{2/3})³ / γ², as its source has it"
    rows = [
        rival("l1-inf", l1, "∏‖A‖_{1,∞} / γ², as plotted: the source squares the product"),
        rival("l1-inf", 2 * l1, left_out, "corrected"),
        rival("frobenius", fro, "∏‖A‖_F² / γ²"),
        rival("spec-l1,2", squared, "∏‖A‖₂² Σ ‖A‖_{2,1}²/‖A‖₂² / γ², as plotted"),
        rival("spec-l1,2", thirds, powers, "corrected"),
        rival("spec-fro", spectral + log_sum(*ranks), "∏‖A‖₂² Σ h_i ‖A‖_F²/‖A‖₂² / γ²"),
    ]
    own = Statement("noise stability", "Arora 2018, Thm 5.1", "as plotted")
    if effective_parameters is None:
        why = "a layer is zero, or the net is not a chain: noise stability is not known"
        return [*rows, own.abstains(why)]
    text = "max‖f(x)‖² Σ c²β²⌈κ/s⌉²/(μ²μ_→²) / γ²; its theorem has no valid proof for convolutions"
    total = log(effective_parameters) + 2 * log(facts.largest_score)
    return [*rows, own.over_margin(total, facts, text)]


def size_and_lipschitz(facts: NetFacts) -> list[Bound]:
    """§2.1: number of parameters, and times depth; §2.3: (Lipschitz constant / γ)^n, two norms."""
    count, n = log(facts.parameters), facts.input_size
    size = Statement("parameters", "parameter count", "as plotted")
    deep = Statement("depth-parameters", f"{_NEYSHABUR}, eq. 1", "as plotted")
    vc = "depth times number of parameters: the VC dimension up to logarithms"
    rows = [
        size.plots(count, facts, "number of parameters"),
        deep.plots(count + math.log(facts.depth), facts, vc),
    ]
    sup = facts.log_lipschitz(lambda layer: layer.l1_inf, sup=True)
    two = facts.log_lipschitz(lambda layer: layer.spectral, sup=False)
    for name, constant, norms in (
        ("lipschitz-inf", sup, "∏‖W_i‖_{1,∞}"),
        ("lipschitz-2", two, "∏‖W_i‖₂"),
    ):
        row = Statement(name, f"{_NEYSHABUR}, §2.3", "as plotted")
        if facts.margin <= 0:
            rows.append(row.abstains(no_margin(facts)))
            continue
        text = f"({norms} / γ)^{n}: exponential in the number of inputs"
        rows.append(row.plots(n * (constant - log(facts.margin)), facts, text))
    return rows


def rankings(facts: NetFacts, net: NetMeasures, sharpness: Sharpness | None) -> list[Bound]:
    """Which net is simpler, flatter or better conditioned."""
    most = None if sharpness is None else sharpness.maximum
    curve = None if sharpness is None else sharpness.expected
    middle = None if curve is None else curve.points[len(curve.points) // 2]
    noise = "" if middle is None else f" α(10|w| + 1), α = {middle.alpha:g}"
    conditions = net.conditions
    interaction = None if conditions is None else conditions.interaction
    mu = None if interaction is None else interaction.text.mu
    c2, c3 = (None, None) if conditions is None else (conditions.c2, conditions.c3)

    def rank(
        name: str,
        source: str,
        value: float | None,
        text: str,
        why: str = "not measured, or infinite",
    ) -> Bound:
        return Statement(name, source, "as plotted").ranks(value, text, why)

    inverse = facts.margin**-2 if facts.margin > 0 else None
    moved = None if net.distance is None else net.distance**2
    rise = None if middle is None else max(0.0, middle.sharpness)
    kl = None if curve is None else curve.kl_at(_RISE)
    scale = "1 / γ²: depends on the scale of the weights"
    far = "‖w - w₀‖²: how far training moved the weights"
    unknown = "the initialisation is not known: give a RUN folder"
    sharpest = None if most is None else most.value
    box = "ζ: rise of the cross-entropy in a small box around the weights, found by ascent"
    gauss = f"rise of the cross-entropy under Gaussian noise{noise}"
    kl_text = (
        f"½Σw²/σ² of the noise that raises the error by {_RISE:g}: the bi-criteria curve at one "
        "height"
    )
    flat = f"no noise that was tried raises the error by {_RISE:g}; give larger or smaller `alphas`"
    return [
        rank("inverse margin", "Neyshabur 2017, §2.2", inverse, scale, no_margin(facts)),
        rank("distance from initialisation", "Neyshabur 2017, eq. 6", moved, far, unknown),
        rank("largest sharpness", "Keskar 2016; Neyshabur 2017, eq. 4", sharpest, box),
        rank("expected sharpness", "Neyshabur 2017, eq. 5", rise, gauss),
        rank("KL at fixed sharpness", "Neyshabur 2017, Figure 2", kl, kl_text, flat),
        rank(
            "C1",
            "Neyshabur 2017, §4",
            1 / mu if mu else None,
            "1/μ: how weakly layers interact, worst",
        ),
        rank("C2", "Neyshabur 2017, §4", c2, "share of units that can flip, over δ, worst"),
        rank("C3", "Neyshabur 2017, §4", c3, "largest unit over the active ones, worst"),
    ]
