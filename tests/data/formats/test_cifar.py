"""CIFAR-10/100 in the binary, python and PNG-sheet layouts, from files written here pixel by
pixel.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cushion.data.formats import cifar
from cushion.errors import BadInput, Malformed

BINARY_10, BINARY_100, PYTHON_10, PYTHON_100 = cifar.LAYOUTS


def pixel(image: int, channel: int, row: int, column: int) -> int:
    return (image * 7 + channel * 101 + row * 32 + column) % 251


def plane_bytes(image: int) -> bytes:
    """Red plane, green plane, blue plane, each row by row."""
    return bytes(pixel(image, c, i, j) for c in range(3) for i in range(32) for j in range(32))


def check_images(x: np.ndarray, first: int, count: int) -> None:
    assert x.shape == (count, 3, 32, 32)
    assert x.dtype == np.uint8
    for n in range(count):
        for c, i, j in ((0, 0, 0), (0, 0, 31), (0, 31, 0), (1, 2, 3), (2, 31, 31), (2, 5, 17)):
            assert x[n, c, i, j] == pixel(first + n, c, i, j)


def binary_row(image: int, labels: list[int]) -> bytes:
    return bytes(labels) + plane_bytes(image)


def pickled(
    images: list[int], labels: object, key: str = "labels", protocol: int = 2, **other: object
) -> bytes:
    data = np.stack([np.frombuffer(plane_bytes(image), np.uint8) for image in images])
    return pickle.dumps(
        {"data": data, key: labels, "batch_label": "one", **other}, protocol=protocol
    )


@pytest.fixture
def binary_10(tmp_path: Path) -> Path:
    for batch in range(5):
        rows = [binary_row(2 * batch + n, [(2 * batch + n) % 10]) for n in range(2)]
        (tmp_path / f"data_batch_{batch + 1}.bin").write_bytes(b"".join(rows))
    (tmp_path / "test_batch.bin").write_bytes(binary_row(50, [9]))
    return tmp_path


def test_binary_10(binary_10: Path) -> None:
    assert cifar.recognise(binary_10) == BINARY_10
    train, test = cifar.read_folder(binary_10, BINARY_10)
    check_images(train.x, 0, 10)
    assert train.y.tolist() == list(range(10))
    assert train.y.dtype == np.int64
    assert test is not None
    check_images(test.x, 50, 1)
    assert test.y.tolist() == [9]


def test_binary_100_takes_the_fine_label(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(binary_row(0, [3, 77]) + binary_row(1, [19, 99]))
    layout = cifar.recognise(tmp_path)
    assert layout == BINARY_100
    train, test = cifar.read_folder(tmp_path, layout)
    check_images(train.x, 0, 2)
    assert train.y.tolist() == [77, 99]
    assert test is None
    assert layout.classes == 100


@pytest.mark.parametrize("extra", [1, 3072])
def test_a_cut_binary_batch_is_refused_where_the_last_whole_row_ends(
    binary_10: Path, extra: int
) -> None:
    path = binary_10 / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[: 3073 + extra])
    with pytest.raises(Malformed, match=r"data_batch_3\.bin: cut short") as caught:
        cifar.read_folder(binary_10, BINARY_10)
    assert caught.value.position == 3073


def test_a_missing_batch_is_named(binary_10: Path) -> None:
    (binary_10 / "data_batch_4.bin").unlink()
    with pytest.raises(BadInput, match=r"data_batch_4\.bin: the batch is missing"):
        cifar.read_folder(binary_10, BINARY_10)


def test_python_10(tmp_path: Path) -> None:
    for batch in range(5):
        (tmp_path / f"data_batch_{batch + 1}").write_bytes(
            pickled([2 * batch, 2 * batch + 1], [batch, 9])
        )
    (tmp_path / "test_batch").write_bytes(pickled([70], [4]))
    assert cifar.recognise(tmp_path) == PYTHON_10
    train, test = cifar.read_folder(tmp_path, PYTHON_10)
    check_images(train.x, 0, 10)
    assert train.y.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert test is not None
    check_images(test.x, 70, 1)


def test_python_100_takes_the_fine_label(tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(
        pickled([0, 1], [98, 99], key="fine_labels", coarse_labels=[1, 2])
    )
    assert cifar.recognise(tmp_path) == PYTHON_100
    train, test = cifar.read_folder(tmp_path, PYTHON_100)
    assert train.y.tolist() == [98, 99]
    assert test is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (pickled([0, 1], [1]), "2 images but 1 labels"),
        (pickled([0], [1.5]), "needs 'labels', a list of whole numbers"),
        (pickled([0], [10**30]), "'labels' has a label below 0 or above 255"),
        (pickled([0], [-1]), "'labels' has a label below 0 or above 255"),
        (
            pickled([0], np.array(1)),
            r"'labels' must be a vector of whole numbers, not int64 of shape \(\)",
        ),
        (pickled([0], "x"), "needs 'labels', a list of whole numbers"),
        (pickled([0], np.array([1.0])), "'labels' must be a vector of whole numbers, not float64"),
        (pickled([0], [1], key="fine_labels"), "needs 'labels'"),
        (pickle.dumps({"labels": [1]}), "needs 'data', unsigned bytes in rows of 3072"),
        (
            pickle.dumps({"data": np.zeros((1, 3072)), "labels": [1]}),
            "needs 'data', unsigned bytes",
        ),
        (
            pickle.dumps({"data": np.zeros((1, 3071), np.uint8), "labels": [1]}),
            "needs 'data', unsigned bytes",
        ),
    ],
)
def test_a_python_batch_that_is_not_one_is_refused(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    for batch in range(5):
        (tmp_path / f"data_batch_{batch + 1}").write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        cifar.read_folder(tmp_path, PYTHON_10)


def sheet(images: list[int]) -> Image.Image:
    rows = np.zeros((len(images), 1024, 3), np.uint8)
    for n, image in enumerate(images):
        for k in range(1024):
            for c in range(3):
                rows[n, k, c] = pixel(image, c, k // 32, k % 32)
    return Image.fromarray(rows)


def test_pixel_rows(tmp_path: Path) -> None:
    for batch, name in enumerate((*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png")):
        sheet([batch]).save(tmp_path / name)
    (tmp_path / "train_lables.json").write_text(json.dumps([5, 6, 7, 8, 9]))
    (tmp_path / "test_lables.json").write_text(json.dumps([3]))
    train, test = cifar.read_sheets(tmp_path)
    check_images(train.x, 0, 5)
    assert train.y.tolist() == [5, 6, 7, 8, 9]
    assert test is not None
    check_images(test.x, 5, 1)

    for wrong in ("[", "[1e400]", f"[{10**30}]", '{"a": 1}', "[" * 100_000):
        (tmp_path / "test_lables.json").write_text(wrong)
        with pytest.raises(
            Malformed, match=r"test_lables\.json: not a list of whole numbers in JSON"
        ):
            cifar.read_sheets(tmp_path)
    (tmp_path / "test_lables.json").write_text("[3, 4]")
    with pytest.raises(BadInput, match="2 labels for 1 images"):
        cifar.read_sheets(tmp_path)
    sheet([0]).convert("L").save(tmp_path / "data_batch_2.png")
    with pytest.raises(BadInput, match=r"data_batch_2\.png: a sheet has rows of 1024 RGB pixels"):
        cifar.read_sheets(tmp_path)
    (tmp_path / "data_batch_1.png").write_bytes(b"no image")
    with pytest.raises(Malformed, match=r"data_batch_1\.png: not a readable PNG image"):
        cifar.read_sheets(tmp_path)
