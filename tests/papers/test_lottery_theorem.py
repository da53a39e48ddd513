"""Theorems 6.1 and 6.2 of Guha 2023 as numbers: counts against exact integers, and what they claim,
simulated.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.papers.guha.lottery import error_at_most, find_ticket, target_net
from cushion.papers.guha.tickets import mask_bits, printed_count, sufficient_width


@pytest.mark.parametrize(
    ("weights", "kept"),
    [
        (1, 0),
        (1, 1),
        (4, 2),
        (7, 7),
        (8, 0),
        (10, 3),
        (255, 100),
        (256, 1),
        (5000, 137),
        (266_200, 1331),
    ],
)
def test_mask_bits_are_the_exact_count_or_one_more(weights: int, kept: int) -> None:
    # k is one of N + 1 values, the mask one of C(N, k): whole numbers of bits each.
    exact = weights.bit_length() + (math.comb(weights, kept) - 1).bit_length()
    assert 2 ** weights.bit_length() >= weights + 1
    assert exact <= mask_bits(weights, kept) <= exact + 1


def test_all_masks_together_satisfy_kraft() -> None:
    for weights in (1, 2, 5, 9, 30):
        total = sum(
            math.comb(weights, kept) * 2.0 ** -mask_bits(weights, kept)
            for kept in range(weights + 1)
        )
        assert total <= 1


def test_the_printed_count_by_hand() -> None:
    # n_M d0 ln^2 D + L n_M^2 ln^2 D = (10*784 + 2*100) ln^2 500
    numbers = 8040 * math.log(500) ** 2
    assert printed_count((784, 10, 10), 500) == pytest.approx(numbers, rel=1e-12)


def test_the_mask_alone_holds_for_the_best_of_all_masks() -> None:
    """Simulated where the claim is hardest: labels are coins, and the mask with the fewest errors
    is taken.

    N seeded features of +-1, a mask votes with their sum; the true error is ½ for every mask, ties
    are errors, so that a bound below ½ is a failure. All 2^9 masks are tried, so the union over
    masks is what is tested.
    """
    random = np.random.default_rng(5)
    n, m, delta, trials = 9, 40, 0.2, 300
    masks = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    kept = masks.sum(axis=1)

    @cache
    def bound(errors: int, bits: int) -> float:
        return binomial_inverse(errors, m, occam_log_delta(Decimal(str(delta)), bits))

    failures, unpaid = 0, 0
    for _ in range(trials):
        features, labels = random.choice([-1, 1], (n, m)), random.choice([-1, 1], m)
        errors = ((masks @ features) * labels <= 0).sum(axis=1)
        fewest = [int(errors[kept == k].min()) for k in range(n + 1)]
        failures += min(bound(found, mask_bits(n, k)) for k, found in enumerate(fewest)) < 0.5
        unpaid += bound(min(fewest), 0) < 0.5
    assert failures <= delta * trials
    assert unpaid > delta * trials  # without the price of the mask the claim is false


@pytest.mark.parametrize(
    ("dims", "epsilon"), [((4, 6, 3), 0.5), ((9, 5, 5, 2), 0.3), ((3, 2), 0.1)]
)
def test_the_sufficient_width_suffices(dims: tuple[int, ...], epsilon: float) -> None:
    # At a failure probability of 0.1, forty nets all succeed or nearly so; the union bound leaves
    # much room.
    width = sufficient_width(dims, epsilon, 0.1)
    late = 0
    for seed in range(40):
        late += error_at_most(find_ticket(target_net(dims, seed), width, seed)) > epsilon * (
            1 + 1e-6
        )
    assert late <= 40 * 0.1
    assert sufficient_width(dims, epsilon, 0.01) > width
    assert sufficient_width(dims, epsilon / 2, 0.1) > 1.8 * width


def test_the_chance_of_one_neuron_by_simulation() -> None:
    """P(u > 0, |u v - w| <= t) at the edge |w| = 1/sqrt(inputs), from the width that one weight
    needs.
    """
    random = np.random.default_rng(0)
    u, v = random.uniform(-1, 1, (2, 4_000_000))
    inputs, epsilon, failure = 4, 0.05, 0.01
    # One layer with one output: two choices an input, t = epsilon/sqrt(8).
    t = epsilon / math.sqrt(2 * inputs)
    seen = float(((u > 0) & (np.abs(u * v - 0.5) <= t)).mean())
    block = sufficient_width((inputs, 1), epsilon, failure) // inputs
    implied = 1 - (failure / (2 * inputs)) ** (1 / block)
    assert implied == pytest.approx(seen, abs=5 * math.sqrt(seen / 4_000_000) + implied / block)
    # Weights nearer to zero are easier, so the edge is the worst case.
    assert float(((u > 0) & (np.abs(u * v - 0.1) <= t)).mean()) > seen
    # And the other sign is as easy.
    assert float(((u < 0) & (np.abs(u * v - 0.5) <= t)).mean()) == pytest.approx(seen, rel=0.02)


def test_erratum_the_theorem_wants_nets_far_wider_than_the_target() -> None:
    """Theorem 6.2 compares with a net of the target's size; the net that Theorem 6.1 needs is
    orders wider.
    """
    dims = (784, 100, 100, 10)
    width = sufficient_width(dims, 0.1, 0.05)
    assert width > 10_000 * 100
    assert sufficient_width((16, 16, 16, 4), 0.1, 0.05) > 1000 * 16
