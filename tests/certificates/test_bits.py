"""Bit strings and the arithmetic coder: golden words, exact lengths, round trips,
prefix-freeness.
"""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cushion.certificates.format.arithmetic import ArithmeticDecoder, ArithmeticEncoder, Context
from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.errors import Malformed


def bits_of(writer: BitWriter) -> str:
    text = "".join(f"{byte:08b}" for byte in writer.to_bytes())
    assert set(text[len(writer) :]) <= {"0"}
    return text[: len(writer)]


# ---- bits


@pytest.mark.parametrize(
    ("value", "word"), [(1, "1"), (2, "010"), (3, "011"), (4, "00100"), (10, "0001010")]
)
def test_gamma_golden_words(value: int, word: str) -> None:
    writer = BitWriter()
    writer.gamma(value)
    assert bits_of(writer) == word
    assert BitReader(writer.to_bytes(), len(writer)).gamma() == value


def test_gamma_meets_kraft_with_equality_in_the_limit() -> None:
    """Σ 2^-length ≤ 1 over all words: l + 2 log2 l charged for a length would break this."""
    total = sum(2.0 ** -(2 * n.bit_length() - 1) for n in range(1, 2**16))
    assert 0.999 < total <= 1.0


def test_reader_is_strict() -> None:
    with pytest.raises(Malformed, match="bytes"):
        BitReader(b"\x00\x00", 8)
    with pytest.raises(Malformed, match="zero"):
        BitReader(b"\x01", 7)
    with pytest.raises(Malformed, match="too early"):
        BitReader(b"\x00", 3).fixed(0, 4)
    with pytest.raises(Malformed, match="absurdly"):
        BitReader(bytes(20), 160).gamma()


@pytest.mark.parametrize(
    ("value", "word"), [(0, "1"), (1, "010"), (-1, "011"), (2, "00100"), (-2, "00101")]
)
def test_signed_golden_words(value: int, word: str) -> None:
    writer = BitWriter()
    writer.signed(value, 2)
    assert bits_of(writer) == word
    assert BitReader(writer.to_bytes(), len(writer)).signed(0, 2) == value
    with pytest.raises(Malformed, match="limit"):
        BitReader(writer.to_bytes(), len(writer)).signed(0, abs(value) - 1)


def test_what_is_beyond_a_limit_is_neither_written_nor_read() -> None:
    writer = BitWriter()
    writer.bounded(8, 8)
    assert BitReader(writer.to_bytes(), len(writer)).bounded(1, 8) == 8
    with pytest.raises(Malformed, match="limit"):
        BitReader(writer.to_bytes(), len(writer)).bounded(1, 7)
    for value in (9, 0, -1):
        with pytest.raises(Malformed, match="limit"):
            writer.bounded(value, 8)
    for value in (3, -3):
        with pytest.raises(Malformed, match="limit"):
            writer.signed(value, 2)
    assert len(writer) == 7  # nothing was written by what was refused


@given(st.lists(st.integers(0, 1), max_size=40))
def test_bits_are_packed_most_significant_first(bits: list[int]) -> None:
    writer = BitWriter()
    for bit in bits:
        writer.put(bit)
    text = "".join(map(str, bits))
    padded = text.ljust(-(-len(text) // 8) * 8, "0")
    assert writer.to_bytes() == bytes(int(padded[i : i + 8], 2) for i in range(0, len(padded), 8))
    assert bits_of(writer) == text


def test_thirty_zeros_past_the_end_and_no_more() -> None:
    reader = BitReader(b"\x80", 1)
    assert [reader.ahead() for _ in range(31)] == [1] + [0] * 30
    with pytest.raises(Malformed, match="too early"):
        reader.ahead()


# ---- the arithmetic coder


def code(symbols: list[int], kinds: list[int]) -> tuple[BitWriter, list[int]]:
    writer = BitWriter()
    coder = ArithmeticEncoder(writer)
    contexts = [Context() for _ in range(3)]
    for bit, kind in zip(symbols, kinds, strict=True):
        coder.decide(bit, contexts[kind])
    coder.finish()
    decoder = ArithmeticDecoder(BitReader(writer.to_bytes(), len(writer)))
    contexts = [Context() for _ in range(3)]
    return writer, [decoder.decide(0, contexts[kind]) for kind in kinds]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=400))
def test_arithmetic_round_trip_and_length(pairs: list[tuple[int, int]]) -> None:
    """The stream is at most two bits (and a sliver of rounding) longer than -log2 of the KT
    probability.
    """
    symbols, kinds = [p[0] for p in pairs], [p[1] for p in pairs]
    writer, back = code(symbols, kinds)
    assert back == symbols
    longer = BitReader(writer.to_bytes(), len(writer))
    decoder, contexts = ArithmeticDecoder(longer), [Context() for _ in range(3)]
    for kind in kinds:
        decoder.decide(0, contexts[kind])
    assert longer.position == len(writer) + 30  # what the limit on looking ahead relies on
    ideal, seen = 0.0, [[0, 0] for _ in range(3)]
    for bit, kind in pairs:
        ideal -= math.log2((seen[kind][bit] + 0.5) / (sum(seen[kind]) + 1))
        seen[kind][bit] += 1
    assert math.floor(ideal) <= len(writer) <= ideal + 2.01


def test_streams_of_the_same_length_are_prefix_free_and_meet_kraft() -> None:
    """All 2^10 streams of ten decisions: no word begins another, and Σ 2^-length ≤ 1."""
    words = []
    for value in range(2**10):
        writer, _ = code([value >> i & 1 for i in range(10)], [0] * 10)
        words.append(bits_of(writer))
    ordered = sorted(words)
    assert all(not b.startswith(a) for a, b in itertools.pairwise(ordered))
    assert sum(2.0 ** -len(word) for word in words) <= 1.0
