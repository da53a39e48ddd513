"""The conditions of Theorem 1 as pictures: Figures 5 to 8 of Neyshabur 2017."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cushion.measures.conditions.records import NetConditions
from cushion.measures.records import MeasureTable
from cushion.papers.canvas import MINE, OTHER, legend_below, new_figure, save, steps
from cushion.records import Distribution


def draw_conditions(found: MeasureTable, folder: str) -> list[Path]:
    """C1 over its index sets, C2's curves, C3 of the units, the outputs; with the net beside."""
    nets = [(found.net.conditions, MINE, "this net")]
    if found.beside is not None:
        nets.append((found.beside.net.conditions, OTHER, "the net beside it"))
    drawn = [
        (net, colour, label)
        for net, colour, label in nets
        if net is not None and net.interaction is not None
    ]
    if not drawn:
        return []
    pictures = {"condition-c1": _interaction, "condition-c2": _flips, "condition-c3": _units}
    title = f"{found.net.data} (measure)"
    return [
        path
        for name, picture in pictures.items()
        for path in save(picture(drawn, title), Path(folder), name)
    ]


Nets = list[tuple[NetConditions, str, str]]


def _interaction(nets: Nets, title: str) -> Any:
    """Figure 6: 1/μ over all triples, those inside, and those at an end."""
    figure = new_figure(figsize=(12, 4))
    parts = (("figure6", "a ≤ c ≤ b-1"), ("inner", "a < c < b-1"), ("outer", "c = a or c = b-1"))
    for at, (part, name) in enumerate(parts, 1):
        axes = figure.add_subplot(1, 3, at)
        for net, colour, label in nets:
            steps(axes, getattr(net.interaction, part).inverse, colour, label)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("1/μ")
        axes.set_yticks([])
    figure.suptitle(f"condition C1: interaction of layers, {title}", fontsize=12)
    legend_below(figure)
    return figure


def _flips(nets: Nets, title: str) -> Any:
    """Figure 7: the mean share of a layer's units that a δ can flip, a line a layer."""
    figure = new_figure(figsize=(5 * len(nets) + 1, 4))
    for at, (net, _, label) in enumerate(nets, 1):
        axes = figure.add_subplot(1, len(nets), at)
        for index, part in enumerate(net.activation_flips):
            shade = index / max(1, len(net.activation_flips) - 1)
            axes.plot(
                part.deltas, part.mean_fraction, color=(0.8 * shade, 0.45, 0.7), label=part.layer
            )
        axes.set_xscale("log")
        axes.set_title(label, fontsize=10)
        axes.set_xlabel("size of the perturbation δ (inputs of length 1)")
        axes.set_ylabel("share of units that can flip")
        if net.activation_flips and len(net.activation_flips) <= 12:
            axes.legend(fontsize=7)
    figure.suptitle(f"condition C2: activation flips, {title}", fontsize=12)
    return figure


def _units(nets: Nets, title: str) -> Any:
    """Figures 5 and 8: incoming norm of units over their layer's mean, and lengths of outputs."""
    figure = new_figure(figsize=(10, 4))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for net, colour, label in nets:
        for at, part in enumerate(net.unit_norms[:-1] or net.unit_norms):  # hidden units
            _outline(left, part.unit_ratio, colour, label if at == 0 else "")
        steps(right, net.outputs, colour, label)
    left.set_xlabel("incoming norm of a hidden unit / mean of its layer")
    right.set_xlabel("length of the output ‖f(x)‖")
    for axes in (left, right):
        axes.set_yticks([])
    figure.suptitle(f"condition C3 and outputs, {title}", fontsize=12)
    legend_below(figure)
    return figure


def _outline(axes: Any, spread: Distribution | None, colour: str, label: str) -> None:
    if spread is not None:
        axes.stairs(
            [count / spread.count for count in spread.counts],
            spread.edges,
            color=colour,
            label=label or None,
        )
