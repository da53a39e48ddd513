"""Noise stability of a net on a sample: every quantity of Arora 2018, layer by layer and for the
whole net.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cushion.data import Dataset
from cushion.data.splits import permutation
from cushion.measures.distribution import describe
from cushion.measures.stability.attenuation import measure_attenuation
from cushion.measures.stability.effective import LayerTerms, capacity, effective_parameters
from cushion.measures.stability.interlayer import Pairs, measure_pairs
from cushion.measures.stability.jacobians import JacobianPlan, plan_jacobians
from cushion.measures.stability.noise import Noise
from cushion.measures.stability.one_pass import (
    OnePass,
    activation_contractions,
    layer_cushions,
    next_layer,
    noise_sensitivities,
)
from cushion.measures.stability.options import StabilityOptions
from cushion.measures.stability.records import (
    AttenuationCurve,
    EffectiveParameters,
    FromInitialisation,
    InterlayerCushion,
    JacobianBeta,
    MinimalInterlayerCushion,
    NetStability,
    Smoothness,
    Weights,
)
from cushion.measures.stability.smoothness import SmoothnessDraws, measure_smoothness
from cushion.nets.network import Network, Node
from cushion.records import Distribution

_BUDGET = (
    1e13  # multiplications that the default number of examples may take: some minutes on two cores
)
_SHARD = 1 << 21  # numbers in the largest activation of a shard


@dataclass
class LayerStability:
    """One layer's share; field names as in `measure_records.LayerMeasures`."""

    layer_cushion: Distribution | None
    activation_contraction: Distribution | None
    noise_sensitivity: Distribution | None
    interlayer_cushion: InterlayerCushion | None
    minimal_interlayer_cushion: MinimalInterlayerCushion | None
    jacobian_beta: JacobianBeta | None
    interlayer_smoothness: tuple[Smoothness, ...] = ()
    noise_attenuation: tuple[AttenuationCurve, ...] = ()
    effective_parameters: EffectiveParameters | None = None
    from_initialisation: FromInitialisation | None = None


@dataclass
class _Found:
    """What the passes over the data gave."""

    norms: OnePass
    rows: np.ndarray
    pairs: Pairs
    smoothness: dict[Noise, SmoothnessDraws] = field(default_factory=dict)
    curves: list[dict[int, AttenuationCurve]] = field(default_factory=list)


def measure_stability(
    net: Network,
    data: Dataset,
    norms: OnePass,
    options: StabilityOptions,
    initial: Network | None = None,
    weights: Weights = "trained",
) -> tuple[dict[int, LayerStability], NetStability]:
    """All layers under their nodes' indices, and the whole net. `norms` comes from one pass over
    all of `data`.

    Layer cushions, contractions and sensitivities are over all of `data`; everything else over the
    first `examples` rows of a seeded permutation of it.
    """
    plan = plan_jacobians(net, options.probes, options.method)
    noises = _noises(options, initial is not None)
    count = min(len(data), options.examples or _affordable(net, plan, options, len(noises)))
    rows = np.sort(permutation(len(data), options.seed)[:count])
    some = (
        data
        if count == len(data)
        else data.select(rows, f"{count} rows for noise stability, seed={options.seed}")
    )
    batch = _shard(net)
    found = _Found(
        norms,
        rows,
        measure_pairs(net, some, plan, places=options.places, seed=options.seed, batch=batch),
    )
    if options.draws and len(net.affine_layers) > 1:
        found.smoothness = measure_smoothness(
            net, some, noises, draws=options.draws, seed=options.seed, batch=batch, initial=initial
        )
    if options.attenuation_draws:
        found.curves = [
            measure_attenuation(
                net, some, level, draws=options.attenuation_draws, seed=options.seed, batch=batch
            )
            for level in options.levels
        ]
    layers = {node.index: _layer(net, node, found, options) for node in net.affine_layers}
    return layers, _whole(net, layers, found, options, initial, weights)


