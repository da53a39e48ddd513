"""What pruning tries: every strength or sparsity with every grid; and the same as sketches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.method import Candidate
from cushion.compressors.pruning.grids import lemma_grid
from cushion.compressors.pruning.masks import apply_masks, masks_for
from cushion.compressors.pruning.records import LayerSketch
from cushion.compressors.storage.pruned import Grid, Pruned, is_pruned, store_pruned
from cushion.compressors.storage.stored import StoredLayer
from cushion.compressors.storage.stored_net import MOST_WORK, StoredNet, places
from cushion.compressors.subject import Subject, check_weights
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.progress import progress


@dataclass(frozen=True, eq=False)
class PrunedNet:
    """One pruning of a net.

    masks: one a layer. pruned: the net without what they take away; tuned: the same after
    fine-tuning, if there was one; plain: its weights on their grids as positions and values, even
    where sketches are written.
    """

    d: float | None
    masks: tuple[Tensor, ...]
    pruned: Network
    tuned: Network
    grid: Grid
    plain: StoredNet
    sketches: tuple[LayerSketch | None, ...] = ()


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Every setting with every grid."""
    net, seed, options = subject.net, subject.seed, subject.options
    rule = options.chosen_rule
    if not any(is_pruned(node.affine.operator) for node in net.affine_layers):
        raise BadInput("the net has no dense or convolutional layer, so there is nothing to prune")
    for asked, d, sparsity in options.asked:
        masks = masks_for(net, rule, d=d, sparsity=sparsity, seed=seed)
        kept = sum(int(mask.sum()) for mask in masks)
        if 2 * kept > MOST_NUMBERS:
            most = MOST_NUMBERS // 2
            raise BadInput(f"{asked} leaves {kept} weights, and a file holds {most}; prune more")
        pruned = tuned = apply_masks(net, masks)
        if options.fine_tune:
            from cushion.training.epochs import fine_tune

            epochs = options.fine_tune
            tuned = fine_tune(pruned, masks, subject.sample, epochs=epochs, seed=seed)
            check_weights(tuned)
        grids = [(Grid(bits), f"{bits} bits") for bits in options.grids]
        if options.grid == "lemma":
            grids = [(lemma_grid(net, pruned, masks), "lemma")]
        for grid, name in grids:
            stored = store_pruned(tuned, masks, grid, seed, faithful=rule == "bernoulli")
            left = [one.parameters for one in stored.layers if isinstance(one, Pruned)]
            counts = {"nonzeros": sum(left)}
            made = PrunedNet(d, masks, pruned, tuned, grid, stored)
            yield Candidate(stored, asked, name, counts, made)


def sketched(subject: Subject, best: Candidate) -> Candidate:
    """The same weights, every layer as its sketch where that comes back exactly."""
    from cushion.compressors.pruning.sketched import sketch_layer

    options, seed = subject.options, subject.seed
    layers: list[StoredLayer] = []
    sketches: list[LayerSketch | None] = []
    work = list(zip(best.stored.layers, places(subject.net), strict=True))
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
    stored = StoredNet(seed, tuple(layers), best.stored.biases)
    return replace(best, stored=stored, made=replace(best.made, sketches=tuple(sketches)))
