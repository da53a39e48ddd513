"""What `cushion bounds` answers: one row a statement, all about the same net, sample, loss and δ;
no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cushion.errors import BadInput
from cushion.records import Record

Kind: TypeAlias = Literal["certificate", "measure"]
Form: TypeAlias = Literal["as plotted", "stated", "as printed", "corrected", "counted"]


@dataclass(frozen=True)
class Bound(Record):
    """One bound on the 0-1 error (ties are errors) of the net on new examples, or what a paper
    plots in its place.

    `kind` "certificate": holds with probability at least 1 - δ over the sample, every constant
    explicit, and the same command recomputes it. `kind` "measure": a formula up to constants, or
    one whose proof does not cover this use; it ranks nets and proves nothing. `form` says which
    version of the source's formula: "as plotted" by a paper (constants and logarithms dropped),
    "stated" (the source's theorem with all constants, docs/bounds.md derives them), "as printed"
    (with the paper's slip), "corrected", "counted" (errors counted, no formula).

    `value` bounds the error in the same units everywhere: where a paper plots a capacity C, it is
    the loss plus √(C/m). It is null where it exceeds the largest float, and `log10` is its
    logarithm. `capacity` is the number that the paper itself plots, `capacity_log10` its logarithm.
    `vacuous`: the value is at least 1. `about` is "f" for the net itself, "g" for its compressed
    net and "Q" for the net under random weights. A row without `log10` and with a capacity only
    ranks nets. Where there is neither the row abstains, and `meaning` says why.
    """

    name: str
    source: str
    kind: Kind
    form: Form
    value: float | None
    log10: float | None
    vacuous: bool
    meaning: str
    about: Literal["f", "g", "Q"] = "f"
    capacity: float | None = None
    capacity_log10: float | None = None
    factors: dict[str, float] | None = None  # what entered, for whoever wants to check by hand

    @property
    def abstains(self) -> bool:
        """Whether the statement could not be made for this net."""
        return self.score is None and self.value is None

    @property
    def score(self) -> float | None:
        """The number by which this row ranks nets (smaller is better): the capacity if there is
        one, in log10.
        """
        return self.log10 if self.capacity_log10 is None else self.capacity_log10


@dataclass(frozen=True)
class Verdict(Record):
    """Which of two nets a row calls the better one. `right` compares with the held-out errors,
    where both have them.
    """

    name: str
    form: Form
    first: float | None  # the rows' `score`
    second: float | None
    prefers: Literal["first", "second", "neither"]
    right: bool | None


@dataclass(frozen=True)
class BoundsTable(Record):
    """All rows on one net. Each row fails with probability at most δ by itself, the smallest of n
    of them with n·δ.
    """

    net: str
    data: str
    data_fingerprint: str
    m: int
    classes: int
    delta: float
    loss: str
    errors: int
    margin_level: float  # ε: the fraction of examples that may have a smaller margin
    margin: float  # γ
    margin_loss: float  # the fraction of examples with margin at most γ
    holdout_errors: int | None
    holdout_m: int | None
    bounds: tuple[Bound, ...]
    assumptions: tuple[str, ...] = ()  # of the certificates, which nobody can check
    beside: BoundsTable | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def holdout_error(self) -> float | None:
        """The error rate on held-out examples."""
        return (
            None
            if self.holdout_errors is None or not self.holdout_m
            else self.holdout_errors / self.holdout_m
        )

    def row(self, name: str, form: Form | None = None) -> Bound:
        """The row of that name (and form)."""
        for bound in self.bounds:
            if bound.name == name and form in (None, bound.form):
                return bound
        forms = [bound.form for bound in self.bounds if bound.name == name]
        if forms:
            raise BadInput(f"the bound {name!r} has no form {form!r}; it has {', '.join(forms)}")
        names = ", ".join(dict.fromkeys(bound.name for bound in self.bounds))
        raise BadInput(f"there is no bound called {name!r} here; choose from {names}")

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame (needs `pip install cushion[frames]`)."""
        try:
            import pandas
        except ImportError:
            raise BadInput(
                "to_frame needs pandas; install it with: pip install 'cushion[frames]'"
            ) from None
        return pandas.DataFrame([bound.to_json() for bound in self.bounds]).set_index(
            ["name", "form"]
        )


def compare(first: BoundsTable, second: BoundsTable) -> tuple[Verdict, ...]:
    """Every row's verdict on two nets: the net with the smaller score is preferred, and right if
    its held-out error is.

    Rows that abstain on either net, or that give both the same score, prefer neither; `right` is
    then false.
    """
    others = {(bound.name, bound.form): bound for bound in second.bounds}
    truth = (first.holdout_error, second.holdout_error)
    verdicts = []
    for mine in first.bounds:
        theirs = others.get((mine.name, mine.form))
        if theirs is None or mine.form == "counted":
            continue
        a, b = mine.score, theirs.score
        prefers: Literal["first", "second", "neither"] = "neither"
        if a is not None and b is not None and a != b:
            prefers = "first" if a < b else "second"
        right = None
        if truth[0] is not None and truth[1] is not None and truth[0] != truth[1]:
            right = prefers == ("first" if truth[0] < truth[1] else "second")
        verdicts.append(Verdict(mine.name, mine.form, a, b, prefers, right))
    return tuple(verdicts)
