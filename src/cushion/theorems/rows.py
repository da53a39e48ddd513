"""How a theorem answers: rows of the table, from values in natural logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cushion.numerics import decimal_up, float_up
from cushion.theorems.facts import NetFacts
from cushion.theorems.logs import LN10, exp, finite, log, log_sum
from cushion.theorems.records import About, Bound, Form, Kind

_ZERO = -400.0  # stands for the logarithm of 0
_INFINITE = "a norm of the net exceeds the largest float, so the value is infinite"


@dataclass(frozen=True)
class Statement:
    """A row before it has a value: which argument, whose, in which form and about which net."""

    name: str
    source: str
    form: Form = "stated"
    about: About = "f"

    def _row(
        self, kind: Kind, value: float | None, log10: float | None, vacuous: bool, meaning: str
    ) -> Bound:
        own = self.name, self.source, kind, self.form
        return Bound(*own, value, log10, vacuous, meaning, self.about)

    def states(self, log_value: float, meaning: str, **factors: float) -> Bound:
        """A measure whose value, given as ln, is in the units of the error."""
        if log_value == math.inf or math.isnan(log_value):
            return self.abstains(_INFINITE)
        value, log10 = finite(exp(log_value)), finite(log_value / LN10)
        row = self._row("measure", value, log10, log_value >= 0.0, meaning)
        return replace(row, factors=factors or None)

    def proves(self, value: float, meaning: str, **factors: float) -> Bound:
        """A certificate, its value given to six decimals and rounded up."""
        up = float_up(decimal_up(value))
        row = self._row("certificate", up, log(up) / LN10, up >= 1.0, meaning)
        return replace(row, factors=factors)

    def plots(self, log_capacity: float, facts: NetFacts, meaning: str) -> Bound:
        """A capacity C, given as ln, that a paper reports up to constants: L̂_γ + √(C/m)."""
        log_value = log_sum(log(facts.margin_loss), (log_capacity - math.log(facts.m)) / 2)
        row = self.states(log_value, meaning)
        if row.abstains:
            return row
        capacity, log10 = finite(exp(log_capacity)), finite(log_capacity / LN10)
        return replace(row, capacity=capacity, capacity_log10=log10)

    def over_margin(self, log_norm: float, facts: NetFacts, meaning: str) -> Bound:
        """The capacity C/γ², given ln C."""
        if facts.margin <= 0:
            return self.abstains(no_margin(facts))
        return self.plots(log_norm - 2 * log(facts.margin), facts, meaning)

    def ranks(self, value: float | None, meaning: str, why_not: str) -> Bound:
        """A quantity that ranks nets (smaller is better), no bound in any units; 0 is first."""
        if value is None or not math.isfinite(value):
            return self.abstains(why_not)
        smallest = max(log(value) / LN10, _ZERO)
        row = self._row("measure", None, None, False, meaning)
        return replace(row, capacity=value, capacity_log10=smallest)

    def abstains(self, why: str, kind: Kind = "measure") -> Bound:
        """A row that says why the statement cannot be made."""
        return self._row(kind, None, None, True, f"abstains: {why}")


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
