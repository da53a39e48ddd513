"""A matrix of whole numbers in an adaptive code: comes back, as long as a plain model says, the
same on every machine, and never read beyond its limits.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from cushion.certificates.format.arithmetic import ArithmeticDecoder, ArithmeticEncoder
from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.matrix_code import MOST_NUMBER_BITS, code_matrix
from cushion.certificates.format.mixing import Mixer, _logarithms, _odds
from cushion.certificates.format.number_stream import NumberReader, encode_numbers
from cushion.errors import Malformed

Integers = NDArray[np.int64]
RANDOM = np.random.default_rng(5)


def sparse(shape: tuple[int, ...], share: float, most: int, seed: int = 0) -> Integers:
    """Numbers that are not zero with this probability."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, size=shape) * rng.choice([-1, 1], size=shape)
    return np.where(rng.random(shape) < share, sizes, 0).astype(np.int64)


def bits_of(matrix: Integers) -> int:
    return encode_numbers([], [matrix], [True]).bits


MATRICES = {
    "dense": sparse((7, 9), 0.9, 3),
    "empty": np.zeros((4, 5), np.int64),
    "one number": np.pad(np.array([[-5]]), ((2, 3), (4, 1))),
    "kernel": sparse((6, 4, 3, 5), 0.2, 7),
    "sequence kernel": sparse((6, 4, 3), 0.3, 2),
    "one tap": sparse((5, 3, 1, 1), 0.5, 1),
    "large numbers": sparse((3, 3), 1.0, 2**MOST_NUMBER_BITS - 1),
    "empty rows, columns and taps": np.pad(
        sparse((3, 2, 2, 2), 0.8, 4), ((1, 2), (0, 3), (1, 0), (0, 1))
    ),
    "no rows": np.zeros((0, 4), np.int64),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_comes_back_between_others(name: str) -> None:
    matrix, plain = MATRICES[name], RANDOM.integers(-9, 10, size=(3, 2))
    arrays = [plain, matrix, plain, matrix]
    told = [False, True, False, True]
    coded = encode_numbers([3], arrays, told)
    reader = NumberReader(coded.data, coded.bits)
    assert reader.field() == 3
    found = reader.arrays([one.shape for one in arrays], told)
    for a, b in zip(found, arrays, strict=True):
        assert a.shape == b.shape
        assert np.array_equal(a, b)
    assert sum(coded.arrays) <= coded.bits


class Floating:
    """The code again from its description, in floating point: a coder that sums -log2 of the
    probability of each decision.
    """

    def __init__(self) -> None:
        self.bits = 0.0
        self.weights = [0.25, 0.4, 0.2, -0.3, 0.6]
        self.counts: defaultdict[object, list[int]] = defaultdict(lambda: [0, 0])
        self.adaptive: defaultdict[object, list[float]] = defaultdict(lambda: [0.5, 0.5])

    def plain(self, bit: int, where: object) -> None:
        seen = self.adaptive[where]
        self.bits -= math.log2(seen[bit] / sum(seen))
        seen[bit] += 1

    def mixed(self, bit: int, where: list[object]) -> None:
        counts = [self.counts[one] for one in where]
        evidence = [math.log((ones + 0.5) / (zeros + 0.5)) for zeros, ones in counts]
        total = sum(w * e for w, e in zip(self.weights, evidence, strict=True))
        chance = 1 / (1 + math.exp(-min(max(total, -11), 11)))
        chance = min(max(chance, 2.0**-12), 1 - 2.0**-12)
        self.bits -= math.log2(chance if bit else 1 - chance)
        for at, one in enumerate(evidence):
            # the rate of `Mixer`: 6 / 2^18 of a product of 2^16 and 2^8, over weights of 2^16
            self.weights[at] += (bit - chance) * one * 6 * 2**8 / 2**18
        for one in counts:
            one[bit] += 1
            if sum(one) >= 1024:
                one[:] = [part // 2 for part in one]

    def number(self, value: int) -> None:
        self.plain(int(value < 0), "sign")
        size = abs(value)
        for length in range(1, size.bit_length() + 1):
            self.plain(int(size.bit_length() > length), ("length", length))
        found = 1
        for place in range(size.bit_length() - 2, -1, -1):
            bit = size >> place & 1
            if size.bit_length() - 2 - place < 2:
                self.plain(bit, (size.bit_length(), found))
            else:
                self.bits += 1
            found = found << 1 | bit

    def matrix(self, given: Integers) -> float:
        values = given.reshape(*given.shape[:2], -1)
        width = given.shape[-1] if given.ndim > 2 else 0
        live = []
        for over in ((1, 2), (0, 2), (0, 1)):
            flags = np.any(values != 0, axis=over)
            for flag in flags:
                self.plain(int(flag), over)
            live.append(np.flatnonzero(flags).tolist())
        left_of = dict(zip(live[1][1:], live[1], strict=False))
        above_of = dict(zip(live[0][1:], live[0], strict=False))
        for i in live[0]:
            for j in live[1]:
                for t in live[2]:
                    seen = (
                        (i in above_of and values[above_of[i], j, t] != 0),
                        (j in left_of and values[i, left_of[j], t] != 0),
                        (t >= 1 and values[i, j, t - 1] != 0),
                        (t >= max(width, 1) and width > 0 and values[i, j, t - width] != 0),
                    )
                    value = int(values[i, j, t])
                    where = [("r", i), ("c", j), ("t", t), "all", ("n", seen)]
                    self.mixed(int(value != 0), where)
                    if value:
                        self.number(value)
        return self.bits


@pytest.mark.parametrize(
    ("shape", "share", "most"),
    [((40, 60), 0.1, 3), ((20, 20), 0.5, 1), ((12, 10, 5, 5), 0.15, 7), ((30, 8, 1, 1), 0.3, 40)],
)
def test_it_is_as_long_as_the_plain_model_says(
    shape: tuple[int, ...], share: float, most: int
) -> None:
    matrix = sparse(shape, share, most)
    matrix[:, 3] = 0
    assert bits_of(matrix) == pytest.approx(Floating().matrix(matrix), rel=0.01, abs=4)


def test_numbers_without_structure_cost_little_more_than_their_entropy() -> None:
    p, shape = 0.05, (100, 200)
    matrix = sparse(shape, p, 1)
    found = int((matrix != 0).sum())
    share = found / matrix.size
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    ideal = matrix.size * entropy + found
    assert ideal < bits_of(matrix) < 1.04 * ideal + 150


def test_rows_and_columns_that_are_full_are_cheap() -> None:
    """The same count of numbers, spread or gathered: gathered costs a fraction."""
    spread, gathered = sparse((100, 100), 0.05, 1), np.zeros((100, 100), np.int64)
    some = np.flatnonzero(spread)
    gathered.reshape(-1)[: len(some)] = spread.reshape(-1)[some]
    assert bits_of(gathered) < 0.35 * bits_of(spread)
    # Units that are not there cost their flags: 400 of which a quarter is set.
    wide = np.pad(spread, ((0, 0), (0, 300)))
    flags = 400 * (2 - 0.75 * math.log2(3))
    assert bits_of(spread) + flags - 20 < bits_of(wide) < bits_of(spread) + flags + 20


def test_a_decision_costs_at_least_two_to_the_minus_twelve() -> None:
    """However sure: of a matrix that is full but for one number, each costs that at least."""
    writer = BitWriter()
    encoder = ArithmeticEncoder(writer)
    mixer, counts = Mixer(encoder, [1 << 20] * 5), [[0, 0] for _ in range(5)]
    for _ in range(40_000):
        mixer.decide(0, *counts)
    assert encoder.written > 9
    assert max(map(sum, counts)) < 2**10


def test_tables_are_the_same_on_every_machine() -> None:
    said = repr((_logarithms(), _odds())).encode()
    digest = hashlib.sha256(said).hexdigest()
    assert len(_logarithms()) == 1024
    assert digest == "24ccd319a4ff86f7fb06adc7a5176a88a84043bb9bbd627b4a194e3fc7267eb3"


def test_the_bytes_stay() -> None:
    matrix = sparse((8, 6, 3, 3), 0.25, 5)
    coded = encode_numbers([], [matrix], [True])
    assert (coded.bits, hashlib.sha256(coded.data).hexdigest()) == (
        751,
        "257dca6c84476cc2a8818403cc6dfd056499c6c0bf0c0ae50801da91d412980e",
    )


def test_a_number_of_too_many_bits_is_malformed() -> None:
    writer = BitWriter()
    with pytest.raises(Malformed, match="more than 40 bits"):
        code_matrix(ArithmeticEncoder(writer), np.array([[2**41]]), (1, 1))
    for seed in range(200):  # whatever is read is a matrix or malformed
        data = np.random.default_rng(seed).bytes(30)
        decoder = ArithmeticDecoder(BitReader(data, 240))
        try:
            found = code_matrix(decoder, None, (5, 4, 2, 2))
        except Malformed:
            continue
        assert found.shape == (5, 4, 2, 2)
        assert abs(found).max() < 2**MOST_NUMBER_BITS
