"""Arora 2018, Table 1: the effective parameters of seven layers of VGG-19, beside the actual ones
and the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cushion.papers.arora.paper import TABLE_1
from cushion.papers.arora.records import vgg19
from cushion.papers.arora.settings import LAYERS_NOTE, net_name, vgg19_settings, vgg19_table
from cushion.papers.drawings import Picture, Series
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

LATER = (9, 12, 15, 18)
_EARLIER = (4, 6)
_FEW = 5.0  # percent of the parameters that "as low as 1 %" allows in later layers


def table_1(workshop: Workshop) -> Page:
    """c²β²⌈κ/s⌉²/(μ²μ_→²) of the layers that the paper lists; with and without the worst
    examples.
    """
    found = vgg19(workshop)
    ours = {number: found["layers"][number - 1]["effective_parameters"] for number in TABLE_1}
    claims = compression_claims(ours)
    rows = tuple(
        (
            number,
            *TABLE_1[number],
            one["value"],
            one["parameters"],
            one["percent"],
            one["zeta_value"],
            None if one["zeta_value"] is None else 100 * one["zeta_value"] / one["parameters"],
        )
        for number, one in ours.items()
    )
    header = (
        "layer",
        "effective, paper",
        "actual, paper",
        "%, paper",
        "effective, ours",
        "actual, ours",
        "%, ours",
        "effective without the worst 5 % of the examples",
        "%, without them",
    )
    layers = tuple(str(number) for number in ours)
    return Page(
        tables=(
            Table(header, rows, "Effective parameters, without depth, logarithms and constants:"),
            vgg19_table(found),
        ),
        settings=vgg19_settings(workshop),
        claims=claims,
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
        pictures=(
            Picture(
                "table-1",
                f"Effective parameters of {net_name(workshop)} (measure)",
                layers,
                "layer of VGG-19",
                "percent of the layer's parameters",
                (
                    Series("ours, worst example", tuple(one["percent"] for one in ours.values())),
                    Series("ours, without the worst 5 %", tuple(row[-1] for row in rows)),
                    Series("paper", tuple(TABLE_1[number][2] for number in ours), from_paper=True),
                ),
                y_log=True,
            ),
        ),
    )


def compression_claims(ours: Mapping[int, Mapping[str, Any]]) -> tuple[Tried, ...]:
    """The caption of Table 1, tried on the paper's rows and on ours."""
    percent = {number: one["percent"] for number, one in ours.items()}
    paper = {number: row[2] for number, row in TABLE_1.items()}
    return (
        Tried(
            f"later layers (9 to 18) come to at most {_FEW:g} % of their parameters",
            _all_known(percent, LATER) and max(percent[number] for number in LATER) <= _FEW,
            _shown(percent, LATER),
            max(paper[number] for number in LATER) <= _FEW,
            _shown(paper, LATER),
        ),
        Tried(
            "layers 4 and 6 do not compress: more effective than actual parameters",
            _all_known(percent, _EARLIER) and min(percent[number] for number in _EARLIER) > 100,
            _shown(percent, _EARLIER),
            min(paper[number] for number in _EARLIER) > 100,
            _shown(paper, _EARLIER),
        ),
        Tried(
            "later layers compress better than earlier ones",
            _all_known(percent, (*LATER, *_EARLIER))
            and max(percent[number] for number in LATER)
            < min(percent[number] for number in _EARLIER),
            f"worst of the later {_worst(percent, LATER)}, best of layers 4 and 6 "
            f"{_best(percent, _EARLIER)}",
            max(paper[number] for number in LATER) < min(paper[number] for number in _EARLIER),
            f"worst of the later {_worst(paper, LATER)}, best of layers 4 and 6 "
            f"{_best(paper, _EARLIER)}",
        ),
    )


def _all_known(percent: Mapping[int, float | None], numbers: tuple[int, ...]) -> bool:
    """A layer with an infinite count (None in JSON) compresses to nothing."""
    return all(percent[number] is not None for number in numbers)


def _shown(percent: Mapping[int, float | None], numbers: tuple[int, ...]) -> str:
    return ", ".join(f"layer {number} {_percent(percent[number])}" for number in numbers)


def _worst(percent: Mapping[int, float | None], numbers: tuple[int, ...]) -> str:
    known = [percent[number] for number in numbers]
    return _percent(None if None in known else max(value for value in known if value is not None))


def _best(percent: Mapping[int, float | None], numbers: tuple[int, ...]) -> str:
    return _percent(
        min((value for number in numbers if (value := percent[number]) is not None), default=None)
    )


def _percent(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.4g} %"
