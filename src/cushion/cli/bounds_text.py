"""The table of bounds for people: certificates first, then what only ranks nets; what each row means beside it."""

from __future__ import annotations

from cushion.bound_records import Bound, BoundsTable
from cushion.cli.output import power, table
from cushion.numerics import percent_up


def describe(found: BoundsTable) -> str:
    """Everything about one net, and about two where there are two."""
    lines = [*_about(found), ""]
    lines += _rows(found)
    if found.beside is not None:
        lines += ["", "Beside it:", *_about(found.beside), "", *_rows(found.beside), "", *_verdicts(found)]
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
        f"loss: {found.loss}; each row fails with probability at most {found.delta:g}, the best of n with n times that",
        f"gamma = {found.margin:.4g}: the margin that all but {found.margin_level:.3g} of the examples exceed (margin "
        f"loss {found.margin_loss:.4g})",
    ]


def _rows(found: BoundsTable) -> list[str]:
    proved = [bound for bound in found.bounds if bound.kind == "certificate"]
    others = [bound for bound in found.bounds if bound.kind == "measure"]
    stated = [bound for bound in others if bound.form == "stated"]
    rest = [bound for bound in others if bound.form != "stated"]
    lines = ["Certificates: every constant explicit; f is the net itself, Q the net under noise"]
    lines.append(
        table(
            ["bound", "source", "of", "error at most", "meaning"],
            [[b.name, b.source, b.about, error(b), b.meaning] for b in proved],
        )
    )
    lines.append(f"assuming that {'; '.join(found.assumptions)}")
    lines += ["", "Measures: bounds of the literature with their constants (rechecked by nobody: not certificates)"]
    lines.append(
        table(
            ["bound", "source", "value", "", "meaning"],
            [[b.name, b.source, error(b), _vacuous(b), b.meaning] for b in stated],
        )
    )
    lines += ["", "Measures: up to constants, as the papers plot or print them; they rank nets and prove nothing"]
    lines.append(
        table(
            ["measure", "form", "source", "capacity", "in units of the error", "", "meaning"],
            [
                [b.name, b.form, b.source, power(b.capacity_log10, b.capacity), error(b), _vacuous(b), b.meaning]
                for b in rest
            ],
        )
    )
    return lines


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
        rows.append([verdict.name, verdict.form, _log10(verdict.first), _log10(verdict.second), choice, right])
    return [
        "Which net each row prefers, and whether the held-out errors agree",
        table(["row", "form", "log10", "log10 beside", "prefers", "verdict"], rows),
    ]


def _log10(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
