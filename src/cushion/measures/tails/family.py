"""Tails of the weights and of their spectra (Shin 2021) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cushion.measures.family import Context, Family, Found, View, column_of
from cushion.measures.tails.options import TailOptions
from cushion.measures.tails.records import LayerTails, TailFits, TailsOfLayer
from cushion.progress import progress

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_POWER = ("alpha", "alpha_error", "tail_index", "xmin", "ks_distance", "tail", "share", "reach")
_PLAIN = ("alpha", "alpha_error", "scale", "location", "ks_distance")
_SKEWED = ("alpha", "alpha_error", "beta", "beta_error", *_PLAIN[2:])
_EXPONENTS = ("weights.power_law", "eigenvalues.power_law", "weights.stable")


def _measure(context: Context) -> Found:
    from cushion.measures.tails.measurement import layer_tails

    layers = {}
    for node in progress(context.net.affine_layers, "tails", "layer"):
        tails = layer_tails(node.affine.operator.weight, context.options)
        law = tails.weights.power_law
        layers[node.index] = TailsOfLayer(None if law is None else law.alpha, tails)
    return Found(layers)


def _views(table: MeasureTable) -> Iterator[View]:
    yield _power_laws(
        table, "weights", "Tails of the weights |w| (Shin 2021): a power law from xmin on"
    )
    fits = _fits(table, "weights")
    plain = [f"tails.weights.stable.{name}" for name in _PLAIN]
    skewed = [f"tails.weights.stable_skewed.{name}" for name in _SKEWED]
    columns = " ".join(["name tails.weights.count", *plain, *skewed])
    refused = [f"{name}: no fit: {one.no_stable}" for name, one in fits if one.no_stable]
    yield View("Stable laws of all weights of a layer", table.layers, columns, refused)
    yield _power_laws(
        table, "eigenvalues", "Tails of the eigenvalues of WWᵀ (heavy-tailed self-regularisation)"
    )
    if doubts := _doubts([*fits, *_fits(table, "eigenvalues")]):
        yield View("Why not to believe them", [], "", doubts)
    if table.beside is not None:
        title = "The exponents, and those of the net beside it"
        columns = " ".join(["name", *(f"tails.{one}.alpha" for one in _EXPONENTS)])
        yield View(title, table.layers, columns, beside=table.beside.layers)


def _fits(table: MeasureTable, what: str) -> list[tuple[str, TailFits]]:
    return [(layer.name, getattr(layer.tails, what)) for layer in table.layers]


def _power_laws(table: MeasureTable, what: str, title: str) -> View:
    law = [f"tails.{what}.power_law.{name}" for name in _POWER]
    rest = [f"tails.{what}.goodness.p", f"tails.{what}.likeliest"]
    columns = " ".join(["name", "shape", f"tails.{what}.count", *law, *rest])
    fits = _fits(table, what)
    notes = [f"{name}: no fit: {one.no_fit}" for name, one in fits if one.no_fit]
    notes += [
        f"{name}: not compared: {one.no_comparisons}" for name, one in fits if one.no_comparisons
    ]
    column = column_of(LayerTails, what)
    notes += [] if column is None else [f"{what}: {column.meaning}"]
    return View(title, table.layers, columns, notes)


def _doubts(fits: list[tuple[str, TailFits]]) -> list[str]:
    """A sentence each; nothing where nothing was fitted."""
    fitted = [(name, one) for name, one in fits if one.power_law or one.stable or one.doubts]
    lines = [f"{name}, {one.what}: {doubt}" for name, one in fitted for doubt in one.doubts]
    silent = [f"{name} ({one.what})" for name, one in fitted if not one.doubts]
    if silent:
        lines.append(f"nothing that was looked at speaks against: {', '.join(silent)}")
    return lines


FAMILY = Family(
    name="tails",
    effort=8,
    title="tails (Shin 2021)",
    options=TailOptions,
    layer=TailsOfLayer,
    measure=_measure,
    views=_views,
)
