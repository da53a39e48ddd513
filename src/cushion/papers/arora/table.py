"""Arora 2018, Table 1: the effective parameters of seven layers of VGG-19, beside the actual ones
and the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """c²β²⌈κ/s⌉²/(μ²μ_→²) of the paper's layers, with and without the worst examples."""
    found = vgg19(workshop)
    ours = {number: found["layers"][number - 1]["effective_parameters"] for number in TABLE_1}

    def zeta_percent(number: int) -> float | None:
        one = ours[number]
        return None if one["zeta_value"] is None else 100 * one["zeta_value"] / one["parameters"]

    table = Table.of(
        "Effective parameters, without depth, logarithms and constants:",
        TABLE_1,
        {
            "layer": int,
            "effective, paper": lambda number: TABLE_1[number][0],
            "actual, paper": lambda number: TABLE_1[number][1],
            "%, paper": lambda number: TABLE_1[number][2],
            "effective, ours": lambda number: ours[number]["value"],
            "actual, ours": lambda number: ours[number]["parameters"],
            "%, ours": lambda number: ours[number]["percent"],
            "effective without the worst 5 % of the examples": lambda number: ours[number][
                "zeta_value"
            ],
            "%, without them": zeta_percent,
        },
    )
    return Page(
        tables=(table, vgg19_table(found)),
        settings=vgg19_settings(workshop),
        claims=compression_claims(ours),
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
                tuple(map(str, ours)),
                "layer of VGG-19",
                "percent of the layer's parameters",
                (
                    Series("ours, worst example", tuple(one["percent"] for one in ours.values())),
                    Series("ours, without the worst 5 %", tuple(map(zeta_percent, ours))),
                    Series("paper", tuple(TABLE_1[number][2] for number in ours), from_paper=True),
                ),
                y_log=True,
            ),
        ),
    )


def compression_claims(ours: Mapping[int, Mapping[str, Any]]) -> tuple[Tried, ...]:
    """The caption of Table 1, tried on the paper's rows and on ours."""
    percents = (
        {number: one["percent"] for number, one in ours.items()},
        {number: row[2] for number, row in TABLE_1.items()},
    )

    def tried(text: str, holds: Callable[[float, float], bool], numbers: tuple[int, ...]) -> Tried:
        answers: list[Any] = []
        for percent in percents:
            later, earlier = _worst(percent, LATER), _best(percent, _EARLIER)
            known = all(percent[number] is not None for number in numbers or (*LATER, *_EARLIER))
            words = ", ".join(
                f"layer {number} {_percent(percent[number])}" for number in numbers
            ) or f"worst of the later {_percent(later)}, best of layers 4 and 6 " + _percent(
                earlier
            )
            good = known and holds(later or 0.0, earlier or 0.0)
            answers += [good, words]
        return Tried(text, *answers)

    return (
        tried(
            f"later layers (9 to 18) come to at most {_FEW:g} % of their parameters",
            lambda later, _: later <= _FEW,
            LATER,
        ),
        tried(
            "layers 4 and 6 do not compress: more effective than actual parameters",
            lambda _, earlier: earlier > 100,
            _EARLIER,
        ),
        tried(
            "later layers compress better than earlier ones",
            lambda later, earlier: later < earlier,
            (),
        ),
    )


def _worst(percent: Mapping[int, float | None], numbers: tuple[int, ...]) -> float | None:
    """A layer with an infinite count (None in JSON) compresses to nothing."""
    known = [value for number in numbers if (value := percent[number]) is not None]
    return max(known) if len(known) == len(numbers) else None


def _best(percent: Mapping[int, float | None], numbers: tuple[int, ...]) -> float | None:
    known = [value for number in numbers if (value := percent[number]) is not None]
    return min(known, default=None)


def _percent(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.4g} %"
