"""Counts, shares and bounds of hold-out lines beside naive ones, and how often they fail."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from tests.holdout_cases import Population, plain, population, tail
from tests.simulations import few_and_many

import cushion_verify
from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.counting import scored
from cushion.certificates.holdout.lines import (
    Asked,
    answering,
    bound_of,
    choose_threshold,
    exact_lines,
    tell,
    told_lines,
)
from cushion.certificates.holdout.options import parse_risk
from cushion.certificates.holdout.shares import left, share_delta
from cushion.errors import BadInput

DELTA = Decimal("0.05")


def naive_missed(row: list[float], label: int, k: int, tolerance: float) -> bool:
    if label >= len(row):
        return True
    slack = tolerance * max(abs(score) for score in row)
    rivals = [j for j, score in enumerate(row) if j != label and row[label] - score <= slack]
    return len(rivals) >= k


@pytest.mark.parametrize("tolerance", ["0.0001", "0.03", "0.5"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_rows_are_missed_as_a_loop_over_classes_says(tolerance: str, k: int) -> None:
    rng = np.random.default_rng(k)
    scores = np.round(rng.normal(size=(300, 4)) * 4) / 4  # many ties
    y = rng.integers(0, 5, 300)  # some labels have no score
    found = scored(scores, y, tolerance).missed(k)
    wanted = [
        naive_missed(row, int(label), k, float(tolerance))
        for row, label in zip(scores.tolist(), y, strict=True)
    ]
    assert found.tolist() == wanted
    theirs = cushion_verify.Scored(scores, y, float(tolerance))
    assert theirs.missed(k).tolist() == wanted


def test_a_tie_is_an_error_and_so_is_a_gap_within_the_tolerance() -> None:
    scores = np.array([[1.0, 1.0], [1.0, 0.99995], [1.0, 0.9998], [-1.0, -2.0]])
    assert scored(scores, np.zeros(4, np.int64), "0.0001").missed().tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_half_the_tolerance_never_counts_more_on_another_machine() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.normal(size=(200, 3))
        y = rng.integers(0, 3, 200)
        here = scored(scores, y, "0.2")
        moved = rng.uniform(-1, 1, scores.shape) * 0.05 * np.abs(scores).max(axis=1, keepdims=True)
        there = scored(scores + moved, y, "0.1")
        # the slack itself moves by 5 % of the tolerance: the quarter is of the row's own largest
        assert there.missed().sum() <= here.missed().sum() + 1
        for threshold in (Decimal("0.5"), Decimal(1)):
            errors, answered = answering(here, threshold)
            other_errors, other_answered = answering(there, threshold)
            assert other_errors <= errors + 1
            assert other_answered >= answered - 1


@pytest.mark.parametrize("threshold", ["0.1", "0.5", "1.5"])
def test_answered_rows_and_their_errors_are_counted_to_the_safe_side(threshold: str) -> None:
    some = population(200, 4, 1.5, 0).draw(300, np.random.default_rng(1))
    errors = answered = 0
    for row, label, slack in zip(some.scores.tolist(), some.y, some.slack, strict=True):
        first, second = sorted(row)[:-3:-1]
        wrong = naive_missed(row, int(label), 1, 0.0001)
        errors += wrong and first - second > float(threshold) - slack
        answered += first - second > float(threshold) + slack
    assert answering(some, Decimal(threshold)) == (errors, answered)
    theirs = cushion_verify.Scored(some.scores, some.y, 0.0001)
    assert theirs.count("answered", threshold) == (errors, answered)
    assert theirs.count("refused", threshold) == (300 - answered, 300)


@pytest.mark.parametrize("classes", [0, 2, 3, 10])
@pytest.mark.parametrize("top", [False, True])
@pytest.mark.parametrize("selective", [False, True])
def test_the_shares_sum_to_delta_exactly(classes: int, top: bool, selective: bool) -> None:
    shares = share_delta(DELTA, classes, top, selective)
    others = shares.each_class * classes + shares.top + shares.errors + shares.refused
    assert Fraction(shares.overall) + Fraction(others) == Fraction(DELTA)
    if classes or top or selective:
        assert Decimal("0.025") <= shares.overall < Decimal("0.0250000001")
        groups = (classes > 0) + top + selective
        if classes:
            assert abs(shares.each_class - DELTA / (2 * groups * classes)) < Decimal("1e-17")
        if selective:
            assert shares.errors == shares.refused


def test_a_delta_that_is_too_small_to_share_is_refused() -> None:
    with pytest.raises(BadInput, match="too small to be shared"):
        share_delta(Decimal("1e-17"), 10, True, False)


@pytest.mark.parametrize(("errors", "m"), [(0, 20), (3, 20), (19, 20), (5, 60)])
@pytest.mark.parametrize("look", [None, Look(1, 0, ""), Look(2, 9, ""), Look(12, 20, "")])
def test_bounds_are_those_of_exact_fractions(errors: int, m: int, look: Look | None) -> None:
    """δ·2^-bits/(k(k+1)), in fractions; the stated bound is enough and one step less is not."""
    allowed = Fraction(1, 20)
    if look is not None:
        k = look.number
        allowed *= Fraction(1, 2**look.bits_before) * Fraction(1, k * (k + 1))
    bound = plain(bound_of(errors, m, DELTA, look))
    assert bound == 1 or tail(errors, m, bound) <= allowed
    assert tail(errors, m, bound - Fraction(2, 10**6)) > allowed


def test_what_a_look_leaves_is_rounded_down() -> None:
    for look in (None, Look(3, 17, "")):
        for among in (1, 142):
            delta, bits = left(DELTA, look, among)
            exact = Fraction(1, 20) / among / (1 if look is None else 12)
            assert 0 <= exact - Fraction(delta) < exact / 10**50
            assert bits == (0 if look is None else 17)


def test_a_class_without_rows_is_vacuous() -> None:
    some = population(50, 3, 1.0, 0)
    rows = scored(some.scores, np.zeros(50, np.int64), "0.0001")
    lines, _ = exact_lines(rows, Asked(per_class=True), 3, share_delta(DELTA, 3, False, False))
    assert [line.bound for line in lines[1:]] == ["1.000000", "1.000000"]


def test_the_selective_line_has_the_least_threshold_that_keeps_the_risk() -> None:
    some = population(2000, 5, 2.5, 3).draw(3000, np.random.default_rng(0))
    share = Decimal("0.0125")
    chosen = choose_threshold(some, "0.02", share, None)
    assert chosen is not None
    allowed = Fraction(share) / 142

    def holds(number: int) -> bool:
        errors, answered = answering(some, grid.thresholds()[number])
        return answered > 0 and cushion_verify.bound_holds(
            errors, answered, 0, Decimal(allowed.numerator) / allowed.denominator, "0.02"
        )

    assert holds(chosen)
    assert not any(map(holds, range(chosen)))
    errors, answered = answering(some, grid.thresholds()[chosen])
    assert 0 < errors < answered < 3000


def test_a_look_states_every_line_rounded_up_on_a_ladder() -> None:
    some = population(400, 4, 2.0, 0).draw(2000, np.random.default_rng(2))
    asked = Asked(per_class=True, top_k=2, selective="0.2")
    shares = share_delta(DELTA, 4, True, True)
    look = Look(1, 0, "")
    told = tell(some, asked, 4, shares, look, None)
    assert told is not None
    assert told.errors in grid.counts(2000)
    assert told.errors >= some.missed().sum() > told.errors / 1.03
    lines, selective = told_lines(told, asked, 4, shares)
    exact, _ = exact_lines(some, asked, 4, shares)
    for line, counted in zip(lines, exact, strict=True):
        assert (line.errors, line.m) == (None, None)
        assert counted.errors is not None
        assert counted.m is not None
        bound = Decimal(bound_of(counted.errors, counted.m, Decimal(line.delta), look))
        assert bound <= Decimal(line.bound) <= max(bound * Decimal("1.1"), bound + Decimal("1e-4"))
    assert selective is not None
    assert selective.bound == "0.2"
    assert tell(some, asked, 4, shares, look, told.errors) is None
    assert tell(some, asked, 4, shares, look, told.errors + 50) == told


# ---- how often lines fail

HALF = Decimal("0.5")


def at_most(failures: int, runs: int, share: float) -> bool:
    """Whether so many failures are no evidence against a chance of `share`."""
    return failures <= runs * share + 3 * math.sqrt(runs * share * (1 - share)) + 1


@few_and_many("runs", 400, 20_000)
def test_the_overall_line_fails_with_probability_delta_and_hardly_less(runs: int) -> None:
    people, rng = population(200, 3, 1.5, 0), np.random.default_rng(0)
    true, n = people.error(), 150
    bounds = {k: float(bound_of(k, n, HALF, None)) for k in range(n + 1)}
    failed = sum(bounds[int(people.draw(n, rng).missed().sum())] < true for _ in range(runs))
    assert at_most(failed, runs, 0.5)
    assert failed > 0.3 * runs


@few_and_many("runs", 60, 3_000)
@pytest.mark.parametrize("shared", [True, False])
def test_all_class_lines_hold_together_and_without_shares_they_would_not(
    runs: int, shared: bool
) -> None:
    people, rng = population(300, 8, 2.0, 1), np.random.default_rng(0)
    true = [people.class_error(number) for number in range(8)]
    shares = share_delta(HALF, 8, False, False)
    failed = 0
    for _ in range(runs):
        rows = people.draw(400, rng)
        lines, _ = exact_lines(rows, Asked(per_class=True), 8, shares)
        bounds = [float(line.bound) for line in lines]
        if not shared:
            bounds = [
                float(bound_of(line.errors or 0, line.m or 0, shares.each_class * 8, None))
                for line in lines
            ]
        failed += any(bound < error for bound, error in zip(bounds, true, strict=True))
    assert at_most(failed, runs, 0.25) == shared


@few_and_many("runs", 200, 10_000)
def test_the_top_k_line_fails_with_its_share_at_most(runs: int) -> None:
    people, rng = population(300, 6, 1.0, 2), np.random.default_rng(0)
    true, shares = people.error(2), share_delta(HALF, 0, True, False)
    failed = 0
    for _ in range(runs):
        (line,), _ = exact_lines(people.draw(150, rng), Asked(top_k=2), 6, shares)
        failed += float(line.bound) < true
    assert at_most(failed, runs, 0.25)
    assert failed > 0.1 * runs


def risky() -> Population:
    """At each of eight thresholds what is answered, half as much each time, errs on 10.05 %."""
    gaps = np.concatenate([np.full(209 * 2 ** (7 - at), 0.11 + 0.1 * at) for at in range(8)])
    scores = np.stack([gaps, np.zeros(len(gaps))], axis=1)
    return Population(scores, (np.arange(len(gaps)) % 209 < 21).astype(np.int64))


@few_and_many("runs", 60, 2_000)
@pytest.mark.parametrize("paid", [True, False])
def test_the_chosen_threshold_keeps_its_risk_and_without_paying_for_the_grid_it_does_not(
    runs: int, paid: bool
) -> None:
    people, rng = risky(), np.random.default_rng(0)
    share, failed = Decimal("0.25") * (1 if paid else 142), 0
    true = [people.risk(float(threshold)) for threshold in grid.thresholds()]
    for _ in range(runs):
        chosen = choose_threshold(people.draw(2000, rng), "0.1", share, None)
        if chosen is not None:
            failed += true[chosen] > 0.1
    assert at_most(failed, runs, 0.25) == paid


@few_and_many("runs", 40, 1_000)
def test_selective_risk_and_refusals_hold_together(runs: int) -> None:
    people, rng = population(500, 4, 3.0, 5), np.random.default_rng(0)
    shares, failed, found = share_delta(HALF, 0, False, True), 0, 0
    for _ in range(runs):
        _, line = exact_lines(people.draw(600, rng), Asked(selective="0.1"), 4, shares)
        assert line is not None
        if line.threshold is not None:
            level = float(line.threshold)
            found += 1
            failed += people.risk(level) > float(line.bound)
            failed += people.refused(level) > float(line.bound_refused)
    assert found == runs
    assert at_most(failed, runs, 0.25)


def test_a_risk_is_read_as_people_write_it() -> None:
    assert parse_risk("1 %") == parse_risk("0.01") == parse_risk(0.01) == "0.01"
    for wrong in ("0", "1", "100%", "nan", "a", "-1%", "1e-30"):
        with pytest.raises(BadInput, match="`selective`"):
            parse_risk(wrong)
