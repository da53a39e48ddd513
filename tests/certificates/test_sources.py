"""Numbers from seeds: golden words, each source against loops over Python's integers, and what each
source refuses.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import format_reader
from tests.encoding_cases import grid, product

from cushion.certificates.format import sources
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Source,
    Values,
    noise,
    signs,
)
from cushion.errors import BadInput, Malformed
from cushion.nets.operators.sign_projection import sign_reconstruction


def words(*where: int) -> np.ndarray:
    """(seed, layer, first, n) -> words first..first+n-1 of a layer's stream."""
    return sources._bytes(*where).view("<u8")


def as_layer(source: Source, name: str) -> format_reader.Layer:
    """The source as FORMAT.md's reader holds it."""
    coded = source.coded.reshape(-1).tolist()
    fields = {
        "stored": source.shape,
        "coded": coded,
        "source": name,
        "place": getattr(source, "layer", 1),
    }
    return fields | {
        "seed": getattr(source, "seed", 0),
        "amplitude": getattr(source, "amplitude", 0),
        "down": getattr(source, "shift", 0),
        "rank": getattr(source, "rank", 0),
    }


def test_golden_words() -> None:
    """Fixed for ever: a certificate names its numbers by a seed."""
    assert [hex(int(w)) for w in words(0, 1, 0, 2)] == ["0x75c622337566bb4b", "0x49c1f274e4300fda"]
    assert words(7, 3, 5, 4).tolist() == [format_reader.word(3, 7, i) for i in range(5, 9)]
    assert words(2**32 - 1, 64, 2**40, 1).tolist() == [format_reader.word(64, 2**32 - 1, 2**40)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 64), st.integers(1, 150), st.integers(0, 10**6))
def test_seeded_numbers_are_those_of_the_format(
    seed: int, layer: int, size: int, other: int
) -> None:
    rng = np.random.default_rng(other)
    mask = SeededMask(rng.integers(0, 2, (1, size)), seed, layer)
    values = SeededNoise(rng.integers(-1, 2, (1, size)), seed, layer, 3)
    coefficients = rng.integers(-(2**30), 2**30, rng.integers(1, 6))
    made = SeededProjection(
        coefficients, (1, size), seed, layer, int(rng.integers(0, 31)), int(rng.integers(0, 3))
    )
    for source, name in ((mask, "mask"), (values, "noise"), (made, "projection")):
        assert source.numbers.reshape(-1).tolist() == format_reader.stored_numbers(
            as_layer(source, name)
        )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 64),
    st.integers(1, 40),
    st.integers(1, 200),
    st.integers(0, 10**6),
)
def test_sign_projections_and_products_are_those_of_the_format(
    seed: int, layer: int, size: int, k: int, other: int
) -> None:
    rng = np.random.default_rng(other)
    projected = SignProjection(
        rng.integers(-(2**30), 2**30, k), (1, size), seed, layer, int(rng.integers(0, 31))
    )
    shape = (int(rng.integers(1, 6)), size, int(rng.integers(1, 4)))
    low_rank = product(rng, shape, int(rng.integers(1, 7)), int(rng.integers(0, 8)))
    for source, name in ((projected, "sign projection"), (low_rank, "product")):
        assert source.numbers.shape == source.shape
        assert source.numbers.reshape(-1).tolist() == format_reader.stored_numbers(
            as_layer(source, name)
        )


@pytest.mark.parametrize("k", [1, 63, 64, 65, 1000])
def test_a_sign_projection_has_the_helper_matrices_of_matrix_project(k: int) -> None:
    """The floats that `operators.sign_projection` rebuilds from the same numbers, times k: what a
    compressor stored.
    """
    q = np.random.default_rng(k).integers(-(2**12), 2**12, k)
    rebuilt = (
        sign_reconstruction(torch.from_numpy(q.astype(np.float64)), (5, 77), 9, "weights 3") * k
    )
    assert np.array_equal(
        SignProjection(q, (5, 77), 9, 3, 0).numbers, np.rint(rebuilt.numpy()).astype(np.int64)
    )
    assert float((rebuilt - rebuilt.round()).abs().max()) < 1e-6


def test_a_sign_projection_is_the_same_in_one_piece_and_in_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = SignProjection(np.arange(-70, 71), (3, 50), 1, 2, 3).numbers
    for block in (1, 7, 64, 149):
        monkeypatch.setattr(sources, "_BLOCK", block)
        assert np.array_equal(SignProjection(np.arange(-70, 71), (3, 50), 1, 2, 3).numbers, whole)


def test_a_projection_is_the_same_in_one_piece_and_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    coefficients = np.arange(-20, 21)
    whole = SeededProjection(coefficients, (3, 50), 1, 2, 3, 2).numbers
    monkeypatch.setattr(sources, "_CHUNK", 200)
    assert np.array_equal(SeededProjection(coefficients, (3, 50), 1, 2, 3, 2).numbers, whole)


