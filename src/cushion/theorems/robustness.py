"""Xu and Mannor 2012: a net that hardly changes within the cells of a partition generalises as
their number allows.

Cut [0, 1]^n into cubes of side a. If two points of a cube never differ by more than γ in margin,
every example of S with margin above γ stands for a cell without errors, and with probability ≥ 1 -
δ' (docs/bounds.md, "Cells")

    L(f) ≤ L̂_γ(f) + √((2K ln 2 + 2 ln(1/δ'))/m),   K = classes · ⌈1/a⌉^n.

A margin is 2∏‖A_i‖_{1,∞}-Lipschitz in ℓ∞ and √2∏‖A_i‖₂-Lipschitz in ℓ2, where a cube has diameter
a√n. a goes to a paid grid.
"""

from __future__ import annotations

import math

from cushion.theorems.facts import NetFacts
from cushion.theorems.records import Bound
from cushion.theorems.rows import LN10, Statement, log, log_sum, why_no_chain
from cushion.theorems.union import FINE, at_most

SOURCE = "Xu and Mannor 2012"
_NO_CELLS = (
    "the inputs are floats without stated limits, so their domain cannot be cut into finitely many "
    "cells"
)


def cells(facts: NetFacts, inputs_in_unit_cube: bool) -> list[Bound]:
    """Both versions: by the ℓ∞ and by the ℓ2 Lipschitz constant."""
    n = facts.input_size
    sup = (
        math.log(2.0)
        + log(facts.first_lipschitz_inf)
        + math.fsum(log(layer.l1_inf) + log(layer.lipschitz_inf) for layer in facts.layers)
    )
    two = (
        0.5 * math.log(2.0 * n)
        + log(facts.first_lipschitz)
        + math.fsum(log(layer.spectral_upper) + log(layer.lipschitz) for layer in facts.layers)
    )
    rows = []
    for name, constant, norm in (("lipschitz-inf", sup, "ℓ∞"), ("lipschitz-2", two, "ℓ2")):
        if why := why_no_chain(facts) or ("" if inputs_in_unit_cube else _NO_CELLS):
            rows.append(Statement(name, SOURCE).abstains(why))
        else:
            log_side, nats = at_most(log(facts.margin) - constant, FINE)
            per_axis = _log_ceil(-log_side)
            log_cells = math.log(facts.classes) + n * per_axis
            confidence = 2 * (math.log(1 / facts.delta) + nats)
            deviation = (
                log_sum(math.log(2 * math.log(2.0)) + log_cells, math.log(confidence))
                - math.log(facts.m)
            ) / 2
            value = log_sum(log(facts.margin_loss), deviation)
            text = (
                "cells of inputs on which the net hardly changes, by its Lipschitz constant in "
                f"{norm}"
            )
            row = Statement(name, SOURCE).states(value, text, log10_cells=log_cells / LN10)
            rows.append(row)
    return rows


def _log_ceil(log_value: float) -> float:
    """ln ⌈e^log_value⌉, at least 0; beyond 2^53 a whole number more or less does not show."""
    if log_value <= 0:
        return 0.0
    return math.log(math.ceil(math.exp(log_value))) if log_value < 36 else log_value * (1 + 1e-15)
