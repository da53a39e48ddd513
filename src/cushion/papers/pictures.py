"""The pictures of `cushion reproduce`, from the numbers in an item's records; needs matplotlib.

Colours are apart in every common kind of colour blindness (Okabe and Ito), and no two lines differ
in colour alone: markers and dashes differ too. Every kind of picture names its axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from cushion.papers.canvas import legend_below, new_figure, save

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKED = 50  # a line of more points is a curve, and markers would hide it
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "os^vDPX*<>"  # as many as have no factor in common with the colours: no two lines alike
_LETTERS = 9  # of a title, to an inch of the figure
_LEGEND_INSIDE = 6  # more lines than these are named beside the picture


def draw_picture(picture: Mapping[str, Any], folder: Path, *, svg: bool = False) -> list[Path]:
    """One picture as folder/name.png, and .svg if asked, from the JSON of a reproduction's drawing.

    A Picture has lines over numbers, groups of bars over names: name, title, x, x_label, y_label,
    x_log, y_log, and series, each with label, values (None where there is none) and from_paper: the
    paper's own numbers are dashed or hatched. The others name their `kind`.
    """
    kinds = ("png", "svg") if svg else ("png",)
    if picture.get("kind") == "panels":
        return save(_panels(picture), folder, picture["name"], kinds)
    figure = new_figure(figsize=(8, 4.8))
    axes = figure.add_subplot()
    _draw(figure, axes, picture, title_size=11)
    if picture.get("kind") != "contour":
        beside = len(axes.get_legend_handles_labels()[1]) > _LEGEND_INSIDE
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if beside else {}
        axes.legend(fontsize=9, **place)
    return save(figure, folder, picture["name"], kinds)


def _panels(picture: Mapping[str, Any]) -> Any:
    """Rows of panels; a legend that all panels share stands once below them."""
    parts, columns = picture["panels"], picture["columns"]
    rows = -(-len(parts) // columns)
    figure = new_figure(figsize=(3.4 * columns + 0.6, 2.9 * rows + 0.8))
    for number, part in enumerate(parts, 1):
        _draw(figure, figure.add_subplot(rows, columns, number), part, title_size=10)
    figure.suptitle(_title(figure, picture), fontsize=12)
    legends = [axes.get_legend_handles_labels() for axes in figure.axes]
    if len({tuple(labels) for _, labels in legends}) == 1:
        legend_below(figure, 4)
    else:
        for axes in figure.axes:
            if len(axes.get_legend_handles_labels()[1]) > 1:
                axes.legend(fontsize=7)
    return figure


def _title(figure: Any, picture: Mapping[str, Any]) -> str:
    return fill(picture["title"], width=int(_LETTERS * figure.get_figwidth()))


def _draw(figure: Any, axes: Any, picture: Mapping[str, Any], title_size: int) -> None:
    axes.set_xlabel(picture["x_label"], fontsize=title_size - 1)
    axes.set_ylabel(picture["y_label"], fontsize=title_size - 1)
    axes.set_title(_title(figure, picture), fontsize=title_size)
    kind = picture.get("kind")
    if kind is None:
        over_numbers = all(isinstance(place, int | float) for place in picture["x"])
        kind = "lines" if over_numbers else "bars"
    _KINDS[kind](axes, picture)
    if picture.get("y_log"):
        axes.set_yscale("log")
    if picture.get("x_log"):
        axes.set_xscale("log")


def _contour(axes: Any, picture: Mapping[str, Any]) -> None:
    """Ten filled levels from low to high, lighter is higher, and their borders."""
    low, high = picture["low"], picture["high"]
    levels = [low + (high - low) * step / 10 for step in range(11)]
    grid = (picture["x"], picture["y"], picture["values"])
    axes.contour(*grid, levels=levels, colors="#333333", linewidths=0.4)
    filled = axes.contourf(*grid, levels=levels, cmap="viridis", extend="neither")
    axes.figure.colorbar(filled, ax=axes, label=picture["value_label"])


def _scatter(axes: Any, picture: Mapping[str, Any]) -> None:
    """Groups by colour and marker; lines in black, each with its own dashes, across all x."""
    across = [x for group in picture["groups"] for x, _ in group["places"]]
    for number, group in enumerate(picture["groups"]):
        x, y = zip(*group["places"], strict=True) if group["places"] else ((), ())
        marker, colour = _MARKERS[number % len(_MARKERS)], _COLOURS[number % len(_COLOURS)]
        if group.get("x_errors"):
            thin: dict[str, Any] = {"fmt": "none", "elinewidth": 0.6, "alpha": 0.6}
            axes.errorbar(x, y, xerr=group["x_errors"], ecolor=colour, **thin)
        axes.scatter(x, y, s=28, marker=marker, color=colour, label=group["label"])
    for number, line in enumerate(picture["lines"]):
        ends = (min(across, default=0.0), max(across, default=1.0))
        heights = [line["slope"] * x + line["intercept"] for x in ends]
        dashes = _DASHES[number % len(_DASHES)]
        axes.plot(ends, heights, color="#333333", linestyle=dashes, label=line["label"])


def _curves(axes: Any, picture: Mapping[str, Any]) -> None:
    """Lines with their own places; past as many as there are colours, dashes tell them apart."""
    for number, curve in enumerate(picture["curves"]):
        axes.errorbar(
            curve["x"],
            curve["y"],
            yerr=curve["y_errors"] or None,
            capsize=2,
            markersize=4,
            linewidth=1.3,
            marker=_MARKERS[number % len(_MARKERS)] if len(curve["x"]) <= _MARKED else None,
            linestyle=_DASHES[number // len(_COLOURS) % len(_DASHES)],
            color=_COLOURS[number % len(_COLOURS)],
            label=curve["label"],
        )
    limits = {"xlim": picture["x_limits"], "ylim": picture["y_limits"]}
    axes.set(**{key: ends for key, ends in limits.items() if ends is not None})


def _histogram(axes: Any, picture: Mapping[str, Any]) -> None:
    """Filled steps, each group with its own colour and dashes."""
    for number, spread in enumerate(picture["spreads"]):
        colour, dashes = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        edges, total = spread["edges"], sum(spread["counts"])
        heights = [
            count / total / (right - left) if total and right > left else 0.0
            for count, (left, right) in zip(spread["counts"], pairwise(edges), strict=True)
        ]
        axes.stairs(heights, edges, fill=True, alpha=0.3, color=colour)
        style = {"linestyle": dashes, "linewidth": 1.3, "label": spread["label"]}
        axes.stairs(heights, edges, color=colour, **style)
    axes.tick_params(labelsize=8)


def _lines(axes: Any, picture: Mapping[str, Any]) -> None:
    """One colour a line; a line of the paper has that of the line whose label it ends with."""
    marked = len(picture["x"]) <= _MARKED
    labels = [series["label"] for series in picture["series"]]
    for number, series in enumerate(picture["series"]):
        dashes, same = "-" if marked else _DASHES[number % len(_DASHES)], number
        if series["from_paper"]:
            alike = [at for at in range(number) if labels[number].endswith(labels[at])]
            dashes, same = "--", min(alike, default=number)
        axes.plot(
            picture["x"],
            _heights(series["values"]),
            marker=_MARKERS[number % len(_MARKERS)] if marked else None,
            linestyle=dashes,
            color=_COLOURS[same % len(_COLOURS)],
            label=series["label"],
        )


def _bars(axes: Any, picture: Mapping[str, Any]) -> None:
    count = len(picture["series"])
    width = 0.8 / count
    for number, series in enumerate(picture["series"]):
        across = [place + (number - (count - 1) / 2) * width for place in range(len(picture["x"]))]
        axes.bar(
            across,
            _heights(series["values"]),
            width,
            color=_COLOURS[number % len(_COLOURS)],
            hatch="//" if series["from_paper"] else None,
            edgecolor="white" if series["from_paper"] else None,
            label=series["label"],
        )
    axes.set_xticks(range(len(picture["x"])), picture["x"], rotation=30, ha="right", fontsize=8)
    axes.axhline(0.0, color="#666666", linewidth=1)


def _heights(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


_KINDS = {
    "bars": _bars,
    "contour": _contour,
    "curves": _curves,
    "histogram": _histogram,
    "lines": _lines,
    "scatter": _scatter,
}
