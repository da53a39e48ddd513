"""prune_net(): pruning by magnitude (Guha 2023) on a trained net, its promises checked and its
bounds beside.

Every setting that was asked for is tried with every grid; the one with the smallest Occam bound on
the sample is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.certificates.format.number_stream import MOST_FIELD, MOST_NUMBERS
from cushion.compressors.certified import ASSUMED, NetCompressed, certificate_of, occam_rows
from cushion.compressors.choice import worthless
from cushion.compressors.file import CompressedNet
from cushion.compressors.induction import LayerErrors, follow_induction
from cushion.compressors.projection.options import NetOptions
from cushion.compressors.projection.pairs import overlap
from cushion.compressors.pruning.lemma_grid import lemma_grid
from cushion.compressors.pruning.masks import apply_masks, masks_for
from cushion.compressors.pruning.options import BEST_GRIDS, METHODS, PruneOptions
from cushion.compressors.pruning.promises import PrunedNet, describe
from cushion.compressors.pruning.records import LayerSketch, NetPruning, Tried
from cushion.compressors.records import CurvePoint
from cushion.compressors.storage.masked import Grid, is_pruned, store_pruned
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.storage.stored_net import MOST_WORK, StoredNet, places
from cushion.compressors.subject import Subject
from cushion.data import Dataset, as_dataset
from cushion.data.inputs import check_holdout
from cushion.errors import BadInput
from cushion.measures.margins import margin_loss
from cushion.measures.table import traced
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.network import Network
from cushion.numerics import float_up
from cushion.progress import progress, working
from cushion.theorems.occam import occam_bound, parse_delta

_BATCH = 256
# numbers up to which every message that is tried is written: a third of a second
_WRITTEN = 1 << 15


@dataclass(frozen=True)
class _Setting:
    """One value of what the rule takes."""

    asked: str
    d: float | None = None
    sparsity: float | None = None


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One setting with one grid, and how it does on the sample; `key` is smaller for a better
    one.
    """

    made: PrunedNet
    errors: LayerErrors
    tried: Tried
    point: CurvePoint
    key: tuple[float, float]


def prune_net(
    model: nn.Module | Network,
    data: Dataset | str,
    *,
    method: str,
    options: PruneOptions | None = None,
    holdout: Dataset | None = None,
    delta: str | float = "0.05",
    seed: int = 0,
) -> NetCompressed[NetPruning]:
    """Prune a trained net and hold what the lemmas of Guha 2023 promise against what happens.

    method: "magnitude" stores positions and values; "sketch" stores A X Bᵀ of every layer that
    comes back from it exactly, and the others as magnitude does. The coins of Algorithm 1 and the
    sketching matrices come from `seed`. The model is not changed; the held-out examples are only
    looked at once the setting is chosen.
    """
    options = options or PruneOptions()
    if method not in METHODS:
        raise BadInput(f"`method` = {method} does not prune; use {' or '.join(METHODS)}")
    options.check(method)
    if type(seed) is not int or not 0 <= seed < MOST_FIELD - 1:
        raise BadInput(
            f"`seed` = {seed} must be a whole number from 0 to {MOST_FIELD - 2}: it is part of the "
            "message"
        )
    sample = as_dataset(data)
    check_holdout(holdout, sample)
    exact = parse_delta(str(delta))
    net = traced(model, sample)
    _check_weights(net)
    subject = Subject(
        net,
        None,
        sample,
        method,
        NetOptions(gamma=options.gamma, level=options.level),
        float(exact),
        seed,
    )
    scores = _scores(net, sample)
    best, tried, curve = _best(subject, options, scores, exact)
    made, errors = best.made, best.errors
    if method == "sketch":
        made = _sketched(made, net, options, seed)
    notes = {
        "method": method,
        "seed": seed,
        **options.settings(),
        "chosen": best.tried.asked,
        "on": best.tried.grid,
    }
    compressed = CompressedNet(made.stored, net, notes)
    if method == "sketch":  # what really comes back
        made = replace(made, network=compressed.network)
        errors = follow_induction(net, made.network, sample, scores=scores)
    summary = describe(subject, options, made, errors, len(tried))
    certificate, because = certificate_of(compressed, sample, exact, holdout, notes)
    wrong = int((errors.margins <= 0).sum())
    occam = occam_rows(compressed, wrong, len(sample), exact, holdout, certificate, because)
    chosen = tried.index(best.tried)
    held = (
        None
        if holdout is None or occam[0].holdout_errors is None
        else occam[0].holdout_errors / len(holdout)
    )
    bound = float_up(occam_bound(wrong, len(sample), made.plain.bits, exact))
    tried[chosen] = replace(
        best.tried, bits=made.plain.bits, bound=bound, written=True, chosen=True
    )
    curve[chosen] = replace(
        best.point, bits=made.stored.bits, parameters=made.stored.parameters, test_error=held
    )
    said = (*summary.notes, *worthless(tried, net.classes))
    summary = replace(
        summary,
        tried=tuple(tried),
        curve=tuple(curve),
        occam=occam,
        assumptions=ASSUMED,
        notes=said,
    )
    return NetCompressed(compressed, summary, certificate)


