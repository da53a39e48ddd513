"""Theorem 5.1 of Guha 2023 as an item: rates of exact recovery, claims from rates that are
known.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cushion.papers import runner
from cushion.papers.guha import sketch as guha_sketch
from cushion.papers.guha.sketch import (
    SketchPlan,
    always,
    is_smaller,
    recovery_rate,
    saves_numbers,
    theory_holds,
)


def made(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "records.json").read_text())
    return found


def test_rates_are_those_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(guha_sketch.PLANS, "quick", SketchPlan(((16, 1),), 2, (1.0, 2.5, 3.5, 5.0)))
    found = made(runner.reproduce("guha2023-sketch", tmp_path, seed=3))
    sizes, transition = found["tables"]
    row = dict(zip(transition["header"], transition["rows"][0], strict=True))
    assert row["m = 5·√(jp)"] is None, "20 numbers a side for a matrix of 16"
    # √16 = 4; 2.5 times that is 10, and ⌈4 ln 16⌉ = 12. Of a side of 10, ⌈ln 16⌉ = 3 ones, and 5
    # since C(10, 3) = 120 sets of rows are few for 16 columns: the most that half of the rows
    # allow.
    assert row["m = 2.5·√(jp)"] == recovery_rate(16, 1, 10, 5, 2, 3)
    assert row["m = 1·√(jp)"] == 0.0, "16 numbers cannot name 16 places among 256 and their values"
    assert row["m = √(jp)·ln p"] is not None
    size = dict(zip(sizes["header"], sizes["rows"][0], strict=True))
    assert size["√(jp)·ln p"] == pytest.approx(4 * math.log(16))
    naive = math.log2(math.comb(256, 16)) + 16 * 8
    assert size["naive count, bits"] == round(naive)
    assert size["sketch / naive"] == pytest.approx(16 * math.log(16) ** 2 * 8 / naive)
    assert (tmp_path / "guha2023-sketch" / "quick" / "sketch-transition.png").is_file()


def test_the_side_from_which_on_all_come_back() -> None:
    assert always({10: 0.5, 12: 1.0, 14: 0.9, 16: 1.0, 18: 1.0}) == 16, "a lucky 12 does not count"
    assert always({10: 1.0, 12: 1.0}) == 10
    assert always({10: 1.0, 12: 0.5}) is None


def test_claims_from_known_rates() -> None:
    """√(1·32) ln 32 = 19.6: only sides of 20 and more are the theorem's. √(2·16) ln 16 = 15.7 is
    below 16.
    """
    assert theory_holds({(32, 1): {19: 0.5, 20: 1.0, 25: 1.0}}).holds is True
    assert theory_holds({(32, 1): {19: 1.0, 20: 0.9}}).holds is False
    assert theory_holds({(32, 1): {19: 1.0}}).holds is None
    assert is_smaller({(16, 2): {}}).holds is True
    assert is_smaller({(16, 2): {}, (32, 3): {}}).holds is False, "√96 ln 32 = 34 exceeds 32"
    assert saves_numbers({(32, 1): {}}).holds is False, "32·ln²(32)·8 = 3075 bits against 202 + 256"


def test_killed_between_two_sides_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(guha_sketch.PLANS, "quick", SketchPlan(((16, 1),), 2, (1.0, 2.0, 3.0)))
    calls: list[int] = []

    def dies_once(p: int, j: int, side: int, ones: int, trials: int, seed: int) -> float:
        calls.append(side)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return 1.0

    monkeypatch.setattr(guha_sketch, "recovery_rate", dies_once)
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("guha2023-sketch", tmp_path)
    runner.reproduce("guha2023-sketch", tmp_path)
    assert calls == [4, 8, 8, 12], "⌈4 ln 16⌉ is 12 as well, and made once"
