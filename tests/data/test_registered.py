"""Rows under a ledger of looks: found as subsets and in any order, and read only through it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.holdout_cases import rows

from cushion.data import Dataset, as_dataset, load_pair, registered
from cushion.data.given import as_held_out
from cushion.data.inputs import Inputs, as_fresh, as_holdout, as_inputs
from cushion.errors import BadInput, Remark

HELD, SAMPLE = rows(40), rows(60, name="sample", first=1)
CHAIN = "0" * 64


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "H.looks"
    path.touch()
    registered.register(HELD, path, CHAIN)
    return path


def test_without_a_ledger_nothing_is_withheld_and_no_row_is_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registered, "row_hashes", None)
    assert as_dataset(HELD) is HELD
    assert registered.sharing(HELD.x) is None


@pytest.mark.parametrize(
    "part",
    [
        HELD,
        HELD.select(np.arange(40)[::-1], "another order"),
        HELD.select(np.array([17]), "one row"),
        HELD.relabel((HELD.y + 1) % 3, "other labels"),
        Dataset("both", np.concatenate([SAMPLE.x, HELD.x]), np.append(SAMPLE.y, HELD.y), 3),
    ],
    ids=["all", "order", "one", "labels", "within"],
)
@pytest.mark.usefixtures("ledger")
def test_rows_of_a_ledger_are_refused_wherever_they_come_in(part: Dataset) -> None:
    for read in (as_dataset, lambda data: as_holdout(data, SAMPLE), as_inputs, load_pair):
        with pytest.raises(BadInput, match=r"under the ledger of looks .*H\.looks"):
            read(part)


@pytest.mark.usefixtures("ledger")
def test_inputs_without_labels_are_refused_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=HELD.x)
    for source in (HELD.x, str(tmp_path / "x.npz"), Inputs("h", HELD.x), Inputs("h", HELD.x[:1])):
        with pytest.raises(BadInput, match="under the ledger of looks"):
            as_inputs(source)


@pytest.mark.usefixtures("ledger")
def test_other_rows_are_free() -> None:
    assert as_dataset(SAMPLE) is SAMPLE
    assert as_dataset(rows(40, first=2)).name == "rows"


@pytest.mark.usefixtures("ledger")
def test_a_held_out_part_is_left_out_and_that_is_said() -> None:
    pair = {"train": (SAMPLE.x, SAMPLE.y), "test": (HELD.x, HELD.y)}
    with pytest.warns(Remark, match="going on without them"):
        sample, held_out = load_pair(pair)
    assert held_out is None
    assert len(sample) == 60


def test_through_the_ledger_the_rows_are_read(ledger: Path, tmp_path: Path) -> None:
    with registered.reading_through(ledger):
        assert as_dataset(HELD) is HELD
    with registered.reading_through(tmp_path / "other"), pytest.raises(BadInput):
        as_dataset(HELD)
    with pytest.raises(BadInput):
        as_dataset(HELD)


def test_a_closed_ledger_lets_its_rows_go_but_is_not_forgotten(ledger: Path) -> None:
    known = registered.registered(HELD.fingerprint)
    assert known is not None
    registered.note(registered.Registered(**{**vars(known), "closed": True}))
    assert as_dataset(HELD) is HELD
    assert registered.sharing(HELD.x) is None
    assert registered.sharing(HELD.x, closed=True) is not None


def test_rows_of_a_closed_ledger_are_no_fresh_inputs(ledger: Path) -> None:
    """Their labels were looked at: f and g may have been chosen by them."""
    known = registered.registered(HELD.fingerprint)
    assert known is not None
    sample = Dataset("sample", SAMPLE.x, SAMPLE.y, 3)
    inputs = Inputs("some of them", HELD.x[5:9])
    with pytest.raises(BadInput, match="under the ledger of looks"):
        as_fresh(inputs, sample, None)
    registered.note(registered.Registered(**{**vars(known), "closed": True}))
    with pytest.raises(BadInput, match=r"which is closed, .* would be false; give other rows$"):
        as_fresh(inputs, sample, None)
    assert as_fresh(rows(9, first=2).x, sample, None) is not None


def test_who_was_counted_is_known_of_the_rows_in_any_order(
    recwarn: pytest.WarningsRecorder,
) -> None:
    for who, looks in (("f", None), ("f", None), ("g", 2), ("f", 2)):
        registered.note_first_use(HELD, who, looks)
    assert not recwarn.list
    again = HELD.select(np.append(np.arange(40)[::-1], 3), "turned, one twice")
    assert registered.first_uses(again) == {"f", "g"}
    with pytest.warns(Remark, match=r"^another classifier was counted on rows before, .*: keep a"):
        registered.note_first_use(again, "f")
    with pytest.warns(
        Remark, match=r"^2 other .*--looked 3 \(in Python PicksOptions\(looks=3\)\)$"
    ):
        registered.note_first_use(again, "h", 2)
    assert registered.first_uses(SAMPLE) == set()


def test_held_out_rows_of_a_source_are_its_held_out_part(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=SAMPLE.x, y=SAMPLE.y, x_test=HELD.x, y_test=HELD.y)
    np.savez(tmp_path / "h.npz", x=HELD.x, y=HELD.y)
    pair = {"train": (SAMPLE.x, SAMPLE.y), "test": (HELD.x, HELD.y)}
    for source in (tmp_path / "d.npz", str(tmp_path / "h.npz"), pair, (HELD.x, HELD.y), HELD):
        assert as_held_out(source, like=SAMPLE).fingerprint == HELD.fingerprint
        found = as_holdout(source, SAMPLE)
        assert found is not None
        assert found.fingerprint == HELD.fingerprint
    registered.register(HELD, tmp_path / "H.looks", CHAIN)
    with pytest.raises(BadInput, match=r"^d\.npz test has rows that are under the ledger"):
        as_held_out(tmp_path / "d.npz", like=SAMPLE)


def test_a_register_of_the_version_before_is_read(ledger: Path, tmp_path: Path) -> None:
    (file,) = (tmp_path / "store" / "looks").glob("*.json")
    said = json.loads(file.read_text())
    del said["opening"]
    file.write_text(json.dumps(said))
    ledger.unlink()
    known = registered.registered(HELD.fingerprint)
    assert known is not None
    assert not known.may_be_opened_again


def test_rows_that_the_sample_has_too_stay_free(tmp_path: Path) -> None:
    """Few possible rows: the sample meets some of them by chance."""
    few = Dataset("few", np.arange(10, dtype=np.float32)[:, None], np.arange(10) % 2, 2)
    sample = Dataset("some", np.arange(5, dtype=np.float32)[:, None], np.arange(5) % 2, 2)
    registered.register(few, tmp_path / "H.looks", CHAIN, beside=sample)
    assert as_dataset(sample) is sample
    with pytest.raises(BadInput):
        as_dataset(few)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ledger": 1}', "[" * 10**5])
def test_a_damaged_register_is_refused_in_one_sentence(
    ledger: Path, tmp_path: Path, content: str
) -> None:
    (file,) = (tmp_path / "store" / "looks").glob("*.json")
    file.write_text(content)
    with pytest.raises(BadInput, match=r"\.json: it says which held-out rows .*restore it"):
        as_dataset(SAMPLE)


def test_a_register_without_its_rows_is_refused(ledger: Path, tmp_path: Path) -> None:
    (file,) = (tmp_path / "store" / "looks").glob("*.rows")
    file.write_bytes(b"odd")
    with pytest.raises(BadInput, match=r"\.rows: it says which held-out rows"):
        as_dataset(SAMPLE)
