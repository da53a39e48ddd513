"""What a compression that keeps the net tried: error over size, the front, and what was taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cushion.compressors.tuning.records import KeptSummary, Setting
from cushion.papers.canvas import MINE, OTHER, new_figure

OF = KeptSummary
_BEFORE = {"color": "#666666", "linewidth": 1, "linestyle": "-."}


def pictures(found: KeptSummary) -> Iterator[tuple[str, Any]]:
    yield "front", _front(found)


def _front(found: KeptSummary) -> Any:
    figure = new_figure(figsize=(7.5, 4.6))
    axes = figure.add_subplot()
    on = sorted((one for one in found.tried if one.front), key=lambda one: one.bytes)
    rest = [one for one in found.tried if not one.front]
    checked = found.validation_rows or found.m
    before = found.validation_errors_before if found.validation_rows else found.errors_before
    axes.plot(*_places(on, checked), "o-", color=MINE, label="front: nothing smaller errs less")
    axes.plot(*_places(rest, checked), "x", color=OTHER, label="also tried")
    taken = [one for one in found.tried if one.chosen]
    axes.plot(*_places(taken, checked), "*", color="black", markersize=14, label="taken")
    axes.axvline(found.bytes_before, label="the net as it was", **_BEFORE)
    axes.axhline(100 * (before or 0) / checked, **_BEFORE)
    rows = "validation rows" if found.validation_rows else "sample"
    axes.set(xscale="log", xlabel="bytes of the file", ylabel=f"errors on the {rows} in %")
    axes.set_title(f"size and error of what was tried; asked: {found.target}", fontsize=11)
    axes.legend(fontsize=8)
    return figure


def _places(some: list[Setting], rows: int) -> tuple[list[int], list[float]]:
    return [one.bytes for one in some], [100 * one.checked_errors / rows for one in some]
