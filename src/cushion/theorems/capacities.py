"""Capacities as the papers report them, without constants: Neyshabur 2017 §2.1-2.3 and Figure 2 of
Arora 2018.

Every one is a measure. γ is the margin that all but a fraction ε of the examples exceed, d the
depth, h_i the number of units of layer i, n the number of inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cushion.theorems.facts import LayerFacts, NetFacts
from cushion.theorems.records import Bound, Form
from cushion.theorems.rows import Statement, log, log_sum, no_margin

NEYSHABUR = "Neyshabur 2017"
ARORA_FIGURE = "Arora 2018, Figure 2"


def norm_capacities(facts: NetFacts) -> list[Bound]:
    """§2.2: ℓ2, ℓ1-path, ℓ2-path and spectral norm over γ; without and with depth and width."""
    widths = _product(facts, lambda layer: layer.outputs)
    fro = 2 * _product(facts, lambda layer: layer.frobenius)
    spectral = 2 * _product(facts, lambda layer: layer.spectral)
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
        meaning = f"{formula}, as in Figures 1, 3 and 4"
        rows.append(_over_margin(facts, name, NEYSHABUR, norm, meaning))
        meaning = f"{formula}, times {words} (§2.2)"
        rows.append(_over_margin(facts, name, NEYSHABUR, norm + factor, meaning, "as printed"))
    return rows


def figure_two(facts: NetFacts, effective_parameters: float | None) -> list[Bound]:
    """Figure 2 of Arora 2018: rivals, and its own, Σ c²β²⌈κ/s⌉²/(μ²μ_→²) · max‖f(x)‖²/γ²."""
    l1 = _product(facts, lambda layer: layer.l1_inf)
    fro = 2 * _product(facts, lambda layer: layer.frobenius)
    spectral = 2 * _product(facts, lambda layer: layer.spectral)
    units = [log(layer.l2_1) - log(layer.spectral) for layer in facts.layers]
    ranks = [
        math.log(layer.outputs) + 2 * (log(layer.frobenius) - log(layer.spectral))
        for layer in facts.layers
    ]
    squared = spectral + log_sum(*(2 * one for one in units))
    thirds = spectral + 3 * log_sum(*(2 / 3 * one for one in units))
    rivals: list[tuple[str, float, str, Form]] = [
        ("l1-inf", l1, "∏‖A‖_{1,∞} / γ², as plotted: the source squares the product", "as plotted"),
        (
            "l1-inf",
            2 * l1,
            "∏‖A‖_{1,∞}² / γ²: with the square that the figure leaves out",
            "corrected",
        ),
        ("frobenius", fro, "∏‖A‖_F² / γ²", "as plotted"),
        ("spec-l1,2", squared, "∏‖A‖₂² Σ ‖A‖_{2,1}²/‖A‖₂² / γ², as plotted", "as plotted"),
        (
            "spec-l1,2",
            thirds,
            "∏‖A‖₂² (Σ (‖A‖_{2,1}/‖A‖₂)^{2/3})³ / γ², as its source has it",
            "corrected",
        ),
        ("spec-fro", spectral + log_sum(*ranks), "∏‖A‖₂² Σ h_i ‖A‖_F²/‖A‖₂² / γ²", "as plotted"),
    ]
    rows = [
        _over_margin(facts, name, ARORA_FIGURE, log_norm, text, form)
        for name, log_norm, text, form in rivals
    ]
    name, source = "noise stability", "Arora 2018, Thm 5.1"
    if effective_parameters is None:
        why = "a layer is zero, or the net is not a chain: noise stability is not known"
        return [*rows, Statement(name, source, "as plotted").abstains(why)]
    text = "max‖f(x)‖² Σ c²β²⌈κ/s⌉²/(μ²μ_→²) / γ²; its theorem has no valid proof for convolutions"
    own = log(effective_parameters) + 2 * log(facts.largest_score)
    return [*rows, _over_margin(facts, name, source, own, text)]


def size_and_lipschitz(facts: NetFacts) -> list[Bound]:
    """§2.1: number of parameters, and times depth; §2.3: (Lipschitz constant / γ)^n, two norms."""
    count = log(facts.parameters)
    vc = "depth times number of parameters: the VC dimension up to logarithms"
    rows = [
        Statement("parameters", "parameter count", "as plotted").plots(
            count, facts, "number of parameters"
        ),
        Statement("depth-parameters", f"{NEYSHABUR}, eq. 1", "as plotted").plots(
            count + math.log(facts.depth), facts, vc
        ),
    ]
    sup = log(facts.first_lipschitz_inf) + math.fsum(
        log(layer.l1_inf) + log(layer.lipschitz_inf) for layer in facts.layers
    )
    two = log(facts.first_lipschitz) + math.fsum(
        log(layer.spectral) + log(layer.lipschitz) for layer in facts.layers
    )
    for name, constant, norms in (
        ("lipschitz-inf", sup, "∏‖W_i‖_{1,∞}"),
        ("lipschitz-2", two, "∏‖W_i‖₂"),
    ):
        row = Statement(name, f"{NEYSHABUR}, §2.3", "as plotted")
        if facts.margin <= 0:
            rows.append(row.abstains(no_margin(facts)))
            continue
        log_capacity = facts.input_size * (constant - log(facts.margin))
        text = f"({norms} / γ)^{facts.input_size}: exponential in the number of inputs"
        rows.append(row.plots(log_capacity, facts, text))
    return rows


def _product(facts: NetFacts, norm: Callable[[LayerFacts], float]) -> float:
    """ln of the product over the layers."""
    return math.fsum(log(norm(layer)) for layer in facts.layers)


def _over_margin(
    facts: NetFacts,
    name: str,
    source: str,
    log_norm: float,
    meaning: str,
    form: Form = "as plotted",
) -> Bound:
    row = Statement(name, source, form)
    if facts.margin <= 0:
        return row.abstains(no_margin(facts))
    return row.plots(log_norm - 2 * log(facts.margin), facts, meaning)
