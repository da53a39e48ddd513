"""A compressed net on its sample: layers, and promises of Arora 2018 beside what was seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from cushion.compressors.choice import ASSUMED
from cushion.compressors.lemmas import Lemma, induction_check, induction_rows
from cushion.compressors.method import Account, Found
from cushion.compressors.perturbations import Allowance, check_pairs, layer_shifts, lemma_9
from cushion.compressors.projection import checks
from cushion.compressors.projection.conv_project import Located, paper_p
from cushion.compressors.projection.location_sums import (
    filter_correlation,
    measured_dependence,
    simulate_places,
    variance_factor,
)
from cushion.compressors.projection.low_rank import LowRank, LowRankMap
from cushion.compressors.projection.matrix_project import Projected, ProjectedRows, Sparse
from cushion.compressors.projection.method import VECTORS
from cushion.compressors.projection.records import Dependence, LayerProjection
from cushion.compressors.projection.storing import LayerPlan
from cushion.compressors.projection.subject import ProjectionSubject, linear_layer
from cushion.compressors.records import PromiseCheck
from cushion.compressors.storage.stored import Kept, StoredLayer
from cushion.nets.network import Network, Node
from cushion.theorems.compression import corollary_a_1, theorem_2_1
from cushion.theorems.linear_rates import LinearRate, bound_compress, bound_project
from cushion.theorems.logs import LN10
from cushion.theorems.projection import theorem_2_2, theorem_4_1, theorem_5_1
from cushion.theorems.records import Bound

_Own = Sequence[tuple[float, float] | None]
_PROJECTIONS = ("matrix-project", "conv-project")
_RATES = tuple(10**power for power in range(3, 13))
_MANY = 10**9
_NO_TAIL = "Hadamard rows have no tail bound of this kind"
_HADAMARD = "a structured variant: Hadamard rows in place of independent ones"
_FALSE = "its proof rests on Lemma 12, which is false"
_INITIAL = (
    "the initialisation was drawn before the data, and not chosen because it did well on them"
)


class ProjectionAccount(Account):
    """Of a net whose layers were cut or projected."""

    subject: ProjectionSubject

    def __init__(self, found: Found) -> None:
        super().__init__(found)
        self.plans: tuple[LayerPlan, ...] = found.candidate.made
        options = self.subject.options
        self.variant = _NO_TAIL if options.helper == "srht" else ""
        # of the scores, where a lemma promises one
        self.epsilon = self.subject.epsilon if self.subject.method in _PROJECTIONS else None

    @property
    def lemmas(self) -> list[PromiseCheck]:
        return self._checked[0]

    @cached_property
    def _checked(self) -> tuple[list[PromiseCheck], _Own]:
        """Every check, and for each layer what was promised of it alone and the worst over that."""
        if self.subject.method == "low-rank":
            return self._truncated()
        if self.subject.method in VECTORS:
            return [self._vectors()], [None] * len(self.plans)
        return self._projected()

    def _truncated(self) -> tuple[list[PromiseCheck], _Own]:
        """Lemmas 1 and 9, and Theorem 2.2 where the accuracy follows from γ."""
        subject, errors, options = self.subject, self.found.errors, self.subject.options
        shifts = layer_shifts(subject.net, self.found.network, subject.facts)
        first = checks.lemma_1(shifts, [plan.accuracy for plan in self.plans])
        chain = subject.net.is_chain
        promised = lemma_9(shifts, subject.facts, subject.seen.inputs) if chain else None
        far = "a layer moved by more than ‖A‖₂/d, where the lemma is silent"
        why = subject.net.not_a_chain_because or far
        promises = [first.check, checks.lemma_9(promised, errors, why)]
        if options.k is None and options.epsilon is None and subject.gamma is not None:
            promises.append(checks.within_margin(subject.gamma, errors))
        return promises, first.own

    def _projected(self) -> tuple[list[PromiseCheck], _Own]:
        """Lemma 2 (and 13, of a filter at each place), then the induction of Lemma 3 or 14."""
        subject, found, options = self.subject, self.found, self.subject.options
        norms = [subject.changed_norm(at) for at in range(len(self.plans))]
        allowed = checks.allowances(subject.net, found.stored, subject.eta, options.constant, norms)
        some = subject.some_rows("pairs of layers")
        pairs = check_pairs(subject.net, found.network, some, allowed, seed=subject.seed)
        located = [isinstance(layer, Located) for layer in found.stored.layers]
        dense = [not one for one in located]
        asked = [("Lemma 2", dense, self.variant, "")]
        if subject.method == "conv-project":
            silent = self.variant or self._too_few_places()
            asked.append(("Lemma 13", located, silent, _FALSE))
        promises: list[PromiseCheck] = []
        own: _Own = [None] * len(located)
        for name, chosen, silent, note in asked:
            checked = checks.lemma_pairs(
                name, pairs, allowed, options.zeta, chosen=chosen, silent=silent, note=note
            )
            own = [mine or other for mine, other in zip(own, checked.own, strict=True)]
            if any(chosen) or len(asked) == 1:
                promises.append(checked.check)
        lemma = Lemma("Lemma 14" if subject.method == "conv-project" else "Lemma 3", "Arora 2018")
        if subject.epsilon is None:
            why = "no ε: the margin γ is not positive; give `epsilon` or `gamma`"
            return [*promises, lemma.silent(why)], own
        why, zeta = self._why_no_induction(allowed), options.zeta
        return [*promises, induction_check(lemma, found.errors, subject.epsilon, why, zeta)], own

    def _too_few_places(self) -> str:
        """Why Lemma 13 does not speak of this p: it needs 2^-p ≤ η."""
        layers, needed = self.found.stored.layers, paper_p(self.subject.eta)
        least = min((layer.p for layer in layers if isinstance(layer, Located)), default=needed)
        return f"not promised: p = {least} where the lemma needs {needed}" * (least < needed)

    def _why_no_induction(self, allowed: Sequence[Allowance]) -> str:
        """Why Lemma 3 or 14 does not speak of this compression; empty where it does."""
        subject, layers = self.subject, self.found.stored.layers
        counts, stability, epsilon = subject.counts, subject.stability, subject.epsilon
        if counts is None or stability is None or epsilon is None:
            return checks.why_no_induction(None, (), (), (), "")
        spent = [
            layer.numbers[0].step / 2 / one.frobenius if isinstance(layer, Kept) else one.epsilon
            for layer, one in zip(layers, allowed, strict=True)
        ]
        logs = [stability.log_share(layer, epsilon) for layer in stability.layers]
        shares = [math.exp(min(700.0, one)) for one in logs]
        also, sizes = self.variant or subject.outside_the_lemma, [_known(one)[0] for one in layers]
        return checks.why_no_induction(counts, sizes, spent, shares, also)

    def _vectors(self) -> PromiseCheck:
        """Lemma 5 or 7: an example fails with probability η, so about a fraction η may."""
        subject, errors = self.subject, self.found.errors
        gamma, eta = subject.need_gamma(), subject.vector_eta
        ratios = errors.largest_gaps / (gamma / 2)
        if subject.net.classes == 2:
            ratios = np.abs(errors.margins - subject.seen.margins) / gamma
        failed = float((~(ratios <= 1)).mean())
        silent = ""
        if subject.method == "vector-project":
            k, asked = _known(self.found.stored.layers[0])[0], subject.linear.projections
            few = f"not promised at k = {k}: the lemma asks for {asked}"
            silent = self.variant or few * (k < asked)
        text = (
            f"change of the scores over what a margin of {gamma:.3g} allows; {100 * failed:.3g} % "
            f"of the examples exceed it, and η = {eta:.3g} of them may"
        )
        lemma = Lemma("Lemma 5" if subject.method == "vector-compress" else "Lemma 7", "Arora 2018")
        said = f"{text}; {silent}" if silent else text
        held = None if silent else failed <= eta
        return lemma.seen(held, float(ratios.max()), len(ratios), said)

    @property
    def layers(self) -> list[LayerProjection]:
        subject, found = self.subject, self.found
        nodes, depth = subject.net.affine_layers, len(self.plans)
        counts = subject.counts if self.epsilon is not None else None
        rows = []
        for at, (node, layer) in enumerate(zip(nodes, found.stored.layers, strict=True)):
            count = None if counts is None else counts.layers[at].projections
            log_count = None if counts is None else counts.layers[at].log_projections / LN10
            accuracy, ratio = self._checked[1][at] or (None, None)
            bias, (size, words) = found.stored.biases[at], _known(layer)
            stored = layer.parameters + (0 if bias is None else bias.integers.size)
            grows = stored >= node.affine.parameters
            rows.append(
                LayerProjection(
                    **self.of_layer(at),
                    stored_as=words,
                    size=0 if isinstance(layer, Kept) else size,
                    lemma_size=count,
                    lemma_size_log10=log_count,
                    parameters=stored,
                    step=layer.numbers[0].step,
                    promised=None if self.epsilon is None else (at + 1) / depth * self.epsilon,
                    measured=float(found.errors.errors[at, at].max()),
                    own_accuracy=accuracy,
                    own_ratio=ratio,
                    weight_error=_weight_error(node, found.network),
                    dependence=_dependence(layer, node, found.network),
                    note="stores no fewer numbers than the layer has" if grows else "",
                )
            )
        return rows

    @property
    def bounds(self) -> list[Bound]:
        """The paper's theorems for this compression."""
        subject = self.subject
        zeta, constant = subject.options.zeta, subject.options.constant
        facts = self.counts(self.found.stored)
        rows = [*theorem_2_1(facts), *corollary_a_1(facts)]
        if subject.method == "low-rank":
            return rows + theorem_2_2(subject.facts)
        if subject.method in VECTORS or subject.stability is None:
            return rows
        if subject.method == "matrix-project":
            return rows + theorem_4_1(subject.facts, subject.stability, zeta)
        return rows + theorem_5_1(subject.facts, subject.stability, zeta, constant)

    @property
    def columns(self) -> Mapping[str, Any]:
        subject, options = self.subject, self.subject.options
        method, helper = subject.method, options.helper_of(subject.method)
        # None where the accuracy or γ sets the grid
        fixed = method in _PROJECTIONS or (options.k is not None and method == "low-rank")
        return {
            "helper": helper,
            "variant": _HADAMARD if helper == "srht" else "",
            "from_initialisation": options.from_initialisation,
            "epsilon": self.epsilon,
            "zeta": options.zeta,
            "number_bits": options.number_bits if fixed else None,
            "examples": min(options.examples, len(subject.sample)),
            "induction": induction_rows(subject.net, self.found.errors, self.epsilon),
            "rates": _rates(subject) if method in VECTORS else (),
            "place_sums": simulate_places(subject.net, self.found.stored, subject.seed),
            "assumptions": ASSUMED if subject.start is None else (*ASSUMED, _INITIAL),
        }


