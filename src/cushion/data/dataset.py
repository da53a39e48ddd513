"""A labelled sample as arrays, and its identity: the hash of the decoded arrays, never a path."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput


def hash_arrays(tag: str, *arrays: NDArray[Any]) -> str:
    """sha256 over a tag, then dtype, shape and little-endian C-order bytes of each array."""
    digest = hashlib.sha256(f"{tag}\n".encode())
    for array in arrays:
        little = array.dtype.newbyteorder("<")
        digest.update(f"{little.str} {','.join(map(str, array.shape))}\n".encode())
        for start in range(0, len(array), 4096):
            digest.update(np.ascontiguousarray(array[start : start + 4096], dtype=little).data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """m labelled examples.

    x: [m, *shape], uint8 (kept so until a batch needs floats; then divided by 255) or float32 (fed
    as it is). y: [m] int64 in 0..classes-1. `history` records, in order, every seeded step (split,
    corruption) that made these rows from the named source. Arrays may be memory-mapped; nothing
    here copies x.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    classes: int
    history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise BadInput(f"{self.name}: {fault}")

    def _fault(self) -> str:
        x, y = self.x, self.y
        if x.dtype not in (np.uint8, np.float32):
            return f"x must be uint8 or float32, not {x.dtype}; convert it first"
        if x.ndim < 2:
            return f"x has shape {x.shape}; it needs a row per example, [m, ...]"
        if y.dtype != np.int64 or y.ndim != 1:
            return f"y must be a vector of whole numbers, not {y.dtype} {y.shape}"
        if len(x) != len(y):
            rows = f"x has {len(x)} rows but y has {len(y)}"
            return f"{rows}; they must describe the same examples"
        if len(y) == 0:
            return "the set is empty; give at least one example"
        if 0 in x.shape:
            return f"x has shape {x.shape}, so its examples hold no numbers; give each at least one"
        if self.classes < 2:
            return f"a classifier needs at least 2 classes, not {self.classes}"
        low, high = int(y.min()), int(y.max())
        if low < 0 or high >= self.classes:
            known = f"the {self.classes} classes (0 to {self.classes - 1})"
            wrong = low if low < 0 else high
            return f"label {wrong} is outside {known}; fix the labels or the number of classes"
        pieces = range(0, len(x) if x.dtype == np.float32 else 0, 4096)
        if not all(np.isfinite(x[i : i + 4096]).all() for i in pieces):
            held = "NaN, infinite values or numbers too large for float32"
            return f"x holds {held}; remove those rows first"
        return ""

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return tuple(self.x.shape[1:])

    @cached_property
    def fingerprint(self) -> str:
        """The arrays' identity when it was first asked for."""
        return self.hashed()

    def hashed(self) -> str:
        """The hash of x and y as they are now (FORMAT.md, section 5)."""
        return hash_arrays("cushion-data-1", self.x, self.y)

    def select(self, rows: NDArray[np.int64], step: str) -> Dataset:
        """The given rows in the given order, with `step` added to the history."""
        history = (*self.history, step)
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows], history=history)

    def relabel(self, y: NDArray[np.int64], step: str) -> Dataset:
        """The same inputs with other labels, with `step` added to the history."""
        return dataclasses.replace(self, y=y, history=(*self.history, step))
