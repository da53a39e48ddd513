"""The note, Figures 2 to 4: norm-based bounds, attenuation of noise, singular values; the VGG-19 of
Arora 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from cushion.papers.arora.bounds import COUNT, RIVALS, log10_of
from cushion.papers.arora.records import vgg19, vgg19_epochs
from cushion.papers.arora.settings import LAYERS_NOTE, net_name, vgg19_settings
from cushion.papers.drawings import (
    Curve,
    Curves,
    Histogram,
    Panels,
    Picture,
    Series,
    spread_of,
)
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_LAYER = 10  # of Figure 4
_MOST = 0.8
_RAPID = 0.5  # of the relative error may be left at the output
_SMALL = 0.1  # of the largest singular value: "close to zero"
_FEW = 0.25  # stable rank over the number of singular values
Layer = Mapping[str, Any]


def figure_2(workshop: Workshop) -> Page:
    """The earlier bounds beside the number of parameters."""
    last = vgg19_epochs(workshop)[-1]
    claims = (above_count(last),)
    names = (*RIVALS, COUNT)
    values = tuple(log10_of(last, name) for name in names)
    return Page(
        tables=(Table(("capacity", "log10"), tuple(zip(names, values, strict=True))),),
        settings=vgg19_settings(workshop, sparse=True),
        claims=claims,
        notes=(
            "As Figure 2 of Arora 2018 plots them, without constants; ours is the 5th-percentile "
            "γ.",
        ),
        pictures=(
            Picture(
                "figure-2",
                "Norm-based capacities and the number of parameters (measures)",
                names,
                "what is counted (γ: 5th-percentile margin)",
                "log10 of the capacity",
                (Series("trained VGG-19", values),),
            ),
        ),
    )


def figure_3(workshop: Workshop) -> Page:
    """Noise in a layer's input, followed to the output: 10 % of the signal, and as large as it."""
    layers = vgg19(workshop)["layers"]
    table = Table.of(
        "Means over examples and draws of ‖x̂^j - x^j‖/‖x^j‖:",
        [
            (at, layer, curve)
            for at, layer in enumerate(layers, 1)
            for curve in layer["noise_attenuation"]
        ],
        {
            "layer": lambda row: row[0],
            "name": lambda row: row[1]["name"],
            "noise / signal": lambda row: row[2]["level"],
            "relative error of this layer's output": lambda row: row[2]["points"][0]["mean"],
            "of the net's output": lambda row: row[2]["points"][-1]["mean"],
        },
    )
    return Page(
        tables=(table,),
        settings=vgg19_settings(workshop),
        claims=attenuation_claims(layers),
        notes=(LAYERS_NOTE, "The picture shows every second layer; the table has all of them."),
        pictures=(attenuation_panels(layers, "figure-3", net_name(workshop)),),
    )


def figure_4(workshop: Workshop) -> Page:
    """The singular values of layer 10: its kernel as a matrix, and its true map."""
    found = vgg19(workshop)
    layer, twin = found["layers"][_LAYER - 1], found["beside"][_LAYER - 1]
    matrices = {"kernel": "kernel_spectrum", "true map": "spectrum"}
    table = Table.of(
        "",
        [
            {"net": net, "matrix": name, **record[key]}
            for net, record in (("trained", layer), ("random", twin))
            for name, key in matrices.items()
            if record[key] is not None
        ],
        {
            "net": "net",
            "matrix": "matrix",
            "singular values": "count",
            "largest": "spectral",
            "median": lambda one: one["quantiles"]["0.5"],
            "stable rank": "stable_rank",
            "values with 90 % of the energy": "effective_rank_90",
        },
    )
    panels = tuple(
        Histogram(
            "",
            title,
            "singular value",
            (spread_of("trained", layer[key]), spread_of("random", twin[key])),
        )
        for key, title in (
            ("kernel_spectrum", "kernel, [filters, rest]"),
            ("spectrum", "true linear map"),
        )
        if layer[key] is not None and twin[key] is not None
    )
    return Page(
        tables=(table,),
        settings=vgg19_settings(workshop),
        claims=singular_claims(layer),
        notes=(
            LAYERS_NOTE,
            "The note says |Mx|/|x| ≥ σ_max; it is at most σ_max. Random: the initialisation, "
            "scaled to match.",
        ),
        pictures=(
            Panels(
                "figure-4",
                f"Singular values of layer {_LAYER} of {net_name(workshop)}",
                max(1, len(panels)),
                panels,
            ),
        ),
    )


