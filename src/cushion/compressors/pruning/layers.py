"""One pruned layer, before and after: Guha 2023's quantities as printed, corrected, and seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.perturbations import overlap
from cushion.compressors.pruning.candidates import (
    PrunedNet,
    rho_limit,
    rho_limit_printed,
    rounding_limit,
)
from cushion.compressors.pruning.conditions import normality
from cushion.compressors.pruning.masks import as_matrix, diagonal_mask
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
            limit = rho_limit_printed(spectral, depth, pair[0], gamma, kept)
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
        rho_limit=rho_limit(spectral, depth, shift, kept, patches),
        rounding=rounded.spectral(),
        rounding_printed=rho * kept,
        rounding_limit=rounding_limit(rho, kept, patches),
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
    limits = [row_limit(*both, chi, 0.5 / share) for both in ((rows, columns), (columns, rows))]
    dense = not isinstance(operator, Conv2d)
    return {
        "gamma_l": gamma_l(d, psi, rows, columns) if dense else None,
        "epsilon_l": epsilon,
        "lambda_l": share,
        "limit": float(max(limits)),
        "limit_printed": row_limit_printed(share, rows, columns, chi),
    }


def _moments(moved: Tensor, mask: Tensor, d: float, psi: float) -> Moments:
    """Of Δ off the diagonal; the mean of n entries has the standard error √(variance/n)."""
    off = ~diagonal_mask(moved.shape)
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
    if sketch is not None and sketch.recovered:
        return f"sketch {sketch.rows}x{sketch.columns}"
    return "mask and values" if sketch is None else "mask and values (no sketch came back)"
