"""estimate_bits: what a message takes, from counts alone."""

from __future__ import annotations

import numpy as np
import pytest

from cushion.certificates.format.number_stream import Integers, encode_numbers, estimate_bits

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize(
    "arrays",
    [
        [np.zeros(5000, dtype=np.int64)],
        [RANDOM.geometric(0.05, size=4000).astype(np.int64), RANDOM.integers(-7, 8, size=4000)],
        [
            np.rint(RANDOM.normal(size=30_000) * 0.3).astype(np.int64)
        ],  # halved counts: far more decisions than 2^12
        [RANDOM.integers(-(2**38), 2**38, size=300)],
    ],
)
def test_the_estimate_is_close_to_what_the_coder_writes(arrays: list[Integers]) -> None:
    written = encode_numbers([3, 0, 2**20], arrays).bits
    # Halving at 2^12 makes a context that is nearly certain cost up to 2^-12 bits a decision more.
    decisions = sum(array.size for array in arrays)
    assert estimate_bits([3, 0, 2**20], arrays) == pytest.approx(
        written, rel=0.003, abs=8 + decisions * 2.0**-11
    )


def test_short_arrays_are_counted_exactly_but_for_the_end() -> None:
    # One zero: a single decision at odds ½, one bit; the coder adds the two bits that end a stream.
    assert estimate_bits([], [np.array([0])]) == pytest.approx(1.0)
    # 1: "more than 0 bits" and "not more than 1 bit", each ½, and the sign.
    assert estimate_bits([], [np.array([1])]) == pytest.approx(3.0)
    assert estimate_bits([], []) == 0.0
    assert estimate_bits([3, 0], []) == len("001001")  # the Elias gamma words of 4 and 1
