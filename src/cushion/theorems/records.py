"""What `cushion bounds` answers: a row a statement, on one net, sample, loss and δ, made of values
in natural logarithms; no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from cushion.errors import BadInput
from cushion.measures.family import described
from cushion.numerics import decimal_up, float_up, percent_up
from cushion.records import Record, column
from cushion.theorems.facts import NetFacts
from cushion.theorems.logs import LN10, exp, finite, log, log_sum

Kind: TypeAlias = Literal["certificate", "measure"]
About: TypeAlias = Literal["f", "g", "Q"]
Preferred: TypeAlias = Literal["first", "second", "neither"]
Form: TypeAlias = Literal["as plotted", "stated", "as printed", "corrected", "counted"]

FORMS: tuple[Form, Form] = ("as printed", "corrected")  # a formula with a paper's slip, and without

_ZERO = -400.0  # stands for the logarithm of 0
_INFINITE = "a norm of the net exceeds the largest float, so the value is infinite"


class Bound(Record):
    """One bound on the 0-1 error (ties are errors) of the net on new examples, or what a paper
    plots in its place.

    kind "certificate": holds with probability at least 1 - δ over the sample, every constant
    explicit, and the same command recomputes it; "measure": a formula up to constants, or one whose
    proof does not cover this use; it ranks nets and proves nothing. form "as plotted" by a paper
    (constants and logarithms dropped), "stated" (the source's theorem with all constants,
    docs/bounds.md derives them), "as printed" (with the paper's slip), "corrected", "counted"
    (errors counted, no formula). A row without `log10` and with a capacity only ranks nets. Where
    there is neither the row abstains, and `meaning` says why.
    """

    name: str = column("of the argument", label="bound")
    source: str = column("the paper")
    kind: Kind = column("certificate or measure")
    form: Form = column("which version of the source's formula")
    value: float | None = column(
        "bounds the error in the same units everywhere: the loss plus √(C/m) where a paper plots a "
        "capacity C; none where it exceeds the largest float",
        better="low",
    )
    log10: float | None = column("of the value", better="low")
    vacuous: bool = column("whether the value is at least 1")
    meaning: str = column("what the row rests on, or why it abstains")
    about: About = column(
        "f is the net itself, g its compressed net, Q the net under noise", label="of", default="f"
    )
    capacity: float | None = column("the number that the paper itself plots", default=None)
    capacity_log10: float | None = column(
        "what the paper itself plots, up to constants: smaller is better",
        label="capacity",
        unit="log10",
        default=None,
    )
    factors: dict[str, float] | None = column(
        "what entered, for whoever wants to check by hand", default=None
    )

    @property
    @described("in percent, rounded up, where it is proved", label="error at most", better="low")
    def shown(self) -> str:
        if self.abstains or (self.value is None and self.log10 is None):
            return "-"
        if self.kind == "certificate":
            percent = percent_up(1.0 if self.value is None else min(1.0, self.value))
            return "vacuous" if self.vacuous or percent == "100.00 %" else percent
        if self.value is None or (self.log10 is not None and abs(self.log10) > 6):
            return f"10^{self.log10:.1f}"
        return f"{self.value:.4g}"

    @property
    def abstains(self) -> bool:
        """Whether the statement could not be made for this net."""
        return self.score is None and self.value is None

    @property
    def score(self) -> float | None:
        """What this row ranks nets by (smaller is better), in log10: a capacity if any."""
        return self.log10 if self.capacity_log10 is None else self.capacity_log10


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


class Preference(Record):
    """Which of two nets a row calls the better one."""

    name: str = column("of the row", label="row")
    form: Form = column("which version of the formula")
    first: float | None = column("log10 of the row's score", label="log10", better="low")
    second: float | None = column("the same of the net beside it", label="log10 beside")
    prefers: Preferred = column("the net with the smaller score")
    right: bool | None = column(
        "whether the held-out errors agree, where both nets have them; preferring neither is not "
        "right"
    )


class BoundsTable(Record):
    """Each row fails with probability at most δ by itself, the smallest of n of them with n·δ."""

    net: str = column("its name")
    data: str = column("name of the sample")
    data_fingerprint: str = column("SHA-256 of the sample")
    m: int = column("examples")
    classes: int = column("of the labels")
    delta: float = column("with which each row fails, at most; the best of n with n times that")
    loss: str = column("that all rows bound")
    errors: int = column("on the sample")
    margin_level: float = column("the fraction of examples with a smaller margin", label="ε")
    margin: float = column("the margin that all but a fraction ε exceed", label="γ")
    margin_loss: float = column("the fraction of examples with margin at most γ")
    holdout_errors: int | None = column("on held-out examples", label="held-out errors")
    holdout_m: int | None = column("held-out examples", label="held out")
    bounds: tuple[Bound, ...] = column("the rows")
    assumptions: tuple[str, ...] = column("of the certificates; nobody can check them", default=())
    beside: BoundsTable | None = column("the same of a second net", default=None)
    verdicts: tuple[Preference, ...] = column("each row's on the two nets", default=())
    left_out: str = column("why there are no rows that need the trace of the net", default="")

    @property
    def holdout_error(self) -> float | None:
        """The error rate on held-out examples."""
        if self.holdout_errors is None or not self.holdout_m:
            return None
        return self.holdout_errors / self.holdout_m

    def row(self, name: str, form: Form | None = None) -> Bound:
        """The row of that name (and form)."""
        for bound in self.bounds:
            if bound.name == name and form in (None, bound.form):
                return bound
        if forms := [bound.form for bound in self.bounds if bound.name == name]:
            raise BadInput(f"the bound {name!r} has no form {form!r}; it has {', '.join(forms)}")
        names = ", ".join(dict.fromkeys(bound.name for bound in self.bounds))
        raise BadInput(f"there is no bound called {name!r} here; choose from {names}")

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame (needs `pip install cushion[frames]`)."""
        try:
            import pandas
        except ImportError:
            how = "install it with: pip install 'cushion[frames]'"
            raise BadInput(f"to_frame needs pandas; {how}") from None
        rows = [bound.to_json() for bound in self.bounds]
        return pandas.DataFrame(rows).set_index(["name", "form"])


def compare(first: BoundsTable, second: BoundsTable) -> tuple[Preference, ...]:
    """Every row's verdict on two nets: the net with the smaller score is preferred, and right if
    its held-out error is.

    Rows that abstain on either net, or that give both the same score, prefer neither; `right` is
    then false.
    """
    others = {(bound.name, bound.form): bound for bound in second.bounds}
    better = _smaller(first.holdout_error, second.holdout_error)
    verdicts = []
    for mine in first.bounds:
        theirs = others.get((mine.name, mine.form))
        if theirs is None or mine.form == "counted":
            continue
        a, b = mine.score, theirs.score
        prefers = _smaller(a, b)
        right = None if better == "neither" else prefers == better
        verdicts.append(Preference(mine.name, mine.form, a, b, prefers, right))
    return tuple(verdicts)


def _smaller(a: float | None, b: float | None) -> Preferred:
    if a is None or b is None or a == b:
        return "neither"
    return "first" if a < b else "second"
