"""A labelled sample as arrays, and its identity: the hash of the decoded arrays, never a path."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cushion.data.labels import Names, read_labels
from cushion.data.rows import count_repeated
from cushion.data.standardised import find_standardised
from cushion.data.streaming import pieces
from cushion.data.tables import from_pair
from cushion.data.values import KINDS, as_inputs_array
from cushion.errors import BadInput, remark

_DOUBTS = {
    "repeated_rows": "{n} rows of {name} repeat earlier ones, labels included: bounds are about "
    "independent draws, and false if rows were copied (oversampling); then give each row once",
    "standardised": "the {n} of {name} have mean 0 and deviation 1 exactly, so this sample itself "
    "standardised them: bounds assume constants that were fixed before it was drawn",
}


def hash_arrays(tag: str, *arrays: NDArray[Any]) -> str:
    """sha256 over a tag, then dtype, shape and little-endian C-order bytes of each array.

    The dtype of a structured array is its fields', as JSON: [[name, dtype, shape], ...].
    """
    digest = hashlib.sha256(f"{tag}\n".encode())
    for array in arrays:
        little = array.dtype.newbyteorder("<")
        digest.update(f"{_described(little)} {','.join(map(str, array.shape))}\n".encode())
        for _, rows in pieces(array):
            plain = np.ascontiguousarray(rows, dtype=little)
            digest.update(plain.data if little.names is None else plain.tobytes())
    return digest.hexdigest()


def _described(kind: np.dtype[Any]) -> str:
    if kind.names is None:
        return kind.str
    fields = [(name, *(kind[name].subdtype or (kind[name], ()))) for name in kind.names]
    return json.dumps([[name, base.str, list(shape)] for name, base, shape in fields])


@dataclass(frozen=True, eq=False, init=False)
class Dataset:
    """m labelled examples: `Dataset(x, y)`, from arrays or tensors.

    x: [m, *shape], uint8 (kept so until a batch needs floats; then divided by 255), float32 or
    int64 (tokens; both fed as they are), or a structured array [m] with such a field for each named
    part of an input. y: [m] int64 in 0..classes-1; labels[k] is the source's label of class k (None
    where labels were classes already). `history` records, in order, every seeded step (split,
    corruption) that made these rows from the named source; `notes` what a person should know of how
    they were read; `columns` the names of x's columns, where a table has some. Arrays may be
    memory-mapped; nothing here copies x.

    `Dataset(x, y, name=..., classes=...)` takes what `as_dataset` takes in a pair: other floats
    become float32, and labels are mapped and that is said. `Dataset(name, x, y, classes)` takes
    arrays that are of these kinds already.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    classes: int
    history: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    labels: Names | None = None
    columns: tuple[str, ...] = ()

    @overload
    def __init__(
        self,
        x: Any,
        y: Any,
        *,
        name: str = ...,
        classes: int | None = ...,
        notes: tuple[str, ...] = ...,
        columns: tuple[str, ...] = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        x: NDArray[Any],
        y: NDArray[np.int64],
        classes: int,
        history: tuple[str, ...] = ...,
        notes: tuple[str, ...] = ...,
        labels: Names | None = ...,
        columns: tuple[str, ...] = ...,
    ) -> None: ...

    def __init__(self, *given: Any, **named: Any) -> None:
        ready = isinstance(given[0], str) if given else {"name", "classes"} <= set(named)
        order = _names(self) if ready else ["x", "y"]
        values = dict(zip(order, given, strict=False)) | named
        if len(values) < len(given) + len(named) or not {"x", "y"} <= set(values):
            raise TypeError("a Dataset is made as Dataset(x, y) or Dataset(name, x, y, classes)")
        if not ready:
            values = _read(**values)
        if not {"name", "classes"} <= set(values) <= set(_names(self)):
            raise TypeError(f"a Dataset has {', '.join(_names(self))}, not {', '.join(values)}")
        for one in dataclasses.fields(self):
            object.__setattr__(self, one.name, values.get(one.name, one.default))
        if fault := self._fault():
            raise BadInput(f"{self.name}: {fault}")

    def _fault(self) -> str:
        x, y = self.x, self.y
        kinds = [x.dtype] if x.dtype.names is None else [x[name].dtype for name in x.dtype.names]
        for kind in kinds:
            if kind not in KINDS:
                return f"x must be uint8, float32 or int64, not {kind}; convert it first"
        if x.ndim < (2 if x.dtype.names is None else 1):
            return f"x has shape {x.shape}; it needs a row per example, [m, ...]"
        if y.dtype != np.int64 or y.ndim != 1:
            return f"y must be a vector of whole numbers, not {y.dtype} {y.shape}"
        if len(x) != len(y):
            rows = f"x has {len(x)} rows but y has {len(y)}"
            return f"{rows}; they must describe the same examples"
        if len(y) == 0:
            return "the set is empty; give at least one example"
        if x.nbytes == 0:
            return f"x has shape {x.shape}, so its examples hold no numbers; give each at least one"
        if self.classes < 2:
            return f"a classifier needs at least 2 classes, not {self.classes}"
        ends = [(int(rows.min()), int(rows.max())) for _, rows in pieces(y)]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        if low < 0 or high >= self.classes:
            known = f"the {self.classes} classes (0 to {self.classes - 1})"
            wrong = low if low < 0 else high
            return f"label {wrong} is outside {known}; fix the labels or the number of classes"
        if not all(_is_finite(rows) for _, rows in pieces(x) if np.float32 in kinds):
            held = "NaN, infinite values or numbers too large for float32"
            return f"x holds {held}; remove those rows first"
        return ""

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example; () if it has several named parts (`fields`)."""
        return tuple(self.x.shape[1:])

    @property
    def fields(self) -> dict[str, tuple[int, ...]]:
        """The shape of each named part of an example; none where x is a plain array."""
        return {name: self.x.dtype[name].shape for name in self.x.dtype.names or ()}

    @cached_property
    def fingerprint(self) -> str:
        """The arrays' identity when it was first asked for."""
        return self.hashed()

    @cached_property
    def found(self) -> dict[str, int | str]:
        """What may make a bound on these rows false, from a look at all of them: how many repeat
        earlier ones with their labels (`repeated_rows`), what was standardised (`standardised`).
        """
        seen: dict[str, int | str] = {
            "repeated_rows": count_repeated(self.x, self.y),
            "standardised": find_standardised(self.x),
        }
        return {name: value for name, value in seen.items() if value}

    @property
    def doubts(self) -> tuple[str, ...]:
        """A sentence for each thing `found`."""
        return tuple(_DOUBTS[name].format(n=n, name=self.name) for name, n in self.found.items())

    @property
    def remarks(self) -> tuple[str, ...]:
        """All that a person should know of these rows: how they were read, and what was found."""
        return (*self.notes, *self.doubts)

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


def _names(data: Dataset) -> list[str]:
    return [one.name for one in dataclasses.fields(data)]


def _read(
    x: Any,
    y: Any,
    name: str = "data",
    classes: int | None = None,
    notes: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The fields of a Dataset, from inputs and labels of any kind; what was changed is told."""
    pair = from_pair(x, y)
    found, rounded = as_inputs_array(pair.x, f"{name}: x")
    (numbered,), labels = read_labels([pair.y], [f"{name}: y"], classes)
    notes = (*notes, *(text for text in (rounded, labels.remark) if text))
    remark(*notes)
    kept = {"name": name, "x": found, "y": numbered, "classes": labels.classes}
    named = {"labels": labels.names, "columns": columns or pair.columns}
    return {**kept, **named, "notes": notes}


def _is_finite(rows: NDArray[Any]) -> bool:
    parts = [rows] if rows.dtype.names is None else [rows[name] for name in rows.dtype.names]
    return all(bool(np.isfinite(part).all()) for part in parts if part.dtype == np.float32)
