"""Noise stability of a net on a sample: every quantity of Arora 2018, layer by layer and in all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cushion.data import Dataset
from cushion.measures.distribution import describe
from cushion.measures.family import Context
from cushion.measures.probing import chosen_rows, shard_size
from cushion.measures.spectra import layer_spectrum
from cushion.measures.stability.attenuation import measure_attenuation
from cushion.measures.stability.effective import LayerTerms, capacity, effective_parameters
from cushion.measures.stability.family import StabilityOptions
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
from cushion.measures.stability.records import (
    AttenuationCurve,
    EffectiveParameters,
    FromInitialisation,
    LayerStability,
    NetStability,
    Smoothness,
)
from cushion.measures.stability.smoothness import SmoothnessDraws, measure_smoothness
from cushion.nets.network import Network, Node

# multiplications that the default number of examples may take: some minutes on two cores
_BUDGET = 1e13


@dataclass
class _Passes:
    """What the passes over the data gave: `norms` over all of it, the rest on some of its rows."""

    net: Network
    options: StabilityOptions
    norms: OnePass
    rows: NDArray[np.int64]
    pairs: Pairs
    smoothness: dict[Noise, SmoothnessDraws] = field(default_factory=dict)
    curves: list[dict[int, AttenuationCurve]] = field(default_factory=list)

    def laws(self, node: Node, *, from_initialisation: bool) -> tuple[Smoothness, ...]:
        """ρ_δ of one layer under each law of noise."""
        return tuple(
            draws.describe(self.net, node, noise, self.options.delta)
            for noise, draws in self.smoothness.items()
            if (noise.kind == "from-initialisation") == from_initialisation
            and node.index in draws.examples
        )

    def terms(self, frobenius: list[float]) -> list[LayerTerms]:
        """The factors of Table 1 on the chosen rows; [] unless all of them are known."""
        terms = []
        for node, norm in zip(self.net.affine_layers, frobenius, strict=True):
            after, beta = next_layer(self.net, node), self.pairs.worst_betas(node)
            unknown = after is None and node is not self.net.affine_layers[-1]
            if beta is None or norm == 0 or unknown or not self.pairs.minimal(node).all_pairs:
                return []
            ones = np.ones(len(self.rows))
            contraction = (
                ones if after is None else activation_contractions(self.norms, node, after)
            )
            cushion = layer_cushions(self.norms, node, norm)
            terms.append(
                LayerTerms(
                    node,
                    ones if after is None else contraction[self.rows],
                    beta,
                    cushion[self.rows],
                    self.pairs.unclipped(node),
                    float(np.fmax.reduce(contraction)),
                    float(np.fmin.reduce(cushion)),
                )
            )
        return terms

    def counts(self, terms: list[LayerTerms]) -> list[EffectiveParameters] | list[None]:
        """The effective parameters of each layer; None where they are not known."""
        known = effective_parameters(terms, self.options.zeta) if terms else None
        return known or [None] * len(self.net.affine_layers)


def measure_stability(context: Context) -> tuple[dict[int, LayerStability], NetStability]:
    """All layers under their nodes' indices, and the whole net.

    Layer cushions, contractions and sensitivities are over all of the data; everything else over
    the first `examples` rows of a seeded permutation of it.
    """
    net, data, initial, options = context.net, context.data, context.initial, context.options
    noises = _noises(options, initial is not None)
    norms: OnePass = {key: values for key, values in context.passed.items() if key != "margins"}  # type: ignore[misc]
    found, some = _pairs(net, data, norms, options, len(noises))
    batch = shard_size(net)
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
    terms = found.terms([node.affine.operator.frobenius() for node in net.affine_layers])
    distant = _from_initialisation(context, found)
    layers = {
        node.index: _layer(node, found, count, distant.get(node.index))
        for node, count in zip(net.affine_layers, found.counts(terms), strict=True)
    }
    return layers, _whole(context, layers, found, terms)


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
    found, _ = _pairs(net, data, norms, options, 0)
    operators = [node.affine.operator for node in net.affine_layers]
    if initial is not None:
        starts = [node.affine.operator for node in initial.affine_layers]
        operators = [one.minus(start) for one, start in zip(operators, starts, strict=True)]
    return found.terms([operator.frobenius() for operator in operators]), found.rows


def _pairs(
    net: Network, data: Dataset, norms: OnePass, options: StabilityOptions, noises: int
) -> tuple[_Passes, Dataset]:
    """All pairs of layers on as many rows as were asked for, or are affordable; and those rows."""
    plan = plan_jacobians(net, options.probes, options.method)
    count = options.examples or _affordable(net, plan, options, noises)
    some, rows = chosen_rows(data, count, options.seed, "noise stability")
    pairs = measure_pairs(
        net, some, plan, places=options.places, seed=options.seed, batch=shard_size(net)
    )
    return _Passes(net, options, norms, rows, pairs), some


def _noises(options: StabilityOptions, from_initialisation: bool) -> list[Noise]:
    """The laws for ρ_δ: Algorithm 1's as it comes, and it and Gaussian at the first level."""
    level = options.levels[0]
    laws = [Noise("sign-projection", None, options.k), Noise("sign-projection", level, options.k)]
    if from_initialisation:
        laws += [Noise("from-initialisation", own, options.k) for own in (None, level)]
    return [*laws, Noise("gaussian", level)]


