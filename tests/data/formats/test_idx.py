"""IDX files written byte by byte here, then read; every way of being broken gets its place and
sentence.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from cushion.data.formats import idx
from cushion.errors import BadInput, Malformed

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + b"".join(
        struct.pack(">I", n) for n in array.shape
    )
    return header + bytes(array.astype(np.uint8).ravel().tolist())


@pytest.fixture
def images() -> np.ndarray:
    return np.arange(5 * 4 * 3).reshape(5, 4, 3)


def write(folder: Path, name: str, content: bytes, zipped: bool = False) -> Path:
    path = folder / (name + ".gz" * zipped)
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


@pytest.mark.parametrize("zipped", [False, True])
def test_round_trip(tmp_path: Path, images: np.ndarray, zipped: bool) -> None:
    for name, array in zip(
        NAMES, (images, np.array([0, 1, 2, 3, 4]), images[:2], np.array([9, 8])), strict=True
    ):
        write(tmp_path, name, idx_bytes(array), zipped)
    train, test = idx.read_folder(tmp_path)
    assert train.x.shape == (5, 1, 4, 3)
    assert train.x.dtype == np.uint8
    assert (train.x[:, 0] == images).all()
    assert train.y.dtype == np.int64
    assert train.y.tolist() == [0, 1, 2, 3, 4]
    assert test is not None
    assert (test.x[:, 0] == images[:2]).all()
    assert test.y.tolist() == [9, 8]


def test_without_a_test_part_and_with_both_forms_of_a_file(
    tmp_path: Path, images: np.ndarray
) -> None:
    write(tmp_path, NAMES[0], idx_bytes(images))
    write(tmp_path, NAMES[0], b"never read, since the plain file is there", zipped=True)
    write(tmp_path, NAMES[1], idx_bytes(np.arange(5)), zipped=True)
    train, test = idx.read_folder(tmp_path)
    assert len(train.y) == 5
    assert test is None


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("length", range(16 + 60))
def test_a_cut_file_is_refused_where_it_ends(
    tmp_path: Path, images: np.ndarray, zipped: bool, length: int
) -> None:
    path = write(tmp_path, "images", idx_bytes(images)[:length], zipped)
    with pytest.raises(Malformed, match="cut short") as caught:
        idx.read(path, 3)
    assert caught.value.position == length
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence", "position"),
    [
        (b"\x00\x01\x08\x01\x00\x00\x00\x01a", "not an IDX file", 0),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01abcd", "IDX type 0x0d is not unsigned bytes", 2),
        (b"\x00\x00\x08\x03\x00\x00\x00\x01a", "3 dimensions where 1 belong", 3),
        (b"\x00\x00\x08\x01\x00\x00\x00\x01ab", "bytes follow the last value", 9),
    ],
)
def test_a_wrong_header_or_tail_is_refused(
    tmp_path: Path, content: bytes, sentence: str, position: int
) -> None:
    path = write(tmp_path, "labels", content)
    with pytest.raises(Malformed, match=sentence) as caught:
        idx.read(path, 1)
    assert caught.value.position == position


@pytest.mark.parametrize("zipped", [False, True])
def test_absurd_sizes_do_not_ask_for_the_memory(tmp_path: Path, zipped: bool) -> None:
    header = b"\x00\x00\x08\x03" + b"\xff" * 12
    with pytest.raises(Malformed, match="cut short"):
        idx.read(write(tmp_path, "images", header + b"abc", zipped), 3)


@pytest.mark.parametrize("damage", ["cut", "flipped", "not gzip"])
def test_a_damaged_gzip_is_refused(tmp_path: Path, images: np.ndarray, damage: str) -> None:
    path = write(tmp_path, "images", idx_bytes(images), zipped=True)
    whole = path.read_bytes()
    broken = {
        "cut": whole[:-9],
        "flipped": whole[:-6] + b"\xff\xff" + whole[-4:],
        "not gzip": b"hello",
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(Malformed, match="the gzip stream is damaged"):
        idx.read(path, 3)


def test_empty_files_give_empty_arrays(tmp_path: Path) -> None:
    """Dataset then says that the set is empty."""
    assert idx.read(write(tmp_path, "images", idx_bytes(np.zeros((0, 2, 2)))), 3).shape == (0, 2, 2)


def test_sizes_beyond_any_array_are_refused_even_when_one_is_zero(tmp_path: Path) -> None:
    header = b"\x00\x00\x08\x03" + struct.pack(">III", 0, 2**32 - 1, 2**32 - 1)
    with pytest.raises(
        Malformed, match="sizes 0 x 4294967295 x 4294967295 are beyond any array"
    ) as caught:
        idx.read(write(tmp_path, "images", header), 3)
    assert caught.value.position == 4


def test_a_missing_partner_or_another_count_is_refused(tmp_path: Path, images: np.ndarray) -> None:
    write(tmp_path, NAMES[0], idx_bytes(images))
    with pytest.raises(BadInput, match=f"{NAMES[1]}: the file is missing"):
        idx.read_folder(tmp_path)
    write(tmp_path, NAMES[1], idx_bytes(np.arange(4)))
    with pytest.raises(BadInput, match=f"5 images, but {NAMES[1]} has 4 labels"):
        idx.read_folder(tmp_path)
    write(tmp_path, NAMES[1], idx_bytes(np.arange(5)))
    write(tmp_path, NAMES[3], idx_bytes(np.arange(5)))
    with pytest.raises(BadInput, match=f"{NAMES[2]}: the file is missing"):
        idx.read_folder(tmp_path)