def above_count(last: Mapping[str, Any]) -> Tried:
    """Every norm-based capacity exceeds the number of parameters."""
    text = "every norm-based bound is a lot more than the number of parameters (ten times)"
    count, values = log10_of(last, COUNT), {name: log10_of(last, name) for name in RIVALS}
    known = [value for value in values.values() if value is not None]
    if count is None or len(known) < len(values):
        return Tried(text, None, f"γ = {last['margin']:.3g} is not positive")
    shown = ", ".join(f"{name} {value:.1f}" for name, value in values.items())
    return Tried(text, min(known) >= count + 1, f"log10: {shown}; parameters {count:.1f}")


def attenuation_claims(layers: Sequence[Layer]) -> tuple[Tried, ...]:
    """The relative error at the output against the layer's own, and against the injected noise."""
    claims = []
    for level in _levels(layers):
        ends = [
            (curve["points"][0]["mean"], curve["points"][-1]["mean"])
            for layer in layers
            for curve in layer["noise_attenuation"]
            if curve["level"] == level and len(curve["points"]) > 1
        ]
        falls = sum(last < first for first, last in ends)
        below = sum(last < level for _, last in ends)
        if not ends:
            continue
        kept = median(last / first if first > 0 else 1.0 for first, last in ends)
        claims += [
            Tried(
                f"noise of {level:.0%} is attenuated on its way up",
                falls >= _MOST * len(ends),
                f"the output errs relatively less than the noisy layer for {falls} of {len(ends)} "
                f"layers ({_MOST:.0%} asked), and less than the noise itself for {below}",
            ),
            Tried(
                f"and rapidly: at {level:.0%}, at most half of the relative error is left",
                kept <= _RAPID,
                f"the median share that is left at the output is {kept:.3g}",
            ),
        ]
    return tuple(claims)


def singular_claims(layer: Layer) -> tuple[Tried, ...]:
    """Half of the singular values are below a tenth of the largest, and the stable rank is low."""
    one = layer["kernel_spectrum"]
    middle = one["quantiles"]["0.5"] / one["spectral"]
    few = one["stable_rank"] / one["count"]
    return (
        Tried(
            "most singular values are close to zero",
            middle <= _SMALL,
            f"the median is {middle:.1%} of the largest (at most {_SMALL:.0%} asked)",
        ),
        Tried(
            "there are few large ones",
            few <= _FEW,
            f"stable rank {one['stable_rank']:.3g} of {one['count']} (at most {_FEW:.0%} asked)",
        ),
    )


def _levels(layers: Sequence[Layer]) -> list[float]:
    """Of the injected noise over the signal."""
    return sorted({curve["level"] for layer in layers for curve in layer["noise_attenuation"]})


def attenuation_panels(layers: Sequence[Layer], name: str, net: str) -> Panels:
    """One panel a level of noise, one curve a noisy layer (every second one)."""
    levels = _levels(layers)
    title = f"Attenuation on {net}: a curve starts at the layer whose input is noisy"
    return Panels(name, title, len(levels), tuple(_attenuation(layers, one) for one in levels))


def _attenuation(layers: Sequence[Layer], level: float) -> Curves:
    names = {layer["name"]: float(at) for at, layer in enumerate(layers, 1)}
    curves = tuple(
        Curve(
            f"layer {at}",
            tuple(names[point["to"]] for point in curve["points"]),
            tuple(point["mean"] for point in curve["points"]),
        )
        for at, layer in enumerate(layers, 1)
        for curve in layer["noise_attenuation"]
        if curve["level"] == level and at % 2 == 1
    )
    return Curves("", f"noise of {level:.0%}", "layer", "relative error ‖x̂ - x‖/‖x‖", curves)
