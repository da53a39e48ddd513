"""The user's own net f as a certificate sees it: its numbers, its scores, its answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.certificates.format.claims import Answers
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.batches import as_floats
from cushion.nets.network import Network
from cushion.progress import progress

_BATCH = 256
_FEW = 2  # rows that are also scored in a batch of their own
# of the largest score: far above rounding, far below what chance or batch statistics change
_STEADY = 1e-3


def fingerprint_net(model: nn.Module) -> str:
    """sha256 of f's parameters and buffers, sorted by name (FORMAT.md, section 5): of its numbers,
    not of the code that computes with them.
    """
    digest = hashlib.sha256(b"cushion-net-1\n")
    named: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    named |= dict(model.named_buffers(remove_duplicate=False))
    for name, tensor in sorted(named.items()):
        kind = str(tensor.dtype).removeprefix("torch.")
        said = json.dumps([name, kind, list(tensor.shape)], separators=(",", ":"))
        digest.update(said.encode() + b"\n")
        plain = tensor.detach().cpu().contiguous()
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")
    return digest.hexdigest()


def score(model: nn.Module, x: NDArray[Any], *, describe: str = "scoring") -> Tensor:
    """[n, classes] scores of f in eval mode, in its own precision, on the CPU; f stays as it is.

    BadInput if they are not finite, or if the scores of a row depend on chance or on the other rows
    of its batch: then f is not one function, and no certificate can be about it.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with torch.no_grad(), _evaluating(model):
        parts = [
            _checked(model(as_floats(x[start : start + _BATCH]).to(device)), start)
            for start in progress(range(0, len(x), _BATCH), describe, "batch")
        ]
        again = _checked(model(as_floats(x[:_FEW]).to(device)), 0)
    scores = torch.cat(parts)
    moved = float((scores[:_FEW] - again).abs().max())
    if moved > _STEADY * float(again.abs().max()):
        raise BadInput(
            "the net is not one function: its scores for an example change with chance or with "
            "the rest of its batch; make it the same on every call (batch-norm needs running "
            "statistics)"
        )
    return scores


def teacher_scores(model: nn.Module | Network, data: Dataset) -> Tensor:
    """[m, at least classes] scores of a net to imitate on its sample."""
    if isinstance(model, Network):
        batches = (as_floats(data.x[s : s + _BATCH]) for s in range(0, len(data), _BATCH))
        scores = torch.cat([model.forward(batch.to(model.dtype)) for batch in batches])
    else:
        scores = score(model, data.x, describe="f's scores").float()
    if scores.shape[1] < data.classes:
        raise BadInput(
            f"the net has {scores.shape[1]} scores for {data.classes} classes of {data.name}"
        )
    return scores


def answers_of(scores: Tensor, net_fingerprint: str) -> Answers:
    """The answers and gaps that [n, classes] scores stand for."""
    top = scores.double().topk(2, dim=1)
    gaps: NDArray[np.float64] = (top.values[:, 0] - top.values[:, 1]).numpy()
    return Answers(net_fingerprint, top.indices[:, 0].numpy(), gaps)


def answer(model: nn.Module, x: NDArray[Any]) -> Answers:
    """What f answers on the rows of x."""
    return answers_of(score(model, x, describe="f's answers"), fingerprint_net(model))


def _checked(scores: object, row: int) -> Tensor:
    if not isinstance(scores, Tensor) or scores.ndim != 2 or scores.shape[1] < 2:
        raise BadInput("the net must return one row of at least two class scores for each example")
    if not bool(torch.isfinite(scores).all()):
        raise BadInput(f"the net's scores are not finite near row {row}; check its weights")
    return scores.cpu()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for every module inside, and each one's own mode again behind."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
