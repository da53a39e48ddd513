"""The pictures of `cushion reproduce`, from the numbers in an item's records; needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cushion.figures.canvas import new_figure, save

# Apart in every common kind of colour blindness (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKED = 50  # a line of more points is a curve, and markers would hide it
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "os^vDPX*<>"  # as many as have no factor in common with the colours: no two lines alike


def draw_picture(picture: Mapping[str, Any], folder: Path) -> list[Path]:
    """One picture as folder/name.png and .svg, from the JSON of a reproduction's Picture, Contour or Scatter.

    A Picture has lines over numbers, groups of bars over names: name, title, x, x_label, y_label, x_log, y_log, and
    series, each with label, values (None where there is none) and from_paper: the paper's own numbers are dashed or
    hatched. The other two name their `kind`.
    """
    figure = new_figure(figsize=(8, 4.8))
    axes = figure.add_subplot()
    axes.set_xlabel(picture["x_label"])
    axes.set_ylabel(picture["y_label"])
    axes.set_title(picture["title"], fontsize=11)
    if picture.get("kind") == "contour":
        figure.colorbar(_contour(axes, picture), ax=axes, label=picture["value_label"])
        return save(figure, folder, picture["name"])
    if picture.get("kind") == "scatter":
        _scatter(axes, picture)
    elif all(isinstance(place, int | float) for place in picture["x"]):
        _lines(axes, picture)
    else:
        _bars(axes, picture)
    if picture.get("y_log"):
        axes.set_yscale("log")
    axes.legend(fontsize=8)
    return save(figure, folder, picture["name"])


def _contour(axes: Any, picture: Mapping[str, Any]) -> Any:
    """Ten filled levels from low to high, lighter is higher, and their borders."""
    low, high = picture["low"], picture["high"]
    levels = [low + (high - low) * step / 10 for step in range(11)]
    grid = (picture["x"], picture["y"], picture["values"])
    axes.contour(*grid, levels=levels, colors="#333333", linewidths=0.4)
    return axes.contourf(*grid, levels=levels, cmap="viridis", extend="neither")


def _scatter(axes: Any, picture: Mapping[str, Any]) -> None:
    """Groups by colour and marker; lines in black, each with its own dashes, across all x."""
    across = [x for group in picture["groups"] for x, _ in group["places"]]
    for number, group in enumerate(picture["groups"]):
        x, y = zip(*group["places"], strict=True) if group["places"] else ((), ())
        marker, colour = _MARKERS[number % len(_MARKERS)], _COLOURS[number % len(_COLOURS)]
        if group.get("x_errors"):
            axes.errorbar(x, y, xerr=group["x_errors"], fmt="none", ecolor=colour, elinewidth=0.6, alpha=0.6)
        axes.scatter(x, y, s=28, marker=marker, color=colour, label=group["label"])
    for number, line in enumerate(picture["lines"]):
        ends = (min(across, default=0.0), max(across, default=1.0))
        heights = [line["slope"] * x + line["intercept"] for x in ends]
        axes.plot(ends, heights, color="#333333", linestyle=_DASHES[number % len(_DASHES)], label=line["label"])


def _lines(axes: Any, picture: Mapping[str, Any]) -> None:
    """One colour a line; a line of the paper has that of the line whose label it ends with."""
    marked = len(picture["x"]) <= _MARKED
    labels = [series["label"] for series in picture["series"]]
    for number, series in enumerate(picture["series"]):
        same = next(
            (at for at in range(number) if series["from_paper"] and labels[number].endswith(labels[at])), number
        )
        axes.plot(
            picture["x"],
            _heights(series["values"]),
            marker=_MARKERS[number % len(_MARKERS)] if marked else None,
            linestyle="--" if series["from_paper"] else "-",
            color=_COLOURS[same % len(_COLOURS)],
            label=series["label"],
        )
    if picture["x_log"]:
        axes.set_xscale("log")


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
