"""How a theorem answers: rows of the table, from values in natural logarithms."""

from __future__ import annotations

import math
from typing import Literal

from cushion.numerics import decimal_up, float_up
from cushion.theorems.facts import NetFacts
from cushion.theorems.records import Bound, Form, Kind

_LARGEST = math.log(1.7e308)
LN10 = math.log(10.0)
_ZERO = -400.0  # stands for the logarithm of 0
_INFINITE = "a norm of the net exceeds the largest float, so the value is infinite"


def log(value: float) -> float:
    """ln, with ln 0 = -∞ and ln ∞ = ∞."""
    return -math.inf if value == 0.0 else math.inf if value == math.inf else math.log(value)


def exp(value: float) -> float:
    """e^value, ∞ where that is no float."""
    return math.inf if value > _LARGEST else math.exp(value)


def log_sum(*logs: float) -> float:
    """ln Σ e^log.

    >>> round(log_sum(log(2.0), log(3.0)), 12) == round(math.log(5.0), 12)
    True
    """
    top = max(logs)
    return (
        top if math.isinf(top) else top + math.log(math.fsum(math.exp(part - top) for part in logs))
    )


def stated(
    name: str,
    source: str,
    log_value: float,
    meaning: str,
    *,
    form: Form = "stated",
    about: Literal["f", "Q"] = "f",
    factors: dict[str, float] | None = None,
) -> Bound:
    """A measure whose value is in the units of the error."""
    if log_value == math.inf or math.isnan(log_value):
        return abstain(name, source, _INFINITE, form)
    return Bound(
        name=name,
        source=source,
        kind="measure",
        form=form,
        value=_finite(exp(log_value)),
        log10=_finite(log_value / LN10),
        vacuous=log_value >= 0.0,
        meaning=meaning,
        about=about,
        factors=factors,
    )


def certified(
    name: str,
    source: str,
    value: float,
    meaning: str,
    *,
    form: Form,
    about: Literal["f", "Q"] = "f",
    factors: dict[str, float],
) -> Bound:
    """A row that proves its value, given to six decimals and rounded up."""
    up = float_up(decimal_up(value))
    return Bound(
        name,
        source,
        "certificate",
        form,
        up,
        log(up) / LN10,
        up >= 1.0,
        meaning,
        about,
        factors=factors,
    )


def plotted(
    name: str, source: str, log_capacity: float, facts: NetFacts, meaning: str, form: Form
) -> Bound:
    """A row for a capacity C that a paper reports up to constants: in the units of the error, L̂_γ
    + √(C/m).
    """
    if log_capacity == math.inf or math.isnan(log_capacity):
        return abstain(name, source, _INFINITE, form)
    log_value = log_sum(log(facts.margin_loss), (log_capacity - math.log(facts.m)) / 2)
    return Bound(
        name=name,
        source=source,
        kind="measure",
        form=form,
        value=_finite(exp(log_value)),
        log10=_finite(log_value / LN10),
        vacuous=log_value >= 0.0,
        meaning=meaning,
        capacity=_finite(exp(log_capacity)),
        capacity_log10=_finite(log_capacity / LN10),
    )


def ranking(name: str, source: str, value: float | None, meaning: str, why_not: str) -> Bound:
    """A row for a quantity that ranks nets (smaller is better) and is no bound in any units; 0
    ranks first.
    """
    if value is None or not math.isfinite(value):
        return abstain(name, source, why_not, "as plotted")
    low = _finite(log(value) / LN10)
    smallest = -math.inf if low is None else low
    return Bound(
        name,
        source,
        "measure",
        "as plotted",
        None,
        None,
        False,
        meaning,
        capacity=value,
        capacity_log10=max(smallest, _ZERO),
    )


def abstain(name: str, source: str, why: str, form: Form, kind: Kind = "measure") -> Bound:
    """A row that says why the statement cannot be made."""
    return Bound(name, source, kind, form, None, None, True, f"abstains: {why}")


def no_margin(facts: NetFacts) -> str:
    """Why nothing that divides by the margin has a value."""
    return (
        f"γ = {facts.margin:.3g} is not positive (the net errs on {facts.errors} of {facts.m} "
        "examples), and the bound divides by it; a larger `epsilon` lets γ ignore more of the "
        "examples"
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
