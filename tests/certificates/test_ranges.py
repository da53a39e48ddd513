"""The range proof at its boundaries, 2^53 and 2^24: just below is allowed and exact to the last
unit, above is not.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests import format_reader
from tests.encoding_cases import grid, ones

from cushion.certificates.format.inputs import Bytes, Floats, Input
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Layer, Pool
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import Grid, SeededProjection, Values
from cushion.errors import Malformed

LIMIT = 2**53
BITS = Bytes(7)  # inputs are 0 or 1


def scored(weight: list[int], top: int, bias_shift: int, reads: Input = BITS) -> IntegerNet:
    """Two classes, the second the negative of the first."""
    rows = np.array([weight, [-w for w in weight]])
    return IntegerNet(
        (1, 1, len(weight)), reads, (Dense(Values(rows), np.array([top, -top]), bias_shift, 0),)
    )


def test_scores_are_exact_up_to_two_to_the_53() -> None:
    """2^13 (2^40 - 1) + 8191 = 2^53 - 1 fits a message, and every score is right to the last
    unit.
    """
    weight = [1, 2, 4088, 4100]
    assert sum(weight) == 2**13 - 1
    net = scored(weight, 2**40 - 1, 13)
    assert net.reach == LIMIT - 1
    message = encode(net)
    second = format_reader.read(message.data, message.bits)
    x = np.array([[255 * (i >> j & 1) for j in range(4)] for i in range(16)], dtype=np.uint8)
    found = decode(message.data, message.bits).scores(x).tolist()
    assert found == [format_reader.scores(second, row.tolist()) for row in x]
    assert found[15] == [LIMIT - 1, 1 - LIMIT]
    assert len({tuple(row) for row in found}) == 16
    for other in ([2, 2, 4088, 4100], [1, 2, 4088, -4101]):
        with pytest.raises(Malformed, match="exact range"):
            scored(other, 2**40 - 1, 13)


@pytest.mark.parametrize(("more", "floats"), [(0, np.float32), (1, np.float64)])
def test_single_and_double_precision_agree_at_the_edge_of_the_single_range(
    more: int, floats: type
) -> None:
    net = scored([1 + more, 2, 3, 9], 2**24 - 16, 0)
    assert net.reach == 2**24 - 1 + more
    assert net._floats is floats
    x = np.array([[255 * (i >> j & 1) for j in range(4)] for i in range(16)], dtype=np.uint8)
    expected = [
        2**24 - 16 + sum(w for j, w in enumerate([1 + more, 2, 3, 9]) if i >> j & 1)
        for i in range(16)
    ]
    assert net.scores(x).tolist() == [[value, -value] for value in expected]


def test_a_bias_cannot_wrap_around() -> None:
    """2^39 · 2^25 is 0 in 64 bits; the proof is made in Python's integers."""
    with pytest.raises(Malformed, match="exact range"):
        scored([1], 2**39, 25)
    smallest = np.array([-(2**63), 0])  # the absolute value of the first is itself in 64 bits
    with pytest.raises(Malformed, match="exact range"):
        IntegerNet((1, 1, 1), BITS, (Dense(grid([[1], [1]]), smallest, 0, 0),))


def reached(bias: int, *between: Layer) -> int:
    """The first layer reaches 4·255 + bias; what stands between may raise that."""
    first = Conv(Grid(ones(1, 1, 2, 2), 1), np.array([bias]), 0, 0)
    return IntegerNet(
        (1, 3, 3), Bytes(0), (first, *between, Dense(grid([[0], [1]]), None, 0, 0))
    ).reach


def test_pooling_moves_the_range_as_it_should() -> None:
    last = LIMIT - 1 - 4 * 255
    assert reached(last, Pool("max", 2)) == LIMIT - 1
    with pytest.raises(Malformed, match="exact range"):
        reached(last + 1, Pool("max", 2))
    quarter = (LIMIT - 1) // 4 - 4 * 255
    assert reached(quarter, Pool("sum", 2)) == 4 * ((LIMIT - 1) // 4)
    with pytest.raises(Malformed, match="exact range"):
        reached(quarter + 1, Pool("sum", 2))


@pytest.mark.parametrize(
    ("bias", "fits"), [(LIMIT - 1 - 4 * 2**46, True), (LIMIT - 4 * 2**46, False)]
)
def test_a_shift_divides_what_follows_and_by_no_more(bias: int, fits: bool) -> None:
    shifted = Conv(Grid(ones(1, 1, 1, 1), 1), np.array([2**50 - 255]), 0, 4)
    second = Conv(Grid(ones(1, 1, 2, 2), 1), np.array([bias]), 0, 0)
    layers = (shifted, second, Dense(grid([[0], [1]]), None, 0, 0))
    if fits:
        assert IntegerNet((1, 2, 2), Bytes(0), layers).reach == LIMIT - 1
    else:
        with pytest.raises(Malformed, match="exact range"):
            IntegerNet((1, 2, 2), Bytes(0), layers)


def test_tied_and_grouped_weights_enter_the_range_as_they_are_used() -> None:
    """A regular filter of order 4 reads all four channels; a group reads only its own."""
    lifting = Conv(Grid(ones(2, 1, 1, 1), 1), None, 0, 0, symmetry=4)
    whole = Conv(Grid(ones(2, 2, 4, 1, 1), 1), np.array([0, 7]), 2, 0, symmetry=4)
    parts = Conv(Grid(ones(2, 1, 4, 1, 1), 1), np.array([0, 7]), 2, 0, groups=2, symmetry=4)
    last = Dense(Grid(np.zeros((2, 2, 1, 1), dtype=np.int64), 1), None, 0, 0, 4)
    assert IntegerNet((1, 1, 1), Bytes(0), (lifting, whole, last)).reach == 8 * 255 + 28
    assert IntegerNet((1, 1, 1), Bytes(0), (lifting, parts, last)).reach == 4 * 255 + 28
    tied = Dense(Grid(ones(2, 2, 1, 1), 1), None, 0, 0, 4)
    assert IntegerNet((1, 1, 1), Bytes(0), (lifting, parts, tied)).reach == 8 * (4 * 255 + 28)


def test_seeded_weights_enter_the_range_as_they_are_made() -> None:
    """2^42 is beyond the limit of one weight, however short its message."""
    coefficients = np.full(4, 2**40 - 1)
    with pytest.raises(Malformed, match="limit of 4398046511104"):
        IntegerNet(
            (1, 1, 64),
            Bytes(7),
            (Dense(SeededProjection(coefficients, (2, 64), 0, 1, 0, 2**20), None, 0, 0),),
        )
    small = SeededProjection(coefficients, (2, 64), 0, 1, 12, 0)
    net = IntegerNet((1, 1, 64), Bytes(7), (Dense(small, None, 0, 0),))
    assert net.reach == max(sum(abs(v) for v in row) for row in small.numbers.tolist())


def test_the_range_of_quantised_floats_is_that_of_their_window() -> None:
    assert scored([1, -2], 0, 0, Floats(12, (0,), (0,))).reach == 3 * 4095
    x = np.array([[1e30, np.inf]], dtype=np.float32)
    assert scored([1, -2], 0, 0, Floats(12, (0,), (0,))).scores(x).tolist() == [[-4095, 4095]]
