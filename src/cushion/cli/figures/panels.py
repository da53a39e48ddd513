"""One panel a layer: what most pictures of a measure table are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.papers.canvas import MINE, OTHER, new_figure

_COLUMNS = 4
# of one picture; of deeper nets it shows layers at even distances, first and last among them
_PANELS = 24
Panel: TypeAlias = Callable[[Any, Any, str, str], None]  # axes, what to draw, colour, label


def panels(
    found: MeasureTable,
    title: str,
    pick: Callable[[LayerMeasures], Any],
    panel: Panel,
    labels: tuple[str, str],
    beside: str = "the net beside it",
) -> Any:
    """A panel for each layer that `pick` finds something in; the net beside it in OTHER."""
    layers = [layer for layer in found.layers if pick(layer) is not None]
    shown = _evenly(layers)
    some = "" if len(shown) == len(layers) else f"\n{len(shown)} of {len(layers)} layers"
    twins = {twin.name: pick(twin) for twin in found.beside.layers} if found.beside else {}
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = new_figure(figsize=(max(7.0, 3 * columns), 2.6 * rows + 1.2))
    figure.suptitle(f"{title}{some}", fontsize=12)
    for at, layer in enumerate(shown, 1):
        axes = figure.add_subplot(rows, columns, at)
        panel(axes, pick(layer), MINE, "this net")
        if (twin := twins.get(layer.name)) is not None:
            panel(axes, twin, OTHER, beside)
        axes.set_title(f"layer {layer.name}", fontsize=10)
        axes.tick_params(labelsize=8, which="both")
        if at > len(shown) - columns:
            axes.set_xlabel(labels[0], fontsize=9)
        if (at - 1) % columns == 0:
            axes.set_ylabel(labels[1], fontsize=9)
    return figure


def _evenly(layers: Sequence[LayerMeasures]) -> Sequence[LayerMeasures]:
    if len(layers) <= _PANELS:
        return layers
    return [layers[round(at * (len(layers) - 1) / (_PANELS - 1))] for at in range(_PANELS)]
