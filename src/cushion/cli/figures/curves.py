"""Margins and the curve of expected sharpness against KL (Neyshabur 2017, Figure 2) as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cushion.measures.records import MeasureTable
from cushion.papers.canvas import MINE, OTHER, new_figure, save, steps


def draw_curves(found: MeasureTable, folder: str) -> list[Path]:
    """The margins' histogram and the bi-criteria plot, where they were measured."""
    paths: list[Path] = []
    if found.net.margins is not None and found.net.margin is not None:
        paths += save(_margins(found), Path(folder), "margins")
    if found.net.sharpness is not None and found.net.sharpness.expected is not None:
        paths += save(_bi_criteria(found), Path(folder), "expected-sharpness")
    return paths


def _nets(found: MeasureTable) -> list[tuple[MeasureTable, str, str]]:
    both = [(found, MINE, "this net")]
    return both if found.beside is None else [*both, (found.beside, OTHER, "the net beside it")]


def _margins(found: MeasureTable) -> Any:
    figure = new_figure(figsize=(7, 4))
    axes = figure.add_subplot()
    for table, colour, label in _nets(found):
        steps(axes, table.net.margins, colour, label)
        if table.net.margin is not None:
            axes.axvline(table.net.margin.value, color=colour, linestyle="--", linewidth=1)
    axes.set_xlabel("margin: score of the true class minus the best other (dashed: γ)")
    axes.set_ylabel("examples")
    axes.set_yticks([])
    axes.set_title(f"margins, {found.net.data} (measure)")
    axes.legend(fontsize=9)
    return figure


def _bi_criteria(found: MeasureTable) -> Any:
    """Rise of cross-entropy and of error over KL, with error bars of one standard error."""
    figure = new_figure(figsize=(10, 4.2))
    for at, (name, rise, error) in enumerate(
        (
            ("cross-entropy", "sharpness", "sharpness_standard_error"),
            ("error", "error_sharpness", "error_sharpness_standard_error"),
        ),
        1,
    ):
        axes = figure.add_subplot(1, 2, at)
        for table, colour, label in _nets(found):
            curve = None if table.net.sharpness is None else table.net.sharpness.expected
            if curve is not None:
                across = [point.kl for point in curve.points]
                up = [getattr(point, rise) for point in curve.points]
                bars = [getattr(point, error) or 0.0 for point in curve.points]
                axes.errorbar(
                    across,
                    up,
                    yerr=bars,
                    color=colour,
                    marker="o",
                    markersize=4,
                    capsize=3,
                    label=label,
                )
        axes.set_xscale("log")
        axes.set_xlabel("KL = ½Σw²/σ² (nats)")
        axes.set_ylabel(f"rise of the {name}")
        axes.legend(fontsize=9)
    figure.suptitle(
        f"expected sharpness against KL, {found.net.data} (measure): lower is better", fontsize=12
    )
    return figure
