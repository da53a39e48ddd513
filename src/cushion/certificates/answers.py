"""The user's own net f as a certificate sees it: its numbers, its scores, its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.certificates.format.claims import Answers
from cushion.data.dataset import Dataset
from cushion.data.labels import Names
from cushion.errors import BadInput
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.batches import Batch, as_batch, as_floats
from cushion.nets.calling import evaluating, place
from cushion.nets.classifier import as_module
from cushion.nets.engine import map_shards
from cushion.nets.identity import digest_of, numbers_of
from cushion.nets.identity import fingerprint_net as fingerprint_net
from cushion.nets.network import Network
from cushion.nets.program import program_fingerprint
from cushion.nets.steady import compare

_FEW = 2  # rows that are also scored in batches of their own


@dataclass
class _Parts:
    """Scores of some rows, by the first of each part; merging keeps their precision."""

    parts: dict[int, Tensor]

    def merge(self, other: _Parts) -> None:
        self.parts |= other.parts

    def joined(self) -> Tensor:
        return torch.cat([self.parts[start] for start in sorted(self.parts)])


def _hidden_digest(model: Any) -> str:
    """Of the numbers that stand in no list of parameters or buffers."""
    return digest_of({k: v for k, v in numbers_of(model).items() if ".hidden." in f".{k}"})


def score(
    model: Any,
    x: NDArray[Any],
    *,
    classes: int | None = None,
    labels: Names | None = None,
    describe: str = "scoring",
) -> Tensor:
    """[n, classes] scores of f in eval mode, in its own precision, on the CPU; f stays as it is.

    model, classes, labels: as of `as_module`. BadInput if the scores are not finite, or if those of
    a row depend on chance or on the other rows of its batch: then f is not one function, and no
    certificate can be about it.
    """
    net = as_module(model, as_batch(x[:_FEW]), classes=classes, labels=labels)

    def work(rows: slice) -> dict[str, _Parts]:
        part = _checked(net(_to(net, as_batch(x[rows]))), rows.start)
        return {"scores": _Parts({rows.start: part})}

    with torch.no_grad(), torch.random.fork_rng(devices=[]), evaluating(net):
        found = map_shards(len(x), rows_at_a_time(), work, describe=describe)
        scores: Tensor = found["scores"].joined()
        # in two sizes, as one of them may be that of the batches above
        for few in (_FEW, 1):
            compare(net, scores, _checked(net(_to(net, as_batch(x[:few]))), 0))
    return scores


def teacher_scores(model: Any, data: Dataset) -> Tensor:
    """[m, at least classes] scores of a net to imitate on its sample."""
    if isinstance(model, Network):
        size = rows_at_a_time()
        parts = (as_floats(data.x[s : s + size]) for s in range(0, len(data), size))
        scores = torch.cat([model.forward(x.to(model.device, model.dtype)).cpu() for x in parts])
    else:
        known, names = data.classes, data.labels
        scores = score(model, data.x, classes=known, labels=names, describe="f's scores").float()
    if scores.shape[1] < data.classes:
        raise BadInput(
            f"the net has {scores.shape[1]} scores for {data.classes} classes of {data.name}"
        )
    return scores


def answers_of(scores: Tensor, net_fingerprint: str, program: str | None = None) -> Answers:
    """The answers and gaps that [n, classes] scores stand for."""
    exact = scores.double()
    top = exact.topk(2, dim=1)
    gaps: NDArray[np.float64] = (top.values[:, 0] - top.values[:, 1]).numpy()
    classes = top.indices[:, 0].numpy()
    return Answers(net_fingerprint, classes, gaps, program, scores=exact.numpy())


def answer(
    model: Any, x: NDArray[Any], *, classes: int | None = None, labels: Names | None = None
) -> Answers:
    """What f answers on the rows of x; classes and labels: of its sample, where f is not a plain
    module.
    """
    before = _hidden_digest(model)
    scores = score(model, x, classes=classes, labels=labels, describe="f's answers")
    if _hidden_digest(model) != before:
        raise BadInput(
            "the net changes as it runs: numbers that it keeps outside its parameters and buffers "
            "are others after a call; keep them in local variables"
        )
    return answers_of(scores, fingerprint_net(model), program_fingerprint(model))


def _to(net: nn.Module, batch: Batch) -> Batch:
    """The batch where the net is."""
    if isinstance(batch, Tensor):
        return batch.to(place(net))
    return {name: part.to(place(net)) for name, part in batch.items()}


def _checked(scores: object, row: int) -> Tensor:
    assert isinstance(scores, Tensor)
    if not bool(torch.isfinite(scores).all()):
        raise BadInput(f"the net's scores are not finite near row {row}; check its weights")
    return scores.cpu()
