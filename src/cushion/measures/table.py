"""measure(): from a net and its sample to one table of diagnostics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cushion.data import Dataset, as_dataset
from cushion.errors import BadInput
from cushion.measures.conditions.measurement import measure_conditions
from cushion.measures.conditions.options import ConditionOptions
from cushion.measures.distribution import describe
from cushion.measures.margins import epsilon_margin, margin_loss, sample_margins
from cushion.measures.norms.groups import distance_from_initialisation, group_norms
from cushion.measures.norms.layers import layer_norms, squared_distance
from cushion.measures.norms.paths import path_norms
from cushion.measures.norms.spectra import kernel_spectrum, layer_spectrum
from cushion.measures.records import LayerMeasures, Margin, MeasureTable, NetMeasures
from cushion.measures.sharpness.measurement import measure_sharpness
from cushion.measures.sharpness.options import SharpnessOptions
from cushion.measures.stability.claims import check_claims
from cushion.measures.stability.comparison import check_alike, random_like, scaled_to_match
from cushion.measures.stability.measurement import measure_stability
from cushion.measures.stability.one_pass import NormObserver, OnePass
from cushion.measures.stability.options import StabilityOptions
from cushion.measures.stability.records import NoiseSensitivity, Weights
from cushion.measures.stability.sensitivity import Draw, measure_sensitivity
from cushion.measures.tails.measurement import layer_tails
from cushion.measures.tails.options import TailOptions
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.module import NetworkModule
from cushion.nets.network import Network, Node, Stage
from cushion.nets.tracing import trace
from cushion.progress import progress

FAMILIES = ("stability", "spectra", "norms", "paths", "margins", "sharpness", "conditions", "tails")
_BATCH = 256
_PATHS = (1.0, 2.0)


@dataclass(frozen=True)
class _Options:
    stability: StabilityOptions
    sharpness: SharpnessOptions
    conditions: ConditionOptions
    tails: TailOptions
    epsilon: float
    batch: int
    singular_values: bool


def measure(
    model: nn.Module | Network,
    data: Dataset | str,
    *,
    only: str | Sequence[str] | None = None,
    batch: int = _BATCH,
    stability: StabilityOptions | None = None,
    sharpness: SharpnessOptions | None = None,
    conditions: ConditionOptions | None = None,
    tails: TailOptions | None = None,
    epsilon: float = 0.05,
    init: nn.Module | Network | None = None,
    beside: Literal["init", "random"] | None = None,
    spectra: bool = True,
) -> MeasureTable:
    """Measure a net on its training set: every family of measures, or those that `only` names.

    `stability`, `sharpness`, `conditions` and `tails` choose probes, draws and rows; γ is the
    margin that all but a fraction `epsilon` of the examples exceed; `init`, the net at its
    initialisation, adds the versions from initialisation. `spectra=False` leaves the singular
    values out, trace norms among them. `beside` measures a second net in the same way: the
    initialisation scaled to match the net's layers (the conditions of Theorem 1: as it was), or
    random weights of the same norms. The model is not changed.
    """
    data = as_dataset(data)
    families = _families(only, spectra)
    if beside not in (None, "init", "random"):
        raise BadInput(f"`beside` must be init or random, not {beside}")
    if not 0 <= epsilon < 1:
        raise BadInput(f"`epsilon` must be at least 0 and below 1, not {epsilon}")
    if batch < 1:
        raise BadInput(f"a batch must have at least 1 example, not {batch}")
    options = _Options(
        stability or StabilityOptions(),
        sharpness or SharpnessOptions(),
        conditions or ConditionOptions(),
        tails or TailOptions(),
        epsilon,
        batch,
        spectra,
    )
    net = traced(model, data)
    initial = None if init is None else traced(init, data)
    if initial is not None:
        check_alike(net, initial, "the initialisation")
    if beside == "init" and initial is None:
        raise BadInput(
            "`beside` = init needs the net's initialisation: give a RUN folder, or use `beside` "
            "random"
        )
    table = _measure(net, data, families, options, initial)
    if beside is None:
        return table
    if beside == "init" and initial is not None:
        twin = _measure(
            scaled_to_match(net, initial),
            data,
            families,
            options,
            None,
            "initial",
            unscaled=initial,
        )
    else:
        twin = _measure(
            random_like(net, options.stability.seed), data, families, options, None, "random"
        )
    return replace(
        table, beside=twin, claims=check_claims(table, twin) if "stability" in families else ()
    )


def margins(
    model: nn.Module | Network, data: Dataset | str, *, batch: int = _BATCH
) -> NDArray[np.float64]:
    """The margin f(x)[y] - max_{j≠y} f(x)[j] of every example, in the sample's order; at most 0
    where the net errs.
    """
    sample = as_dataset(data)
    return one_pass(traced(model, sample), sample, batch, norms=False, margins=True)["margins"]


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
    """The noise sensitivity of the part of a net from the input of layer `start` to the output of
    layer `end`.

    `noise` is "gaussian" (N(0, I) as in Proposition 3.1), "sphere", "signs", or a function that
    draws [B, *shape] from a torch.Generator; `scale` multiplies it (sphere with scale 0.1: noise of
    10 %). Names are those of `table.layers`.
    """
    sample = as_dataset(data)
    net = traced(model, sample)
    return measure_sensitivity(net, sample, start, end, noise, scale=scale, draws=draws, seed=seed)


def _families(only: str | Sequence[str] | None, spectra: bool) -> tuple[str, ...]:
    families = (
        FAMILIES
        if only is None
        else tuple(only.split(","))
        if isinstance(only, str)
        else tuple(only)
    )
    for family in families:
        if family not in FAMILIES:
            raise BadInput(
                f"there is no family of measures called {family!r}; choose from "
                f"{', '.join(FAMILIES)}"
            )
    # noise spreads over the whole spectrum
    whole = (*families, "spectra") if "stability" in families else families
    chosen = whole if spectra else tuple(family for family in whole if family != "spectra")
    if not chosen:
        raise BadInput(f"nothing is left to measure; choose from {', '.join(FAMILIES)}")
    return chosen


def traced(model: nn.Module | Network, data: Dataset) -> Network:
    """The model as a net that reads these data and has a score for each of their classes."""
    known = model.network if isinstance(model, NetworkModule) else model
    net = known if isinstance(known, Network) else trace(known, data.shape)
    if net.input_shape != tuple(data.shape):
        raise BadInput(
            f"the net reads examples of shape {net.input_shape}, but {data.name} has "
            f"{tuple(data.shape)}"
        )
    if net.classes < data.classes:
        raise BadInput(
            f"the net gives {net.classes} scores, but {data.name} has {data.classes} classes; use "
            "its own data"
        )
    return net


def _measure(
    net: Network,
    data: Dataset,
    families: tuple[str, ...],
    options: _Options,
    initial: Network | None,
    weights: Weights = "trained",
    unscaled: Network | None = None,
) -> MeasureTable:
    """`unscaled`: the net whose conditions are measured in place of this one's; they depend on
    scale.
    """
    stable, marginal = "stability" in families, "margins" in families
    passed = one_pass(net, data, options.batch, norms=stable, margins=marginal)
    rows = {node.index: _describe_layer(node) for node in net.affine_layers}
    whole = NetMeasures(
        m=len(data),
        classes=net.classes,
        parameters=net.parameters,
        depth=len(net.affine_layers),
        is_chain=net.is_chain,
        not_a_chain_because=net.not_a_chain_because,
        data=data.name,
        data_fingerprint=data.fingerprint,
    )
    if "norms" in families:
        rows = _with_norms(net, rows, options, initial)
        distance = None if initial is None else math.sqrt(squared_distance(net, initial))
        whole = replace(whole, l2=math.sqrt(squared_distance(net)), distance=distance)
    if "paths" in families:
        whole = replace(whole, path_norms=path_norms(net, _PATHS))
    if stable:
        norms: OnePass = {key: values for key, values in passed.items() if key != "margins"}  # type: ignore[misc]
        layers, stability = measure_stability(net, data, norms, options.stability, initial, weights)
        rows = {index: replace(row, **vars(layers[index])) for index, row in rows.items()}
        whole = replace(whole, stability=stability)
    if "spectra" in families:
        rows = _with_spectra(net, rows, options.stability.seed, initial)
    if marginal:
        whole = _with_margins(whole, passed["margins"], options.epsilon)
    if "sharpness" in families:
        whole = replace(whole, sharpness=measure_sharpness(net, data, options.sharpness))
    if "conditions" in families:
        whole = replace(
            whole, conditions=measure_conditions(unscaled or net, data, options.conditions)
        )
    if "tails" in families:
        rows = _with_tails(net, rows, options.tails)
    return MeasureTable(layers=tuple(rows.values()), net=whole)


def _with_margins(whole: NetMeasures, found: NDArray[np.float64], epsilon: float) -> NetMeasures:
    spread, errors = describe(found, "min"), int((found <= 0).sum())
    gamma = epsilon_margin(found, epsilon)
    return replace(
        whole,
        errors=errors,
        error_rate=errors / len(found),
        margins=spread,
        margin_5th=None if spread is None else spread.quantiles["0.05"],
        margin=Margin(epsilon, gamma, margin_loss(found, gamma), float(found.min())),
    )


def _with_norms(
    net: Network, rows: dict[int, LayerMeasures], options: _Options, initial: Network | None
) -> dict[int, LayerMeasures]:
    """The rows with the norms of every layer's parameters and map, and of what training changed."""
    found = {}
    for at, node in enumerate(progress(net.affine_layers, "norms", "layer")):
        start = None if initial is None else initial.affine_layers[at].affine
        found[node.index] = replace(
            rows[node.index],
            **vars(layer_norms(node.affine.operator)),
            group_norms=group_norms(
                node.affine.operator,
                trace_norms=options.singular_values,
                seed=options.stability.seed,
            ),
            distance=None if start is None else distance_from_initialisation(node.affine, start),
        )
    return found


