"""The rows that every table and figure of Guha 2023 §7 shares: our columns for one net, and tables
of several.

A column maps the name of a row to a natural logarithm; a row without a value is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cushion.papers.guha.nets import NetFound, PrunedFound
from cushion.papers.guha.paper import (
    BARTLETT_2017,
    METHODS,
    NEYSHABUR_2015,
    NEYSHABUR_2017,
    OURS,
    RIVALS,
    TRUE_ERROR,
)
from cushion.papers.pages import Table

Column = Mapping[str, float | None]
Titled = Sequence[tuple[str, NetFound]]
# The rows of `cushion bounds` that stand for the paper's rivals, whose formulas it does not write:
# what each depends on (norms, widths, margin, 2^depth where the source has it) without numerical
# constants and logarithms, as in Ours.
RIVAL_ROWS = {
    NEYSHABUR_2015: ("l2-norm", "as printed"),
    NEYSHABUR_2017: ("spec-fro", "as plotted"),
    BARTLETT_2017: ("spec-l1,2", "as plotted"),
}
OTHER_FORMS = {
    NEYSHABUR_2015: (("l2-norm", "as plotted"), ("frobenius", "stated")),
    NEYSHABUR_2017: (("spec-fro", "stated"),),
    BARTLETT_2017: (("spec-l1,2", "corrected"), ("spec-l2,1", "stated")),
}
_OURS_ROW = ("sketch count", "as plotted")
_COUNTS = (
    ("sketch count", "as printed"),
    ("sketch count", "corrected"),
    ("naive count", "as printed"),
    ("naive count", "corrected"),
)
CERTIFICATE = "mask and values, exact tail (certificate)"
TRAINING_ERROR = "Training error"
BEFORE = "True error before pruning"
BESIDE = (*(f"{name}, {form}" for name, form in _COUNTS), CERTIFICATE, TRAINING_ERROR, BEFORE)

ROW_NOTES = (
    "All numbers of the first table are natural logarithms, as the paper's are; a value above 0 is "
    "a bound above 100 % and says nothing. A dash: the row abstains, or no error was counted.",
    "Each net is pruned twice by Algorithm 1: with the d that has the smallest bound, the choice "
    "paid, and with the d, of the same six, at which the pruned net errs least on the sample. The "
    "paper does not state its d.",
    "Ours is R̂_γ + √(Σ 3χ d₁d₂ ln²(p) ln(1/ρ) / n), Theorem 5.2 with λ = 1 and 1 in place of "
    "O(·); as printed has the λ that make the failure 5 %, corrected the j that was seen and every "
    "known constant. Sketch and naive rows are measures.",
    f"{CERTIFICATE}: holds with probability 95 % over the sample, from the bits that a coder wrote "
    "for the pruned net; it counts errors and needs no margin.",
    "The rivals are the rows "
    + ", ".join(f"{name} ({form}) for {method}" for method, (name, form) in RIVAL_ROWS.items())
    + " of `cushion bounds`: the paper does not write its formulas, so we take what each "
    "depends on without constants "
    "and logarithms, as in Ours. With other forms the order of the rivals can be another.",
    "True error: of the pruned and discretised net on the test set.",
    "Not like for like: the rivals bound the trained net by its norms and γ; Ours counts numbers, "
    "knows γ only through d and ρ, and speaks of the pruned net.",
)


def column(net: NetFound, pruned: PrunedFound | None) -> dict[str, float | None]:
    """Our numbers for one net, the paper's rows first, then what the paper does not show."""
    rivals = {method: net.logs.get(RIVAL_ROWS[method]) for method in RIVALS}
    before = _log_error(net.test_errors, net.test_m)
    if pruned is None:
        return {**rivals, **dict.fromkeys((OURS, TRUE_ERROR, *BESIDE)), BEFORE: before}
    return {
        **rivals,
        OURS: pruned.log(*_OURS_ROW),
        TRUE_ERROR: _log_error(pruned.test_errors, net.test_m),
        **{f"{name}, {form}": pruned.log(name, form) for name, form in _COUNTS},
        CERTIFICATE: math.log(pruned.certificate["bound"]),
        TRAINING_ERROR: _log_error(pruned.errors, net.m),
        BEFORE: before,
    }


def chosen(found: Sequence[NetFound]) -> list[dict[str, float | None]]:
    """Our columns with the d of the smallest bound."""
    return [column(net, net.smallest_bound) for net in found]


def gentle(found: Sequence[NetFound]) -> list[dict[str, float | None]]:
    """Our columns with the d of the fewest errors."""
    return [column(net, net.fewest_errors) for net in found]


