"""Neyshabur 2017, Figures 5 to 8: the conditions of Theorem 1 on a ten-layer perceptron and its
initialisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cushion.papers.drawings import Curve, Curves, Drawing, Histogram, Panels, spread_of
from cushion.papers.neyshabur.condition_claims import (
    alike,
    c2_at_most,
    c3_at_most,
    mu_at_least,
)
from cushion.papers.neyshabur.conditions import (
    DENSITY,
    Conditions,
    Pair,
    find_conditions,
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
        (
            "C1's indices are those of its text, a < c < b; Figure 6 has its other sets.",
            "C2 is tried in its weaker reading, without the δ at which less than 1 % of a layer "
            "can flip: over all δ a single pre-activation near 0 decides. In a layer of at most "
            "100 units the two are one.",
            _POOLED,
        ),
    )


def figure_6(workshop: Workshop) -> Page:
    """C1 over three sets of indices, random above learned."""
    pair = find_conditions(workshop)
    claims = (
        mu_at_least(pair.learned, "figure6", PARTS["figure6"]),
        mu_at_least(pair.random, "figure6", PARTS["figure6"]),
        alike(
            "C1 of the learned net is very similar to that of its random initialisation",
            tuple(PARTS.values()),
            [pair.learned.median_inverse_mu(part) for part in PARTS],
            [pair.random.median_inverse_mu(part) for part in PARTS],
        ),
    )
    panels = tuple(
        _inverse(net, part, f"{net.label}, {indices}")
        for net in (pair.random, pair.learned)
        for part, indices in PARTS.items()
    )
    return _page(
        pair,
        (_c1_table((pair.random, pair.learned)),),
        claims,
        Panels(
            "interaction", "C1: 1/μ at random initialisation (top) and learned (bottom)", 3, panels
        ),
        ("The figure's a ≤ c ≤ b-1 contains the text's a < c < b.",),
    )


def figure_7(workshop: Workshop) -> Page:
    """C2: how many activations can flip, by δ and layer."""
    pair = find_conditions(workshop)
    claims = (
        c2_at_most(pair.learned, pair.input_length),
        c2_at_most(pair.random, pair.input_length),
        alike(
            "C2 of the learned net is very similar to that of its random initialisation",
            [str(layer["layer"]) for layer in pair.learned.flips],
            pair.learned.median_c2(),
            pair.random.median_c2(),
        ),
    )
    panels = (
        _flips(pair.random, "random"),
        _flips(pair.learned, "learned"),
        _flips(pair.learned, "learned, zoomed in", _ZOOM),
    )
    return _page(
        pair,
        (_flip_table(pair),),
        claims,
        Panels("flips", "C2: share of activations that flip", 3, panels),
        (
            "The curves are means over the examples; C2 is taken over the δ at which at least 1 % "
            "of a layer can flip.",
        ),
    )


def figure_8(workshop: Workshop) -> Page:
    """C3 of the units, and the lengths of the outputs."""
    pair = find_conditions(workshop)
    claims = (
        c3_at_most(pair.random),
        c3_at_most(pair.learned),
        alike(
            "C3 of the learned net is very similar to that of its random initialisation",
            pair.learned.layers,
            pair.learned.median_c3(),
            pair.random.median_c3(),
        ),
    )
    nets = (pair.random, pair.learned)
    outputs = tuple(
        Histogram(
            "", f"outputs, {net.label}", "‖f(x)‖", (spread_of(DENSITY, net.record["outputs"]),)
        )
        for net in nets
    )
    return _page(
        pair,
        (_layer_table(nets), _output_table(nets)),
        claims,
        Panels("units", "C3 and outputs", 2, (*(unit_histogram(net) for net in nets), *outputs)),
        (
            _POOLED,
            "The outputs are the lengths of the score vectors; the paper says no more than "
            '"output values".',
        ),
    )


def _page(
    pair: Pair,
    tables: Sequence[Table],
    claims: Sequence[Tried],
    picture: Drawing,
    notes: Sequence[str],
) -> Page:
    return Page(
        tables=tuple(tables),
        settings=pair.settings,
        claims=tuple(claims),
        notes=(*pair.notes, *notes),
        pictures=(picture,),
    )


def _inverse(net: Conditions, part: str, title: str) -> Histogram:
    found = net.interaction(part)["inverse"]
    return Histogram("", title, "1/μ", () if found is None else (spread_of(DENSITY, found),))


def _flips(net: Conditions, title: str, zoom: float | None = None) -> Curves:
    """One line a layer; `zoom`: the δ up to which it is shown, on plain axes."""
    curves = []
    for layer in net.flips:
        both = zip(layer["deltas"], layer["mean_fraction"], strict=True)
        places = [(d, f) for d, f in both if (d <= zoom if zoom else _LOW <= f <= 1 - _LOW)]
        curves.append(
            Curve(str(layer["layer"]), tuple(d for d, _ in places), tuple(f for _, f in places))
        )
    return Curves(
        "",
        title,
        "δ (inputs of length 1)",
        "share that can flip",
        tuple(curves),
        x_log=zoom is None,
    )


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

    def c2(which: str) -> Callable[[dict[str, Any]], float | None]:
        return lambda row: flips.get((row["net"], row["layer"]), {}).get(which)

    return Table.of(
        "C2 and C3 by layer, the largest over the examples:",
        rows,
        {
            "net": "net",
            "layer": "layer",
            "C2": c2("restricted"),
            "C2, all δ": c2("value"),
            "C3": "value",
            "largest unit / mean": lambda row: row["unit_ratio"] and row["unit_ratio"]["value"],
        },
    )


def _flip_table(pair: Pair) -> Table:
    columns: dict[str, Callable[[int], Any]] = {
        "layer": lambda at: pair.random.flips[at]["layer"],
        "units": lambda at: pair.random.flips[at]["units"],
    }
    reads: dict[str, Callable[[Conditions, int], float | None]] = {
        "median C2": lambda net, at: _finite(net.median_c2()[at]),
        "C2": lambda net, at: net.flips[at]["restricted"],
        "C2, all δ": lambda net, at: net.flips[at]["value"],
    }
    for net in (pair.random, pair.learned):
        columns |= {f"{net.label}: {name}": partial(read, net) for name, read in reads.items()}
    caption = "C2 by layer: median and largest over the examples:"
    return Table.of(caption, range(len(pair.random.flips)), columns)


def _output_table(nets: Sequence[Conditions]) -> Table:
    levels = {"5 %": "0.05", "median": "0.5", "95 %": "0.95"}
    columns: dict[str, Callable[[Conditions], Any]] = {"net": lambda net: net.label}
    for name, level in levels.items():
        columns[name] = partial(lambda key, net: net.record["outputs"]["quantiles"][key], level)
    return Table.of("Lengths of the outputs ‖f(x)‖:", nets, columns)


def _finite(value: float | None) -> float | None:
    """None where JSON has no such number."""
    return None if value is None or value == float("inf") else value
