"""From a net and a method to what is stored: one decision a layer, then the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor

from cushion.compressors.projection.conv_project import project_filters
from cushion.compressors.projection.low_rank import ranks_for, to_accuracy, to_rank
from cushion.compressors.projection.matrix_project import Helper, project
from cushion.compressors.projection.options import NetOptions, Size, parse_size
from cushion.compressors.projection.vectors import compress_linear
from cushion.compressors.storage.stored import Kept, Numbers, StoredLayer
from cushion.compressors.storage.stored_net import StoredNet, places
from cushion.errors import BadInput, Unsupported
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, Diagonal, Operator
from cushion.progress import progress

_BIAS_BITS = 16
_BIAS_SHARE = 0.04  # of a layer's allowed error that the rounding of its bias may use


@dataclass(frozen=True)
class LayerPlan:
    """What is asked of one layer: an accuracy (low-rank), or a size and, for Algorithm 4, p."""

    accuracy: float | None = None
    size: int | None = None
    p: int = 1


def size_of(asked: Size, operator: Operator, method: str, p: int = 1) -> int:
    """The rank or k, at least 1, that `k` means here; a percentage is of the layer's weights."""
    size = parse_size(asked, "`k`")
    filters = method == "conv-project" and isinstance(operator, Conv2d)
    if isinstance(size, int):
        # as many numbers as a convolution
        return size * p if method == "conv-project" and not filters else size
    budget: Fraction = size * operator.parameters
    return max(1, math.floor(budget / p) if filters else math.ceil(budget))


def low_rank_sizes(asked: Size, net: Network, start: Network | None) -> list[int]:
    """The rank of every layer; all layers together store a percentage of the net's weights."""
    size = parse_size(asked, "`k`")
    layers = [node.affine.operator for node in net.affine_layers]
    if isinstance(size, int):
        return [size for _ in layers]
    starts = (
        [None] * len(layers)
        if start is None
        else [node.affine.operator for node in start.affine_layers]
    )
    return ranks_for(
        layers, starts, math.floor(size * sum(operator.parameters for operator in layers))
    )


def store_net(
    net: Network,
    start: Network | None,
    method: str,
    plans: Sequence[LayerPlan],
    options: NetOptions,
    seed: int,
) -> StoredNet:
    """Every layer as planned; batch-norms that were not folded are kept, on a grid."""
    layers, biases = [], []
    work = list(zip(net.affine_layers, places(net), plans, strict=True))
    for at, (node, place, plan) in enumerate(progress(work, method, "layer")):
        first = None if start is None else start.affine_layers[at].affine
        try:
            layers.append(_store(node.affine.operator, place, plan, method, options, seed, first))
            biases.append(_store_bias(node.affine, first, plan))
        except BadInput as problem:
            raise BadInput(f"{node.name}: {problem}") from None
    return StoredNet(seed, tuple(layers), tuple(biases))


def store_linear(
    net: Network,
    start: Network | None,
    method: str,
    options: NetOptions,
    seed: int,
    *,
    gamma: float,
    eta: float,
    radius: float,
) -> StoredNet:
    """A linear classifier by Vector-Compress or Vector-Project."""
    node = linear_layer(net, method)
    first = None if start is None else start.affine_layers[0].affine
    k = None if options.k is None else size_of(options.k, node.affine.operator, method)
    layer = compress_linear(
        node.affine.operator.weight,
        node.affine.bias,
        method=method,  # type: ignore[arg-type]
        gamma=gamma,
        eta=eta,
        k=k,
        radius=radius,
        helper=options.helper_of(method) or "gaussian",  # type: ignore[arg-type]
        seed=seed,
        place=places(net)[0],
        start=None if first is None else (first.operator.weight, first.bias),
    )
    return StoredNet(seed, (layer,), (None,))


def linear_layer(net: Network, method: str) -> Node:
    """The one layer of a linear classifier; Unsupported for any other net."""
    layers = net.affine_layers
    if len(layers) != 1 or layers[0].affine.operator.weight.ndim != 2:
        raise Unsupported(
            f"`method` = {method} is for linear classifiers, nets of one dense layer, and this net "
            f"has {len(layers)} layers; use low-rank or matrix-project, or train a spec such as "
            "'1x28x28: flatten fc10'"
        )
    return layers[0]


def centred(net: Network, method: str) -> Network:
    """A linear classifier less what its two scores have in common: the same answers and margins,
    and comparable scores.

    Only the difference of two rows is stored, so it alone can be compared with what comes back.
    """
    node = linear_layer(net, method)
    affine = node.affine
    weight = affine.operator.weight - affine.operator.weight.mean(0)
    bias = None if affine.bias is None else affine.bias - affine.bias.mean()
    return net.with_affine(
        {node.index: replace(affine, operator=affine.operator.with_weight(weight), bias=bias)}
    )


def _store(
    operator: Operator,
    place: int,
    plan: LayerPlan,
    method: str,
    options: NetOptions,
    seed: int,
    first: Affine | None,
) -> StoredLayer:
    start = None if first is None else first.operator
    bits = options.number_bits
    if isinstance(operator, Diagonal):
        weight = operator.weight.to(torch.float64)
        changed = (weight if start is None else weight - start.weight).numpy()
        if plan.accuracy is None or operator.spectral() == 0.0:
            return Kept(Numbers.fitted(changed, _BIAS_BITS))
        # a factor moves by half of it at most, and so does the map
        step = plan.accuracy * operator.spectral()
        return Kept(Numbers.rounded(changed, math.frexp(step)[1] - 1))
    if method == "low-rank":
        if plan.accuracy is not None:
            return to_accuracy(operator, plan.accuracy, start)
        assert plan.size is not None
        return to_rank(operator, plan.size, bits, start)
    assert plan.size is not None
    helper: Helper = options.helper_of(method)  # type: ignore[assignment]
    if method == "conv-project" and isinstance(operator, Conv2d):
        return project_filters(operator, plan.size, plan.p, bits, seed, place, helper, start)
    # Algorithm 4 leaves dense layers to Algorithm 1
    dense: Helper = "srht" if helper == "srht" else "signs"
    return project(operator, plan.size, bits, seed, place, dense, start)


def _store_bias(affine: Affine, first: Affine | None, plan: LayerPlan) -> Numbers | None:
    """On 16 bits, or as finely as a stated accuracy needs."""
    if affine.bias is None:
        return None
    bias: Tensor = affine.bias.to(torch.float64)
    if first is not None and first.bias is not None:
        bias = bias - first.bias.to(torch.float64)
    if plan.accuracy is None:
        return Numbers.fitted(bias.numpy(), _BIAS_BITS)
    units = affine.operator.output_size  # each bias serves all places
    step = 2 * _BIAS_SHARE * plan.accuracy * affine.operator.spectral() / math.sqrt(units)
    if step == 0.0:
        return Numbers.fitted(bias.numpy(), _BIAS_BITS)
    return Numbers.rounded(bias.numpy(), math.frexp(step)[1] - 1)