def measure_terms(
    net: Network,
    data: Dataset,
    norms: OnePass,
    options: StabilityOptions,
    initial: Network | None = None,
) -> tuple[list[LayerTerms], NDArray[np.int64]]:
    """What each layer contributes to Lemmas 3 and 14 of Arora 2018, example by example, and the
    rows of `data` used.

    With `initial` the cushions are those of A - A₀. [] where a layer has no contraction or a pair
    was not measured.
    """
    plan = plan_jacobians(net, options.probes, options.method)
    count = min(len(data), options.examples or _affordable(net, plan, options, 0))
    rows = np.sort(permutation(len(data), options.seed)[:count])
    some = (
        data
        if count == len(data)
        else data.select(rows, f"{count} rows for noise stability, seed={options.seed}")
    )
    pairs = measure_pairs(
        net, some, plan, places=options.places, seed=options.seed, batch=_shard(net)
    )
    starts = (
        [None] * len(net.affine_layers)
        if initial is None
        else [node.affine for node in initial.affine_layers]
    )
    frobenius = [
        node.affine.operator.frobenius()
        if start is None
        else node.affine.operator.minus(start.operator).frobenius()
        for node, start in zip(net.affine_layers, starts, strict=True)
    ]
    return _terms(net, _Found(norms, rows, pairs), frobenius), rows


