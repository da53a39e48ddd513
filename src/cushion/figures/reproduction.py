"""The pictures of `cushion reproduce`, from the numbers in an item's records; needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cushion.figures.canvas import new_figure, save

# Apart in every common kind of colour blindness (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^vDPX*<>"  # as many as have no factor in common with the colours: no two lines alike


def draw_picture(picture: Mapping[str, Any], folder: Path) -> list[Path]:
    """One picture as folder/name.png and .svg: lines over numbers, groups of bars over names.

    `picture` has the keys of a reproduction's Picture: name, title, x, x_label, y_label, x_log, y_log, and series, each
    with label, values (None where there is none) and from_paper: the paper's own numbers are dashed or hatched.
    """
    figure = new_figure(figsize=(8, 4.8))
    axes = figure.add_subplot()
    if all(isinstance(place, int | float) for place in picture["x"]):
        _lines(axes, picture)
    else:
        _bars(axes, picture)
    if picture["y_log"]:
        axes.set_yscale("log")
    axes.set_xlabel(picture["x_label"])
    axes.set_ylabel(picture["y_label"])
    axes.set_title(picture["title"], fontsize=11)
    axes.legend(fontsize=8)
    return save(figure, folder, picture["name"])


def _lines(axes: Any, picture: Mapping[str, Any]) -> None:
    for number, series in enumerate(picture["series"]):
        axes.plot(
            picture["x"],
            _heights(series["values"]),
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle="--" if series["from_paper"] else "-",
            color=_COLOURS[number % len(_COLOURS)],
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
