"""Tails as pictures: P(X ≥ x) on logarithmic axes with the fitted power law, and the Hill plot of
every layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.measures.tails.records import TailFits
from cushion.papers.canvas import MINE, OTHER, new_figure, save

_COLUMNS = 4
# of one picture; of deeper nets it shows layers at even distances, first and last among them
_PANELS = 24
_BLACK = "#000000"
_STEADY = 10  # k from which Hill's estimates set the height of a panel: before, they jump
_WHAT = {"weights": "weights |w|", "eigenvalues": "eigenvalues of WWᵀ"}
Panel: TypeAlias = Callable[[Any, TailFits, str, str], None]


def draw_tails(found: MeasureTable, folder: str) -> list[Path]:
    """Survival functions and Hill plots of weights and eigenvalues, where a power law was
    fitted.
    """
    paths: list[Path] = []
    for what, name in _WHAT.items():
        layers = [layer for layer in found.layers if _fits(layer, what) is not None]
        if layers:
            title = f"tails of the {name}, {found.net.data} (measure)"
            survivals = _panels(found, what, layers, title, _survival, ("x", "share of values ≥ x"))
            paths += save(survivals, Path(folder), f"tails-{what}")
            title = (
                f"Hill plots of the {name}, {found.net.data} (measure): is there a flat stretch?"
            )
            plots = _panels(
                found,
                what,
                layers,
                title,
                _hill,
                ("largest values used, k", "tail index ± 2 errors"),
            )
            paths += save(plots, Path(folder), f"hill-{what}")
    return paths


def _fits(layer: LayerMeasures, what: str) -> TailFits | None:
    """What was fitted, or nothing where there is no power law."""
    fits: TailFits | None = None if layer.tails is None else getattr(layer.tails, what)
    return None if fits is None or fits.power_law is None else fits


def _panels(
    found: MeasureTable,
    what: str,
    layers: list[LayerMeasures],
    title: str,
    panel: Panel,
    labels: tuple[str, str],
) -> Any:
    """One panel a layer; the net beside it in the second colour."""
    shown = _evenly(layers)
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = new_figure(figsize=(max(7.0, 3 * columns), 2.6 * rows + 1.2))
    some = "" if len(shown) == len(layers) else f"\n{len(shown)} of {len(layers)} layers"
    figure.suptitle(f"{title}{some}", fontsize=12)
    twins = (
        {}
        if found.beside is None
        else {twin.name: _fits(twin, what) for twin in found.beside.layers}
    )
    for at, layer in enumerate(shown, 1):
        axes = figure.add_subplot(rows, columns, at)
        mine, twin = _fits(layer, what), twins.get(layer.name)
        if mine is not None:
            panel(axes, mine, MINE, "this net")
        if twin is not None:
            panel(axes, twin, OTHER, "the net beside it")
        axes.set_title(layer.name, fontsize=10)
        axes.tick_params(labelsize=8, which="both")
        if at > len(shown) - columns:
            axes.set_xlabel(labels[0], fontsize=9)
        if (at - 1) % columns == 0:
            axes.set_ylabel(labels[1], fontsize=9)
    _legend(figure)
    return figure


def _evenly(layers: list[LayerMeasures]) -> list[LayerMeasures]:
    if len(layers) <= _PANELS:
        return layers
    return [layers[round(at * (len(layers) - 1) / (_PANELS - 1))] for at in range(_PANELS)]


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
    line = "power law from xmin" if colour == MINE else None
    axes.loglog(
        [law.xmin, law.largest],
        heights,
        color=_BLACK if colour == MINE else OTHER,
        linewidth=1.2,
        label=line,
    )
    if colour == MINE:
        axes.axvline(law.xmin, color=_BLACK, linestyle=":", linewidth=0.8)
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
    """Hill's estimate with a band of two standard errors; dotted: the fitted tail's size and
    index.
    """
    law, plot = fits.power_law, fits.hill
    if law is None or plot is None or not plot.k:
        return
    below = [index - 2 * error for index, error in zip(plot.tail_index, plot.errors, strict=True)]
    above = [index + 2 * error for index, error in zip(plot.tail_index, plot.errors, strict=True)]
    axes.fill_between(plot.k, below, above, color=colour, alpha=0.25, linewidth=0)
    axes.plot(
        plot.k,
        plot.tail_index,
        color=colour,
        linewidth=1.2,
        label=label,
        zorder=3 if colour == MINE else 2,
    )
    axes.set_xscale("log")
    if colour == MINE:
        axes.axhline(
            law.tail_index,
            color=_BLACK,
            linestyle=":",
            linewidth=0.8,
            label="fitted tail: size and index",
        )
        axes.axvline(law.tail, color=_BLACK, linestyle=":", linewidth=0.8)
        steady = [height for k, height in zip(plot.k, above, strict=True) if k >= _STEADY] or above
        axes.set_ylim(0, 1.1 * max(*steady, law.tail_index))


def _legend(figure: Any) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
