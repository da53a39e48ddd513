"""A masked net as it is stored: a grid a layer, where its non-zeros are, their values, the biases.

A grid's step is a power of two, so that a stored weight is a whole number and an exponent, exactly.
Positions are counted row by row; a gap is the distance to the non-zero before (the first counts
from just before the weight). J non-zeros of N then cost about what naming one of the C(N, J) masks
does, and coding takes J steps, not N.

Units that pruning left without inputs or without outputs are taken out without changing what the
net computes. A unit whose incoming weights are all zero gives the constant ReLU(b) to the next
layer, whose bias can carry it. A unit that no weight of the next layer reads may have any incoming
weights, so it has none. Both make further weights zero, and what is zero costs no bits.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from torch import Tensor

from cushion.certificates.format.sources import Integers
from cushion.compressors.storage.exact_layers import ExactWeight, as_they_are
from cushion.compressors.storage.stored import (
    Fields,
    Kept,
    Numbers,
    Parts,
    Shape,
    StoredLayer,
    Values,
)
from cushion.compressors.storage.stored_net import StoredNet
from cushion.errors import BadInput
from cushion.nets.network import Network, Node
from cushion.nets.operations import Flatten, ReLU
from cushion.nets.operators import Diagonal, Linear, Operator

_MOST_WEIGHTS = 1 << 27  # of one layer: a gigabyte, which a file of a few bytes may stand for
_BLOCK = 1 << 16  # weights rounded at a time: what is computed on the way stays in the cache
_FACTOR_BITS = 16  # of a batch-norm that could not be folded, and at most of a bias
_BIAS_FINER = 1  # bits by which a bias is finer than the weights beside it


@dataclass(frozen=True, eq=False)
class Pruned(StoredLayer, kind="pruned", number=7, field_count=1):
    """gaps: [J] whole numbers of at least 1; values: [J], none of them zero."""

    gaps: Numbers
    values: Numbers
    shape: Shape

    @classmethod
    def of(cls, numbers: Numbers) -> Pruned:
        """The weight `numbers`, [*shape], without its zeros."""
        flat = numbers.integers.reshape(-1)
        at = np.flatnonzero(flat)
        gaps = np.diff(at, prepend=-1).astype(np.int64)
        return cls(Numbers(gaps, 0), Numbers(flat[at], numbers.exponent), numbers.integers.shape)

    @property
    def numbers(self) -> Parts:
        """Numbers are coded with a sign, so gaps 1, 2, 3, 4, ... go as 0, -1, 1, -2, ...."""
        more = self.gaps.integers - 1
        return Numbers(np.where(more & 1, -(more + 1 >> 1), more >> 1), 0), self.values

    @property
    def fields(self) -> Fields:
        return (self.values.integers.size,)

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        size = math.prod(shape)
        if size > _MOST_WEIGHTS:
            raise BadInput(f"a pruned weight of {size} numbers is larger than any that is read")
        if fields[0] > size:
            raise BadInput(f"a weight of {size} numbers has no {fields[0]} non-zeros")
        return (fields[0],), (fields[0],)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        coded, values = numbers
        size, folded = math.prod(shape), coded.integers
        gaps = np.where(folded < 0, -2 * folded, 2 * folded + 1)
        fits = ((gaps >= 1) & (gaps <= size)).all() and gaps.sum() <= size
        if not fits or coded.exponent != 0:
            raise BadInput("the gaps between its non-zeros do not fit the weight")
        if (values.integers == 0).any():
            raise BadInput("a stored non-zero is zero")
        return cls(Numbers(gaps, 0), values, shape)

    @property
    def integers(self) -> Integers:
        """The weight as whole numbers, [*shape]; times 2^exponent of `values`."""
        flat = np.zeros(math.prod(self.shape), dtype=np.int64)
        flat[np.cumsum(self.gaps.integers) - 1] = self.values.integers
        return flat.reshape(self.shape)

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return np.ldexp(self.integers.astype(np.float64), self.values.exponent)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        return as_they_are(self.integers.reshape(shape), self.values.exponent)

    @property
    def parameters(self) -> int:
        """How many non-zeros there are."""
        return int(self.values.integers.size)


@dataclass(frozen=True)
class Grid:
    """`bits` of a weight on its layer's own grid, or 2^exponent a layer (None: `bits`)."""

    bits: int
    exponents: tuple[int | None, ...] | None = None

    def of(self, at: int, weight: Tensor, mask: Tensor) -> Numbers:
        """What the mask leaves of the weight of layer `at`, on its grid: [*weight.shape]."""
        exponent = None if self.exponents is None else self.exponents[at]
        if exponent is None:
            return fitted(weight, mask, self.bits)
        return discretise(weight, mask, exponent)


def is_pruned(operator: Operator) -> bool:
    """Whether such a layer is pruned; a batch-norm that could not be folded is not."""
    return not isinstance(operator, Diagonal)


