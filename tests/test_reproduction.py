"""The registry and its runner: steps are made once, killing continues, pages come from records."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cushion.errors import BadInput, Malformed
from cushion.reproduction import registry, runner
from cushion.reproduction.runner import Page, Workshop


def page(rows: tuple[tuple[object, ...], ...]) -> Page:
    return Page("a claim.", ("n", "square"), rows, "reproduced", "because.", {"k": 1})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Registers an item of three steps that dies at the third until `calls` has more than three entries."""
    made: list[int] = []

    def make(workshop: Workshop) -> Page:
        def square(n: int) -> int:
            made.append(n)
            if n == 3 and len(made) <= 3:
                raise KeyboardInterrupt
            return n * n

        return page(tuple((n, workshop.step("square", {"n": n}, lambda n=n: square(n))) for n in (1, 2, 3)))

    item = registry.Item("toy-table", "Toy", "tests", "squares", "seconds", "seconds", "unused:unused")
    monkeypatch.setitem(registry.ITEMS, "toy-table", item)
    monkeypatch.setattr(registry.Item, "load", lambda self: make)
    return made


def test_a_killed_run_continues_where_it_was(tmp_path: Path, calls: list[int]) -> None:
    item = registry.ITEMS["toy-table"]
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("toy-table", tmp_path)
    assert not runner.is_done(item, tmp_path, "quick")
    folder = runner.reproduce("toy-table", tmp_path)
    assert calls == [1, 2, 3, 3], "the first two steps were not made again"
    assert runner.is_done(item, tmp_path, "quick")
    assert not runner.is_done(item, tmp_path, "full")
    records = json.loads((folder / "records.json").read_text())
    assert records["rows"] == [[1, 1], [2, 4], [3, 9]]
    assert runner.render(records) == (folder / "page.md").read_text()
    with open(folder / "table.csv", newline="") as file:
        assert list(csv.reader(file)) == [["n", "square"], ["1", "1"], ["2", "4"], ["3", "9"]]


def test_damaged_steps_are_named(tmp_path: Path, calls: list[int]) -> None:
    calls.extend([0, 0, 0])
    runner.reproduce("toy-table", tmp_path)
    step = next((tmp_path / ".steps").iterdir())
    step.write_text("{")
    with pytest.raises(Malformed, match=step.name):
        runner.reproduce("toy-table", tmp_path)
    assert not runner.is_done(registry.ITEMS["toy-table"], tmp_path, "quick")


def test_every_registered_item_can_be_loaded() -> None:
    assert registry.ITEMS
    for item_id, item in registry.ITEMS.items():
        assert item.id == item_id
        assert callable(item.load())


def test_unknown_items_and_bad_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--list"):
        runner.reproduce("nothing", tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(BadInput, match="not a folder"):
        runner.reproduce("cushion-occam-table", file)


def test_the_occam_table_says_what_the_bounds_are(tmp_path: Path) -> None:
    """Spot values of the kl form in percent, as tabulated in the theory, and the verdict follows the rows."""
    folder = runner.reproduce("cushion-occam-table", tmp_path)
    records = json.loads((folder / "records.json").read_text())
    assert records["verdict"] == "reproduced"
    cells = {(row[0], row[1]): row[2:] for row in records["rows"]}
    for bits, error, percent in ((500, "0", 0.58), (1000, "0.02", 4.91), (4000, "0.05", 14.4), (8000, "0.08", 24.5)):
        assert 100 * float(cells[bits, error][1]) == pytest.approx(percent, abs=0.051)
    assert all(float(a) <= float(b) <= float(c) for a, b, c in cells.values())


def test_the_committed_table_is_what_the_code_makes(tmp_path: Path) -> None:
    committed = Path(__file__).parent.parent / "results" / "reproduce" / "cushion-occam-table" / "quick"
    fresh = runner.reproduce("cushion-occam-table", tmp_path)
    for name in ("records.json", "table.csv", "page.md"):
        assert (committed / name).read_text() == (fresh / name).read_text()
