"""results/looks.json: its prices are those of the code, and the page quotes it truly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.looks import price

from cushion.numerics import percent_up

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "results" / "looks.json").read_text())
PAGE = (ROOT / "docs" / "holdout.md").read_text(encoding="utf-8")


def test_the_prices_are_computed_again() -> None:
    for one in RECORD["prices"]:
        assert price(one["n"], one["look"]) == one


def test_the_table_of_the_page_is_the_records() -> None:
    by = {(one["n"], one["look"]): one for one in RECORD["prices"]}
    first = [percent_up(by[n, 1]["bound_first_use"]) for n in (1_000, 10_000)]
    rows = [f"| first use, without a ledger | {first[0]} | {first[1]} | |"]
    for look in (1, 2, 5, 12, 50, 300):
        small, large = by[1_000, look], by[10_000, look]
        bounds = (small["bound"], large["bound"], large["bound_even"])
        rows.append(f"| {look} | {' | '.join(map(percent_up, bounds))} |")
    assert "\n".join(rows) in PAGE


def test_the_session_on_digits_is_as_the_page_tells_it() -> None:
    looks = RECORD["digits"]
    said = [one["said"] for one in looks]
    assert said == ["counted"] * 5 + ["no better"] * 6 + ["counted"]
    assert f"count is {looks[-1]['errors']} and its bound {percent_up(looks[-1]['bound'])}" in PAGE
    better = [one["bits"] for one in looks[1:] if one["said"] == "counted"]
    assert f"improvements ({min(better)} to {max(better)} bits each here)" in PAGE
    before = 0
    for one in looks:
        assert one["bits_before"] == before
        before += one["bits"]
