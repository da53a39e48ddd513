"""The note, Figures 5 and 6: the capacity of its eq. 2 and the bound, beside how well nets
generalise.

The note captions the first not at all and the second "Correlation with Generalization". It takes
both from Arora 2018, whose two pictures on this matter are Figure 2 left (normal and shuffled
labels) and right (during training).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cushion.papers.arora.bounds import figure_2_right
from cushion.papers.arora.labels import (
    NORMAL,
    SHUFFLED,
    errors_table,
    layer_claim,
    trained_claims,
)
from cushion.papers.arora.paper import LAYER_OF_FIGURE_2
from cushion.papers.arora.records import alexnets
from cushion.papers.arora.settings import alexnet_settings
from cushion.papers.arora.spreads import CONTRACTION, CUSHION
from cushion.papers.drawings import Picture, Series
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_TAKEN = (
    "The note does not say which nets it shows; this stands for the picture of Arora 2018 on the "
    "same matter."
)


def figure_5(workshop: Workshop) -> Page:
    """(depth · contraction / (cushion · interlayer cushion))² on normal and on shuffled labels."""
    nets = dict(zip((NORMAL, SHUFFLED), alexnets(workshop), strict=True))
    true, shuffled = nets.values()
    at = LAYER_OF_FIGURE_2 - 1
    claims = (
        capacity_claim("the capacity of eq. 2 is smaller", "capacity", true, shuffled),
        capacity_claim(
            "so is the sum of effective parameters", "effective_parameters", true, shuffled
        ),
        capacity_claim(
            "so is it without the worst 5 % of the examples",
            "effective_parameters_zeta",
            true,
            shuffled,
        ),
        *(layer_claim(quantity, true, shuffled, at) for quantity in (CUSHION, CONTRACTION)),
        *trained_claims(true, shuffled),
    )
    kinds = ("capacity", "effective_parameters", "effective_parameters_zeta")
    rows = tuple((name, *(net["net"][kind] for kind in kinds)) for name, net in nets.items())
    header = (
        "net",
        "capacity, eq. 2",
        "effective parameters",
        "without the worst 5 % of the examples",
    )
    return Page(
        tables=(Table(header, rows), errors_table(true, shuffled)),
        settings=alexnet_settings(workshop),
        claims=claims,
        notes=(_TAKEN, "Capacities are measures: relative, not bounds."),
        pictures=(
            Picture(
                "figure-5",
                "AlexNet: capacities by labels (measures)",
                header[1:],
                "kind of capacity",
                "capacity",
                tuple(
                    Series(name, tuple(net["net"][kind] for kind in kinds))
                    for name, net in nets.items()
                ),
                y_log=True,
            ),
        ),
    )


def figure_6(workshop: Workshop) -> Page:
    """The bound and the errors during training: Figure 2 right of Arora 2018."""
    page = figure_2_right(workshop)
    return Page(
        tables=page.tables,
        settings=page.settings,
        claims=page.claims,
        notes=(_TAKEN, *page.notes),
        pictures=tuple(replace(picture, name="figure-6") for picture in page.pictures),
    )


def capacity_claim(
    text: str, kind: str, true: Mapping[str, Any], shuffled: Mapping[str, Any]
) -> Tried:
    """One capacity of the two nets; an infinite one (None in JSON) is larger than any."""
    mine, theirs = true["net"][kind], shuffled["net"][kind]
    whole = f"{text} on normal labels"
    if mine is None:
        return Tried(whole, None if theirs is None else False, "it is infinite on normal labels")
    because = (
        f"{mine:.3g} on normal, {'infinite' if theirs is None else f'{theirs:.3g}'} on shuffled "
        "labels"
    )
    return Tried(whole, theirs is None or mine < theirs, because)
