"""How a net reads a batch, and how seeds make independent streams."""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# What a net reads at once: rows of numbers or tokens, or, where an input has several named parts
# (input_ids, attention_mask), a tensor for each.
Batch: TypeAlias = Tensor | dict[str, Tensor]


def mix_seed(seed: int, part: int | str, purpose: str) -> int:
    """The seed of one stream: of one epoch, draw or layer, for one purpose."""
    digest = hashlib.sha256(f"{purpose} {seed} {part}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def as_floats(x: NDArray[Any]) -> Tensor:
    """A batch as the net reads it, in torch's memory: uint8 divided by 255, floats as they are.

    Matrix products may round differently by alignment, so numpy's memory would break bit-identical
    resuming.
    """
    # torch warns about memory-mapped, read-only rows
    batch = torch.from_numpy(np.require(x, requirements="W"))
    if batch.dtype != torch.uint8:
        return batch.clone()
    floats = batch.float().div_(255)
    floats.cushion_bytes = True  # type: ignore[attr-defined]
    return floats


def was_bytes(batch: Batch | None) -> bool:
    """Whether `as_floats` made this very tensor of uint8; what is computed from it does not say."""
    return getattr(batch, "cushion_bytes", False) is True


def as_bytes(x: Tensor) -> Tensor:
    """The uint8 values that `as_floats` divided by 255, exactly."""
    return (x * 255).round().to(torch.uint8)


def as_batch(x: NDArray[Any]) -> Batch:
    """Rows as a net reads them: uint8 / 255, floats and int64 tokens as they are; a structured
    array becomes a dict with a tensor for each field. Nothing is shared with x.
    """
    if x.dtype.names is None:
        return as_floats(x)
    # contiguous, because torch takes no strides that are not whole numbers of items
    return {name: as_floats(np.ascontiguousarray(x[name])) for name in x.dtype.names}
