"""A net whose small weights were replaced, on its sample, as one record: layers, promises, the
count of Theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cushion.compressors.induction import LayerErrors, follow_induction
from cushion.compressors.noise import checks
from cushion.compressors.noise.options import HeavyTailOptions
from cushion.compressors.noise.records import LayerReplacement, NetHeavyTail
from cushion.compressors.noise.replacement import Replacement
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.projection.pairs import Allowance, PairRatios, check_pairs, overlap
from cushion.compressors.records import InductionError, Promise, PromiseCheck
from cushion.compressors.sample_counts import count_on_sample
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept, StoredLayer
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.data.splits import permutation
from cushion.measures.tails.magnitudes import Magnitudes
from cushion.measures.tails.power_law import fit_power_law
from cushion.measures.tails.records import PowerLawFit
from cushion.nets.network import Network, Node
from cushion.theorems.heavy_tails import (
    HeavyTailFacts,
    HeavyTailLayerFacts,
    epsilon_promised,
    epsilon_promised_printed,
    heavy_tail_rows,
)
from cushion.theorems.records import Bound
from cushion.theorems.rows import exp, log
from cushion.theorems.sparsity import exceeds
from cushion.theorems.union import price


@dataclass(frozen=True, eq=False)
class ReplacedNet:
    """One replacement of a net.

    replacements: one a layer, None for a layer that is left as it is; deviations: σ of the others.
    asked_t: t as it was asked for. stored: what is written. faithful: the same with every kept
    weight, also of units without readers, which the lemmas are about; network: what it computes.
    """

    replacements: tuple[Replacement | None, ...]
    deviations: tuple[float | None, ...]
    asked_t: float
    stored: StoredNet
    faithful: StoredNet
    network: Network


@dataclass(frozen=True)
class _Spent:
    """What the propositions allow one layer, relative to ‖W‖_F: corrected and as printed, and its
    rounding.
    """

    corrected: float | None
    printed: float | None
    rounding: float


def describe(
    subject: Subject, options: HeavyTailOptions, made: ReplacedNet, errors: LayerErrors, tried: int
) -> NetHeavyTail:
    """The record, but for certificates, trials and what else was tried; errors: of the net that is
    written.
    """
    net, sample = subject.net, subject.sample
    spent = [
        _spent(node, at, made, options, subject.eta) for at, node in enumerate(net.affine_layers)
    ]
    rows = np.sort(permutation(len(sample), subject.seed)[: subject.options.examples])
    some = sample.select(rows, f"{len(rows)} rows for pairs of layers, seed={subject.seed}")
    printed = options.form != "corrected"
    allowed = [
        None
        if (epsilon := one.printed if printed else one.corrected) is None
        else Allowance(
            epsilon, node.affine.operator.frobenius(), math.sqrt(overlap(node.affine.operator))
        )
        for one, node in zip(spent, net.affine_layers, strict=True)
    ]
    ratios = check_pairs(net, made.network, some, allowed, seed=subject.seed)
    induced = follow_induction(net, made.network, sample)
    epsilon, why = _lemma_2_2(subject, options, spent)
    own = [None if one is None else one.epsilon for one in allowed]
    eta = subject.eta
    if options.eta is not None:  # the user's own, for which τ was chosen
        eta = options.eta
        own = [
            (one.printed if printed else one.corrected)
            for one in (
                _spent(node, at, made, options, eta) for at, node in enumerate(net.affine_layers)
            )
        ]
    promises: list[PromiseCheck] = []
    if any(one is not None for one in own):
        promises.append(checks.proposition_1_1(net, made.network, some, own, eta, printed=printed))
    promises.append(checks.lemma_2_1(ratios, subject.eta, printed=printed))
    promises.append(checks.lemma_2_2(induced, epsilon, why, len(net.affine_layers)))
    stability = subject.stability if _is_dense(net) else None
    return NetHeavyTail(
        method=subject.method,
        form=options.form,
        seed=subject.seed,
        settings=options.settings(),
        gamma=subject.gamma,
        m=len(sample),
        delta=subject.delta,
        parameters_before=net.parameters,
        parameters=made.stored.parameters,
        bits=made.stored.bits,
        layers=tuple(_layers(net, made, spent, ratios, both_signs=not printed)),
        eta=subject.eta,
        epsilon=epsilon,
        smoothness=None if stability is None else stability.smoothness,
        induction=tuple(_induction(net, induced, None if why else epsilon)),
        promises=tuple(promises),
        promise=Promise.of(promises),
        tried=(),
        price=math.log(tried),
        errors_before=subject.seen.errors,
        errors=int((errors.margins <= 0).sum()),
        trials=(),
        accuracy=None,
        holdout_accuracy=None,
        output_error=float(errors.gaps.max()),
        occam=(),
        paper_bounds=_bounds(subject, made, errors, None if why else epsilon, why, tried),
    )


def rounding(node: Node, one: Replacement | None, stored: StoredLayer) -> float:
    """‖B̂ - B‖_F/‖W‖_F of what stays in a layer, B̂ as it is stored with every kept weight; 0 for a
    layer of zeros.
    """
    weight = node.affine.operator.weight.double().numpy()
    norm = float(np.linalg.norm(weight))
    kept = weight if one is None else np.where(one.mask.numpy(), weight, 0.0)
    return float(np.linalg.norm(_values(stored) - kept)) / norm if norm > 0 else 0.0


def _spent(node: Node, at: int, made: ReplacedNet, options: HeavyTailOptions, eta: float) -> _Spent:
    one, stored, weight = (
        made.replacements[at],
        made.faithful.layers[at],
        node.affine.operator.weight.double(),
    )
    norm = float(torch.linalg.vector_norm(weight))
    moved = rounding(node, one, stored)
    if one is None:
        return _Spent(None, None, moved)
    spread = one.tau**2 + _variance(stored) if one.kept < weight.numel() else 0.0
    printed = epsilon_promised_printed(spread, eta, "main text") / norm + moved
    corrected = epsilon_promised(spread, eta, norm) + moved if options.form == "corrected" else None
    return _Spent(corrected, printed, moved)


def _values(layer: StoredLayer) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What is stored of a weight, without the noise."""
    return layer.kept.weight(0) if isinstance(layer, Spiked) else layer.weight(0)