def _check_weights(net: Network) -> None:
    for node in net.affine_layers:
        for part in (node.affine.operator.weight, node.affine.bias):
            if part is not None and not bool(torch.isfinite(part).all()):
                raise BadInput(
                    f"{node.name}: a weight or bias is infinite or not a number; check how it was "
                    "trained"
                )
    if not any(is_pruned(node.affine.operator) for node in net.affine_layers):
        raise BadInput("the net has no dense or convolutional layer, so there is nothing to prune")


def _settings(options: PruneOptions) -> list[_Setting]:
    """What is tried, each once."""
    rule = options.chosen_rule
    if rule == "bernoulli":
        return [_Setting(f"d={d:g}", d=d) for d in dict.fromkeys(options.strengths)]
    if rule in ("global", "layer"):
        return [
            _Setting(f"sparsity={share:g}", sparsity=share)
            for share in dict.fromkeys(options.sparsity)
        ]
    return [_Setting(rule)]


def _best(
    subject: Subject, options: PruneOptions, scores: NDArray[np.float64], delta: Decimal
) -> tuple[_Candidate, list[Tried], list[CurvePoint]]:
    """The candidate with the smallest bound, and how all of them did."""
    settings = _settings(options)
    grids = len(BEST_GRIDS) if options.grid == "best" else 1
    best: _Candidate | None = None
    tried, curve = [], []
    with working("settings", len(settings) * grids) as bar:
        for setting in settings:
            for candidate in _candidates(subject, options, setting, scores, delta):
                tried.append(candidate.tried)
                curve.append(candidate.point)
                if best is None or candidate.key < best.key:
                    best = candidate
                bar.advance()
    assert best is not None
    return best, tried, curve


def _candidates(
    subject: Subject,
    options: PruneOptions,
    setting: _Setting,
    scores: NDArray[np.float64],
    delta: Decimal,
) -> Iterator[_Candidate]:
    net, sample, seed = subject.net, subject.sample, subject.seed
    masks = masks_for(net, options.chosen_rule, d=setting.d, sparsity=setting.sparsity, seed=seed)
    kept = sum(int(mask.sum()) for mask in masks)
    if 2 * kept > MOST_NUMBERS:
        raise BadInput(
            f"{setting.asked} leaves {kept} weights, and a file holds {MOST_NUMBERS // 2}; prune "
            "more"
        )
    pruned = apply_masks(net, masks)
    tuned = pruned
    if options.fine_tune:
        from cushion.training.masked import fine_tune

        tuned = fine_tune(pruned, masks, sample, epochs=options.fine_tune, seed=seed)
        _check_weights(tuned)
    for grid, name in _grids(options, net, pruned, masks):
        stored = store_pruned(tuned, masks, grid, seed, faithful=options.chosen_rule == "bernoulli")
        network = stored.network(net)
        made = PrunedNet(
            rule=options.chosen_rule,
            d=setting.d,
            fine_tuned=options.fine_tune,
            masks=masks,
            pruned=pruned,
            tuned=tuned,
            grid=grid,
            plain=stored,
            stored=stored,
            network=network,
        )
        errors = follow_induction(net, network, sample, scores=scores)
        yield _judge(subject, setting, name, made, errors, delta)


