"""Units that pruning left without inputs or without outputs, taken out of a net without changing
what it computes.

A unit whose incoming weights are all zero gives the constant ReLU(b) to the next layer, whose bias
can carry it. A unit that no weight of the next layer reads may have any incoming weights, so it has
none. Both make further weights zero, and what is zero costs no bits.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cushion.nets.network import Network, Node
from cushion.nets.operations import Flatten, ReLU
from cushion.nets.operators import Linear

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WithBias:
    """A layer: its weight [out, ...] and its bias [out], None for a layer without one."""

    weight: Floats
    bias: Floats | None


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
