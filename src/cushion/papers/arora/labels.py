"""Arora 2018, Figure 2 left (layer 5 of AlexNet), A.6 and A.7 (all layers): normal against shuffled
labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cushion.papers.arora.paper import (
    ALEXNET_TEST_ERROR,
    LAYER_OF_FIGURE_2,
    SHUFFLED_TEST_ERROR,
    TRAINING_ERROR,
)
from cushion.papers.arora.records import alexnets
from cushion.papers.arora.settings import LAYERS_NOTE, alexnet_settings, trained_table
from cushion.papers.arora.spreads import (
    CONTRACTION,
    CUSHION,
    SPREAD,
    Quantity,
    Row,
    histogram,
    median_of,
    spread_rows,
)
from cushion.papers.drawings import Histogram, Panels
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

NORMAL, SHUFFLED = "normal labels", "shuffled labels"
_MOST = 0.8  # of the layers
_CHANCE = 0.85  # a test error above it is no better than guessing among ten classes
_FITTED = 0.05  # of the sample: a net that errs on more has not learned it
Net = Mapping[str, Any]


def figure_2_left(workshop: Workshop) -> Page:
    """Layer cushion and activation contraction of layer 5 of the two AlexNets."""
    true, shuffled = alexnets(workshop)
    at = LAYER_OF_FIGURE_2 - 1
    panels = tuple(_histogram(one, true, shuffled, at, one.name) for one in (CUSHION, CONTRACTION))
    return _page(
        workshop,
        [
            row
            for one in (CUSHION, CONTRACTION)
            for row in _rows(one, true, shuffled)
            if row[0] == LAYER_OF_FIGURE_2
        ],
        tuple(layer_claim(quantity, true, shuffled, at) for quantity in (CUSHION, CONTRACTION)),
        Panels("figure-2-left", f"Layer {LAYER_OF_FIGURE_2} of AlexNet", 2, panels),
    )


def _all_layers(quantity: Quantity, name: str, workshop: Workshop) -> Page:
    true, shuffled = alexnets(workshop)
    shown = [at for at, layer in enumerate(true["layers"]) if quantity.find(layer) is not None]
    panels = tuple(_histogram(quantity, true, shuffled, at, f"layer {at + 1}") for at in shown)
    return _page(
        workshop,
        _rows(quantity, true, shuffled),
        (layers_claim(quantity, true, shuffled, shown),),
        Panels(name, f"AlexNet: {quantity.name} over the training set", 3, panels),
    )


figure_a6 = partial(_all_layers, CUSHION, "figure-a6")
figure_a7 = partial(_all_layers, CONTRACTION, "figure-a7")


def _page(
    workshop: Workshop, rows: Sequence[Row], claims: tuple[Tried, ...], picture: Panels
) -> Page:
    true, shuffled = alexnets(workshop)
    columns: dict[str, Callable[[Row], Any]] = {
        "quantity": lambda row: row[2],
        "layer": lambda row: row[0],
        "net": lambda row: row[3],
    }
    return Page(
        tables=(
            Table.of("Over the training set:", rows, columns | SPREAD),
            errors_table(true, shuffled),
        ),
        settings=alexnet_settings(workshop),
        claims=(*claims, *trained_claims(true, shuffled)),
        notes=(
            LAYERS_NOTE,
            "Each net is measured on the sample that it was trained on, shuffled labels included.",
        ),
        pictures=(picture,),
    )


def _rows(quantity: Quantity, true: Net, shuffled: Net) -> list[Row]:
    return spread_rows(quantity, {NORMAL: true["layers"], SHUFFLED: shuffled["layers"]})


def _histogram(quantity: Quantity, true: Net, shuffled: Net, at: int, title: str) -> Histogram:
    nets = {NORMAL: true["layers"][at], SHUFFLED: shuffled["layers"][at]}
    return histogram(quantity, nets, title)


def layer_claim(quantity: Quantity, true: Net, shuffled: Net, at: int) -> Tried:
    """The medians of one layer in the order that the paper sees."""
    mine, theirs = (_median(quantity, net, at) for net in (true, shuffled))
    text = f"the {quantity.name} of layer {at + 1} is {quantity.better} on normal labels"
    return Tried(
        text,
        _better(quantity, mine, theirs),
        f"medians {mine:.4g} on normal, {theirs:.4g} on shuffled labels",
    )


def layers_claim(quantity: Quantity, true: Net, shuffled: Net, shown: Sequence[int]) -> Tried:
    """The same in at least 80 % of the layers."""
    good = [
        at + 1
        for at in shown
        if _better(quantity, *(_median(quantity, net, at) for net in (true, shuffled)))
    ]
    named = ", ".join(map(str, good)) or "none"
    return Tried(
        f"the {quantity.name} is {quantity.better} on normal labels in at least {_MOST:.0%} of the "
        "layers",
        len(good) >= _MOST * len(shown),
        f"the median is in {len(good)} of {len(shown)} layers ({named})",
    )


def trained_claims(true: Net, shuffled: Net) -> tuple[Tried, ...]:
    """Both nets fit their sample and only one generalises: what the comparison is about."""
    fits = [net["errors"] / net["m"] for net in (true, shuffled)]
    tests = [net["test_errors"] / net["test_m"] for net in (true, shuffled)]
    return (
        Tried(
            "both nets fit their training set",
            max(fits) <= _FITTED,
            f"training errors {fits[0]:.2%} and {fits[1]:.2%} (at most {_FITTED:.0%} asked)",
            TRAINING_ERROR <= _FITTED,
            f"training errors {TRAINING_ERROR:.0%}",
        ),
        Tried(
            "the net on normal labels generalises and the other one does not",
            tests[0] < tests[1] and tests[1] >= _CHANCE,
            f"test errors {tests[0]:.2%} and {tests[1]:.2%} (chance is 90 %)",
            ALEXNET_TEST_ERROR < SHUFFLED_TEST_ERROR and SHUFFLED_TEST_ERROR >= _CHANCE,
            f"{ALEXNET_TEST_ERROR:.2%} and {SHUFFLED_TEST_ERROR:.2%}",
        ),
    )


def errors_table(true: Net, shuffled: Net) -> Table:
    """How well both learned."""
    papers = {NORMAL: ALEXNET_TEST_ERROR, SHUFFLED: SHUFFLED_TEST_ERROR}
    return trained_table({NORMAL: true, SHUFFLED: shuffled}, papers)


def _better(quantity: Quantity, mine: float, theirs: float) -> bool:
    return mine > theirs if quantity.better == "larger" else mine < theirs


def _median(quantity: Quantity, net: Net, at: int) -> float:
    found = median_of(quantity, net["layers"][at])
    assert found is not None
    return found
