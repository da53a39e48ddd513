"""A compression as pictures, each where the summary has the numbers for it: error against size,
error and bound of all that was tried, layer by layer, and two rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cushion.compressors.records import CurvePoint
from cushion.papers.canvas import MINE, OTHER, new_figure, save

# Stays apart from MINE and OTHER in every common kind of colour blindness (Okabe and Ito).
_THIRD = "#009E73"
_BEFORE = {"color": "#666666", "linewidth": 1, "linestyle": "-."}


def draw(found: Any, folder: str) -> list[Path]:
    """Every picture that the summary has the numbers for. Where several settings were tried, they
    are the curve.
    """
    paths: list[Path] = []
    tried = getattr(found, "tried", ())
    if len(tried) > 1:
        paths += save(_tried(found), Path(folder), f"{found.method}-tried")
    curve: tuple[object, ...] = getattr(found, "curve", ())
    if curve and not tried:
        paths += save(_curve(found), Path(folder), f"{found.method}-size")
    if hasattr(found.layers[0], "shift"):
        paths += save(_shifts(found), Path(folder), f"{found.method}-layers")
    elif len(found.layers) > 1:
        paths += save(_layers(found), Path(folder), f"{found.method}-layers")
    if getattr(found, "rates", ()):
        paths += save(_rates(found), Path(folder), "vector-rates")
    return paths


def _curve(found: Any) -> Any:
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
        axes.axvline(found.parameters_before, label="the net as it was", **_BEFORE)
        axes.set_xlabel("numbers stored")
        axes.legend(fontsize=8)
        _bits_above(axes, points)
    figure.suptitle(f"{_name(found)}: error against size (measured)", fontsize=12)
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


def _layers(found: Any) -> Any:
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
            label="(i/d)·ε, where it is promised",
        )
    axes.set_yscale("log")
    axes.set_xticks(range(depth), names, rotation=60 if depth > 6 else 0)
    axes.set_ylabel("worst relative error of the output")
    axes.set_title(f"{_name(found)}: error layer by layer (measured)", fontsize=12)
    axes.legend(fontsize=8)
    return figure


def _rates(found: Any) -> Any:
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
    axes.axhline(1.0, label="above: nothing is said", **_BEFORE)
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


def _name(found: Any) -> str:
    """The method, and which of its kinds."""
    kind = getattr(found, "rule", "") or getattr(found, "form", "") or getattr(found, "helper", "")
    variant = ", a variant" if getattr(found, "variant", "") else ""
    return f"{found.method} ({kind}{variant})" if kind else found.method


def _tried(found: Any) -> Any:
    """Training error and Occam bound over the non-zeros, one line for each grid."""
    figure = new_figure(figsize=(10, 4.2))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    grids = list(dict.fromkeys(one.grid for one in found.tried))
    for at, grid in enumerate(grids):
        line = sorted((one for one in found.tried if one.grid == grid), key=lambda one: one.count)
        shade = str(0.75 - 0.65 * at / max(1, len(grids) - 1)) if len(grids) > 1 else MINE
        across = [max(1, one.count) for one in line]
        left.plot(
            across,
            [one.errors / found.m for one in line],
            "o-",
            color=shade,
            markersize=4,
            label=grid,
        )
        right.plot(across, [one.bound for one in line], "o-", color=shade, markersize=4, label=grid)
    ticks = _apart(sorted({max(1, one.count) for one in found.tried}))
    taken = [one for one in found.tried if one.chosen]
    for axes, values, name in (
        (left, [one.errors / found.m for one in taken], "error, training set (measured)"),
        (
            right,
            [one.bound for one in taken],
            f"Occam bound on the error (delta = {found.delta:g})",
        ),
    ):
        axes.plot(
            [max(1, one.count) for one in taken],
            values,
            "s",
            color=OTHER,
            markersize=9,
            fillstyle="none",
            label="taken",
        )
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("weights that are left")
        axes.set_ylabel(name)
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
    """The share of each layer's weights that is left, and ‖Δ‖₂ and the rounding over ‖A‖₂ beside
    Lemma 4.4's 1/L.
    """
    layers = [layer for layer in found.layers if layer.normality is not None]
    names, places = [layer.name for layer in layers], range(len(layers))
    figure = new_figure(figsize=(10, 4.2))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    left.bar(places, [layer.nonzeros / layer.weights for layer in layers], color=MINE)
    left.set_ylabel("share of weights that is left")
    left.set_ylim(0, 1)
    positive = [layer.spectral if layer.spectral > 0 else 1.0 for layer in layers]
    shifts = [layer.shift / size for layer, size in zip(layers, positive, strict=True)]
    rounding = [layer.rounding / size for layer, size in zip(layers, positive, strict=True)]
    right.plot(
        places, [max(one, 1e-9) for one in shifts], "o-", color=MINE, label="‖Δ‖₂/‖A‖₂, pruning"
    )
    right.plot(
        places,
        [max(one, 1e-9) for one in rounding],
        "^:",
        color=_THIRD,
        label="‖Ã - Â‖₂/‖A‖₂, rounding",
    )
    right.axhline(
        1 / len(found.layers),
        color=OTHER,
        linestyle="--",
        label="1/L: what Lemmas 4.3 and 4.4 allow",
    )
    right.set_yscale("log")
    right.set_ylabel("change of the layer, relative")
    right.legend(fontsize=8)
    left.axhline(found.errors_before / found.m, label="the net as it was", **_BEFORE)
    for axes in (left, right):
        axes.set_xticks(places, names, rotation=60 if len(names) > 6 else 0)
    figure.suptitle(f"{_name(found)}: layer by layer (measured)", fontsize=12)
    return figure
