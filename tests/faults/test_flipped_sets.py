"""A named set on disk is the published one, or it is refused: pixels, labels, both parts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import ask

import cushion
from cushion.data import Dataset, catalogue, store
from cushion.data.catalogue import NamedSet, Package
from cushion.data.formats import arrays
from cushion.data.formats.arrays import Arrays
from cushion.errors import Malformed


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a fetched set of 40 and 20 rows, which the catalogue knows as `tiny`."""
    rng = np.random.default_rng(0)
    parts = [
        Arrays(rng.integers(0, 256, (m, 1, 3, 3), dtype=np.uint8), np.arange(m, dtype=np.int64) % 3)
        for m in (40, 20)
    ]
    sums = [Dataset("tiny", part.x, part.y, 3).fingerprint for part in parts]
    package = Package("npm", "tiny", 1, None, {}, "idx")
    named = NamedSet("tiny", 40, 20, (1, 3, 3), 3, "this test", sums[0], sums[1], package)
    monkeypatch.setitem(catalogue.SETS, "tiny", named)
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "sets"))
    place = store.folder("tiny")
    place.mkdir(parents=True)
    arrays.write_folder(place, *parts)
    store.write_meta(named, place)
    return place


def flip(file: Path, *, quietly: bool = False) -> None:
    """Flip the lowest bit of the last number's first byte; quietly: with the old time of change."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[-8 if file.name.startswith("y") else -1] ^= 1
    with open(file, "r+b") as stream:
        stream.write(content)
    if quietly:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("file", arrays.FILES)
def test_one_flipped_bit_is_refused_with_the_way_to_mend_it(tiny: Path, file: str) -> None:
    flip(tiny / file)
    with pytest.raises(Malformed, match="not the published ones; run `cushion data get tiny`"):
        cushion.load("tiny")


def test_the_set_as_it_was_published_loads(tiny: Path) -> None:
    assert len(cushion.load("tiny")) == 40
    assert len(cushion.load("tiny", "test")) == 20


@pytest.mark.parametrize("quietly", [False, True])
def test_a_flip_after_a_first_load_is_noticed_by_the_second(tiny: Path, quietly: bool) -> None:
    cushion.load("tiny")
    flip(tiny / "x_train.npy", quietly=quietly)
    with pytest.raises(Malformed, match="not the published ones"):
        cushion.load("tiny")


def test_one_process_hashes_a_set_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    whole = Dataset.hashed
    monkeypatch.setattr(Dataset, "hashed", lambda self: hashed.append(self.name) or whole(self))
    for _ in range(3):
        cushion.load("tiny")
    assert hashed == ["tiny", "tiny test"]


def test_steps_begin_at_the_checked_set(tiny: Path) -> None:
    flip(tiny / "y_train.npy")
    with pytest.raises(Malformed, match="not the published ones"):
        cushion.load("tiny,subset=10")


def test_the_command_line_says_it_in_one_sentence(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(tiny / "x_test.npy")
    out = tiny.parent / "c.cushion"
    code, said, err = ask(capsys, "certify", "--data", "tiny", "-o", str(out))
    assert (code, said, err.count("\n"), out.exists()) == (2, "", 1, False)
    assert "tiny test: the pixels or labels in" in err


def test_the_embedded_digits_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(named: NamedSet) -> tuple[Dataset, Dataset]:
        sample, held_out = digits(named)
        return sample.relabel((sample.y + 1) % 10, "other labels"), held_out

    digits = store._digits
    monkeypatch.setattr(store, "_digits", other)
    with pytest.raises(Malformed, match="install scikit-learn again"):
        cushion.load("digits")
