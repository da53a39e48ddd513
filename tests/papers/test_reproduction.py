"""The registry and its runner: steps are made once, killing continues, pages come from records."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from tests.command_line import ask

from cushion.data.files import write_whole
from cushion.errors import BadInput, Malformed
from cushion.papers import canvas, registry, runner
from cushion.papers.drawings import Picture, Series
from cushion.papers.pages import Page, Table, Tried, judge
from cushion.papers.runner import Workshop

PICTURE = Picture("squares", "Squares", (1, 2, 3), "n", "n²", (Series("square", (1.0, None, 9.0)),))


def page(rows: tuple[tuple[object, ...], ...]) -> Page:
    claims = (Tried("squares grow", True, "they do", False, "not there"),)
    tables = (Table(("n", "square"), rows), Table(("n", "root"), ((4, 2.0), (2, None)), "Roots:"))
    return Page(tables, {"k": 1}, claims, ("a note.",), (PICTURE,))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Registers an item of three steps that dies at the third until `calls` has more than three
    entries.
    """
    made: list[int] = []

    def make(workshop: Workshop) -> Page:
        def square(n: int) -> int:
            made.append(n)
            if n == 3 and len(made) <= 3:
                raise KeyboardInterrupt
            return n * n

        return page(
            tuple((n, workshop.step("square", {"n": n}, lambda n=n: square(n))) for n in (1, 2, 3))
        )

    item = registry.Item(
        "toy-table",
        "Toy",
        "tests",
        "a claim.",
        "squares",
        "seconds",
        "seconds",
        "days",
        "unused:unused",
    )
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
    assert not runner.is_done(item, tmp_path, "recorded")
    assert not runner.is_done(item, tmp_path, "full")
    records = json.loads((folder / "records.json").read_text())
    assert records["tables"][0]["rows"] == [[1, 1], [2, 4], [3, 9]]
    assert runner.render(records) == (folder / "page.md").read_text()
    with open(folder / "table.csv", newline="") as file:
        assert list(csv.reader(file)) == [["n", "square"], ["1", "1"], ["2", "4"], ["3", "9"]]


def test_a_page_shows_tables_claims_notes_and_pictures(tmp_path: Path, calls: list[int]) -> None:
    calls.extend([0, 0, 0])
    folder = runner.reproduce("toy-table", tmp_path, size="recorded", svg=True)
    text = (folder / "page.md").read_text()
    assert "| squares grow | does not hold: not there | holds: they do |" in text
    assert "Roots:\n\n| n | root |\n|---|---|\n| 4 | 2 |\n| 2 | - |" in text
    assert "- a note." in text
    assert "![Squares](squares.png)" in text
    assert "`cushion reproduce toy-table --recorded --seed 0`" in text
    assert (folder / "table-2.csv").read_text() == "n,root\n4,2.0\n2,\n"
    assert (folder / "squares.svg").is_file()
    assert (folder / "squares.png").is_file()


