"""Dataset: what it accepts, what it refuses in one sentence, and the fingerprint against a naive
one.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys

import numpy as np
import pytest

from cushion.data import Dataset
from cushion.errors import BadInput


def dataset(x: np.ndarray, y: list[int] | np.ndarray, classes: int = 3) -> Dataset:
    return Dataset("toy", x, np.asarray(y, dtype=np.int64), classes)


def test_it_knows_its_size_and_shape() -> None:
    toy = dataset(np.zeros((4, 1, 2, 5), np.uint8), [0, 1, 2, 0])
    assert len(toy) == 4
    assert toy.shape == (1, 2, 5)


def naive_fingerprint(x: np.ndarray, y: np.ndarray) -> str:
    """The definition, one element at a time."""
    text = b"cushion-data-1\n"
    for array, code, kind in (
        (x, "B" if x.dtype == np.uint8 else "<f", x.dtype),
        (y, "<q", y.dtype),
    ):
        name = {"uint8": "|u1", "float32": "<f4", "int64": "<i8"}[kind.name]
        text += f"{name} {','.join(str(n) for n in array.shape)}\n".encode()
        text += b"".join(struct.pack(code, value) for value in array.ravel(order="C").tolist())
    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_the_fingerprint_is_its_definition(kind: type) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((5000, 1, 2, 2)) * 255).astype(kind)  # more rows than are hashed at once
    y = rng.integers(0, 3, 5000)
    assert dataset(x, y).fingerprint == naive_fingerprint(x, y)


def test_the_fingerprint_ignores_memory_order_and_sees_values_shape_type_and_labels() -> None:
    x = np.arange(24, dtype=np.uint8).reshape(4, 1, 2, 3)
    base = dataset(x, [0, 1, 2, 0]).fingerprint
    assert dataset(np.asfortranarray(x), [0, 1, 2, 0]).fingerprint == base
    assert dataset(np.repeat(x, 2, axis=0)[::2], [0, 1, 2, 0]).fingerprint == base
    other = x.copy()
    other[3, 0, 1, 2] += 1
    different = [
        dataset(other, [0, 1, 2, 0]),
        dataset(x, [0, 1, 2, 1]),
        dataset(x.reshape(4, 1, 3, 2), [0, 1, 2, 0]),
        dataset(x.astype(np.float32), [0, 1, 2, 0]),
    ]
    assert len({base, *(each.fingerprint for each in different)}) == 5


@pytest.mark.parametrize(
    ("x", "y", "classes", "sentence"),
    [
        (np.zeros((2, 1), np.float64), [0, 1], 2, "x must be uint8, float32 or int64, not float64"),
        (np.zeros(2, np.uint8), [0, 1], 2, r"x has shape \(2,\); it needs a row per example"),
        (np.zeros((), np.uint8), [0, 1], 2, r"x has shape \(\); it needs a row per example"),
        (
            np.zeros((2, 1), np.uint8),
            [[0], [1]],
            2,
            r"y must be a vector of whole numbers, not int64 \(2, 1\)",
        ),
        (np.zeros((3, 1), np.uint8), [0, 1], 2, "x has 3 rows but y has 2"),
        (np.zeros((0, 1), np.uint8), [], 2, "the set is empty"),
        (
            np.zeros((3, 0), np.uint8),
            [0, 1, 0],
            2,
            r"x has shape \(3, 0\), so its examples hold no numbers",
        ),
        (np.zeros((3, 1, 0, 4), np.float32), [0, 1, 0], 2, "examples hold no numbers"),
        (np.zeros((2, 1), np.uint8), [0, 0], 1, "at least 2 classes, not 1"),
        (np.zeros((2, 1), np.uint8), [0, 2], 2, r"label 2 is outside the 2 classes \(0 to 1\)"),
        (np.zeros((2, 1), np.uint8), [-1, 1], 2, r"label -1 is outside the 2 classes \(0 to 1\)"),
        (np.array([[0], [np.nan]], np.float32), [0, 1], 2, "NaN, infinite"),
        (np.array([[np.inf], [0]], np.float32), [0, 1], 2, "NaN, infinite"),
    ],
)
def test_it_refuses_with_one_sentence(
    x: np.ndarray, y: list[int], classes: int, sentence: str
) -> None:
    with pytest.raises(BadInput, match=f"^toy: .*{sentence}"):
        dataset(x, y, classes)


def test_importing_the_data_package_stays_light() -> None:
    code = (
        "import sys, cushion.data; print([m for m in ('torch', 'PIL', 'sklearn', 'scipy') if m in "
        "sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
