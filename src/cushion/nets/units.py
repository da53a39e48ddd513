"""Hidden units that one layer makes and one layer reads: they may be permuted, or left out.

A unit is an output of a dense layer or a channel of a convolution. Between the two layers may stand
whatever treats every unit by itself and alike: ReLU and other curves, pools, a flattening.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine, Flatten, ReLU
from cushion.nets.operations.elementwise import Curve
from cushion.nets.operations.windows import Pool
from cushion.nets.operators import Conv2d, Linear, Operator

_ALIKE = (ReLU, Curve, Pool, Flatten)


@dataclass(frozen=True)
class Hidden:
    """The units between two affine nodes, by their indices; the reader's weight reads `places`
    neighbouring numbers of each (1 but behind a flattening).
    """

    made_by: int
    read_by: int
    units: int
    places: int

    def read_weight(self, weight: Tensor) -> Tensor:
        """The reader's weight, [out, in, ...], as [out, units, what it has of each]."""
        return weight.reshape(weight.shape[0], self.units, -1)


def hidden_units(net: Network) -> tuple[Hidden, ...]:
    """All of a net, in the order of the layers that make them."""
    found = []
    for node in net.affine_layers:
        reader = _reader(net, node)
        if reader is not None:
            units = node.affine.operator.weight.shape[0]
            places = reader.affine.operator.weight.shape[1] // units
            found.append(Hidden(node.index, reader.index, units, places))
    return tuple(found)


def _reader(net: Network, node: Node) -> Node | None:
    """The affine layer that alone reads what this one makes, unit by unit, if there is one."""
    if not _mixes(node.affine.operator):
        return None
    while len(users := net.users[node.index]) == 1:
        node = net.nodes[users[0]]
        if len(node.inputs) != 1:
            return None
        if isinstance(node.op, Affine):
            return node if _mixes(node.affine.operator) else None
        if not isinstance(node.op, _ALIKE):
            return None
    return None


def _mixes(operator: Operator) -> bool:
    """Whether each output reads all inputs with weights of its own."""
    return type(operator) is Linear or (type(operator) is Conv2d and operator.groups == 1)


def with_units(net: Network, kept: Mapping[int, Tensor]) -> Network:
    """The net with these hidden units alone, in this order.

    kept: for each node that makes some, which. The same function, up to rounding, if all are kept
    or the others are zero or not read.
    """
    changes: dict[int, Affine] = {}
    for hidden in hidden_units(net):
        if (units := kept.get(hidden.made_by)) is None:
            continue
        maker = changes.get(hidden.made_by, net.nodes[hidden.made_by].affine)
        weight, bias = maker.operator.weight[units], maker.bias
        operator = maker.operator.with_weight(weight)
        bias = None if bias is None else bias[units]
        changes[hidden.made_by] = replace(maker, operator=operator, bias=bias)
        reader = net.nodes[hidden.read_by].affine
        shape = reader.operator.weight.shape
        left = hidden.read_weight(reader.operator.weight)[:, units]
        own = (len(units), *shape[2:]) if len(shape) > 2 else (len(units) * hidden.places,)
        weight = left.reshape(shape[0], *own)
        changes[hidden.read_by] = replace(reader, operator=_reading(reader.operator, weight))
    nodes: list[Node] = []
    for node in net.nodes:
        node = replace(node, op=changes.get(node.index, node.op))
        if node.inputs:
            shapes = (nodes[i].shape for i in node.inputs)
            node = replace(node, shape=node.op.output_shape(*shapes))
        nodes.append(node)
    return Network(tuple(nodes))


def _reading(operator: Operator, weight: Tensor) -> Operator:
    """The same layer on other inputs, as many as the weight reads."""
    if isinstance(operator, Conv2d):
        shape = (weight.shape[1], *operator.input_shape[1:])
        return replace(operator, weight=weight, input_shape=shape)
    return operator.with_weight(weight)


def used_units(net: Network) -> dict[int, Tensor]:
    """The hidden units that some weight makes and some weight reads, by the node that makes them.

    Others add nothing but constants. A unit that only such units made, or only they read, goes too.
    """
    makes = {node.index: node.affine.operator.weight != 0 for node in net.affine_layers}
    links = hidden_units(net)
    while True:
        before = sum(int(one.sum()) for one in makes.values())
        found = {}
        for hidden in links:
            made, reader = makes[hidden.made_by], makes[hidden.read_by]
            read = hidden.read_weight(reader)
            used = made.flatten(1).any(1) & read.any(2).any(0)
            made[~used] = False
            makes[hidden.read_by] = (read & used[None, :, None]).reshape(reader.shape)
            found[hidden.made_by] = torch.nonzero(used).flatten()
        if sum(int(one.sum()) for one in makes.values()) == before:
            return found


def as_kernel(net: Network, node: Node) -> tuple[int, ...]:
    """The shape of a layer's weight; that of a dense layer behind the flattening of a map, as the
    kernel which it is: [out, channels, height, width].
    """
    weight = node.affine.operator.weight
    if type(node.affine.operator) is not Linear:
        return tuple(weight.shape)
    before = net.nodes[node.inputs[0]]
    while isinstance(before.op, (ReLU, Curve)):
        before = net.nodes[before.inputs[0]]
    if isinstance(before.op, Flatten):
        return (weight.shape[0], *net.nodes[before.inputs[0]].shape)
    return tuple(weight.shape)
