"""Searches for a small integer net, their report and certificate; no torch until one runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Layer, Pool
from cushion.certificates.format.message import encode
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Source,
    Values,
    coded_numbers,
)
from cushion.compressors.method import Named
from cushion.compressors.options import MethodOptions
from cushion.compressors.records import Promise
from cushion.errors import BadInput
from cushion.numerics import float_up
from cushion.records import Record, column, option
from cushion.theorems.occam import occam_bound

if TYPE_CHECKING:
    from torch import Tensor, nn

    from cushion.certificates.search.integer.search import Found
    from cushion.compressors.certified import Compressed
    from cushion.data.dataset import Dataset

Report = Callable[[float, Decimal], None]
_MINUTES = 1.0
_SOURCES: dict[type[Source], str] = {
    Grid: "grid",
    Values: "mask and values",
    SeededMask: "mask of seeded signs",
    SeededProjection: "projection of seeded signs",
    SeededNoise: "values over seeded noise",
    SignProjection: "Matrix-Project of seeded signs",
    Product: "product of two factors",
}


@dataclass(frozen=True)
class SearchOptions(MethodOptions):
    """What a user may choose for a search."""

    minutes: float | None = option(None, f"time for the training (default {_MINUTES:g})", above=0)
    steps: int | None = option(
        None, "train for so many steps instead of a time; the answer then repeats", least=1
    )
    k: int | None = option(None, "how many coefficients to train", least=1)
    width: float | None = option(
        None, "make the seeded net wider or narrower by this factor", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minutes is not None and self.steps is not None:
            raise BadInput("`minutes` and `steps` both say how long to train; give one of them")

    @property
    def seconds(self) -> float:
        return 60 * (self.minutes or _MINUTES)


@dataclass(frozen=True)
class Task:
    """What every search is given besides its own options.

    judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None. report is
    told now and then which part of the work is done, and the best bound so far.
    """

    data: Dataset
    judge: Callable[[IntegerNet], Decimal]
    seed: int
    teacher: Tensor | None
    report: Report | None


@dataclass(frozen=True)
class Search(Named):
    """find(task, options) trains until its budget is spent and returns the best net."""

    find: Callable[[Task, SearchOptions], Found]
    options = SearchOptions

    def run(
        self,
        sample: Dataset,
        options: SearchOptions,
        *,
        model: nn.Module | None,
        holdout: Dataset | None,
        delta: Decimal,
        seed: int,
        report: Report | None,
    ) -> Compressed[SearchSummary]:
        """The net with the smallest bound that was found, its summary and its certificate."""
        from cushion.compressors.certified import Compressed

        def judge(net: IntegerNet) -> Decimal:
            bits = encode(net).bits
            return Decimal(occam_bound(net.errors(sample.x, sample.y), len(sample), bits, delta))

        teacher = None if model is None else _teacher_scores(model, sample)
        found = self.find(Task(sample, judge, seed, teacher, report), options)
        notes = {
            "method": self.name,
            "seed": seed,
            **{name: value for name, value in vars(options).items() if value is not None},
            "imitates_a_model": model is not None,
            "trained": found.trained,
            "interrupted": found.interrupted,
        }
        certificate = certify_net(found.net, sample, delta, holdout=holdout, made_with=notes)
        summary = summarise(
            found.net, certificate, method=self.name, seed=seed, interrupted=found.interrupted
        )
        return Compressed(found.net, summary, certificate)


def _integer(task: Task, options: SearchOptions) -> Found:
    from cushion.certificates.search.integer.search import search

    def share(passed: float, best: Decimal) -> None:
        if task.report is not None:
            task.report(min(1.0, passed / options.seconds), best)

    return search(
        task.data,
        task.judge,
        seconds=options.seconds,
        seed=task.seed,
        teacher=task.teacher,
        report=share,
    )


def _subspace(task: Task, options: SearchOptions) -> Found:
    from cushion.certificates.search.subspace import compress_to_subspace

    return compress_to_subspace(**vars(task), **_seeded(options), k=options.k)


def _supermask(task: Task, options: SearchOptions) -> Found:
    from cushion.certificates.search.supermask import compress_to_supermask

    return compress_to_supermask(**vars(task), **_seeded(options))


def _seeded(options: SearchOptions) -> dict[str, Any]:
    """What the two methods over seeded nets share."""
    from cushion.certificates.search.seeded import Budget

    steps = options.steps
    budget = Budget(seconds=options.seconds) if steps is None else Budget(steps=steps)
    return {"budget": budget, "width": options.width}


INTEGER = Search(
    "integer",
    "the integer net with the smallest bound, every weight stored (what certify finds)",
    ("minutes",),
    _integer,
)
SUBSPACE = Search(
    "subspace",
    "a few trained coefficients of seeded sign matrices, added to a seeded net",
    ("minutes", "steps", "k", "width"),
    _subspace,
)
SUPERMASK = Search(
    "supermask",
    "which of the signs of a seeded net to keep",
    ("minutes", "steps", "width"),
    _supermask,
)


def _teacher_scores(model: nn.Module, data: Dataset) -> Tensor:
    """[m, classes] scores of the model on the sample."""
    from cushion.certificates.answers import score

    scores = score(model, data.x, describe="the net's scores").float()
    if scores.shape[1] < data.classes:
        raise BadInput(
            f"the net gives {scores.shape[1]} scores, but {data.name} has {data.classes} classes; "
            "use its own data"
        )
    return scores[:, : data.classes]


@dataclass(frozen=True)
class SearchedLayer(Record):
    """One layer of the net that was found, pooling included."""

    name: str = column("in the order of the net", label="layer")
    kind: str = column("dense, convolution or pooling")
    shape: tuple[int, ...] = column(
        "of the layer's numbers before any symmetry spreads them; empty for pooling"
    )
    source: str = column("where its numbers come from; empty for pooling", label="numbers from")
    stored: int = column("how many numbers the message codes for it, zeros and biases included")
    bits: int = column("what the ledger charges for its header and numbers")


@dataclass(frozen=True)
class SearchSummary(Record):
    """parameters: Σ stored over the layers. bits: the whole message, so Σ bits over the layers plus
    its own header.

    bound: of the Occam certificate of this very net, rounded up. promise: None, as no theorem
    speaks of a search.
    """

    method: str
    parameters: int
    bits: int
    seed: int
    layers: tuple[SearchedLayer, ...]
    errors: int
    m: int
    delta: float
    bound: float
    interrupted: bool
    promise: Promise | None = None


def summarise(
    net: IntegerNet, certificate: Certificate, *, method: str, seed: int, interrupted: bool
) -> SearchSummary:
    """The summary of a net whose certificate this is."""
    claim = certificate.claim
    layers = tuple(
        _layer(
            layer,
            place,
            sum(item.bits for item in claim.ledger if item.item.startswith(f"layer {place}: ")),
        )
        for place, layer in enumerate(net.layers, 1)
    )
    return SearchSummary(
        method=method,
        parameters=sum(layer.stored for layer in layers),
        bits=certificate.bits,
        seed=seed,
        layers=layers,
        errors=claim.errors,
        m=claim.m,
        delta=float_up(claim.delta),
        bound=float_up(claim.bound),
        interrupted=interrupted,
    )


def _layer(layer: Layer, place: int, bits: int) -> SearchedLayer:
    name = f"layer {place}"
    if isinstance(layer, Pool):
        return SearchedLayer(name, f"{layer.kind} pooling", (), "", 0, bits)
    kind = (
        ("depthwise convolution" if layer.groups == 0 else "convolution")
        if isinstance(layer, Conv)
        else "dense"
    )
    stored = coded_numbers(layer.source).size + (0 if layer.bias is None else layer.bias.size)
    return SearchedLayer(
        name, kind, tuple(layer.source.shape), _SOURCES[type(layer.source)], stored, bits
    )