def _affordable(net: Network, plan: JacobianPlan, options: StabilityOptions, noises: int) -> int:
    """How many examples `_BUDGET` multiplications are enough for."""
    costs = [node.affine.operator.multiplications for node in net.affine_layers]
    onwards = sum(at * cost for at, cost in enumerate(costs))  # a vector from every layer on
    each = plan.multiplications + onwards * (
        1 + 2 * noises * options.draws + len(options.levels) * options.attenuation_draws
    )
    return max(1, int(_BUDGET / each)) if each else 1 << 62


def _layer(
    node: Node,
    found: _Passes,
    count: EffectiveParameters | None,
    distant: FromInitialisation | None,
) -> LayerStability:
    operator, norms = node.affine.operator, found.norms
    after = next_layer(found.net, node)
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
        interlayer_smoothness=found.laws(node, from_initialisation=False),
        noise_attenuation=tuple(curve[node.index] for curve in found.curves),
        effective_parameters=count,
        from_initialisation=distant,
    )


def _whole(
    context: Context, layers: dict[int, LayerStability], found: _Passes, terms: list[LayerTerms]
) -> NetStability:
    options, parts = context.options, list(layers.values())
    contractions = [one.value for part in parts if (one := part.activation_contraction)]
    # where the net branches, some layers have none
    contraction = max(contractions, default=None) if context.net.is_chain else None
    counts = [count for part in parts if (count := part.effective_parameters) is not None]
    distant = [part.from_initialisation for part in parts if part.from_initialisation]
    moved = [one.effective_parameters.value for one in distant if one.effective_parameters]
    cushions = [part.interlayer_cushion for part in parts if part.interlayer_cushion]
    gaps = [pair.bias_gap for cushion in cushions for pair in cushion.pairs]
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
        capacity=capacity(len(terms), 1.0 if contraction is None else contraction, terms)
        if terms
        else None,
        effective_parameters=sum(count.value for count in counts) if counts else None,
        effective_parameters_zeta=sum(count.zeta_value for count in counts) if counts else None,
        effective_parameters_from_initialisation=math.fsum(moved) if moved else None,
        bias_gap=max(gaps, default=None),
        weights=context.weights,
    )


def _from_initialisation(context: Context, found: _Passes) -> dict[int, FromInitialisation]:
    """Every layer's record by its node's index; {} where the initialisation is not known."""
    net, initial = context.net, context.initial
    if initial is None:
        return {}
    starts = [node.affine.operator for node in initial.affine_layers]
    differences = [
        node.affine.operator.with_weight(node.affine.operator.weight - start.weight)
        for node, start in zip(net.affine_layers, starts, strict=True)
    ]
    counts = found.counts(found.terms([difference.frobenius() for difference in differences]))
    records = {}
    for node, start, difference, count in zip(
        net.affine_layers, starts, differences, counts, strict=True
    ):
        distance = difference.frobenius()
        cushion = sensitivity = None
        if distance > 0:
            cushion = describe(layer_cushions(found.norms, node, distance), "min")
            norm = difference.operator_frobenius()
            sensitivity = describe(noise_sensitivities(found.norms, node, norm), "max")
        records[node.index] = FromInitialisation(
            distance=distance,
            layer_cushion=cushion,
            noise_sensitivity=sensitivity,
            interlayer_smoothness=found.laws(node, from_initialisation=True),
            effective_parameters=count,
            spectrum=layer_spectrum(node.affine.operator.minus(start), seed=context.seed)
            if context.singular_values
            else None,
        )
    return records
