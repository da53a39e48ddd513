"""Arora 2018, Figures 1a to 1d (layer 13 of VGG-19) and A.1 to A.5 (all layers): histograms over
the training set.

A quantity is looked at on the trained net and on its initialisation, scaled to match. The paper's
words on these figures are qualitative; each claim says which threshold stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cushion.papers.arora.paper import (
    LAYER_OF_FIGURE_1,
    SPREAD_RANDOM,
    SPREAD_TRAINED,
    VGG19_TEST_ERROR,
)
from cushion.papers.arora.records import vgg19
from cushion.papers.arora.settings import (
    LAYERS_NOTE,
    SCALED_NOTE,
    net_name,
    trained_table,
    vgg19_settings,
)
from cushion.papers.drawings import Histogram, Panels, spread_of
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_DRASTIC = 2.0  # "drastically improved": the median by at least this factor
_NICE = 2.0  # "behave nicely even after training": the median worse by at most this factor
_QUANTILES = ("0.05", "0.5", "0.95")
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
    verified: tuple[str, ...]


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
    convolutional = len(layer["shape"]) == 4  # a dense layer has one place, and β = 1
    return (
        layer["jacobian_beta"]["spread"]
        if convolutional and layer["jacobian_beta"] is not None
        else None
    )


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
)
BETA = Quantity(
    "well-distributed Jacobian", "β_i, largest over places", "smaller", _beta, ("the Jacobian",)
)


def figure_1a(workshop: Workshop) -> Page:
    """The layer cushion of layer 13."""
    return _one_layer(workshop, CUSHION, "figure-1a")


def figure_1b(workshop: Workshop) -> Page:
    """The unclipped minimal interlayer cushion of layer 13."""
    return _one_layer(workshop, INTERLAYER, "figure-1b")


def figure_1c(workshop: Workshop) -> Page:
    """The activation contraction of layer 13."""
    return _one_layer(workshop, CONTRACTION, "figure-1c")


def figure_1d(workshop: Workshop) -> Page:
    """The interlayer smoothness of layer 13."""
    return _one_layer(workshop, SMOOTHNESS, "figure-1d")


def figure_a1(workshop: Workshop) -> Page:
    """The layer cushion of every layer."""
    return _all_layers(workshop, CUSHION, "figure-a1")


def figure_a2(workshop: Workshop) -> Page:
    """The interlayer cushion of every layer."""
    return _all_layers(workshop, INTERLAYER, "figure-a2")


def figure_a3(workshop: Workshop) -> Page:
    """The activation contraction of every layer."""
    return _all_layers(workshop, CONTRACTION, "figure-a3")


def figure_a4(workshop: Workshop) -> Page:
    """The interlayer smoothness of every layer."""
    return _all_layers(workshop, SMOOTHNESS, "figure-a4")


def figure_a5(workshop: Workshop) -> Page:
    """How evenly the Jacobian is spread over the places of every convolution."""
    return _all_layers(workshop, BETA, "figure-a5")


def _one_layer(workshop: Workshop, quantity: Quantity, name: str) -> Page:
    found = vgg19(workshop)
    at = LAYER_OF_FIGURE_1 - 1
    layer, twin = found["layers"][at], found["beside"][at]
    claims = one_layer_claims(quantity, layer, twin)
    title = f"{quantity.name.capitalize()}: layer {LAYER_OF_FIGURE_1} of {net_name(workshop)}"
    return Page(
        claim=_ONE_LAYER[quantity.name],
        tables=(
            _table(quantity, [layer], [twin], [LAYER_OF_FIGURE_1]),
            trained_table({"VGG-19": found}, {"VGG-19": VGG19_TEST_ERROR}),
        ),
        settings=vgg19_settings(workshop),
        claims=claims,
        notes=(LAYERS_NOTE, SCALED_NOTE, *_NOTES.get(quantity.name, ())),
        pictures=(_histogram(quantity, layer, twin, title, name),),
    )


def _all_layers(workshop: Workshop, quantity: Quantity, name: str) -> Page:
    found = vgg19(workshop)
    numbered = [
        (number, layer, twin)
        for number, (layer, twin) in enumerate(
            zip(found["layers"], found["beside"], strict=True), 1
        )
        if quantity.find(layer) is not None and quantity.find(twin) is not None
    ]
    claims = verified_claims(found["claims"], quantity)
    panels = tuple(
        _histogram(quantity, layer, twin, f"layer {number}", "") for number, layer, twin in numbered
    )
    layers, twins = [layer for _, layer, _ in numbered], [twin for _, _, twin in numbered]
    return Page(
        claim=f"the condition on the {quantity.name} is verified by its histograms on every layer "
        "of VGG-19.",
        tables=(
            _table(quantity, layers, twins, [number for number, _, _ in numbered]),
            trained_table({"VGG-19": found}, {"VGG-19": VGG19_TEST_ERROR}),
        ),
        settings=vgg19_settings(workshop),
        claims=claims,
        notes=(LAYERS_NOTE, SCALED_NOTE, _EXTREMUM, *_NOTES.get(quantity.name, ())),
        pictures=(
            Panels(name, f"{net_name(workshop)}: {quantity.name} over the training set", 4, panels),
        ),
    )


def one_layer_claims(quantity: Quantity, layer: Layer, twin: Layer) -> tuple[Tried, ...]:
    """What the text says of Figure 1: the cushion improves drastically, the others behave nicely
    after training.
    """
    mine, theirs = (_median(quantity.find(one)) for one in (layer, twin))
    text = (
        "the layer cushion is drastically improved by training"
        if quantity is CUSHION
        else f"the {quantity.name} behaves nicely even after training"
    )
    if mine is None or theirs is None or theirs == 0:
        return (Tried(text, None, "the layer has no such number"),)
    factor = mine / theirs
    if quantity is CUSHION:
        good, asked = factor >= _DRASTIC, f"at least {_DRASTIC:g} asked"
    elif quantity.better == "larger":
        good, asked = factor >= 1 / _NICE, f"at least 1/{_NICE:g} asked"
    else:
        good, asked = factor <= _NICE, f"at most {_NICE:g} asked"
    claims = []
    if quantity is CUSHION:
        low, high = quantity.find(layer), quantity.find(twin)
        assert low is not None
        assert high is not None
        ends = (low["quantiles"]["0.05"], high["quantiles"]["0.95"])
        because = (
            f"5 % of the trained net's are below {ends[0]:.4g}, 95 % of the random net's below "
            f"{ends[1]:.4g}"
        )
        claims.append(
            Tried("the layer cushion is improved by training", ends[0] > ends[1], because)
        )
    claims += [
        Tried(
            text,
            good,
            f"median {mine:.4g} trained, {theirs:.4g} random: factor {factor:.3g} ({asked})",
        )
    ]
    if quantity is INTERLAYER:
        minimal = layer["minimal_interlayer_cushion"]
        least, clip = minimal["unclipped"]["value"], minimal["clip"]
        claims.append(
            Tried(
                "after clipping, the minimal interlayer cushion is 1/√h",
                least >= clip,
                f"the smallest unclipped one over the examples is {least:.3g}, 1/√h is {clip:.3g}",
            )
        )
    return tuple(claims)


def verified_claims(checked: Sequence[Mapping[str, Any]], quantity: Quantity) -> tuple[Tried, ...]:
    """The checks of `cushion measure --beside` that belong to a quantity, with the thresholds that
    they name.
    """
    claims = []
    for words in quantity.verified:
        found = [one for one in checked if one["claim"].startswith(words)]
        claims += [
            Tried(one["claim"], one["held"], f"{one['found']} (asked: {one['threshold']})")
            for one in found
        ]
        claims += [] if found else [Tried(f"{words} ...", None, "the net gives no numbers on it")]
    return tuple(claims)


def _histogram(quantity: Quantity, layer: Layer, twin: Layer, title: str, name: str) -> Histogram:
    mine, theirs = quantity.find(layer), quantity.find(twin)
    assert mine is not None
    assert theirs is not None
    spreads = (
        spread_of(SPREAD_RANDOM, theirs),
        spread_of(SPREAD_TRAINED, mine),
    )  # blue, orange: as in the paper
    return Histogram(name, title, quantity.axis, spreads)


def _table(
    quantity: Quantity, layers: Sequence[Layer], twins: Sequence[Layer], numbers: Sequence[int]
) -> Table:
    """Worst value as the definition takes it, three quantiles and the mean, of the trained and of
    the random net.
    """
    rows = []
    for number, layer, twin in zip(numbers, layers, twins, strict=True):
        for label, one in (("trained", layer), ("random", twin)):
            found = quantity.find(one)
            if found is not None:
                spread = [found["quantiles"].get(level) for level in _QUANTILES]
                rows.append(
                    (
                        number,
                        layer["name"],
                        label,
                        found["value"],
                        *spread,
                        found["mean"],
                        found["count"],
                    )
                )
    header = (
        "layer",
        "name",
        "net",
        "as defined (worst)",
        "5 %",
        "median",
        "95 %",
        "mean",
        "examples",
    )
    return Table(
        header, tuple(rows), f"{quantity.name[0].upper()}{quantity.name[1:]} ({quantity.axis}):"
    )


def _median(found: Mapping[str, Any] | None) -> float | None:
    return None if found is None else found["quantiles"]["0.5"]


_EXTREMUM = (
    "The definitions take the worst example; the histograms, from which the paper reads its "
    "claims, say what a typical one does."
)
_ONE_LAYER = {
    CUSHION.name: "the layer cushion is drastically improved during training, especially in "
    "higher layers.",
    INTERLAYER.name: "the interlayer cushion behaves nicely after training; clipped, it is 1/√h "
    "in all layers "
    "but one.",
    CONTRACTION.name: "the activation contraction behaves nicely even after training.",
    SMOOTHNESS.name: "the interlayer smoothness behaves nicely even after training.",
}
_NOTES = {
    SMOOTHNESS.name: (
        "ρ is the largest number of which Definition 7 holds (the paper leaves that open); shown "
        "is each example's 1/ρ under Algorithm 1's noise, scaled to a tenth of the signal; 0 where "
        "the noise left no linear piece.",
    ),
    BETA.name: (
        "The paper's histogram is over sampled places, and β is read off its upper tail; this one "
        "is over examples, each with its largest value over all places of the maps that were "
        "measured.",
    ),
}
