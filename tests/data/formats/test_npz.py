"""`.npz` files: types that are accepted and converted, and every refusal."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cushion.data import load_pair
from cushion.data.formats.arrays import read_inputs, read_npz
from cushion.data.inputs import as_inputs
from cushion.errors import BadInput, Malformed

X = np.arange(12, dtype=np.uint8).reshape(3, 4)
Y = np.array([0, 1, 2])


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "toy.npz"
    np.savez(path, **arrays)
    return path


def test_bytes_stay_bytes_and_the_test_part_is_read(tmp_path: Path) -> None:
    train, test = read_npz(
        saved(tmp_path, x=X, y=Y, x_test=X[:1], y_test=Y[:1], note=np.array("free"))
    )
    assert train.x.dtype == np.uint8
    assert (train.x == X).all()
    assert test is not None
    assert (test.x == X[:1]).all()
    assert test.y.tolist() == [0]
    assert read_npz(saved(tmp_path, x=X, y=Y))[1] is None


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", ">f4"])
def test_floats_become_float32(tmp_path: Path, kind: str) -> None:
    train, _ = load_pair(saved(tmp_path, x=(X / 8).astype(kind), y=Y))
    assert train.x.dtype == np.float32
    assert (train.x == X / 8).all()


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"])
def test_labels_of_any_integer_type_become_int64(tmp_path: Path, kind: str) -> None:
    train, _ = load_pair(saved(tmp_path, x=X, y=Y.astype(kind)))
    assert train.y.dtype == np.int64
    assert train.y.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": X}, "needs the arrays x and y, but this one has x; write it again with numpy.savez"),
        ({"pixels": X, "labels": Y}, "needs the arrays x and y, but this one has pixels, labels;"),
        ({"X": X, "data": X, "target": Y, "y": Y}, "but this one has X, data, target, y; write it"),
        ({"X": X, "y": Y, "X_test": X}, "but this one has X, y, X_test$"),
        (
            {"x": X, "y": Y, "x_test": X},
            "needs both x_test and y_test, but this one has x, y, x_test$",
        ),
        (
            {"x": X, "y": Y, "y_test": Y},
            "needs both x_test and y_test, but this one has x, y, y_test$",
        ),
        ({"x": np.array([1, "a", None], dtype=object), "y": Y}, "x is an array of Python objects"),
        ({"x": X, "y": np.array([1, "a", None], dtype=object)}, "y is an array of Python objects"),
    ],
)
def test_refusals(tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str) -> None:
    path = saved(tmp_path, **arrays)
    with pytest.raises(BadInput, match=sentence) as caught:
        read_npz(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": Y * 0.5}, r"toy\.npz: y has the label 0\.5, which is no whole number"),
        ({"x_test": X, "y_test": Y * 0.5}, r"toy\.npz test: y has the label 0\.5"),
        ({"y": np.array([0, 1, 2**64 - 1], np.uint64)}, "y has the label 18446744073709551615"),
        ({"y": np.array(1)}, r"toy\.npz: y must be a vector of labels, not int64 \(\)"),
        ({"x": X.astype(np.int16)}, "x is int16; give uint8 .*, floats .* or int64"),
        ({"x": X.astype(complex)}, "x is complex128; give uint8"),
        ({"x": X.astype(str)}, "x is text; give uint8"),
    ],
)
def test_numbers_that_no_net_reads_are_refused_by_name(
    tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        load_pair(saved(tmp_path, **({"x": X, "y": Y} | arrays)))


def test_an_object_array_is_not_unpickled(tmp_path: Path) -> None:
    target = tmp_path / "ran"

    class Opens:
        def __reduce__(self) -> Any:
            return open, (str(target), "w")

    path = saved(tmp_path, x=np.array([Opens()], dtype=object), y=Y[:1])
    with pytest.raises(BadInput, match="x is an array of Python objects, which is never unpickled"):
        read_npz(path)
    assert not target.exists()
    with np.load(path, allow_pickle=True) as archive:  # plain numpy would have run it
        archive["x"]
    assert target.exists()


def test_bytes_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, x=X, y=Y)
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:100], whole[: len(whole) // 2], whole[:-30]):
        path.write_bytes(content)
        with pytest.raises(Malformed, match=r"toy\.npz: not a readable \.npz archive"):
            read_npz(path)


def test_numpy_s_advice_to_unpickle_is_not_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(Malformed) as caught:
        read_npz(path)
    reason = "it does not begin as numpy writes it"
    assert (
        str(caught.value)
        == f"{path}: not a readable .npz archive ({reason}); write it again with numpy.savez"
    )


def test_a_single_npy_under_the_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    with open(path, "wb") as stream:
        np.save(stream, X)
    with pytest.raises(Malformed, match=r"toy\.npz: not an \.npz archive"):
        read_npz(path)


def test_a_flipped_byte_in_the_pixels_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, x=np.zeros((50, 50), np.uint8), y=np.zeros(50, int))
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(Malformed, match="not a readable"):
        read_npz(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_are_refused_or_harmless_but_never_crash(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "toy.npz"
    save(path, x=X, y=Y)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(500):
        flipped = bytearray(whole)
        flipped[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(flipped)
        with suppress(BadInput, Malformed):
            train, _ = read_npz(path)
            assert (train.x == X).all()
            assert (train.y == Y).all()


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_unpacks(tmp_path: Path) -> None:
    """Four megabytes of a gigabyte of zeros, written without ever holding it."""
    path, block = tmp_path / "bomb.npz", bytes(2**20)
    header = io.BytesIO()
    stated = {"descr": "|u1", "fortran_order": False, "shape": (1100, 10**6)}
    np.lib.format.write_array_header_1_0(header, stated)
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("x.npy", "w") as stream:
        stream.write(header.getvalue())
        for _ in range(1050):
            stream.write(block)
    assert path.stat().st_size < 6e6
    tracemalloc.start()
    with pytest.raises(BadInput, match=r"unpack to 1\.1 GB, more than the 1 GB .*zipfile -e") as no:
        read_npz(path)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    assert str(no.value).startswith(f"{path}: ")
    with pytest.raises(BadInput, match="unpack to"):
        read_inputs(path, "x")


def test_the_larger_of_header_and_directory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, x=X, y=Y)
    with zipfile.ZipFile(path) as archive:
        sizes = [archive.getinfo(f"{key}.npy").file_size for key in "xy"]
    monkeypatch.setattr("cushion.data.formats.arrays.MOST_UNPACKED", sum(sizes))
    assert len(read_npz(path)[0].x) == 3
    monkeypatch.setattr("cushion.data.formats.arrays.MOST_UNPACKED", sum(sizes) - 1)
    with pytest.raises(BadInput, match="unpack"):
        read_npz(path)
    header = io.BytesIO()
    stated = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, stated)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(BadInput, match=r"unpack to 8000\.0 GB"):
        read_npz(path)


def test_what_a_refusal_says_to_do_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, x=X, y=Y, x_test=X[:1], y_test=Y[:1])
    before = [part.fingerprint for part in load_pair(path) if part is not None]
    monkeypatch.setattr("cushion.data.formats.arrays.MOST_UNPACKED", 10)
    with pytest.raises(BadInput) as refusal:
        load_pair(path)
    command, folder = re.search(r"`python (.*)` and give (\S+),", str(refusal.value)).groups()  # type: ignore[union-attr]
    subprocess.run([sys.executable, *command.split()], check=True)
    after = [part.fingerprint for part in load_pair(folder) if part is not None]
    assert after == before
    assert np.array_equal(as_inputs(folder).x, X)
    assert np.array_equal(as_inputs(f"{folder},split=test").x, X[:1])


@pytest.mark.parametrize(
    "header", ["{'descr': foo, 'shape': (3, 2)}", "{'descr': '|u1', 'shape': x}"]
)
def test_a_damaged_header_is_no_object_of_python_s_parser(tmp_path: Path, header: str) -> None:
    path = tmp_path / "toy.npz"
    content = header.encode().ljust(117) + b"\n"
    start = b"\x93NUMPY\x01\x00" + len(content).to_bytes(2, "little")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", start + content)
    with pytest.raises(Malformed, match=r"\(its header describes no array\)"):
        read_npz(path)


@pytest.mark.parametrize(
    "names",
    [("X", "y"), ("X", "Y"), ("x_train", "y_train"), ("images", "labels"), ("data", "target")],
    ids=" ".join,
)
def test_other_usual_names_are_known_in_files_and_folders(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    wanted = load_pair(saved(tmp_path, x=X, y=Y))[0].fingerprint
    arrays = dict(zip(names, (X, Y), strict=True)) | {"X_test": X[:1], "Y_test": Y[:1]}
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    for place in (saved(tmp_path, **arrays), folder):
        sample, held_out = load_pair(place)
        assert sample.fingerprint == wanted
        assert held_out is not None
        assert len(held_out) == 1
        assert np.array_equal(read_inputs(place, "x"), X)
        assert np.array_equal(read_inputs(place, "x_test"), X[:1])
