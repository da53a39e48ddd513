"""The message as bits: golden words that fix the format, and strictness about ends, lengths and
versions.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests import format_reader
from tests.encoding_cases import examples, grid, same, tiny

from cushion.certificates.format.bits import BitWriter
from cushion.certificates.format.inputs import Bytes, Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Values,
)
from cushion.errors import Malformed


def numbers(n: int, levels: int, *shape: int) -> np.ndarray:
    """Numbers that no generator can change: n, 2n, 3n, ... folded into -levels..levels."""
    return (n * np.arange(1, int(np.prod(shape)) + 1) % (2 * levels + 1) - levels).reshape(shape)


GOLDEN = {
    "grid": (tiny(), "61:54848ab877adcad8"),
    "values and biases": (
        IntegerNet(
            (1, 1, 3),
            Bytes(0),
            (
                Dense(Values(np.array([[0, -1, 0], [100, 0, 2**40 - 1]])), np.array([-3, 0]), 4, 9),
                Dense(grid([[1, 0], [0, -1]]), None, 0, 0),
            ),
        ),
        "162:5b5094a2859cb7dda5ffffffffda07fffffff931c0",
    ),
    "convolutions and pooling": (
        IntegerNet(
            (2, 6, 7),
            Bytes(2),
            (
                Conv(Grid(numbers(3, 2, 4, 1, 3, 3), 2), np.array([1, -1, 0, 7]), 1, 3, 2, 1, 2),
                Conv(Grid(numbers(5, 1, 4, 1, 2, 2), 1), None, 0, 0, 1, 1, 0),
                Pool("max", 2),
                Pool("sum", 2),
                Dense(Grid(numbers(2, 3, 3, 4), 3), None, 0, 0),
            ),
        ),
        "276:48c732a46932a889154dbc769c596707348dd42cdd1a0ce54e2aee59e1f177c1900990",
    ),
    "symmetry": (
        IntegerNet(
            (1, 5, 5),
            Bytes(2),
            (
                Conv(grid([[[[1, 1], [0, -1]]]]), None, 0, 1, symmetry=4),
                Conv(grid([[[[[1]], [[-1]], [[0]], [[1]]]]]), np.array([20]), 1, 0, symmetry=4),
                Conv(grid([[[[1, 0], [1, -1]]]]), None, 0, 0, groups=0, symmetry=4),
                Conv(grid([[[[1]], [[-1]], [[1]], [[1]]]]), None, 0, 0, symmetry=8),
                Conv(Grid(numbers(3, 2, 1, 8, 2, 2), 2), None, 0, 0, symmetry=2),
                Dense(Grid(numbers(7, 2, 2, 1, 2, 2), 2), None, 0, 0, 2),
            ),
        ),
        "271:5294ccd6ac9f5756bdafaf5ad348b495d141a8eccfcdfad7ab2becc67cc6ff523fe6",
    ),
    "seeds": (
        IntegerNet(
            (1, 1, 4),
            Bytes(0),
            (
                Dense(SeededMask(numbers(1, 1, 3, 4) % 2, 0, 1), None, 0, 2),
                Dense(SeededProjection(np.array([5, -9]), (3, 3), 3, 2, 1, 2), None, 0, 4),
                Dense(SeededNoise(numbers(2, 1, 2, 3), 2**32 - 1, 3, 4), np.array([1, -1]), 2, 0),
            ),
        ),
        "193:59163731908931445000000008000000012dd2e88d64c5b800",
    ),
    "sign projections": (
        IntegerNet(
            (1, 1, 4),
            Bytes(0),
            (
                Dense(SignProjection(numbers(5, 9, 67), (3, 4), 2**32 - 1, 1, 2), None, 0, 6),
                Dense(
                    SignProjection(np.array([1 - 2**40, 0, 3]), (2, 3), 0, 2, 31),
                    np.array([1, -1]),
                    2,
                    0,
                ),
            ),
        ),
        "567:59143300000000400000000086c711ac105f8462b8cd035e58da428832dca397ece4cdf17487e60cd97ed033be265c25888b1e1620f150679ca7a22c3efc7fff32044377fe9cb0",
    ),
    "products": (
        IntegerNet(
            (2, 3, 3),
            Bytes(0),
            (
                Conv(Product(numbers(5, 9, 2 * (3 + 8)), (3, 2, 2, 2), 2, 1), None, 0, 7),
                Dense(
                    Product(np.array([1, -2, 3, *[2**39, 0, -1] * 4]), (3, 12), 1, 40),
                    np.array([1, -1, 0]),
                    2,
                    0,
                ),
            ),
        ),
        "479:49b52d683a41033c14df8462b8cd035e58da428832dca397b19fa1173fd7fd5df106e000374cc422b7a2a000294049933d38400d08edd2e24e00245a",
    ),
    "floats": (
        IntegerNet(
            (1, 1, 2), Floats(5, (3, -2), (-40, 7)), (Dense(grid([[1, 0], [-1, 1]]), None, 0, 0),)
        ),
        "64:5a96602894745a3c",
    ),
    "one quantiser": (
        IntegerNet(
            (2, 1, 1), Floats(12, (-128,), (2**24,)), (Dense(grid([[1, 0], [-1, 1]]), None, 0, 0),)
        ),
        "104:4b8c0040400000100000045a3c",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_messages(name: str) -> None:
    """Length in bits, the bits, and the scores of four fixed examples: what a released format never
    changes.
    """
    net, golden = GOLDEN[name]
    message = encode(net)
    assert f"{message.bits}:{message.data.hex()}" == golden
    assert same(decode(message.data, message.bits), net)
    second = format_reader.read(message.data, message.bits)
    x = examples(net, 4)
    assert net.scores(x).tolist() == [
        format_reader.scores(second, row.reshape(-1).tolist()) for row in x
    ]


def test_golden_scores() -> None:
    """The two evaluators could be wrong together about a generator or a motion, so a few scores are
    fixed as well.
    """
    x = np.arange(25, dtype=np.uint8)[None] ** 2
    assert GOLDEN["symmetry"][0].scores(x).tolist() == [[301, -69]]
    assert GOLDEN["seeds"][0].scores(np.array([[1, 20, 3, 255]], dtype=np.uint8)).tolist() == [
        [-675, -1963]
    ]
    assert GOLDEN["sign projections"][0].scores(
        np.array([[9, 200, 3, 4]], dtype=np.uint8)
    ).tolist() == [[-20476, 20446]]
    assert GOLDEN["products"][0].scores(np.arange(18, dtype=np.uint8)[None] ** 2).tolist() == [
        [-10, -49, 31]
    ]
    assert GOLDEN["floats"][0].scores(np.array([[0.5, 99.0]], dtype=np.float32)).tolist() == [
        [31, -14]
    ]


def test_the_header_word_by_word() -> None:
    text = "".join(f"{byte:08b}" for byte in encode(tiny()).data)
    # version 2, shape 1 2 2, bytes, shift 3+1, depth 1, dense, 2 outputs, grid, 2 levels, biases in
    # steps of 1
    start = ["010", "1", "010", "010", "0", "00100", "1", "00", "010", "1", "010", "1", "1"]
    assert text.startswith("".join(start))


def test_the_ledger_names_what_was_paid() -> None:
    net = GOLDEN["seeds"][0]
    ledger = encode(net).ledger
    assert [item.item for item in ledger] == [
        "format version",
        "input",
        "depth",
        *(f"layer {n}: kind" for n in (1, 2, 3)),
        *(f"layer {n}: weights" for n in (1, 2, 3)),
        "layer 3: biases",
        "end of the coded stream",
    ]
    assert ledger[0].bits == 3
    assert ledger[1].bits == 1 + 1 + 5 + 1 + 1


@pytest.mark.parametrize(
    ("name", "kind", "weights"),
    [
        (
            "sign projections",
            "Matrix-Project with 67 sign matrices of seed 4294967295",
            "67 coefficients",
        ),
        ("products", "a product of rank 2, shifted by 1", "22 numbers of two factors"),
    ],
)
def test_the_ledger_describes_what_the_compressors_of_arora_2018_store(
    name: str, kind: str, weights: str
) -> None:
    meanings = {item.item: item.meaning for item in encode(GOLDEN[name][0]).ledger}
    assert kind in meanings["layer 1: kind"]
    assert meanings["layer 1: weights"] == f"{weights}, adaptively coded"


@pytest.mark.parametrize("name", ["sign projections", "products"])
def test_every_single_bit_matters(name: str) -> None:
    net = GOLDEN[name][0]
    message = encode(net)
    text = "".join(f"{byte:08b}" for byte in message.data)[: message.bits]
    others = 0
    for place in range(message.bits):
        try:
            other = decode(*packed(text[:place] + str(1 - int(text[place])) + text[place + 1 :]))
        except Malformed:
            continue
        others += 1
        assert not same(other, net)
    assert others  # a seed, a shift or a coefficient can change and leave a message


# ---- strictness


def packed(text: str) -> tuple[bytes, int]:
    size = -(-len(text) // 8)
    return int(text.ljust(8 * size, "0") or "0", 2).to_bytes(size, "big"), len(text)


def test_trailing_bits_and_wrong_lengths_are_refused() -> None:
    message = encode(tiny())
    for data, bits in (
        (message.data + b"\x00", message.bits + 8),
        (message.data + b"\x00", message.bits),
        (message.data[:-1], message.bits),
        (message.data, message.bits - 1),
        (message.data, message.bits + 1),
        (b"", 0),
        (b"\x00", 0),
    ):
        with pytest.raises(Malformed):
            decode(data, bits)


def test_other_versions_are_refused() -> None:
    text = "".join(f"{byte:08b}" for byte in encode(tiny()).data)
    for version, word in ((1, "1"), (3, "011"), (4, "00100")):
        with pytest.raises(Malformed, match=f"version {version}"):
            decode(*packed(word + text[3:]))


def test_another_end_of_the_stream_is_refused() -> None:
    """Other last bits can name another interval inside the final one: the same net, but not its
    message.
    """
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(40):
        net = IntegerNet(
            (1, 2, 2), Bytes(0), (Dense(Grid(rng.integers(-2, 3, (3, 4)), 2), None, 0, 0),)
        )
        message = encode(net)
        text = "".join(f"{byte:08b}" for byte in message.data)[: message.bits]
        for end in ("00", "01", "10", "11"):
            if text.endswith(end):
                continue
            data, bits = packed(text[:-2] + end)
            alike = (
                format_reader.read(data, bits)["layers"][0]["coded"]
                == net.layers[0].weight.reshape(-1).tolist()
            )
            try:
                assert not same(decode(data, bits), net)
            except Malformed:
                refused += alike
    assert refused  # some of these ends decode to the very same net


def test_a_stream_that_ends_early_is_refused_where_it_ends() -> None:
    """A decoder runs 30 bits ahead of a whole stream and never further, so a cut one is noticed
    while it is read.
    """
    rng = np.random.default_rng(0)
    net = IntegerNet(
        (1, 1, 400), Bytes(0), (Dense(Grid(rng.integers(-3, 4, (5, 400)), 3), None, 0, 0),)
    )
    message = encode(net)
    text = "".join(f"{byte:08b}" for byte in message.data)[: message.bits]
    for kept in (message.bits - 40, message.bits - 400, 40):
        with pytest.raises(Malformed, match="too early"):
            decode(*packed(text[:kept]))


@pytest.mark.parametrize(
    "words",
    [
        [(8, "source")],  # there are seven
        [(1, "source"), (128, "levels")],
        [(3, "source"), (2**32 + 1, "seed")],
        [(5, "source"), (1, "seed"), (2**20 + 1, "amplitude")],
        [(4, "source"), (1, "seed"), (10**6 + 1, "coefficients")],
        [(4, "source"), (1, "seed"), (1, "coefficients"), (54, "shift")],
        [(4, "source"), (1, "seed"), (1, "coefficients"), (1, "shift"), (2**20 + 2, "amplitude")],
        [(6, "source"), (2**32 + 1, "seed")],
        [(6, "source"), (1, "seed"), (10**6 + 1, "coefficients")],
        [(6, "source"), (1, "seed"), (1, "coefficients"), (54, "shift")],
        [(7, "source"), (10**6 + 1, "rank")],
        [(7, "source"), (1, "rank"), (54, "shift")],
    ],
)
def test_fields_of_a_source_beyond_the_format_are_refused(words: list[tuple[int, str]]) -> None:
    writer = BitWriter()
    for value in (2, 1, 2, 2):
        writer.gamma(value)
    writer.fixed(0, 1)
    for value in (1, 1):  # input shift, one layer
        writer.gamma(value)
    writer.fixed(0, 2)
    writer.gamma(2)
    for value, _ in words:
        writer.gamma(value)
    with pytest.raises(Malformed, match="limit"):
        decode(writer.to_bytes(), len(writer))


def test_own_quantisers_need_two_features_and_the_room_for_them() -> None:
    for shape, reason in (
        ((1, 1, 1), "1 features"),
        ((1, 1000, 1000), "ends too early"),
        ((1, 2**20, 2**20), "features"),
    ):
        writer = BitWriter()
        for value in (2, *shape):
            writer.gamma(value)
        writer.fixed(1, 1)
        writer.gamma(4)
        writer.fixed(1, 1)
        with pytest.raises(Malformed, match=reason):
            decode(writer.to_bytes(), len(writer))
