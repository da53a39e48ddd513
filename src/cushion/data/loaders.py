"""Torch's data: tensors in a TensorDataset, any dataset with rows by index, and DataLoaders.

Every row is read once, in index order: transforms run once, and their result is the data. Torch is
known by its objects alone.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.kinds import Examples, is_a, split_labels
from cushion.data.streaming import room_for
from cushion.data.values import as_array
from cushion.errors import BadInput
from cushion.progress import progress

_TWICE = 64  # rows that are read twice
_ARRAYS = "pass the rows as they are drawn once, as (x, y) arrays or a map-style dataset"
_PLAIN = (
    "pass the dataset without random transforms (those of evaluation), because a bound is about "
    "rows that were drawn once"
)


def from_tensors(data: Any) -> Examples:
    """The two tensors of a TensorDataset."""
    if len(data.tensors) != 2:
        count = f"this TensorDataset holds {len(data.tensors)} tensors and not two, x and y"
        raise BadInput(f"{count}; pass TensorDataset(x, y), or (x, y) with x a dict of inputs")
    return Examples(*data.tensors)


def from_loader(loader: Any, label_column: str | None) -> Examples:
    """The rows of the loader's dataset in index order, as its collate_fn makes them."""
    notes = _check_order(loader)
    collate, data = loader.collate_fn, loader.dataset
    torch_data = sys.modules["torch.utils.data"]  # a loader is there, so its module is
    if collate in (torch_data.default_collate, torch_data.default_convert):
        found = from_dataset(data, label_column)
    else:
        found = from_dataset(data, label_column, collate, loader.batch_size or 1)
    return found._replace(notes=(*found.notes, *notes))


def _check_order(loader: Any) -> tuple[str, ...]:
    """What to say of a loader's order; BadInput if it does not draw every row once."""
    sampler, name = loader.sampler, type(loader.sampler).__name__
    if (batches := loader.batch_sampler) is not None:
        # a subclass may draw other rows than its sampler does
        plain = type(batches) is sys.modules["torch.utils.data"].BatchSampler
        sampler = batches.sampler if plain else batches
        name = type(sampler).__name__
    if is_a(sampler, "torch.utils.data", "IterableDataset") or name == "_InfiniteConstantSampler":
        raise BadInput(f"this DataLoader reads a stream, which has no rows by index; {_ARRAYS}")
    if type(sampler).__module__ == "torch.utils.data.sampler":
        rows = len(loader.dataset)
        whole = len(sampler) == rows == len(getattr(sampler, "data_source", ()))
        if name == "SequentialSampler" and whole:
            return ()
        if name == "RandomSampler" and whole and not getattr(sampler, "replacement", True):
            return ("the DataLoader's shuffling is ignored: rows are taken in index order",)
    why = {
        "WeightedRandomSampler": "draws rows with weights, which are no draws of the distribution",
        "SequentialSampler": "draws other rows than those of its dataset",
        "RandomSampler": "draws some rows several times, or not all of them",
    }.get(name, "decides itself which rows are drawn")
    how = "pass its dataset, or torch.utils.data.Subset(dataset, indices) with each row once"
    raise BadInput(f"this DataLoader's {name} {why}; {how}")


