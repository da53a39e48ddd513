"""Units that pruning left without inputs or without outputs, taken out of a net without changing
what it computes.

A unit whose incoming weights are all zero gives the constant ReLU(b) to the next layer, whose bias
can carry it. A unit that no weight of the next layer reads may have any incoming weights, so it has
none. Both make further weights zero, and what is zero costs no bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.nets.network import Affine, Flatten, Network, ReLU
from cushion.nets.operators import Linear

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weighted:
    """A layer: its weight [out, ...] and its bias [out], None for a layer without one."""

    weight: Floats
    bias: Floats | None


def linked_layers(net: Network) -> tuple[bool, ...]:
    """For each affine layer: whether its units are read by the next one alone, both dense, with one
    ReLU between.
    """
    layers = net.affine_layers
    readers = [
        sum(node.inputs.count(index) for node in net.nodes) for index in range(len(net.nodes))
    ]
    found = []
    for node, after in zip(layers, (*layers[1:], None), strict=True):
        between = [] if after is None else list(net.nodes[node.index + 1 : after.index])
        path = [node, *between]
        found.append(
            after is not None
            and all(isinstance(end.affine.operator, Linear) for end in (node, after))
            and any(isinstance(step.op, ReLU) for step in between)
            and all(
                isinstance(step.op, (Affine, ReLU, Flatten)) and readers[step.index] == 1
                for step in path
            )
            and all(
                one.inputs == (other.index,)
                for one, other in zip([*between, after], path, strict=True)
            )
        )
    return tuple(found)


def without_dead_units(layers: Sequence[Weighted], linked: Sequence[bool]) -> tuple[Weighted, ...]:
    """The same function, but for the rounding of the biases' sums, with as many zeros as its dead
    units allow.

    A constant is passed on where the next layer has a bias to carry it; rows that this empties come
    next, so one pass forwards finds them all, and one backwards all units that nobody reads.
    """
    found = [
        Weighted(one.weight.copy(), None if one.bias is None else one.bias.copy()) for one in layers
    ]
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
