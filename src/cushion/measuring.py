"""measure(): from a net and its sample to one table of diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from cushion.batches import as_floats
from cushion.data import Dataset, as_dataset
from cushion.engine import Accumulators, Samples, map_shards
from cushion.errors import BadInput
from cushion.measure_records import LayerMeasures, MeasureTable, NetMeasures
from cushion.measures.distribution import describe
from cushion.measures.margins import sample_margins
from cushion.measures.norms import layer_norms
from cushion.measures.spectra import difference, kernel_spectrum, layer_spectrum
from cushion.measures.stability.claims import check_claims
from cushion.measures.stability.comparison import check_alike, random_like, scaled_to_match
from cushion.measures.stability.measurement import measure_stability
from cushion.measures.stability.one_pass import NormObserver, OnePass
from cushion.measures.stability.options import StabilityOptions
from cushion.measures.stability.sensitivity import Draw, measure_sensitivity
from cushion.network import Network, Node, Stage
from cushion.stability_records import NoiseSensitivity, Weights
from cushion.tracing import trace

FAMILIES = ("stability", "spectra", "norms", "margins")
_BATCH = 256


def measure(
    model: nn.Module | Network,
    data: Dataset | str,
    *,
    only: str | Sequence[str] | None = None,
    batch: int = _BATCH,
    stability: StabilityOptions | None = None,
    init: nn.Module | Network | None = None,
    beside: Literal["init", "random"] | None = None,
    spectra: bool = True,
) -> MeasureTable:
    """Measure a net on its training set: margins, norms, noise stability (`only` names families to keep).

    `stability` chooses probes, draws and rows; `init`, the net at its initialisation, adds the versions from
    initialisation. `spectra=False` leaves the singular values out. `beside` measures a second net in the same way: the
    initialisation scaled to match the net's layers, or random weights of the same norms. The model is not changed.
    """
    data = as_dataset(data)
    families = _families(only, spectra)
    if beside is not None and "stability" not in families:
        raise BadInput("--beside compares noise stability; measure it too (--only stability)")
    net = _traced(model, data)
    if net.classes < data.classes:
        raise BadInput(
            f"the net gives {net.classes} scores, but {data.name} has {data.classes} classes; use its own data"
        )
    initial = None if init is None else _traced(init, data)
    if initial is not None:
        check_alike(net, initial, "the initialisation")
    if beside == "init" and initial is None:
        raise BadInput("--beside init needs the net's initialisation: give a RUN folder, or use --beside random")
    options = stability or StabilityOptions()
    table = _measure(net, data, families, batch, options, initial)
    if beside is None:
        return table
    if beside == "init" and initial is not None:
        twin = _measure(scaled_to_match(net, initial), data, families, batch, options, None, "initial")
    else:
        twin = _measure(random_like(net, options.seed), data, families, batch, options, None, "random")
    return replace(table, beside=twin, claims=check_claims(table, twin))


def noise_sensitivity(
    model: nn.Module | Network,
    data: Dataset | str,
    start: str,
    end: str,
    *,
    noise: str | Draw = "gaussian",
    scale: float = 1.0,
    draws: int = 20,
    seed: int = 0,
) -> NoiseSensitivity:
    """The noise sensitivity of the part of a net from the input of layer `start` to the output of layer `end`.

    `noise` is "gaussian" (N(0, I) as in Proposition 3.1), "sphere", "signs", or a function that draws [B, *shape] from
    a torch.Generator; `scale` multiplies it (sphere with scale 0.1: noise of 10 %). Names are those of `table.layers`.
    """
    sample = as_dataset(data)
    net = _traced(model, sample)
    return measure_sensitivity(net, sample, start, end, noise, scale=scale, draws=draws, seed=seed)


def _families(only: str | Sequence[str] | None, spectra: bool) -> tuple[str, ...]:
    families = FAMILIES if only is None else tuple(only.split(",")) if isinstance(only, str) else tuple(only)
    for family in families:
        if family not in FAMILIES:
            raise BadInput(f"there is no family of measures called {family!r}; choose from {', '.join(FAMILIES)}")
    whole = (*families, "spectra") if "stability" in families else families  # noise spreads over the whole spectrum
    return whole if spectra else tuple(family for family in whole if family != "spectra")


def _traced(model: nn.Module | Network, data: Dataset) -> Network:
    return model if isinstance(model, Network) else trace(model, data.shape)


def _measure(
    net: Network,
    data: Dataset,
    families: tuple[str, ...],
    batch: int,
    options: StabilityOptions,
    initial: Network | None,
    weights: Weights = "trained",
) -> MeasureTable:
    stable, marginal = "stability" in families, "margins" in families
    passed = one_pass(net, data, batch, norms=stable, margins=marginal)
    rows = {node.index: _describe_layer(node) for node in net.affine_layers}
    if "norms" in families:
        for node in tqdm(net.affine_layers, desc="norms", unit="layer", disable=None, delay=2, leave=False):
            rows[node.index] = replace(rows[node.index], **vars(layer_norms(node.affine.operator)))
    whole = None
    if stable:
        norms: OnePass = {key: values for key, values in passed.items() if key != "margins"}  # type: ignore[misc]
        layers, whole = measure_stability(net, data, norms, options, initial, weights)
        rows = {index: replace(row, **vars(layers[index])) for index, row in rows.items()}
    if "spectra" in families:
        rows = _with_spectra(net, rows, options.seed, initial)
    margins = passed["margins"] if marginal else None
    spread = None if margins is None else describe(margins, "min")
    errors = None if margins is None else int((margins <= 0).sum())
    return MeasureTable(
        layers=tuple(rows.values()),
        net=NetMeasures(
            m=len(data),
            classes=net.classes,
            parameters=net.parameters,
            depth=len(net.affine_layers),
            is_chain=net.is_chain,
            not_a_chain_because=net.not_a_chain_because,
            data=data.name,
            data_fingerprint=data.fingerprint,
            errors=errors,
            error_rate=None if errors is None else errors / len(data),
            margins=spread,
            margin_5th=None if spread is None else spread.quantiles["0.05"],
            stability=whole,
        ),
    )


def one_pass(net: Network, data: Dataset, batch: int, *, norms: bool, margins: bool) -> dict[object, np.ndarray]:
    """One number per example: margins under "margins", the three norms of each affine layer under (index, stage)."""
    if not (norms or margins):
        return {}

    order: list[tuple[int, Stage]] = []  # the columns of the norms, the same in every shard

    def work(rows: slice) -> Accumulators:
        observer = NormObserver()
        logits = net.run(as_floats(data.x[rows]), observer if norms else None)
        if not bool(torch.isfinite(logits).all()):
            raise BadInput(f"the net's scores on {data.name} are not finite near row {rows.start}; check its weights")
        found: dict[str, Samples] = {}
        if norms:  # one array of all columns: a conversion for each would cost as much as the norms
            order[:] = observer.norms
            found["norms"] = Samples.of(rows.start, torch.stack(list(observer.norms.values()), dim=1).numpy())
        if margins:
            labels = torch.from_numpy(np.array(data.y[rows]))
            found["margins"] = Samples.of(rows.start, sample_margins(logits, labels).numpy())
        return found

    merged = {
        key: samples.values() for key, samples in map_shards(len(data), batch, work, describe="measuring").items()
    }
    columns: dict[object, np.ndarray] = {"margins": merged["margins"]} if margins else {}
    return columns | {key: np.ascontiguousarray(merged["norms"][:, at]) for at, key in enumerate(order)}


def _with_spectra(
    net: Network, rows: dict[int, LayerMeasures], seed: int, initial: Network | None
) -> dict[int, LayerMeasures]:
    """The rows with the singular values of every layer's map and kernel, and of what training changed."""
    found = {}
    for at, node in enumerate(
        tqdm(net.affine_layers, desc="spectra", unit="layer", disable=None, delay=2, leave=False)
    ):
        operator, row = node.affine.operator, rows[node.index]
        changed = row.from_initialisation
        if changed is not None and initial is not None:
            moved = difference(operator, initial.affine_layers[at].affine.operator)
            changed = replace(changed, spectrum=layer_spectrum(moved, seed=seed))
        found[node.index] = replace(
            row,
            spectrum=layer_spectrum(operator, seed=seed),
            kernel_spectrum=kernel_spectrum(operator, seed=seed),
            from_initialisation=changed,
        )
    return found


def _describe_layer(node: Node) -> LayerMeasures:
    operator = node.affine.operator
    return LayerMeasures(
        name=node.name,
        kind=node.affine.kind,
        shape=tuple(operator.weight.shape),
        input_shape=tuple(operator.input_shape),
        output_shape=tuple(operator.output_shape),
        parameters=node.affine.parameters,
    )
