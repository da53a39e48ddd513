"""Tails as pictures: P(X ≥ x) on logarithmic axes with the power law, and every Hill plot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from cushion.cli.figures.panels import panels
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.measures.tails.records import TailFits
from cushion.papers.canvas import MINE, OTHER

OF = MeasureTable
_BLACK = "#000000"
_STEADY = 10  # k from which Hill's estimates set the height of a panel: before, they jump
_INDEX = "tail index ± 2 errors"
_THIN = {"color": _BLACK, "linestyle": ":", "linewidth": 0.8}
_WHAT = {"weights": "weights |w|", "eigenvalues": "eigenvalues of WWᵀ"}


def pictures(found: MeasureTable) -> Iterator[tuple[str, Any]]:
    """Survival functions and Hill plots of weights and eigenvalues, if a power law was fitted."""
    for what, name in _WHAT.items():
        pick = partial(_fits, what=what)
        if not any(map(pick, found.layers)):
            continue
        about = f"{name}, {found.net.data} (measure)"
        tails, plots = f"tails of the {about}", f"Hill plots of the {about}"
        flat = f"{plots}: is there a flat stretch?"
        shares, indices = ("x", "share of values ≥ x"), ("largest values used, k", _INDEX)
        yield f"tails-{what}", _legend(panels(found, tails, pick, _survival, shares))
        yield f"hill-{what}", _legend(panels(found, flat, pick, _hill, indices))


def _fits(layer: LayerMeasures, what: str) -> TailFits | None:
    """What was fitted, or nothing where there is no power law."""
    fits: TailFits | None = None if layer.tails is None else getattr(layer.tails, what)
    return None if fits is None or fits.power_law is None else fits


def _survival(axes: Any, fits: TailFits, colour: str, label: str) -> None:
    """Points of the empirical P(X ≥ x), and the fitted line from xmin to the largest value."""
    law, points = fits.power_law, fits.survival
    if law is None or points is None:
        return
    over = 3 if colour == MINE else 2
    dots = {"marker": ".", "markersize": 4, "linestyle": "none"}
    axes.loglog(points.x, points.share, color=colour, label=label, zorder=over, **dots)
    start = law.tail / law.values
    heights = [start, start * (law.largest / law.xmin) ** -law.tail_index]
    shade, line = (_BLACK, "power law from xmin") if colour == MINE else (OTHER, None)
    axes.loglog([law.xmin, law.largest], heights, color=shade, linewidth=1.2, label=line)
    if colour == MINE:
        axes.axvline(law.xmin, **_THIN)
        median = next(x for x, share in zip(points.x, points.share, strict=True) if share >= 0.5)
        left = min(law.xmin, median) / 3  # half of all values are smaller, and no tail
        axes.set_xlim(left=left)
        _few_ticks(axes.xaxis, math.log10(law.largest / left))


def _few_ticks(axis: Any, decades: float) -> None:
    """Numbers at powers of ten, and at 3, 30, ... where there are few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if decades < 2.5 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _hill(axes: Any, fits: TailFits, colour: str, label: str) -> None:
    """Hill's estimate with a band of two standard errors; dotted: the tail's size and index."""
    law, plot = fits.power_law, fits.hill
    if law is None or plot is None or not plot.k:
        return
    below = [index - 2 * error for index, error in zip(plot.tail_index, plot.errors, strict=True)]
    above = [index + 2 * error for index, error in zip(plot.tail_index, plot.errors, strict=True)]
    axes.fill_between(plot.k, below, above, color=colour, alpha=0.25, linewidth=0)
    over = 3 if colour == MINE else 2
    axes.plot(plot.k, plot.tail_index, color=colour, linewidth=1.2, label=label, zorder=over)
    axes.set_xscale("log")
    if colour == MINE:
        axes.axhline(law.tail_index, label="fitted tail: size and index", **_THIN)
        axes.axvline(law.tail, **_THIN)
        steady = [height for k, height in zip(plot.k, above, strict=True) if k >= _STEADY] or above
        axes.set_ylim(0, 1.1 * max(*steady, law.tail_index))


def _legend(figure: Any) -> Any:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    return figure
