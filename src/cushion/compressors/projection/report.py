"""A compressed net on its sample as one record: every layer before and after, every promise beside
what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cushion.compressors.induction import LayerErrors
from cushion.compressors.projection import checks
from cushion.compressors.projection.conv_project import Located, paper_p
from cushion.compressors.projection.location_sums import (
    filter_correlation,
    measured_dependence,
    variance_factor,
)
from cushion.compressors.projection.low_rank import LowRankMap
from cushion.compressors.projection.pairs import Allowance, check_pairs
from cushion.compressors.projection.places import simulate_places
from cushion.compressors.projection.spectral import layer_shifts, lemma_9
from cushion.compressors.projection.storing import LayerPlan
from cushion.compressors.projection.vectors import ProjectedRows, Sparse
from cushion.compressors.records import (
    Dependence,
    InductionError,
    LayerCompression,
    NetCompression,
    Promise,
    PromiseCheck,
)
from cushion.compressors.sample_counts import count_on_sample
from cushion.compressors.storage.stored import Kept, LowRank, Projected, StoredLayer
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.data.splits import permutation
from cushion.nets.network import Network, Node
from cushion.theorems.compression import corollary_a_1, theorem_2_1
from cushion.theorems.low_rank import theorem_2_2
from cushion.theorems.projection import corollary_c_1, theorem_4_1, theorem_5_1
from cushion.theorems.records import Bound

_Own = Sequence[tuple[float, float] | None]


@dataclass(frozen=True, eq=False)
class Compressed:
    """What is stored, the net that it makes, what was planned for each layer, and the errors on the
    sample.
    """

    stored: StoredNet
    network: Network
    plans: tuple[LayerPlan, ...]
    errors: LayerErrors


def describe(subject: Subject, found: Compressed) -> NetCompression:
    """The record, but for certificates, curve and rates."""
    promises, own = _checks(subject, found)
    net, options, method = subject.net, subject.options, subject.method
    helper = options.helper_of(method)
    epsilon = subject.epsilon if method in ("matrix-project", "conv-project") else None
    return NetCompression(
        method=method,
        helper=helper,
        variant="a structured variant: Hadamard rows in place of independent ones"
        if helper == "srht"
        else "",
        from_initialisation=options.from_initialisation,
        seed=subject.seed,
        gamma=subject.gamma,
        epsilon=epsilon,
        zeta=options.zeta,
        number_bits=_number_bits(subject),
        settings=options.settings(),
        examples=min(options.examples, len(subject.sample)),
        m=len(subject.sample),
        parameters_before=net.parameters,
        parameters=found.stored.parameters,
        bits=found.stored.bits,
        layers=tuple(_layers(subject, found, own, epsilon)),
        induction=tuple(_induction(subject, found, epsilon)),
        promises=tuple(promises),
        promise=Promise.of(promises),
        errors_before=subject.seen.errors,
        occam=(),
        paper_bounds=tuple(_bounds(subject, found)),
        place_sums=simulate_places(net, found.stored, subject.seed),
    )


def _number_bits(subject: Subject) -> int | None:
    """What --number-bits said; None where the accuracy or γ sets the grid."""
    chosen = subject.options.k is not None and subject.method not in (
        "vector-compress",
        "vector-project",
    )
    return (
        subject.options.number_bits
        if chosen or subject.method in ("matrix-project", "conv-project")
        else None
    )


def _checks(subject: Subject, found: Compressed) -> tuple[list[PromiseCheck], _Own]:
    zeta, nothing = subject.options.zeta, [None] * len(found.plans)
    if subject.method == "low-rank":
        shifts = layer_shifts(subject.net, found.network, subject.facts)
        first = checks.lemma_1(shifts, [plan.accuracy for plan in found.plans])
        promised = (
            lemma_9(shifts, subject.facts, subject.seen.inputs) if subject.net.is_chain else None
        )
        why = (
            subject.net.not_a_chain_because
            or "a layer moved by more than ‖A‖₂/d, where the lemma is silent"
        )
        promises = [first.check, checks.lemma_9(promised, found.errors, why)]
        from_margin = subject.options.k is None and subject.options.epsilon is None
        if from_margin and subject.gamma is not None:
            promises.append(checks.within_margin(subject.gamma, found.errors))
        return promises, first.own
    if subject.method in ("vector-compress", "vector-project"):
        return [_vector_check(subject, found)], nothing
    norms = [_projected_norm(subject, at) for at in range(len(found.plans))]
    allowed = checks.allowances(
        subject.net, found.stored, subject.eta, subject.options.constant, norms
    )
    rows = np.sort(permutation(len(subject.sample), subject.seed)[: subject.options.examples])
    some = subject.sample.select(rows, f"{len(rows)} rows for pairs of layers, seed={subject.seed}")
    ratios = check_pairs(subject.net, found.network, some, allowed, seed=subject.seed)
    located = [isinstance(layer, Located) for layer in found.stored.layers]
    variant = (
        "Hadamard rows have no tail bound of this kind" if subject.options.helper == "srht" else ""
    )
    dense = checks.lemma_pairs(
        "Lemma 2", ratios, allowed, zeta, chosen=[not one for one in located], silent=variant
    )
    promises, own = [dense.check], list(dense.own)
    name = "Lemma 3"
    if subject.method == "conv-project":
        name = "Lemma 14"
        filters = checks.lemma_pairs(
            "Lemma 13",
            ratios,
            allowed,
            zeta,
            chosen=located,
            silent=variant or _too_few_places(subject, found),
            note="its proof rests on Lemma 12, which is false",
        )
        own = [mine or other for mine, other in zip(own, filters.own, strict=True)]
        promises = [*([] if all(located) else promises), *([filters.check] if any(located) else [])]
    why = _why_no_induction(subject, found, allowed, variant)
    promises.append(
        checks.induction_check(name, found.errors, subject.epsilon, why, len(found.plans), zeta)
    )
    return promises, own


def _too_few_places(subject: Subject, found: Compressed) -> str:
    """Why Lemma 13 does not speak of this p: it needs 2^-p ≤ η."""
    least = min((layer.p for layer in found.stored.layers if isinstance(layer, Located)), default=0)
    needed = paper_p(subject.eta)
    return f"not promised: p = {least} where the lemma needs {needed}" if 0 < least < needed else ""


def _why_no_induction(
    subject: Subject, found: Compressed, allowed: Sequence[Allowance], variant: str
) -> str:
    """Why Lemma 3 or 14 does not speak of this compression; empty where it does."""
    layers, counts, stability, epsilon = (
        found.stored.layers,
        subject.counts,
        subject.stability,
        subject.epsilon,
    )
    if counts is None or stability is None or epsilon is None:
        return checks.why_no_induction(None, (), (), (), "")
    spent = [
        layer.numbers[0].step / 2 / one.frobenius if isinstance(layer, Kept) else one.epsilon
        for layer, one in zip(layers, allowed, strict=True)
    ]
    shares = [
        math.exp(min(700.0, stability.log_share(layer, epsilon))) for layer in stability.layers
    ]
    also = variant or subject.outside_the_lemma
    return checks.why_no_induction(counts, [_size(layer) for layer in layers], spent, shares, also)


def _vector_check(subject: Subject, found: Compressed) -> PromiseCheck:
    """Lemma 5 or 7 on the sample: an example fails with probability at most η, so about a fraction
    η may.
    """
    gamma, eta = subject.need_gamma(), subject.vector_eta
    ratios = found.errors.largest_gaps / (gamma / 2)
    if subject.net.classes == 2:
        ratios = np.abs(found.errors.margins - subject.seen.margins) / gamma
    failed = float((~(ratios <= 1)).mean())
    name = "Lemma 5" if subject.method == "vector-compress" else "Lemma 7"
    text = (
        f"change of the scores over what a margin of {gamma:.3g} allows; {100 * failed:.3g} % of "
        f"the examples exceed it, and η = {eta:.3g} of them may"
    )
    silent = ""
    if subject.method == "vector-project":
        k, asked = _size(found.stored.layers[0]), subject.linear.projections
        if subject.options.helper == "srht":
            silent = "Hadamard rows have no tail bound of this kind"
        elif k < asked:
            silent = f"not promised at k = {k}: the lemma asks for {asked}"
    text = f"{text}; {silent}" if silent else text
    held = None if silent else failed <= eta
    return PromiseCheck(name, f"Arora 2018, {name}", held, float(ratios.max()), len(ratios), text)


def _projected_norm(subject: Subject, at: int) -> float:
    operator = subject.net.affine_layers[at].affine.operator
    if subject.start is not None:
        operator = operator.minus(subject.start.affine_layers[at].affine.operator)
    return operator.frobenius()


def _size(layer: StoredLayer) -> int:
    """The rank, or k; the number of weights where they are all kept."""
    if isinstance(layer, LowRank | LowRankMap):
        return layer.rank
    if isinstance(layer, Projected):
        return int(layer.coefficients.integers.size)
    if isinstance(layer, ProjectedRows):
        return int(layer.coefficients.integers.shape[1])
    if isinstance(layer, Located):
        return layer.k
    return layer.parameters


def _layers(
    subject: Subject, found: Compressed, own: _Own, epsilon: float | None
) -> list[LayerCompression]:
    depth, bits = len(found.plans), found.stored.layer_bits()
    counts = subject.counts if epsilon is not None else None
    rows = []
    for at, (node, layer) in enumerate(
        zip(subject.net.affine_layers, found.stored.layers, strict=True)
    ):
        count = None if counts is None else counts.layers[at]
        bias = found.stored.biases[at]
        stored = layer.parameters + (0 if bias is None else bias.integers.size)
        promised = own[at]
        rows.append(
            LayerCompression(
                name=node.name,
                kind=node.affine.kind,
                shape=tuple(node.affine.operator.weight.shape),
                stored_as=_words(layer),
                size=0 if isinstance(layer, Kept) else _size(layer),
                lemma_size=None if count is None else count.projections,
                lemma_size_log10=None if count is None else count.log_projections / math.log(10),
                parameters_before=node.affine.parameters,
                parameters=stored,
                bits=bits[at],
                step=layer.numbers[0].step,
                promised=None if epsilon is None else (at + 1) / depth * epsilon,
                measured=float(found.errors.errors[at, at].max()),
                own_accuracy=None if promised is None else promised[0],
                own_ratio=None if promised is None else promised[1],
                weight_error=_weight_error(node, found.network),
                dependence=_dependence(layer, node, found.network),
                note="stores no fewer numbers than the layer has"
                if stored >= node.affine.parameters
                else "",
            )
        )
    return rows


def _words(layer: StoredLayer) -> str:
    if isinstance(layer, LowRank):
        return f"rank {layer.rank}"
    if isinstance(layer, LowRankMap):
        return f"rank {layer.rank} of the map"
    if isinstance(layer, Projected):
        return f"k = {layer.coefficients.integers.size}, {layer.helper}"
    if isinstance(layer, Located):
        return f"k = {layer.k}, p = {layer.p}, {layer.helper}"
    if isinstance(layer, Sparse):
        return f"{layer.parameters} non-zeros"
    if isinstance(layer, ProjectedRows):
        return f"k = {layer.coefficients.integers.shape[1]} a vector, {layer.helper}"
    return "kept"


def _weight_error(node: Node, network: Network) -> float:
    """‖Â - A‖_F/‖A‖_F of the numbers of the weight; of a filter at each place, the root mean square
    over them.
    """
    mine, other = node.affine.operator, network.nodes[node.index].affine.operator
    size = mine.frobenius()
    if other.weight.shape == mine.weight.shape:
        gap = float(torch.linalg.vector_norm(other.weight.double() - mine.weight.double()))
    elif other.weight.ndim == 5:
        gap = float(
            torch.linalg.vector_norm(other.weight.double() - mine.weight.double())
        ) / math.sqrt(len(other.weight))
    else:
        dense = mine.to(torch.float64).dense()
        gap, size = (
            float(torch.linalg.vector_norm(other.dense().double() - dense)),
            float(torch.linalg.vector_norm(dense)),
        )
    return gap / size if size > 0 else 0.0 if gap == 0 else math.inf


def _dependence(layer: StoredLayer, node: Node, network: Network) -> Dependence | None:
    if not isinstance(layer, Located) or layer.places < 2:
        return None
    filters = network.nodes[node.index].affine.operator.weight.double().numpy()
    kernel = node.affine.operator.weight.double().numpy()
    correlation = measured_dependence(filters, kernel)
    expected = filter_correlation(kernel.size, layer.k, layer.p)
    return Dependence(
        layer.places, correlation, expected, variance_factor(layer.places, correlation)
    )


def _induction(subject: Subject, found: Compressed, epsilon: float | None) -> list[InductionError]:
    depth, layers = len(found.plans), subject.net.affine_layers
    return [
        InductionError(
            compressed=i + 1,
            at=layers[j].name,
            promised=None if epsilon is None else (i + 1) / depth * epsilon,
            worst=float(values.max()),
            mean=float(values.mean()),
        )
        for (i, j), values in sorted(found.errors.errors.items())
    ]


def _bounds(subject: Subject, found: Compressed) -> list[Bound]:
    """The paper's theorems for this compression."""
    facts = count_on_sample(
        subject.gamma or 0.0, subject.seen.margins, found.errors, found.stored, subject.delta
    )
    rows = [*theorem_2_1(facts), *corollary_a_1(facts)]
    if subject.method == "low-rank":
        rows += theorem_2_2(subject.facts)
    if subject.method not in ("matrix-project", "conv-project") or subject.stability is None:
        return rows
    options = subject.options
    stability = subject.stability
    if subject.method == "matrix-project":
        return rows + theorem_4_1(subject.facts, stability, options.zeta)
    if options.zeta:
        return rows + corollary_c_1(subject.facts, stability, options.zeta, options.constant)
    return rows + theorem_5_1(subject.facts, stability, options.constant)
