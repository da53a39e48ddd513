"""How large each layer becomes, as the user says or as the lemma asks; then what is stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cushion.certificates.format.number_stream import MOST_NUMBERS
from cushion.compressors.method import Candidate
from cushion.compressors.perturbations import accuracy_for
from cushion.compressors.projection.conv_project import paper_p, project_filters
from cushion.compressors.projection.low_rank import ranks_for, to_accuracy, to_rank
from cushion.compressors.projection.matrix_project import project
from cushion.compressors.projection.method import SIGNS_MOST, VECTORS, NetOptions, Size, parse_size
from cushion.compressors.projection.subject import ProjectionSubject, linear_layer
from cushion.compressors.storage.stored import Kept, Numbers, StoredLayer, grid_within
from cushion.compressors.storage.stored_net import StoredNet, about, places
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, Diagonal, Operator
from cushion.progress import progress

_BIAS_BITS = 16
_BIAS_SHARE = 0.04  # of a layer's allowed error that the rounding of its bias may use
_COARSEST = 8  # times the rounding of a weight: a finer accuracy than that cannot be promised


@dataclass(frozen=True)
class LayerPlan:
    """What is asked of one layer: an accuracy (low-rank), or a size and, for Algorithm 4, p."""

    accuracy: float | None = None
    size: int = 1
    p: int = 1


def store(subject: ProjectionSubject) -> tuple[StoredNet, tuple[LayerPlan, ...]]:
    """What is stored, and what was planned for each layer."""
    net, method, options, seed = subject.net, subject.method, subject.options, subject.seed
    if method in VECTORS:
        return _store_linear(subject), (LayerPlan(),)
    plans = tuple(_plan(subject))
    return store_net(net, subject.start, method, plans, options, seed), plans


def _store_linear(subject: ProjectionSubject) -> StoredNet:
    """A linear classifier by Vector-Compress or Vector-Project."""
    net, method, options, seed = subject.net, subject.method, subject.options, subject.seed
    operator, place = linear_layer(net, method).affine.operator, places(net)[0]
    task = subject.linear
    if method == "vector-compress":
        return StoredNet(seed, (task.sparse(seed, place),), (None,))
    k = None if options.k is None else size_of(options.k, operator, method)
    if k is None and task.projections >= task.coordinates:
        raise BadInput(
            f"Lemma 7 asks for k = {task.projections} where a vector of this classifier has "
            f"{task.coordinates} coordinates, so nothing would be compressed and it was not run; "
            "give the size of the run with `k`"
        )
    return StoredNet(seed, (task.projected(k, options.helper_of(method), seed, place),), (None,))


def candidates(subject: ProjectionSubject) -> Iterator[Candidate]:
    """The one compression that was asked for."""
    for asked in subject.options.sweep or ():  # what cannot be made is refused before the work
        point = subject.swept(asked)
        if point.method not in VECTORS and point.options.k is not None:
            _plan(point)
    stored, plans = store(subject)
    yield Candidate(stored, made=plans)


def _plan(subject: ProjectionSubject) -> list[LayerPlan]:
    net, method, options = subject.net, subject.method, subject.options
    if method == "low-rank":
        if options.k is not None:
            return [LayerPlan(size=k) for k in low_rank_sizes(options.k, net, subject.start)]
        accuracy = _accuracy(subject) if options.epsilon is None else options.epsilon
        return [LayerPlan(accuracy) for _ in net.affine_layers]
    p = options.p or paper_p(subject.eta)
    if options.k is None:
        return _lemma_plans(subject, p)
    sizes = [size_of(options.k, node.affine.operator, method, p) for node in net.affine_layers]
    if sum(sizes) > MOST_NUMBERS:
        raise BadInput(f"`k` = {options.k} makes more numbers than the {MOST_NUMBERS} of a file")
    for node, size in zip(net.affine_layers, sizes, strict=True):
        operator = node.affine.operator
        filters = method == "conv-project" and isinstance(operator, Conv2d)
        if filters and size * p > operator.parameters:
            raise BadInput(
                f"layer {node.name}: k·p = {size}·{p} numbers are more than its "
                f"{operator.parameters} weights, so nothing would be compressed; give a smaller "
                "`k` or `p`"
            )
    return [LayerPlan(size=size, p=p) for size in sizes]


def _accuracy(subject: ProjectionSubject) -> float:
    """δ of every layer, from the margin (Theorem 2.2)."""
    subject.net.chain()  # Lemma 9 is about chains
    accuracy = accuracy_for(subject.need_gamma(), subject.facts, subject.radius)
    if accuracy < _COARSEST * torch.finfo(subject.net.dtype).eps:
        raise BadInput(
            f"the margin asks for an accuracy of {accuracy:.2g} in every layer (Theorem 2.2), "
            "finer than the weights themselves, so nothing could be cut and it was not run; give "
            "`epsilon` or `k`"
        )
    return accuracy


def _lemma_plans(subject: ProjectionSubject, p: int) -> list[LayerPlan]:
    """k of every layer as Lemma 3 or 14 asks."""
    if subject.counts is None:
        why = "its cushions are not defined"
        if subject.epsilon is None:
            why = "its margin is not positive"
        raise BadInput(f"the lemma gives no k for this net ({why}); give `k`")
    plans = []
    for count, node in zip(subject.counts.layers, subject.net.affine_layers, strict=True):
        if not count.compresses:
            asked = f"{count.numbers:.0f}"
            if count.numbers >= 1e9:
                asked = f"10^{count.log_numbers / math.log(10):.1f}"
            raise BadInput(
                f"layer {count.name}: the lemma asks for {asked} numbers where the layer has "
                f"{count.weights} weights, so nothing would be compressed and it was not run; give "
                "the size of the run with `k`, such as `k` = 5%"
            )
        own = p if isinstance(node.affine.operator, Conv2d) else 1
        plans.append(LayerPlan(size=int(count.projections), p=own))
    return plans


def size_of(asked: Size, operator: Operator, method: str, p: int = 1) -> int:
    """The rank or k, at least 1, that `k` means here; a percentage is of the layer's weights."""
    size = parse_size(asked, "`k`", SIGNS_MOST)
    filters = method == "conv-project" and isinstance(operator, Conv2d)
    if isinstance(size, int):
        # as many numbers as a convolution
        return size * p if method == "conv-project" and not filters else size
    budget = size * operator.parameters
    return max(1, math.floor(budget / p) if filters else math.ceil(budget))