def test_without_matplotlib_the_page_says_how_to_get_it(
    tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.extend([0, 0, 0])
    monkeypatch.setitem(
        sys.modules, "matplotlib.figure", None
    )  # what Python does for a module that cannot be found
    with pytest.raises(BadInput):
        canvas.new_figure()
    folder = runner.reproduce("toy-table", tmp_path)
    text = (folder / "page.md").read_text()
    assert "pip install 'cushion[figures]'" in text
    assert "![Squares]" not in text
    assert not list(folder.glob("*.png"))
    assert runner.is_done(registry.ITEMS["toy-table"], tmp_path, "quick")


def test_bars_stand_where_places_are_names(tmp_path: Path) -> None:
    from cushion.papers.pictures import draw_picture

    bars = Picture(
        "bars",
        "Bars",
        ("a", "b"),
        "",
        "y",
        (Series("one", (1.0, 2.0)), Series("two", (None, 3.0), True)),
    )
    draw_picture(bars.to_json(), tmp_path, svg=True)
    svg = (tmp_path / "bars.svg").read_text()
    assert all(f"<!-- {name} -->" in svg for name in ("a", "b", "one", "two"))


@pytest.mark.parametrize(
    ("holds", "verdict", "words"),
    [
        ((True, True), "reproduced", "2 of 2"),
        ((True, False), "differs", "1 of 2"),
        (
            (False, None),
            "not reproduced",
            "0 of 2 claims hold on our numbers, 1 cannot be decided here",
        ),
        ((True, None), "differs", "1 of 2"),
        ((None, None), "undecided", "0 of 2 claims hold on our numbers, 2 cannot be decided here"),
    ],
)
def test_the_verdict_is_counted(holds: tuple[bool | None, ...], verdict: str, words: str) -> None:
    found, because = judge([Tried("x", one, "y") for one in holds])
    assert found == verdict
    assert words in because


def test_the_command_line_has_three_sizes(
    tmp_path: Path, calls: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    calls.extend([0, 0, 0])
    out = str(tmp_path / "pages")
    code, text, _ = ask(capsys, "reproduce", "toy-table", "--recorded", "-o", out)
    assert code == 0
    assert "size recorded" in text
    for size, done in (("quick", False), ("recorded", True), ("full", False)):
        found = json.loads(
            ask(capsys, "reproduce", "--list", f"--{size}", "-o", out, "--json", "-")[1]
        )
        items = {item["id"]: item for item in found["items"]}
        assert items["toy-table"]["done"] is done
        assert [items["toy-table"][one] for one in ("quick", "recorded", "full")] == [
            "seconds",
            "seconds",
            "days",
        ]
    assert "0 of" in ask(capsys, "reproduce", "--list", "--full", "-o", out)[1]
    anywhere = json.loads(ask(capsys, "reproduce", "--list", "-o", out, "--json", "-")[1])["items"]
    assert [(item["done"], item["done_at"]) for item in anywhere if item["id"] == "toy-table"] == [
        (True, ["recorded"])
    ]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "3",
        '{"value": 4}',
        '{"step": "square", "settings": {"n": 1}, "value": NaN}',
        '{"step": "square", "settings": {"n": 99}, "value": 4}',
        '{"step": "root", "settings": {"n": 1}, "value": 4}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:40],
)
def test_damaged_and_swapped_steps_are_named(tmp_path: Path, calls: list[int], damage: str) -> None:
    """What was finished before stays finished: nothing of it has changed."""
    calls.extend([0, 0, 0])
    runner.reproduce("toy-table", tmp_path)
    step = next(path for path in (tmp_path / "records").iterdir() if '"n":1}' in path.read_text())
    step.write_text(damage)
    with pytest.raises(Malformed, match=step.name):
        runner.reproduce("toy-table", tmp_path)
    assert runner.is_done(registry.ITEMS["toy-table"], tmp_path, "quick")


def test_pages_come_from_records_alone(
    tmp_path: Path, calls: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    calls.extend([0, 0, 0])
    out = str(tmp_path)
    code, _, error = ask(capsys, "reproduce", "toy-table", "--from-records", "-o", out)
    assert code == 2
    assert "is missing, and nothing is made with --from-records" in error
    folder = runner.reproduce("toy-table", tmp_path)
    made, before = len(calls), (folder / "page.md").read_text()
    (folder / "page.md").unlink()
    assert ask(capsys, "reproduce", "toy-table", "--from-records", "-o", out)[0] == 0
    assert (folder / "page.md").read_text() == before
    assert len(calls) == made
    assert json.loads((folder / "records.json").read_text())["made_from"] == [
        path.name
        for path in sorted((tmp_path / "records").iterdir(), key=lambda path: path.read_text())
    ]


def test_a_record_of_another_shape_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(workshop: Workshop) -> Page:
        return page(tuple((n, n) for n in workshop.step("list", {}, lambda: [1])))

    monkeypatch.setattr(registry.Item, "load", lambda self: make)
    monkeypatch.setattr(runner, "draw_picture", lambda *_, **__: [])
    runner.reproduce("cushion-occam-table", tmp_path)
    (record,) = (tmp_path / "records").iterdir()
    record.write_text(record.read_text().replace("[1]", "7"))
    with pytest.raises(Malformed, match=f"cushion-occam-table cannot be made from .*{record.name}"):
        runner.reproduce("cushion-occam-table", tmp_path, from_records=True)
    with pytest.raises(TypeError):  # without the option nobody gave records: a bug stays visible
        runner.reproduce("cushion-occam-table", tmp_path)


def test_all_from_records_says_what_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner.reproduce("cushion-occam-table", tmp_path)
    code, text, _ = ask(
        capsys, "reproduce", "--all", "--from-records", "-o", str(tmp_path), "--json", "-"
    )
    found = json.loads(text)
    assert code == 0
    assert str(tmp_path / "cushion-occam-table" / "quick") in found["folders"]
    assert {
        "arora2018-table1",
        "guha2023-table1",
        "shin2021-table1",
        "neyshabur2017-figure1",
    } <= set(found["without_records"])
    assert not (tmp_path / ".runs").exists(), "nothing was trained"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("cushion-occam-table --device tpu", "device 'tpu'"),
        ("cushion-occam-table --link x", "--link goes with --summary"),
        ("--list --from-records", "--from-records makes pages"),
        ("--summary --from-records", "--from-records makes pages"),
        ("--summary --list", "say what to reproduce"),
        ("cushion-occam-table --summary", "say what to reproduce"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    code, _, error = ask(capsys, "reproduce", *words.split(), "-o", str(tmp_path / "out"))
    assert code == 2
    assert sentence in error
    assert not (tmp_path / "out").exists()


def test_a_page_without_claims_is_not_reproduced() -> None:
    assert judge([])[0] == "not reproduced"


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
    for place in (file, file / "below"):
        with pytest.raises(BadInput, match=f"not a folder .* -o than {place}"):
            runner.reproduce("cushion-occam-table", place)


def test_the_occam_table_says_what_the_bounds_are(tmp_path: Path) -> None:
    """Spot values of the kl form in percent, as tabulated in the theory, and the verdict follows
    the rows.
    """
    folder = runner.reproduce("cushion-occam-table", tmp_path)
    records = json.loads((folder / "records.json").read_text())
    assert records["verdict"] == "reproduced"
    cells = {(row[0], row[1]): row[2:] for row in records["tables"][0]["rows"]}
    for bits, error, percent in (
        (500, "0", 0.58),
        (1000, "0.02", 4.91),
        (4000, "0.05", 14.4),
        (8000, "0.08", 24.5),
    ):
        assert 100 * float(cells[bits, error][1]) == pytest.approx(percent, abs=0.051)
    assert all(float(a) <= float(b) <= float(c) for a, b, c in cells.values())


def test_the_committed_table_is_what_the_code_makes(tmp_path: Path) -> None:
    committed = (
        Path(__file__).parents[2] / "results" / "reproduce" / "cushion-occam-table" / "quick"
    )
    fresh = runner.reproduce("cushion-occam-table", tmp_path)
    for name in ("records.json", "table.csv", "page.md"):
        assert (committed / name).read_text() == (fresh / name).read_text()


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    """Each write appears whole, whoever comes last; nothing is left behind."""
    import threading

    path, faults = tmp_path / "record.json", []

    def write(letter: str) -> None:
        for _ in range(200):
            try:
                write_whole(path, letter * 5000)
                text = path.read_text()
            except BadInput as problem:
                faults.append(str(problem))
                continue
            if len(text) != 5000 or len(set(text)) != 1:
                faults.append(text[:20])

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert not faults
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