def _variance(layer: StoredLayer) -> float:
    return layer.deviation**2 if isinstance(layer, Spiked) else 0.0


def _is_dense(net: Network) -> bool:
    return net.is_chain and all(node.affine.kind == "linear" for node in net.affine_layers)


def _lemma_2_2(
    subject: Subject, options: HeavyTailOptions, spent: Sequence[_Spent]
) -> tuple[float | None, str]:
    """ε of the whole net by Lemma 2.2's expression, and why it is not promised; empty where it is.

    A layer that is left as it is spends its rounding.
    """
    if not _is_dense(subject.net):
        return None, "the lemma is about fully connected nets without branches"
    facts = subject.stability
    if facts is None or facts.undefined:
        return None, "cushions are not defined for this net" if facts is None else facts.undefined
    printed = options.form != "corrected"
    worst = -math.inf
    for layer, one in zip(facts.layers, spent, strict=True):
        own = one.printed if printed else one.corrected
        worst = max(worst, log(one.rounding if own is None else own) - facts.log_share(layer, 1.0))
    epsilon = exp(worst)
    return epsilon, _silent(subject, options, epsilon)


def _silent(subject: Subject, options: HeavyTailOptions, epsilon: float) -> str:
    facts, m = subject.stability, len(subject.sample)
    assert facts is not None
    if options.form != "corrected":
        return (
            "Proposition 1.1 as printed, on which it rests, is false: the mean of what goes "
            "survives"
        )
    if facts.unmet:
        return facts.unmet
    if epsilon > 1:
        return f"the induction needs ε ≤ 1, and these thresholds give {epsilon:.3g}"
    if subject.facts.has_bias:
        return "the lemma is about nets without biases"
    if subject.options.examples < m:
        return f"cushions were measured on {subject.options.examples} of {m} examples"
    return ""


def _layers(
    net: Network,
    made: ReplacedNet,
    spent: Sequence[_Spent],
    ratios: PairRatios,
    *,
    both_signs: bool,
) -> list[LayerReplacement]:
    bits = made.stored.layer_bits()
    return [
        _layer(
            node,
            at,
            made,
            spent[at],
            bits[at],
            ratios.worst(at) if made.replacements[at] else None,
            both_signs,
        )
        for at, node in enumerate(net.affine_layers)
    ]


