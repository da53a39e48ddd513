"""Brute-force Jacobians of sub-networks: the oracle of everything that is said about noise
stability.
"""

from __future__ import annotations

import torch
from tests.cases import Case
from torch import Tensor

from cushion.nets.network import Network, Node


def traced(case: Case) -> Network:
    """The case's net in float64."""
    return case.network().double()


def activations(net: Network, x: Tensor) -> dict[int, Tensor]:
    """Every node's output."""
    values = {0: x}
    for node in net.nodes[1:]:
        values[node.index] = node.op(*(values[i] for i in node.inputs))  # type: ignore[operator]
    return values


def subnet(net: Network, x: Tensor, source: Node, target: Node, at: Tensor) -> Tensor:
    """M^{i,j}(at) for one example x [1, ...]: the source's output replaced, everything else
    recomputed from it.
    """
    values = activations(net, x)
    values[source.index] = at
    for node in net.nodes[source.index + 1 : target.index + 1]:
        values[node.index] = node.op(*(values[i] for i in node.inputs))  # type: ignore[operator]
    return values[target.index]


def brute_jacobian(net: Network, x: Tensor, source: Node, target: Node) -> Tensor:
    """J^{i,j} at one example x [1, ...]: [size_j, size_i], by automatic differentiation of the
    sub-network.
    """
    at = activations(net, x)[source.index]
    jacobian = torch.autograd.functional.jacobian(lambda z: subnet(net, x, source, target, z), at)
    assert isinstance(jacobian, Tensor)
    return jacobian.reshape(target.affine.operator.output_size, source.affine.operator.output_size)


def pairs(net: Network) -> list[tuple[Node, Node]]:
    """All i < j."""
    layers = net.affine_layers
    return [(i, j) for at, j in enumerate(layers) for i in layers[:at]]