def store_pruned(
    net: Network, masks: Sequence[Tensor], grid: Grid, seed: int, *, faithful: bool
) -> StoredNet:
    """The masked weights of `net` on their grids, as positions and values, and the biases.

    faithful: the mask as Algorithm 1 drew it. Else what the mask and the grid leave without effect
    goes as well, and a bias stands on a grid _BIAS_FINER bits finer than its layer's weights, of
    which it is one more with a constant input (16 bits where no weight is left).
    """
    operators = [node.affine.operator for node in net.affine_layers]
    numbers = [
        grid.of(at, operator.weight, mask)
        if is_pruned(operator)
        else Numbers.fitted(_values(operator.weight), _FACTOR_BITS)
        for at, (operator, mask) in enumerate(zip(operators, masks, strict=True))
    ]
    own = [node.affine.bias for node in net.affine_layers]
    given = [None if bias is None else _values(bias) for bias in own]
    if faithful:
        biases = [None if bias is None else Numbers.fitted(bias, _FACTOR_BITS) for bias in given]
    else:
        whole = [WithBias(part.values, bias) for part, bias in zip(numbers, given, strict=True)]
        live = without_dead_units(whole, linked_layers(net))
        numbers = [
            replace(part, integers=np.where(one.weight != 0, part.integers, 0))
            for part, one in zip(numbers, live, strict=True)
        ]
        biases = [_coarse(one.bias, part) for one, part in zip(live, numbers, strict=True)]
    pairs = zip(operators, numbers, strict=True)
    layers = tuple(Pruned.of(part) if is_pruned(one) else Kept(part) for one, part in pairs)
    return StoredNet(seed, layers, tuple(biases))


def _coarse(bias: Values | None, weights: Numbers) -> Numbers | None:
    """On the grid of its layer's weights, _BIAS_FINER bits finer; never on more than 16 bits.

    A layer without weights has no grid, and its bias is all that it computes: 16 bits.
    """
    if bias is None:
        return None
    finest, exponent = Numbers.fitted(bias, _FACTOR_BITS), weights.exponent - _BIAS_FINER
    if finest.exponent >= exponent or not weights.integers.any():
        return finest
    return Numbers.rounded(bias, exponent)


def _values(part: Tensor) -> Values:
    return part.detach().double().numpy()


def discretise(weight: Tensor, mask: Tensor, exponent: int) -> Numbers:
    """The nearest multiples of 2^exponent, ties to even, [*weight.shape]; zeros where the mask is
    False.

    What the mask drops takes no part, however large it is; what stays may still round to zero.
    """
    values, stays = weight.detach().cpu().reshape(-1), mask.detach().cpu().reshape(-1)
    integers = np.empty(values.numel(), dtype=np.int64)
    for first in range(0, integers.size, _BLOCK):
        here = slice(first, first + _BLOCK)
        kept = values[here].masked_fill(~stays[here], 0.0).double().numpy()
        integers[here] = Numbers.rounded(kept, exponent).integers
    return Numbers(integers.reshape(tuple(weight.shape)), exponent)


def fitted(weight: Tensor, mask: Tensor, bits: int) -> Numbers:
    """On the finest grid of a power of two on which every weight that stays takes at most `bits`
    bits, with its sign; zeros where the mask is False; [*weight.shape].
    """
    kept = weight.detach().masked_fill(~mask.to(weight.device), 0.0).abs()
    largest = np.array([float(kept.max()) if kept.numel() else 0.0])
    # the largest alone decides the grid
    return discretise(weight, mask, Numbers.fitted(largest, bits).exponent)


@dataclass(frozen=True, eq=False)
class WithBias:
    """A layer: its weight [out, ...] and its bias [out], None for a layer without one."""

    weight: Values
    bias: Values | None


def linked_layers(net: Network) -> tuple[bool, ...]:
    """Of each affine layer: whether the next alone reads it, both dense, with one ReLU between."""
    readers = Counter(source for node in net.nodes for source in node.inputs)
    paths = (net.nodes[node.index : after.index + 1] for node, after in pairwise(net.affine_layers))
    return (*(_is_link(path, readers) for path in paths), False)


def _is_link(path: Sequence[Node], readers: Mapping[int, int]) -> bool:
    """path: an affine layer, all nodes up to the next one, and that one."""
    between = path[1:-1]
    return (
        all(isinstance(end.affine.operator, Linear) for end in (path[0], path[-1]))
        and any(isinstance(step.op, ReLU) for step in between)
        and all(isinstance(step.op, ReLU | Flatten) for step in between)
        and all(readers[step.index] == 1 for step in path[:-1])
        and all(after.inputs == (before.index,) for before, after in pairwise(path))
    )


def without_dead_units(layers: Sequence[WithBias], linked: Sequence[bool]) -> tuple[WithBias, ...]:
    """The same function, but for the rounding of the biases' sums, with as many zeros as its dead
    units allow.

    A constant is passed on where the next layer has a bias to carry it; rows that this empties come
    next, so one pass forwards finds them all, and one backwards all units that nobody reads.
    """
    found = [copy.deepcopy(one) for one in layers]
    for at, (here, joined) in enumerate(zip(found, linked, strict=True)):
        if not joined:
            continue
        after = found[at + 1]
        empty = ~here.weight.any(axis=1)
        constant = np.zeros(len(here.weight)) if here.bias is None else np.maximum(here.bias, 0.0)
        if after.bias is None:
            empty &= constant == 0
        else:
            after.bias[:] += after.weight[:, empty] @ constant[empty]
        after.weight[:, empty] = 0.0
    for at in reversed(range(len(found))):
        if linked[at]:
            unread = ~found[at + 1].weight.any(axis=0)
            found[at].weight[unread] = 0.0
            if (bias := found[at].bias) is not None:
                bias[unread] = 0.0
    return tuple(found)
