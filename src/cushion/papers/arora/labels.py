"""Normal against shuffled labels: Arora 2018, Figure 2 left (layer 5 of AlexNet), A.6 and A.7 (all
layers), and the note's Figure 5, which it takes from there: the capacity of its eq. 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cushion.papers.arora import nets, paper
from cushion.papers.arora.spreads import (
    CONTRACTION,
    CUSHION,
    SPREAD,
    Quantity,
    histogram,
    spread_rows,
)
from cushion.papers.drawings import Panels, Picture, Series
from cushion.papers.nets import held_out_error, training_error
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

NORMAL, SHUFFLED = "normal labels", "shuffled labels"
TAKEN = (
    "The note does not say which nets it shows; this stands for the picture of Arora 2018 on the "
    "same matter."
)
_MOST = 0.8  # of the layers
_CHANCE = 0.85  # a test error above it is no better than guessing among ten classes
_FITTED = 0.05  # of the sample: a net that errs on more has not learned it
_CAPACITIES = {
    "capacity, eq. 2": ("capacity", "the capacity of eq. 2 is smaller"),
    "effective parameters": ("effective_parameters", "so is the sum of effective parameters"),
    "without the worst 5 % of the examples": (
        "effective_parameters_zeta",
        "so is it without the worst 5 % of the examples",
    ),
}
Net = Mapping[str, Any]


def figure_2_left(workshop: Workshop) -> Page:
    """Layer cushion and activation contraction of layer 5 of the two AlexNets."""
    both, at = nets.alexnets(workshop), paper.LAYER_OF_FIGURE_2 - 1
    shown = (CUSHION, CONTRACTION)
    panels = [histogram(one, _layers(both, at), one.name) for one in shown]
    rows = [row for one in shown for row in _rows(one, both) if row["layer"] == at + 1]
    claims = [layer_claim(one, *both, at) for one in shown]
    picture = Panels("figure-2-left", f"Layer {at + 1} of AlexNet", 2, panels)
    return _page(workshop, rows, claims, picture)


def _all_layers(quantity: Quantity, name: str, workshop: Workshop) -> Page:
    both = nets.alexnets(workshop)
    shown = [at for at, layer in enumerate(both[0]["layers"]) if quantity.find(layer) is not None]
    panels = [histogram(quantity, _layers(both, at), f"layer {at + 1}") for at in shown]
    picture = Panels(name, f"AlexNet: {quantity.name} over the training set", 3, panels)
    claims = [layers_claim(quantity, *both, shown)]
    return _page(workshop, _rows(quantity, both), claims, picture)


figure_a6 = partial(_all_layers, CUSHION, "figure-a6")
figure_a7 = partial(_all_layers, CONTRACTION, "figure-a7")


def _page(
    workshop: Workshop, rows: Sequence[Net], claims: Sequence[Tried], picture: Panels
) -> Page:
    true, shuffled = nets.alexnets(workshop)
    columns = {"quantity": "quantity", "layer": "layer", "net": "net", **SPREAD}
    return Page(
        tables=(Table.of("Over the training set:", rows, columns), _errors_table(true, shuffled)),
        settings=nets.alexnet_settings(workshop),
        claims=(*claims, *trained_claims(true, shuffled)),
        notes=(
            nets.LAYERS_NOTE,
            "Each net is measured on the sample that it was trained on, shuffled labels included.",
        ),
        pictures=[picture],
    )


def note_figure_5(workshop: Workshop) -> Page:
    """(depth · contraction / (cushion · interlayer cushion))² on normal and on shuffled labels."""
    true, shuffled = nets.alexnets(workshop)
    at, both = paper.LAYER_OF_FIGURE_2 - 1, {NORMAL: true["net"], SHUFFLED: shuffled["net"]}
    found = {name: [net[kind] for kind, _ in _CAPACITIES.values()] for name, net in both.items()}
    title = "AlexNet: capacities by labels (measures)"
    series = [Series(name, values) for name, values in found.items()]
    axes = ("kind of capacity", "capacity")
    rows = [(name, *values) for name, values in found.items()]
    return Page(
        tables=(Table(("net", *_CAPACITIES), rows), _errors_table(true, shuffled)),
        settings=nets.alexnet_settings(workshop),
        claims=(
            *(capacity_claim(text, kind, true, shuffled) for kind, text in _CAPACITIES.values()),
            *(layer_claim(quantity, true, shuffled, at) for quantity in (CUSHION, CONTRACTION)),
            *trained_claims(true, shuffled),
        ),
        notes=(TAKEN, "Capacities are measures: relative, not bounds."),
        pictures=[Picture("figure-5", title, list(_CAPACITIES), *axes, series, y_log=True)],
    )


def _layers(both: tuple[Net, Net], at: int) -> dict[str, Any]:
    return {name: net["layers"][at] for name, net in zip((NORMAL, SHUFFLED), both, strict=True)}


def _rows(quantity: Quantity, both: tuple[Net, Net]) -> list[dict[str, Any]]:
    return spread_rows(quantity, {NORMAL: both[0]["layers"], SHUFFLED: both[1]["layers"]})


def _medians(quantity: Quantity, true: Net, shuffled: Net, at: int) -> tuple[float, float, bool]:
    """Of the two nets, and whether they are in the order that the paper sees."""
    mine, theirs = (quantity.median(net["layers"][at]) for net in (true, shuffled))
    assert mine is not None
    assert theirs is not None
    return mine, theirs, mine > theirs if quantity.better == "larger" else mine < theirs


def layer_claim(quantity: Quantity, true: Net, shuffled: Net, at: int) -> Tried:
    """The medians of one layer in the order that the paper sees."""
    mine, theirs, good = _medians(quantity, true, shuffled, at)
    text = f"the {quantity.name} of layer {at + 1} is {quantity.better} on normal labels"
    return Tried(text, good, f"medians {mine:.4g} on normal, {theirs:.4g} on shuffled labels")


def layers_claim(quantity: Quantity, true: Net, shuffled: Net, shown: Sequence[int]) -> Tried:
    """The same in at least 80 % of the layers."""
    good = [str(at + 1) for at in shown if _medians(quantity, true, shuffled, at)[2]]
    text = f"the {quantity.name} is {quantity.better} on normal labels in at least {_MOST:.0%} of"
    named = f"{len(good)} of {len(shown)} layers ({', '.join(good) or 'none'})"
    holds = len(good) >= _MOST * len(shown)
    return Tried(f"{text} the layers", holds, f"the median is in {named}")


def trained_claims(true: Net, shuffled: Net) -> tuple[Tried, Tried]:
    """Both nets fit their sample and only one generalises: what the comparison is about."""
    fits = [training_error(net) for net in (true, shuffled)]
    tests = [held_out_error(net) for net in (true, shuffled)]
    papers = (paper.ALEXNET_TEST_ERROR, paper.SHUFFLED_TEST_ERROR)
    return (
        Tried(
            "both nets fit their training set",
            max(fits) <= _FITTED,
            f"training errors {fits[0]:.2%} and {fits[1]:.2%} (at most {_FITTED:.0%} asked)",
            paper.TRAINING_ERROR <= _FITTED,
            f"training errors {paper.TRAINING_ERROR:.0%}",
        ),
        Tried(
            "the net on normal labels generalises and the other one does not",
            tests[0] < tests[1] and tests[1] >= _CHANCE,
            f"test errors {tests[0]:.2%} and {tests[1]:.2%} (chance is 90 %)",
            papers[0] < papers[1] and papers[1] >= _CHANCE,
            f"{papers[0]:.2%} and {papers[1]:.2%}",
        ),
    )


def capacity_claim(text: str, kind: str, true: Net, shuffled: Net) -> Tried:
    """One capacity of the two nets; an infinite one (None in JSON) is larger than any."""
    mine, theirs = true["net"][kind], shuffled["net"][kind]
    whole = f"{text} on normal labels"
    if mine is None:
        return Tried(whole, None if theirs is None else False, "it is infinite on normal labels")
    other = "infinite" if theirs is None else f"{theirs:.3g}"
    because = f"{mine:.3g} on normal, {other} on shuffled labels"
    return Tried(whole, theirs is None or mine < theirs, because)


def _errors_table(true: Net, shuffled: Net) -> Table:
    """How well both learned."""
    papers = {NORMAL: paper.ALEXNET_TEST_ERROR, SHUFFLED: paper.SHUFFLED_TEST_ERROR}
    return nets.trained_table({NORMAL: true, SHUFFLED: shuffled}, papers)