def test_projection_shifts_are_floors() -> None:
    plus = SeededProjection(np.array([1]), (1, 64), 0, 1, 1, 0)
    assert set(plus.numbers.reshape(-1).tolist()) == {0, -1}  # 1 >> 1 and -1 >> 1
    assert set(SignProjection(np.array([1]), (1, 64), 0, 1, 1).numbers.reshape(-1).tolist()) == {
        0,
        -1,
    }
    assert Product(np.array([1, -1, 1]), (2, 1), 1, 1).numbers.tolist() == [[0], [-1]]


def test_projections_are_exact_up_to_their_limit() -> None:
    """2^40 · 8191 < 2^53 is allowed and exact to the last unit; one more coefficient is refused."""
    coefficients = np.full(8191, 2**40 - 1)
    coefficients[-1] = 2**40 - 3
    source = SeededProjection(coefficients, (1, 3), 5, 1, 0, 0)
    wide = [
        [1 if format_reader.word(1, 5, t) >> j & 1 else -1 for j in range(3)] for t in range(8191)
    ]
    expected = [
        sum(int(c) * row[j] for c, row in zip(coefficients, wide, strict=True)) for j in range(3)
    ]
    assert source.numbers.tolist() == [expected]
    with pytest.raises(Malformed, match="exact range"):
        _ = SeededProjection(np.full(8193, 2**40 - 1), (1, 3), 5, 1, 0, 0).numbers


def test_sign_projections_are_exact_up_to_their_limit() -> None:
    """Σ|q| = 2^53 - 1 is allowed and exact to the last unit; 2^53 is refused."""
    q = np.full(8193, 2**40 - 1)
    q[-1] = 2**53 - 1 - 8192 * (2**40 - 1)
    source = SignProjection(q, (1, 3), 5, 1, 0)
    assert source.numbers.reshape(-1).tolist() == format_reader.stored_numbers(
        as_layer(source, "sign projection")
    )
    q[-1] += 1
    with pytest.raises(Malformed, match="exact range"):
        _ = SignProjection(q, (1, 3), 5, 1, 0).numbers


def test_products_are_exact_up_to_their_limit() -> None:
    """Σ_t max|L[:, t]|·max|R[t, :]| = 2^53 - 1 = 6361·69431·20394401 is exact to the last unit;
    2^53 is refused.
    """
    a, b = 6361 * 69431, 20394401
    assert a * b == 2**53 - 1
    assert Product(np.array([a, 1, b]), (2, 1), 1, 0).numbers.tolist() == [[2**53 - 1], [b]]
    assert Product(np.array([-a, 1, b]), (2, 1), 1, 0).numbers.tolist() == [[1 - 2**53], [b]]
    for refused in ([2**27, 0, 2**26], [-(2**27), 0, -(2**26)], [-(2**63), 0, 1]):
        with pytest.raises(Malformed, match="exact range"):
            _ = Product(np.array(refused), (2, 1), 1, 0).numbers
    # two ranks that share the limit, with their largest numbers in different rows: the proof adds
    # up maxima
    with pytest.raises(Malformed, match="exact range"):
        _ = Product(np.array([2**26, 0, 0, 2**26, 2**26, 2**26]), (2, 1), 2, 0).numbers


def test_signs_are_even_and_noise_is_bell_shaped() -> None:
    n = 10**5
    assert abs(int(signs(1, 1, 0, n).sum())) < 5 * math.sqrt(n)
    drawn = noise(1, 1, 0, n)
    assert abs(drawn.mean()) < 5 * 4 / math.sqrt(n)
    assert abs(drawn.var() - 16) < 1
    assert abs(np.corrcoef(signs(1, 1, 0, n), signs(2, 1, 0, n))[0, 1]) < 5 / math.sqrt(n)
    assert abs(np.corrcoef(signs(1, 1, 0, n), signs(1, 2, 0, n))[0, 1]) < 5 / math.sqrt(n)


def net(source: Source, bias: np.ndarray | None = None) -> IntegerNet:
    return IntegerNet((1, 2, 2), Bytes(0), (Dense(source, bias, 0, 0),))


