"""Print the tables of README.md from the records beside this file: python summary.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cushion.numerics import percent_up
from cushion.papers.guha.lottery_theorem import sufficient_width

HERE = Path(__file__).parent


def record(name: str) -> dict[str, Any] | None:
    path = HERE / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def levels() -> list[str]:
    """Every level of iterative pruning: the trained net, and what its certificate proves of the net
    on a grid.
    """
    lines = [
        "| level | pruned | weights left | train error | test error | bits | certified bound | "
        "errors | held-out |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    run = record("imp")
    for level in run["levels"] if run else []:
        here = record(f"level-{level['level']:02d}")
        cells = [
            level["level"],
            f"{level['sparsity']:.2%}",
            level["nonzeros"],
            f"{level['train_error']:.2%}",
            "-" if level["test_error"] is None else f"{level['test_error']:.2%}",
            *(proved(here) if here else ["-"] * 4),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def proved(found: dict[str, Any]) -> list[str]:
    """Bits, bound, errors on the sample and on held-out examples: of the certificate, or why there
    is none.
    """
    certificate = next(one for one in found["occam"] if one["kind"] == "certificate")
    if certificate["because"]:
        return [f"none: {certificate['because']}", "-", "-", "-"]
    held_out = "-"
    if certificate["holdout_m"]:
        held_out = f"{certificate['holdout_errors'] / certificate['holdout_m']:.2%}"
    errors = f"{certificate['errors'] / certificate['m']:.2%}"
    return [str(certificate["bits"]), percent(certificate["bound"]), errors, held_out]


def tickets() -> list[str]:
    """Theorem 6.1 tried, width by width."""
    study = record("tickets")
    if study is None:
        return []
    lines = [
        "| width | error found | error at most | worst weight | active | of | printed count |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in study["tickets"]:
        cells = [
            one["width"],
            f"{one['found']:.3g}",
            f"{one['at_most']:.3g}",
            f"{one['worst_weight']:.3g}",
            one["active"],
            f"{one['all_weights']:.3g}",
            f"{one['printed']:.3g}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    dims = study["tickets"][0]["dims"]
    return [
        *lines,
        "",
        f"slopes in logarithms: {study['slope_found']:.3f} (found), {study['slope_at_most']:.3f} "
        "(at most)",
        "width that Theorem 6.1 needs for an error of 0.1 with probability 0.95: "
        f"{sufficient_width(dims, 0.1, 0.05)}",
    ]


def supermask() -> list[str]:
    found = record("supermask")
    if found is None:
        return []
    bound = percent(float(found["bound"]))
    return [
        f"supermask: {found['bits']} bits, {found['errors']} errors of {found['m']}, bound {bound}"
    ]


def percent(bound: float) -> str:
    return "vacuous" if bound >= 1 else percent_up(str(bound))


def main() -> None:
    lines = ["levels", "", *levels(), "", "tickets", "", *tickets(), "", *supermask()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
