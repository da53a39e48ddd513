"""A net whose small weights became noise, on its sample: layers, promises, bounds, other seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from cushion.compressors.lemmas import LayerErrors, follow_induction, induction_rows
from cushion.compressors.method import Account, Found
from cushion.compressors.noise import candidates, checks
from cushion.compressors.noise.candidates import Replacement
from cushion.compressors.noise.records import Accuracy, LayerReplacement, Trial
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.perturbations import Allowance, PairRatios, check_pairs, overlap
from cushion.compressors.records import PromiseCheck
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.storage.stored_net import StoredNet
from cushion.data import Dataset
from cushion.measures.tails.power_law import Magnitudes, fit_power_law
from cushion.nets.network import Network, Node
from cushion.progress import progress
from cushion.theorems import heavy_tails
from cushion.theorems.heavy_tails import HeavyTailFacts, HeavyTailLayerFacts
from cushion.theorems.logs import exp, log, price
from cushion.theorems.net_facts import look_at
from cushion.theorems.records import Bound
from cushion.theorems.sparsity import exceeds


class _Spent(NamedTuple):
    """What the propositions allow one layer relative to ‖W‖_F, in both forms; its rounding."""

    corrected: float | None
    printed: float | None
    rounding: float


class ReplacementAccount(Account):
    """Of a net whose small weights became noise."""

    def __init__(self, found: Found) -> None:
        super().__init__(found)
        self.made: candidates.ReplacedNet = found.candidate.made
        self.net: Network = self.subject.net
        self.printed = self.subject.options.form != "corrected"
        self.is_dense = self.net.is_chain and all(
            node.affine.kind == "linear" for node in self.net.affine_layers
        )

    @cached_property
    def faithful(self) -> StoredNet:
        """The lemmas are about every weight that stays, also where no later layer reads it."""
        about = self.net, self.made.replacements, self.made.bits, self.subject.seed
        return candidates.store_replaced(*about, faithful=True)

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
        found, nodes = [], self.net.affine_layers
        parts = zip(nodes, self.made.replacements, self.faithful.layers, strict=True)
        for node, one, layer in parts:
            moved = candidates.rounding(node, one, layer)
            if one is None:
                found.append(_Spent(None, None, moved))
                continue
            weight = node.affine.operator.weight.double()
            norm = float(torch.linalg.vector_norm(weight))
            spread = one.tau**2 + _variance(layer) if one.kept < weight.numel() else 0.0
            printed = heavy_tails.epsilon_promised_printed(spread, eta, "main text") / norm + moved
            corrected = (
                None if self.printed else heavy_tails.epsilon_promised(spread, eta, norm) + moved
            )
            found.append(_Spent(corrected, printed, moved))
        return found

    def _own(self, spent: Sequence[_Spent]) -> list[float | None]:
        """ε of each layer in the form that was asked for."""
        return [one.printed if self.printed else one.corrected for one in spent]

    @cached_property
    def ratios(self) -> PairRatios:
        allowed: list[Allowance | None] = []
        for epsilon, node in zip(self._own(self.spent), self.net.affine_layers, strict=True):
            operator = node.affine.operator
            geometry = operator.frobenius(), math.sqrt(overlap(operator))
            allowed.append(None if epsilon is None else Allowance(epsilon, *geometry))
        return check_pairs(self.net, self.network, self.some, allowed, seed=self.subject.seed)

    @cached_property
    def lemma_2_2(self) -> tuple[float | None, str]:
        """ε of the whole net by Lemma 2.2's expression, and why it is not promised, else empty.

        A layer that is left as it is spends its rounding.
        """
        if not self.is_dense:
            return None, "the lemma is about fully connected nets without branches"
        facts = self.subject.stability
        if facts is None or facts.undefined:
            return None, facts.undefined if facts else "cushions are not defined for this net"
        spent = [
            one.rounding if own is None else own
            for one, own in zip(self.spent, self._own(self.spent), strict=True)
        ]
        pairs = zip(facts.layers, spent, strict=True)
        worst = exp(max(log(one) - facts.log_share(layer, 1.0) for layer, one in pairs))
        return worst, self._silent(worst)

    def _silent(self, epsilon: float) -> str:
        examples, m = self.subject.options.examples, len(self.subject.sample)
        false = "Proposition 1.1 as printed, on which it rests, is false"
        reasons = {
            f"{false}: the mean of what goes survives": self.printed,
            self.subject.stability.unmet: bool(self.subject.stability.unmet),
            f"the induction needs ε ≤ 1, and these thresholds give {epsilon:.3g}": epsilon > 1,
            "the lemma is about nets without biases": self.subject.facts.has_bias,
            f"cushions were measured on {examples} of {m} examples": examples < m,
        }
        return next((why for why, holds in reasons.items() if holds), "")

    @cached_property
    def induced(self) -> LayerErrors:
        return follow_induction(self.net, self.network, self.subject.sample)

    @property
    def lemmas(self) -> list[PromiseCheck]:
        subject, printed, promises = self.subject, self.printed, []
        # the user's own η, for which τ was chosen
        eta = subject.eta if subject.options.eta is None else subject.options.eta
        own = self._own(self._spent(eta))
        if any(one is not None for one in own):
            about = self.net, self.network, self.some, own, eta
            promises.append(checks.proposition_1_1(*about, printed=printed))
        promises.append(checks.lemma_2_1(self.ratios, subject.eta, printed=printed))
        return [*promises, checks.lemma_2_2(self.induced, *self.lemma_2_2)]

    @property
    def layers(self) -> list[LayerReplacement]:
        return [self._layer(at, node) for at, node in enumerate(self.net.affine_layers)]

    def _layer(self, at: int, node: Node) -> LayerReplacement:
        operator, one = node.affine.operator, self.made.replacements[at]
        stored, size = self.found.stored.layers[at], operator.weight.numel()
        kept = size if one is None else one.kept
        faithful = int(np.count_nonzero(candidates.kept_values(self.faithful.layers[at])))
        spent = self.spent[at]
        return LayerReplacement(
            **self.of_layer(at),
            **({} if one is None else self._replaced(at, node, one)),
            stored_as=_words(one),
            deviation=self.made.deviations[at],
            t=_variance(stored),
            noise_mean=stored.mean if isinstance(stored, Spiked) else 0.0,
            kept=kept,
            replaced=size - kept,
            nonzeros=int(np.count_nonzero(candidates.kept_values(stored))),
            rounded_away=kept - faithful,
            frobenius=operator.frobenius(),
            rounding=spent.rounding,
            epsilon=spent.corrected,
            epsilon_printed=spent.printed,
        )

    def _replaced(self, at: int, node: Node, one: Replacement) -> dict[str, Any]:
        """What is said of a layer only where it is replaced."""
        found: dict[str, Any] = {
            "tau": one.tau,
            "t_asked": self.made.asked_t if one.everywhere else None,
            "replaced_mean": one.removed_mean,
            "replaced_largest": one.removed_largest,
            "worst_ratio": self.ratios.worst(at),
        }
        weight = node.affine.operator.weight
        sample = Magnitudes.of(weight.detach().double().numpy())
        if sample.refusal:
            return found
        fit = fit_power_law(sample)
        found |= {"alpha": fit.alpha, "xmin": fit.xmin}
        if not self.printed and one.tau >= fit.xmin:
            share = exceeds(one.tau, fit.tail_index, fit.xmin)
            found |= {"kept_model": weight.numel() * share, "kept_fitted": fit.tail * share}
        return found

    @property
    def bounds(self) -> Sequence[Bound]:
        """Theorem 2 on what is written, biases and batch-norms beside."""
        stored, (epsilon, why) = self.found.stored, self.lemma_2_2
        counted = []
        for layer in stored.layers:
            kept = layer.kept if isinstance(layer, Spiked) else layer
            if not isinstance(kept, Pruned):
                continue
            header = price(kept.values.exponent)
            if isinstance(layer, Spiked):  # the numbers of the law and their grid
                law = layer.law
                header += price(law.exponent) + sum(price(int(one)) for one in law.integers)
            largest = 2 * int(np.abs(kept.values.integers).max(initial=0))
            size = math.prod(layer.shape)
            counted.append(HeavyTailLayerFacts(size, kept.parameters, largest, header))
        others, values = self.others(stored)
        header = price(stored.seed) + price(values) + sum(price(one.exponent) for one in others)
        facts = HeavyTailFacts(
            self.counts(stored),
            tuple(counted),
            self.found.tried,
            sum(part.integers.size for part in others),
            values,
            epsilon=None if why else epsilon,
            largest_score=float(self.subject.seen.scores.max()),
            silent_because=why,
            header_nats=header,
        )
        return heavy_tails.heavy_tail_rows(facts)

    @property
    def columns(self) -> Mapping[str, Any]:
        subject, holdout, (epsilon, why) = self.subject, self.found.holdout, self.lemma_2_2
        stability = subject.stability if self.is_dense else None
        trials, held = self._trials(), None
        if holdout is not None:
            wrong = [one.holdout_errors or 0 for one in trials]
            held = _accuracy(len(holdout), look_at(self.net, holdout).errors, wrong)
        seen = [one.errors for one in trials]
        return {
            "form": subject.options.form,
            "eta": subject.eta,
            "epsilon": epsilon,
            "smoothness": None if stability is None else stability.smoothness,
            "induction": induction_rows(self.net, self.induced, None if why else epsilon),
            "trials": trials,
            "accuracy": _accuracy(len(subject.sample), subject.seen.errors, seen),
            "holdout_accuracy": held,
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
        return checks.notes_on(summary)


def _variance(layer: StoredLayer) -> float:
    return layer.deviation**2 if isinstance(layer, Spiked) else 0.0


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
