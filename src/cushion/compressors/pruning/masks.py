"""Which weights stay: Algorithm 1 of Guha 2023, and the deterministic rules that people use.

A weight is seen as the matrix [out, rest], so a filter of a convolution is one row. A mask is True
where the weight stays. Algorithm 1 draws one coin a weight from the counter, at the weight's own
place in the stream, so that a mask depends on (weights, Ψ, d, seed, place) and on neither threads
nor blocks. The deterministic rules know no diagonal, and rank the module's own weights, before a
batch-norm was folded in; of equal magnitudes the one that comes first in the net goes first.

A batch-norm that was not folded is a diagonal map, of which nothing may go: its mask is all True.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.storage.pruned import is_pruned
from cushion.compressors.storage.stored_net import places
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.nets.operations import Affine

Mask: TypeAlias = NDArray[np.bool_]
# weights whose coins are tossed at a time: what is computed on the way stays in the cache
_BLOCK = 1 << 16


def as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of a weight as the matrix [out, rest]."""
    return shape[0], math.prod(shape[1:])


def diagonal_mask(shape: tuple[int, ...]) -> Tensor:
    """True at the entries (i, i) of a weight seen as the matrix [out, rest]: bool [*shape]."""
    mask = torch.zeros(as_matrix(shape), dtype=torch.bool)
    mask.fill_diagonal_(True)  # of a tall matrix too, once
    return mask.reshape(shape)


