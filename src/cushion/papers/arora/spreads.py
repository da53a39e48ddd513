"""Arora 2018, Figures 1a to 1d (layer 13 of VGG-19) and A.1 to A.5 (all layers): histograms over
the training set.

A quantity is looked at on the trained net and on its initialisation, scaled to match. The paper's
words on these figures are qualitative; each claim says which threshold stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cushion.papers.arora import nets
from cushion.papers.arora.paper import LAYER_OF_FIGURE_1, SPREAD_RANDOM, SPREAD_TRAINED
from cushion.papers.drawings import Histogram, Panels, spread_of
from cushion.papers.pages import Columns, Page, Table, Tried
from cushion.papers.runner import Workshop

_DRASTIC = 2.0  # "drastically improved": the median by at least this factor
_NICE = 2.0  # "behave nicely even after training": the median worse by at most this factor
_EXTREMUM = (
    "The definitions take the worst example; the histograms, from which the paper reads its "
    "claims, say what a typical one does."
)
Layer = Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """One of the paper's quantities: where a layer's record holds its distribution, and how the
    claims are worded.

    better: "larger" or "smaller". verified: the first words of those claims in the table of
    `measure` that check it.
    """

    name: str
    axis: str
    better: str
    find: Callable[[Layer], Mapping[str, Any] | None]
    verified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def median(self, layer: Layer) -> float | None:
        """Over the examples; None where the layer has no such number."""
        found = self.find(layer)
        return None if found is None else float(found["quantiles"]["0.5"])


def _smoothness(layer: Layer) -> Mapping[str, Any] | None:
    """1/ρ under Algorithm 1's noise of a tenth of the signal, per example."""
    found = [
        one
        for one in layer["interlayer_smoothness"]
        if one["kind"] == "sign-projection" and one["level"]
    ]
    return min(found, key=lambda one: one["level"])["inverse_spread"] if found else None


def _unclipped(layer: Layer) -> Mapping[str, Any] | None:
    found = layer["minimal_interlayer_cushion"]
    return None if found is None else found["unclipped"]


def _beta(layer: Layer) -> Mapping[str, Any] | None:
    found, convolutional = layer["jacobian_beta"], len(layer["shape"]) == 4
    return (
        found["spread"] if convolutional and found is not None else None
    )  # of a dense layer β = 1


CUSHION = Quantity(
    "layer cushion",
    "μ_i",
    "larger",
    lambda layer: layer["layer_cushion"],
    ("the layer cushion grows", "and most in"),
)
INTERLAYER = Quantity(
    "minimal interlayer cushion (unclipped)",
    "smallest μ_{i,j}, j > i",
    "larger",
    _unclipped,
    ("clipping sets",),
)
CONTRACTION = Quantity(
    "activation contraction",
    "c_i",
    "smaller",
    lambda layer: layer["activation_contraction"],
    ("the activation",),
)
SMOOTHNESS = Quantity(
    "interlayer smoothness",
    "1/ρ_i (smaller is smoother)",
    "smaller",
    _smoothness,
    ("1/ρ", "ρ ≥ 3d"),
    (
        "ρ is the largest number of which Definition 7 holds (the paper leaves that open); shown "
        "is each example's 1/ρ under Algorithm 1's noise, scaled to a tenth of the signal; 0 where "
        "the noise left no linear piece.",
    ),
)
BETA = Quantity(
    "well-distributed Jacobian",
    "β_i, largest over places",
    "smaller",
    _beta,
    ("the Jacobian",),
    (
        "The paper's histogram is over sampled places, and β is read off its upper tail; this one "
        "is over examples, each with its largest value over all places of the maps that were "
        "measured.",
    ),
)
QUANTITIES = (CUSHION, INTERLAYER, CONTRACTION, SMOOTHNESS, BETA)


# As a table shows a distribution: the definition takes the worst example.
SPREAD: Columns = {
    "as defined (worst)": "value",
    "5 %": lambda row: row["quantiles"].get("0.05"),
    "median": lambda row: row["quantiles"].get("0.5"),
    "95 %": lambda row: row["quantiles"].get("0.95"),
}


def spread_rows(
    quantity: Quantity, found: Mapping[str, Sequence[Layer]], first: int = 1
) -> list[dict[str, Any]]:
    """Layer by layer, counted from `first`, of every net; layers without a number are left out."""
    return [
        {
            "layer": number,
            "name": layers[0]["name"],
            "quantity": quantity.name,
            "net": net,
            **spread,
        }
        for number, layers in enumerate(zip(*found.values(), strict=True), first)
        for net, layer in zip(found, layers, strict=True)
        if (spread := quantity.find(layer)) is not None
    ]


def quantity_table(
    quantity: Quantity,
    trained: Sequence[Layer],
    random: Sequence[Layer],
    where: str = "",
    first: int = 1,
) -> Table:
    """Worst value, three quantiles and the mean, of the trained and of the random net."""
    caption = f"{quantity.name[0].upper()}{quantity.name[1:]} ({quantity.axis}){where}:"
    rows = spread_rows(quantity, {"trained": trained, "random": random}, first)
    columns = {"layer": "layer", "name": "name", "net": "net", **SPREAD}
    return Table.of(caption, rows, {**columns, "mean": "mean", "examples": "count"})


def histogram(
    quantity: Quantity, layers: Mapping[str, Layer], title: str, name: str = ""
) -> Histogram:
    """One distribution a net, in this order."""
    found = {label: quantity.find(layer) for label, layer in layers.items()}
    spreads = [spread_of(label, one) for label, one in found.items() if one is not None]
    return Histogram(name, title, quantity.axis, spreads)


