"""A pruned net on its sample: Assumption 3.1 and all promises of Guha 2023 beside what was seen;
and each layer, with the paper's quantities as printed, corrected, and seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.lemmas import LayerErrors, follow_induction
from cushion.compressors.method import Account, Found
from cushion.compressors.perturbations import LayerShift, layer_shifts, lemma_9, overlap
from cushion.compressors.pruning import candidates, checks
from cushion.compressors.pruning.candidates import PrunedNet
from cushion.compressors.pruning.conditions import check_condition, normality
from cushion.compressors.pruning.masks import as_matrix, diagonal_mask
from cushion.compressors.pruning.records import LayerPruning, LayerSketch, Moments, Subgaussian
from cushion.compressors.records import PromiseCheck
from cushion.compressors.storage.pruned import Pruned, is_pruned
from cushion.compressors.storage.stored import Kept
from cushion.nets.network import Network, Node
from cushion.nets.operators import Conv2d
from cushion.progress import progress
from cushion.theorems import pruning as laws
from cushion.theorems.pruning import Shares, failure_shares, keep_probability
from cushion.theorems.pruning_bounds import PrunedFacts, PrunedLayerFacts, pruning_rows
from cushion.theorems.records import Bound


class PruningAccount(Account):
    """Of a net without its small weights."""

    def __init__(self, found: Found) -> None:
        super().__init__(found)
        self.made: PrunedNet = found.candidate.made
        self.net: Network = self.subject.net

    @cached_property
    def shares(self) -> Shares | None:
        """How δ is shared among the layers; None for a rule without coins."""
        operators = [node.affine.operator for node in self.net.affine_layers]
        shapes = [as_matrix(one.weight.shape) for one in operators if is_pruned(one)]
        return None if self.made.d is None else failure_shares(self.subject.delta, shapes)

    @cached_property
    def layers(self) -> tuple[LayerPruning, ...]:
        nodes, shares = self.net.affine_layers, self.shares
        own = iter(() if shares is None else zip(shares.epsilon, shares.lambda_, strict=True))
        found = []
        for at, node in enumerate(progress(nodes, "norms of Δ", "layer")):
            pair = next(own, None) if is_pruned(node.affine.operator) else None
            found.append(prune_layer(node, at, self.made, pair, self.of_layer(at), len(nodes)))
        return tuple(found)

    @property
    def pruned(self) -> list[LayerPruning]:
        """Without batch-norms, of which nothing may go."""
        pairs = zip(self.layers, self.net.affine_layers, strict=True)
        return [layer for layer, node in pairs if is_pruned(node.affine.operator)]

    @cached_property
    def before(self) -> LayerErrors:
        """Of the net that was pruned and neither fine-tuned nor rounded."""
        scores = self.found.errors.scores
        return follow_induction(self.net, self.made.pruned, self.subject.sample, scores=scores)

    @cached_property
    def condition(self) -> Subgaussian:
        subject, pruned = self.subject, self.made.pruned
        constants = subject.options.subgaussian_constants
        about = self.net, pruned, subject.sample, constants
        return check_condition(*about, subject.delta, subject.seed)

    @cached_property
    def silent(self) -> str:
        """Why Lemmas 4.3 and 4.4 do not speak of this net; empty where they do."""
        if not self.net.is_chain:
            return self.net.not_a_chain_because
        tuned = "the net was fine-tuned, and the lemma is about weights that were only pruned"
        return f"{tuned} and rounded" if self.subject.options.fine_tune else ""

    @cached_property
    def stored_shifts(self) -> list[LayerShift]:
        """Of the net as it comes back."""
        return layer_shifts(self.net, self.found.network, self.subject.facts)

    @property
    def lemmas(self) -> list[PromiseCheck]:
        facts, inputs, layers = self.subject.facts, self.subject.seen.inputs, self.layers
        promises = [checks.lemma_4_1(layers), checks.lemma_4_2(layers)]
        for name, shifts, errors in (
            ("Lemma 4.3", layer_shifts(self.net, self.made.pruned, facts), self.before),
            ("Lemma 4.4", self.stored_shifts, self.found.errors),
        ):
            about = name, layers, shifts, facts, inputs, errors.gaps
            promises += checks.output_checks(*about, self.condition, self.silent)
        return [*promises, checks.lemma_c_1(self.condition), checks.lemma_5_1(layers)]

    @property
    def gamma_needed(self) -> float | None:
        """The γ that Lemma 4.4 with the exact shifts asks for, where it speaks."""
        if self.silent:
            return None
        allowed = lemma_9(self.stored_shifts, self.subject.facts, self.subject.seen.inputs)
        return None if allowed is None else math.sqrt(2.0) * float(allowed.max())

    @property
    def bounds(self) -> list[Bound]:
        made, layers, counted = self.made, self.layers, []
        for layer, plain in zip(layers, made.plain.layers, strict=True):
            if not isinstance(plain, Pruned):
                continue
            rows, columns = as_matrix(layer.shape)
            chi = layer.nonzeros / layer.weights if made.d is None else keep_probability(made.d)
            values = 2 * int(np.abs(plain.values.integers).max(initial=0))
            most, share = (layer.row_most, layer.column_most), layer.lambda_l or 1.0
            stored = rows, columns, layer.nonzeros, chi, layer.rho, values
            counted.append(PrunedLayerFacts(*stored, *most, share))
        others, other_values = self.others(made.plain)
        facts = PrunedFacts(
            self.counts(made.plain),
            tuple(counted),
            self.found.tried,
            sum(part.integers.size for part in others),
            other_values,
            measured=made.d is None,
            gamma_needed=self.gamma_needed,
            normal=all(layer.normality is None or layer.normality.plausible for layer in layers),
        )
        return pruning_rows(facts)

    @property
    def columns(self) -> Mapping[str, Any]:
        options, shares, layers = self.subject.options, self.shares, self.pruned
        left = sum(layer.nonzeros for layer in layers)
        return {
            "rule": options.chosen_rule,
            "d": self.made.d,
            "sparsity": 1.0 - left / sum(layer.weights for layer in layers),
            "failure": {} if shares is None else _failure(shares),
            "subgaussian": self.condition,
            "errors_after_pruning": int((self.before.margins <= 0).sum()),
            "fine_tuned": options.fine_tune,
        }

    def notes(self, summary: Any) -> list[str]:  # noqa: ARG002
        layers, made, notes = self.pruned, self.made, []
        if all(layer.kept == layer.weights for layer in layers):
            notes.append("nothing was pruned: every weight stays, on its grid")
        if empty := ", ".join(layer.name for layer in layers if layer.nonzeros == 0):
            what = "the net gives every example the same scores"
            what = what if self.net.is_chain else "what passes through it is constant"
            notes.append(f"{empty} with no weight left: {what}")
        exponents = made.grid.exponents or (0,) * len(self.layers)
        pairs = zip(self.layers, exponents, strict=True)
        if none := ", ".join(one.name for one, e in pairs if e is None and one.normality):
            notes.append(
                f"Lemma 4.4 leaves no grid, or none of 16 bits, for {none} (pruning alone may move "
                f"a layer by at most ‖A‖₂/L): {made.grid.bits} bits a weight there"
            )
        if lost := ", ".join(one.name for one in layers if one.sketch and not one.sketch.recovered):
            why = f"no sketch of {lost} came back exactly"
            notes.append(f"{why}, so it is stored as mask and values")
        if self.shares is not None and self.shares.note:
            notes.append(self.shares.note)
        return notes


def _failure(shares: Shares) -> dict[str, float]:
    return {
        "delta": shares.delta,
        "lemma_4_2": math.fsum(1 / one for one in shares.epsilon),
        "lemma_5_1": math.fsum(1 / one for one in shares.lambda_),
        "total": shares.spent,
        "lemma_5_1_printed_adds": shares.lemma_5_1,
        "total_printed": shares.printed,
    }


def prune_layer(
    node: Node,
    at: int,
    made: PrunedNet,
    pair: tuple[float, float] | None,
    known: Mapping[str, Any],
    depth: int,
) -> LayerPruning:
    """pair: ε_l and λ_l where Algorithm 1 pruned; known: what every method says of a layer."""
    operator, mask, plain = node.affine.operator, made.masks[at], made.plain.layers[at]
    assert isinstance(plain, Pruned | Kept)
    pruned = isinstance(plain, Pruned)
    integers = plain.integers if isinstance(plain, Pruned) else plain.values.integers
    rho, kept, patches = plain.values.step, int(mask.sum()), overlap(operator)
    spectral = operator.spectral()
    moved = made.pruned.nodes[node.index].affine.operator.minus(operator)
    shift = moved.spectral() if pruned else 0.0
    # on its grid in float64, before the net's own dtype rounds it again
    exact = plain.operator(operator.to(torch.float64), made.plain.seed)
    rounded = exact.minus(made.tuned.nodes[node.index].affine.operator)
    zero = torch.from_numpy(integers == 0).reshape(mask.shape)
    dropped = zero & (rounded.weight.abs() > rho / 2)  # not by rounding
    if bool(dropped.any()):
        rounded = rounded.with_weight(rounded.weight.masked_fill(dropped, 0.0))
    normal = normality(operator.weight) if pruned else None
    lemmas: dict[str, Any] = dict.fromkeys(("gamma_l", "epsilon_l", "lambda_l", "limit"))
    lemmas |= dict.fromkeys(("moments", "rho_limit_printed", "limit_printed"))
    if normal is not None and pair is not None and made.d is not None:
        lemmas |= _lemmas(node, made.d, normal.psi, *pair)
        lemmas["moments"] = _moments(moved.weight, mask, made.d, normal.psi)
        if (gamma := lemmas["gamma_l"]) is not None:
            limit = candidates.rho_limit_printed(spectral, depth, pair[0], gamma, kept)
            lemmas["rho_limit_printed"] = limit
    there = integers.reshape(as_matrix(integers.shape)) != 0
    diagonal = diagonal_mask(integers.shape).numpy().reshape(there.shape)
    sketch = made.sketches[at] if made.sketches else None
    return LayerPruning(
        **known,
        **lemmas,
        kept=kept,
        nonzeros=int(there.sum()),
        dead=int(dropped.sum()),
        normality=normal,
        spectral=spectral,
        shift=shift,
        rho=rho,
        rho_limit=candidates.rho_limit(spectral, depth, shift, kept, patches),
        rounding=rounded.spectral(),
        rounding_printed=rho * kept,
        rounding_limit=candidates.rounding_limit(rho, kept, patches),
        row_most=int(there.sum(1).max(initial=0)),
        column_most=int(there.sum(0).max(initial=0)),
        diagonal=bool(there[diagonal].all()),
        stored_as=_words(plain, sketch),
        sketch=sketch,
    )


def _lemmas(node: Node, d: float, psi: float, epsilon: float, share: float) -> dict[str, Any]:
    """What Lemmas 4.2 and 5.1 say of a layer; of the latter half of 1/λ_l may fail for the rows."""
    operator, chi = node.affine.operator, keep_probability(d)
    rows, columns = as_matrix(operator.weight.shape)
    sides = (rows, columns), (columns, rows)
    limits = [laws.row_limit(*both, chi, 0.5 / share) for both in sides]
    dense = not isinstance(operator, Conv2d)
    return {
        "gamma_l": laws.gamma_l(d, psi, rows, columns) if dense else None,
        "epsilon_l": epsilon,
        "lambda_l": share,
        "limit": float(max(limits)),
        "limit_printed": laws.row_limit_printed(share, rows, columns, chi),
    }


def _moments(moved: Tensor, mask: Tensor, d: float, psi: float) -> Moments:
    """Of Δ off the diagonal; the mean of n entries has the standard error √(variance/n)."""
    off = ~diagonal_mask(moved.shape)
    entries = moved[off]
    n = max(1, entries.numel())
    second, fourth = laws.second_moment(d, psi), laws.fourth_moment(d, psi)
    chi = keep_probability(d)
    # as Lemma 4.1's: 105·s⁸ of a pruned N(0, s²), s² = Ψd/(d+2)
    eighth = 105.0 * psi**4 * (d / (d + 2.0)) ** 4.5
    seen = [float(entries.pow(power).sum()) / n for power in (1, 2, 4)]
    return Moments(
        mean=seen[0],
        mean_error=math.sqrt(second / n),
        second=seen[1],
        second_expected=second,
        second_error=math.sqrt((fourth - second**2) / n),
        fourth=seen[2],
        fourth_expected=fourth,
        fourth_error=math.sqrt((eighth - fourth**2) / n),
        kept=float(mask[off].sum()) / n,
        kept_expected=chi,
        kept_error=math.sqrt(chi * (1 - chi) / n),
    )


def _words(plain: Pruned | Kept, sketch: LayerSketch | None) -> str:
    if isinstance(plain, Kept):
        return "kept"
    if sketch is not None and sketch.recovered:
        return f"sketch {sketch.rows}x{sketch.columns}"
    return "mask and values" if sketch is None else "mask and values (no sketch came back)"
