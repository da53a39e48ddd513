"""The phase transition of sparse matrix sketches as a picture: how many come back against the side of the sketch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from cushion.errors import BadInput
from cushion.figures.canvas import MINE, OTHER, new_figure, save

# Blue, vermilion, green, purple, orange (Okabe and Ito).
_COLOURS = (MINE, OTHER, "#009E73", "#CC79A7", "#E69F00")


class Transition(Protocol):
    """What is drawn of one study: p x p matrices with per_row non-zeros a row, sketched to every one of `sides`."""

    @property
    def p(self) -> int: ...
    @property
    def per_row(self) -> int: ...
    @property
    def trials(self) -> int: ...
    @property
    def sides(self) -> Sequence[int]: ...
    @property
    def recovered(self) -> Sequence[int]: ...
    @property
    def generic(self) -> float: ...


def draw_phase_transition(records: Sequence[Transition], folder: str) -> list[Path]:
    """Rate of exact recovery over m/√(jp) and over m/(√(jp)·ln p): folder/sketch-phase-transition.png and .svg."""
    if not records:
        raise BadInput("a picture of the phase transition needs at least one study")
    return save(_figure(records), Path(folder), "sketch-phase-transition")


def _figure(records: Sequence[Transition]) -> Any:
    figure = new_figure(figsize=(10, 4.2))
    for at, (label, logarithm) in enumerate((("m / √(jp)", False), ("m / (√(jp)·ln p)", True)), 1):
        axes = figure.add_subplot(1, 2, at)
        for index, record in enumerate(records):
            colour = _COLOURS[index % len(_COLOURS)]
            scale = math.sqrt(record.per_row * record.p) * (math.log(record.p) if logarithm else 1.0)
            axes.plot(
                [m / scale for m in record.sides],
                [count / record.trials for count in record.recovered],
                color=colour,
                marker="o",
                markersize=4,
                label=f"{record.p} x {record.p}, {record.per_row} a row, {record.trials} trials",
            )
            axes.axvline(record.generic / scale, color=colour, linestyle="--", linewidth=1)
        axes.set_xlabel(f"{label} (dashed: generic measurements)")
        axes.set_ylabel("sketches that come back exactly")
        axes.set_ylim(-0.03, 1.03)
        axes.legend(fontsize=8, loc="lower right")
    figure.suptitle("sparse matrix sketches Y = A X Bᵀ, ℓ1 recovery (measure)", fontsize=12)
    return figure
