"""Nets to hold a trained one against: its initialisation or random weights, scaled to match."""

from __future__ import annotations

from dataclasses import replace

import torch

from cushion.errors import BadInput
from cushion.measures.probing import probe_generator
from cushion.nets.network import Network

_OPTIONS = ("stride", "padding", "dilation", "groups")


def check_alike(net: Network, other: Network, name: str) -> None:
    """BadInput unless both are the same graph of layers, so that weights can be subtracted."""
    if _outline(net) != _outline(other):
        raise BadInput(
            f"{name} has other layers than the net; give the initialisation of this very net"
        )


def _outline(net: Network) -> list[object]:
    """Everything but the numbers: operations with their options, shapes and connections."""
    lines: list[object] = []
    for node in net.nodes:
        if node in net.affine_layers:
            operator = node.affine.operator
            options = {key: value for key, value in vars(operator).items() if key in _OPTIONS}
            lines.append(
                (type(operator), tuple(operator.weight.shape), options, node.inputs, node.shape)
            )
        else:
            lines.append((repr(node.op), node.inputs, node.shape))
    return lines


def scaled_to_match(net: Network, other: Network) -> Network:
    """`other` with each weight scaled to the Frobenius norm that it has in `net`.

    Biases grow with the product of the factors so far: in a chain the scores are those of `other`
    times one number (Figure 1 of Arora 2018: "scaled properly"), and cushions, which do not see
    scales, are those of `other`. Where branches meet, no such number exists.
    """
    changes = {}
    product = 1.0
    for node, model in zip(other.affine_layers, net.affine_layers, strict=True):
        operator, bias = node.affine.operator, node.affine.bias
        own = operator.frobenius()
        factor = model.affine.operator.frobenius() / own if own > 0 else 1.0
        product *= factor
        changes[node.index] = replace(
            node.affine,
            operator=operator.with_weight(operator.weight * factor),
            bias=None if bias is None else bias * product,
        )
    return other.with_affine(changes)


def random_like(net: Network, seed: int) -> Network:
    """The architecture with Gaussian weights of the same Frobenius norms and without biases."""
    changes = {}
    for node in net.affine_layers:
        operator = node.affine.operator
        generator = probe_generator(seed, "random net", node.index)
        weight = torch.randn(
            operator.weight.shape, generator=generator, dtype=operator.weight.dtype
        )
        drawn = operator.with_weight(weight.to(operator.weight.device))
        changes[node.index] = replace(node.affine, operator=drawn, bias=None)
    return scaled_to_match(net, net.with_affine(changes))
