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
from cushion.measures.stability import effective, records
from cushion.measures.stability.effective import LayerTerms, OnePass
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.stability.interlayer import Pairs, measure_pairs
from cushion.measures.stability.jacobians import plan_jacobians
from cushion.measures.stability.noise import Noise, measure_attenuation
from cushion.measures.stability.smoothness import SmoothnessDraws, measure_smoothness
from cushion.nets.network import Network, Node

BUDGET = 4e11  # multiplications that the default number of examples may take: about a minute


@dataclass
class _Passes:
    """What the passes over the data gave: `norms` over all of it, the rest on some of its rows."""

    net: Network
    options: StabilityOptions
    norms: OnePass
    rows: NDArray[np.int64]
    pairs: Pairs
    smoothness: dict[Noise, SmoothnessDraws] = field(default_factory=dict)
    curves: list[dict[int, records.AttenuationCurve]] = field(default_factory=list)

    def laws(self, node: Node, *, from_initialisation: bool) -> tuple[records.Smoothness, ...]:
        """ρ_δ of one layer under each law of noise."""
        return tuple(
            draws.describe(noise, self.options.delta, node)
            for noise, draws in self.smoothness.items()
            if (noise.kind == "from-initialisation") == from_initialisation
            and node.index in draws.examples
        )

    def terms(self, frobenius: list[float]) -> list[LayerTerms]:
        """The factors of Table 1 on the chosen rows; [] unless all of them are known."""
        terms, rows = [], self.rows
        for node, norm in zip(self.net.affine_layers, frobenius, strict=True):
            after, beta = effective.next_layer(self.net, node), self.pairs.worst_betas(node)
            unknown = after is None and node is not self.net.affine_layers[-1]
            if beta is None or norm == 0 or unknown or not self.pairs.minimal(node).all_pairs:
                return []
            cushion = effective.layer_cushions(self.norms, node, norm)
            contraction = np.ones(len(cushion))
            if after is not None:
                contraction = effective.activation_contractions(self.norms, node, after)
            worst = float(np.fmax.reduce(contraction)), float(np.fmin.reduce(cushion))
            parts = contraction[rows], beta, cushion[rows], self.pairs.unclipped(node)
            terms.append(LayerTerms(node, *parts, *worst))
        return terms

    def counts(self, terms: list[LayerTerms]) -> list[records.EffectiveParameters] | list[None]:
        """The effective parameters of each layer; None where they are not known."""
        known = effective.effective_parameters(terms, self.options.zeta) if terms else None
        return known or [None] * len(self.net.affine_layers)


def measure_stability(
    context: Context,
) -> tuple[dict[int, records.LayerStability], records.NetStability]:
    """All layers under their nodes' indices, and the whole net.

    Layer cushions, contractions and sensitivities are over all of the data; everything else over
    the first `examples` rows of a seeded permutation of it.
    """
    net, initial, options = context.net, context.initial, context.options
    noises = _noises(options, initial is not None)
    norms: OnePass = {key: values for key, values in context.passed.items() if key != "margins"}  # type: ignore[misc]
    found, some = _pairs(net, context.data, norms, options, len(noises))
    how = {"seed": options.seed, "batch": shard_size(net)}
    if (draws := options.draws) and len(net.affine_layers) > 1:
        drawn = measure_smoothness(net, some, noises, draws=draws, initial=initial, **how)
        found.smoothness = drawn
    if draws := options.attenuation_draws:
        levels = options.levels
        found.curves = [measure_attenuation(net, some, at, draws=draws, **how) for at in levels]
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
    rows of `data` used. With `initial` the cushions are those of A - A₀. [] where a layer has no
    contraction or a pair was not measured.
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
    net.require("homogeneous", "noise stability")
    plan = plan_jacobians(net, options.probes, options.method)
    costs = [node.affine.operator.multiplications for node in net.affine_layers]
    onwards = sum(at * cost for at, cost in enumerate(costs))  # a vector from every layer on
    injected = len(options.levels) * options.attenuation_draws
    each = plan.multiplications + onwards * (1 + 2 * noises * options.draws + injected)
    count = options.examples or (max(1, int(BUDGET / each)) if each else len(data))
    places, seed, batch = options.places, options.seed, shard_size(net)
    some, rows = chosen_rows(data, count, seed, "noise stability")
    pairs = measure_pairs(net, some, plan, places=places, seed=seed, batch=batch)
    return _Passes(net, options, norms, rows, pairs), some


