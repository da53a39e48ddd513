"""Arora 2018, Table 1: effective parameters of seven layers of VGG-19, beside the actual ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cushion.papers.arora.nets import LAYERS_NOTE, net_name, vgg19, vgg19_settings, vgg19_table
from cushion.papers.arora.paper import TABLE_1
from cushion.papers.drawings import Picture, Series
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

LATER = (9, 12, 15, 18)
_EARLIER = (4, 6)
_FEW = 5.0  # percent of the parameters that "as low as 1 %" allows in later layers
Percents = Mapping[int, float | None]  # by layer; None: an infinite count


def table_1(workshop: Workshop) -> Page:
    """c²β²⌈κ/s⌉²/(μ²μ_→²) of the paper's layers, with and without the worst examples."""
    found = vgg19(workshop)
    rows = []
    for layer, paper in TABLE_1.items():
        one: dict[str, Any] = found["layers"][layer - 1]["effective_parameters"]
        zeta = one["zeta_value"]
        without = None if zeta is None else 100 * zeta / one["parameters"]
        rows.append({**one, "layer": layer, "paper": paper, "without": without})
    columns = {
        "layer": "layer",
        "effective, paper": "paper.0",
        "actual, paper": "paper.1",
        "%, paper": "paper.2",
        "effective, ours": "value",
        "actual, ours": "parameters",
        "%, ours": "percent",
        "effective without the worst 5 % of the examples": "zeta_value",
        "%, without them": "without",
    }
    caption = "Effective parameters, without depth, logarithms and constants:"
    series = (
        Series("ours, worst example", [row["percent"] for row in rows]),
        Series("ours, without the worst 5 %", [row["without"] for row in rows]),
        Series("paper", [row["paper"][2] for row in rows], from_paper=True),
    )
    title = f"Effective parameters of {net_name(workshop)} (measure)"
    axes = ("layer of VGG-19", "percent of the layer's parameters")
    return Page(
        tables=(Table.of(caption, rows, columns), vgg19_table(found)),
        settings=vgg19_settings(workshop),
        claims=compression_claims({row["layer"]: row["percent"] for row in rows}),
        notes=(
            LAYERS_NOTE,
            "Each quantity enters with its worst value over the examples, as the definitions ask; "
            "the paper does not say whether its table does. Without the worst 5 % of them is "
            "Corollary C.1's version, which pays ζ.",
            "A narrower layer has fewer parameters by the square of the factor: percents of a "
            "narrow net are larger for that reason alone.",
            "A count that is infinite (an example with cushion 0) is shown as a dash, and has no "
            "bar.",
            "There is no valid theorem behind the convolutional case: the paper's Lemma 12 is "
            "false.",
        ),
        pictures=[Picture("table-1", title, [*map(str, TABLE_1)], *axes, series, y_log=True)],
    )


def compression_claims(ours: Percents) -> list[Tried]:
    """The caption of Table 1, tried on the paper's rows and on ours."""
    texts = (
        f"later layers (9 to 18) come to at most {_FEW:g} % of their parameters",
        "layers 4 and 6 do not compress: more effective than actual parameters",
        "later layers compress better than earlier ones",
    )
    papers = {layer: row[2] for layer, row in TABLE_1.items()}
    both = zip(texts, _answers(ours), _answers(papers), strict=True)
    return [Tried(text, *mine, *theirs) for text, mine, theirs in both]


def _answers(percents: Percents) -> list[tuple[bool, str]]:
    """To the three sentences; a layer with an infinite count compresses to nothing."""
    known = {at: math.inf if value is None else value for at, value in percents.items()}
    worst, best = max(known[at] for at in LATER), min(known[at] for at in _EARLIER)
    finite = all(known[at] < math.inf for at in _EARLIER)
    later, earlier = (
        ", ".join(f"layer {at} {_percent(known[at])}" for at in layers)
        for layers in (LATER, _EARLIER)
    )
    ends = f"worst of the later {_percent(worst)}, best of layers 4 and 6 {_percent(best)}"
    return [
        (worst <= _FEW, later),
        (finite and best > 100, earlier),
        (finite and worst < best, ends),
    ]


def _percent(value: float) -> str:
    return "infinite" if value == math.inf else f"{value:.4g} %"
