"""How a theorem answers: rows of the table, from values in natural logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cushion.numerics import decimal_up, float_up
from cushion.theorems.facts import NetFacts
from cushion.theorems.records import About, Bound, Form, Kind

_LARGEST = math.log(1.7e308)
LN2, LN10 = math.log(2.0), math.log(10.0)
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


@dataclass(frozen=True)
class Statement:
    """A row before it has a value: which argument, whose, in which form and about which net."""

    name: str
    source: str
    form: Form = "stated"
    about: About = "f"

    def states(self, log_value: float, meaning: str, **factors: float) -> Bound:
        """A measure whose value, given as ln, is in the units of the error."""
        if log_value == math.inf or math.isnan(log_value):
            return self.abstains(_INFINITE)
        return Bound(
            self.name,
            self.source,
            "measure",
            self.form,
            value=_finite(exp(log_value)),
            log10=_finite(log_value / LN10),
            vacuous=log_value >= 0.0,
            meaning=meaning,
            about=self.about,
            factors=factors or None,
        )

    def proves(self, value: float, meaning: str, **factors: float) -> Bound:
        """A certificate, its value given to six decimals and rounded up."""
        up = float_up(decimal_up(value))
        return Bound(
            self.name,
            self.source,
            "certificate",
            self.form,
            value=up,
            log10=log(up) / LN10,
            vacuous=up >= 1.0,
            meaning=meaning,
            about=self.about,
            factors=factors,
        )

    def plots(self, log_capacity: float, facts: NetFacts, meaning: str) -> Bound:
        """A capacity C, given as ln, that a paper reports up to constants: in the units of the
        error, L̂_γ + √(C/m).
        """
        log_value = log_sum(log(facts.margin_loss), (log_capacity - math.log(facts.m)) / 2)
        row = self.states(log_value, meaning)
        if row.abstains:
            return row
        return replace(
            row,
            capacity=_finite(exp(log_capacity)),
            capacity_log10=_finite(log_capacity / LN10),
        )

    def ranks(self, value: float | None, meaning: str, why_not: str) -> Bound:
        """A quantity that ranks nets (smaller is better), no bound in any units; 0 is first."""
        if value is None or not math.isfinite(value):
            return self.abstains(why_not)
        smallest = max(log(value) / LN10, _ZERO)
        row = replace(self.abstains(""), vacuous=False, meaning=meaning)
        return replace(row, capacity=value, capacity_log10=smallest)

    def abstains(self, why: str, kind: Kind = "measure") -> Bound:
        """A row that says why the statement cannot be made."""
        return Bound(
            self.name,
            self.source,
            kind,
            self.form,
            value=None,
            log10=None,
            vacuous=True,
            meaning=f"abstains: {why}",
            about=self.about,
        )


def no_margin(facts: NetFacts) -> str:
    """Why nothing that divides by the margin has a value."""
    return (
        f"γ = {facts.margin:.3g} is not positive (the net errs on {facts.errors} of {facts.m} "
        "examples), and the bound divides by it; a larger `epsilon` lets γ ignore more of the "
        "examples"
    )


def why_no_chain(facts: NetFacts) -> str:
    """Why a bound about chains that divides by the margin has no value; empty where it has one."""
    if not facts.margin > 0:
        return no_margin(facts)
    return "" if facts.is_chain else facts.not_a_chain_because


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