def beside_paper(found: Titled, papers: Sequence[Column | None], caption: str) -> Table:
    """One row a method; for each net the paper's number (where it has one) and ours, to two
    decimals as in the paper.

    A certificate is rounded up.
    """
    header, body = ["ln of"], [[name] for name in (*METHODS, *BESIDE)]
    rows: list[list[str | float | None]] = [list(row) for row in body]
    for (title, net), paper in zip(found, papers, strict=True):
        ours = (column(net, net.smallest_bound), column(net, net.fewest_errors))
        header += [f"{title}, paper"] if paper is not None else []
        header += [f"{title}, smallest bound", f"{title}, fewest errors"]
        for row in rows:
            name = str(row[0])
            row += [paper.get(name)] if paper is not None else []
            row += [_shown(name, one[name]) for one in ours]
    return Table(tuple(header), tuple(map(tuple, rows)), caption)


def other_forms(found: Titled) -> Table:
    """The rivals in every other form: none of them is known to be the paper's."""
    forms = [(method, name, form) for method in RIVALS for name, form in OTHER_FORMS[method]]
    rows = [
        (method, f"{name}, {form}", *(_shown(name, net.logs.get((name, form))) for _, net in found))
        for method, name, form in forms
    ]
    return Table(
        ("rival", "row", *(title for title, _ in found)),
        tuple(rows),
        "The rivals in other forms (ln):",
    )


def nets(found: Titled) -> Table:
    """What was trained and what Algorithm 1 made of it; errors are fractions, not logarithms."""
    rows: list[tuple[str | float | None, ...]] = []
    for title, net in found:
        before = (
            title,
            net.plan.epochs,
            net.errors / net.m,
            net.test_errors / net.test_m,
            net.margin,
        )
        for pruned in _ways(net):
            rows.append(
                (
                    *before,
                    pruned.d,
                    pruned.record["sparsity"],
                    pruned.reach,
                    pruned.errors / net.m,
                    pruned.test_errors / net.test_m,
                    pruned.record["bits"],
                    pruned.certificate["bound"],
                )
            )
        if net.smallest_bound is None:
            rows.append((*before, *(None for _ in range(7))))
    header = (
        "net",
        "epochs",
        "training error",
        "test error",
        "γ",
        "d",
        "pruned away",
        "‖Δ‖₂L/‖A‖₂, worst layer",
    )
    after = ("pruned: training error", "pruned: test error", "bits", "certified error")
    return Table((*header, *after), tuple(rows), "The nets, before and after Algorithm 1:")


def counts(found: Titled) -> Table:
    """How many nats each way of counting pays for the same pruned net; the certificate's are those
    a coder wrote.
    """
    rows = []
    for title, net in found:
        for pruned in _ways(net):
            nats = [pruned.nats(name, form) for name, form in (_OURS_ROW, *_COUNTS)]
            sketch, naive = nats[2], nats[4]
            ratio = sketch / naive if sketch is not None and naive else None
            rows.append(
                (title, pruned.d, net.weights, *nats, pruned.record["bits"] * math.log(2.0), ratio)
            )
    header = ("net", "d", "weights", *(f"{name}, {form}" for name, form in (_OURS_ROW, *_COUNTS)))
    last = ("mask and values, coded", "sketch over naive, corrected")
    return Table(
        (*header, *last), tuple(rows), "Nats that each count pays for the same pruned net:"
    )


def by_strength(found: Titled) -> Table:
    """The training error of the pruned net at every d that was tried, beside what stays."""
    asked = [
        [float(one["asked"].removeprefix("d=")) for one in pruned.record["tried"]]
        for pruned in _best(found)
    ]
    strengths = sorted(set().union(*asked))
    rows = []
    for d in strengths:
        errors: list[float | None] = []
        for _, net in found:
            tried = [] if net.smallest_bound is None else net.smallest_bound.record["tried"]
            errors.append(
                next((one["errors"] / net.m for one in tried if one["asked"] == f"d={d:g}"), None)
            )
        rows.append((d, 1.0 - math.sqrt(d / (d + 2.0)), *errors))
    header = ("d", "χ = 1 - √(d/(d+2))", *(title for title, _ in found))
    caption = (
        "Training error of the pruned and discretised net, by d (a dash: more weights stay than a "
        "file holds):"
    )
    return Table(header, tuple(rows), caption)


def _best(found: Titled) -> list[PrunedFound]:
    return [net.smallest_bound for _, net in found if net.smallest_bound is not None]


def _ways(net: NetFound) -> list[PrunedFound]:
    """The prunings of a net, one where both choices of d agree."""
    ways = [one for one in (net.smallest_bound, net.fewest_errors) if one is not None]
    return ways[:1] if len({one.d for one in ways}) == 1 else ways


def _shown(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    return math.ceil(100 * value) / 100 if name == CERTIFICATE else round(value, 2)


def _log_error(errors: int, m: int) -> float | None:
    """ln of an error rate; None for no errors at all."""
    return math.log(errors / m) if errors else None
