"""A field says once what it is; tables and legends ask it."""

from __future__ import annotations

import pytest

from cushion.cli import render
from cushion.records import Column, Record, column, columns_of


class Row(Record):
    """A row of a table."""

    name: str = column("the layer", label="layer")
    error: float = column("share of errors", unit="error", better="low", source="Definition 1")
    bound: str = column("what is proved", unit="bound")
    size_log10: float | None = column("its size", label="size", unit="log10", default=None)
    shape: tuple[int, ...] = column("of the weight", default=())
    hidden: int = 3


VACUOUS = Row("c", 1.0, "1.000000")
ROWS = (Row("a", 0.12345, "0.123400000001"), Row("b", 0.5, "0.5", 12.0, (3, 4)))


def test_columns_know_their_fields() -> None:
    assert columns_of(Row, "error") == (
        Column("error", "error", "share of errors", "error", "low", "Definition 1"),
    )
    assert [one.name for one in columns_of(ROWS[0])] == [
        "name",
        "error",
        "bound",
        "size_log10",
        "shape",
    ]
    with pytest.raises(KeyError):
        columns_of(Row, "hidden")


def test_a_described_record_is_a_dataclass_like_others() -> None:
    assert ROWS[0].to_json() == {
        "name": "a",
        "error": 0.12345,
        "bound": "0.123400000001",
        "size_log10": None,
        "shape": [],
        "hidden": 3,
    }
    with pytest.raises(TypeError):
        Row("a")  # type: ignore[call-arg]


def test_a_table_of_records_is_drawn_from_them() -> None:
    lines = render.records(ROWS).split("\n")
    assert lines[0].split() == ["layer", "error", "bound", "size", "shape"]
    assert lines[1].split() == ["a", "12.35", "%", "12.35", "%", "-"]  # a bound is rounded up
    assert lines[2].split() == ["b", "50.00", "%", "50.00", "%", "10^12.0", "3x4"]
    assert render.records(ROWS[:1]).split("\n")[0].split() == ["layer", "error", "bound"]
    assert "error: share of errors (Definition 1)" in render.legend(columns_of(Row))


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    header = [f"quantity {n}" for n in range(12)] + ["meaning"]
    row = ["layer", *(n * 1.25 for n in range(11)), "a sentence that is longer than any line " * 3]
    text = render.table(header, [row, row])
    assert max(map(len, text.split("\n"))) <= columns
    assert all(word in text.replace("\n", " ") for word in ("quantity 11", "sentence", "12.5"))
    assert text.count("quantity 0") == text.count("\n\n") + 1 > 1
    assert text.count("layer") == 2 * text.count("quantity 0")  # the first column opens each part


def test_a_bound_that_says_nothing_says_so() -> None:
    assert "vacuous" in render.records((VACUOUS,))
    assert "100.00 %" in render.records((Row("c", 0.5, "0.9999999"),))


def test_nothing_coloured_is_printed() -> None:
    assert "\x1b" not in render.table(["a"], [["[red]x[/red]"]])
    assert "[red]x[/red]" in render.table(["a"], [["[red]x[/red]"]])
