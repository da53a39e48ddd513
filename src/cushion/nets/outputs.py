"""What nets return, in its many dresses, and where in it the class scores are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.errors import BadInput

_NAMES = ("logits", "scores", "out", "output", "outputs", "prediction", "predictions")
_FEATURES = ("pool", "hidden", "embed", "feature")  # what outputs called so hold; no scores


@dataclass(frozen=True)
class Reading:
    """Where the scores are in what a net returns, and what makes rows of them."""

    key: str | int | None = None  # of a dict, an attribute, or a place in a tuple
    flat: bool = False  # [B, classes, 1, 1]
    single: bool = False  # [B] or [B, 1]: one number z an example, the scores (0, z)
    chance: bool = False  # that number is a probability p (a sigmoid): the scores (1 - p, p)
    half: bool = False  # answers in half precision are widened, which is exact

    def scores(self, found: Any) -> Any:
        """[B, classes] of what the net returned."""
        if isinstance(self.key, int) or (self.key is not None and isinstance(found, Mapping)):
            found = found[self.key]
        elif self.key is not None:
            found = getattr(found, self.key)
        if self.single:
            z = found.reshape(-1, 1)
            found = torch.cat([1 - z, z], dim=1) if self.chance else F.pad(z, (1, 0))
        elif self.flat:
            found = torch.flatten(found, 1)
        return found.float() if self.half else found


def find_scores(found: Any, rows: int, classes: int | None) -> Reading:
    """Where the scores of `rows` examples are in what the net returned, or BadInput."""
    everything = _parts(found)
    parts = {k: v for k, v in everything.items() if not _is_feature(k)}
    for fits in (_is_rows, _is_single):
        keys = [key for key, part in parts.items() if fits(part, rows)]
        if len(keys) > 1 and classes is not None:  # features beside scores
            keys = [key for key in keys if parts[key].shape[1:2] == (classes,)] or keys
        named = [key for key in _NAMES if key in keys]
        if len(keys) > 1 and not named:
            shapes = ", ".join(str(list(parts[key].shape)) for key in keys)
            said = f"the net returns {len(keys)} tensors that may be class scores ({shapes})"
            raise BadInput(f"{said}; return the scores alone, or as `logits` in a dict")
        if keys:
            key = (named or keys)[0]
            part = parts[key]
            half = part.dtype in (torch.float16, torch.bfloat16)
            flat, single = fits is _is_rows and part.ndim > 2, fits is _is_single
            return Reading(key, flat=flat, single=single, half=half)
    raise BadInput(_no_scores(everything, found, rows))


def _parts(found: Any) -> dict[Any, Tensor]:
    """The floating-point tensors in an output, under the keys that get them."""
    if isinstance(found, Tensor):
        pairs: Any = [(None, found)]
    elif isinstance(found, Mapping):
        pairs = found.items()
    elif isinstance(found, tuple | list):
        pairs = enumerate(found)
    else:
        pairs = vars(found).items() if hasattr(found, "__dict__") else ()
    return {k: v for k, v in pairs if isinstance(v, Tensor) and v.is_floating_point()}


def _is_feature(key: Any) -> bool:
    return isinstance(key, str) and any(word in key.lower() for word in _FEATURES)


def _is_rows(part: Tensor, rows: int) -> bool:
    """[B, classes], perhaps with sides of 1 behind."""
    shape = part.shape
    return len(shape) > 1 and shape[0] == rows and shape[1] > 1 and set(shape[2:]) <= {1}


def _is_single(part: Tensor, rows: int) -> bool:
    return part.ndim > 0 and part.shape[0] == rows and set(part.shape[1:]) <= {1}


def _no_scores(parts: dict[Any, Tensor], found: Any, rows: int) -> str:
    rule = "the net must return one row of at least two class scores for each example"
    if not parts:
        return f"{rule}, but it returned {type(found).__name__} without such a tensor"
    shown = (f"{k} " * isinstance(k, str) + str(list(part.shape)) for k, part in parts.items())
    said = f"{rule}, but it returned {', '.join(shown)} for {rows} examples"
    if any(map(_is_feature, parts)):
        return f"{said}, which are features; give the net with its classifying head"
    if any(part.ndim > 2 and part.shape[0] == rows for part in parts.values()):
        return f"{said}; pool over the positions, or return those of one of them"
    return f"{said}; keep an example a row"