def _rates(subject: ProjectionSubject) -> tuple[LinearRate, ...]:
    """Both explicit rates for this classifier's margin, over sample sizes.

    Vector-Compress twice: with the classifier's own h, which it soon keeps whole, and with so many
    coordinates that its own rate of m^-1/3 shows.
    """
    gamma, delta = min(0.999, subject.unit_gamma), subject.delta
    own = linear_layer(subject.net, subject.method).affine.operator.input_size
    found = [bound_compress(m, gamma, h, delta) for h in (own, _MANY) for m in _RATES]
    return (*found, *(bound_project(m, gamma, delta, own) for m in _RATES))


def _known(layer: StoredLayer) -> tuple[int, str]:
    """Its rank, or k (the number of weights where they are all kept), and how it is stored."""
    match layer:
        case LowRank():
            return layer.rank, f"rank {layer.rank}"
        case LowRankMap():
            return layer.rank, f"rank {layer.rank} of the map"
        case Projected():
            return (k := layer.coefficients.integers.size), f"k = {k}, {layer.helper}"
        case Located():
            return layer.k, f"k = {layer.k}, p = {layer.p}, {layer.helper}"
        case Sparse():
            return layer.parameters, f"{layer.parameters} non-zeros"
        case ProjectedRows():
            k = layer.coefficients.integers.shape[1]
            return k, f"k = {k} a vector, {layer.helper}"
    return layer.parameters, "kept"


def _weight_error(node: Node, network: Network) -> float:
    """‖Â - A‖_F/‖A‖_F of the weight; of a filter at each place, the root mean square."""
    mine, other = node.affine.operator, network.nodes[node.index].affine.operator
    ours, theirs, size = mine.weight.double(), other.weight.double(), mine.frobenius()
    if theirs.ndim < ours.ndim:  # a whole map
        ours, theirs = mine.to(torch.float64).dense(), other.dense().double()
        size = float(torch.linalg.vector_norm(ours))
    gap = float(torch.linalg.vector_norm(theirs - ours))
    if theirs.ndim == 5:
        gap /= math.sqrt(len(theirs))
    return gap / size if size > 0 else 0.0 if gap == 0 else math.inf


def _dependence(layer: StoredLayer, node: Node, network: Network) -> Dependence | None:
    if not isinstance(layer, Located) or layer.places < 2:
        return None
    filters = network.nodes[node.index].affine.operator.weight.double().numpy()
    kernel = node.affine.operator.weight.double().numpy()
    seen = measured_dependence(filters, kernel)
    expected = filter_correlation(kernel.size, layer.k, layer.p)
    return Dependence(layer.places, seen, expected, variance_factor(layer.places, seen))
