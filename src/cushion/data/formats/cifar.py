"""CIFAR-10 and CIFAR-100 in their two published layouts: binary rows, and pickled python batches.

Both store an image as 3072 bytes: the red plane, then green, then blue, each 32 rows of 32 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cushion.data.formats import numpy_pickle
from cushion.data.formats.arrays import Arrays, Pair, whole_labels
from cushion.errors import BadInput, Malformed

PIXELS = 3 * 32 * 32
MOST_LABELS = 256  # the binary layout has a byte for a label


@dataclass(frozen=True)
class Layout:
    """One published arrangement: which files, and where a row or batch keeps its label."""

    folder: str  # the name of the folder inside the published archive
    classes: int
    train: tuple[str, ...]
    test: str
    label_bytes: int = 0  # binary: label bytes before the pixels, the class last; 0: a pickle
    label_key: str = ""  # pickle: the key of the labels


LAYOUTS = (
    Layout(
        "cifar-10-batches-bin",
        10,
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test_batch.bin",
        1,
    ),
    Layout("cifar-100-binary", 100, ("train.bin",), "test.bin", 2),  # coarse label, then fine label
    Layout(
        "cifar-10-batches-py",
        10,
        tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test_batch",
        label_key="labels",
    ),
    Layout("cifar-100-python", 100, ("train",), "test", label_key="fine_labels"),
)


def recognise(folder: Path) -> Layout | None:
    """The layout whose first training file lies in this folder."""
    return next((layout for layout in LAYOUTS if (folder / layout.train[0]).is_file()), None)


def read_folder(folder: Path, layout: Layout) -> Pair:
    """x [m, 3, 32, 32] uint8, y [m], training batches in order; a test batch may be absent."""
    for name in layout.train:
        if not (folder / name).is_file():
            raise BadInput(f"{folder / name}: the batch is missing; put it beside the others")
    parts = [_batch(folder / name, layout) for name in layout.train]
    train = Arrays(
        np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    )
    return train, _batch(folder / layout.test, layout) if (folder / layout.test).is_file() else None


def _batch(path: Path, layout: Layout) -> Arrays:
    return (
        _binary(path, layout.label_bytes)
        if layout.label_bytes
        else _pickled(path, layout.label_key)
    )


def _binary(path: Path, label_bytes: int) -> Arrays:
    row = label_bytes + PIXELS
    content = np.fromfile(path, dtype=np.uint8)
    if len(content) % row:
        whole = len(content) // row
        raise Malformed(
            f"{path}: cut short, since rows are {row} bytes and the last one is not whole",
            whole * row,
        )
    rows = content.reshape(-1, row)
    return Arrays(_images(rows[:, label_bytes:]), rows[:, label_bytes - 1].astype(np.int64))


def _pickled(path: Path, label_key: str) -> Arrays:
    content = numpy_pickle.read(path)
    data, labels = content.get("data"), content.get(label_key)
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 2
        or data.shape[1] != PIXELS
    ):
        raise BadInput(
            f"{path}: a CIFAR batch needs 'data', unsigned bytes in rows of {PIXELS}; is it the "
            "right file?"
        )
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        if any(not 0 <= label < MOST_LABELS for label in labels):
            raise BadInput(
                f"{path}: '{label_key}' has a label below 0 or above {MOST_LABELS - 1}; is it the "
                "right file?"
            )
        labels = np.array(labels, dtype=np.int64)
    if not isinstance(labels, np.ndarray):
        raise BadInput(
            f"{path}: a CIFAR batch needs '{label_key}', a list of whole numbers; is it the right "
            "file?"
        )
    y = whole_labels(labels, f"{path}: '{label_key}'")
    if len(y) != len(data):
        raise BadInput(
            f"{path}: {len(data)} images but {len(y)} labels; they must describe the same examples"
        )
    return Arrays(_images(data), y)


def _images(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return rows.reshape(-1, 3, 32, 32)
