"""Path norms: the sum over all paths of a net of the products of their weights, in one pass from
the outputs back.

The sum s over the paths from a unit to the outputs is 1 at each output, and every operation hands s
back to its inputs (`operators.path_sums`). One pass with one vector then gives the sum over the
paths that start at an input, Σ s over inputs, and over those that start at a bias, Σ |b|^p s over
the units that it enters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from cushion.errors import BadInput
from cushion.measures.norms.records import PathNorm
from cushion.nets.network import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    Affine,
    AvgPool,
    Cat,
    Flatten,
    MaxPool,
    Network,
    Node,
    ReLU,
    Shape,
    Unflatten,
)
from cushion.nets.operators.path_sums import (
    Floats,
    Indices,
    PathSums,
    Powers,
    distinct,
    sums_before,
)

Pool: TypeAlias = MaxPool | AvgPool | AdaptiveAvgPool | AdaptiveMaxPool


def path_norm(net: Network, p: float) -> PathNorm:
    """The ℓ_p path norm of a net, without and with its biases, for any p ≥ 1; 0 if no path has all
    weights non-zero.
    """
    return path_norms(net, (p,))[0]


def path_norms(net: Network, exponents: Sequence[float]) -> tuple[PathNorm, ...]:
    """The path norms for several p, in one pass over the weights."""
    return tuple(
        PathNorm(
            p=float(p),
            value=inputs.root(p),
            log10=inputs.log2() / p * math.log10(2) if inputs.mantissa else None,
            with_biases=both.root(p),
            log10_with_biases=both.log2() / p * math.log10(2) if both.mantissa else None,
        )
        for p, (inputs, both) in zip(exponents, _totals(net, exponents), strict=True)
    )


@dataclass(frozen=True)
class _Scaled:
    """mantissa · 2^exponent: a number that may lie outside the range of a float."""

    mantissa: float
    exponent: float

    def log2(self) -> float:
        return math.log2(self.mantissa) + self.exponent

    def root(self, p: float) -> float:
        """The p-th root; infinite where it exceeds a float."""
        whole = math.floor(self.exponent / p)
        root = self.mantissa ** (1 / p) * 2.0 ** (self.exponent / p - whole)
        try:
            return math.ldexp(root, whole)
        except OverflowError:
            return math.inf


def _sum(terms: list[_Scaled]) -> _Scaled:
    exponent = max((term.exponent for term in terms if term.mantissa), default=0.0)
    return _Scaled(
        math.fsum(t.mantissa * 2.0 ** (t.exponent - exponent) for t in terms if t.mantissa),
        exponent,
    )


def _totals(net: Network, exponents: Sequence[float]) -> list[tuple[_Scaled, _Scaled]]:
    """For each p Σ ∏|w|^p over the paths that start at an input, and over those that start at an
    input or a bias.
    """
    for p in exponents:
        if not 1 <= p < math.inf:
            raise BadInput(f"a path norm needs a finite p of at least 1, not {p}")
    channels, height, width = _as_map(net.nodes[-1].shape)
    start = PathSums(np.ones((channels, 1, 1)), (0,) * height, (0,) * width)
    found: list[dict[int, PathSums]] = [{net.nodes[-1].index: start} for _ in exponents]
    from_biases: list[list[_Scaled]] = [[] for _ in exponents]
    powers = Powers(exponents)
    for node in reversed(net.nodes[1:]):
        sums = [each.pop(node.index, None) for each in found]
        if all(one is None for one in sums):
            continue
        if isinstance(node.op, Affine):
            if node.op.bias is not None:
                for terms, one, (bias, lacks) in zip(
                    from_biases, sums, powers.of_vector(node.op.bias), strict=True
                ):
                    if one is not None:
                        terms.append(_Scaled(float(bias @ one.per_channel()), one.exponent + lacks))
            handed = [
                [one and one.in_range()] for one in sums_before(node.op.operator, sums, powers)
            ]
        else:
            handed = [
                [None] * len(node.inputs) if one is None else _handed_back(net, node, one, p)
                for one, p in zip(sums, exponents, strict=True)
            ]
        for each, parts in zip(found, handed, strict=True):
            for i, part in zip(node.inputs, parts, strict=True):
                if part is not None:
                    each[i] = each[i] + part if i in each else part
    totals = []
    for each, terms in zip(found, from_biases, strict=True):
        from_inputs = [
            _Scaled(float(sums.per_channel().sum()), sums.exponent) for sums in each.values()
        ]
        totals.append((_sum(from_inputs), _sum(from_inputs + terms)))
    return totals


def _handed_back(net: Network, node: Node, sums: PathSums, p: float) -> list[PathSums | None]:
    """What each input of a node that is not affine receives from the sums of its output; None where
    that is zero.
    """
    op = node.op
    if isinstance(op, ReLU):
        return [sums]
    if isinstance(op, Add):
        return [sums for _ in node.inputs]
    shapes = [_as_map(net.nodes[i].shape) for i in node.inputs]
    if isinstance(op, Cat):
        parts = np.split(sums.values, np.cumsum([channels for channels, _, _ in shapes])[:-1])
        return [PathSums(part, sums.rows, sums.columns, sums.exponent).in_range() for part in parts]
    channels, height, width = shapes[0]
    if isinstance(op, Flatten | Unflatten):
        values = sums.expanded().reshape(channels, height, width)
        return [PathSums(values, tuple(range(height)), tuple(range(width)), sums.exponent)]
    assert isinstance(op, Pool)
    down, rows = _windows(op, 0, height, sums.rows, p)
    across, columns = _windows(op, 1, width, sums.columns, p)
    return [PathSums(down @ (sums.values @ across.T), rows, columns, sums.exponent).in_range()]


def _as_map(shape: Shape) -> tuple[int, int, int]:
    """Any shape as channels, rows and columns."""
    if len(shape) == 1:
        return shape[0], 1, 1
    return shape[0], math.prod(shape[1:-1]), shape[-1]


@lru_cache(maxsize=256)
def _windows(op: Pool, axis: int, size: int, seen: Indices, p: float) -> tuple[Floats, Indices]:
    """Along one axis of a pool: for each distinct input row and each distinct output row the
    weight^p between them.

    The weight of a place in a window is the product of those along its two axes. `seen` says which
    distinct row each output row is, and output rows that share their sums are added up. Also
    returned: which distinct row each of the `size` input rows is.
    """
    weights = np.zeros((size, max(seen) + 1))
    for output, row in enumerate(seen):
        places, divisor = _window(op, axis, size, output, len(seen))
        weights[[place for place in places if 0 <= place < size], row] += float(divisor) ** -p
    found, which = distinct(map(tuple, weights.tolist()))
    return np.array(found), which


def _window(op: Pool, axis: int, size: int, output: int, outputs: int) -> tuple[range, int]:
    """The places that one output of a pool reads along an axis, on padding too, and this axis' part
    of the divisor.
    """
    if isinstance(op, AdaptiveAvgPool | AdaptiveMaxPool):
        places = range(output * size // outputs, -(-(output + 1) * size // outputs))
        return places, len(places) if isinstance(op, AdaptiveAvgPool) else 1
    first = output * op.stride[axis] - op.padding[axis]
    if isinstance(op, MaxPool):
        return range(first, first + op.kernel[axis] * op.dilation[axis], op.dilation[axis]), 1
    # With ceil_mode the last window may reach beyond the padding; what lies there never counts.
    places = range(first, min(first + op.kernel[axis], size + op.padding[axis]))
    if op.divisor is not None:
        return places, op.divisor if axis == 0 else 1
    return places, len(places) if op.count_include_pad else sum(
        0 <= place < size for place in places
    )
