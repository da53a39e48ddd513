"""A compression as pictures, each where the summary has the numbers for it: error against size,
error and bound of all that was tried, layer by layer, and two rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cushion.compressors.records import CurvePoint, Summary
from cushion.papers.canvas import MINE, OTHER, new_figure

OF = Summary

# Stays apart from MINE and OTHER in every common kind of colour blindness (Okabe and Ito).
_THIRD = "#009E73"
_BEFORE = {"color": "#666666", "linewidth": 1, "linestyle": "-."}


def pictures(found: Any) -> Iterator[tuple[str, Any]]:
    """Every picture that the summary has the numbers for; settings that were tried are a curve."""
    names = ("tried", "curve", "induction", "rates")
    tried, curve, induction, rates = (getattr(found, name, ()) for name in names)
    if len(tried) > 1:
        yield f"{found.method}-tried", _tried(found)
    if len(tried) == 0 and curve:
        yield f"{found.method}-size", _curve(found)
    if hasattr(found.layers[0], "shift"):
        yield f"{found.method}-layers", _shifts(found)
    elif len(found.layers) > 1 and induction:
        yield f"{found.method}-layers", _layers(found)
    if rates:
        yield "vector-rates", _rates(found)


def _curve(found: Any) -> Any:
    """Relative error of the scores and fractions of examples over the numbers stored."""
    points = sorted(found.curve, key=lambda point: point.parameters)
    sizes = [point.parameters for point in points]
    figure, left, right = _two()

    def line(axes: Any, name: str, style: str, colour: str, label: str) -> None:
        axes.plot(sizes, [getattr(one, name) for one in points], style, color=colour, label=label)

    line(left, "worst_relative_error", "s--", OTHER, "worst example")
    line(left, "mean_relative_error", "o-", MINE, "mean")
    left.set(yscale="log", ylabel="relative error of the scores")
    line(right, "margin_loss", "^:", _THIRD, "margin loss, training set")
    line(right, "error", "o-", MINE, "error, training set")
    if all(point.test_error is not None for point in points):
        line(right, "test_error", "s--", OTHER, "error, held-out set")
    right.set(ylim=(-0.02, 1.02), ylabel="fraction of examples")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="numbers stored")
        axes.axvline(found.parameters_before, label="the net as it was", **_BEFORE)
        axes.legend(fontsize=8)
        _bits_above(axes, points)
    figure.suptitle(f"{_name(found)}: error against size (measured)", fontsize=12)
    return figure


def _two() -> tuple[Any, Any, Any]:
    """A figure of two pictures side by side."""
    figure = new_figure(figsize=(10, 4.2))
    return figure, figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)


def _bits_above(axes: Any, points: Sequence[CurvePoint]) -> None:
    """A second scale along the top: the bits of at most five points, so that they stay apart."""
    shown = points[:: -(-len(points) // 5)]
    above = axes.twiny()
    above.set(xscale="log", xlim=axes.get_xlim())
    above.minorticks_off()
    bits = [f"{point.bits:.2g}" for point in shown]
    above.set_xticks([point.parameters for point in shown], bits, fontsize=7)
    above.set_xlabel("bits", fontsize=8)


def _layers(found: Any) -> Any:
    """The worst relative error at each layer, one line for each i; the promise beside it."""
    figure = new_figure(figsize=(8, 4.5))
    axes = figure.add_subplot()
    names = [layer.name for layer in found.layers]
    depth = len(names)
    for i in range(1, depth + 1):
        seen = [one for one in found.induction if one.compressed == i]
        line = sorted((names.index(one.at), max(one.worst, 1e-9)) for one in seen)
        shade = MINE if i == depth else str(0.85 - 0.7 * (i - 1) / max(1, depth - 1))
        label = f"first {i} of {depth} compressed" if i in (1, depth) else None
        axes.plot(*zip(*line, strict=True), "o-", color=shade, markersize=4, label=label)
    if found.epsilon is not None:
        promised = [(at + 1) / depth * found.epsilon for at in range(depth)]
        label = "(i/d)·ε, where it is promised"
        axes.plot(range(depth), promised, "s--", color=OTHER, markersize=4, label=label)
    axes.set(yscale="log", xlabel="layer", ylabel="worst relative error of the output")
    axes.set_xticks(range(depth), names, rotation=60 if depth > 6 else 0)
    axes.set_title(f"{_name(found)}: error layer by layer (measured)", fontsize=12)
    axes.legend(fontsize=8)
    return figure


def _rates(found: Any) -> Any:
    """The explicit bounds of both vector algorithms over m, with lines of slope -1/3 and -1/2."""
    figure = new_figure(figsize=(7, 4.5))
    axes = figure.add_subplot()
    kinds = list(dict.fromkeys((rate.method, rate.coordinates) for rate in found.rates))
    styles = zip(kinds, (MINE, _THIRD, OTHER), ("o", "^", "s"), strict=True)
    for (method, h), colour, marker in styles:
        own = [one for one in found.rates if (one.method, one.coordinates) == (method, h)]
        sizes, bounds = zip(*sorted((one.m, one.bound) for one in own), strict=True)
        name = method if method == "vector-project" else f"{method}, h = {h:.3g}"
        axes.plot(sizes, bounds, f"{marker}-", color=colour, label=name)
        if colour != MINE:  # the classifier's own h is too small for a rate of its own
            slope, words = (-1 / 2, "-1/2") if colour == OTHER else (-1 / 3, "-1/3")
            guide = [bounds[-1] * (m / sizes[-1]) ** slope for m in sizes]
            axes.plot(sizes, guide, ":", color=colour, label=f"slope {words}")
    axes.axhline(1.0, label="above: nothing is said", **_BEFORE)
    axes.set(xscale="log", yscale="log", xlabel="examples m", ylabel="added to the margin loss")
    axes.set_title("linear classifier with this margin: the two rates (theorems)", fontsize=11)
    axes.legend(fontsize=8)
    return figure


def _name(found: Any) -> str:
    kind = getattr(found, "rule", "") or getattr(found, "form", "") or getattr(found, "helper", "")
    variant = ", a variant" if getattr(found, "variant", "") else ""
    return f"{found.method} ({kind}{variant})" if kind else found.method


def _tried(found: Any) -> Any:
    """Training error and Occam bound over the weights that are left, one line for each grid."""
    figure, left, right = _two()
    grids = list(dict.fromkeys(one.grid for one in found.tried))
    sizes = [max(1, one.count) for one in found.tried]
    ticks = _apart(sorted(set(sizes)))
    errors, bounds = zip(*((one.errors / found.m, one.bound) for one in found.tried), strict=True)
    bound = f"Occam bound on the error (delta = {found.delta:g})"
    sides = ((left, errors, "error, training set (measured)"), (right, bounds, bound))
    for axes, values, name in sides:
        points = list(zip(sizes, values, found.tried, strict=True))
        for at, grid in enumerate(grids):
            line = sorted((size, value) for size, value, one in points if one.grid == grid)
            shade = str(0.75 - 0.65 * at / (len(grids) - 1)) if len(grids) > 1 else MINE
            axes.plot(*zip(*line, strict=True), "o-", color=shade, markersize=4, label=grid)
        size, value = next((size, value) for size, value, one in points if one.chosen)
        ring = {"color": OTHER, "markersize": 9, "fillstyle": "none", "label": "taken"}
        axes.plot([size], [value], "s", **ring)
        axes.set(xscale="log", ylim=(-0.02, 1.02), xlabel="weights that are left", ylabel=name)
        axes.minorticks_off()
        axes.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        axes.legend(fontsize=8, title="grid", title_fontsize=8)
    figure.suptitle(f"{_name(found)}: error and bound against size", fontsize=12)
    return figure


def _apart(sizes: Sequence[int]) -> list[int]:
    """Those that are far enough apart on a logarithmic scale for their labels."""
    found = [sizes[0]]
    step = max(1.3, (sizes[-1] / sizes[0]) ** 0.16)
    for size in sizes[1:]:
        if size >= step * found[-1]:
            found.append(size)
    return found


def _shifts(found: Any) -> Any:
    """What is left of each layer; ‖Δ‖₂ and the rounding over ‖A‖₂ beside Lemma 4.4's 1/L."""
    layers = [layer for layer in found.layers if layer.normality is not None]
    names, places = [layer.name for layer in layers], range(len(layers))
    figure, left, right = _two()
    left.bar(places, [layer.nonzeros / layer.weights for layer in layers], color=MINE)
    left.set(ylim=(0, 1), ylabel="share of weights that is left")
    for name, style, colour, label in (
        ("shift", "o-", MINE, "‖Δ‖₂/‖A‖₂, pruning"),
        ("rounding", "^:", _THIRD, "‖Ã - Â‖₂/‖A‖₂, rounding"),
    ):
        moved = [max(getattr(one, name) / (one.spectral or 1.0), 1e-9) for one in layers]
        right.plot(places, moved, style, color=colour, label=label)
    allowed = "1/L: what Lemmas 4.3 and 4.4 allow"
    right.axhline(1 / len(found.layers), color=OTHER, linestyle="--", label=allowed)
    right.set(yscale="log", ylabel="change of the layer, relative")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.set_xlabel("layer")
        axes.set_xticks(places, names, rotation=60 if len(names) > 6 else 0)
    figure.suptitle(f"{_name(found)}: layer by layer (measured)", fontsize=12)
    return figure
