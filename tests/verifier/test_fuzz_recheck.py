"""The fuzzer's own arithmetic: two ways to the same tail, and a short run in which nothing is
amiss.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import mpmath  # type: ignore[import-untyped]
import pytest
from fuzz import recheck
from fuzz.campaign import run
from fuzz.originals import load_originals
from tests.simulations import few_and_many

from cushion.certificates.certificate import spaced


def test_the_long_tail_is_the_exact_one() -> None:
    rng = random.Random(0)
    for _ in range(100):
        m = rng.randint(50, 2000)
        k = rng.randint(0, m // 2)
        p = Fraction(rng.randint(k * 10**6 // m + 1, 10**6 - 1), 10**6)
        with mpmath.workdps(60):
            a, b, d = p.numerator, p.denominator - p.numerator, p.denominator
            total = term = b**m
            for i in range(k):
                term = term * (m - i) * a // ((i + 1) * b)
                total += term
            exact = mpmath.mpf(total) / mpmath.mpf(d) ** m
            assert abs(recheck._long_tail(k, m, p) / exact - 1) < mpmath.mpf(10) ** -38


def test_long_and_short_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    cases = [
        (rng.randint(0, 60), rng.randint(100, 400), f"0.{rng.randint(1, 999999):06d}")
        for _ in range(200)
    ]
    delta = Fraction(1, 20)
    short = [recheck.implies(k, m, delta, bound) for k, m, bound in cases]
    monkeypatch.setattr(recheck, "_MOST_EXACT", 0)
    assert [recheck.implies(k, m, delta, bound) for k, m, bound in cases] == short
    assert 20 < sum(short) < 180


@few_and_many("files", 50, 300)
def test_a_short_run_finds_no_fault(tmp_path: Path, files: int) -> None:
    summary = run(load_originals(), files, 12, 0, tmp_path / "faults", lambda _: None)
    assert summary.faults == []
    assert summary.files == files
    assert summary.malformed > files * 2 / 3
    assert summary.accepted_and_true > files / 100


def test_the_recorded_runs_add_up_to_what_is_told() -> None:
    folder = Path(__file__).parents[2] / "results" / "fuzz"
    rows = [
        json.loads(line)
        for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    page = (folder / "README.md").read_text(encoding="utf-8")
    for key in ("files", "malformed", "not_ok", "accepted_and_true"):
        assert spaced(sum(row[key] for row in rows)) in page
    assert sum(row["files"] for row in rows) >= 10**6
    assert all(row["faults"] == [] for row in rows)
    atheris = (folder / "atheris.log").read_text(encoding="utf-8")
    assert "number_of_executed_units: 239365" in atheris
    assert "239 365" in page


def test_the_recorded_runs_of_the_newer_kinds_add_up_too() -> None:
    folder = Path(__file__).parents[2] / "results" / "fuzz"
    lines = (folder / "new-kinds.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    page = (folder / "README.md").read_text(encoding="utf-8")
    for key in ("files", "malformed", "bad_input", "not_ok", "accepted_and_true"):
        assert spaced(sum(row[key] for row in rows)) in page
    assert all(f"| `{row['command']}` | {spaced(row['files'])} |" in page for row in rows)
    assert sum(row["files"] for row in rows) >= 10**6
    assert all(row["faults"] == [] and row["slowest_seconds"] < 0.13 for row in rows)
