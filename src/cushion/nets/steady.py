"""Whether a net is one function: an example's scores must not change with chance, with its place in
the batch, or with the rest of the batch. Nothing can be said of a net that is none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from cushion.errors import BadInput
from cushion.nets.batches import Batch
from cushion.nets.calling import evaluating, precision

# of what tells classes apart: far above rounding, far below what chance or batch statistics change
_STEADY = 1e-3
_COARSE = 0.03  # the same for half precision, whose sums round by up to 2^-8 a step


def check_steady(net: nn.Module, rows: Batch) -> Tensor:
    """The scores of a few rows; BadInput unless they come again in another order and alone.

    net: a module that maps a batch to scores [B, classes]; it stays in its mode.
    """
    with torch.no_grad(), torch.random.fork_rng(devices=[]), evaluating(net):
        scores: Tensor = net(rows)
        if bool(torch.isfinite(scores).all()):  # what else is wrong is said where it is read
            compare(net, scores, net(_each(rows, lambda part: part.flip(0))).flip(0))
            if half := len(scores) // 2:
                with suppress(ValueError, IndexError, RuntimeError):  # some need more than one row
                    again = net(_each(rows, lambda part: part[:half]))
                    if again.shape == scores[:half].shape:
                        compare(net, scores, again)
    return scores


def _each(rows: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    if isinstance(rows, dict):
        return {name: change(part) for name, part in rows.items()}
    return change(rows)


def _sides(scores: Tensor) -> str:
    return "x".join(map(str, scores.shape[1:])) or "single"


def compare(net: nn.Module, scores: Tensor, again: Tensor) -> None:
    """BadInput unless the first rows have the same scores again, but for rounding."""
    if scores.shape[1:] != again.shape[1:]:
        raise BadInput(
            f"the net is not one function: it gives {_sides(scores)} numbers for an example and "
            f"then {_sides(again)}; make it the same on every call"
        )
    moved = float((scores[: len(again)] - again).abs().max())
    half = precision(net) in (torch.float16, torch.bfloat16)
    share, rounding = (_COARSE, _COARSE) if half else (_STEADY, 1e-5)
    # a number that all scores of a row have in common tells no classes apart
    apart = float((again - again.mean(dim=1, keepdim=True)).abs().max())
    if moved > share * apart + rounding * float(again.abs().max()):
        raise BadInput(
            "the net is not one function: its scores for an example change with chance or with "
            "the rest of its batch; make it the same on every call (dropout needs "
            "training=self.training, batch-norm running statistics)"
        )
