"""A pruned net as pictures: error and bound over the non-zeros of all that was tried, and what each
layer lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cushion.compressors.pruning.records import NetPruning, Tried
from cushion.papers.canvas import MINE, OTHER, new_figure, save

# Stays apart from MINE and OTHER in every common kind of colour blindness (Okabe and Ito).
_THIRD = "#009E73"


def draw_pruning(found: NetPruning, folder: str) -> list[Path]:
    """Both pictures; the first only where more than one setting was tried."""
    paths: list[Path] = []
    if len(found.tried) > 1:
        paths += save(_tried(found), Path(folder), f"{found.method}-tried")
    return paths + save(_layers(found), Path(folder), f"{found.method}-layers")


def _tried(found: NetPruning) -> Any:
    """Training error and Occam bound over the non-zeros, one line for each grid."""
    figure = new_figure(figsize=(10, 4.2))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    grids = list(dict.fromkeys(one.grid for one in found.tried))
    for at, grid in enumerate(grids):
        line = sorted(
            (one for one in found.tried if one.grid == grid), key=lambda one: one.nonzeros
        )
        shade = str(0.75 - 0.65 * at / max(1, len(grids) - 1)) if len(grids) > 1 else MINE
        across = [max(1, one.nonzeros) for one in line]
        left.plot(
            across,
            [one.errors / found.m for one in line],
            "o-",
            color=shade,
            markersize=4,
            label=grid,
        )
        right.plot(across, [one.bound for one in line], "o-", color=shade, markersize=4, label=grid)
    ticks = _apart(sorted({max(1, one.nonzeros) for one in found.tried}))
    taken: list[Tried] = [one for one in found.tried if one.chosen]
    for axes, values, name in (
        (left, [one.errors / found.m for one in taken], "error, training set (measured)"),
        (
            right,
            [one.bound for one in taken],
            f"Occam bound on the error (delta = {found.delta:g})",
        ),
    ):
        axes.plot(
            [max(1, one.nonzeros) for one in taken],
            values,
            "s",
            color=OTHER,
            markersize=9,
            fillstyle="none",
            label="taken",
        )
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("non-zero weights")
        axes.set_ylabel(name)
        axes.legend(fontsize=8, title="grid", title_fontsize=8)
    figure.suptitle(f"{found.method}, rule {found.rule}: error and bound against size", fontsize=12)
    return figure


def _apart(sizes: Sequence[int]) -> list[int]:
    """Those that are far enough apart on a logarithmic scale for their labels."""
    found = [sizes[0]]
    step = max(1.3, (sizes[-1] / sizes[0]) ** 0.16)
    for size in sizes[1:]:
        if size >= step * found[-1]:
            found.append(size)
    return found


def _layers(found: NetPruning) -> Any:
    """The share of each layer's weights that is left, and ‖Δ‖₂ and the rounding over ‖A‖₂ beside
    Lemma 4.4's 1/L.
    """
    layers = [layer for layer in found.layers if layer.normality is not None]
    names, places = [layer.name for layer in layers], range(len(layers))
    figure = new_figure(figsize=(10, 4.2))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    left.bar(places, [layer.nonzeros / layer.weights for layer in layers], color=MINE)
    left.set_ylabel("share of weights that is left")
    left.set_ylim(0, 1)
    positive = [layer.spectral if layer.spectral > 0 else 1.0 for layer in layers]
    shifts = [layer.shift / size for layer, size in zip(layers, positive, strict=True)]
    rounding = [layer.rounding / size for layer, size in zip(layers, positive, strict=True)]
    right.plot(
        places, [max(one, 1e-9) for one in shifts], "o-", color=MINE, label="‖Δ‖₂/‖A‖₂, pruning"
    )
    right.plot(
        places,
        [max(one, 1e-9) for one in rounding],
        "^:",
        color=_THIRD,
        label="‖Ã - Â‖₂/‖A‖₂, rounding",
    )
    right.axhline(
        1 / len(found.layers),
        color=OTHER,
        linestyle="--",
        label="1/L: what Lemmas 4.3 and 4.4 allow",
    )
    right.set_yscale("log")
    right.set_ylabel("change of the layer, relative")
    right.legend(fontsize=8)
    left.axhline(
        found.errors_before / found.m,
        color="#666666",
        linewidth=1,
        linestyle="-.",
        label="the net as it was",
    )
    for axes in (left, right):
        axes.set_xticks(places, names, rotation=60 if len(names) > 6 else 0)
    figure.suptitle(f"{found.method}, rule {found.rule}: layer by layer (measured)", fontsize=12)
    return figure
