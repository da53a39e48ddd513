"""What every format hands over: inputs and labels of one part, before they become a Dataset."""

from __future__ import annotations

from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput


class Arrays(NamedTuple):
    """x: [m, *shape] uint8 or float32; y: [m] int64."""

    x: NDArray[Any]
    y: NDArray[np.int64]


Pair = tuple[Arrays, Arrays | None]  # the sample, and the held-out part if the source has one


def numpy_reason(error: Exception) -> str:
    """Why numpy could not read a file, in a few words and without its advice to unpickle it."""
    lines = str(error).strip().splitlines()
    if isinstance(error, (TokenError, OverflowError, RecursionError)) or (
        isinstance(error, MemoryError) and not lines
    ):
        # from Python's parser, which numpy reads headers with, or from shapes
        return "its header describes no array"
    if not lines:
        return type(error).__name__
    if "pickle" in str(error).lower():
        return (
            "it does not begin as numpy writes it"
            if "header" not in lines[0].lower()
            else "its header is too long"
        )
    return lines[0][:200]


def whole_labels(y: NDArray[Any], where: str) -> NDArray[np.int64]:
    """The labels as int64, from any integer type; `where` opens the sentence of a refusal."""
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise BadInput(
            f"{where} must be a vector of whole numbers, not {y.dtype} of shape {y.shape}"
        )
    if y.dtype == np.uint64 and len(y) and int(y.max()) > np.iinfo(np.int64).max:
        raise BadInput(f"{where} has the label {int(y.max())}, which no number of classes can hold")
    return y.astype(np.int64, copy=False)
