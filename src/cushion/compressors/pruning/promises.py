"""A pruned net on its sample as one record: every layer before and after, Assumption 3.1 and all
promises beside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.induction import LayerErrors, follow_induction
from cushion.compressors.projection.pairs import overlap
from cushion.compressors.projection.spectral import layer_shifts, lemma_9
from cushion.compressors.pruning import checks
from cushion.compressors.pruning.grids import rho_limit, rho_limit_printed, rounding_limit
from cushion.compressors.pruning.inputs import check_condition
from cushion.compressors.pruning.masks import diagonal_mask
from cushion.compressors.pruning.normality import normality
from cushion.compressors.pruning.options import PruneOptions
from cushion.compressors.pruning.records import (
    LayerPruning,
    LayerSketch,
    Moments,
    NetPruning,
    Subgaussian,
)
from cushion.compressors.records import Promise, PromiseCheck
from cushion.compressors.sample_counts import count_on_sample
from cushion.compressors.storage.masked import Grid, is_pruned
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.nets.network import Network, Node
from cushion.nets.operators import Conv2d, Operator
from cushion.progress import progress
from cushion.theorems.pruning import (
    Shares,
    failure_shares,
    fourth_moment,
    gamma_l,
    keep_probability,
    row_limit,
    row_limit_printed,
    second_moment,
)
from cushion.theorems.pruning_bounds import PrunedFacts, PrunedLayerFacts, pruning_rows
from cushion.theorems.records import Bound

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PrunedNet:
    """One pruning of a net.

    masks: one a layer. pruned: the net without what they take away; tuned: the same after
    fine-tuning, if there was one; plain: its weights on their grids as positions and values, and
    `stored` what is written, some of them sketched perhaps; network: the net that comes back from
    it.
    """

    rule: str
    d: float | None
    fine_tuned: int
    masks: tuple[Tensor, ...]
    pruned: Network
    tuned: Network
    grid: Grid
    plain: StoredNet
    stored: StoredNet
    network: Network
    sketches: tuple[LayerSketch | None, ...] = ()

    def rounded(self, node: Node) -> Operator:
        """The layer on its grid in float64, before the net's own dtype rounds it again."""
        operator = node.affine.operator.to(torch.float64)
        at = next(at for at, one in enumerate(self.tuned.affine_layers) if one.index == node.index)
        return self.plain.layers[at].operator(operator, self.plain.seed)


def describe(
    subject: Subject, options: PruneOptions, made: PrunedNet, errors: LayerErrors, tried: int
) -> NetPruning:
    """The record, but for certificates and for what else was tried."""
    net, sample = subject.net, subject.sample
    shares = _shares(subject, made)
    layers = tuple(_layers(subject, made, shares))
    before = follow_induction(net, made.pruned, sample, scores=errors.scores)
    condition = check_condition(
        net, made.pruned, sample, options.subgaussian_constants, subject.delta, subject.seed
    )
    promises, gamma_needed = _promises(subject, made, layers, before, errors, condition)
    weights = sum(layer.weights for layer, _ in _pruned(layers, net))
    return NetPruning(
        method=subject.method,
        rule=made.rule,
        d=made.d,
        sparsity=1.0 - sum(layer.nonzeros for layer, _ in _pruned(layers, net)) / weights,
        seed=subject.seed,
        settings=options.settings(),
        gamma=subject.gamma,
        m=len(sample),
        delta=subject.delta,
        parameters_before=net.parameters,
        parameters=made.stored.parameters,
        bits=made.stored.bits,
        layers=layers,
        failure={} if shares is None else _failure(shares),
        promises=tuple(promises),
        promise=Promise.of(promises),
        subgaussian=condition,
        tried=(),
        price=math.log(tried),
        errors_before=subject.seen.errors,
        errors_after_pruning=int((before.margins <= 0).sum()),
        errors=int((errors.margins <= 0).sum()),
        fine_tuned=made.fine_tuned,
        output_error=float(errors.gaps.max()),
        occam=(),
        paper_bounds=tuple(_bounds(subject, made, layers, errors, gamma_needed, tried)),
        notes=tuple(_notes(net, made, layers, shares)),
    )


def _pruned(layers: Sequence[LayerPruning], net: Network) -> list[tuple[LayerPruning, Node]]:
    pairs = zip(layers, net.affine_layers, strict=True)
    return [(layer, node) for layer, node in pairs if is_pruned(node.affine.operator)]


def _shares(subject: Subject, made: PrunedNet) -> Shares | None:
    """How δ is shared among the layers; None for a rule without coins."""
    operators = [node.affine.operator for node in subject.net.affine_layers]
    shapes = [_sides(tuple(one.weight.shape)) for one in operators if is_pruned(one)]
    return None if made.d is None else failure_shares(subject.delta, shapes)


