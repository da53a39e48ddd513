"""The recorded MLPs: the README repeats what its records say, and the records agree with
themselves.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "results" / "bounds-mnist"
RECORDS = sorted(path.name for path in FOLDER.glob("*.json"))


def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("summary", FOLDER / "summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_records() -> None:
    assert len(RECORDS) >= 6


def test_the_readme_has_the_tables_that_the_records_make() -> None:
    readme, made = (FOLDER / "README.md").read_text(encoding="utf-8"), summary()
    records = made.pairs()
    for part in (made.nets, made.certificates, made.verdicts, made.growth):
        assert "\n".join(part(records)) in readme


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_follows_from_its_own_numbers(name: str) -> None:
    record: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    true, random = record, record["beside"]
    assert (true["errors"], random["errors"]) == (
        0,
        0,
    )  # both fit their labels: what is left is generalisation
    assert true["holdout_errors"] < 0.2 * true["holdout_m"]
    assert random["holdout_errors"] > 0.8 * random["holdout_m"]
    for table in (true, random):
        rows = {(row["name"], row["form"]): row for row in table["bounds"]}
        for row in rows.values():
            if row["value"] is not None:
                assert row["vacuous"] == (row["value"] >= 1)
            if row["capacity_log10"] is not None and row["log10"] is not None:
                half = (row["capacity_log10"] - math.log10(table["m"])) / 2
                value = half if half > 100 else math.log10(table["margin_loss"] + 10**half)
                assert row["log10"] == pytest.approx(value, abs=1e-6)
        assert rows["l2-norm", "as plotted"]["capacity"] == pytest.approx(
            rows["frobenius", "as plotted"]["capacity"]
        )
        held = rows["held-out examples", "counted"]
        assert held["value"] > table["holdout_errors"] / table["holdout_m"]
    for verdict in record["verdicts"]:
        first, second = verdict["first"], verdict["second"]
        prefers = (
            "neither"
            if None in (first, second) or first == second
            else "first"
            if first < second
            else "second"
        )
        assert (verdict["prefers"], verdict["right"]) == (prefers, prefers == "first")
