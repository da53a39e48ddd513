"""Records as pictures, on demand: needs matplotlib, reads records only."""

from __future__ import annotations

from pathlib import Path

from cushion.cli.figures.conditions import draw_conditions
from cushion.cli.figures.curves import draw_curves
from cushion.cli.figures.stability import draw_stability
from cushion.cli.figures.tails import draw_tails
from cushion.errors import BadInput
from cushion.measures.records import MeasureTable
from cushion.papers.canvas import new_figure


def prepare(folder: str) -> None:
    """Refuse before the work: matplotlib must be there, and only folders in the way."""
    new_figure()
    for path in (Path(folder), *Path(folder).parents):
        if path.exists():
            if not path.is_dir():
                raise BadInput(f"--figures {folder}: {path} is a file; give a folder")
            return


def draw(found: MeasureTable, folder: str) -> list[Path]:
    """Every picture that the table has the numbers for."""
    pictures = (draw_stability, draw_curves, draw_conditions, draw_tails)
    return [path for picture in pictures for path in picture(found, folder)]