def _grids(
    options: PruneOptions, net: Network, pruned: Network, masks: tuple[Tensor, ...]
) -> Iterator[tuple[Grid, str]]:
    if options.grid == "lemma":
        overlaps = [overlap(node.affine.operator) for node in net.affine_layers]
        yield lemma_grid(net, pruned, masks, overlaps), "lemma"
        return
    for bits in BEST_GRIDS if options.grid == "best" else (int(options.grid),):
        yield Grid(bits), f"{bits} bits"


def _judge(
    subject: Subject,
    setting: _Setting,
    grid: str,
    made: PrunedNet,
    errors: LayerErrors,
    delta: Decimal,
) -> _Candidate:
    """How it does, by the length of its message, which is estimated where writing every one would
    take too long.
    """
    wrong, m = int((errors.margins <= 0).sum()), len(errors.margins)
    written = made.stored.parameters <= _WRITTEN
    bits = made.stored.bits if written else made.stored.estimated_bits()
    bound = float_up(occam_bound(wrong, m, bits, delta))
    nonzeros = sum(layer.parameters for layer in made.stored.layers if isinstance(layer, Pruned))
    point = CurvePoint(
        asked=f"{setting.asked}, {grid}",
        parameters=made.stored.parameters,
        bits=bits,
        worst_relative_error=float(errors.relative.max()),
        mean_relative_error=float(errors.relative.mean()),
        margin_loss=margin_loss(errors.margins, subject.gamma or 0.0),
        error=margin_loss(errors.margins, 0.0),
        test_error=None,
    )
    # Where bounds are all 100 % the Hoeffding form before it is cut off still tells them apart.
    beyond = wrong / m + math.sqrt(bits * math.log(2.0) / (2 * m))
    tried = Tried(setting.asked, grid, nonzeros, bits, wrong, bound, written)
    return _Candidate(made, errors, tried, point, (bound, beyond))


def _sketched(made: PrunedNet, net: Network, options: PruneOptions, seed: int) -> PrunedNet:
    """The same weights, every layer as its sketch where that comes back exactly."""
    from cushion.compressors.pruning.sketched import sketch_layer

    layers: list[StoredLayer] = []
    sketches: list[LayerSketch | None] = []
    work = list(zip(made.stored.layers, places(net), strict=True))
    spent = 0.0
    for layer, place in progress(work, "sketches", "layer"):
        if not isinstance(layer, Pruned):
            layers.append(layer)
            sketches.append(None)
            continue
        numbers = replace(layer.values, integers=layer.integers)
        sketch, found = sketch_layer(numbers, seed, place, m=options.m, ones=options.ones)
        if sketch is not None:
            spent += sketch.work(sketch.fields, numbers.integers.size)
            if spent > MOST_WORK:  # no loader would take so long a net
                sketch, found = None, replace(found, recovered=False)
        layers.append(layer if sketch is None else sketch)
        sketches.append(found)
    stored = StoredNet(seed, tuple(layers), made.stored.biases)
    return replace(made, stored=stored, sketches=tuple(sketches))


def _scores(net: Network, sample: Dataset) -> NDArray[np.float64]:
    """[m, classes]."""

    def work(rows: slice) -> Accumulators[str]:
        found = net.forward(as_floats(sample.x[rows]).to(net.dtype))
        if not bool(torch.isfinite(found).all()):
            raise BadInput(
                f"the net's scores on {sample.name} are not finite near row {rows.start}; check "
                "its weights"
            )
        return {"scores": Samples.of(rows.start, found.numpy())}

    found: NDArray[np.float64] = map_shards(len(sample), _BATCH, work, describe="scores")[
        "scores"
    ].values()
    return found