def full(value: int, *shape: int) -> np.ndarray:
    return np.full(shape, value, dtype=np.int64)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SeededMask(full(2, 2, 4), 0, 1), "0 and 1"),
        (SeededMask(full(-1, 2, 4), 0, 1), "0 and 1"),
        (SeededMask(full(1, 2, 4), 0, 2), "own place"),
        (SeededNoise(full(1, 2, 4), 0, 0, 1), "own place"),
        (SeededProjection(full(1, 2), (2, 4), 0, 3, 0, 0), "own place"),
        (SeededProjection(full(1, 2, 2), (2, 4), 0, 1, 0, 0), "row of coefficients"),
        (SeededProjection(full(1, 2), (2, 4), 0, 1, -1, 0), "right shift"),
        (SeededProjection(full(1, 2), (2, 4), 0, 1, 53, 0), "right shift"),
        (SeededProjection(full(1, 2), (2, 4), 0, 1, 0, 2**20 + 1), "amplitude"),
        (SeededProjection(full(1, 2), (2, 4), 0, 1, 0, -1), "amplitude"),
        (SeededNoise(full(1, 2, 4), 0, 1, 2**20 + 1), "amplitude"),
        (SignProjection(full(1, 2), (2, 4), 0, 3, 0), "own place"),
        (SignProjection(full(1, 2, 2), (2, 4), 0, 1, 0), "row of coefficients"),
        (SignProjection(full(1, 2), (2, 4), 0, 1, -1), "right shift"),
        (SignProjection(full(1, 2), (2, 4), 0, 1, 53), "right shift"),
        (SignProjection(full(2**42, 1), (2, 4), 0, 1, 0), "limit"),
        (Product(full(1, 0), (2, 4), 0, 0), "two factors"),
        (Product(full(1, 5), (2, 4), 1, 0), "two factors"),
        (Product(full(1, 2, 3), (2, 4), 1, 0), "two factors"),
        (Product(full(1, 6), (2, 4), 1, 53), "right shift"),
        (Product(full(1, 6), (2, 4), 1, -1), "right shift"),
        (Product(full(2**21, 6), (2, 4), 1, 0), "limit"),
        (Grid(full(2, 2, 4), 1), r"outside -1\.\.1"),
        (Grid(full(-(2**63), 2, 4), 1), r"outside -1\.\.1"),
        (Grid(full(0, 2, 4), -1), r"outside"),
        (Values(full(-(2**63), 2, 4)), "limit"),
        (Values(full(2**42, 2, 4)), "limit"),
        (Grid(np.ones((2, 4), np.int8), 1), "64-bit"),
        (Values(np.ones((2, 4))), "64-bit"),
        (SeededMask(np.ones((2, 4), bool), 0, 1), "64-bit"),
        (SeededProjection(np.ones(2), (2, 4), 0, 1, 0, 0), "64-bit"),
        (SignProjection(np.ones(2), (2, 4), 0, 1, 0), "64-bit"),
        (Product(np.ones(6), (2, 4), 1, 0), "64-bit"),
        (Grid(np.ones((0, 4), np.int64), 1), "shape"),
    ],
)
def test_numbers_outside_their_source_are_refused(source: Source, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        net(source)


def test_biases_are_one_64_bit_number_an_output() -> None:
    for bias in (
        np.zeros(3, np.int64),
        np.zeros((2, 1), np.int64),
        np.zeros(2),
        np.zeros(2, np.int32),
    ):
        with pytest.raises(Malformed, match="bias"):
            net(grid(full(1, 2, 4)), bias)


@pytest.mark.parametrize(
    "source",
    [
        Grid(full(1, 2, 4), 128),
        Grid(full(0, 2, 4), 0),
        SeededMask(full(1, 2, 4), 2**32, 1),
        SeededNoise(full(1, 2, 4), 0, 1, 0),
        Values(full(2**40, 2, 4)),
        SeededNoise(full(-(2**40), 2, 4), 0, 1, 1),
        SignProjection(full(1, 1), (2, 4), 2**32, 1, 0),
        SignProjection(full(2**40, 1), (2, 4), 0, 1, 0),
        Product(np.array([2**40, 1, 1, 0, 0, 0]), (2, 4), 1, 0),
    ],
)
def test_what_a_message_cannot_hold_is_refused_when_it_is_written(source: Source) -> None:
    made = net(source)
    with pytest.raises(Malformed):
        encode(made)


def test_negative_seeds_are_refused() -> None:
    with pytest.raises((Malformed, BadInput)):
        net(SeededMask(full(1, 2, 4), -1, 1))


@pytest.mark.parametrize(
    "source",
    [
        Grid(full(-127, 2, 4), 127),
        Values(full(2**40 - 1, 2, 4)),
        SeededMask(full(1, 2, 4), 2**32 - 1, 1),
        SeededProjection(full(1 - 2**40, 3), (2, 4), 2**32 - 1, 1, 52, 2**20),
        SeededNoise(full(0, 2, 4), 2**32 - 1, 1, 2**20),
        SignProjection(full(1 - 2**40, 65), (2, 4), 2**32 - 1, 1, 52),
        Product(np.array([2**40 - 1, 1, 8191, 8191, -8191, 0]), (2, 4), 1, 52),
        Product(full(1, 6 * 20), (2, 4), 20, 0),  # a rank above both sides is allowed
    ],
)
def test_the_largest_fields_are_written_and_read(source: Source) -> None:
    message = encode(net(source, np.array([2**40 - 1, 1 - 2**40])))
    back = decode(message.data, message.bits).layers[0]
    assert isinstance(back, Dense)
    assert np.array_equal(back.source.numbers, source.numbers)
    assert back.bias is not None
    assert back.bias.tolist() == [2**40 - 1, 1 - 2**40]