def layer_variance(weight: Tensor) -> float:
    """Ψ, the mean square of the entries off the diagonal, in float64; 0 for a weight that has none.

    The mean of Assumption 3.1 is 0, so nothing is subtracted. Rows are summed one by one: no thread
    count changes Ψ.
    """
    matrix = _matrix(weight)
    rows, columns = matrix.shape
    step = max(1, _BLOCK // max(1, columns))
    sums: list[float] = []
    with np.errstate(over="ignore"):
        for start in range(0, rows, step):
            squares = np.square(matrix[start : start + step], dtype=np.float64)
            on = np.arange(start, min(start + step, rows, columns))
            squares[on - start, on] = 0.0
            sums += squares.sum(1).tolist()
        psi = float(np.sum(sums)) / max(1, int(rows * columns - min(rows, columns)))
    off = np.count_nonzero(matrix) - np.count_nonzero(np.diagonal(matrix))
    if not math.isfinite(psi) or (off and psi < sys.float_info.min):
        why = "the mean square of its weights leaves the range of float64"
        raise BadInput(f"{why}; scale the net's weights")
    return psi


def bernoulli_mask(weight: Tensor, psi: float, d: float, seed: int, place: int) -> Tensor:
    """Algorithm 1 (Guha 2023): off the diagonal w stays with probability 1 - exp(-w²/(dΨ)); the
    diagonal stays.

    The coin of the i-th weight, row by row, is word i of the stream "prune `place`". Ψ = 0 lets
    nothing but the diagonal stay. To 2^-53, the spacing of the coins, the probabilities are exact.
    bool [*weight.shape].
    """
    if not (0 < d < math.inf and 0 <= psi < math.inf):
        raise BadInput(f"Algorithm 1 needs finite d > 0 and Ψ ≥ 0, not d = {d} and Ψ = {psi}")
    mask = diagonal_mask(tuple(weight.shape))
    if psi == 0.0:
        return mask
    values, stays = _matrix(weight).reshape(-1), mask.numpy().reshape(-1)
    scale = 1.0 / math.sqrt(psi)  # w/√Ψ before squaring: w² itself may underflow
    for first in range(0, values.size, _BLOCK):
        part = values[first : first + _BLOCK].astype(np.float64)
        words = stream(f"prune {place}", seed, part.size, first)
        coins = (words >> np.uint64(11)) * 2.0**-53  # uniform in [0, 1)
        with np.errstate(over="ignore"):  # a Ψ that was given may be far below w²: then w stays
            np.square(part * scale, out=part)
            part /= -d
        stays[first : first + _BLOCK] |= coins >= np.exp(part, out=part)
    return mask


def masks_for(
    net: Network, rule: str, *, d: float | None, sparsity: float | None, seed: int
) -> tuple[Tensor, ...]:
    """One mask for each of `net.affine_layers`, True where the weight stays.

    "bernoulli" needs d; "global" and "layer" need a sparsity, and exactly round(sparsity·N) of the
    N weights that may go do, those of the smallest magnitude in the net or in the layer; "N:M": of
    M consecutive weights of a row the N largest stay (of a shorter last group up to N); "zeros":
    what is zero goes. `seed` matters for "bernoulli" only.
    """
    strengths, shares = (None if one is None else (float(one),) for one in (d, sparsity))
    pattern = PruneOptions(rule=rule, d=strengths, sparsity=shares).pattern
    if rule == "bernoulli" and d is None:
        raise BadInput("`rule` = bernoulli needs `d`, the strength of Algorithm 1, such as 1")
    layers = net.affine_layers
    masks = [torch.ones(node.affine.operator.weight.shape, dtype=torch.bool) for node in layers]
    free = [at for at, node in enumerate(layers) if is_pruned(node.affine.operator)]
    if d is not None:
        place = places(net)
        for at in free:
            weight = layers[at].affine.operator.weight
            try:
                masks[at] = bernoulli_mask(weight, layer_variance(weight), d, seed, place[at])
            except BadInput as problem:
                raise BadInput(f"layer {layers[at].name}: {problem}") from None
        return tuple(masks)
    sizes = [_magnitudes(layers[at].affine) for at in free]
    if pattern is not None:
        stays = [_largest_stay(one, *pattern) for one in sizes]
    elif sparsity is None:
        stays = [one != 0 for one in sizes]
    else:
        groups = [sizes] if rule == "global" else [[one] for one in sizes]
        stays = [mask for group in groups for mask in _smallest_go(group, sparsity)]
    for at, mask in zip(free, stays, strict=True):
        masks[at] = torch.from_numpy(np.ascontiguousarray(mask)).reshape(masks[at].shape)
    return tuple(masks)


def apply_masks(net: Network, masks: Sequence[Tensor]) -> Network:
    """The net with zeros where its masks, one a layer, are False; biases are untouched."""
    layers = net.affine_layers
    if [mask.shape for mask in masks] != [node.affine.operator.weight.shape for node in layers]:
        raise BadInput("the masks do not fit the net: give one like the weight of each layer")
    changes = {}
    for node, mask in zip(layers, masks, strict=True):
        operator = node.affine.operator
        kept = operator.weight.masked_fill(~mask.to(operator.weight.device, torch.bool), 0.0)
        changes[node.index] = replace(node.affine, operator=operator.with_weight(kept))
    return net.with_affine(changes)


def _matrix(weight: Tensor) -> NDArray[Any]:
    """The weight as [out, rest], without a copy where it is float32 or float64."""
    plain = weight.detach().cpu()
    wide = plain if plain.dtype in (torch.float32, torch.float64) else plain.double()
    return wide.numpy().reshape(len(wide), -1)


def _magnitudes(affine: Affine) -> NDArray[Any]:
    """Of the module's own weights as [out, rest]. Rows that a batch-norm multiplies by zero answer
    nothing, and are zero.
    """
    found: NDArray[Any] = np.abs(_matrix(affine.operator.weight))
    if affine.factors is None:
        return found
    factors = np.abs(_matrix(affine.factors)).reshape(-1, 1)
    np.divide(found, factors, out=found, where=factors > 0)
    return found


def _smallest_go(layers: Sequence[NDArray[Any]], sparsity: float) -> list[Mask]:
    """All but the round(sparsity·N) smallest of all N magnitudes; of equals the first go."""
    every = np.concatenate([layer.reshape(-1) for layer in layers]) if layers else np.zeros(0)
    gone = round(sparsity * every.size)
    if gone == 0:
        return [np.ones(layer.shape, dtype=bool) for layer in layers]
    border = np.partition(every, gone - 1)[gone - 1]  # the last that goes; no sort is needed
    stays = every > border
    equal = np.flatnonzero(every == border)
    left = gone - int(np.count_nonzero(every < border))
    stays[equal[left:]] = True
    parts = np.split(stays, np.cumsum([layer.size for layer in layers])[:-1])
    return [part.reshape(layer.shape) for part, layer in zip(parts, layers, strict=True)]


def _largest_stay(magnitudes: NDArray[Any], kept: int, of: int) -> Mask:
    """The `kept` largest of each `of` numbers in a row of [rows, columns]; first equals go."""
    rows, columns = magnitudes.shape
    groups = -(-columns // of)
    missing = ((0, 0), (0, groups * of - columns))
    padded = np.pad(magnitudes, missing, constant_values=-1.0)  # below any, so they go first
    order = np.argsort(padded.reshape(rows, groups, of), axis=2, kind="stable")
    stays = np.zeros((rows, groups, of), dtype=bool)
    np.put_along_axis(stays, order[:, :, of - kept :], True, axis=2)
    return stays.reshape(rows, -1)[:, :columns]
