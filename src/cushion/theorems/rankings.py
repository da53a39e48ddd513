"""What is in no units of the error: which net is simpler, flatter or better conditioned."""

from __future__ import annotations

from cushion.measures.records import NetMeasures
from cushion.measures.sharpness.records import Sharpness
from cushion.theorems.facts import NetFacts
from cushion.theorems.records import Bound
from cushion.theorems.rows import Statement, no_margin

_RISE = 0.05  # of the error, at which the bi-criteria curve is read


def rankings(facts: NetFacts, net: NetMeasures, sharpness: Sharpness | None) -> list[Bound]:
    """One row each: name, source, value, meaning, and why there is none."""
    most = None if sharpness is None else sharpness.maximum
    curve = None if sharpness is None else sharpness.expected
    middle = None if curve is None else curve.points[len(curve.points) // 2]
    noise = "" if middle is None else f" α(10|w| + 1), α = {middle.alpha:g}"
    conditions = net.conditions
    interaction = None if conditions is None else conditions.interaction
    mu = None if interaction is None else interaction.text.mu
    unknown = "not measured, or infinite"
    rows: list[tuple[str, str, float | None, str, str]] = [
        (
            "inverse margin",
            "Neyshabur 2017, §2.2",
            facts.margin**-2 if facts.margin > 0 else None,
            "1 / γ²: depends on the scale of the weights",
            no_margin(facts),
        ),
        (
            "distance from initialisation",
            "Neyshabur 2017, eq. 6",
            None if net.distance is None else net.distance**2,
            "‖w - w₀‖²: how far training moved the weights",
            "the initialisation is not known: give a RUN folder",
        ),
        (
            "largest sharpness",
            "Keskar 2016; Neyshabur 2017, eq. 4",
            None if most is None else most.value,
            "ζ: rise of the cross-entropy in a small box around the weights, found by ascent",
            unknown,
        ),
        (
            "expected sharpness",
            "Neyshabur 2017, eq. 5",
            None if middle is None else max(0.0, middle.sharpness),
            f"rise of the cross-entropy under Gaussian noise{noise}",
            unknown,
        ),
        (
            "KL at fixed sharpness",
            "Neyshabur 2017, Figure 2",
            None if curve is None else curve.kl_at(_RISE),
            f"½Σw²/σ² of the noise that raises the error by {_RISE:g}: the bi-criteria curve at "
            "one height",
            f"no noise that was tried raises the error by {_RISE:g}; give larger or smaller "
            "`alphas`",
        ),
        (
            "C1",
            "Neyshabur 2017, §4",
            None if not mu else 1 / mu,
            "1/μ: how weakly layers interact, worst",
            unknown,
        ),
        (
            "C2",
            "Neyshabur 2017, §4",
            None if conditions is None else conditions.c2,
            "share of units that can flip, over δ, worst",
            unknown,
        ),
        (
            "C3",
            "Neyshabur 2017, §4",
            None if conditions is None else conditions.c3,
            "largest unit over the active ones, worst",
            unknown,
        ),
    ]
    return [
        Statement(name, source, "as plotted").ranks(value, meaning, why_not)
        for name, source, value, meaning, why_not in rows
    ]
