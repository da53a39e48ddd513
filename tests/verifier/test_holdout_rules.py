"""Rules of kind holdout, each with a file, scores or a ledger in which nothing else is wrong."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificates.filed import HERE, array, filed, judged
from tests.holdout_cases import chained

import cushion_verify
from cushion_verify import RATES, BadInput, Malformed, Scored, Verdict, read_looks

X, Y = array("halves-held-out.x"), array("halves-held-out.y")
SCORES = array("halves-held-out.f")
LOOKS = (HERE / "samples" / "halves-held-out.looks").read_bytes()
LINES = [json.loads(line) for line in LOOKS.splitlines()]
NO_COUNTS = {"threshold": None, "errors": None, "m": None, "refused": None}


def verdict(tmp_path: Path, claim: dict[str, Any], **given: Any) -> Verdict:
    return judged(tmp_path, claim, b"", **{"x": X, "y": Y, "answers": SCORES, **given})


def changed(name: str, **selective: Any) -> dict[str, Any]:
    """The claim of a file, its selective line changed."""
    claim, _ = filed(name)
    claim["selective"] |= selective
    return claim


# ---- shares of δ


def moved(giver: str, taker: str) -> dict[str, Any]:
    """10^-6 of δ moved from one share to another, where the bounds say nothing."""
    claim = changed("own-every-line", risk="0.99", bound="0.99", bound_refused="1.0")
    for line in (claim, *claim["lines"]):
        line["bound"] = "1.0"
    zero, one, top = claim["lines"]
    places = {"all": (claim, "delta_all"), "class 0": (zero, "delta"), "class 1": (one, "delta")}
    places |= {"top": (top, "delta"), "answered": (claim["selective"], "delta")}
    places |= {"refused": (claim["selective"], "delta_refused")}
    for name, by in ((giver, "-0.000001"), (taker, "0.000001")):
        part, key = places[name]
        part[key] = format(Decimal(part[key]) + Decimal(by), "f")
    return claim


@pytest.mark.parametrize(
    ("giver", "taker"),
    [
        ("class 0", "class 1"),
        ("class 1", "all"),
        ("all", "top"),
        ("top", "answered"),
        ("answered", "refused"),
        ("refused", "all"),
    ],
)
def test_shares_that_sum_to_delta_are_not_free(tmp_path: Path, giver: str, taker: str) -> None:
    with pytest.raises(Malformed, match="not shared among the lines as the format says"):
        verdict(tmp_path, moved(giver, taker))


# ---- what bounds a line may state


@pytest.mark.parametrize("between", ["0.5385", "0.6001", "0.99995", "0.538400000000000001"])
def test_a_line_of_a_look_states_no_bound_between_two_rates(tmp_path: Path, between: str) -> None:
    above = f"{min(rate for rate in RATES if rate > float(between) * 10_000) / 10_000:.4f}"
    claim, _ = filed("own-look")
    for part, key in ((claim["lines"][0], "bound"), (claim["selective"], "bound_refused")):
        part[key] = between
        with pytest.raises(Malformed, match="not of its ladder"):
            verdict(tmp_path, claim)
        part[key] = above
        assert verdict(tmp_path, claim).ok


def test_the_bound_on_what_is_answered_is_at_most_the_risk(tmp_path: Path) -> None:
    assert verdict(tmp_path, changed("own-every-line", bound="0.25")).ok
    with pytest.raises(Malformed, match="not of its ladder"):
        verdict(tmp_path, changed("own-every-line", bound="0.250001"))


@pytest.mark.parametrize("bound", ["0.5999", "0.6001", "0.59", "1.0"])
def test_the_bound_on_what_a_look_answers_is_the_risk(tmp_path: Path, bound: str) -> None:
    assert verdict(tmp_path, changed("own-look", bound="0.60")).ok
    with pytest.raises(Malformed, match="not of its ladder"):
        verdict(tmp_path, changed("own-look", bound=bound))


@pytest.mark.parametrize("name", ["own-every-line", "own-look"])
def test_without_a_threshold_nothing_is_bounded(tmp_path: Path, name: str) -> None:
    nothing = {**NO_COUNTS, "bound": "1.0", "bound_refused": "1.0"}
    assert verdict(tmp_path, changed(name, **nothing)).ok
    for key, bound in (("bound", "0.25"), ("bound", "0.6"), ("bound_refused", "0.9535")):
        with pytest.raises(Malformed, match="not of its ladder"):
            verdict(tmp_path, changed(name, **{**nothing, key: bound}))


# ---- what is counted


def test_a_line_among_more_rows_than_are_counted_is_not_ok(tmp_path: Path) -> None:
    for name in ("class 0", "class 1", "answered 0.033"):
        claim, _ = filed("own-every-line")
        zero, one, _ = claim["lines"]
        few, more = (one, zero) if name == "class 0" else (zero, one)
        if name == "answered 0.033":
            claim["selective"]["m"] += 1
            claim["selective"]["refused"] -= 1
        else:
            more["m"] += 1
            few.update(m=few["m"] - 1, bound="1.0")
        found = verdict(tmp_path, claim)
        assert (found.ok, found.level) == (False, "message")
        assert f"does not keep the line {name}" in found.reason


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("more", [-1, 1, 10**6])
def test_lines_are_about_all_rows_and_no_others(tmp_path: Path, at: int, more: int) -> None:
    """Or a small file could ask for hours of arithmetic."""
    claim, _ = filed("own-every-line")
    line = [*claim["lines"], claim["selective"]][at]
    line.update(m=line["m"] + more)
    with pytest.raises(Malformed, match="do not add up"):
        verdict(tmp_path, claim)


@pytest.mark.parametrize(("number", "bits"), [(1, 1), (1, 50), (2, 0), (9, 7)])
def test_answers_before_a_look_cost_a_bit_each_at_least(
    tmp_path: Path, number: int, bits: int
) -> None:
    claim, _ = filed("own-look")
    claim["look"] |= {"number": number, "bits_before": bits}
    claim["ledger"][0]["bits"] = bits
    with pytest.raises(Malformed, match=f"no looks before look {number} cost"):
        verdict(tmp_path, claim)


def test_a_label_without_a_line_of_its_class_is_not_ok(tmp_path: Path) -> None:
    claim, labels = filed("own-every-line")[0], Y.copy()
    labels[np.flatnonzero(Y == 0)[0]] = 2
    claim["data_fingerprint"] = cushion_verify.fingerprint_arrays("cushion-data-1", X, labels)
    for line in (*claim["lines"], claim):
        line.update(errors=line["errors"] + 1, bound="1.0")
    claim["selective"].update(errors=3, risk="0.5", bound="0.5")
    found = verdict(tmp_path, claim, y=labels)
    assert not found.ok
    assert "more than the 2 classes that there are lines for" in found.reason


def with_one(value: float) -> np.ndarray:
    scores = SCORES.copy()
    scores[7, 1] = value
    return scores


ANSWERS = {
    "one nan": with_one(np.nan),
    "one inf": with_one(np.inf),
    "one -inf": with_one(-np.inf),
    "whole numbers": np.eye(2, dtype=np.int64)[Y],
    "one class": SCORES[:, :1],
    "rows twice": np.concatenate([SCORES, SCORES]),
    "a row less": SCORES[:-1],
    "no classes": SCORES[:, 0],
    "three axes": SCORES[:, :, None],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_must_be_finite_scores_of_each_row(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"finite scores, \[60, classes\], of the held-out examples"):
        verdict(tmp_path, filed("own-first-use")[0], answers=ANSWERS[name])


def test_rows_near_the_threshold_are_answered_if_wrong_and_refused_if_right() -> None:
    """The slack is 1/100 of the largest score, 1: gaps of 0.49 to 0.51 are near 0.5."""
    gaps = np.array([0.485, 0.495, 0.505, 0.515])
    scores = np.stack([np.ones(4), 1 - gaps], axis=1)
    right, wrong = (Scored(scores, np.full(4, label), 0.01) for label in (0, 1))
    assert right.count("answered", "0.5") == (0, 1)
    assert wrong.count("answered", "0.5") == (3, 1)
    for rows in (right, wrong):
        assert rows.count("refused", "0.5") == (3, 4)
        assert rows.count("answered", "0.001") == ((0 if rows is right else 4), 4)


# ---- the ledger of looks


def test_a_ledger_of_what_is_no_look_is_bad_input(tmp_path: Path) -> None:
    for name in ("own-first-use", "own-every-line"):
        assert verdict(tmp_path, filed(name)[0]).ok
        with pytest.raises(BadInput, match="no look of a ledger"):
            verdict(tmp_path, filed(name)[0], looks=LOOKS)


@pytest.mark.parametrize(
    ("key", "other"),
    [
        *(("program", "9" * 64), ("program", None), ("net_fingerprint", "9" * 64)),
        *(("tolerance", "0.00005"), ("tolerance", "0.0002")),
    ],
)
def test_a_ledger_confirms_the_net_and_the_tolerance_that_were_asked_about(
    tmp_path: Path, key: str, other: Any
) -> None:
    claim, _ = filed("own-look-and-ledger")
    assert verdict(tmp_path, claim, looks=LOOKS).replayed == {"sample", "look"}
    claim[key] = other
    found = verdict(tmp_path, claim, looks=LOOKS)
    assert not found.ok
    assert "asked or answered is not what the file says" in found.reason


def answered(*changes: dict[str, Any]) -> bytes:
    """The ledger with some of its lines changed ("at": which, from 0), and sealed again."""
    made = [dict(line) for line in LINES]
    for change in changes:
        made[change["at"]] |= {key: part for key, part in change.items() if key != "at"}
    return chained(made)


FAILED = {"said": "failed", "errors": None, "rates": [], "chosen": None}
BEST = {"at": 6, "errors": 30}  # as many as the best before
POSSIBLE: dict[str, list[dict[str, Any]]] = {
    "as it was": [],
    "none before": [{"at": at, **FAILED, "bits": 1} for at in (2, 4)] + [{"at": 6, "bits": 43}],
    "failed later": [{"at": 4, **FAILED, "bits": 2}],
    "one step below the best": [{**BEST, "errors": 29, "bits": 39}],
    "without a threshold": [{"at": 6, "chosen": [None, 10_000], "bits": 40}],
    "no risk asked for": [{"at": 5, "selective": None}, {"at": 6, "chosen": None, "bits": 32}],
}
IMPOSSIBLE: dict[str, tuple[int, list[dict[str, Any]]]] = {
    "no better than nothing": (3, [{"at": 2, **FAILED, "said": "no better", "bits": 1}]),
    "no better than what failed": (5, [{"at": 2, **FAILED, "bits": 1}, {"at": 6, "bits": 43}]),
    "better, and at no price": (7, [{**BEST, "bits": 37}]),
    "a rate without a threshold": (7, [{"at": 6, "chosen": [None, 2765], "bits": 40}]),
    "a threshold beyond the grid": (7, [{"at": 6, "chosen": [142, 2765]}]),
    "a rate less": (7, [{"at": 6, "rates": [4895, 4450], "bits": 40}]),
    "a rate more": (7, [{"at": 6, "rates": [4895, 4450, 3041, 10_000], "bits": 54}]),
    "a rate that nobody asked for": (3, [{"at": 2, "rates": [4895], "bits": 14}]),
    "top 1 was not asked for": (7, [{"at": 5, "top_k": None}]),
    "classes were not asked for": (7, [{"at": 5, "per_class": False}]),
    "a risk was not asked for": (7, [{"at": 5, "selective": None}]),
    "a risk was asked for": (3, [{"at": 1, "selective": "0.6"}]),
    "no better, and a count": (5, [{"at": 4, "errors": 30}]),
    "failed, and a rate": (5, [{"at": 4, **FAILED, "rates": [0], "bits": 2}]),
    "a rate between two": (7, [{"at": 6, "rates": [4896, 4450, 3041]}]),
    "a bit less": (7, [{"at": 6, "bits": 46}]),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_answers_that_can_be_given_are_read(name: str) -> None:
    opening, looks = read_looks(answered(*POSSIBLE[name]))
    assert (opening.m, len(looks)) == (60, 3)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_answers_that_cannot_be_given_are_refused(name: str) -> None:
    line, changes = IMPOSSIBLE[name]
    with pytest.raises(BadInput, match=f"line {line} of the ledger of looks is damaged"):
        read_looks(answered(*changes))
