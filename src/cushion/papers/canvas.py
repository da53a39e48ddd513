"""How every picture is drawn and saved, as PNG and as SVG; needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from cushion.data.files import write_whole
from cushion.errors import BadInput
from cushion.measures.distribution import Spectrum
from cushion.records import Distribution

# Blue and vermilion, apart in every common kind of colour blindness (Okabe and Ito).
MINE, OTHER = "#0072B2", "#D55E00"


def new_figure(**options: Any) -> Any:
    """An empty matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        how = "install it with: pip install 'cushion[figures]'"
        raise BadInput(f"drawing needs matplotlib; {how}") from None
    return Figure(**options, layout="constrained")


def save(figure: Any, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the figure as folder/name.KIND, one file a kind."""
    from matplotlib import rc_context

    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        buffer = io.BytesIO()
        undated = {"Date": None} if kind == "svg" else None
        with rc_context({"svg.hashsalt": name}):  # nor random ids: equal figures are equal files
            figure.savefig(buffer, format=kind, dpi=120, metadata=undated)
        data = _palette(buffer) if kind == "png" else buffer.getvalue()
        write_whole(folder / f"{name}.{kind}", data)
        paths.append(folder / f"{name}.{kind}")
    return paths


def _palette(png: io.BytesIO) -> bytes:
    """The same picture with at most 256 colours, more than a drawing has: a third of the size."""
    from PIL import Image

    small = io.BytesIO()
    Image.open(png).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    return small.getvalue()


def steps(axes: Any, spread: Distribution | Spectrum | None, colour: str, label: str) -> None:
    """The density of a distribution as filled steps."""
    if spread is not None:
        widths = [right - left for left, right in pairwise(spread.edges)]
        heights = [
            count / spread.count / width for count, width in zip(spread.counts, widths, strict=True)
        ]
        axes.stairs(heights, spread.edges, fill=True, alpha=0.35, color=colour)
        axes.stairs(heights, spread.edges, color=colour, label=label)


def legend_below(figure: Any, columns: int = 2) -> None:
    """One legend for all panels, if they show more than one thing."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if len(labels) > 1:
        ncols = min(columns, len(labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=ncols, fontsize=9)
