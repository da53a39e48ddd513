"""Which weights stay: Algorithm 1 of Guha 2023, and the deterministic rules that people use.

A weight is seen as the matrix [out, rest], so a filter of a convolution is one row. A mask is True
where the weight stays. Algorithm 1 draws one coin a weight from the counter, at the weight's own
place in the stream, so that a mask depends on (weights, Ψ, d, seed, place) and on neither threads
nor blocks. The deterministic rules know no diagonal; of equal magnitudes the one that comes first
in the net goes first.

A batch-norm that was not folded is a diagonal map, of which nothing may go: its mask is True
everywhere.
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

from cushion.compressors.pruning.options import PruneOptions
from cushion.compressors.storage.stored_net import places
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.network import Network, Node
from cushion.nets.operators import Diagonal

Mask: TypeAlias = NDArray[np.bool_]
# weights whose coins are tossed at a time: what is computed on the way stays in the cache
_BLOCK = 1 << 16


def diagonal_mask(shape: tuple[int, ...]) -> Tensor:
    """True at the entries (i, i) of a weight seen as the matrix [out, rest]: bool [*shape]."""
    mask = torch.zeros(shape[0], math.prod(shape[1:]), dtype=torch.bool)
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
        raise BadInput(
            "the mean square of its weights leaves the range of float64; scale the net's weights"
        )
    return psi


def bernoulli_mask(weight: Tensor, psi: float, d: float, seed: int, place: int) -> Tensor:
    """Algorithm 1 (Guha 2023): off the diagonal w stays with probability 1 - exp(-w²/(dΨ)); the
    diagonal stays.

    The coin of the i-th weight, row by row, is word i of the stream "prune `place`". Ψ = 0 lets
    nothing but the diagonal stay. To 2^-53, the spacing of the coins, the probabilities are exact.
    bool [*weight.shape].
    """
    if not (0 < d < math.inf and 0 <= psi < math.inf):
        raise BadInput(
            f"Algorithm 1 needs a finite d above 0 and a variance of at least 0, not d = {d} and Ψ "
            f"= {psi}"
        )
    mask = diagonal_mask(tuple(weight.shape))
    if psi == 0.0:
        return mask
    values, stays = _matrix(weight).reshape(-1), mask.numpy().reshape(-1)
    scale = 1.0 / math.sqrt(psi)  # w/√Ψ before squaring: w² itself may underflow
    for first in range(0, values.size, _BLOCK):
        part = values[first : first + _BLOCK].astype(np.float64)
        coins = (
            stream(f"prune {place}", seed, part.size, first) >> np.uint64(11)
        ) * 2.0**-53  # uniform in [0, 1)
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
    options = PruneOptions(
        rule=rule,
        d=None if d is None else (float(d),),
        sparsity=None if sparsity is None else (float(sparsity),),
    )
    if rule == "bernoulli" and d is None:
        raise BadInput("`rule` = bernoulli needs `d`, the strength of Algorithm 1, such as 1")
    masks = [
        torch.ones(node.affine.operator.weight.shape, dtype=torch.bool)
        for node in net.affine_layers
    ]
    free = [
        at
        for at, node in enumerate(net.affine_layers)
        if not isinstance(node.affine.operator, Diagonal)
    ]
    weights = {at: net.affine_layers[at].affine.operator.weight for at in free}
    place = places(net)
    if rule == "global":
        assert sparsity is not None
        stays = _smallest_go([_magnitudes(weights[at]) for at in free], sparsity)
        return _with(masks, dict(zip(free, stays, strict=True)))
    found: dict[int, Mask] = {}
    for at in free:
        if rule == "bernoulli":
            assert d is not None
            psi = _named_variance(net.affine_layers[at])
            masks[at] = bernoulli_mask(weights[at], psi, d, seed, place[at])
        elif rule == "layer":
            assert sparsity is not None
            (found[at],) = _smallest_go([_magnitudes(weights[at])], sparsity)
        elif rule == "zeros":
            found[at] = _matrix(weights[at]) != 0
        else:
            assert options.pattern is not None
            found[at] = _largest_stay(_magnitudes(weights[at]), *options.pattern)
    return _with(masks, found)


def apply_masks(net: Network, masks: Sequence[Tensor]) -> Network:
    """The net with zeros where its masks, one a layer, are False; biases are untouched."""
    layers = net.affine_layers
    if [tuple(mask.shape) for mask in masks] != [
        tuple(node.affine.operator.weight.shape) for node in layers
    ]:
        raise BadInput(
            "the masks do not fit the net: there must be one for each affine layer, shaped like "
            "its weight"
        )
    changes = {}
    for node, mask in zip(layers, masks, strict=True):
        operator = node.affine.operator
        kept = operator.weight.masked_fill(~mask.to(operator.weight.device, torch.bool), 0.0)
        changes[node.index] = replace(node.affine, operator=operator.with_weight(kept))
    return net.with_affine(changes)


def _matrix(weight: Tensor) -> NDArray[Any]:
    """The weight as [out, rest], without a copy where it is float32 or float64."""
    wide = (
        weight.detach()
        if weight.dtype in (torch.float32, torch.float64)
        else weight.detach().to(torch.float64)
    )
    return wide.cpu().numpy().reshape(wide.shape[0], -1)


def _magnitudes(weight: Tensor) -> NDArray[Any]:
    found: NDArray[Any] = np.abs(_matrix(weight))
    return found


def _named_variance(node: Node) -> float:
    try:
        return layer_variance(node.affine.operator.weight)
    except BadInput as problem:
        raise BadInput(f"{node.name}: {problem}") from None


def _smallest_go(layers: Sequence[NDArray[Any]], sparsity: float) -> list[Mask]:
    """All but the round(sparsity·N) smallest of all N magnitudes; of equals the first go."""
    every = np.concatenate([layer.reshape(-1) for layer in layers]) if layers else np.zeros(0)
    gone = round(sparsity * every.size)
    if gone == 0:
        return [np.ones(layer.shape, dtype=bool) for layer in layers]
    border = np.partition(every, gone - 1)[
        gone - 1
    ]  # the last that goes; linear in N, where a sort is not
    stays = every > border
    equal = np.flatnonzero(every == border)
    left = gone - int(np.count_nonzero(every < border))
    stays[equal[left:]] = True
    ends = np.cumsum([layer.size for layer in layers])[:-1]
    return [
        part.reshape(layer.shape) for part, layer in zip(np.split(stays, ends), layers, strict=True)
    ]


def _largest_stay(magnitudes: NDArray[Any], kept: int, of: int) -> Mask:
    """The `kept` largest of each `of` numbers in a row of [rows, columns]; first equals go."""
    rows, columns = magnitudes.shape
    groups = -(-columns // of)
    padded = np.full(
        (rows, groups * of), -1.0, dtype=magnitudes.dtype
    )  # less than any magnitude, so they go first
    padded[:, :columns] = magnitudes
    order = np.argsort(padded.reshape(rows, groups, of), axis=2, kind="stable")
    stays = np.zeros((rows, groups, of), dtype=bool)
    np.put_along_axis(stays, order[:, :, of - kept :], True, axis=2)
    return stays.reshape(rows, -1)[:, :columns]


def _with(masks: list[Tensor], found: dict[int, Mask]) -> tuple[Tensor, ...]:
    """The masks with those that were found in their places, in the shapes that they have."""
    for at, mask in found.items():
        masks[at] = torch.from_numpy(np.ascontiguousarray(mask)).reshape(masks[at].shape)
    return tuple(masks)
