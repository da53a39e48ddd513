"""Posteriors as messages and as draws: tables against the exact Gaussian, golden draws, strict
decoding.
"""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.posterior_cases import coin, convolutional, linear, ones, stripes, whole

from cushion.certificates.format import rounded_gaussian as gaussian
from cushion.certificates.format.bits import BitWriter
from cushion.certificates.format.draws import (
    count_draws,
    draw_nets,
    key_of,
    random_rows,
    words,
)
from cushion.certificates.format.headers import code_input, code_layer
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Feature, Layer, Pool
from cushion.certificates.format.posterior import (
    Factor,
    Posterior,
    encode_posterior,
    read_posterior,
)
from cushion.certificates.format.sources import Grid, Values
from cushion.data.counter import stream
from cushion.errors import Malformed


def test_every_entry_of_every_table_is_the_floor_of_the_true_tail() -> None:
    """Also that no true value is so near a whole number that 50 digits could not tell."""
    with mpmath.workdps(50):
        scale = mpmath.mpf(2) ** 64
        for exponent in range(gaussian.LEAST_EXPONENT, gaussian.MOST_EXPONENT + 1):
            sigma = mpmath.sqrt(mpmath.mpf(2) ** exponent)
            for n in range(1, int(4 * 9.2 * sigma) + 2):
                true = scale * mpmath.ncdf(-n / (4 * sigma))
                assert gaussian.lower_tail(n, exponent) == int(mpmath.floor(true)), (n, exponent)
                assert true < 1e-10 or abs(true - mpmath.nint(true)) > mpmath.mpf(10) ** -15


@pytest.mark.parametrize(
    ("exponent", "quarter"), [(-8, 0), (-8, 2), (-1, 1), (0, 3), (5, 0), (12, 1)]
)
def test_total_variation_of_a_draw_is_below_its_stated_error(exponent: int, quarter: int) -> None:
    first, table = gaussian.table(exponent, quarter)
    edges = [0, *table.tolist(), 2**64]
    with mpmath.workdps(50):
        sigma, scale = mpmath.sqrt(mpmath.mpf(2) ** exponent), mpmath.mpf(2) ** 64

        def below(k: int) -> mpmath.mpf:
            return mpmath.ncdf((k + mpmath.mpf(1) / 2 - mpmath.mpf(quarter) / 4) / sigma)

        distance = below(first - 1) + 1 - below(first + len(table))
        for step, (low, high) in enumerate(itertools.pairwise(edges)):
            k = first + step
            distance += abs(mpmath.mpf(high - low) / scale - (below(k) - below(k - 1)))
        assert distance / 2 < mpmath.mpf(gaussian.ERROR.numerator) / gaussian.ERROR.denominator
    assert len(table) < 2**11 - 4
    assert Fraction(1, 2**54) == gaussian.ERROR


@pytest.mark.parametrize(("mean", "exponent"), [(0, 0), (-7, 3), (13, 8), (2, -3), (1, -8)])
def test_draws_follow_the_rounded_gaussian(mean: int, exponent: int) -> None:
    n = 40000
    drawn = gaussian.RoundedGaussians(whole([mean]), whole([exponent])).draw(
        stream("test", 0, n).reshape(n, 1)
    )[:, 0]
    sigma = 2 ** (exponent / 2)
    numbers = np.arange(drawn.min(), drawn.max() + 1)
    chance = stats.norm.cdf((numbers + 0.5 - mean / 4) / sigma) - stats.norm.cdf(
        (numbers - 0.5 - mean / 4) / sigma
    )
    counts = np.array([(drawn == k).sum() for k in numbers])
    common = chance * n > 8
    expected = np.append(chance[common], 1 - chance[common].sum()) * n
    seen = np.append(counts[common], n - counts[common].sum())
    use = expected > 1e-6
    if use.sum() > 1:
        assert (
            stats.chisquare(seen[use], expected[use] * seen[use].sum() / expected[use].sum()).pvalue
            > 1e-4
        )
    else:
        assert set(drawn.tolist()) == {int(np.floor(mean / 4 + 0.5))}


GOLDEN = linear(whole([[5, -7, 100], [0, 2, -3]]), whole([[0, 3, 8], [-2, -8, 5]]))
MESSAGE = (21, "5b624805000000f9ffffff640000000000000002000000fdffffff000308fef805")
DATA = "0123456789abcdef" * 4
KEY = "1c84201492626947d2da95265f67edf82bd71db27ffd5544669abbd1c8dd058d"
DRAWS = [[3, 0, 22, 0, 0, -1], [2, 0, 63, 0, 0, 2], [3, -4, 13, 0, 1, -6], [1, 0, 44, 0, 0, 6]]
ROWS = [19958, 7650, 52934, 12723, 1131]


