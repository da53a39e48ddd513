"""The fuzzer on kinds holdout and picks: its recheck notices every lie of the corpus and every
check that the verifier leaves out, and a short run finds nothing amiss.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz import originals as module
from fuzz.campaign import false, run, verified
from fuzz.mutants import Mutant, mutant_of
from fuzz.originals import Original, load_originals
from fuzz.recheck_holdout import grid, ladder
from tests.simulations import few_and_many

import cushion_verify
from cushion_verify import Malformed

NEW = ("holdout", "picks")
INVALID = sorted(
    path
    for name in ("own-*.cushion", "picks-*.cushion")
    for path in (module.FOLDER / "invalid").glob(name)
)


@pytest.fixture(scope="module")
def originals() -> list[Original]:
    return load_originals(NEW)


def original_of(path: Path) -> Original:
    written = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return module._with_arrays(path.stem, path.read_bytes(), written)


def test_every_kind_is_mutated(originals: list[Original]) -> None:
    assert {one.kind for one in load_originals()} == set(module.KINDS)
    assert {one.kind for one in originals} == set(NEW)
    assert {"picks-features", "picks-fit-holdout", "own-every-line"} <= {o.name for o in originals}
    assert any(one.looks is not None for one in originals)


# of three files what is false is not in the arrays: f is another, or has no scores of such rows
_ELSEWHERE = {"own-another-net", "own-another-program", "own-other-rows"}


@pytest.mark.parametrize(
    "path", [one for one in INVALID if one.stem not in _ELSEWHERE], ids=lambda path: path.stem
)
def test_the_recheck_notices_what_is_false_of_the_corpus(path: Path) -> None:
    original = original_of(path)
    assert false(original, Mutant(original.content, original.looks))


def judged(
    originals: list[Original], number: int, path: Path
) -> tuple[Original, Mutant, Any] | None:
    """Mutant `number`, and the verdict on it; None where there is none."""
    rng = random.Random(f"kinds {number}")
    original = rng.choice(originals)
    mutant = mutant_of(original, [one.content for one in originals], rng)
    path.write_bytes(mutant.content)
    try:
        return original, mutant, verified(original, mutant, path)
    except (Malformed, cushion_verify.BadInput):
        return None


@few_and_many("files", 300, 20_000)
def test_the_recheck_finds_false_what_is_not_ok_and_true_what_is(
    originals: list[Original], tmp_path: Path, files: int
) -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for number in range(files):
        if (found := judged(originals, number, tmp_path / "c.cushion")) is not None:
            original, mutant, verdict = found
            fault = false(original, mutant)
            assert verdict.ok == (not fault), (original.name, number, verdict.reason, fault)
            counts[original.kind, verdict.ok] += 1
    assert min(counts[kind, ok] for kind in NEW for ok in (True, False)) > files / 200


_RECOUNT = cushion_verify.Picks._recount


def _whatever_it_says(picks: Any, *args: Any) -> str:
    _RECOUNT(picks, *args)
    return ""


WEAKER: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a bound from its counts": (cushion_verify, "bound_holds", lambda *_: True),
    "the bound of picks": (cushion_verify, "picks_hold", lambda *_: True),
    "the ledger of picks": (cushion_verify.Picks, "message_fault", lambda _: ""),
    "the rounds": (cushion_verify.Picks, "_recount", _whatever_it_says),
    "the coefficients": (cushion_verify.Machine, "digest", lambda _: "0" * 64),
    "the ledger of looks": (cushion_verify.Holdout, "_ledger_fault", lambda *_: ""),
    "the price of an answer": (cushion_verify, "_answer_bits", lambda _, __, a, ___: a.bits),
    "the shares": (cushion_verify.Holdout, "_check_shares", lambda *_: None),
    "the rows": (cushion_verify, "identity_fault", lambda *_: ""),
    "the net": (cushion_verify, "other_net_fault", lambda *_: ""),
    "missed rows": (
        cushion_verify.Scored,
        "missed",
        lambda rows, k=1: (rows.rivals > k) & (rows.y == 0),
    ),
}


SLOW = {"missed rows", "the net"}  # thousands of mutants until one shows it


@pytest.mark.parametrize(
    "left_out",
    [pytest.param(one, marks=pytest.mark.full) if one in SLOW else one for one in WEAKER],
)
def test_a_verifier_without_one_of_its_checks_is_found_out(
    originals: list[Original], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    place, name, weaker = WEAKER[left_out]
    if left_out in ("the ledger of looks", "the price of an answer"):
        originals = [one for one in originals if one.looks is not None]
    if left_out == "the coefficients":  # it finds those of the file, whatever they are
        monkeypatch.setattr(cushion_verify.Picks, "_recount", _without_digest)
    monkeypatch.setattr(place, name, weaker)
    for number in range(4000):
        found = judged(originals, number, tmp_path / "c.cushion")
        if found is not None and found[2].ok and false(*found[:2]):
            return
    raise AssertionError(f"nothing false was accepted without {left_out}")


def _without_digest(picks: Any, *args: Any) -> str:
    stated = picks.claim.coefficients
    picks.claim.coefficients = "0" * 64
    try:
        return _RECOUNT(picks, *args)
    finally:
        picks.claim.coefficients = stated


@few_and_many("files", 150, 20_000)
def test_a_short_run_finds_no_fault(originals: list[Original], tmp_path: Path, files: int) -> None:
    summary = run(originals, files, 5, 0, tmp_path / "faults", lambda _: None)
    assert summary.faults == []
    assert summary.files == files
    assert summary.malformed > files / 2
    assert summary.accepted_and_true > files / 10


def test_the_grid_and_the_ladders_are_the_verifiers() -> None:
    assert [str(float(level)) for level in grid()] == [
        str(float(level)) for level in cushion_verify.THRESHOLDS
    ]
    for top, part in ((60, 50), (10_000, 10), (1, 50), (12_345, 50)):
        assert list(ladder(top, part)) == cushion_verify.ladder(top, part)
