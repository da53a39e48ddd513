"""f and g counted on a sample, example by example by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.compressed_cases import compressed, network

from cushion.compressors.lemmas import LayerErrors, count_on_sample
from cushion.theorems.compression import CompressedFacts

GAMMA = 1.0


def count(
    margins: list[float], gaps: list[float], largest: list[float], after: list[float]
) -> CompressedFacts:
    """margins: of f; gaps, largest: of g's scores from f's, in ℓ2 and the largest; after: margins
    of g.
    """
    stored = compressed(network("max-pool"), "rank").stored
    arrays = [np.array(part) for part in (gaps, largest, [5.0] * len(gaps), after)]
    errors = LayerErrors({}, *arrays, np.zeros((len(gaps), 2)))
    return count_on_sample(GAMMA, np.array(margins), errors, stored, 0.05)


def test_close_in_l2_takes_margins_at_gamma() -> None:
    # Nobody is farther than γ/√2 = 0.707 in ℓ2, so f is sure above γ: 0.5 and 1.0 are not.
    found = count(
        [0.5, 1.0, 1.5, 3.0], [0.1, 0.7, 0.2, 0.3], [0.1, 0.6, 0.2, 0.3], [0.4, 0.5, 1.0, 2.0]
    )
    assert (found.norm, found.unsure, found.failed, found.unsure_or_failed, found.below_gamma) == (
        "l2",
        2,
        0,
        2,
        2,
    )


def test_close_in_every_score_takes_margins_at_two_gamma() -> None:
    # Three are too far in ℓ2 and one in its largest score: that comparison fails less often, and
    # needs 2γ.
    found = count(
        [0.5, 1.5, 2.5, 3.0], [0.9, 0.9, 0.9, 0.1], [0.5, 0.6, 1.2, 0.1], [0.4, 0.5, 1.0, 2.0]
    )
    assert (found.norm, found.unsure, found.failed, found.unsure_or_failed) == ("largest", 2, 1, 3)
    assert found.below_gamma == 1


def test_an_error_that_the_argument_excludes_counts_as_a_failure() -> None:
    # g is close and f sure by far, and yet g errs (rounding of float scores): counted, so that the
    # bound stays true.
    found = count([3.0, 3.0, 0.5], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1], [-0.5, 2.0, -1.0])
    assert (found.failed, found.unsure, found.unsure_or_failed) == (1, 1, 2)


def test_ties_of_every_comparison_fall_on_the_safe_side() -> None:
    found = count([GAMMA], [GAMMA / math.sqrt(2)], [GAMMA], [0.0])
    assert (found.below_gamma, found.unsure, found.failed) == (
        1,
        1,
        0,
    )  # a margin of γ is unsure; a gap of γ/√2 is not far


def test_numbers_and_bits_are_those_that_are_stored() -> None:
    stored = compressed(network("max-pool"), "rank").stored
    found = count([1.0], [0.0], [0.0], [1.0])
    parts = [*(part for layer in stored.layers for part in layer.numbers), *stored.biases]
    assert found.numbers == sum(part.integers.size for part in parts if part is not None)
    assert (
        found.values
        == 2 * max(int(np.abs(part.integers).max()) for part in parts if part is not None) + 1
    )
    assert (found.bits, found.m) == (stored.bits, 1)
    assert found.delta == pytest.approx(0.05)
