"""The verifier's own decoder and evaluator, beside the producer's and a reader of plain loops made
from FORMAT.md: three programs, the same bits, costs and scores.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import format_reader
from tests.encoding_cases import examples, nets
from tests.posterior_cases import convolutional, stripes

import cushion_verify
from cushion.certificates.format import draws, rounded_gaussian
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.message import Message, encode, read
from cushion.certificates.format.posterior import encode_posterior
from cushion.certificates.format.sources import Grid, Product, SignProjection, Values
from cushion.data import load_pair
from cushion.errors import Malformed

QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def scores(net: cushion_verify.IntegerNet, x: np.ndarray) -> np.ndarray:
    maps = net.maps(x, net._type)
    return cushion_verify.evaluate(net, maps, net._numbers).astype(np.int64)


@settings(max_examples=100, **QUIET)
@given(nets())
def test_costs_and_scores_are_those_of_both_other_readers(net: IntegerNet) -> None:
    message = encode(net)
    ours = cushion_verify.IntegerNet(message.data, message.bits)
    assert ours.costs == [item.bits for item in message.ledger]
    assert ours.products == sum(stage.work for stage in net.stages)
    x = examples(net, 3)
    assert ours.fault(x, None, "rows") == ""
    found = scores(ours, x)
    assert np.array_equal(found, net.scores(x))
    slow = format_reader.read(message.data, message.bits)
    assert found.tolist() == [format_reader.scores(slow, row.reshape(-1).tolist()) for row in x]
    assert np.array_equal(ours.answers(x, lambda *_: None), net.answers(x))


@settings(max_examples=120, **QUIET)
@given(nets(), st.data())
def test_spoilt_messages_are_read_alike(net: IntegerNet, data: st.DataObject) -> None:
    """One bit flipped, or some cut off or added: both readers refuse, or both find the same net."""
    message = encode(net)
    text = "".join(f"{byte:08b}" for byte in message.data)[: message.bits]
    at = data.draw(st.integers(0, len(text) - 1))
    text = data.draw(
        st.sampled_from(
            [
                text[:at] + "10"[int(text[at])] + text[at + 1 :],
                text[: at + 1],
                text + "01"[at % 2] * (at % 40 + 1),
                text[:-1] + "10"[int(text[-1])],
            ]
        )
    )
    spoilt = int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
    try:
        theirs: object = [item.bits for item in read(spoilt, len(text))[1]]
    except Malformed:
        theirs = None
    try:
        ours: object = cushion_verify.IntegerNet(spoilt, len(text)).costs
    except cushion_verify.Malformed:
        ours = None
    assert ours == theirs


def test_the_ranges_decide_between_single_and_double_alike() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        reach = 2 ** int(rng.integers(11, 20))
        weight = rng.integers(-reach, reach + 1, (3, 4))
        net = IntegerNet((1, 2, 2), Bytes(0), (Dense(Values(weight), None, 0, 0),))
        message = encode(net)
        assert cushion_verify.IntegerNet(message.data, message.bits)._type is net._floats


def test_sums_beyond_the_exact_range_are_refused_alike() -> None:
    """A weight and a bias that reach 2^53 on bytes of up to 255, give or take a little."""
    refused = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        weight = int(rng.integers(1, 2**39))
        shift = int(rng.integers(14, 20))
        bias = ((2**53 - 255 * weight) >> shift) + int(rng.integers(-1, 2))
        layer = Dense(Values(np.array([[weight], [0]])), np.array([bias, -1]), shift, 0)
        message = unchecked((1, 1, 1), layer)
        fits = 255 * weight + (abs(bias) << shift) < 2**53
        if fits:
            assert cushion_verify.IntegerNet(message.data, message.bits).classes == 2
        else:
            with pytest.raises(cushion_verify.Malformed, match="exact range"):
                cushion_verify.IntegerNet(message.data, message.bits)
        refused += not fits
    assert 20 < refused < 100


@pytest.mark.parametrize(("side", "fits"), [(682, True), (683, False)])
def test_windows_are_limited_to_the_last_value(side: int, fits: bool) -> None:
    """A 3x3 convolution reads nine values at each place: 9 · 682² ≤ 2^22 < 9 · 683²."""
    layers = (
        Conv(Values(np.ones((1, 1, 3, 3), np.int64)), None, 0, 0, 1, 1, 1, 1),
        Pool("max", 600),
        Dense(Values(np.array([[1], [0]])), None, 0, 0),
    )
    message = unchecked((1, side, side), *layers)
    if fits:
        assert cushion_verify.IntegerNet(message.data, message.bits).classes == 2
    else:
        with pytest.raises(cushion_verify.Malformed, match="values read by a layer"):
            cushion_verify.IntegerNet(message.data, message.bits)


def unchecked(shape: tuple[int, int, int], *layers: object) -> Message:
    """The message of a net that nobody has looked at yet."""
    net = object.__new__(IntegerNet)
    vars(net).update(input_shape=shape, input=Bytes(0), layers=layers)
    return encode(net)


def test_signs_of_a_projection_are_limited() -> None:
    """50 000 coefficients of 200 000 numbers: 10^10 signs, of which the format allows 2^33."""
    source = SignProjection(np.zeros(50_000, np.int64), (2, 100_000), 0, 1, 0)
    message = unchecked((1, 1, 100_000), Dense(source, None, 0, 0))
    with pytest.raises(cushion_verify.Malformed, match="signs in sign projections"):
        cushion_verify.IntegerNet(message.data, message.bits)


def test_numbers_are_limited_to_a_million() -> None:
    """A product of rank 1 has few coded numbers; both factors and what they make are counted."""
    for inputs, fits in ((998, True), (999, False)):  # 1000 · inputs + 1000 + inputs
        source = Product(np.zeros(1000 + inputs, np.int64), (1000, inputs), 1, 0)
        message = unchecked((1, 1, inputs), Dense(source, None, 0, 0))
        if fits:
            assert cushion_verify.IntegerNet(message.data, message.bits).classes == 1000
        else:
            with pytest.raises(cushion_verify.Malformed, match="1000999 numbers are more"):
                cushion_verify.IntegerNet(message.data, message.bits)


def test_weights_stay_below_their_limit() -> None:
    """2^42, which only a product reaches while its sums are still exact."""
    for right, fits in ((2**20 - 1, True), (2**20, False)):
        source = Product(np.array([2**22, 0, right]), (2, 1), 1, 0)
        message = unchecked((1, 1, 1), Dense(source, None, 0, 0))
        if fits:
            assert cushion_verify.IntegerNet(message.data, message.bits).classes == 2
        else:
            with pytest.raises(cushion_verify.Malformed, match="a weight reaches"):
                cushion_verify.IntegerNet(message.data, message.bits)


def test_decisions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six numbers of size 3 on a grid of five levels: each is not zero, signed, and above 1 and 2
    but not 3.
    """
    message = unchecked((1, 1, 3), Dense(Grid(np.full((2, 3), -3), 5), None, 0, 0))
    assert cushion_verify.MOST_DECISIONS == 4 * 10**6
    monkeypatch.setattr(cushion_verify, "MOST_DECISIONS", 6 * 5)
    assert cushion_verify.IntegerNet(message.data, message.bits).classes == 2
    monkeypatch.setattr(cushion_verify, "MOST_DECISIONS", 6 * 5 - 1)
    with pytest.raises(cushion_verify.Malformed, match="more decisions"):
        cushion_verify.IntegerNet(message.data, message.bits)


