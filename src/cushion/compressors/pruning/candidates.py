"""What pruning tries: every strength or sparsity with every grid; and the same as sketches.

How coarse a grid may be (Guha 2023, Lemma 4.4): A = Â + Δ is the layer, Â what pruning leaves, Ã =
Â rounded to the nearest multiples of ρ, a power of two where it is stored. The perturbation bound
needs ‖A - Ã‖₂ ≤ ‖A‖₂/L. An entry moves by at most ρ/2, and only the J that stayed move, so ‖Ã - Â‖₂
≤ ‖Ã - Â‖_F ≤ (ρ/2)√J: the paper's ρJ is 2√J times as much. A convolution's map reads a number of
its input at up to `overlap` places, which multiplies the squared norm of a map over that of its
kernel's matrix by at most as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.method import Candidate
from cushion.compressors.perturbations import overlap
from cushion.compressors.pruning.masks import apply_masks, masks_for
from cushion.compressors.pruning.method import FALLBACK_BITS
from cushion.compressors.pruning.records import LayerSketch
from cushion.compressors.storage.pruned import Grid, Pruned, is_pruned, store_pruned
from cushion.compressors.storage.stored import StoredLayer, grid_within
from cushion.compressors.storage.stored_net import MOST_WORK, StoredNet, places
from cushion.compressors.subject import Subject, check_weights
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.network import Network, Node
from cushion.nets.operators import Operator
from cushion.progress import progress

_MOST_LEMMA_BITS = 16  # a grid on which the largest weight takes more is no compression
_ITERATIONS = 12  # that usually show a norm to be too large


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


def rho_limit_printed(
    spectral: float, layers: int, epsilon_l: float, gamma_l: float, nonzeros: int
) -> float:
    """(‖A‖₂/L - ε_lΓ_l)/J, as Lemma 4.4 has it; not positive where no grid satisfies it."""
    return (spectral / layers - epsilon_l * gamma_l) / max(nonzeros, 1)


def rho_limit(spectral: float, layers: int, shift: float, nonzeros: int, overlap: int = 1) -> float:
    """2(‖A‖₂/L - ‖Δ‖₂)/√(J·overlap): Lemma 4.4 with the shift itself and what rounding can do.

    Up to this step ‖A - Ã‖₂ ≤ ‖A‖₂/L; not positive where pruning alone took more than that. J
    counts what stayed before rounding: a weight that rounds to zero has moved too. A layer of which
    nothing stayed counts as J = 1.
    """
    return 2.0 * (spectral / layers - shift) / math.sqrt(max(nonzeros, 1) * overlap)


def rounding_limit(rho: float, nonzeros: int, overlap: int = 1) -> float:
    """(ρ/2)√(J·overlap), which ‖Ã - Â‖₂ cannot exceed; J counts what stayed before rounding."""
    return rho / 2.0 * math.sqrt(nonzeros * overlap)


def lemma_grid(net: Network, pruned: Network, masks: Sequence[Tensor]) -> Grid:
    """The coarsest powers of two that Lemma 4.4 (corrected) allows: (ρ/2)√(J·overlap) ≤ ‖A‖₂/L -
    ‖Δ‖₂.

    None for a layer where pruning alone leaves no room, or a weight would take over 16 bits.
    """
    depth = len(net.affine_layers)

    def exponent(node: Node, kept: int) -> int | None:
        operator = node.affine.operator
        if not is_pruned(operator):
            return None
        moved, whole = pruned.nodes[node.index].affine.operator.minus(operator), operator.spectral()
        if depth * norm_at_least(moved) >= whole:
            return None
        step = rho_limit(whole, depth, moved.spectral(), kept, overlap(operator))
        largest = float(operator.weight.abs().max())
        fits = step > 0 and math.isfinite(step) and largest < 2.0 ** (_MOST_LEMMA_BITS - 2) * step
        return grid_within(step) if fits else None

    kept = [int(mask.sum()) for mask in masks]
    return Grid(FALLBACK_BITS, tuple(map(exponent, net.affine_layers, kept)))


def norm_at_least(operator: Operator) -> float:
    """A quick lower bound on ‖A‖₂: some steps of the power method, from a fixed start."""
    raw = stream("power method", 0, operator.input_size)
    signs = torch.from_numpy(np.where(raw >> np.uint64(63), 1.0, -1.0))
    vector = signs.to(operator.weight.dtype).reshape(1, *operator.input_shape)
    norm = 0.0
    for _ in range(_ITERATIONS):
        size = float(torch.linalg.vector_norm(vector))
        if not size > 0:
            return norm
        image = operator.apply(vector / size)
        norm = max(norm, float(torch.linalg.vector_norm(image)))
        vector = operator.adjoint(image)
    return norm * (1 - 1e-5)  # the products were rounded, in float32 perhaps