def _failure(shares: Shares) -> dict[str, float]:
    return {
        "delta": shares.delta,
        "lemma_4_2": math.fsum(1 / one for one in shares.epsilon),
        "lemma_5_1": math.fsum(1 / one for one in shares.lambda_),
        "total": shares.spent,
        "lemma_5_1_printed_adds": shares.lemma_5_1,
        "total_printed": shares.printed,
    }


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of the weight as the matrix [out, rest]."""
    return shape[0], math.prod(shape[1:])


def _layers(subject: Subject, made: PrunedNet, shares: Shares | None) -> list[LayerPruning]:
    net, bits = subject.net, made.stored.layer_bits()
    own = iter(()) if shares is None else iter(zip(shares.epsilon, shares.lambda_, strict=True))
    found = []
    work = progress(net.affine_layers, "norms of Δ", "layer")
    for at, node in enumerate(work):
        pair = next(own, None) if is_pruned(node.affine.operator) else None
        found.append(_layer(node, at, made, pair, bits[at], len(net.affine_layers)))
    return found


def _layer(
    node: Node, at: int, made: PrunedNet, pair: tuple[float, float] | None, bits: int, depth: int
) -> LayerPruning:
    operator, mask, plain = node.affine.operator, made.masks[at], made.plain.layers[at]
    assert isinstance(plain, Pruned | Kept)
    pruned, dense = isinstance(plain, Pruned), not isinstance(operator, Conv2d)
    integers = plain.integers if isinstance(plain, Pruned) else plain.values.integers
    rho, kept, patches = plain.values.step, int(mask.sum()), overlap(operator)
    nonzeros = int(np.count_nonzero(integers))
    shape = tuple(operator.weight.shape)
    rows, columns = _sides(shape)
    spectral, moved = (
        operator.spectral(),
        made.pruned.nodes[node.index].affine.operator.minus(operator),
    )
    shift = moved.spectral() if pruned else 0.0
    rounded = made.rounded(node).minus(made.tuned.nodes[node.index].affine.operator)
    dropped = torch.from_numpy(integers == 0).reshape(shape) & (
        rounded.weight.abs() > rho / 2
    )  # not by rounding
    if bool(dropped.any()):
        rounded = rounded.with_weight(rounded.weight.masked_fill(dropped, 0.0))
    normal = normality(operator.weight) if pruned else None
    d, lemma = (
        made.d,
        None if made.d is None or normal is None or pair is None else (made.d, normal.psi, *pair),
    )
    gamma = gamma_l(lemma[0], lemma[1], rows, columns) if lemma is not None and dense else None
    chi = None if d is None or not pruned else keep_probability(d)
    limits = None if chi is None or pair is None else _row_limits(rows, columns, chi, pair[1])
    row_most, column_most, whole = _spread(integers.reshape(rows, columns), shape)
    sketch = made.sketches[at] if made.sketches else None
    return LayerPruning(
        name=node.name,
        kind=node.affine.kind,
        shape=shape,
        parameters_before=node.affine.parameters,
        kept=kept,
        nonzeros=nonzeros,
        dead=int(dropped.sum()),
        bits=bits,
        normality=normal,
        moments=None if lemma is None else _moments(moved.weight, mask, lemma[0], lemma[1]),
        spectral=spectral,
        shift=shift,
        gamma_l=gamma,
        epsilon_l=None if pair is None else pair[0],
        lambda_l=None if pair is None else pair[1],
        rho=rho,
        rho_limit_printed=None
        if gamma is None or pair is None
        else rho_limit_printed(spectral, depth, pair[0], gamma, kept),
        rho_limit=rho_limit(spectral, depth, shift, kept, patches),
        rounding=rounded.spectral(),
        rounding_printed=rho * kept,
        rounding_limit=rounding_limit(rho, kept, patches),
        row_most=row_most,
        column_most=column_most,
        limit_printed=None
        if chi is None or pair is None
        else row_limit_printed(pair[1], rows, columns, chi),
        limit=None if limits is None else float(max(limits)),
        diagonal=whole,
        stored_as=_words(plain, sketch),
        sketch=sketch,
    )


def _row_limits(rows: int, columns: int, chi: float, share: float) -> tuple[int, int]:
    """Lemma 5.1 corrected: no row and no column has more non-zeros; half of 1/λ_l may fail for
    either.
    """
    return row_limit(rows, columns, chi, 0.5 / share), row_limit(columns, rows, chi, 0.5 / share)


def _spread(matrix: Integers, shape: tuple[int, ...]) -> tuple[int, int, bool]:
    """The most non-zeros of a row and of a column, and whether the diagonal has no zero (Definition
    5.1).
    """
    there = matrix != 0
    diagonal = diagonal_mask(shape).numpy().reshape(matrix.shape)
    return (
        int(there.sum(1).max(initial=0)),
        int(there.sum(0).max(initial=0)),
        bool(there[diagonal].all()),
    )


def _moments(moved: Tensor, mask: Tensor, d: float, psi: float) -> Moments:
    """Of Δ off the diagonal. Standard errors of the means of n independent entries:
    √(variance/n).
    """
    off = ~diagonal_mask(tuple(moved.shape))
    entries = moved[off]
    n = max(1, entries.numel())
    second, fourth, chi = second_moment(d, psi), fourth_moment(d, psi), keep_probability(d)
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
    if sketch is None:
        return "mask and values"
    return (
        f"sketch {sketch.rows}x{sketch.columns}"
        if sketch.recovered
        else "mask and values (no sketch came back)"
    )


def _promises(
    subject: Subject,
    made: PrunedNet,
    layers: Sequence[LayerPruning],
    before: LayerErrors,
    after: LayerErrors,
    condition: Subgaussian,
) -> tuple[list[PromiseCheck], float | None]:
    """Every lemma, and the γ that Lemma 4.4 with the exact shifts asks for, where it speaks."""
    net, facts, inputs = subject.net, subject.facts, subject.seen.inputs
    silent = "" if net.is_chain else net.not_a_chain_because
    tuned = (
        "the net was fine-tuned, and the lemma is about weights that were only pruned and rounded"
    )
    also = silent or (tuned if made.fine_tuned else "")
    first = layer_shifts(net, made.pruned, facts)
    last = layer_shifts(net, made.network, facts)
    promises = [checks.lemma_4_1(layers), checks.lemma_4_2(layers)]
    for name, shifts, errors, rounded in (
        ("Lemma 4.3", first, before, False),
        ("Lemma 4.4", last, after, True),
    ):
        promises.append(checks.output_check(name, shifts, facts, inputs, errors.gaps, also))
        if not also:
            printed = checks.printed_check(
                name, layers, shifts, facts, inputs, errors.gaps, rounded=rounded
            )
            promises += [] if printed is None else [printed]
        promises.append(checks.subgaussian_check(promises, name, condition))
    promises += [checks.lemma_c_1(condition), checks.lemma_5_1(layers)]
    allowed = None if also else lemma_9(last, facts, inputs)
    return promises, None if allowed is None else math.sqrt(2.0) * float(allowed.max())


def _bounds(
    subject: Subject,
    made: PrunedNet,
    layers: Sequence[LayerPruning],
    errors: LayerErrors,
    gamma_needed: float | None,
    tried: int,
) -> list[Bound]:
    compressed = count_on_sample(
        subject.gamma or 0.0, subject.seen.margins, errors, made.plain, subject.delta
    )
    counted = []
    others = [bias for bias in made.plain.biases if bias is not None]
    for layer, plain in zip(layers, made.plain.layers, strict=True):
        if isinstance(plain, Kept):
            others.append(plain.values)
            continue
        assert isinstance(plain, Pruned)
        rows, columns = _sides(layer.shape)
        counted.append(
            PrunedLayerFacts(
                rows=rows,
                columns=columns,
                nonzeros=layer.nonzeros,
                chi=keep_probability(made.d)
                if made.d is not None
                else layer.nonzeros / (rows * columns),
                rho=layer.rho,
                values=2 * int(np.abs(plain.values.integers).max(initial=0)),
                row_most=layer.row_most,
                column_most=layer.column_most,
                share=layer.lambda_l or 1.0,
            )
        )
    facts = PrunedFacts(
        compressed=compressed,
        layers=tuple(counted),
        measured=made.d is None,
        gamma_needed=gamma_needed,
        normal=all(layer.normality is None or layer.normality.plausible for layer in layers),
        tried=tried,
        others=sum(part.integers.size for part in others),
        other_values=max(
            (2 * int(np.abs(part.integers).max(initial=0)) + 1 for part in others), default=1
        ),
    )
    return pruning_rows(facts)


def _notes(
    net: Network, made: PrunedNet, layers: Sequence[LayerPruning], shares: Shares | None
) -> list[str]:
    pruned = _pruned(layers, net)
    notes = []
    if all(layer.kept == layer.weights for layer, _ in pruned):
        notes.append("nothing was pruned: every weight stays, on its grid")
    empty = [layer.name for layer, _ in pruned if layer.nonzeros == 0]
    if empty:
        what = (
            "the net gives every example the same scores"
            if net.is_chain
            else "what passes through it is constant"
        )
        notes.append(f"{', '.join(empty)} with no weight left: {what}")
    if made.grid.exponents is not None:
        pairs = zip(layers, made.grid.exponents, strict=True)
        none = [
            layer.name
            for layer, exponent in pairs
            if exponent is None and layer.normality is not None
        ]
        if none:
            notes.append(
                f"Lemma 4.4 leaves no grid, or none of 16 bits, for {', '.join(none)} (pruning "
                f"alone may move a layer by at most ‖A‖₂/L): {made.grid.bits} bits a weight there"
            )
    lost = [
        layer.name for layer in layers if layer.sketch is not None and not layer.sketch.recovered
    ]
    if lost:
        notes.append(
            f"no sketch of {', '.join(lost)} came back exactly, so it is stored as mask and values"
        )
    if shares is not None and shares.note:
        notes.append(shares.note)
    return notes