def layers_panels(
    quantity: Quantity, trained: Sequence[Layer], random: Sequence[Layer], name: str, net: str
) -> Panels:
    """The histograms of every layer that has such a number, random and trained."""
    panels = [
        histogram(quantity, _as_in_the_paper(layer, twin), f"layer {number}")
        for number, (layer, twin) in enumerate(zip(trained, random, strict=True), 1)
        if quantity.find(layer) is not None and quantity.find(twin) is not None
    ]
    return Panels(name, f"{net}: {quantity.name} over the training set", 4, panels)


def _as_in_the_paper(layer: Layer, twin: Layer) -> dict[str, Layer]:
    """Blue and orange."""
    return {SPREAD_RANDOM: twin, SPREAD_TRAINED: layer}


def _one_layer(quantity: Quantity, name: str, workshop: Workshop) -> Page:
    found, number = nets.vgg19(workshop), LAYER_OF_FIGURE_1
    layer, twin = found["layers"][number - 1], found["beside"][number - 1]
    title = f"{quantity.name.capitalize()}: layer {number} of {nets.net_name(workshop)}"
    table = quantity_table(quantity, [layer], [twin], first=number)
    return Page(
        tables=(table, nets.vgg19_table(found)),
        settings=nets.vgg19_settings(workshop),
        claims=one_layer_claims(quantity, layer, twin),
        notes=(nets.LAYERS_NOTE, nets.SCALED_NOTE, *quantity.notes),
        pictures=[histogram(quantity, _as_in_the_paper(layer, twin), title, name)],
    )


def _all_layers(quantity: Quantity, name: str, workshop: Workshop) -> Page:
    found = nets.vgg19(workshop)
    layers, twins = found["layers"], found["beside"]
    return Page(
        tables=(quantity_table(quantity, layers, twins), nets.vgg19_table(found)),
        settings=nets.vgg19_settings(workshop),
        claims=verified_claims(found["claims"], quantity),
        notes=(nets.LAYERS_NOTE, nets.SCALED_NOTE, _EXTREMUM, *quantity.notes),
        pictures=[layers_panels(quantity, layers, twins, name, nets.net_name(workshop))],
    )


figure_1a = partial(_one_layer, CUSHION, "figure-1a")
figure_1b = partial(_one_layer, INTERLAYER, "figure-1b")
figure_1c = partial(_one_layer, CONTRACTION, "figure-1c")
figure_1d = partial(_one_layer, SMOOTHNESS, "figure-1d")
figure_a1 = partial(_all_layers, CUSHION, "figure-a1")
figure_a2 = partial(_all_layers, INTERLAYER, "figure-a2")
figure_a3 = partial(_all_layers, CONTRACTION, "figure-a3")
figure_a4 = partial(_all_layers, SMOOTHNESS, "figure-a4")
figure_a5 = partial(_all_layers, BETA, "figure-a5")


def one_layer_claims(quantity: Quantity, layer: Layer, twin: Layer) -> list[Tried]:
    """Figure 1's text: the cushion improves drastically, the others behave nicely."""
    text = f"the {quantity.name} behaves nicely even after training"
    if quantity is CUSHION:
        text = "the layer cushion is drastically improved by training"
    mine, theirs = quantity.median(layer), quantity.median(twin)
    if mine is None or not theirs:
        return [Tried(text, None, "the layer has no such number")]
    factor = mine / theirs
    if quantity is CUSHION:
        good, asked = factor >= _DRASTIC, f"at least {_DRASTIC:g} asked"
    elif quantity.better == "larger":
        good, asked = factor >= 1 / _NICE, f"at least 1/{_NICE:g} asked"
    else:
        good, asked = factor <= _NICE, f"at most {_NICE:g} asked"
    because = f"median {mine:.4g} trained, {theirs:.4g} random: factor {factor:.3g} ({asked})"
    claims = [Tried(text, good, because)]
    if quantity is CUSHION:
        low = layer["layer_cushion"]["quantiles"]["0.05"]
        high = twin["layer_cushion"]["quantiles"]["0.95"]
        because = f"5 % of the trained net's are below {low:.4g}, 95 % of the random net's below "
        text = "the layer cushion is improved by training"
        claims.insert(0, Tried(text, low > high, f"{because}{high:.4g}"))
    if quantity is INTERLAYER:
        minimal = layer["minimal_interlayer_cushion"]
        least, clip = minimal["unclipped"]["value"], minimal["clip"]
        because = f"the smallest unclipped one over the examples is {least:.3g}, 1/√h is {clip:.3g}"
        text = "after clipping, the minimal interlayer cushion is 1/√h"
        claims.append(Tried(text, least >= clip, because))
    return claims


def verified_claims(checked: Sequence[Mapping[str, Any]], quantity: Quantity) -> list[Tried]:
    """The checks of `cushion measure --beside` on a quantity, with the thresholds they name."""
    claims = []
    for words in quantity.verified:
        found = [checked_claim(one) for one in checked if one["claim"].startswith(words)]
        claims += found or [Tried(f"{words} ...", None, "the net gives no numbers on it")]
    return claims


def checked_claim(one: Mapping[str, Any], where: str = "") -> Tried:
    """A check of `cushion measure --beside`; `where`: on which examples."""
    because = f"{one['found']} (asked: {one['threshold']})"
    return Tried(f"{one['claim']}{where}", one["held"], because)
