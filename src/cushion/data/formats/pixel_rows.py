"""CIFAR-10 as PNG sheets: 1024 RGB pixels a row, one image a row, with the labels in JSON lists.

The layout of the package that `cushion data get cifar10` downloads; its file names are misspelt
there.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cushion.data.formats.arrays import Arrays, Pair
from cushion.errors import BadInput, Malformed

TRAIN = tuple(f"data_batch_{i}.png" for i in range(1, 6))
TEST = ("test_batch.png",)
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"
SIDE = 32


def read_folder(folder: Path) -> Pair:
    """x [m, 3, 32, 32] uint8 in the order of the sheets, y [m]."""
    return _part(folder, TRAIN, TRAIN_LABELS), _part(folder, TEST, TEST_LABELS)


def _part(folder: Path, sheets: tuple[str, ...], labels: str) -> Arrays:
    x = np.concatenate([_sheet(folder / name) for name in sheets])
    try:
        y = np.array(json.loads((folder / labels).read_text()), dtype=np.int64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Malformed(
            f"{folder / labels}: not a list of whole numbers in JSON; fetch it again"
        ) from None
    if y.shape != (len(x),):
        raise BadInput(f"{folder / labels}: {y.size} labels for {len(x)} images; they must match")
    return Arrays(x, y)


def _sheet(path: Path) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(path, formats=["PNG"]) as image:
            pixels = np.asarray(image)  # [images, 1024, 3]: row-major pixels, colours last
    except (OSError, SyntaxError, ValueError) as error:
        raise Malformed(f"{path}: not a readable PNG image ({error}); fetch it again") from None
    if pixels.ndim != 3 or pixels.shape[1:] != (SIDE * SIDE, 3):
        raise BadInput(
            f"{path}: a sheet has rows of {SIDE * SIDE} RGB pixels, not shape {pixels.shape}"
        )
    return np.ascontiguousarray(pixels.transpose(0, 2, 1)).reshape(-1, 3, SIDE, SIDE)