def low_rank_sizes(asked: Size, net: Network, start: Network | None) -> list[int]:
    """The rank of every layer; all layers together store a percentage of the net's weights."""
    size = parse_size(asked, "`k`", SIGNS_MOST)
    layers = [node.affine.operator for node in net.affine_layers]
    if isinstance(size, int):
        return [size for _ in layers]
    starts: list[Operator | None] = [None] * len(layers)
    if start is not None:
        starts = [node.affine.operator for node in start.affine_layers]
    return ranks_for(layers, starts, math.floor(size * sum(one.parameters for one in layers)))


def store_net(
    net: Network,
    start: Network | None,
    method: str,
    plans: Sequence[LayerPlan],
    options: NetOptions,
    seed: int,
) -> StoredNet:
    """Every layer as planned; batch-norms that were not folded are kept, on a grid."""
    layers: list[StoredLayer] = []
    biases = []
    work = list(zip(net.affine_layers, places(net), plans, strict=True))
    for at, (node, place, plan) in enumerate(progress(work, method, "layer")):
        affine = node.affine
        first = None if start is None else start.affine_layers[at].affine
        # what the layer's map may move by; 0 where no accuracy is stated
        moves = 0.0 if plan.accuracy is None else plan.accuracy * affine.operator.spectral()
        with about(node, BadInput):
            if isinstance(affine.operator, Diagonal):
                own = None if first is None else first.operator.weight
                layers.append(Kept(_on_grid(affine.operator.weight, own, moves)))
            else:
                layers.append(_store(affine, first, plan, method, options, seed, place))
            units = affine.operator.output_size  # each bias serves all places
            step = 2 * _BIAS_SHARE * moves / math.sqrt(units)
            own = None if first is None else first.bias
            biases.append(None if affine.bias is None else _on_grid(affine.bias, own, step))
    return StoredNet(seed, tuple(layers), tuple(biases))


def _store(
    affine: Affine,
    first: Affine | None,
    plan: LayerPlan,
    method: str,
    options: NetOptions,
    seed: int,
    place: int,
) -> StoredLayer:
    operator, start = affine.operator, None if first is None else first.operator
    size, bits = plan.size, options.number_bits
    if plan.accuracy is not None:
        return to_accuracy(operator, plan.accuracy, start)
    if method == "low-rank":
        return to_rank(operator, size, bits, start)
    helper = options.helper_of(method)
    if method == "conv-project" and isinstance(operator, Conv2d):
        return project_filters(operator, size, plan.p, bits, seed, place, helper, start)
    # Algorithm 4 leaves dense layers to Algorithm 1
    if helper == "gaussian":
        helper = "signs"
    return project(operator, size, bits, seed, place, helper, start)


def _on_grid(values: Tensor, start: Tensor | None, step: float) -> Numbers:
    """The values less `start`'s, which move by half a step at most; on 16 bits where it is 0."""
    changed = values.to(torch.float64)
    if start is not None:
        changed = changed - start.to(torch.float64)
    if step == 0.0:
        return Numbers.fitted(changed.numpy(), _BIAS_BITS)
    return Numbers.rounded(changed.numpy(), grid_within(step))


def centred(net: Network, method: str) -> Network:
    """A linear classifier less what its two scores have in common: the same answers and margins,
    and comparable scores.

    Only the difference of two rows is stored, so it alone can be compared with what comes back.
    """
    node = linear_layer(net, method)
    operator, bias = node.affine.operator, node.affine.bias
    moved = operator.with_weight(operator.weight - operator.weight.mean(0))
    bias = None if bias is None else bias - bias.mean()
    return net.with_affine({node.index: replace(node.affine, operator=moved, bias=bias)})