def one_pass(
    net: Network, data: Dataset, batch: int, *, norms: bool, margins: bool
) -> dict[object, NDArray[np.float64]]:
    """One number per example: margins under "margins", the three norms of each affine layer under
    (index, stage).
    """
    if not (norms or margins):
        return {}

    order: list[tuple[int, Stage]] = []  # the columns of the norms, the same in every shard

    def work(rows: slice) -> Accumulators[str]:
        observer = NormObserver()
        logits = net.run(as_floats(data.x[rows]).to(net.dtype), observer if norms else None)
        if not bool(torch.isfinite(logits).all()):
            raise BadInput(
                f"the net's scores on {data.name} are not finite near row {rows.start}; check its "
                "weights"
            )
        found: dict[str, Samples] = {}
        if norms:  # one array of all columns: a conversion for each would cost as much as the norms
            order[:] = observer.norms
            found["norms"] = Samples.of(
                rows.start, torch.stack(list(observer.norms.values()), dim=1).numpy()
            )
        if margins:
            labels = torch.from_numpy(np.array(data.y[rows]))
            found["margins"] = Samples.of(rows.start, sample_margins(logits, labels).numpy())
        return found

    merged = {
        key: samples.values()
        for key, samples in map_shards(len(data), batch, work, describe="measuring").items()
    }
    columns: dict[object, NDArray[np.float64]] = {"margins": merged["margins"]} if margins else {}
    return columns | {
        key: np.ascontiguousarray(merged["norms"][:, at]) for at, key in enumerate(order)
    }


