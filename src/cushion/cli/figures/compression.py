"""A compressed net as pictures: error against size, error layer by layer beside what is promised,
and two rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cushion.compressors.records import CurvePoint, NetCompression
from cushion.papers.canvas import MINE, OTHER, new_figure, save

# Stays apart from MINE and OTHER in every common kind of colour blindness (Okabe and Ito).
_THIRD = "#009E73"


def draw_compression(found: NetCompression, folder: str) -> list[Path]:
    """Every picture that the record has the numbers for."""
    paths: list[Path] = []
    if found.curve:
        paths += save(_curve(found), Path(folder), f"{found.method}-size")
    if len(found.layers) > 1:
        paths += save(_layers(found), Path(folder), f"{found.method}-layers")
    if found.rates:
        paths += save(_rates(found), Path(folder), "vector-rates")
    return paths


def _curve(found: NetCompression) -> Any:
    """Relative error of the scores and fractions of examples, over the numbers stored; bits along
    the top.
    """
    points = sorted(found.curve, key=lambda point: point.parameters)
    sizes = [point.parameters for point in points]
    figure = new_figure(figsize=(10, 4.2))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    left.plot(
        sizes,
        [point.worst_relative_error for point in points],
        "s--",
        color=OTHER,
        label="worst example",
    )
    left.plot(
        sizes, [point.mean_relative_error for point in points], "o-", color=MINE, label="mean"
    )
    left.set_yscale("log")
    left.set_ylabel("relative error of the scores")
    right.plot(
        sizes,
        [point.margin_loss for point in points],
        "^:",
        color=_THIRD,
        label="margin loss, training set",
    )
    right.plot(
        sizes, [point.error for point in points], "o-", color=MINE, label="error, training set"
    )
    if all(point.test_error is not None for point in points):
        right.plot(
            sizes,
            [point.test_error for point in points],
            "s--",
            color=OTHER,
            label="error, held-out set",
        )
    right.set_ylim(-0.02, 1.02)
    right.set_ylabel("fraction of examples")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.axvline(
            found.parameters_before,
            color="#666666",
            linewidth=1,
            linestyle="-.",
            label="the net as it was",
        )
        axes.set_xlabel("numbers stored")
        axes.legend(fontsize=8)
        _bits_above(axes, points)
    figure.suptitle(f"{found.method}{_helper(found)}: error against size (measured)", fontsize=12)
    return figure


def _bits_above(axes: Any, points: Sequence[CurvePoint]) -> None:
    """A second scale along the top: what the points take in bits, at most five of them so that they
    stay apart.
    """
    shown = points[:: -(-len(points) // 5)]
    above = axes.twiny()
    above.set_xscale("log")
    above.set_xlim(axes.get_xlim())
    above.minorticks_off()
    above.set_xticks(
        [point.parameters for point in shown], [f"{point.bits:.2g}" for point in shown], fontsize=7
    )
    above.set_xlabel("bits", fontsize=8)


def _layers(found: NetCompression) -> Any:
    """The worst relative error at each layer, layers 1 to i compressed, one line for each i; the
    promise beside it.
    """
    figure = new_figure(figsize=(8, 4.5))
    axes = figure.add_subplot()
    names = [layer.name for layer in found.layers]
    place = {name: at for at, name in enumerate(names)}
    depth = len(names)
    for i in range(1, depth + 1):
        line = sorted((place[one.at], one.worst) for one in found.induction if one.compressed == i)
        shade = 0.15 + 0.7 * (i - 1) / max(1, depth - 1)
        label = f"first {i} of {depth} compressed" if i in (1, depth) else None
        across, up = [at for at, _ in line], [max(worst, 1e-9) for _, worst in line]
        axes.plot(
            across, up, "o-", color=str(1 - shade) if i < depth else MINE, markersize=4, label=label
        )
    if found.epsilon is not None:
        promised = [(at + 1) / depth * found.epsilon for at in range(depth)]
        axes.plot(
            range(depth),
            promised,
            "s--",
            color=OTHER,
            markersize=4,
            label="(i/d)·ε: Lemma 3, where it applies",
        )
    axes.set_yscale("log")
    axes.set_xticks(range(depth), names, rotation=60 if depth > 6 else 0)
    axes.set_ylabel("worst relative error of the output")
    axes.set_title(f"{found.method}{_helper(found)}: error layer by layer (measured)", fontsize=12)
    axes.legend(fontsize=8)
    return figure


def _rates(found: NetCompression) -> Any:
    """The explicit bounds of both vector algorithms over m, with lines of slope -1/3 and -1/2."""
    figure = new_figure(figsize=(7, 4.5))
    axes = figure.add_subplot()
    columns = list(dict.fromkeys((rate.method, rate.coordinates) for rate in found.rates))
    for (method, h), colour, marker in zip(
        columns, (MINE, _THIRD, OTHER), ("o", "^", "s"), strict=True
    ):
        rates = sorted(
            (rate.m, rate.bound)
            for rate in found.rates
            if (rate.method, rate.coordinates) == (method, h)
        )
        name = method if method == "vector-project" else f"{method}, h = {h:.3g}"
        axes.plot(
            [m for m, _ in rates],
            [bound for _, bound in rates],
            f"{marker}-",
            color=colour,
            label=name,
        )
        slope, words = (-1 / 2, "-1/2") if colour == OTHER else (-1 / 3, "-1/3")
        if colour != MINE:  # the classifier's own h is too small for a rate of its own
            last_m, last = rates[-1]
            guide = [last * (m / last_m) ** slope for m, _ in rates]
            axes.plot([m for m, _ in rates], guide, ":", color=colour, label=f"slope {words}")
    axes.axhline(1.0, color="#666666", linewidth=1, linestyle="-.", label="above: nothing is said")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("examples m")
    axes.set_ylabel("added to the margin loss")
    axes.set_title(
        "linear classifier with this margin: the two rates (theorems, explicit constants)",
        fontsize=11,
    )
    axes.legend(fontsize=8)
    return figure


def _helper(found: NetCompression) -> str:
    return f" ({found.helper}{', a variant' if found.variant else ''})" if found.helper else ""
