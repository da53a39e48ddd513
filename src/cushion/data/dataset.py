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
        if self.x.dtype not in (np.uint8, np.float32):
            raise BadInput(
                f"{self.name}: x must be uint8 or float32, not {self.x.dtype}; convert it first"
            )
        if self.x.ndim < 2:
            raise BadInput(
                f"{self.name}: x has shape {self.x.shape}; it needs a row per example, [m, ...]"
            )
        if self.y.dtype != np.int64 or self.y.ndim != 1:
            raise BadInput(
                f"{self.name}: y must be a vector of whole numbers, not {self.y.dtype} "
                f"{self.y.shape}"
            )
        if len(self.x) != len(self.y):
            raise BadInput(
                f"{self.name}: x has {len(self.x)} rows but y has {len(self.y)}; they must "
                "describe the same examples"
            )
        if len(self.y) == 0:
            raise BadInput(f"{self.name}: the set is empty; give at least one example")
        if 0 in self.x.shape:
            raise BadInput(
                f"{self.name}: x has shape {self.x.shape}, so its examples hold no numbers; give "
                "each at least one"
            )
        if self.classes < 2:
            raise BadInput(
                f"{self.name}: a classifier needs at least 2 classes, not {self.classes}"
            )
        low, high = int(self.y.min()), int(self.y.max())
        if low < 0 or high >= self.classes:
            wrong = low if low < 0 else high
            raise BadInput(
                f"{self.name}: label {wrong} is outside the {self.classes} classes (0 to "
                f"{self.classes - 1}); fix the labels or the number of classes"
            )
        if self.x.dtype == np.float32 and not all(
            np.isfinite(self.x[i : i + 4096]).all() for i in range(0, len(self.x), 4096)
        ):
            raise BadInput(
                f"{self.name}: x holds NaN, infinite values or numbers too large for float32; "
                "remove those rows first"
            )

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
        return dataclasses.replace(
            self, x=self.x[rows], y=self.y[rows], history=(*self.history, step)
        )

    def relabel(self, y: NDArray[np.int64], step: str) -> Dataset:
        """The same inputs with other labels, with `step` added to the history."""
        return dataclasses.replace(self, y=y, history=(*self.history, step))
