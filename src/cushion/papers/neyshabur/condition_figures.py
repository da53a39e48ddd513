"""Neyshabur 2017, Figures 5 to 8: Theorem 1's conditions on a ten-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from cushion.papers.drawings import Curve, Curves, Histogram, Panels, spread_of
from cushion.papers.neyshabur.conditions import (
    DENSITY,
    Conditions,
    Pair,
    alike,
    c2_at_most,
    c3_at_most,
    find_conditions,
    mu_at_least,
    unit_histogram,
)
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

PARTS = {"figure6": "a ≤ c ≤ b-1", "inner": "a < c < b-1", "outer": "c = a or c = b-1"}
_LOW = 1e-3  # shares below it, and above 1 less it, are not shown: nothing happens there
_ZOOM = 0.01  # δ up to which Figure 7's right panel shows
_POOLED = (
    "The histogram of units pools the hidden layers' histograms: each bin's count stands at its "
    "middle."
)


def _page(
    pair: Pair, tables: Sequence[Table], claims: Sequence[Tried], picture: Panels, *notes: str
) -> Page:
    return Page(tables, pair.settings, claims, (*pair.notes, *notes), [picture])


def figure_5(workshop: Workshop) -> Page:
    """C1, C2 and C3 of the learned net."""
    pair = find_conditions(workshop)
    net = pair.learned
    claims = (
        mu_at_least(net, "text", "a < c < b"),
        c2_at_most(net, pair.input_length),
        c3_at_most(net),
    )
    panels = (_inverse(net, "text", "C1, a < c < b"), _flips(net, "C2"), unit_histogram(net))
    return _page(
        pair,
        (_c1_table((net,)), _layer_table((net,))),
        claims,
        Panels("conditions", "Conditions of Theorem 1, learned net", 3, panels),
        "C1's indices are those of its text, a < c < b; Figure 6 has its other sets.",
        "C2 is tried in its weaker reading, without the δ at which less than 1 % of a layer can "
        "flip: over all δ a single pre-activation near 0 decides. In a layer of at most 100 units "
        "the two are one.",
        _POOLED,
    )


def figure_6(workshop: Workshop) -> Page:
    """C1 over three sets of indices, random above learned."""
    pair = find_conditions(workshop)
    nets = (pair.random, pair.learned)
    random, learned = ([net.median_inverse_mu(part) for part in PARTS] for net in nets)
    claims = (
        *(mu_at_least(net, "figure6", PARTS["figure6"]) for net in (pair.learned, pair.random)),
        alike("C1", list(PARTS.values()), learned, random),
    )
    panels = [
        _inverse(net, part, f"{net.label}, {indices}")
        for net in nets
        for part, indices in PARTS.items()
    ]
    title = "C1: 1/μ at random initialisation (top) and learned (bottom)"
    note = "The figure's a ≤ c ≤ b-1 contains the text's a < c < b."
    return _page(pair, [_c1_table(nets)], claims, Panels("interaction", title, 3, panels), note)


def figure_7(workshop: Workshop) -> Page:
    """C2: how many activations can flip, by δ and layer."""
    pair = find_conditions(workshop)
    learned, random = pair.learned, pair.random
    layers = [str(layer["layer"]) for layer in learned.flips]
    claims = (
        c2_at_most(learned, pair.input_length),
        c2_at_most(random, pair.input_length),
        alike("C2", layers, learned.median_c2(), random.median_c2()),
    )
    panels = (
        _flips(random, "random"),
        _flips(learned, "learned"),
        _flips(learned, "learned, zoomed in", _ZOOM),
    )
    return _page(
        pair,
        [_flip_table((random, learned))],
        claims,
        Panels("flips", "C2: share of activations that flip", 3, panels),
        "The curves are means over the examples; C2 is taken over the δ at which at least 1 % of a "
        "layer can flip.",
    )


def figure_8(workshop: Workshop) -> Page:
    """C3 of the units, and the lengths of the outputs."""
    pair = find_conditions(workshop)
    learned, random = pair.learned, pair.random
    nets = (random, learned)
    claims = (
        *(c3_at_most(net) for net in nets),
        alike("C3", learned.record["layers"], learned.median_c3(), random.median_c3()),
    )
    outputs = [
        Histogram(
            "", f"outputs, {net.label}", "‖f(x)‖", [spread_of(DENSITY, net.record["outputs"])]
        )
        for net in nets
    ]
    return _page(
        pair,
        (_layer_table(nets), _output_table(nets)),
        claims,
        Panels("units", "C3 and outputs", 2, [*map(unit_histogram, nets), *outputs]),
        _POOLED,
        'The outputs are the lengths of the score vectors; the paper says no more than "output '
        'values".',
    )


def _inverse(net: Conditions, part: str, title: str) -> Histogram:
    found = net.interaction(part)["inverse"]
    return Histogram("", title, "1/μ", [] if found is None else [spread_of(DENSITY, found)])


def _flips(net: Conditions, title: str, zoom: float | None = None) -> Curves:
    """One line a layer; `zoom`: the δ up to which it is shown, on plain axes."""
    curves = []
    for layer in net.flips:
        both = zip(layer["deltas"], layer["mean_fraction"], strict=True)
        places = [(d, f) for d, f in both if (d <= zoom if zoom else _LOW <= f <= 1 - _LOW)]
        curves.append(Curve(str(layer["layer"]), [d for d, _ in places], [f for _, f in places]))
    axes = ("δ (inputs of length 1)", "share that can flip")
    return Curves("", title, *axes, curves, x_log=zoom is None)


def _c1_table(nets: Sequence[Conditions]) -> Table:
    sets = {"text": "a < c < b", **PARTS}
    return Table.of(
        "C1 over triples and examples:",
        [(net, part) for net in nets for part in sets],
        {
            "net": lambda row: row[0].label,
            "indices": lambda row: sets[row[1]],
            "triples": lambda row: row[0].interaction(row[1])["triples"],
            "median 1/μ": lambda row: _finite(row[0].median_inverse_mu(row[1])),
            "largest 1/μ": lambda row: _finite(row[0].inverse_mu(row[1])),
        },
    )


def _layer_table(nets: Sequence[Conditions]) -> Table:
    flips = {(net.label, layer["layer"]): layer for net in nets for layer in net.flips}
    rows = [{"net": net.label, **layer} for net in nets for layer in net.units]

    def c2(which: str, row: dict[str, Any]) -> float | None:
        found: float | None = flips.get((row["net"], row["layer"]), {}).get(which)
        return found

    return Table.of(
        "C2 and C3 by layer, the largest over the examples:",
        rows,
        {
            "net": "net",
            "layer": "layer",
            "C2": partial(c2, "restricted"),
            "C2, all δ": partial(c2, "value"),
            "C3": "value",
            "largest unit / mean": lambda row: row["unit_ratio"] and row["unit_ratio"]["value"],
        },
    )


def _flip_table(nets: Sequence[Conditions]) -> Table:
    header = ["layer", "units"]
    columns: list[list[Any]] = [[layer[key] for layer in nets[0].flips] for key in header]
    for net in nets:
        header += [f"{net.label}: {name}" for name in ("median C2", "C2", "C2, all δ")]
        columns.append([_finite(value) for value in net.median_c2()])
        columns += [[layer[key] for layer in net.flips] for key in ("restricted", "value")]
    caption = "C2 by layer: median and largest over the examples:"
    return Table(header, list(zip(*columns, strict=True)), caption)


def _output_table(nets: Sequence[Conditions]) -> Table:
    found = {net.label: net.record["outputs"]["quantiles"] for net in nets}
    rows = [(label, one["0.05"], one["0.5"], one["0.95"]) for label, one in found.items()]
    return Table(("net", "5 %", "median", "95 %"), rows, "Lengths of the outputs ‖f(x)‖:")


def _finite(value: float | None) -> float | None:
    """None where JSON has no such number."""
    return None if value is None or value == float("inf") else value
