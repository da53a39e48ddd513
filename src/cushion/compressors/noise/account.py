"""A net whose small weights were replaced, on its sample: layers, promises, the count of Theorem 2,
the noise of other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from cushion.compressors.lemmas import LayerErrors, follow_induction, induction_rows
from cushion.compressors.method import Account, Found
from cushion.compressors.noise import checks
from cushion.compressors.noise.candidates import ReplacedNet, kept_values, rounding
from cushion.compressors.noise.notes import notes_on
from cushion.compressors.noise.records import Accuracy, LayerReplacement, Trial
from cushion.compressors.noise.replacement import Replacement
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.noise.storing import store_replaced
from cushion.compressors.pairs import Allowance, PairRatios, check_pairs, overlap
from cushion.compressors.records import PromiseCheck
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept, StoredLayer
from cushion.compressors.storage.stored_net import StoredNet
from cushion.data import Dataset
from cushion.measures.tails.power_law import Magnitudes, fit_power_law
from cushion.measures.tails.records import PowerLawFit
from cushion.nets.network import Network, Node
from cushion.progress import progress
from cushion.theorems.heavy_tails import (
    HeavyTailFacts,
    HeavyTailLayerFacts,
    epsilon_promised,
    epsilon_promised_printed,
    heavy_tail_rows,
)
from cushion.theorems.logs import exp, log, price
from cushion.theorems.net_facts import look_at
from cushion.theorems.records import Bound
from cushion.theorems.sparsity import exceeds


@dataclass(frozen=True)
class _Spent:
    """What the propositions allow one layer relative to ‖W‖_F, in both forms; its rounding."""

    corrected: float | None
    printed: float | None
    rounding: float


class ReplacementAccount(Account):
    """Of a net whose small weights became noise."""

    def __init__(self, found: Found) -> None:
        super().__init__(found)
        self.made: ReplacedNet = found.candidate.made
        self.net: Network = self.subject.net
        self.printed = self.subject.options.form != "corrected"

    @cached_property
    def faithful(self) -> StoredNet:
        """The lemmas are about every weight that stays, also where no later layer reads it."""
        made = self.made
        return store_replaced(
            self.net, made.replacements, made.bits, self.subject.seed, faithful=True
        )

    @cached_property
    def network(self) -> Network:
        return self.faithful.network(self.net)

    @cached_property
    def some(self) -> Dataset:
        rows: Dataset = self.subject.some_rows("pairs of layers")
        return rows

    @cached_property
    def spent(self) -> list[_Spent]:
        """At the η of Lemma 2.2."""
        return self._spent(self.subject.eta)

    def _spent(self, eta: float) -> list[_Spent]:
        found = []
        parts = zip(
            self.net.affine_layers, self.made.replacements, self.faithful.layers, strict=True
        )
        for node, one, stored in parts:
            weight, moved = node.affine.operator.weight.double(), rounding(node, one, stored)
            if one is None:
                found.append(_Spent(None, None, moved))
                continue
            norm = float(torch.linalg.vector_norm(weight))
            spread = one.tau**2 + _variance(stored) if one.kept < weight.numel() else 0.0
            printed = epsilon_promised_printed(spread, eta, "main text") / norm + moved
            corrected = None if self.printed else epsilon_promised(spread, eta, norm) + moved
            found.append(_Spent(corrected, printed, moved))
        return found

    def _own(self, spent: Sequence[_Spent]) -> list[float | None]:
        """ε of each layer in the form that was asked for."""
        return [one.printed if self.printed else one.corrected for one in spent]

    @cached_property
    def ratios(self) -> PairRatios:
        operators = [node.affine.operator for node in self.net.affine_layers]
        allowed = [
            None
            if epsilon is None
            else Allowance(epsilon, operator.frobenius(), math.sqrt(overlap(operator)))
            for epsilon, operator in zip(self._own(self.spent), operators, strict=True)
        ]
        return check_pairs(self.net, self.network, self.some, allowed, seed=self.subject.seed)

    @cached_property
    def lemma_2_2(self) -> tuple[float | None, str]:
        """ε of the whole net by Lemma 2.2's expression, and why it is not promised; empty where it
        is.

        A layer that is left as it is spends its rounding.
        """
        if not _is_dense(self.net):
            return None, "the lemma is about fully connected nets without branches"
        facts = self.subject.stability
        if facts is None or facts.undefined:
            why = "cushions are not defined for this net" if facts is None else facts.undefined
            return None, why
        parts = zip(facts.layers, self.spent, self._own(self.spent), strict=True)
        worst = max(
            log(one.rounding if own is None else own) - facts.log_share(layer, 1.0)
            for layer, one, own in parts
        )
        return exp(worst), self._silent(exp(worst))

    def _silent(self, epsilon: float) -> str:
        facts, m = self.subject.stability, len(self.subject.sample)
        examples = self.subject.options.examples
        if self.printed:
            return (
                "Proposition 1.1 as printed, on which it rests, is false: the mean of what goes "
                "survives"
            )
        if facts.unmet:
            return str(facts.unmet)
        if epsilon > 1:
            return f"the induction needs ε ≤ 1, and these thresholds give {epsilon:.3g}"
        if self.subject.facts.has_bias:
            return "the lemma is about nets without biases"
        if examples < m:
            return f"cushions were measured on {examples} of {m} examples"
        return ""

    @cached_property
    def induced(self) -> LayerErrors:
        return follow_induction(self.net, self.network, self.subject.sample)

    @property
    def lemmas(self) -> list[PromiseCheck]:
        subject, (epsilon, why) = self.subject, self.lemma_2_2
        # the user's own η, for which τ was chosen
        eta = subject.eta if subject.options.eta is None else subject.options.eta
        own = self._own(self._spent(eta))
        promises: list[PromiseCheck] = []
        if any(one is not None for one in own):
            promises.append(
                checks.proposition_1_1(
                    self.net, self.network, self.some, own, eta, printed=self.printed
                )
            )
        promises.append(checks.lemma_2_1(self.ratios, subject.eta, printed=self.printed))
        return [*promises, checks.lemma_2_2(self.induced, epsilon, why)]

    @property
    def layers(self) -> list[LayerReplacement]:
        return [self._layer(node, at) for at, node in enumerate(self.net.affine_layers)]

    def _layer(self, node: Node, at: int) -> LayerReplacement:
        operator, one = node.affine.operator, self.made.replacements[at]
        stored = self.found.stored.layers[at]
        size, spent = operator.weight.numel(), self.spent[at]
        kept = size if one is None else one.kept
        fit = None if one is None else _power_law(node)
        model = fitted = None
        if one is not None and fit is not None and not self.printed and one.tau >= fit.xmin:
            share = exceeds(one.tau, fit.tail_index, fit.xmin)
            model, fitted = size * share, fit.tail * share
        faithful = int(np.count_nonzero(kept_values(self.faithful.layers[at])))
        return LayerReplacement(
            **self.of_layer(at),
            stored_as=_words(one),
            deviation=self.made.deviations[at],
            tau=None if one is None else one.tau,
            t=_variance(stored),
            t_asked=None if one is None or not one.everywhere else self.made.asked_t,
            noise_mean=stored.mean if isinstance(stored, Spiked) else 0.0,
            kept=kept,
            replaced=size - kept,
            nonzeros=int(np.count_nonzero(kept_values(stored))),
            rounded_away=kept - faithful,
            frobenius=operator.frobenius(),
            replaced_mean=0.0 if one is None else one.removed_mean,
            replaced_largest=0.0 if one is None else one.removed_largest,
            rounding=spent.rounding,
            epsilon=spent.corrected,
            epsilon_printed=spent.printed,
            worst_ratio=None if one is None else self.ratios.worst(at),
            alpha=None if fit is None else fit.alpha,
            xmin=None if fit is None else fit.xmin,
            kept_model=model,
            kept_fitted=fitted,
        )

    @property
    def bounds(self) -> Sequence[Bound]:
        """Theorem 2 on what is written, biases and batch-norms beside."""
        stored, (epsilon, why) = self.found.stored, self.lemma_2_2
        others = [bias for bias in stored.biases if bias is not None]
        counted = []
        for layer in stored.layers:
            if isinstance(layer, Kept):
                others.append(layer.values)
                continue
            kept = layer.kept if isinstance(layer, Spiked) else layer
            assert isinstance(kept, Pruned)
            header = price(kept.values.exponent)
            if isinstance(layer, Spiked):  # the numbers of the law and their grid
                law = layer.law
                header += price(law.exponent) + sum(price(int(one)) for one in law.integers)
            largest = 2 * int(np.abs(kept.values.integers).max(initial=0))
            counted.append(
                HeavyTailLayerFacts(math.prod(layer.shape), kept.parameters, largest, header)
            )
        values = [2 * int(np.abs(part.integers).max(initial=0)) + 1 for part in others]
        facts = HeavyTailFacts(
            compressed=self.counts(stored),
            layers=tuple(counted),
            epsilon=None if why else epsilon,
            largest_score=float(self.subject.seen.scores.max()),
            silent_because=why,
            tried=self.found.tried,
            others=sum(part.integers.size for part in others),
            other_values=max(values, default=1),
            header_nats=price(stored.seed)
            + price(max(values, default=1))
            + sum(price(one.exponent) for one in others),
        )
        return heavy_tail_rows(facts)

    @property
    def columns(self) -> Mapping[str, Any]:
        subject, holdout, (epsilon, why) = self.subject, self.found.holdout, self.lemma_2_2
        stability = subject.stability if _is_dense(self.net) else None
        trials = self._trials()
        before = subject.seen.errors
        held = None if holdout is None else look_at(self.net, holdout).errors
        return {
            "form": subject.options.form,
            "eta": subject.eta,
            "epsilon": epsilon,
            "smoothness": None if stability is None else stability.smoothness,
            "induction": induction_rows(self.net, self.induced, None if why else epsilon),
            "trials": trials,
            "accuracy": _accuracy(len(subject.sample), before, [one.errors for one in trials]),
            "holdout_accuracy": None
            if holdout is None or held is None
            else _accuracy(len(holdout), held, [one.holdout_errors or 0 for one in trials]),
        }

    def _trials(self) -> tuple[Trial, ...]:
        """The net under every seed; without noise all are the same net, and one is enough."""
        subject, found, holdout = self.subject, self.found, self.found.holdout
        noisy = any(one is not None and one.is_random for one in self.made.replacements)
        seeds = range(subject.seed, subject.seed + (subject.options.trials if noisy else 1))
        trials = []
        for seed in progress(seeds, "trials"):
            network, errors = found.network, found.wrong
            if seed != subject.seed:
                network = replace(found.stored, seed=seed).network(self.net)
                errors = look_at(network, subject.sample).errors
            held = None if holdout is None else look_at(network, holdout).errors
            trials.append(Trial(seed, errors, held))
        return tuple(trials)

    def notes(self, summary: Any) -> Sequence[str]:
        return notes_on(summary)


def _variance(layer: StoredLayer) -> float:
    return layer.deviation**2 if isinstance(layer, Spiked) else 0.0


def _is_dense(net: Network) -> bool:
    return net.is_chain and all(node.affine.kind == "linear" for node in net.affine_layers)


def _power_law(node: Node) -> PowerLawFit | None:
    sample = Magnitudes.of(node.affine.operator.weight.detach().double().numpy())
    return None if sample.refusal else fit_power_law(sample)


def _words(one: Replacement | None) -> str:
    if one is None:
        return "all weights"
    if not one.is_random:
        return "large weights"
    return "large weights + noise" if one.everywhere else "large weights, draws elsewhere"


def _accuracy(m: int, before: int, errors: Sequence[int]) -> Accuracy:
    right = 1.0 - np.array(errors, dtype=np.float64) / m
    deviation = float(right.std(ddof=1)) if len(right) > 1 else None
    return Accuracy(m, 1.0 - before / m, float(right.mean()), deviation, len(right))
