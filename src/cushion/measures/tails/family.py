"""Tails of the weights and of their spectra (Shin 2021) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cushion.measures.family import Context, Family, Found, View, column_of
from cushion.measures.tails.records import LayerTails, TailFits, TailsOfLayer
from cushion.progress import progress
from cushion.records import Options, option

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_POWER = "alpha alpha_error tail_index xmin ks_distance tail share reach"
_PLAIN = "alpha alpha_error scale location ks_distance"
_SKEWED = "alpha alpha_error beta beta_error scale location ks_distance"
_EXPONENTS = (
    "name tails.weights.power_law.alpha tails.eigenvalues.power_law.alpha "
    "tails.weights.stable.alpha"
)


class TailOptions(Options):
    """100 draws of the bootstrap tell p to 0.05, 2500 to 0.01; each costs a fit."""

    bootstrap: int = option(
        0, "samples that test each power law's fit, such as 100; 0: no test", least=0, most=10**6
    )
    seed: int = option(0, "of those draws; all layers use the same", least=0, most=2**63 - 1)


def _measure(context: Context) -> Found:
    from cushion.measures.tails.measurement import layer_tails

    layers = {}
    for node in progress(context.net.affine_layers, "tails", "layer"):
        tails = layer_tails(node.affine.operator.weight, context.options)
        law = tails.weights.power_law
        layers[node.index] = TailsOfLayer(None if law is None else law.alpha, tails)
    return Found(layers)


def _views(table: MeasureTable) -> Iterator[View]:
    title = "Tails of the weights |w| (Shin 2021): a power law from xmin on"
    yield _power_laws(table, "weights", title)
    fits = _fits(table, "weights")
    plain = _below("tails.weights.stable", _PLAIN)
    columns = f"name tails.weights.count {plain} {_below('tails.weights.stable_skewed', _SKEWED)}"
    refused = [f"layer {name}: no fit: {one.no_stable}" for name, one in fits if one.no_stable]
    yield View("Stable laws of all weights of a layer", table.layers, columns, refused)
    title = "Tails of the eigenvalues of WWᵀ (heavy-tailed self-regularisation)"
    yield _power_laws(table, "eigenvalues", title)
    if doubts := _doubts([*fits, *_fits(table, "eigenvalues")]):
        yield View("Why not to believe them", [], "", doubts)
    if table.beside is not None:
        title = "The exponents, and those of the net beside it"
        yield View(title, table.layers, _EXPONENTS, beside=table.beside.layers)


def _fits(table: MeasureTable, what: str) -> list[tuple[str, TailFits]]:
    return [(layer.name, getattr(layer.tails, what)) for layer in table.layers]


def _below(record: str, names: str) -> str:
    return " ".join(f"{record}.{name}" for name in names.split())


def _power_laws(table: MeasureTable, what: str, title: str) -> View:
    rest = f"{_below(f'tails.{what}.power_law', _POWER)} tails.{what}.goodness.p"
    columns = f"name shape tails.{what}.count {rest} tails.{what}.likeliest"
    notes = [
        f"layer {name}: no fit: {one.no_fit}" for name, one in _fits(table, what) if one.no_fit
    ]
    for name, one in _fits(table, what):
        notes += [f"layer {name}: not compared: {one.no_comparisons}"] if one.no_comparisons else []
    column = column_of(LayerTails, what)
    notes += [] if column is None else [f"{what}: {column.meaning}"]
    return View(title, table.layers, columns, notes)


def _doubts(fits: list[tuple[str, TailFits]]) -> list[str]:
    """A sentence each; nothing where nothing was fitted."""
    fitted = [(name, one) for name, one in fits if one.power_law or one.stable or one.doubts]
    lines = [f"layer {name}, {one.what}: {doubt}" for name, one in fitted for doubt in one.doubts]
    silent = [f"layer {name} ({one.what})" for name, one in fitted if not one.doubts]
    if silent:
        lines.append(f"nothing that was looked at speaks against: {', '.join(silent)}")
    return lines


FAMILY = Family(
    "tails",
    _measure,
    "tails (Shin 2021)",
    TailOptions,
    TailsOfLayer,
    effort=8,
    ways=("trace", "hooks", "weights"),
    at_rest=True,
    views=_views,
)
