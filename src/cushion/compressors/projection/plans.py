"""How large each layer becomes, as the user says or as the lemma asks; then what is stored."""

from __future__ import annotations

import math

import torch

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.projection.conv_project import paper_p
from cushion.compressors.projection.options import VECTORS
from cushion.compressors.projection.storing import (
    LayerPlan,
    linear_layer,
    low_rank_sizes,
    size_of,
    store_linear,
    store_net,
)
from cushion.compressors.projection.subject import ProjectionSubject
from cushion.compressors.spectral import accuracy_for
from cushion.compressors.storage.stored_net import StoredNet
from cushion.errors import BadInput
from cushion.nets.operators import Conv2d

_COARSEST = 8  # times the rounding of a weight: a finer accuracy than that cannot be promised


def store(subject: ProjectionSubject) -> tuple[StoredNet, tuple[LayerPlan, ...]]:
    """What is stored, and what was planned for each layer."""
    net, start, seed = subject.net, subject.start, subject.seed
    method, options = subject.method, subject.options
    if method in VECTORS:
        linear_layer(net, method)  # before a margin is asked for, which would not help another net
        setting = {
            "gamma": subject.need_gamma(),
            "eta": subject.vector_eta,
            "radius": subject.radius,
        }
        _refuse_growth(subject)
        return store_linear(net, start, method, options, seed, **setting), (LayerPlan(),)
    plans = tuple(_plan(subject))
    return store_net(net, start, method, plans, options, seed), plans


def check_point(subject: ProjectionSubject) -> None:
    """BadInput where a size of the curve fits no layer."""
    if subject.method not in VECTORS and subject.options.k is not None:
        _plan(subject)


def _refuse_growth(subject: ProjectionSubject) -> None:
    """BadInput where Lemma 7 asks for more numbers than the vectors have, and no k was given."""
    if subject.method != "vector-project" or subject.options.k is not None:
        return
    setting = subject.linear
    if setting.projections >= setting.coordinates:
        raise BadInput(
            f"Lemma 7 asks for k = {setting.projections} where a vector of this classifier has "
            f"{setting.coordinates} coordinates, so nothing would be compressed and it was not "
            "run; give the size of the run with `k`"
        )


def _plan(subject: ProjectionSubject) -> list[LayerPlan]:
    net, method, options = subject.net, subject.method, subject.options
    layers = [node.affine.operator for node in net.affine_layers]
    p = options.p or paper_p(subject.eta)
    if options.k is not None and method == "low-rank":
        return [LayerPlan(size=rank) for rank in low_rank_sizes(options.k, net, subject.start)]
    if options.k is not None:
        sizes = [size_of(options.k, operator, method, p) for operator in layers]
        if sum(sizes) > MOST_NUMBERS:
            raise BadInput(
                f"`k` = {options.k} makes {sum(sizes)} numbers, and a file holds {MOST_NUMBERS} at "
                "most; give fewer"
            )
        for node, size in zip(net.affine_layers, sizes, strict=True):
            weights = node.affine.operator.parameters
            if (
                method == "conv-project"
                and isinstance(node.affine.operator, Conv2d)
                and size * p > weights
            ):
                raise BadInput(
                    f"{node.name}: k·p = {size}·{p} numbers are more than its {weights} weights, "
                    "so nothing would be compressed; give a smaller `k` or `p`"
                )
        return [LayerPlan(size=size, p=p) for size in sizes]
    if method == "low-rank":
        accuracy = options.epsilon
        if accuracy is None:
            net.chain()  # Lemma 9 is about chains
            accuracy = accuracy_for(subject.need_gamma(), subject.facts, subject.radius)
            if accuracy < _COARSEST * torch.finfo(net.dtype).eps:
                raise BadInput(
                    f"the margin asks for an accuracy of {accuracy:.2g} in every layer (Theorem "
                    "2.2), finer than the weights themselves, so nothing could be cut and it was "
                    "not run; give `epsilon` or `k`"
                )
        return [LayerPlan(accuracy=accuracy) for _ in layers]
    counts = subject.counts
    if counts is None:
        why = (
            "its margin is not positive"
            if subject.epsilon is None
            else "its cushions are not defined"
        )
        raise BadInput(f"the lemma gives no k for this net ({why}); give `k`")
    for layer in counts.layers:
        if not layer.compresses:
            asked = (
                f"{layer.numbers:.0f}"
                if layer.numbers < 1e9
                else f"10^{layer.log_numbers / math.log(10):.1f}"
            )
            raise BadInput(
                f"{layer.name}: the lemma asks for {asked} numbers where the layer has "
                f"{layer.weights} weights, so nothing would be compressed and it was not run; give "
                "the size of the run with `k`, such as `k` = 5%"
            )
    return [
        LayerPlan(size=int(count.projections), p=p if isinstance(operator, Conv2d) else 1)
        for count, operator in zip(counts.layers, layers, strict=True)
    ]
