"""What a look can be told: a prefix code at every node, ladders that round up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product

import pytest

import cushion_verify
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.lines import Told

SIZES = (1, 2, 7, 101, 297, 10_000)


def weight(bits: int) -> Fraction:
    return Fraction(1, 2**bits)


@pytest.mark.parametrize("n", SIZES)
def test_a_ladder_of_counts_ends_at_n_and_its_steps_are_a_fiftieth(n: int) -> None:
    steps = grid.counts(n)
    assert (steps[0], steps[-1]) == (0, n)
    for low, high in pairwise(steps):
        assert low < high <= max(low + 1, low + low / 50)
    assert set(range(min(n, 100) + 1)) <= set(steps)


@pytest.mark.parametrize("n", SIZES)
def test_a_count_is_stated_as_the_next_step_up(n: int) -> None:
    steps = grid.counts(n)
    for errors in range(n + 1):
        assert grid.at_least(errors, steps) == min(step for step in steps if step >= errors)


@pytest.mark.parametrize("n", SIZES)
def test_the_weights_of_all_answers_sum_to_at_most_1_at_every_node(n: int) -> None:
    steps = grid.counts(n)
    first = sum((weight(grid.count_bits(n, None, step)) for step in steps), Fraction(0))
    assert first + weight(grid.failed_bits(None)) <= 1
    for best in steps:
        better = [weight(grid.count_bits(n, best, step)) for step in steps if step < best]
        others = weight(grid.NO_BETTER_BITS) + weight(grid.failed_bits(best))
        assert sum(better, others) <= 1


@pytest.mark.parametrize("lines", [0, 1, 2])
@pytest.mark.parametrize("selective", [False, True])
def test_the_other_lines_are_words_of_a_prefix_code_too(lines: int, selective: bool) -> None:
    """Every answer that can stand behind one count: together they weigh no more than the count."""
    rates = grid.rates()
    chosen: list[tuple[int | None, int] | None] = [None]
    if selective:
        some = range(len(grid.thresholds()))
        chosen = [(None, grid.PARTS), *product(some, rates)]
    total = Fraction(0)
    for said in chosen:  # rates are of one length each, so their number is what matters
        told = Told(3, (rates[0],) * lines, said)
        total += len(rates) ** lines * weight(told.bits(10, None))
    assert total <= weight(grid.count_bits(10, None, 3))


def test_no_better_costs_one_bit_and_a_first_count_its_place_on_the_ladder() -> None:
    assert grid.NO_BETTER_BITS == 1
    assert grid.count_bits(10_000, None, 500) == 10  # 347 steps are words of 9 bits
    assert grid.count_bits(297, 15, 14) == 3
    assert grid.count_bits(297, 15, 10) == 2 + 5


def test_gamma_words_are_as_long_as_elias_wrote_them() -> None:
    assert [grid.gamma_bits(n) for n in (1, 2, 3, 4, 7, 8)] == [1, 3, 3, 5, 5, 7]


def test_thresholds_are_the_verifiers_and_no_choice() -> None:
    assert list(grid.thresholds()) == cushion_verify.THRESHOLDS
    assert len(grid.thresholds()) == 142
    assert Decimal("0.999") in grid.thresholds()
    assert list(grid.rates()) == cushion_verify.RATES
