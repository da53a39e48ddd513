"""Large arrays: pieces that cover everything in little memory, and room on disk for the rest."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import Dataset as TorchDataset

from cushion.data import Dataset, as_dataset, load, streaming
from cushion.data.streaming import pieces, room_for
from cushion.errors import BadInput


@pytest.mark.parametrize("rows", [0, 1, 7, 100])
@pytest.mark.parametrize("width", [1, 33])
def test_pieces_cover_each_row_once(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_PIECE", 100)
    x = np.arange(rows * width, dtype=np.uint8).reshape(rows, width)
    found = list(pieces(x))
    assert [start for start, _ in found] == list(range(0, rows, max(1, 100 // width)))
    assert np.array_equal(np.concatenate([part for _, part in found] or [x]), x)


def resident(path: Path) -> int:
    """Bytes of the file's mappings that this process holds."""
    kept, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            kept += int(line.split()[1]) * 1024
    return kept


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads /proc")
def test_a_mapped_folder_is_checked_and_hashed_in_the_memory_of_a_piece(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((400_000, 20), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.arange(len(x)) % 3)
    data = load(tmp_path)
    assert (data.found, resident(tmp_path / "x.npy") < 2**23) == ({}, True)
    assert data.fingerprint == Dataset("n", x, np.arange(len(x)) % 3, 3).fingerprint
    assert resident(tmp_path / "x.npy") < 2**23
    assert np.array_equal(data.x[[0, 399_999]], x[[0, 399_999]])
    assert data.x.sum() > 0
    assert resident(tmp_path / "x.npy") > 2**24, "the measuring can fail"


def test_what_was_written_into_a_private_mapping_is_not_lost(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((10, 4), np.float32))
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[3] = 7
    assert (as_dataset((private, np.arange(10) % 2)).x[3] == 7).all()


def test_large_results_of_transforms_lie_in_a_file_that_goes_with_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(streaming, "_IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Rows(TorchDataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 50

        def __getitem__(self, row: int) -> tuple[np.ndarray, int]:
            return np.full(30, row, np.float32), row % 2

    found = as_dataset(Rows())
    assert isinstance(found.x.base, np.memmap) or isinstance(found.x, np.memmap)
    assert np.array_equal(found.x[:, 5], np.arange(50))
    assert list(tmp_path.iterdir()) == [], "nobody sees the file"


def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(streaming, "_IN_MEMORY", 1000)
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(BadInput, match=r"no room for 0\.0 GB of examples \(No space left .*TMPDIR"):
        room_for((1000, 2), np.uint8)


def test_other_floats_are_rounded_and_said(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[0.1], [0.5]]))
    np.save(tmp_path / "y.npy", np.array([0, 1]))
    with pytest.warns(UserWarning, match=f"^{tmp_path.name}: x was float64 and is rounded"):
        found = load(tmp_path)
    assert found.x.dtype == np.float32
    assert as_dataset((np.array([[0.25], [0.5]]), [0, 1])).notes == ()
    assert as_dataset((np.array([[0.1], [0.5]], np.float16), [0, 1])).notes == ()
    with pytest.raises(BadInput, match="too large for float32"):
        as_dataset((np.array([[1e300], [0.5]]), [0, 1]))