def test_golden_message_and_draws() -> None:
    message = encode_posterior(GOLDEN)
    assert (message.bits, message.data.hex()) == MESSAGE
    assert key_of(message.data, 5, DATA) == KEY
    used = words("net", KEY, 4 * 6).reshape(4, 6)
    drawn = GOLDEN.draw(used)
    assert drawn.tolist() == DRAWS
    assert random_rows(KEY, 60000)(0, 5).tolist() == ROWS
    for j, column in itertools.product(range(4), range(6)):  # the same by the inverse of Φ
        mean, exponent = (
            GOLDEN.factors[0].means.flat[column],
            GOLDEN.factors[0].variances.flat[column],
        )
        with mpmath.workdps(50):
            chance = (mpmath.mpf(int(used[j, column])) + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** 64
            z = mpmath.sqrt(mpmath.mpf(2) ** (int(exponent) + 1)) * mpmath.erfinv(2 * chance - 1)
            assert drawn[j, column] == int(
                mpmath.floor(mpmath.mpf(int(mean)) / 4 + z + mpmath.mpf(1) / 2)
            )


def test_a_word_at_a_threshold_belongs_to_the_next_number() -> None:
    first, table = gaussian.table(0, 1)
    law = gaussian.RoundedGaussians(whole([1]), whole([0]))
    for step, entry in enumerate(table.tolist()):
        if step + 1 < len(table) and table[step + 1] == entry:
            continue  # far out, where two thresholds fall together
        words = np.array([[entry - 1], [entry]], dtype=np.uint64)
        assert law.draw(words)[1, 0] == first + step + 1 > law.draw(words)[0, 0]


@given(st.integers(0, 2**64 - 1), st.integers(1, 10**7))
def test_rows_are_the_floor_of_word_times_m(word: int, m: int) -> None:
    assert gaussian.choose_rows(np.array([word], dtype=np.uint64), m).tolist() == [word * m >> 64]


def test_the_range_of_every_draw_is_proved_beforehand() -> None:
    posterior = convolutional()
    largest = posterior._law.largest()
    edge = np.array([[0, 2**64 - 1]] * posterior.size, dtype=np.uint64).T
    assert (np.abs(posterior.draw(edge)).max(axis=0) == largest).all()
    factors = tuple(
        dataclasses.replace(f, means=whole(np.full(f.means.shape, 2**20)))
        for f in posterior.factors
    )
    layers = tuple(
        dataclasses.replace(layer, bias_shift=40) if isinstance(layer, Dense) else layer
        for layer in posterior.skeleton.layers
    )
    with pytest.raises(Malformed, match="exact range"):
        Posterior(dataclasses.replace(posterior.skeleton, layers=layers), factors)


def test_counts_are_those_of_single_nets() -> None:
    posterior, sample = convolutional(3), stripes()
    message = encode_posterior(posterior).data
    nets = 300  # more than one batch
    key = key_of(message, nets, sample.fingerprint)
    rows = random_rows(key, len(sample))(0, nets)
    assert rows.min() >= 0
    assert rows.max() < len(sample)
    size = posterior.size
    numbers = posterior.draw(words("net", key, nets * size).reshape(nets, size))
    assert (draw_nets(posterior, key, 7, 290) == numbers[290:297]).all()
    naive = 0
    for j, row in enumerate(rows.tolist()):
        net = posterior.with_numbers(
            posterior.draw(words("net", key, size, j * size).reshape(1, size))[0]
        )
        scores = net.scores(sample.x[row : row + 1])[0].tolist()
        others = [s for label, s in enumerate(scores) if label != sample.y[row]]
        naive += max(others) >= scores[sample.y[row]]
    assert (
        count_draws(posterior, key, sample.x, sample.y, nets, random_rows(key, len(sample)))
        == naive
    )


def varied(seed: int) -> IntegerNet:
    """All that the grammar has: symmetric, regular, grouped and depthwise convolutions, strides, an
    invariant end.
    """

    def blank(*shape: int) -> Values:
        return Values(whole(np.zeros(shape)))

    order = (2, 4, 8, 1)[seed % 4]
    layers: tuple[Layer, ...] = (
        Conv(blank(2, 1, 3, 3), whole([0, 0]), 1, 3, 1, 1, 1, order),
        Conv(blank(2, 1, 3, 3), None, 0, 2, 1, 1, 0, order),
        Conv(
            blank(4, 2, 2, 2) if order == 1 else blank(4, 2, order, 2, 2),
            whole([0] * 4),
            2,
            6,
            2,
            0,
            1,
            order,
        ),
        Pool("sum" if seed % 2 else "max", 2),
    )
    if order == 1:
        layers = (
            *layers,
            Conv(blank(4, 2, 1, 1), None, 0, 1, 1, 0, 2, 1),
            Dense(blank(3, 16), whole([0] * 3), 3, 0),
        )
    else:
        layers = (*layers, Dense(blank(3, 4, 2, 2), whole([0] * 3), 3, 0, order))
    return IntegerNet((1, 8, 8), Bytes(3), layers)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spread", [1, 300])
def test_nets_scored_together_score_as_they_do_alone(seed: int, spread: int) -> None:
    skeleton, rng = varied(seed), np.random.default_rng(seed)
    numbers = rng.integers(-spread, spread + 1, (6, skeleton.weights))
    factors = []
    for place, layer in enumerate(skeleton.layers, 1):
        if not isinstance(layer, Pool):
            parts = [("weights", layer.source.shape)] + (
                [] if layer.bias is None else [("biases", layer.bias.shape)]
            )
            factors += [
                Factor(place, what, 8, *(whole(np.full(shape, n)) for n in (4 * spread, -8)))
                for what, shape in parts
            ]
    posterior = Posterior(skeleton, tuple(factors))
    x = rng.integers(0, 256, (6, 1, 8, 8), dtype=np.uint8)
    alone = [posterior.with_numbers(numbers[j]).scores(x[j : j + 1])[0] for j in range(6)]
    assert (posterior.scores(numbers, x) == np.array(alone)).all()


def test_counted_share_is_the_true_error() -> None:
    sample = ones(50)
    key = key_of(encode_posterior(coin()).data, 3000, sample.fingerprint)
    errors = count_draws(coin(), key, sample.x, sample.y, 3000, random_rows(key, 50))
    assert abs(errors / 3000 - stats.norm.cdf(-1)) < 4 * np.sqrt(0.16 * 0.84 / 3000)


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_messages_come_back(seed: int) -> None:
    posterior = convolutional(seed)
    message = encode_posterior(posterior)
    again, read = read_posterior(message.data, message.bits)
    assert read == message
    assert sum(paid.bits for paid in message.ledger) == message.bits
    for one, other in zip(posterior.factors, again.factors, strict=True):
        assert (one.layer, one.what, one.prior) == (other.layer, other.what, other.prior)
        assert (one.means == other.means).all()
        assert (one.variances == other.variances).all()


def test_a_flipped_bit_is_refused_or_is_the_message_of_another_posterior() -> None:
    message = encode_posterior(coin())
    for position in range(8 * len(message.data)):
        changed = bytearray(message.data)
        changed[position // 8] ^= 1 << position % 8
        try:
            _, read = read_posterior(bytes(changed), message.bits)
        except Malformed:
            continue
        assert read.data == bytes(changed)


def test_lengths_are_strict() -> None:
    message = encode_posterior(convolutional())
    for data, bits in [
        (message.data + b"\0", message.bits),
        (message.data + bytes(5), message.bits),
        (message.data[:-1], message.bits),
        (message.data[:-5], message.bits),
        (message.data, message.bits - 1),
        (message.data, message.bits + 1),
        (message.data, message.bits + 8),
        (b"", 0),
    ]:
        with pytest.raises(Malformed):
            read_posterior(data, bits)


def header(layer: Dense, features: int) -> BitWriter:
    writer = BitWriter()
    writer.gamma(2)
    code_input(writer, (1, 1, features), Bytes(0))
    writer.gamma(1)
    code_layer(writer, layer, Feature((1, 1, features)), 1, last=True, room=0)
    return writer


def test_hostile_sizes_are_refused() -> None:
    huge = Dense(Values(np.zeros((1000, 1000), dtype=np.int64)), None, 0, 0)
    writer = header(huge, 1000)
    for tail in (b"", bytes(5 * 10**5)):
        with pytest.raises(Malformed):
            read_posterior(writer.to_bytes() + tail, len(writer))
    grid = header(Dense(Grid(np.zeros((2, 2), dtype=np.int64), 1), None, 0, 0), 2)
    grid.gamma(1)
    with pytest.raises(Malformed, match="plain values"):
        read_posterior(grid.to_bytes() + bytes(20), len(grid))


@pytest.mark.parametrize(
    ("means", "variances", "prior"),
    [
        ([[2**20 + 1, 0]] * 2, [[0, 0]] * 2, 8),
        ([[0, 0]] * 2, [[13, 0]] * 2, 8),
        ([[0, 0]] * 2, [[0, -9]] * 2, 8),
    ]
    + [([[0, 0]] * 2, [[0, 0]] * 2, prior) for prior in (-9, 13)],
)
def test_numbers_outside_the_format_are_refused(
    means: object, variances: object, prior: int
) -> None:
    with pytest.raises(Malformed):
        linear(whole(means), whole(variances), prior)


def test_factors_must_be_those_of_the_net() -> None:
    posterior = convolutional()
    with pytest.raises(Malformed, match="not the layers"):
        Posterior(posterior.skeleton, posterior.factors[:-1])
    with pytest.raises(Malformed, match="64-bit"):
        Posterior(
            coin().skeleton, (Factor(1, "weights", 8, np.zeros((2, 2)), whole(np.zeros((2, 2)))),)
        )
