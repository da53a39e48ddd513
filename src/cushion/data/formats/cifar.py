"""CIFAR-10 and CIFAR-100 in their two published layouts, binary rows and pickled python batches,
and CIFAR-10 as PNG sheets, which is what `cushion data get cifar10` downloads.

The published ones store an image as 3072 bytes: the red plane, then green, then blue, each 32 rows
of 32 pixels. A sheet has one image a row, 1024 RGB pixels, with the labels in a JSON list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import check_regular
from cushion.data.formats import numpy_pickle
from cushion.data.formats.arrays import Arrays, Pair
from cushion.data.labels import whole_labels
from cushion.errors import BadInput, Malformed

PIXELS = 3 * 32 * 32
MOST_LABELS = 256  # the binary layout has a byte for a label
_FIVE = tuple(f"data_batch_{i}" for i in range(1, 6))


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
    Layout("cifar-10-batches-bin", 10, tuple(f"{n}.bin" for n in _FIVE), "test_batch.bin", 1),
    Layout("cifar-100-binary", 100, ("train.bin",), "test.bin", 2),  # coarse label, then fine label
    Layout("cifar-10-batches-py", 10, _FIVE, "test_batch", label_key="labels"),
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
    train = Arrays(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return train, _batch(folder / layout.test, layout) if (folder / layout.test).is_file() else None


def read_sheets(folder: Path) -> Pair:
    """x [m, 3, 32, 32] uint8 in the order of the sheets, y [m]; the names are misspelt there."""
    train = _sheets(folder, _FIVE, "train_lables.json")
    return train, _sheets(folder, ("test_batch",), "test_lables.json")


def _batch(path: Path, layout: Layout) -> Arrays:
    binary = layout.label_bytes > 0
    x, y = _binary(path, layout.label_bytes) if binary else _pickled(path, layout.label_key)
    return Arrays(x.reshape(-1, 3, 32, 32), y)


def _binary(path: Path, label_bytes: int) -> Arrays:
    row = label_bytes + PIXELS
    content = np.fromfile(check_regular(path), dtype=np.uint8)
    if over := len(content) % row:
        fault = f"cut short, since rows are {row} bytes and the last one is not whole"
        raise Malformed(f"{path}: {fault}", len(content) - over)
    rows = content.reshape(-1, row)
    return Arrays(rows[:, label_bytes:], rows[:, label_bytes - 1].astype(np.int64))


def _pickled(path: Path, label_key: str) -> Arrays:
    content = numpy_pickle.read(path)
    data: Any = content.get("data")
    labels = content.get(label_key)
    sound = isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2
    if not (sound and data.shape[1] == PIXELS):
        needs = f"a CIFAR batch needs 'data', unsigned bytes in rows of {PIXELS}"
        raise BadInput(f"{path}: {needs}; is it the right file?")
    if isinstance(labels, list) and all(type(label) is int for label in labels):
        if any(not 0 <= label < MOST_LABELS for label in labels):
            fault = f"'{label_key}' has a label below 0 or above {MOST_LABELS - 1}"
            raise BadInput(f"{path}: {fault}; is it the right file?")
        labels = np.array(labels, dtype=np.int64)
    if not isinstance(labels, np.ndarray):
        needs = f"a CIFAR batch needs '{label_key}', a list of whole numbers"
        raise BadInput(f"{path}: {needs}; is it the right file?")
    y = whole_labels(labels, f"{path}: '{label_key}'")
    if len(y) != len(data):
        counts = f"{len(data)} images but {len(y)} labels"
        raise BadInput(f"{path}: {counts}; they must describe the same examples")
    return Arrays(data, y)


def _sheets(folder: Path, sheets: tuple[str, ...], labels: str) -> Arrays:
    x = np.concatenate([_sheet(folder / f"{name}.png") for name in sheets])
    path = folder / labels
    try:
        y = np.array(json.loads(check_regular(path).read_text()), dtype=np.int64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        fault = "not a list of whole numbers in JSON"
        raise Malformed(f"{path}: {fault}; fetch it again") from None
    if y.shape != (len(x),):
        raise BadInput(f"{path}: {y.size} labels for {len(x)} images; they must match")
    return Arrays(x, y)


def _sheet(path: Path) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(check_regular(path), formats=["PNG"]) as image:
            pixels = np.asarray(image)  # [images, 1024, 3]: row-major pixels, colours last
    except (OSError, SyntaxError, ValueError) as error:
        raise Malformed(f"{path}: not a readable PNG image ({error}); fetch it again") from None
    if pixels.ndim != 3 or pixels.shape[1:] != (1024, 3):
        raise BadInput(f"{path}: a sheet has rows of 1024 RGB pixels, not shape {pixels.shape}")
    return np.ascontiguousarray(pixels.transpose(0, 2, 1)).reshape(-1, 3, 32, 32)
