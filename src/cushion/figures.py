"""Records as pictures: one PNG and one SVG each; needs matplotlib, reads records only."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from cushion.errors import BadInput
from cushion.files import write_whole
from cushion.measure_records import LayerMeasures, MeasureTable
from cushion.records import Distribution
from cushion.stability_records import Spectrum

# Blue and vermilion, apart in every common kind of colour blindness (Okabe and Ito).
_MINE, _OTHER = "#0072B2", "#D55E00"
_COLUMNS = 4
Pick: TypeAlias = Callable[[LayerMeasures], Distribution | Spectrum | None]


def prepare(folder: str) -> None:
    """Refuse before the work, not after it: matplotlib must be there, and nothing but folders in the way."""
    _pyplot()
    for path in (Path(folder), *Path(folder).parents):
        if path.exists():
            if not path.is_dir():
                raise BadInput(f"--figures {folder}: {path} is a file; give a folder")
            return


def _cushion(layer: LayerMeasures) -> Distribution | None:
    return layer.layer_cushion


def _contraction(layer: LayerMeasures) -> Distribution | None:
    return layer.activation_contraction


def _interlayer(layer: LayerMeasures) -> Distribution | None:
    minimal = layer.minimal_interlayer_cushion
    return None if minimal is None else minimal.unclipped


def _smoothness(layer: LayerMeasures) -> Distribution | None:
    return next((law.inverse_spread for law in layer.interlayer_smoothness if law.is_standard), None)


def _beta(layer: LayerMeasures) -> Distribution | None:
    return None if layer.jacobian_beta is None else layer.jacobian_beta.spread


def _spectrum(layer: LayerMeasures) -> Spectrum | None:
    return layer.spectrum


_HISTOGRAMS: dict[str, tuple[str, Pick]] = {
    "layer-cushion": ("layer cushion ‖Aφ(x)‖ / (‖A‖_F ‖φ(x)‖)", _cushion),
    "activation-contraction": ("activation contraction ‖x‖ / ‖φ(x)‖", _contraction),
    "interlayer-cushion": ("minimal interlayer cushion, unclipped", _interlayer),
    "interlayer-smoothness": ("interlayer smoothness, 1/ρ under sign-projection noise", _smoothness),
    "jacobian-beta": ("well-distributed Jacobian β", _beta),
    "singular-values": ("singular values of the true map", _spectrum),
}


def draw(found: MeasureTable, folder: str) -> list[Path]:
    """Every picture that the table has the numbers for."""
    paths: list[Path] = []
    for name, (title, pick) in _HISTOGRAMS.items():
        if any(pick(layer) is not None for layer in found.layers):
            counted = "singular values" if pick is _spectrum else "examples"
            paths += _save(_histograms(found, title, pick, counted), Path(folder), name)
    levels = [curve.level for curve in found.layers[0].noise_attenuation]
    for at, level in enumerate(levels):
        paths += _save(_attenuation(found, at), Path(folder), f"noise-attenuation-{level:g}")
    return paths


def _pyplot() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("--figures needs matplotlib; install it with: pip install 'cushion[figures]'") from None
    return Figure


def _save(figure: Any, folder: Path, name: str) -> list[Path]:
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("png", "svg"):
        buffer = io.BytesIO()
        # A fixed date keeps equal figures equal files.
        figure.savefig(buffer, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else None)
        write_whole(folder / f"{name}.{kind}", buffer.getvalue())
        paths.append(folder / f"{name}.{kind}")
    return paths


def _histograms(found: MeasureTable, title: str, pick: Pick, counted: str = "examples") -> Any:
    """One panel a layer: the density over the values; the net beside it in the second colour."""
    layers = [layer for layer in found.layers if pick(layer) is not None]
    columns = min(_COLUMNS, len(layers))
    rows = math.ceil(len(layers) / columns)
    figure = _pyplot()(figsize=(3 * columns, 2.4 * rows + 1), layout="constrained")
    figure.suptitle(f"{title}, {found.net.data} (measure)", fontsize=13)
    twins = {} if found.beside is None else {twin.name: twin for twin in found.beside.layers}
    for at, layer in enumerate(layers, 1):
        axes = figure.add_subplot(rows, columns, at)
        _steps(axes, pick(layer), _MINE, "this net")
        if layer.name in twins:
            _steps(axes, pick(twins[layer.name]), _OTHER, _other_name(found))
        axes.set_title(layer.name, fontsize=10)
        axes.set_yticks([])
        axes.locator_params(axis="x", nbins=4)
        axes.tick_params(labelsize=8)
        if at > len(layers) - columns:
            axes.set_xlabel("value", fontsize=9)
        if (at - 1) % columns == 0:
            axes.set_ylabel(counted, fontsize=9)
    if twins:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _other_name(found: MeasureTable) -> str:
    whole = None if found.beside is None else found.beside.net.stability
    initial = whole is not None and whole.weights == "initial"
    return "its initialisation, scaled to match" if initial else "a random net, scaled to match"


def _steps(axes: Any, spread: Distribution | Spectrum | None, colour: str, label: str) -> None:
    if spread is not None:
        widths = [right - left for left, right in pairwise(spread.edges)]
        heights = [count / spread.count / width for count, width in zip(spread.counts, widths, strict=True)]
        axes.stairs(heights, spread.edges, fill=True, alpha=0.35, color=colour)
        axes.stairs(heights, spread.edges, color=colour, label=label)


def _attenuation(found: MeasureTable, at: int) -> Any:
    """The relative error of every later layer, one curve for each layer that noise is put into."""
    figure = _pyplot()(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    names = [layer.name for layer in found.layers]
    level = found.layers[0].noise_attenuation[at].level
    for index, layer in enumerate(found.layers):
        points = layer.noise_attenuation[at].points
        where = [names.index(point.to) for point in points]
        shade = index / max(1, len(names) - 1)
        heights = [level, *(point.mean for point in points)]
        axes.plot([where[0] - 1, *where], heights, color=(0.8 * shade, 0.45, 0.7), marker=".")
    axes.set_xticks(range(-1, len(names)), ["input", *names], rotation=60, fontsize=8)
    axes.set_yscale("log")
    axes.set_xlabel("layer")
    axes.set_ylabel("relative error ‖x̂ - x‖ / ‖x‖")
    axes.set_title(f"noise of {level:.0%} in the input of each layer, followed upwards\n{found.net.data} (measure)")
    return figure
