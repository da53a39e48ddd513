"""Neyshabur 2017 as pictures: margins, expected sharpness against KL (Figure 2), the conditions of
Theorem 1 (Figures 5 to 8); with the net beside, where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cushion.measures.records import MeasureTable, NetMeasures
from cushion.papers.canvas import MINE, OTHER, legend_below, new_figure, steps

OF = MeasureTable
Nets = list[tuple[Any, str, str]]  # what is drawn of each net, its colour and its name


def pictures(found: MeasureTable) -> Iterator[tuple[str, Any]]:
    """Each where it was measured."""
    nets = [(found.net, MINE, "this net")]
    if found.beside is not None:
        nets.append((found.beside.net, OTHER, "the net beside it"))
    title = f"{found.net.data} (measure)"
    if found.net.margins is not None and found.net.margin is not None:
        yield "margins", _margins(nets, title)
    if found.net.sharpness is not None and found.net.sharpness.expected is not None:
        yield "expected-sharpness", _bi_criteria(nets, title)
    conditions = [(net.conditions, *look) for net, *look in nets if net.conditions is not None]
    if drawn := [one for one in conditions if one[0].interaction is not None]:
        yield "condition-c1", _interaction(drawn, title)
        yield "condition-c2", _flips(drawn, title)
        yield "condition-c3", _units(drawn, title)


def _margins(nets: list[tuple[NetMeasures, str, str]], title: str) -> Any:
    figure = new_figure(figsize=(7, 4))
    axes = figure.add_subplot()
    for net, colour, label in nets:
        steps(axes, net.margins, colour, label)
        if net.margin is not None:
            axes.axvline(net.margin.value, color=colour, linestyle="--", linewidth=1)
    across = "margin: score of the true class minus the best other (dashed: γ)"
    axes.set(xlabel=across, ylabel="examples", yticks=[], title=f"margins, {title}")
    axes.legend(fontsize=9)
    return figure


def _bi_criteria(nets: list[tuple[NetMeasures, str, str]], title: str) -> Any:
    """Rise of cross-entropy and of error over KL, with error bars of one standard error."""
    figure = new_figure(figsize=(10, 4.2))
    kinds = (("cross-entropy", "sharpness"), ("error", "error_sharpness"))
    look: dict[str, Any] = {"marker": "o", "markersize": 4, "capsize": 3}
    for at, (name, rise) in enumerate(kinds, 1):
        axes = figure.add_subplot(1, 2, at)
        for net, colour, label in nets:
            curve = None if net.sharpness is None else net.sharpness.expected
            points = () if curve is None else curve.points
            across, up = [one.kl for one in points], [getattr(one, rise) for one in points]
            bars = [getattr(one, f"{rise}_standard_error") or 0.0 for one in points]
            if points:
                axes.errorbar(across, up, yerr=bars, color=colour, label=label, **look)
        axes.set(xscale="log", xlabel="KL = ½Σw²/σ² (nats)", ylabel=f"rise of the {name}")
        axes.legend(fontsize=9)
    figure.suptitle(f"expected sharpness against KL, {title}: lower is better", fontsize=12)
    return figure


def _interaction(nets: Nets, title: str) -> Any:
    """Figure 6: 1/μ over all triples, those inside, and those at an end."""
    figure = new_figure(figsize=(12, 4))
    parts = (("figure6", "a ≤ c ≤ b-1"), ("inner", "a < c < b-1"), ("outer", "c = a or c = b-1"))
    for at, (part, name) in enumerate(parts, 1):
        axes = figure.add_subplot(1, 3, at)
        for net, colour, label in nets:
            steps(axes, getattr(net.interaction, part).inverse, colour, label)
        axes.set_title(name, fontsize=10)
        axes.set(xlabel="1/μ", yticks=[])
    figure.suptitle(f"condition C1: interaction of layers, {title}", fontsize=12)
    legend_below(figure)
    return figure


def _flips(nets: Nets, title: str) -> Any:
    """Figure 7: the mean share of a layer's units that a δ can flip, a line a layer."""
    figure = new_figure(figsize=(5 * len(nets) + 1, 4))
    for at, (net, _, label) in enumerate(nets, 1):
        axes = figure.add_subplot(1, len(nets), at)
        for index, part in enumerate(net.activation_flips):
            shade = (0.8 * index / max(1, len(net.activation_flips) - 1), 0.45, 0.7)
            axes.plot(part.deltas, part.mean_fraction, color=shade, label=part.layer)
        axes.set_title(label, fontsize=10)
        across = "size of the perturbation δ (inputs of length 1)"
        axes.set(xscale="log", xlabel=across, ylabel="share of units that can flip")
        if net.activation_flips and len(net.activation_flips) <= 12:
            axes.legend(fontsize=7, title="layer", title_fontsize=7)
    figure.suptitle(f"condition C2: activation flips, {title}", fontsize=12)
    return figure


def _units(nets: Nets, title: str) -> Any:
    """Figures 5 and 8: incoming norm of units over their layer's mean, and lengths of outputs."""
    figure = new_figure(figsize=(10, 4))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for net, colour, label in nets:
        hidden = [part.unit_ratio for part in net.unit_norms[:-1] or net.unit_norms]
        for at, spread in enumerate(hidden):
            if spread is not None:
                heights = [count / spread.count for count in spread.counts]
                name = label if at == 0 else None
                left.stairs(heights, spread.edges, color=colour, label=name)
        steps(right, net.outputs, colour, label)
    left.set(xlabel="incoming norm of a hidden unit / mean of its layer", yticks=[])
    right.set(xlabel="length of the output ‖f(x)‖", yticks=[])
    figure.suptitle(f"condition C3 and outputs, {title}", fontsize=12)
    legend_below(figure)
    return figure