def _shard(net: Network) -> int:
    """Examples that are worked on at once."""
    return max(
        8, min(256, _SHARD // max(node.affine.operator.output_size for node in net.affine_layers))
    )


def _noises(options: StabilityOptions, from_initialisation: bool) -> list[Noise]:
    """The laws of noise for ρ_δ: Algorithm 1's as it comes and at the first level, and Gaussian at
    that level.
    """
    level = options.levels[0]
    laws = [Noise("sign-projection", None, options.k), Noise("sign-projection", level, options.k)]
    if from_initialisation:
        laws += [
            Noise("from-initialisation", None, options.k),
            Noise("from-initialisation", level, options.k),
        ]
    return [*laws, Noise("gaussian", level)]


def _affordable(net: Network, plan: JacobianPlan, options: StabilityOptions, noises: int) -> int:
    """How many examples `_BUDGET` multiplications are enough for."""
    costs = [node.affine.operator.multiplications for node in net.affine_layers]
    onwards = sum(
        at * cost for at, cost in enumerate(costs)
    )  # one vector from every layer to the end
    each = plan.multiplications + onwards * (
        1 + 2 * noises * options.draws + len(options.levels) * options.attenuation_draws
    )
    return max(1, int(_BUDGET / each)) if each else 1 << 62


def _layer(net: Network, node: Node, found: _Found, options: StabilityOptions) -> LayerStability:
    operator, norms = node.affine.operator, found.norms
    after = next_layer(net, node)
    smoothness = tuple(
        draws.describe(net, node, noise, options.delta)
        for noise, draws in found.smoothness.items()
        if noise.kind != "from-initialisation" and node.index in draws.examples
    )
    return LayerStability(
        layer_cushion=describe(layer_cushions(norms, node, operator.frobenius()), "min"),
        activation_contraction=None
        if after is None
        else describe(activation_contractions(norms, node, after), "max"),
        noise_sensitivity=describe(
            noise_sensitivities(norms, node, operator.operator_frobenius()), "max"
        ),
        interlayer_cushion=found.pairs.interlayer(node),
        minimal_interlayer_cushion=found.pairs.minimal(node),
        jacobian_beta=found.pairs.beta(node),
        interlayer_smoothness=smoothness,
        noise_attenuation=tuple(curve[node.index] for curve in found.curves),
    )


def _whole(
    net: Network,
    layers: dict[int, LayerStability],
    found: _Found,
    options: StabilityOptions,
    initial: Network | None,
    weights: Weights,
) -> NetStability:
    contractions = [
        part.activation_contraction.value for part in layers.values() if part.activation_contraction
    ]
    terms = _terms(net, found, [node.affine.operator.frobenius() for node in net.affine_layers])
    counts = effective_parameters(terms, options.zeta) if terms else []
    for part, record in zip(layers.values(), counts, strict=False):
        part.effective_parameters = record
    distant = None
    if initial is not None:
        distant = _from_initialisation(net, layers, found, options, initial)
    # else some layers have none
    contraction = max(contractions, default=None) if net.is_chain else None
    gaps = [
        pair.bias_gap
        for part in layers.values()
        if part.interlayer_cushion
        for pair in part.interlayer_cushion.pairs
    ]
    return NetStability(
        examples=len(found.rows),
        probes=options.probes,
        method=options.method,
        zeta=options.zeta,
        seed=options.seed,
        activation_contraction=contraction,
        interlayer_smoothness=tuple(
            draws.describe_net(noise, options.delta)
            for noise, draws in found.smoothness.items()
            if draws.examples
        ),
        capacity=None
        if not terms
        else capacity(len(terms), 1.0 if contraction is None else contraction, terms),
        effective_parameters=sum(record.value for record in counts) if counts else None,
        effective_parameters_zeta=sum(record.zeta_value for record in counts) if counts else None,
        effective_parameters_from_initialisation=distant,
        bias_gap=max(gaps, default=None),
        weights=weights,
    )


def _terms(net: Network, found: _Found, frobenius: list[float]) -> list[LayerTerms]:
    """The factors of Table 1 on the chosen rows; [] unless every layer has all of them and every
    pair was measured.
    """
    terms = []
    for node, norm in zip(net.affine_layers, frobenius, strict=True):
        after, beta = next_layer(net, node), found.pairs.worst_betas(node)
        last = node is net.affine_layers[-1]
        if (
            beta is None
            or norm == 0
            or (after is None and not last)
            or not found.pairs.minimal(node).all_pairs
        ):
            return []
        ones = np.ones(len(found.rows))
        contraction = ones if after is None else activation_contractions(found.norms, node, after)
        cushion = layer_cushions(found.norms, node, norm)
        some = ones if after is None else contraction[found.rows]
        terms.append(
            LayerTerms(
                node,
                some,
                beta,
                cushion[found.rows],
                found.pairs.unclipped(node),
                float(np.fmax.reduce(contraction)),
                float(np.fmin.reduce(cushion)),
            )
        )
    return terms


def _from_initialisation(
    net: Network,
    layers: dict[int, LayerStability],
    found: _Found,
    options: StabilityOptions,
    initial: Network,
) -> float | None:
    """Fill in every layer's record; the sum of the effective parameters."""
    distances, differences = [], []
    for node, start in zip(net.affine_layers, initial.affine_layers, strict=True):
        operator = node.affine.operator
        difference = operator.with_weight(operator.weight - start.affine.operator.weight)
        differences.append(difference)
        distances.append(difference.frobenius())
    terms = _terms(net, found, distances)
    counts = effective_parameters(terms, options.zeta) if terms else [None] * len(distances)
    for node, distance, difference, count in zip(
        net.affine_layers, distances, differences, counts, strict=True
    ):
        moved = distance > 0
        layers[node.index].from_initialisation = FromInitialisation(
            distance=distance,
            layer_cushion=describe(layer_cushions(found.norms, node, distance), "min")
            if moved
            else None,
            noise_sensitivity=describe(
                noise_sensitivities(found.norms, node, difference.operator_frobenius()), "max"
            )
            if moved
            else None,
            interlayer_smoothness=tuple(
                draws.describe(net, node, noise, options.delta)
                for noise, draws in found.smoothness.items()
                if noise.kind == "from-initialisation" and node.index in draws.examples
            ),
            effective_parameters=count,
        )
    total = [count.value for count in counts if count is not None]
    return math.fsum(total) if total else None