def _layer(
    node: Node,
    at: int,
    made: ReplacedNet,
    spent: _Spent,
    bits: int,
    worst: float | None,
    both_signs: bool,
) -> LayerReplacement:
    operator, one, stored = node.affine.operator, made.replacements[at], made.stored.layers[at]
    size = operator.weight.numel()
    fit = None if one is None else _power_law(node)
    tail = both_signs and one is not None and fit is not None and one.tau >= fit.xmin
    share = (
        exceeds(one.tau, fit.tail_index, fit.xmin)
        if one is not None and fit is not None and tail
        else 0.0
    )
    return LayerReplacement(
        name=node.name,
        kind=node.affine.kind,
        shape=tuple(operator.weight.shape),
        parameters_before=node.affine.parameters,
        stored_as=_words(one),
        deviation=made.deviations[at],
        tau=None if one is None else one.tau,
        t=_variance(stored),
        t_asked=None if one is None or not one.everywhere else made.asked_t,
        noise_mean=stored.mean if isinstance(stored, Spiked) else 0.0,
        kept=size if one is None else one.kept,
        replaced=0 if one is None else size - one.kept,
        nonzeros=int(np.count_nonzero(_values(stored))),
        rounded_away=(size if one is None else one.kept)
        - int(np.count_nonzero(_values(made.faithful.layers[at]))),
        bits=bits,
        frobenius=operator.frobenius(),
        replaced_mean=0.0 if one is None else one.removed_mean,
        replaced_largest=0.0 if one is None else one.removed_largest,
        rounding=spent.rounding,
        epsilon=spent.corrected,
        epsilon_printed=spent.printed,
        worst_ratio=worst,
        alpha=None if fit is None else fit.alpha,
        xmin=None if fit is None else fit.xmin,
        kept_model=size * share if tail else None,
        kept_fitted=fit.tail * share if tail and fit is not None else None,
    )


def _power_law(node: Node) -> PowerLawFit | None:
    sample = Magnitudes.of(node.affine.operator.weight.detach().double().numpy())
    return None if sample.refusal else fit_power_law(sample)


def _words(one: Replacement | None) -> str:
    if one is None:
        return "all weights"
    if not one.is_random:
        return "large weights"
    return "large weights + noise" if one.everywhere else "large weights, draws elsewhere"


def _induction(net: Network, errors: LayerErrors, epsilon: float | None) -> list[InductionError]:
    layers = net.affine_layers
    return [
        InductionError(
            compressed=i + 1,
            at=layers[j].name,
            promised=None if epsilon is None else (i + 1) / len(layers) * epsilon,
            worst=float(values.max()),
            mean=float(values.mean()),
        )
        for (i, j), values in sorted(errors.errors.items())
    ]


def _bounds(
    subject: Subject,
    made: ReplacedNet,
    errors: LayerErrors,
    epsilon: float | None,
    why: str,
    tried: int,
) -> tuple[Bound, ...]:
    """Theorem 2 on what is written: positions and values of every layer, biases and batch-norms
    beside.
    """
    others = [bias for bias in made.stored.biases if bias is not None]
    counted = []
    for layer in made.stored.layers:
        if isinstance(layer, Kept):
            others.append(layer.values)
            continue
        kept = layer.kept if isinstance(layer, Spiked) else layer
        assert isinstance(kept, Pruned)
        header = price(kept.values.exponent)
        if isinstance(layer, Spiked):  # the numbers of the law and their grid
            header += price(layer.law.exponent) + sum(price(int(one)) for one in layer.law.integers)
        largest = 2 * int(np.abs(kept.values.integers).max(initial=0))
        counted.append(
            HeavyTailLayerFacts(math.prod(layer.shape), kept.parameters, largest, header)
        )
    values = [2 * int(np.abs(part.integers).max(initial=0)) + 1 for part in others]
    facts = HeavyTailFacts(
        compressed=count_on_sample(
            subject.gamma or 0.0, subject.seen.margins, errors, made.stored, subject.delta
        ),
        layers=tuple(counted),
        epsilon=epsilon,
        largest_score=float(subject.seen.scores.max()),
        silent_because=why,
        tried=tried,
        others=sum(part.integers.size for part in others),
        other_values=max(values, default=1),
        header_nats=price(made.stored.seed)
        + price(max(values, default=1))
        + sum(price(one.exponent) for one in others),
    )
    return heavy_tail_rows(facts)
