"""Which layout a folder has: found at its own place and in torchvision's, never guessed between
two.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cushion.data import load_pair
from cushion.data.formats import arrays, cifar, folders
from cushion.data.formats.arrays import Arrays
from cushion.errors import BadInput, Malformed


def write_idx(folder: Path, count: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    images = struct.pack(">BBBBIII", 0, 0, 8, 3, count, 2, 2) + bytes(4 * count)
    (folder / "train-images-idx3-ubyte").write_bytes(images)
    (folder / "train-labels-idx1-ubyte").write_bytes(
        struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(count)
    )


def write_cifar(folder: Path, layout: cifar.Layout) -> None:
    assert layout.label_bytes, "only the binary layouts are written here"
    folder.mkdir(parents=True, exist_ok=True)
    for name in layout.train:
        (folder / name).write_bytes(bytes(layout.label_bytes + 3072))


@pytest.mark.parametrize(
    "place", ["", "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw", "QMNIST/raw"]
)
def test_idx_files_are_found_in_torchvision_places(tmp_path: Path, place: str) -> None:
    write_idx(tmp_path / place)
    (train, test), classes = folders.read(tmp_path)
    assert train.x.shape == (3, 1, 2, 2)
    assert test is None
    assert classes is None


@pytest.mark.parametrize("layout", cifar.LAYOUTS[:2], ids=lambda layout: layout.folder)
@pytest.mark.parametrize("inside", [True, False])
def test_cifar_batches_are_found_with_their_classes(
    tmp_path: Path, layout: cifar.Layout, inside: bool
) -> None:
    write_cifar(tmp_path / layout.folder, layout)
    (train, _), classes = folders.read(tmp_path / layout.folder if inside else tmp_path)
    assert train.x.shape == (len(layout.train), 3, 32, 32)
    assert classes == layout.classes


def test_images_are_found_with_their_classes(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        Image.new("L", (2, 2)).save(tmp_path / name / "1.png")
    (train, _), classes = folders.read(tmp_path)
    assert train.x.shape == (3, 1, 2, 2)
    assert classes == ["a", "b", "c"]


def test_several_sets_in_one_folder_are_not_guessed_between(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST" / "raw")
    write_idx(tmp_path / "KMNIST" / "raw", count=4)
    with pytest.raises(
        BadInput,
        match=r"this folder holds several sets \(MNIST/raw, KMNIST/raw\); point at one of them$",
    ):
        folders.read(tmp_path)
    assert len(folders.read(tmp_path / "KMNIST")[0][0].y) == 4


@pytest.mark.parametrize("content", ["nothing", "a text file", "empty sub-folders"])
def test_a_folder_without_a_known_layout(tmp_path: Path, content: str) -> None:
    if content == "a text file":
        (tmp_path / "readme.txt").write_text("hello")
    if content == "empty sub-folders":
        (tmp_path / "train").mkdir()
    with pytest.raises(
        BadInput, match="no known layout in this folder; it may hold IDX files, CIFAR batches"
    ):
        folders.read(tmp_path)


def test_npy_folders_are_memory_mapped(tmp_path: Path) -> None:
    part = Arrays(np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2), np.array([0, 1]))
    arrays.write_folder(tmp_path, part, part)
    (train, test), _ = folders.read(tmp_path)
    assert (train.x == part.x).all()
    assert isinstance(train.x.base, np.memmap)
    assert test is not None
    assert test.y.tolist() == [0, 1]


def test_damaged_npy_folders_are_refused(tmp_path: Path) -> None:
    part = Arrays(np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 1]))
    arrays.write_folder(tmp_path, part, part)
    (tmp_path / "y_test.npy").unlink()
    with pytest.raises(BadInput, match=r"y_test\.npy: the file is missing"):
        folders.read(tmp_path)
    whole = (tmp_path / "x_train.npy").read_bytes()
    for content in (b"", b"hello", whole[:60], whole[:-1]):
        (tmp_path / "x_train.npy").write_bytes(content)
        with pytest.raises(Malformed, match=r"x_train\.npy: not a readable \.npy array"):
            folders.read(tmp_path)
    np.save(tmp_path / "x_train.npy", np.array([None, "a"], dtype=object), allow_pickle=True)
    with pytest.raises(Malformed, match=r"x_train\.npy: not a readable \.npy array"):
        folders.read(tmp_path)
    with open(tmp_path / "x_train.npy", "wb") as stream:
        np.savez(stream, x=part.x)
    with pytest.raises(Malformed, match=r"x_train\.npy: not an \.npy array"):
        folders.read(tmp_path)


def npy_bytes(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


@pytest.mark.parametrize(
    "header",
    [
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**30},)}}",
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': (0, {10**30})}}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 4)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 400)}",
        "[" * 9000,
        "-" * 9000 + "1",
        "(" * 150 + ")" * 150,
        "x" * 20_000,
        "'a",
    ],
    ids=lambda header: f"{header[-30:]}",
)
def test_a_hostile_npy_header_is_one_sentence(tmp_path: Path, header: str) -> None:
    part = Arrays(np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 1]))
    arrays.write_folder(tmp_path, part, part)
    for name in ("x_train.npy", "y_test.npy"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(npy_bytes(header))
        with pytest.raises(
            Malformed, match=rf"{name}: not a readable \.npy array \(.+\); write it again"
        ) as caught:
            folders.read(tmp_path)
        assert "\n" not in str(caught.value)
        assert "pickle" not in str(caught.value)
        assert ("(its header describes no array)" in str(caught.value)) == (
            header[0] in "[-" or str(10**30) in header
        )
        (tmp_path / name).write_bytes(content)


def test_npy_labels_of_another_kind_are_numbered_with_the_held_out_ones(tmp_path: Path) -> None:
    x = np.zeros((2, 1, 2, 2), np.uint8)
    train, test = Arrays(x, np.array(["b", "c"])), Arrays(x, np.array(["c", "a"]))
    arrays.write_folder(tmp_path, train, test)
    with pytest.warns(UserWarning, match="'a' is 0, 'b' is 1, 'c' is 2$"):
        sample, held_out = load_pair(tmp_path)
    assert held_out is not None
    assert (sample.y.tolist(), held_out.y.tolist()) == ([1, 2], [2, 0])
    assert sample.labels == held_out.labels == ("a", "b", "c")
