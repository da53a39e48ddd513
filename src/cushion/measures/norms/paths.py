"""Path norms: the sum over a net's paths of the products of their weights, in one backward pass.

The sum s over the paths from a unit to the outputs is 1 at each output, and every operation hands s
back to its inputs (`Operation.path_sums`, `Operator.sums_before`). One pass with one vector then
gives the sum over the paths that start at an input, Σ s over inputs, and over those that start at a
bias, Σ |b|^p s over the units that it enters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cushion.errors import BadInput
from cushion.measures.norms.records import PathNorm
from cushion.nets.network import Network
from cushion.nets.operations import Affine
from cushion.nets.operators.path_sums import PathSums, Powers, as_map


def path_norms(net: Network, exponents: Sequence[float]) -> tuple[PathNorm, ...]:
    """The ℓ_p path norms for several p ≥ 1, in one pass over the weights; 0: a 0 on every path."""
    found = []
    for p, both in zip(exponents, _totals(net, exponents), strict=True):
        logs = [one.log2() / p * math.log10(2) if one.mantissa else None for one in both]
        value, with_biases = (one.root(p) for one in both)
        found.append(PathNorm(float(p), value, logs[0], with_biases, logs[1]))
    return tuple(found)


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
    alive = [term for term in terms if term.mantissa]
    exponent = max((term.exponent for term in alive), default=0.0)
    return _Scaled(math.fsum(t.mantissa * 2.0 ** (t.exponent - exponent) for t in alive), exponent)


def _totals(net: Network, exponents: Sequence[float]) -> list[tuple[_Scaled, _Scaled]]:
    """For each p Σ ∏|w|^p over the paths from an input, and over those from an input or a bias."""
    for p in exponents:
        if not 1 <= p < math.inf:
            raise BadInput(f"a path norm needs a finite p of at least 1, not {p}")
    net.require("contracts", "a path norm")
    channels, height, width = as_map(net.nodes[-1].shape)
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
                biases = powers.of_vector(node.op.bias)
                for terms, one, (bias, lacks) in zip(from_biases, sums, biases, strict=True):
                    if one is not None:
                        units = node.op.operator.channel_sums(one)
                        terms.append(_Scaled(float(bias @ units), one.exponent + lacks))
            before = node.op.operator.sums_before(sums, powers)
            handed = [[one and one.in_range()] for one in before]
        else:
            shapes = [net.nodes[i].shape for i in node.inputs]
            handed = [
                [None] * len(shapes) if one is None else node.op.path_sums(one, shapes, p)
                for one, p in zip(sums, exponents, strict=True)
            ]
        for each, parts in zip(found, handed, strict=True):
            for i, part in zip(node.inputs, parts, strict=True):
                if part is not None:
                    each[i] = each[i] + part if i in each else part
    totals = []
    for each, terms in zip(found, from_biases, strict=True):
        from_inputs = [_Scaled(float(s.per_channel().sum()), s.exponent) for s in each.values()]
        totals.append((_sum(from_inputs), _sum(from_inputs + terms)))
    return totals
