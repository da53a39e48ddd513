"""The note, Figures 3 and 4: attenuation of noise and singular values, on Arora 2018's VGG-19."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from cushion.papers.arora.nets import LAYERS_NOTE, net_name, vgg19, vgg19_settings
from cushion.papers.drawings import Curve, Curves, Histogram, Panels, spread_of
from cushion.papers.pages import Columns, Page, Table, Tried
from cushion.papers.runner import Workshop

_LAYER = 10  # of Figure 4
_MOST = 0.8
_RAPID = 0.5  # of the relative error may be left at the output
_SMALL = 0.1  # of the largest singular value: "close to zero"
_FEW = 0.25  # stable rank over the number of singular values
Layer = Mapping[str, Any]


def note_figure_3(workshop: Workshop) -> Page:
    """Noise in a layer's input, followed to the output: 10 % of the signal, and as large as it."""
    layers = vgg19(workshop)["layers"]
    rows = [
        {"layer": at, "name": layer["name"], **curve}
        for at, layer in enumerate(layers, 1)
        for curve in layer["noise_attenuation"]
    ]
    columns = {
        "layer": "layer",
        "name": "name",
        "noise / signal": "level",
        "relative error of this layer's output": "points.0.mean",
        "of the net's output": "points.-1.mean",
    }
    return Page(
        tables=[Table.of("Means over examples and draws of ‖x̂^j - x^j‖/‖x^j‖:", rows, columns)],
        settings=vgg19_settings(workshop),
        claims=attenuation_claims(layers),
        notes=(LAYERS_NOTE, "The picture shows every second layer; the table has all of them."),
        pictures=[attenuation_panels(layers, "figure-3", net_name(workshop))],
    )


def note_figure_4(workshop: Workshop) -> Page:
    """The singular values of layer 10: its kernel as a matrix, and its true map."""
    found = vgg19(workshop)
    layer, twin = found["layers"][_LAYER - 1], found["beside"][_LAYER - 1]
    matrices = {"kernel": "kernel_spectrum", "true map": "spectrum"}
    titles = {"kernel_spectrum": "kernel, [filters, rest]", "spectrum": "true linear map"}
    rows = [
        {"net": net, "matrix": name, **record[key]}
        for net, record in (("trained", layer), ("random", twin))
        for name, key in matrices.items()
        if record[key] is not None
    ]
    columns: Columns = {
        "net": "net",
        "matrix": "matrix",
        "singular values": "count",
        "largest": "spectral",
        "median": lambda one: one["quantiles"]["0.5"],
        "stable rank": "stable_rank",
        "values with 90 % of the energy": "effective_rank_90",
    }
    panels = []
    for key, title in titles.items():
        if layer[key] is not None and twin[key] is not None:
            spreads = (spread_of("trained", layer[key]), spread_of("random", twin[key]))
            panels.append(Histogram("", title, "singular value", spreads))
    title = f"Singular values of layer {_LAYER} of {net_name(workshop)}"
    return Page(
        tables=[Table.of("", rows, columns)],
        settings=vgg19_settings(workshop),
        claims=singular_claims(layer),
        notes=(
            LAYERS_NOTE,
            "The note says |Mx|/|x| ≥ σ_max; it is at most σ_max. Random: the initialisation, "
            "scaled to match.",
        ),
        pictures=[Panels("figure-4", title, max(1, len(panels)), panels)],
    )


def attenuation_claims(layers: Sequence[Layer]) -> list[Tried]:
    """The relative error at the output against the layer's own, and against the injected noise."""
    claims = []
    for level, curves in _by_level(layers).items():
        ends = [(points[0]["mean"], points[-1]["mean"]) for _, points in curves if len(points) > 1]
        if not ends:
            continue
        falls = sum(last < first for first, last in ends)
        below = sum(last < level for _, last in ends)
        kept = median(last / first if first > 0 else 1.0 for first, last in ends)
        falling = f"noise of {level:.0%} is attenuated on its way up"
        because = (
            f"the output errs relatively less than the noisy layer for {falls} of {len(ends)} "
            f"layers ({_MOST:.0%} asked), and less than the noise itself for {below}"
        )
        rapidly = f"and rapidly: at {level:.0%}, at most half of the relative error is left"
        left = f"the median share that is left at the output is {kept:.3g}"
        claims.append(Tried(falling, falls >= _MOST * len(ends), because))
        claims.append(Tried(rapidly, kept <= _RAPID, left))
    return claims


def singular_claims(layer: Layer) -> tuple[Tried, Tried]:
    """Half of the singular values are below a tenth of the largest, and the stable rank is low."""
    one = layer["kernel_spectrum"]
    middle, rank = one["quantiles"]["0.5"] / one["spectral"], one["stable_rank"]
    small = f"the median is {middle:.1%} of the largest (at most {_SMALL:.0%} asked)"
    few = f"stable rank {rank:.3g} of {one['count']} (at most {_FEW:.0%} asked)"
    return (
        Tried("most singular values are close to zero", middle <= _SMALL, small),
        Tried("there are few large ones", rank / one["count"] <= _FEW, few),
    )


def _by_level(layers: Sequence[Layer]) -> dict[float, list[tuple[int, list[Any]]]]:
    """By the injected noise over the signal: the noisy layer, and the points of its curve."""
    found: dict[float, list[tuple[int, list[Any]]]] = {}
    for at, layer in enumerate(layers, 1):
        for curve in layer["noise_attenuation"]:
            found.setdefault(curve["level"], []).append((at, curve["points"]))
    return dict(sorted(found.items()))


def attenuation_panels(layers: Sequence[Layer], name: str, net: str) -> Panels:
    """One panel a level of noise, one curve a noisy layer (every second one)."""
    places = {layer["name"]: float(at) for at, layer in enumerate(layers, 1)}
    axes = ("layer", "relative error ‖x̂ - x‖/‖x‖")
    panels = []
    for level, found in _by_level(layers).items():
        curves = []
        for at, points in found:
            x, y = [places[point["to"]] for point in points], [point["mean"] for point in points]
            curves += [Curve(f"layer {at}", x, y)] if at % 2 else []
        panels.append(Curves("", f"noise of {level:.0%}", *axes, curves))
    title = f"Attenuation on {net}: a curve starts at the layer whose input is noisy"
    return Panels(name, title, len(panels), panels)
