"""One pruned layer, before and after: Guha 2023's quantities as printed, corrected, and seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.pairs import overlap
from cushion.compressors.pruning.candidates import PrunedNet
from cushion.compressors.pruning.grids import rho_limit, rho_limit_printed, rounding_limit
from cushion.compressors.pruning.masks import diagonal_mask
from cushion.compressors.pruning.normality import normality
from cushion.compressors.pruning.records import LayerPruning, LayerSketch, Moments
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept
from cushion.nets.network import Node
from cushion.nets.operators import Conv2d
from cushion.theorems.pruning import (
    fourth_moment,
    gamma_l,
    keep_probability,
    row_limit,
    row_limit_printed,
    second_moment,
)

Integers = NDArray[np.int64]


def sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of the weight as the matrix [out, rest]."""
    return shape[0], math.prod(shape[1:])


def prune_layer(
    node: Node,
    at: int,
    made: PrunedNet,
    pair: tuple[float, float] | None,
    known: Mapping[str, Any],
    depth: int,
) -> LayerPruning:
    """known: what every method says of a layer."""
    operator, mask, plain = node.affine.operator, made.masks[at], made.plain.layers[at]
    assert isinstance(plain, Pruned | Kept)
    pruned, dense = isinstance(plain, Pruned), not isinstance(operator, Conv2d)
    integers = plain.integers if isinstance(plain, Pruned) else plain.values.integers
    rho, kept, patches = plain.values.step, int(mask.sum()), overlap(operator)
    nonzeros = int(np.count_nonzero(integers))
    shape = tuple(operator.weight.shape)
    rows, columns = sides(shape)
    spectral, moved = (
        operator.spectral(),
        made.pruned.nodes[node.index].affine.operator.minus(operator),
    )
    shift = moved.spectral() if pruned else 0.0
    rounded = made.rounded(node, at).minus(made.tuned.nodes[node.index].affine.operator)
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
        **known,
        kept=kept,
        nonzeros=nonzeros,
        dead=int(dropped.sum()),
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
    """Lemma 5.1 corrected, for rows and for columns; half of 1/λ_l may fail for either."""
    return row_limit(rows, columns, chi, 0.5 / share), row_limit(columns, rows, chi, 0.5 / share)


def _spread(matrix: Integers, shape: tuple[int, ...]) -> tuple[int, int, bool]:
    """The most non-zeros of a row and of a column; whether the diagonal has no zero."""
    there = matrix != 0
    diagonal = diagonal_mask(shape).numpy().reshape(matrix.shape)
    return (
        int(there.sum(1).max(initial=0)),
        int(there.sum(0).max(initial=0)),
        bool(there[diagonal].all()),
    )


def _moments(moved: Tensor, mask: Tensor, d: float, psi: float) -> Moments:
    """Of Δ off the diagonal; the mean of n entries has the standard error √(variance/n)."""
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