def _with_spectra(
    net: Network, rows: dict[int, LayerMeasures], seed: int, initial: Network | None
) -> dict[int, LayerMeasures]:
    """The rows with the singular values of every layer's map and kernel, and of what training
    changed.
    """
    found = {}
    for at, node in enumerate(progress(net.affine_layers, "spectra", "layer")):
        operator, row = node.affine.operator, rows[node.index]
        changed = row.from_initialisation
        if changed is not None and initial is not None:
            moved = operator.minus(initial.affine_layers[at].affine.operator)
            changed = replace(changed, spectrum=layer_spectrum(moved, seed=seed))
        found[node.index] = replace(
            row,
            spectrum=layer_spectrum(operator, seed=seed),
            kernel_spectrum=kernel_spectrum(operator, seed=seed),
            from_initialisation=changed,
        )
    return found


def _with_tails(
    net: Network, rows: dict[int, LayerMeasures], options: TailOptions
) -> dict[int, LayerMeasures]:
    """The rows with the laws fitted to every layer's weights and eigenvalues."""
    found = {}
    for node in progress(net.affine_layers, "tails", "layer"):
        tails = layer_tails(node.affine.operator.weight, options)
        law = tails.weights.power_law
        found[node.index] = replace(
            rows[node.index], tails=tails, tail_alpha=None if law is None else law.alpha
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
