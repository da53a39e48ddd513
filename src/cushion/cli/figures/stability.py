"""Noise stability as pictures: histograms for every layer, and the fate of injected noise."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cushion.cli.figures.panels import panels
from cushion.measures.distribution import Spectrum
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.papers.canvas import legend_below, new_figure, save, steps
from cushion.records import Distribution

Spread: TypeAlias = Distribution | Spectrum
# name of the picture -> its title, and where in a layer's row the numbers are
_HISTOGRAMS = {
    "layer-cushion": ("layer cushion ‖Aφ(x)‖ / (‖A‖_F ‖φ(x)‖)", "layer_cushion"),
    "activation-contraction": ("activation contraction ‖x‖ / ‖φ(x)‖", "activation_contraction"),
    "interlayer-cushion": (
        "minimal interlayer cushion, unclipped",
        "minimal_interlayer_cushion.unclipped",
    ),
    "interlayer-smoothness": (
        "interlayer smoothness, 1/ρ under sign-projection noise",
        "smoothness.inverse_spread",
    ),
    "jacobian-beta": ("well-distributed Jacobian β", "jacobian_beta.spread"),
    "singular-values": ("singular values of the true map", "spectrum"),
}


def _at(layer: LayerMeasures, path: str) -> Spread | None:
    found: Any = layer
    for name in path.split("."):
        found = getattr(found, name, None)
    return found  # type: ignore[no-any-return]


def draw_stability(found: MeasureTable, folder: str) -> list[Path]:
    """Every picture that the table has the numbers for."""
    paths: list[Path] = []
    for name, (title, path) in _HISTOGRAMS.items():
        pick = partial(_at, path=path)
        if any(pick(layer) is not None for layer in found.layers):
            counted = "singular values" if path == "spectrum" else "examples"
            title = f"{title}, {found.net.data} (measure)"
            labels = ("value", counted)
            figure = panels(found, title, pick, _histogram, labels, _other_name(found))
            legend_below(figure)
            paths += save(figure, Path(folder), name)
    levels = [curve.level for curve in found.layers[0].noise_attenuation]
    for at, level in enumerate(levels):
        paths += save(_attenuation(found, at), Path(folder), f"noise-attenuation-{level:g}")
    return paths


def _histogram(axes: Any, spread: Spread, colour: str, label: str) -> None:
    """The density over the values."""
    steps(axes, spread, colour, label)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=4)


def _other_name(found: MeasureTable) -> str:
    whole = None if found.beside is None else found.beside.net.stability
    initial = whole is not None and whole.weights == "initial"
    return "its initialisation, scaled to match" if initial else "a random net, scaled to match"


def _attenuation(found: MeasureTable, at: int) -> Any:
    """The relative error of every later layer, one curve for each layer that noise is put into."""
    figure = new_figure(figsize=(9, 5.5))
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
    axes.set_title(
        f"noise of {level:.0%} in the input of each layer, followed upwards\n{found.net.data} "
        "(measure)"
    )
    return figure
