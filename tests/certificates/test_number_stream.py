"""The message of stored numbers: a second reader written from its description alone, Kraft's sum,
and hostile bits.
"""

from __future__ import annotations

import itertools
import random
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from cushion.certificates.format.number_stream import (
    MOST_NUMBERS,
    NumberReader,
    check_canonical,
    encode_numbers,
)
from cushion.errors import Malformed

LARGEST = 2**40 - 1


def bits_of(data: bytes, length: int) -> list[int]:
    return [data[at // 8] >> (7 - at % 8) & 1 for at in range(length)]


class SecondReader:
    """Exact interval arithmetic on the bits after the fields: the stream is a number v in [0, 1)
    with the binary digits of the message, the current interval is [low, low + width) in fractions
    of the 32-bit register, rescaled as Witten, Neal and Cleary describe. Whatever follows the
    stream (raw bits) only refines v.
    """

    def __init__(self, bits: list[int]) -> None:
        self.bits, self.at = bits, 0

    def take(self) -> int:
        self.at += 1
        return self.bits[self.at - 1]

    def gamma(self) -> int:
        zeros = 0
        while not self.take():
            zeros += 1
        value = 1
        for _ in range(zeros):
            value = 2 * value + self.take()
        return value

    def stream(self, counts: list[int]) -> list[list[int]]:
        """The bit lengths of arrays of these sizes, and the position just behind the stream."""
        low, high, shifts, pending = 0, 2**32 - 1, 0, 0
        digits = self.bits[self.at :] + [0] * 64
        code = int("".join(map(str, digits[:32])), 2)
        used = 32
        found = []
        for count in counts:
            contexts = [[1, 1] for _ in range(40)]  # odds of "no more bits" against "more"
            lengths = []
            for _ in range(count):
                length = 0
                while length < 40:
                    odds = contexts[length]
                    split = low + (high - low + 1) * odds[0] // sum(
                        odds
                    )  # the first value that means "more"
                    more = code >= split
                    low, high = (split, high) if more else (low, split - 1)
                    odds[more] += 2
                    if sum(odds) > 4096:
                        odds[:] = [each // 2 | 1 for each in odds]
                    while True:
                        if high < 2**31:
                            pending, shifts, cut = 0, shifts + 1 + pending, 0
                        elif low >= 2**31:
                            pending, shifts, cut = 0, shifts + 1 + pending, 2**31
                        elif low >= 2**30 and high < 3 * 2**30:
                            pending, cut = pending + 1, 2**30
                        else:
                            break
                        low, high = 2 * (low - cut), 2 * (high - cut) + 1
                        code = 2 * (code - cut) + (digits[used] if used < len(digits) else 0)
                        used += 1
                    if not more:
                        break
                    length += 1
                lengths.append(length)
            found.append(lengths)
        self.at += shifts + pending + 2  # two closing bits name a quarter of the register
        return found

    def numbers(self, lengths: list[int]) -> list[int]:
        found = []
        for length in lengths:
            if length == 0:
                found.append(0)
                continue
            negative, magnitude = self.take(), 1
            for _ in range(length - 1):
                magnitude = 2 * magnitude + self.take()
            found.append(-magnitude if negative else magnitude)
        return found


def read_again(
    data: bytes, length: int, fields: int, counts: list[int]
) -> tuple[list[int], list[list[int]], int]:
    reader = SecondReader(bits_of(data, length))
    found = [reader.gamma() - 1 for _ in range(fields)]
    arrays = [reader.numbers(lengths) for lengths in reader.stream(counts)]
    return found, arrays, reader.at


def generic(seed: int) -> tuple[list[int], list[np.ndarray]]:
    source = random.Random(seed)
    fields = [source.choice([0, 1, 5, 1100, 2**40 - 1]) for _ in range(source.randrange(5))]
    arrays = []
    for _ in range(source.randrange(4)):
        shape = source.choice([(0,), (1,), (7,), (3, 4), (2, 0), (1, 2, 5), ()])
        widest = source.choice([0, 1, 3, 8, 30, 40])
        draws = [
            source.randint(-(2**widest) + 1, 2**widest - 1) for _ in range(int(np.prod(shape)))
        ]
        arrays.append(np.array(draws, dtype=np.int64).reshape(shape))
    return fields, arrays


SPECIAL = {
    "nothing": ([], []),
    "empty arrays": ([3], [np.zeros((0, 4), dtype=np.int64), np.zeros(0, dtype=np.int64)]),
    "one zero": ([], [np.zeros(1, dtype=np.int64)]),
    "zeros": ([0, 0], [np.zeros((50, 40), dtype=np.int64), np.zeros(3, dtype=np.int64)]),
    "largest": ([2**40 - 1], [np.array([LARGEST, -LARGEST, 0, 1, -1, 2**39, -(2**39)])]),
    "not contiguous": ([], [np.arange(-12, 12).reshape(4, 6).T[::2]]),
}
CASES = {**SPECIAL, **{f"random {seed}": generic(seed) for seed in range(40)}}


@pytest.mark.parametrize("name", CASES)
def test_numbers_come_back_and_a_second_reader_agrees_to_the_last_bit(name: str) -> None:
    fields, arrays = CASES[name]
    coded = encode_numbers(fields, arrays)
    reader = NumberReader(coded.data, coded.bits)
    assert [reader.field() for _ in fields] == fields
    found = reader.arrays([array.shape for array in arrays])
    assert [part.shape for part in found] == [array.shape for array in arrays]
    assert all(np.array_equal(a, b) for a, b in zip(found, arrays, strict=True))
    check_canonical(coded.data, coded.bits, encode_numbers(fields, found))
    assert len(coded.data) == -(-coded.bits // 8)
    again, numbers, used = read_again(
        coded.data, coded.bits, len(fields), [array.size for array in arrays]
    )
    assert again == fields
    assert numbers == [array.reshape(-1).tolist() for array in arrays]
    assert used == coded.bits
    assert len(coded.arrays) == len(arrays)
    gamma = sum(2 * (field + 1).bit_length() - 1 for field in fields)
    assert 1 <= coded.bits - gamma - sum(coded.arrays) <= 2  # what ends the stream is nobody's


def test_long_skewed_arrays_pass_the_halving_of_counts() -> None:
    """More than 2^12 decisions in one context, in both directions."""
    draws = np.random.default_rng(1)
    rare = (draws.random(6000) < 0.002) * draws.integers(-5, 6, 6000)
    many = draws.integers(1, 2, 5000) * 8 + 7  # all of the same length
    coded = encode_numbers([1], [rare, many])
    _, numbers, used = read_again(coded.data, coded.bits, 1, [6000, 5000])
    assert numbers == [rare.tolist(), many.tolist()]
    assert used == coded.bits
    reader = NumberReader(coded.data, coded.bits)
    reader.field()
    assert all(
        np.array_equal(a, b)
        for a, b in zip(reader.arrays([(6000,), (5000,)]), (rare, many), strict=True)
    )


def test_zeros_cost_at_least_what_the_reader_takes_for_granted() -> None:
    """A message of n numbers has n/2^12 bits or more: the reader's limit never refuses what was
    written. Without the halving of counts these zeros would take ½·log2(πn), 9 bits, in place of
    some 50.
    """
    zeros = np.zeros(100_000, dtype=np.int64)
    coded = encode_numbers([], [zeros])
    assert 4096 * coded.bits >= 100_000
    assert coded.bits < 100
    assert np.array_equal(NumberReader(coded.data, coded.bits).arrays([zeros.shape])[0], zeros)


def test_no_message_begins_another_so_the_sum_over_all_is_at_most_one() -> None:
    """Kraft: Σ 2^-length over every pair in -3..3 with two fields in 0..2, exactly; and no message
    is a prefix.
    """
    total, words = Fraction(0), []
    for fields in itertools.product(range(3), repeat=2):
        for pair in itertools.product(range(-3, 4), repeat=2):
            coded = encode_numbers(list(fields), [np.array(pair)])
            total += Fraction(1, 2**coded.bits)
            words.append("".join(map(str, bits_of(coded.data, coded.bits))))
    assert len(set(words)) == 9 * 49
    assert total <= 1
    words.sort()
    assert not any(after.startswith(before) for before, after in itertools.pairwise(words))


def decode(
    data: bytes, length: int, fields: int, shapes: list[tuple[int, ...]]
) -> tuple[list[int], list[np.ndarray]]:
    """As a strict reader does: what is read must encode to the message itself."""
    reader = NumberReader(data, length)
    found = [reader.field() for _ in range(fields)]
    arrays = reader.arrays(shapes)
    check_canonical(data, length, encode_numbers(found, arrays))
    return found, arrays


def packed(bits: list[int]) -> bytes:
    return np.packbits(np.array(bits, dtype=np.uint8)).tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_every_shorter_or_longer_message_is_refused(seed: int) -> None:
    fields, array = [7, 0, 1100], np.random.default_rng(seed).integers(-40, 40, 9)
    coded = encode_numbers(fields, [array])
    bits = bits_of(coded.data, coded.bits)
    for length in range(len(bits)):
        with pytest.raises(Malformed):
            decode(packed(bits[:length]), length, 3, [(9,)])
    for tail in ([0], [1], [0] * 8, [1, 0, 1], [0] * 40):
        with pytest.raises(Malformed):
            decode(packed(bits + tail), len(bits) + len(tail), 3, [(9,)])
    with pytest.raises(Malformed):  # padding is zero
        decode(
            coded.data[:-1] + bytes([coded.data[-1] | 1]),
            coded.bits - (coded.bits % 8 == 0),
            3,
            [(9,)],
        )
    with pytest.raises(Malformed):
        decode(coded.data + b"\0", coded.bits, 3, [(9,)])


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_refused_or_another_message(seed: int) -> None:
    fields, array = [7, 1], np.random.default_rng(seed).integers(-9, 9, 12)
    coded = encode_numbers(fields, [array])
    bits, read = bits_of(coded.data, coded.bits), 0
    for at in range(len(bits)):
        other = [*bits[:at], 1 - bits[at], *bits[at + 1 :]]
        try:
            found, arrays = decode(packed(other), len(other), 2, [(12,)])
        except Malformed:
            continue
        read += 1
        assert found != fields or not np.array_equal(arrays[0], array)
    assert read > 0  # a sign, at least


def test_noise_is_refused_or_read_canonically() -> None:
    source, read = random.Random(0), 0
    for _ in range(1500):
        bits = [source.randrange(2) for _ in range(source.randrange(1, 24))]
        try:
            found, arrays = decode(packed(bits), len(bits), 1, [(source.randrange(4),)])
        except Malformed:
            continue
        read += 1
        coded = encode_numbers(found, arrays)
        assert bits_of(coded.data, coded.bits) == bits
    assert 0 < read < 700


@pytest.mark.parametrize("number", [2**40, -(2**40), 2**62, -(2**63)])
def test_numbers_beyond_forty_bits_are_not_written(number: int) -> None:
    with pytest.raises(Malformed, match="40 bits"):
        encode_numbers([], [np.array([0, number])])


@pytest.mark.parametrize("field", [-1, 2**40])
def test_fields_beyond_the_limits_are_not_written(field: int) -> None:
    with pytest.raises(Malformed, match="beyond"):
        encode_numbers([field], [])


def test_a_field_above_what_its_reader_allows_is_refused() -> None:
    coded = encode_numbers([6, 7], [])
    reader = NumberReader(coded.data, coded.bits)
    assert reader.field(6) == 6
    with pytest.raises(Malformed, match="limit"):
        reader.field(6)


@pytest.mark.parametrize("shape", [(2**30,), (2**20, 2**20), (10**6,), (2**62, 2**62)])
def test_sizes_that_no_such_message_holds_are_refused_before_anything_is_allocated(
    shape: tuple[int, ...],
) -> None:
    coded = encode_numbers([], [np.arange(20)])
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="do not fit"):
            NumberReader(coded.data, coded.bits).arrays([shape])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_more_numbers_than_may_be_read_are_not_written() -> None:
    huge = np.broadcast_to(np.int64(0), (MOST_NUMBERS + 1,))  # takes no memory
    with pytest.raises(Malformed, match="at most"):
        encode_numbers([], [huge])
    with pytest.raises(Malformed, match="do not fit"):  # although so many bits could hold them
        NumberReader(bytes(2**11), 2**14).arrays([(MOST_NUMBERS + 1,)])
