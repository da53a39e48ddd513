"""compress_net(): the compressors of Arora 2018 on a trained net, their promises checked and their
bounds beside.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cushion.certificates.format.number_stream import MOST_FIELD, MOST_NUMBERS
from cushion.compressors.certified import ASSUMED, NetCompressed, certificate_of, occam_rows
from cushion.compressors.file import CompressedNet
from cushion.compressors.induction import follow_induction
from cushion.compressors.projection.conv_project import paper_p
from cushion.compressors.projection.options import NetOptions
from cushion.compressors.projection.report import Compressed, describe
from cushion.compressors.projection.spectral import accuracy_for
from cushion.compressors.projection.storing import (
    LayerPlan,
    centred,
    linear_layer,
    low_rank_sizes,
    size_of,
    store_linear,
    store_net,
)
from cushion.compressors.records import CurvePoint, NetCompression, Rate
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.data import Dataset, as_dataset
from cushion.data.inputs import check_holdout
from cushion.errors import BadInput
from cushion.measures.margins import margin_loss
from cushion.measures.norms.layers import squared_distance
from cushion.measures.stability.comparison import check_alike
from cushion.measures.table import traced
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d
from cushion.theorems.linear_rates import bound_compress, bound_project
from cushion.theorems.net_facts import look_at
from cushion.theorems.occam import parse_delta

_COARSEST = 8  # times the rounding of a weight: a finer accuracy than that cannot be promised
_VECTORS = ("vector-compress", "vector-project")
_RATES = tuple(10**power for power in range(3, 13))
_MANY = 10**9
_INITIAL = (
    "the initialisation was drawn before the data, and not chosen because it did well on them"
)


def compress_net(
    model: nn.Module | Network,
    data: Dataset | str,
    *,
    method: str,
    options: NetOptions | None = None,
    holdout: Dataset | None = None,
    init: nn.Module | Network | None = None,
    delta: str | float = "0.05",
    seed: int = 0,
) -> NetCompressed[NetCompression]:
    """Compress a trained net by a method of Arora 2018 and hold what its lemmas promise against
    what happens.

    `init`, the net at its initialisation, is needed for `from_initialisation` alone. The helper
    string comes from `seed`. The model is not changed; the held-out examples are only looked at
    once the net is compressed.
    """
    options = options or NetOptions()
    options.check(method)
    if not 0 <= seed < MOST_FIELD - 1:
        raise BadInput(
            f"`seed` = {seed} must be a whole number from 0 to {MOST_FIELD - 2}: it is part of the "
            "message"
        )
    sample = as_dataset(data)
    check_holdout(holdout, sample)
    exact = parse_delta(str(delta))
    net = traced(model, sample)
    start = None
    if options.from_initialisation:
        if init is None:
            raise BadInput(
                "`from_initialisation` needs the net's initialisation: give a RUN folder as the net"
            )
        start = traced(init, sample)
        check_alike(net, start, "the initialisation")
        if squared_distance(net, start) == 0.0:
            raise BadInput(
                "the initialisation is the net itself: there is nothing that training changed to "
                "compress"
            )
    if method in _VECTORS and net.classes == 2:
        net, start = centred(net, method), None if start is None else centred(start, method)
    subject = Subject(net, start, sample, method, options, float(exact), seed)
    for asked in options.sweep:  # what cannot be made is refused before the work
        _check_point(subject.at(options.at(method, asked)))
    stored, plans = _store(subject)
    compressed = CompressedNet(stored, net, _notes(subject), start)
    found = Compressed(
        stored, compressed.network, plans, follow_induction(net, compressed.network, sample)
    )
    summary = describe(subject, found)
    certificate, because = certificate_of(compressed, sample, exact, holdout, compressed.notes)
    errors = int((found.errors.margins <= 0).sum())
    summary = replace(
        summary,
        occam=occam_rows(compressed, errors, len(sample), exact, holdout, certificate, because),
        curve=tuple(
            _point(subject, asked, holdout, found.errors.scores) for asked in options.sweep
        ),
        rates=_rates(subject) if method in _VECTORS else (),
        assumptions=ASSUMED if start is None else (*ASSUMED, _INITIAL),
    )
    return NetCompressed(compressed, summary, certificate)


def _store(subject: Subject) -> tuple[StoredNet, tuple[LayerPlan, ...]]:
    """What is stored, and what was planned for each layer."""
    net, start, method, options, seed = (
        subject.net,
        subject.start,
        subject.method,
        subject.options,
        subject.seed,
    )
    if method in _VECTORS:
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


def _check_point(subject: Subject) -> None:
    """BadInput where a size of the curve fits no layer."""
    if subject.method not in _VECTORS and subject.options.k is not None:
        _plan(subject)


def _refuse_growth(subject: Subject) -> None:
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


def _plan(subject: Subject) -> list[LayerPlan]:
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


def _point(
    subject: Subject, asked: str, holdout: Dataset | None, scores: NDArray[np.float64]
) -> CurvePoint:
    stored, _ = _store(subject.at(subject.options.at(subject.method, asked)))
    network = stored.network(subject.net, subject.start)
    errors = follow_induction(subject.net, network, subject.sample, scores=scores)
    return CurvePoint(
        asked=asked,
        parameters=stored.parameters,
        bits=stored.bits,
        worst_relative_error=float(errors.relative.max()),
        mean_relative_error=float(errors.relative.mean()),
        margin_loss=margin_loss(errors.margins, subject.gamma or 0.0),
        error=margin_loss(errors.margins, 0.0),
        test_error=None if holdout is None else look_at(network, holdout).errors / len(holdout),
    )


def _rates(subject: Subject) -> tuple[Rate, ...]:
    """Both explicit rates for this classifier's margin, over sample sizes.

    Vector-Compress twice: with the classifier's own h, which it soon keeps whole, and with so many
    coordinates that its own rate of m^-1/3 shows.
    """
    gamma, own = (
        min(0.999, subject.unit_gamma),
        linear_layer(subject.net, subject.method).affine.operator.input_size,
    )
    found = [(h, bound_compress(m, gamma, h, subject.delta)) for h in (own, _MANY) for m in _RATES]
    found += [(own, bound_project(m, gamma, subject.delta)) for m in _RATES]
    return tuple(
        Rate(one.method, h, one.m, one.eta, one.numbers, one.bits, one.bound) for h, one in found
    )


def _notes(subject: Subject) -> dict[str, str | float | int | bool | None]:
    settings = subject.options.settings() | {"helper": subject.options.helper_of(subject.method)}
    return {"method": subject.method, "seed": subject.seed, **settings}
