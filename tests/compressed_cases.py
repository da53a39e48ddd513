"""Nets of the table, compressed in every way, for the suites about stored nets and their files."""

from __future__ import annotations

from dataclasses import replace

import torch
from tests.cases import CASES, traced

from cushion.compressors.file import CompressedNet
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.storing import LayerPlan, store_net
from cushion.nets.network import Network

NAMED = {case.name: case for case in CASES}
WAYS: dict[str, tuple[str, NetOptions, LayerPlan]] = {
    "rank": ("low-rank", NetOptions(k=2), LayerPlan(size=2)),
    "accuracy": ("low-rank", NetOptions(epsilon=0.4), LayerPlan(accuracy=0.4)),
    "signs": ("matrix-project", NetOptions(k=9), LayerPlan(size=9)),
    "srht": ("matrix-project", NetOptions(k=4, helper="srht"), LayerPlan(size=4)),
    "located": ("conv-project", NetOptions(k=2), LayerPlan(size=2, p=2)),
    "located srht": ("conv-project", NetOptions(k=2, helper="srht"), LayerPlan(size=2, p=2)),
}


network = traced


def moved(net: Network, by: float = 0.1) -> Network:
    """Another net of the same graph, with tensors of its own: an initialisation."""
    draw = torch.Generator().manual_seed(3)
    changes = {}
    for node in net.affine_layers:
        weight, bias = node.affine.operator.weight, node.affine.bias
        weight = weight + by * torch.randn(weight.shape, generator=draw, dtype=weight.dtype)
        changes[node.index] = replace(
            node.affine,
            operator=node.affine.operator.with_weight(weight),
            bias=None if bias is None else bias + by,
        )
    return net.with_affine(changes)


def compressed(
    net: Network, way: str, start: Network | None = None, seed: int = 7
) -> CompressedNet:
    method, options, plan = WAYS[way]
    stored = store_net(net, start, method, [plan] * len(net.affine_layers), options, seed)
    return CompressedNet(stored, net, {"method": method, "k": 2}, start)
