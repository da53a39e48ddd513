"""Norms of the weights, of the paths, and singular values: three families of measures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cushion.measures.family import Context, Family, Found, View
from cushion.measures.norms.records import LayerNorms, LayerSpectra, NetNorms, NetPaths
from cushion.progress import progress
from cushion.records import Options, option

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_EXPONENTS = (1.0, 2.0)
_NORMS = (
    "name kind shape frobenius operator_frobenius spectral spectral_upper stable_rank "
    "group_norms.l1_inf group_norms.l2_1 group_norms.trace_norm group_norms.trace_norm_exact "
    "distance.frobenius distance.spectral"
)
_SPECTRA = (
    "name spectrum.count spectrum.exact spectrum.spectral spectrum.median spectrum.stable_rank "
    "spectrum.effective_rank_90 kernel_spectrum.count kernel_spectrum.spectral "
    "kernel_spectrum.effective_rank_90"
)


class NormOptions(Options):
    """Which norms are worth their time."""

    trace_norms: bool = option(False, "sums of singular values too, by far the dearest norms")


def _measure_norms(context: Context) -> Found:
    from cushion.measures.norms.layers import layer_norms, squared_distance

    net, initial = context.net, context.initial
    layers = {}
    for at, node in enumerate(progress(net.affine_layers, "norms", "layer")):
        start = None if initial is None else initial.affine_layers[at].affine
        trace, seed = context.options.trace_norms, context.seed
        layers[node.index] = layer_norms(node.affine, start, trace_norms=trace, seed=seed)
    distance = None if initial is None else math.sqrt(squared_distance(net, initial))
    return Found(layers, NetNorms(math.sqrt(squared_distance(net)), distance))


def _measure_paths(context: Context) -> Found:
    from cushion.measures.norms.paths import path_norms

    return Found(net=NetPaths(path_norms(context.net, _EXPONENTS)))


def _measure_spectra(context: Context) -> Found:
    from cushion.measures.spectra import kernel_spectrum, layer_spectrum

    layers = {}
    for node in progress(context.net.affine_layers, "spectra", "layer"):
        operator, seed = node.affine.operator, context.seed
        spectra = layer_spectrum(operator, seed=seed), kernel_spectrum(operator, seed=seed)
        layers[node.index] = LayerSpectra(*spectra)
    return Found(layers)


def _show_norms(table: MeasureTable) -> Iterator[View]:
    yield View("Norms of the layers", table.layers, _NORMS)
    yield View("Norms of the net", [table.net], "l2 distance", upright=True)


def _show_paths(table: MeasureTable) -> Iterator[View]:
    note = (
        "unchanged if what enters a hidden unit is multiplied, and what leaves it divided, by a > 0"
    )
    yield View("Path norms", table.net.path_norms, "p log10 log10_with_biases", [note])


def _show_spectra(table: MeasureTable) -> Iterator[View]:
    note = "few large values carry the signal, noise spreads over all"
    yield View("Singular values of each layer", table.layers, _SPECTRA, [note])


_WEIGHTS: Any = {"ways": ("trace", "hooks", "weights"), "at_rest": True}
NORMS = Family(
    "norms",
    _measure_norms,
    "norms",
    NormOptions,
    LayerNorms,
    NetNorms,
    views=_show_norms,
    **_WEIGHTS,
)
PATHS = Family(
    "paths",
    _measure_paths,
    net=NetPaths,
    premises=("contracts",),
    at_rest=True,
    views=_show_paths,
    effort=0.2,
)
SPECTRA = Family("spectra", _measure_spectra, layer=LayerSpectra, views=_show_spectra, **_WEIGHTS)
