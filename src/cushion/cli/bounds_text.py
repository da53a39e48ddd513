"""The table of bounds for people: certificates first, then what only ranks nets; what each row
means beside it.
"""

from __future__ import annotations

import textwrap

from cushion.cli.output import power, table, wrapped_table
from cushion.numerics import percent_up
from cushion.theorems.records import Bound, BoundsTable

_WIDTH = 150


def describe(found: BoundsTable) -> str:
    """Everything about one net, and about two where there are two."""
    lines = [*_about(found), ""]
    lines += _rows(found)
    if found.beside is not None:
        lines += [
            "",
            "Beside it:",
            *_about(found.beside),
            "",
            *_rows(found.beside),
            "",
            *_verdicts(found),
        ]
    return "\n".join(lines)


def error(bound: Bound) -> str:
    """The bound on the error: certificates as percentages rounded up, measures as numbers."""
    if bound.abstains:
        return "-"
    if bound.kind == "certificate":
        shown = percent_up(1.0 if bound.value is None else min(1.0, bound.value))
        return "vacuous" if bound.vacuous or shown == "100.00 %" else shown
    return power(bound.log10, bound.value)


def _about(found: BoundsTable) -> list[str]:
    held = ""
    if found.holdout_m:
        held = f"; {found.holdout_errors} errors on {found.holdout_m} held-out examples"
    return [
        f"{found.net} on {found.m} examples of {found.data}: {found.errors} errors{held}",
        f"loss: {found.loss}; each row fails with probability at most {found.delta:g}, the best of "
        "n with n times that",
        f"gamma = {found.margin:.4g}: the margin that all but {found.margin_level:.3g} of the "
        f"examples exceed (margin loss {found.margin_loss:.4g})",
    ]


def _rows(found: BoundsTable) -> list[str]:
    shown = [bound for bound in found.bounds if not bound.abstains]
    proved = [bound for bound in shown if bound.kind == "certificate"]
    stated = [bound for bound in shown if bound.kind == "measure" and bound.form == "stated"]
    rest = [bound for bound in shown if bound.kind == "measure" and bound.form != "stated"]
    lines = [
        "Certificates: every constant explicit; f is the net itself, Q the net under noise",
        wrapped_table(
            ["bound", "of", "error at most", "meaning"],
            [[b.name, b.about, error(b), _meaning(b)] for b in proved],
        ),
        f"guessing one of {found.classes} classes at random errs on {1 - 1 / found.classes:.4g} of "
        "the examples",
        *textwrap.wrap(f"assuming that {'; '.join(found.assumptions)}", _WIDTH),
        "",
        "Measures: bounds of the literature with their constants (rechecked by nobody: not "
        "certificates)",
        wrapped_table(
            ["bound", "value", "", "meaning"],
            [[b.name, error(b), _vacuous(b), _meaning(b)] for b in stated],
        ),
        "",
        "Measures: up to constants, as the papers plot or print them; they rank nets and prove "
        "nothing",
        wrapped_table(
            ["measure", "form", "capacity", "as error", "", "meaning"],
            [
                [
                    b.name,
                    b.form,
                    power(b.capacity_log10, b.capacity),
                    error(b),
                    _vacuous(b),
                    _meaning(b),
                ]
                for b in rest
            ],
        ),
    ]
    silent: dict[str, list[str]] = {}
    for bound in found.bounds:
        if bound.abstains:
            silent.setdefault(bound.meaning.removeprefix("abstains: "), []).append(
                f"{bound.name} ({bound.form})"
            )
    for why, names in silent.items():
        lines += ["", *textwrap.wrap(f"No value for {', '.join(names)}: {why}", _WIDTH)]
    return lines


def _meaning(bound: Bound) -> str:
    return f"{bound.meaning} [{bound.source}]"


def _vacuous(bound: Bound) -> str:
    return "" if bound.abstains else "vacuous" if bound.vacuous else ""


def _verdicts(found: BoundsTable) -> list[str]:
    other = found.beside
    assert other is not None
    rows = []
    for verdict in found.verdicts:
        choice = {"first": found.net, "second": other.net, "neither": "neither"}[verdict.prefers]
        right = "-" if verdict.right is None else "right" if verdict.right else "WRONG"
        right = "no difference" if verdict.prefers == "neither" else right
        rows.append(
            [
                verdict.name,
                verdict.form,
                _log10(verdict.first),
                _log10(verdict.second),
                choice,
                right,
            ]
        )
    return [
        "Which net each row prefers, and whether the held-out errors agree",
        table(["row", "form", "log10", "log10 beside", "prefers", "verdict"], rows),
    ]


def _log10(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
