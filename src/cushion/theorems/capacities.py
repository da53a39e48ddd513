"""Capacities as the papers report them, without constants: Neyshabur 2017 §2.1-2.3 and Figure 2 of
Arora 2018.

Every one is a measure. γ is the margin that all but a fraction ε of the examples exceed, d the
depth, h_i the number of units of layer i, n the number of inputs.
"""

from __future__ import annotations

import math

from cushion.theorems.facts import NetFacts
from cushion.theorems.records import Bound, Form
from cushion.theorems.rows import abstain, log, log_sum, no_margin, plotted

NEYSHABUR = "Neyshabur 2017"
ARORA_FIGURE = "Arora 2018, Figure 2"


def norm_capacities(facts: NetFacts) -> list[Bound]:
    """§2.2: ℓ2, ℓ1-path, ℓ2-path and spectral norm over the margin; without and with the factors of
    depth and width.
    """
    d = facts.depth
    widths = math.fsum(math.log(layer.outputs) for layer in facts.layers)
    fro = 2 * math.fsum(log(layer.frobenius) for layer in facts.layers)
    spectral = 2 * math.fsum(log(layer.spectral) for layer in facts.layers)
    four = d * math.log(4.0)
    norms = [
        ("l2-norm", fro, four, "∏‖W_i‖_F² / γ²", "4^d"),
        ("l1-path", 2 * facts.path_logs[1], four, "(sum over paths of |∏ weights|)² / γ²", "4^d"),
        (
            "l2-path",
            2 * facts.path_logs[2],
            four + widths,
            "sum over paths of ∏ weights² / γ²",
            "∏ 4h_i",
        ),
        ("spectral", spectral, widths, "∏‖W_i‖₂² / γ²", "∏ h_i"),
    ]
    rows = []
    for name, log_norm, log_factor, formula, factor in norms:
        meaning = f"{formula}, as in Figures 1, 3 and 4"
        rows.append(_over_margin(facts, name, NEYSHABUR, log_norm, meaning, "as plotted"))
        rows.append(
            _over_margin(
                facts,
                name,
                NEYSHABUR,
                log_norm + log_factor,
                f"{formula}, times {factor} (§2.2)",
                "as printed",
            )
        )
    return rows


def figure_two(facts: NetFacts, effective_parameters: float | None) -> list[Bound]:
    """Figure 2 of Arora 2018: the rivals, and the paper's own, Σ c²β²⌈κ/s⌉²/(μ²μ_→²) ·
    max‖f(x)‖²/γ².
    """
    l1 = math.fsum(log(layer.l1_inf) for layer in facts.layers)
    spectral = 2 * math.fsum(log(layer.spectral) for layer in facts.layers)
    fro = 2 * math.fsum(log(layer.frobenius) for layer in facts.layers)
    units = log_sum(*(2 * (log(layer.l2_1) - log(layer.spectral)) for layer in facts.layers))
    ranks = log_sum(
        *(
            math.log(layer.outputs) + 2 * (log(layer.frobenius) - log(layer.spectral))
            for layer in facts.layers
        )
    )
    thirds = 3 * log_sum(
        *(2 / 3 * (log(layer.l2_1) - log(layer.spectral)) for layer in facts.layers)
    )
    own = (
        log(effective_parameters) + 2 * log(facts.largest_score)
        if effective_parameters is not None
        else None
    )
    rivals: list[tuple[str, float, str, Form]] = [
        ("l1-inf", l1, "∏‖A‖_{1,∞} / γ², as plotted: the source squares the product", "as plotted"),
        (
            "l1-inf",
            2 * l1,
            "∏‖A‖_{1,∞}² / γ²: with the square that the figure leaves out",
            "corrected",
        ),
        ("frobenius", fro, "∏‖A‖_F² / γ²", "as plotted"),
        ("spec-l1,2", spectral + units, "∏‖A‖₂² Σ ‖A‖_{2,1}²/‖A‖₂² / γ², as plotted", "as plotted"),
        (
            "spec-l1,2",
            spectral + thirds,
            "∏‖A‖₂² (Σ (‖A‖_{2,1}/‖A‖₂)^{2/3})³ / γ², as its source has it",
            "corrected",
        ),
        ("spec-fro", spectral + ranks, "∏‖A‖₂² Σ h_i ‖A‖_F²/‖A‖₂² / γ²", "as plotted"),
    ]
    rows = [
        _over_margin(facts, name, ARORA_FIGURE, log_norm, text, form)
        for name, log_norm, text, form in rivals
    ]
    if own is None:
        why = "a layer is zero, or the net is not a chain: noise stability is not known"
        return [*rows, abstain("noise stability", "Arora 2018, Thm 5.1", why, "as plotted")]
    text = "max‖f(x)‖² Σ c²β²⌈κ/s⌉²/(μ²μ_→²) / γ²; its theorem has no valid proof for convolutions"
    return [
        *rows,
        _over_margin(facts, "noise stability", "Arora 2018, Thm 5.1", own, text, "as plotted"),
    ]


def size_and_lipschitz(facts: NetFacts) -> list[Bound]:
    """§2.1: number of parameters and depth times it; §2.3: (Lipschitz constant / γ)^n for the two
    input norms.
    """
    count = log(facts.parameters)
    sup = log(facts.first_lipschitz_inf) + math.fsum(
        log(layer.l1_inf) + log(layer.lipschitz_inf) for layer in facts.layers
    )
    two = log(facts.first_lipschitz) + math.fsum(
        log(layer.spectral) + log(layer.lipschitz) for layer in facts.layers
    )
    rows = [
        plotted(
            "parameters", "parameter count", count, facts, "number of parameters", "as plotted"
        ),
        plotted(
            "depth-parameters",
            f"{NEYSHABUR}, eq. 1",
            count + math.log(facts.depth),
            facts,
            "depth times number of parameters: the VC dimension up to logarithms",
            "as plotted",
        ),
    ]
    if facts.margin <= 0:
        names = ("lipschitz-inf", "lipschitz-2")
        return rows + [
            abstain(name, f"{NEYSHABUR}, §2.3", no_margin(facts), "as plotted") for name in names
        ]
    for name, constant, norms in (
        ("lipschitz-inf", sup, "∏‖W_i‖_{1,∞}"),
        ("lipschitz-2", two, "∏‖W_i‖₂"),
    ):
        log_capacity = facts.input_size * (constant - log(facts.margin))
        text = f"({norms} / γ)^{facts.input_size}: exponential in the number of inputs"
        rows.append(plotted(name, f"{NEYSHABUR}, §2.3", log_capacity, facts, text, "as plotted"))
    return rows


def _over_margin(
    facts: NetFacts, name: str, source: str, log_norm: float, meaning: str, form: Form
) -> Bound:
    if facts.margin <= 0:
        return abstain(name, source, no_margin(facts), form)
    return plotted(name, source, log_norm - 2 * log(facts.margin), facts, meaning, form)