def from_dataset(
    data: Any,
    label_column: str | None,
    collate: Callable[[list[Any]], Any] | None = None,
    batch: int = 1,
) -> Examples:
    """All rows of a map-style dataset; with a collate function, in batches of that size."""
    what = f"this {type(data).__name__}"
    try:
        count = len(data)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{what} has no length, so no rows by index; {_ARRAYS}") from None
    if count == 0:
        raise BadInput(f"{what} is empty; give at least one example")

    keys: list[Any] = []  # of the first row: inputs may not change places with others

    def get(row: int) -> Any:
        item = _get(data, row, what)
        own = sorted(map(str, item)) if isinstance(item, Mapping) else None
        if not keys:
            keys.append(own)
        if own != keys[0]:
            names = [", ".join(one) if one else "no keys" for one in (own, keys[0])]
            said = f"row {row} of {what} has {names[0]} and the first one {names[1]}"
            raise BadInput(f"{said}; give all rows the same parts")
        return item

    def read(rows: range) -> tuple[Any, Any]:
        if collate is None:
            return _item(get(rows[0]), label_column, what)
        items = [get(row) for row in rows]
        return _item(collate(items), label_column, f"what collate_fn makes of {what}")

    with _random_state():
        store = _Store(count, what, batched=collate is not None)
        step = 1 if collate is None else batch
        starts = range(0, count, step)
        for start in progress(starts, "reading the data", "row" if step == 1 else "batch"):
            store.add(
                start, min(step, count - start), *read(range(start, min(start + step, count)))
            )
        some = np.unique(np.linspace(0, len(starts) - 1, max(1, _TWICE // step)).astype(int))
        for start in (starts[at] for at in some):
            if not store.holds(start, *read(range(start, min(start + step, count)))):
                raise BadInput(f"two reads of row {start} of {what} differ; {_PLAIN}")
    return store.examples(type(data).__name__)


def _get(data: Any, row: int, what: str) -> Any:
    try:
        return data[row]
    except (KeyError, IndexError, NotImplementedError) as error:
        fault = f"{what} has no row {row} ({type(error).__name__})"
        raise BadInput(f"{fault}; {_ARRAYS}") from None


def _item(item: Any, label_column: str | None, what: str) -> tuple[Any, Any]:
    """Input and label of a row or batch: (x, y) or a dict with a label."""
    if isinstance(item, Mapping) or is_a(item, "transformers", "BatchEncoding"):
        return split_labels(dict(item), label_column, what)
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
        return item[0], item[1]
    kind = f"{len(item)} parts" if isinstance(item, Sequence) else f"a {type(item).__name__}"
    raise BadInput(f"a row of {what} is {kind} and not (x, y); give inputs and one label")


class _Store:
    """Rows of known count, written into arrays that are made when the first one is seen."""

    def __init__(self, count: int, what: str, *, batched: bool) -> None:
        self.count, self.what, self.batched = count, what, batched
        self.x: dict[str, NDArray[Any]] = {}
        self.y: list[Any] = []
        self.plain = True

    def add(self, start: int, size: int, x: Any, y: Any) -> None:
        named = self._named(x)
        if not self.x:
            self.plain = not isinstance(x, Mapping)
            kept = ((name, a.shape[1:], a.dtype) for name, a in named.items())
            self.x = {name: room_for((self.count, *shape), kind) for name, shape, kind in kept}
        labels = self._labels(y)
        for name, rows in named.items():
            found = self.x.get(name)
            if (
                len(named) != len(self.x)
                or found is None
                or len({len(rows), len(labels), size}) > 1
            ):
                raise BadInput(f"row {start} of {self.what} has other parts than the first one")
            if rows.shape[1:] != found.shape[1:] or not np.can_cast(rows.dtype, found.dtype):
                shapes = (
                    f"{rows.dtype} {rows.shape[1:]} and the first {found.dtype} {found.shape[1:]}"
                )
                how = "give all one shape and type (crop, resize, or pad to one length)"
                raise BadInput(f"row {start} of {self.what} is {shapes}; {how}")
            found[start : start + size] = rows
        self.y.extend(labels)

    def holds(self, start: int, x: Any, y: Any) -> bool:
        """Whether these rows are the ones that were read before."""
        labels = self._labels(y)
        return all(
            np.array_equal(rows, self.x[name][start : start + len(rows)], equal_nan=True)
            if rows.dtype.kind == "f"
            else np.array_equal(rows, self.x[name][start : start + len(rows)])
            for name, rows in self._named(x).items()
        ) and all(
            np.array_equal(one, other)
            for one, other in zip(labels, self.y[start : start + len(labels)], strict=True)
        )

    def examples(self, name: str) -> Examples:
        return Examples(self.x[""] if self.plain else self.x, self.y, name)

    def _named(self, x: Any) -> dict[str, NDArray[Any]]:
        parts = x if isinstance(x, Mapping) else {"": x}
        read = {str(key): _row(part, f"{self.what}: x") for key, part in parts.items()}
        return read if self.batched else {key: part[None] for key, part in read.items()}

    def _labels(self, y: Any) -> list[Any]:
        if not self.batched:
            return [y if isinstance(y, str) else _label(as_array(y, f"{self.what}: y"))]
        return [_label(one) for one in as_array(y, f"{self.what}: y")]


def _label(y: Any) -> Any:
    return y.tolist() if isinstance(y, np.ndarray | np.generic) else y


def _row(part: Any, where: str) -> NDArray[Any]:
    """One input as an array; a picture as [channels, height, width] bytes."""
    if is_a(part, "PIL", "Image"):
        if part.mode not in ("L", "RGB"):
            raise BadInput(f"{where} is a picture of mode {part.mode}; convert it to RGB or grey")
        pixels = np.asarray(part)
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return as_array(part, where)


@contextmanager
def _random_state() -> Iterator[None]:
    """The caller's random numbers go on behind as if no row had been read."""
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if torch is not None:
            torch.set_rng_state(states[2])
