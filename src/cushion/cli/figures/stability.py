"""Noise stability as pictures: histograms for every layer, and the fate of injected noise."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from cushion.cli.figures.panels import panels
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.papers.canvas import legend_below, new_figure, steps

OF = MeasureTable
_CUSHION = "minimal interlayer cushion, unclipped"
_SMOOTHNESS = "interlayer smoothness, 1/ρ under sign-projection noise"
# name of the picture -> its title, and where in a layer's row the numbers are
_HISTOGRAMS = {
    "layer-cushion": ("layer cushion ‖Aφ(x)‖ / (‖A‖_F ‖φ(x)‖)", "layer_cushion"),
    "activation-contraction": ("activation contraction ‖x‖ / ‖φ(x)‖", "activation_contraction"),
    "interlayer-cushion": (_CUSHION, "minimal_interlayer_cushion.unclipped"),
    "interlayer-smoothness": (_SMOOTHNESS, "smoothness.inverse_spread"),
    "jacobian-beta": ("well-distributed Jacobian β", "jacobian_beta.spread"),
    "singular-values": ("singular values of the true map", "spectrum"),
}


def pictures(found: MeasureTable) -> Iterator[tuple[str, Any]]:
    twin = None if found.beside is None else found.beside.net.stability
    initial = twin is not None and twin.weights == "initial"
    other = f"{'its initialisation' if initial else 'a random net'}, scaled to match"
    for name, (title, path) in _HISTOGRAMS.items():

        def pick(layer: LayerMeasures, path: str = path) -> Any:
            first, *inner = path.split(".")
            part = getattr(layer, first)
            return attrgetter(*inner)(part) if inner and part is not None else part

        if any(pick(layer) is not None for layer in found.layers):
            labels = ("value", "singular values" if path == "spectrum" else "examples")
            title = f"{title}, {found.net.data} (measure)"
            figure = panels(found, title, pick, _histogram, labels, other)
            legend_below(figure)
            yield name, figure
    curves = next((one.noise_attenuation for one in found.layers if one.noise_attenuation), ())
    for at, curve in enumerate(curves):
        yield f"noise-attenuation-{curve.level:g}", _attenuation(found, at)


def _histogram(axes: Any, spread: Any, colour: str, label: str) -> None:
    steps(axes, spread, colour, label)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=4)


def _attenuation(found: MeasureTable, at: int) -> Any:
    """The relative error of every later layer, one curve for each layer that noise is put into."""
    figure = new_figure(figsize=(9, 5.5))
    axes = figure.add_subplot()
    layers = [layer for layer in found.layers if layer.noise_attenuation]
    names = [layer.name for layer in layers]
    level = layers[0].noise_attenuation[at].level
    for index, layer in enumerate(layers):
        points = layer.noise_attenuation[at].points
        where = [names.index(point.to) for point in points]
        shade = index / max(1, len(names) - 1)
        heights = [level, *(point.mean for point in points)]
        axes.plot([where[0] - 1, *where], heights, color=(0.8 * shade, 0.45, 0.7), marker=".")
    axes.set_xticks(range(-1, len(names)), ["input", *names], rotation=60, fontsize=8)
    title = f"noise of {level:.0%} in the input of each layer, followed upwards"
    axes.set_title(f"{title}\n{found.net.data} (measure)")
    axes.set(yscale="log", xlabel="layer", ylabel="relative error ‖x̂ - x‖ / ‖x‖")
    return figure
