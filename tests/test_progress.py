"""One line for the whole command: loops in loops, planned stages, none where nobody looks."""

from __future__ import annotations

import io

import pytest

from cushion import progress as module
from cushion.progress import plan, progress, working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the test moves."""
    now = [0.0]
    monkeypatch.setattr(module, "_SHOWN", module._Shown())
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def shown() -> float:
    return module._SHOWN.fraction()


def test_items_come_back_and_are_counted() -> None:
    with working("outer", 2) as outer:
        assert list(progress(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
        outer.advance()
        assert shown() == pytest.approx(0.5)
    assert module._SHOWN.bars == []


def test_an_inner_loop_fills_one_step_of_the_outer() -> None:
    with working("outer", 4) as outer:
        outer.reach(1)
        with working("inner", 10) as inner:
            inner.advance(5)
            assert shown() == pytest.approx((1 + 0.5) / 4)


def test_planned_stages_share_the_time_by_their_weight() -> None:
    with plan({"first": 1, "second": 3}):
        for _ in progress(range(2), "first"):
            pass
        assert shown() == pytest.approx(0.25)
        with working("second", 10) as bar:
            bar.advance(5)
            assert shown() == pytest.approx(0.25 + 0.75 / 2)
        with working("unplanned", 10) as bar:  # says where it is, and moves nothing
            bar.advance(5)
            assert shown() == pytest.approx(1.0)
    assert module._SHOWN.bars == []


def test_a_plan_inside_a_stage_shares_that_stage() -> None:
    with plan({"measures": 4, "rows": 1}):
        with working("measures", 1), plan({"norms": 1, "paths": 3}):
            with working("norms", 1):
                pass
            assert shown() == pytest.approx(0.8 * 0.25)
            with working("paths", 2) as bar:
                bar.advance()
                assert shown() == pytest.approx(0.8 * (0.25 + 0.75 / 2))
        assert shown() == pytest.approx(0.8)
        with working("measures", 1):  # a second time moves nothing
            pass
        assert shown() == pytest.approx(0.8)
    with working("anew", 2):
        assert shown() == 0.0


def test_the_line_never_goes_back() -> None:
    with working("stage", 1):
        for _ in progress(range(4), "first loop of it"):
            seen = shown()
        with working("second loop of it", 4) as bar:
            bar.advance()
            assert shown() >= seen == 0.75


def test_a_loop_that_fails_is_taken_away() -> None:
    with pytest.raises(ZeroDivisionError), working("broken", 2):
        raise ZeroDivisionError
    assert module._SHOWN.bars == []


def test_nothing_is_printed_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    monkeypatch.setattr("sys.stderr", quiet := io.StringIO())
    for _ in progress(range(3), "work"):
        clock[0] += 10
    assert quiet.getvalue() == ""


def test_a_terminal_sees_a_line_after_two_seconds_and_none_before(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with working("counting", 4, "row") as bar:
        clock[0] += 1
        bar.advance()
        assert terminal.getvalue() == ""
        clock[0] += 3
        bar.advance()
        module._SHOWN.line.refresh()
        assert "counting 2/4 row" in terminal.getvalue()
        assert "0:04 left" in terminal.getvalue()
    assert module._SHOWN.line is None


def test_a_hidden_loop_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with working("hidden", 2, hidden=True) as bar:
        clock[0] += 10
        bar.advance()
        assert module._SHOWN.bars == []
    assert terminal.getvalue() == ""