def _noises(options: StabilityOptions, from_initialisation: bool) -> list[Noise]:
    """The laws for ρ_δ: Algorithm 1's as it comes, and it and Gaussian at the first level."""
    kinds = ("sign-projection", "from-initialisation")[: 1 + from_initialisation]
    level = options.levels[0]
    laws = [Noise(kind, own, options.k) for kind in kinds for own in (None, level)]  # type: ignore[arg-type]
    return [*laws, Noise("gaussian", level)]


def _layer(
    node: Node,
    found: _Passes,
    count: records.EffectiveParameters | None,
    distant: records.FromInitialisation | None,
) -> records.LayerStability:
    operator, norms = node.affine.operator, found.norms
    after, contraction = effective.next_layer(found.net, node), None
    if after is not None:
        contraction = describe(effective.activation_contractions(norms, node, after), "max")
    cushions = effective.layer_cushions(norms, node, operator.frobenius())
    noisy = effective.noise_sensitivities(norms, node, operator.operator_frobenius())
    return records.LayerStability(
        layer_cushion=describe(cushions, "min"),
        activation_contraction=contraction,
        noise_sensitivity=describe(noisy, "max"),
        interlayer_cushion=found.pairs.interlayer(node),
        minimal_interlayer_cushion=found.pairs.minimal(node),
        jacobian_beta=found.pairs.beta(node),
        interlayer_smoothness=found.laws(node, from_initialisation=False),
        noise_attenuation=tuple(curve[node.index] for curve in found.curves),
        effective_parameters=count,
        from_initialisation=distant,
    )


def _whole(
    context: Context,
    layers: dict[int, records.LayerStability],
    found: _Passes,
    terms: list[LayerTerms],
) -> records.NetStability:
    options, parts = context.options, list(layers.values())
    contractions = [one.value for part in parts if (one := part.activation_contraction)]
    # where the net branches, some layers have none
    contraction = max(contractions, default=None) if context.net.is_chain else None
    counts = [count for part in parts if (count := part.effective_parameters) is not None]
    distant = [part.from_initialisation for part in parts if part.from_initialisation]
    moved = [one.effective_parameters.value for one in distant if one.effective_parameters]
    cushions = [part.interlayer_cushion for part in parts if part.interlayer_cushion]
    gaps = [pair.bias_gap for cushion in cushions for pair in cushion.pairs]
    c = 1.0 if contraction is None else contraction
    smoothness = [
        draws.describe(noise, options.delta)
        for noise, draws in found.smoothness.items()
        if draws.examples
    ]
    return records.NetStability(
        examples=len(found.rows),
        probes=options.probes,
        method=options.method,
        zeta=options.zeta,
        seed=options.seed,
        activation_contraction=contraction,
        interlayer_smoothness=tuple(smoothness),
        capacity=effective.capacity(len(terms), c, terms) if terms else None,
        effective_parameters=sum(count.value for count in counts) if counts else None,
        effective_parameters_zeta=sum(count.zeta_value for count in counts) if counts else None,
        effective_parameters_from_initialisation=math.fsum(moved) if moved else None,
        bias_gap=max(gaps, default=None),
        weights=context.weights,
    )


def _from_initialisation(context: Context, found: _Passes) -> dict[int, records.FromInitialisation]:
    """Every layer's record by its node's index; {} where the initialisation is not known."""
    if context.initial is None:
        return {}
    nodes, starts = context.net.affine_layers, context.initial.affine_layers
    pairs = [(a.affine.operator, b.affine.operator) for a, b in zip(nodes, starts, strict=True)]
    changes = [own.with_weight(own.weight - start.weight) for own, start in pairs]
    counts = found.counts(found.terms([change.frobenius() for change in changes]))
    found_by = {}
    for node, (own, start), change, count in zip(nodes, pairs, changes, counts, strict=True):
        distance, norm = change.frobenius(), change.operator_frobenius()
        cushion = sensitivity = spectrum = None
        if distance > 0:
            cushion = describe(effective.layer_cushions(found.norms, node, distance), "min")
            noisy = effective.noise_sensitivities(found.norms, node, norm)
            sensitivity = describe(noisy, "max")
        if context.singular_values:
            spectrum = layer_spectrum(own.minus(start), seed=context.seed)
        laws = found.laws(node, from_initialisation=True)
        found_by[node.index] = records.FromInitialisation(
            distance, cushion, sensitivity, laws, count, spectrum
        )
    return found_by
