"""What one net may cost: every limit with a net just within it, and one just beyond it that is
refused at no cost.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from tests import format_reader
from tests.encoding_cases import grid, head, ones, same, tiny

from cushion.certificates.format import arithmetic
from cushion.certificates.format import message as messages
from cushion.certificates.format.bits import BitWriter
from cushion.certificates.format.inputs import Bytes, Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Layer, Pool
from cushion.certificates.format.limits import check_sizes
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededProjection,
    SignProjection,
    Values,
)
from cushion.errors import Malformed


def projection(coefficients: int, shape: tuple[int, ...], place: int = 1) -> SeededProjection:
    """Many numbers from a short message."""
    return SeededProjection(ones(coefficients), shape, 0, place, 0, 0)


def tabled(coefficients: int, shape: tuple[int, ...], place: int = 1) -> SignProjection:
    return SignProjection(ones(coefficients), shape, 0, place, 0)


def low_rank(rank: int, out: int, rest: int) -> Product:
    return Product(ones(rank * (out + rest)), (out, rest), rank, 0)


def zeros(*shape: int) -> Values:
    return Values(np.zeros(shape, dtype=np.int64))


def net(shape: tuple[int, int, int], *layers: Layer) -> IntegerNet:
    return IntegerNet(shape, Bytes(0), layers)


WIDE = (
    1,
    95,
    95,
)  # a 64x64 convolution has 32x32 positions on it and reads 2^12 · 2^10 = 2^22 values
WITHIN_AND_BEYOND: dict[str, tuple[str, Callable[[], IntegerNet], Callable[[], IntegerNet]]] = {
    "weights and coefficients": (
        "1000001 numbers",
        lambda: net((1, 1, 499_999), Dense(projection(2, (2, 499_999)), None, 0, 0)),
        lambda: net((1, 1, 499_999), Dense(projection(3, (2, 499_999)), None, 0, 0)),
    ),
    "biases count": (
        "1000002 numbers",
        lambda: net((1, 1, 499_998), Dense(projection(2, (2, 499_998)), ones(2), 0, 0)),
        lambda: net((1, 1, 499_999), Dense(projection(2, (2, 499_999)), ones(2), 0, 0)),
    ),
    "layers share the limit": (
        "1000001 numbers",
        lambda: net(
            (1, 1, 999),
            Dense(projection(1, (998, 999)), ones(998), 0, 9),
            Dense(projection(3, (2, 998), 2), None, 0, 0),
        ),
        lambda: net(
            (1, 1, 999),
            Dense(projection(1, (998, 999)), ones(998), 0, 9),
            Dense(projection(4, (2, 998), 2), None, 0, 0),
        ),
    ),
    "tied weights count as often as they are used": (
        "1000001 numbers",
        lambda: net(
            (1, 1, 1),
            Conv(projection(16, (41_666, 1, 1, 1)), None, 0, 9, symmetry=8),
            head(8 * 41_666),
        ),
        lambda: net(
            (1, 1, 1),
            Conv(projection(17, (41_666, 1, 1, 1)), None, 0, 9, symmetry=8),
            head(8 * 41_666),
        ),
    ),
    "signs of projections": (
        "signs",
        lambda: net((1, 1, 2**9), Dense(projection(2**8, (2**9, 2**9)), None, 0, 0)),
        lambda: net(
            (1, 1, 2**9),
            Dense(projection(2**8, (2**9, 2**9)), None, 0, 20),
            Dense(projection(2**8, (2**9, 2**9), 2), None, 0, 20),
            Dense(projection(1, (2, 2**9), 3), None, 0, 0),
        ),
    ),
    "coefficients of sign projections count": (
        "1000001 numbers",
        lambda: net((1, 1, 499_999), Dense(tabled(2, (2, 499_999)), None, 0, 0)),
        lambda: net((1, 1, 499_999), Dense(tabled(3, (2, 499_999)), None, 0, 0)),
    ),
    "factors count": (  # 2·w weights, 2·1 and 1·w numbers in the factors
        "1000001 numbers",
        lambda: net((1, 1, 333_332), Dense(low_rank(1, 2, 333_332), None, 0, 0)),
        lambda: net((1, 1, 333_333), Dense(low_rank(1, 2, 333_333), None, 0, 0)),
    ),
    "input": (
        "feature map",
        lambda: net((1, 1024, 1024), Pool("max", 1024), head(1)),
        lambda: net((1, 1025, 1024), Pool("max", 1024), head(1)),
    ),
    "padded input": (
        "feature map",
        lambda: net((1, 1022, 1022), Conv(zeros(1, 1, 2, 2), None, 0, 0, 1022, 1), head(4)),
        lambda: net((1, 1023, 1022), Conv(zeros(1, 1, 2, 2), None, 0, 0, 1022, 1), head(4)),
    ),
    "feature map": (
        "feature map",
        lambda: net((1, 512, 512), Conv(zeros(4, 1, 1, 1), None, 0, 0), Pool("max", 512), head(4)),
        lambda: net((1, 512, 512), Conv(zeros(5, 1, 1, 1), None, 0, 0), Pool("max", 512), head(5)),
    ),
    "values that windows read": (
        "values read by layer",
        lambda: net(WIDE, Conv(zeros(1, 1, 64, 64), None, 0, 0), Pool("max", 32), head(1)),
        lambda: net((1, 96, 95), Conv(zeros(1, 1, 64, 64), None, 0, 0), Pool("max", 32), head(1)),
    ),
    "groups read as much": (
        "values read by layer",
        lambda: net(
            (2, 95, 95),
            Conv(zeros(2, 1, 64, 64), None, 0, 0, 2, groups=2),
            Pool("max", 16),
            head(2),
        ),
        lambda: net(
            (2, 95, 95), Conv(zeros(2, 1, 64, 64), None, 0, 0, groups=2), Pool("max", 32), head(2)
        ),
    ),
    "depthwise reads as much": (
        "values read by layer",
        lambda: net(
            (2, 95, 95),
            Conv(zeros(2, 1, 64, 64), None, 0, 0, 2, groups=0),
            Pool("max", 16),
            head(2),
        ),
        lambda: net(
            (2, 95, 95), Conv(zeros(2, 1, 64, 64), None, 0, 0, groups=0), Pool("max", 32), head(2)
        ),
    ),
    "multiplications": (
        "multiplications",
        lambda: net(WIDE, Conv(zeros(63, 1, 64, 64), None, 0, 0), Pool("max", 32), head(63)),
        lambda: net(WIDE, Conv(zeros(64, 1, 64, 64), None, 0, 0), Pool("max", 32), head(64)),
    ),
}


@pytest.mark.parametrize("name", WITHIN_AND_BEYOND)
def test_limits_are_where_they_are_said_to_be(name: str) -> None:
    reason, within, beyond = WITHIN_AND_BEYOND[name]
    assert within().reach >= 0
    with pytest.raises(Malformed, match=reason):
        beyond()


def test_the_signs_of_sign_projections_share_a_limit_of_their_own() -> None:
    """2^14 numbers and 2^19 coefficients are 2^33 signs; four more are too many. No sign is drawn
    to find out.
    """
    wide, small = (
        Dense(tabled(2**19, (2, 2**13)), None, 0, 0),
        Dense(tabled(1, (2, 2), 2), None, 0, 0),
    )
    check_sizes((1, 1, 2**13), Bytes(0), (wide, Dense(zeros(2, 2), None, 0, 0)))
    with pytest.raises(Malformed, match=f"{2**33 + 4} signs in sign projections"):
        check_sizes((1, 1, 2**13), Bytes(0), (wide, small))
    # the two kinds of projections do not share it
    seeded = Dense(projection(2**8, (2**9, 2**9), 1), None, 0, 20)
    check_sizes((1, 1, 2**9), Bytes(0), (seeded, Dense(tabled(2**8, (2**9, 2**9), 2), None, 0, 0)))


def test_the_most_work_that_a_product_can_ask_for_is_below_its_bound() -> None:
    """o = r = w makes the factors' o·r·w largest for the numbers that are counted, o·r + r·w +
    o·w.
    """
    side = 577
    assert 3 * side**2 <= 10**6 < 3 * (side + 1) ** 2
    assert side**3 <= (10**6 / 3) ** 1.5 < 2**28
    assert (
        net((1, 1, side), Dense(low_rank(side, side, side), None, 0, 0)).layers[0].weight[0, 0]
        == side
    )


@pytest.mark.parametrize(
    "name", ["weights and coefficients", "biases count", "layers share the limit", "input"]
)
def test_what_is_within_a_limit_can_be_written_and_read(name: str) -> None:
    made = WITHIN_AND_BEYOND[name][1]()
    message = encode(made)
    assert same(decode(message.data, message.bits), made)


def test_fields_beyond_the_format_are_refused_when_written() -> None:
    one = grid([[1], [1]])
    deep = [Dense(grid([[1]]), None, 0, 0)] * 63
    encode(net((1, 1, 1), *deep, Dense(one, None, 0, 0)))
    for made, reason in (
        (lambda: net((1, 1, 1), *deep, deep[0], Dense(one, None, 0, 0)), "65"),
        (lambda: net((1, 1, 1), Dense(Grid(ones(2, 1), 128), None, 0, 0)), "128"),
        (lambda: net((1, 1, 1), Dense(one, None, 0, 3)), "not shifted"),
        (lambda: net((1, 1, 1), Dense(one, None, 3, 0)), "no bias shift"),
        (
            lambda: net((1, 1, 1), Dense(grid([[1]]), None, 0, 53), Dense(one, None, 0, 0)),
            "shift of 53",
        ),
        (lambda: net((1, 1, 1), Dense(one, ones(2), 41, 0)), "shift of"),
        (lambda: net((1, 1, 1), Dense(one, np.array([0, 2**40]), 0, 0)), "larger"),
        (lambda: net((1, 1030, 1030), Pool("max", 1030), head(1)), "feature map"),
        (lambda: net((1, 1, 1), Conv(zeros(1, 1, 1, 1), None, 0, 0, 1025), head(1)), "1025"),
        (lambda: IntegerNet((1, 1, 1), Floats(13, (0,), (0,)), (Dense(one, None, 0, 0),)), "13"),
    ):
        with pytest.raises(Malformed, match=reason):
            encode(made())


@pytest.mark.parametrize(
    "layers",
    [
        (),
        (Pool("max", 2),),
        (Dense(zeros(2, 3), None, 0, 0),),
        (Dense(Grid(ones(1, 4), 1), None, 0, 0),),
        (Pool("mean", 2), head(1)),
        (Pool("max", 1), head(4)),
        (Pool("max", 4), head(1)),
        (Dense(zeros(4, 4), None, 0, 0), Pool("max", 2), head(1)),
        (Dense(zeros(4, 4), None, 0, 0), Conv(zeros(1, 4, 1, 1), None, 0, 0), head(1)),
        (Conv(zeros(1, 1, 2, 2), None, 0, 0, 1, 2), head(25)),
        (Conv(zeros(1, 1, 2, 2), None, 0, 0, 1, -1), head(1)),
        (Conv(zeros(1, 1, 2, 2), None, 0, 0, 0, 0), head(1)),
        (Conv(zeros(1, 2, 2, 2), None, 0, 0), head(1)),
        (Conv(zeros(1, 1, 2, 1), None, 0, 0), head(2)),
        (Conv(zeros(1, 1, 3, 3), None, 0, 0), head(1)),
        (Conv(zeros(1, 4), None, 0, 0), head(1)),
        (Conv(zeros(1, 1, 1, 1, 1), None, 0, 0), head(4)),
    ],
)
def test_nets_outside_the_grammar_are_refused(layers: tuple[Layer, ...]) -> None:
    with pytest.raises(Malformed):
        net((1, 2, 2), *layers)
    with pytest.raises(Malformed):
        IntegerNet((1, 0, 2), Bytes(0), (head(0),))


# ---- hostile messages, written without the encoder


def written(shape: tuple[int, int, int], *fields: str | int, depth: int = 1) -> tuple[bytes, int]:
    """A header for byte inputs; text is bits as they stand, numbers are gamma words."""
    writer = BitWriter()
    for field in (2, *shape, "0", 1, depth, *fields):
        if isinstance(field, int):
            writer.gamma(field)
        else:
            writer.fixed(int(field, 2), len(field))
    return writer.to_bytes(), len(writer)


HOSTILE = {
    "9·10^11 weights": written((1, 1000, 1000), "00", 900_000, 1, 1, "0"),
    "more outputs than weights": written((1, 1, 1), "00", 10**6 + 1, 1, 1, "0"),
    "layers that share the limit": written(
        (1, 1, 1000), *["00", 900, 1, 1, "0", 1] * 3, "00", 2, 1, 1, "0", depth=4
    ),
    "biases that share the limit": written(
        (1, 1, 1), *["00", 300_000, 1, 1, "1", 1, 1, "00", 1, 1, 1, "0", 1] * 2, depth=5
    ),
    "a long projection": written((1, 1, 2**18), "00", 2, 4, 1, 257, 1, 1, "0"),
    "many projections": written(
        (1, 1, 300), *["00", 300, 4, 1, 500, 1, 1, "0", 1] * 10, "00", 2, 1, 1, "0", depth=11
    ),
    "a long sign projection": written((1, 1, 2**14), "00", 2, 6, 1, 2**19, 1, "0"),
    "many sign projections": written(
        (1, 1, 500), *["00", 500, 6, 1, 15_000, 1, "0", 1] * 3, "00", 2, 6, 1, 1, 1, "0", depth=4
    ),
    "a product of many ranks": written((1, 1, 2), "00", 2, 7, 10**6, 1, "0"),
    "a product beyond all weights": written((1, 1, 10**5), "00", 3, 7, 7, 1, "0"),
    "products that share the limit": written(
        (1, 1, 300), *["00", 300, 7, 600, 1, "0", 1] * 3, depth=4
    ),
    "coefficients beyond all weights": written((1, 1, 2), "00", 2, 4, 1, 10**6, 1, 1, "0"),
    "a kernel of 2^20 weights": written(
        (1, 8, 8), "01", 1, 1024, 1, 1024, 2, "00", 1, 1, "0", 1, depth=2
    ),
    "a symmetry of a large kernel": written(
        (1, 400, 400), "01", 1, 400, 400, 1, 2, "11", 1, 1, "0", 1, "00", 2, "0", 1, 1, "0", depth=2
    ),
    "a huge input": written((2**20, 2**20, 2**20), "10", 2**20 - 1, "00", 2, 1, 1, "0", depth=2),
    "an input beyond 2^20": written((2**20 + 1, 1, 1), "00", 2, 1, 1, "0"),
    "a hundred layers": written((1, 1, 1), "00", 2, 1, 1, "0", depth=100),
    "a stride of 2^30": written((1, 8, 8), "01", 1, 1, 2**30, 1, 2, "00", 1, 1, "0", 1, depth=2),
    "groups that do not divide": written(
        (3, 8, 8), "01", 3, 1, 1, 1, 3, "00", 1, 1, "0", 1, depth=2
    ),
    "depthwise with a new symmetry": written(
        (3, 8, 8), "01", 3, 1, 1, 1, 1, "10", 1, 1, "0", 1, depth=2
    ),
    "a convolution of a row": written(
        (1, 2, 2), "00", 2, 1, 1, "0", 1, "01", 2, 1, 1, 1, 2, "00", 1, 1, "0", depth=2
    ),
    "quarter turns of an oblong": written(
        (1, 2, 3), "01", 1, 1, 1, 1, 2, "10", 1, 1, "0", 1, "00", 2, "1", 1, 1, "0", depth=2
    ),
    "no end": (bytes(2**16), 2**19),
    "a long word": written((1, 1, 1), "0" * 41 + "1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_are_refused_before_they_cost_anything(name: str) -> None:
    data, bits = HOSTILE[name]
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            decode(data, bits)
        assert tracemalloc.get_traced_memory()[1] < 3 * 10**7
    finally:
        tracemalloc.stop()


def test_a_short_message_for_many_numbers_stays_within_its_memory() -> None:
    """Sixty bits can ask for 20 000 weights, all zero: about a hundred bytes of memory each, and
    some time.
    """
    data, bits = written((1, 1, 10_000), "00", 2, 1, 1, "0", "0" * 20)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="canonical"):
            decode(data, bits)
        assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
    finally:
        tracemalloc.stop()


def test_the_largest_projection_stays_within_its_memory() -> None:
    tracemalloc.start()
    try:
        assert projection(150, (2, 440_000)).numbers.shape == (2, 440_000)
        assert tracemalloc.get_traced_memory()[1] < 10**8
    finally:
        tracemalloc.stop()


def test_a_large_sign_projection_stays_within_its_memory() -> None:
    tracemalloc.start()
    try:
        assert tabled(150, (2, 440_000)).numbers.shape == (2, 440_000)
        # the numbers themselves, twice, and a block
        assert tracemalloc.get_traced_memory()[1] < 3 * 10**7
    finally:
        tracemalloc.stop()


def test_decisions_are_counted_when_writing_and_when_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tiny()
    message = encode(made)
    asked = 0
    plain = format_reader.Stream.decide

    def counted(self: format_reader.Stream, context: list[int]) -> int:
        nonlocal asked
        asked += 1
        return plain(self, context)

    monkeypatch.setattr(format_reader.Stream, "decide", counted)
    format_reader.read(message.data, message.bits)
    monkeypatch.setattr(arithmetic, "MOST_DECISIONS", asked)
    assert same(decode(message.data, message.bits), made)
    monkeypatch.setattr(arithmetic, "MOST_DECISIONS", asked - 1)
    with pytest.raises(Malformed, match="decisions that the format allows"):
        encode(made)
    with pytest.raises(Malformed, match="decisions that the format allows"):
        decode(message.data, message.bits)


def test_long_messages_are_refused_when_written_and_when_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = encode(tiny())
    monkeypatch.setattr(messages, "MOST_BITS", message.bits)
    assert same(decode(message.data, message.bits), tiny())
    monkeypatch.setattr(messages, "MOST_BITS", message.bits - 1)
    with pytest.raises(Malformed, match="longer"):
        encode(tiny())
    with pytest.raises(Malformed, match="longer"):
        decode(message.data, message.bits)