# ---- posteriors


@pytest.mark.parametrize("exponent", [-8, -3, 0, 1, 5, 12])
@pytest.mark.parametrize("quarter", range(4))
def test_thresholds_of_a_gaussian_are_the_producers(exponent: int, quarter: int) -> None:
    first, entries = cushion_verify.thresholds(exponent, quarter)
    theirs, table = rounded_gaussian.table(exponent, quarter)
    assert first == theirs
    assert np.array_equal(entries, table)


def test_words_and_rows_are_those_of_the_format() -> None:
    key = "0" * 64
    assert f"{cushion_verify.stream_words('net', key, 0, 1)[0]:016x}" == "e57e470fdf5ad9bb"
    for first, n in ((0, 5), (4090, 20), (12_288, 4097)):
        found = cushion_verify.stream_words("net", key, first, n)
        assert np.array_equal(found, draws.words("net", key, n, first))
    drawn = draws.words("rows", key, 2000)
    for m in (1, 7, 60_000, 10**7):
        exact = [int(word) * m >> 64 for word in drawn]
        assert cushion_verify.chosen_rows(drawn, m).tolist() == exact


def test_nets_of_a_law_are_evaluated_one_by_one_as_all_at_once() -> None:
    """Each net on its own row, against the producer's nets made one at a time."""
    posterior, data = convolutional(3), stripes(40)
    message = encode_posterior(posterior)
    law = object.__new__(cushion_verify.PacBayes)
    law._message = message.data
    law.claim = type("Claim", (), {"header_bits": message.bits})
    law._read_law()
    key = draws.key_of(message.data, 40, "0" * 64)
    numbers = law._draw(cushion_verify.stream_words("net", key, 0, 40 * posterior.size))
    assert np.array_equal(numbers, draws.draw_nets(posterior, key, 40))
    layers = (
        (numbers[:, weights], numbers[:, biases] * law._type(2.0**layer.bias_shift))
        for (weights, biases), layer in zip(law._places, law.net.numbered, strict=True)
    )
    found = cushion_verify.evaluate(law.net, law.net.maps(data.x, law._type), layers)
    for j in range(40):
        one = posterior.with_numbers(numbers[j].astype(np.int64))
        assert found[j].tolist() == one.scores(data.x[j : j + 1])[0].tolist()


# ---- what is stated elsewhere in FORMAT.md


def test_the_digits_are_in_the_order_that_the_format_tells() -> None:
    from sklearn.datasets import load_digits

    sample, held_out = load_pair("digits")
    assert held_out is not None
    pixels, labels = load_digits(return_X_y=True)
    state = hashlib.sha256(b"permutation 0").digest()[:8]

    def word(i: int) -> int:
        z = (int.from_bytes(state, "little") + (i + 1) * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    order = sorted(range(1797), key=word)
    x = (pixels[order] * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    assert np.array_equal(x, np.concatenate([sample.x, held_out.x]))
    assert labels[order].tolist() == [*sample.y.tolist(), *held_out.y.tolist()]
