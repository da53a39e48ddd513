"""Integer nets and their messages: round trips, golden words, strictness, limits, and exact evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cushion.encoding.bits import BitWriter
from cushion.encoding.integer_net import Conv, Dense, IntegerNet, Layer, Pool
from cushion.encoding.message import decode, encode
from cushion.errors import BadInput, Malformed

# ---- nets


@st.composite
def nets(draw: st.DrawFn) -> IntegerNet:
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    shape: tuple[int, ...] = (draw(st.integers(1, 3)), draw(st.integers(4, 9)), draw(st.integers(4, 9)))
    start = shape
    layers: list[Layer] = []
    for _ in range(draw(st.integers(0, 3))):
        levels = draw(st.integers(1, 5))
        if draw(st.booleans()) and min(shape[1:]) >= 3:
            k, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
            padding, out = draw(st.integers(0, k - 1)), draw(st.integers(1, 4))
            weight = rng.integers(-levels, levels + 1, (out, shape[0], k, k))
            bias = rng.integers(-300, 300, out) if draw(st.booleans()) else None
            layers.append(Conv(weight, bias, levels, draw(st.integers(0, 6)), stride, padding))
            shape = (out, *((n + 2 * padding - k) // stride + 1 for n in shape[1:]))
        elif min(shape[1:]) >= 2:
            layers.append(Pool(draw(st.sampled_from(["max", "sum"])), 2))
            shape = (shape[0], shape[1] // 2, shape[2] // 2)
    if draw(st.booleans()):
        layers.append(Dense(rng.integers(-2, 3, (5, int(np.prod(shape)))), None, 2, draw(st.integers(0, 4))))
        shape = (5,)
    bias = rng.integers(-9, 9, 3) if draw(st.booleans()) else None
    layers.append(Dense(rng.integers(-1, 2, (3, int(np.prod(shape)))), bias, 1, 0))
    return IntegerNet(start, draw(st.integers(0, 7)), tuple(layers))  # type: ignore[arg-type]


def same(a: IntegerNet, b: IntegerNet) -> bool:
    def parts(net: IntegerNet) -> list[object]:
        found: list[object] = [net.input_shape, net.input_shift]
        for layer in net.layers:
            fields = vars(layer)
            found.append(type(layer).__name__)
            found += [v.tolist() if isinstance(v, np.ndarray) else v for v in fields.values()]
        return found

    return parts(a) == parts(b)


def naive_scores(net: IntegerNet, x: np.ndarray) -> list[int]:
    """Loops over Python integers: what FORMAT.md says, word by word."""
    values = (x.astype(object) >> net.input_shift).reshape(net.input_shape)
    for index, layer in enumerate(net.layers):
        if isinstance(layer, Pool):
            c, h, w = values.shape
            s = layer.size
            pooled = np.zeros((c, h // s, w // s), dtype=object)
            for a, i, j in np.ndindex(pooled.shape):
                window = values[a, i * s : i * s + s, j * s : j * s + s].reshape(-1).tolist()
                pooled[a, i, j] = max(window) if layer.kind == "max" else sum(window)
            values = pooled
            continue
        weight = layer.weight.astype(object)
        bias = [0] * len(weight) if layer.bias is None else layer.bias.tolist()
        if isinstance(layer, Dense):
            flat = values.reshape(-1)
            out = np.array([(row * flat).sum() + c for row, c in zip(weight, bias, strict=True)], dtype=object)
        else:
            o, c, k, _ = weight.shape
            _, h, w = values.shape
            p, s = layer.padding, layer.stride
            out = np.zeros((o, (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1), dtype=object)
            for q, i, j in np.ndindex(out.shape):
                total = bias[q]
                for a, di, dj in np.ndindex(c, k, k):
                    row, column = i * s + di - p, j * s + dj - p
                    if 0 <= row < h and 0 <= column < w:
                        total += weight[q, a, di, dj] * values[a, row, column]
                out[q, i, j] = total
        if index + 1 < len(net.layers):
            out = np.vectorize(lambda v, shift=layer.shift: max(v, 0) >> shift, otypes=[object])(out)
        values = out
    return [int(v) for v in values]


@settings(max_examples=60, deadline=None)
@given(nets())
def test_round_trip_ledger_and_exact_scores(net: IntegerNet) -> None:
    message = encode(net)
    assert sum(item.bits for item in message.ledger) == message.bits
    assert all(item.bits >= 0 for item in message.ledger)
    assert len(message.data) == (message.bits + 7) // 8
    back = decode(message.data, message.bits)
    assert same(net, back)
    x = np.random.default_rng(0).integers(0, 256, (3, *net.input_shape), dtype=np.uint8)
    scores = back.scores(x)
    assert scores.tolist() == [naive_scores(net, row) for row in x]
    assert np.array_equal(scores, np.concatenate([back.scores(x[i : i + 1]) for i in range(3)]))


def tiny() -> IntegerNet:
    weight = np.array([[1, 0, -1, 2], [0, 0, 1, -2]])
    return IntegerNet((1, 2, 2), 3, (Dense(weight, np.array([0, 5]), 2, 0),))


def test_golden_message() -> None:
    """Fixes the format: the version, shape, shift, depth, header and coded stream of one small net."""
    message = encode(tiny())
    assert message.bits == 56
    assert message.data.hex() == "d2244b0ef5b95b"
    text = "".join(f"{byte:08b}" for byte in message.data)
    # version 1, shape 1 2 2, shift 3+1, depth 1, dense, 2 outputs, 2 levels, bias
    assert text.startswith("1" + "1" + "010" + "010" + "00100" + "1" + "00" + "010" + "010" + "1")


@settings(max_examples=30, deadline=None)
@given(nets(), st.data())
def test_every_flipped_bit_is_another_net_or_refused(net: IntegerNet, data: st.DataObject) -> None:
    message = encode(net)
    position = data.draw(st.integers(0, message.bits - 1))
    flipped = bytearray(message.data)
    flipped[position // 8] ^= 128 >> position % 8
    try:
        other = decode(bytes(flipped), message.bits)
    except Malformed:
        return
    assert not same(net, other)


def test_trailing_bits_and_wrong_lengths_are_refused() -> None:
    message = encode(tiny())
    with pytest.raises(Malformed):
        decode(message.data + b"\x00", message.bits + 8)
    with pytest.raises(Malformed):
        decode(message.data, message.bits - 1)
    if message.bits % 8:
        with pytest.raises(Malformed):
            decode(message.data, message.bits + 1)
    with pytest.raises(Malformed):
        decode(b"", 0)


def test_sums_that_could_leave_the_exact_range_are_refused() -> None:
    def net(bias: int, *between: Layer) -> IntegerNet:
        """The first layer reaches 4·255 + bias; what stands between may raise that."""
        first = Conv(ones(1, 1, 2, 2), np.array([bias]), 1, 0, 1, 0)
        return IntegerNet((1, 3, 3), 0, (first, *between, Dense(np.array([[0], [1]]), None, 1, 0)))

    last = 2**53 - 1 - 4 * 255
    net(last, Pool("max", 2))  # exactly 2^53 - 1: allowed
    with pytest.raises(Malformed, match="exact range"):
        net(last + 1, Pool("max", 2))
    net((2**53 - 1) // 4 - 4 * 255, Pool("sum", 2))  # the sum of four
    with pytest.raises(Malformed, match="exact range"):
        net((2**53 - 1) // 4 - 4 * 255 + 1, Pool("sum", 2))
    # a shift by s divides what follows by 2^s, and by no more
    shifted = Conv(ones(1, 1, 1, 1), np.array([2**50 - 255]), 1, 4, 1, 0)
    for bias, fits in ((2**53 - 1 - 4 * 2**46, True), (2**53 - 4 * 2**46, False)):
        second = Conv(ones(1, 1, 2, 2), np.array([bias]), 1, 0, 1, 0)
        layers = (shifted, second, Dense(np.array([[0], [1]]), None, 1, 0))
        if fits:
            IntegerNet((1, 2, 2), 0, layers)
        else:
            with pytest.raises(Malformed, match="exact range"):
                IntegerNet((1, 2, 2), 0, layers)


def test_limits_of_the_grammar_hold_when_writing_and_when_reading() -> None:
    with pytest.raises(Malformed, match="feature map"):
        IntegerNet((1, 1025, 1024), 0, (Pool("max", 1024), Dense(ones(2, 1), None, 1, 0)))
    with pytest.raises(Malformed, match="times levels"):
        IntegerNet((1, 1, 20_000), 0, (Dense(ones(2, 20_000), None, 127, 0),))
    with pytest.raises(Malformed, match="layers"):
        encode(IntegerNet((1, 1, 1), 0, (*[Dense(ones(1, 1), None, 1, 0)] * 64, Dense(ones(2, 1), None, 1, 0))))
    with pytest.raises(Malformed, match="levels"):
        encode(IntegerNet((1, 1, 1), 0, (Dense(ones(2, 1), None, 128, 0),)))
    with pytest.raises(Malformed, match="not shifted"):
        encode(IntegerNet((1, 1, 1), 0, (Dense(ones(2, 1), None, 1, 3),)))
    with pytest.raises(Malformed, match="bias"):
        encode(IntegerNet((1, 1, 1), 0, (Dense(ones(2, 1), np.array([0, 2**40]), 1, 0),)))
    widest = IntegerNet((1, 1, 1), 0, (Dense(ones(2, 1), np.array([0, 2**40 - 1]), 1, 0),))
    message = encode(widest)
    assert same(decode(message.data, message.bits), widest)


def test_other_versions_are_refused() -> None:
    message = encode(tiny())
    text = "".join(f"{byte:08b}" for byte in message.data)
    other = "010" + text[1:]  # gamma(2) in place of gamma(1)
    data = int(other.ljust(-(-len(other) // 8) * 8, "0"), 2).to_bytes(-(-len(other) // 8), "big")
    with pytest.raises(Malformed, match="version 2"):
        decode(data, len(other))


def test_altered_bits_of_the_same_length_are_refused() -> None:
    """The last bits of the stream have some slack; only the canonical choice is accepted."""
    message = encode(tiny())
    refused = 0
    for position in range(message.bits - 8, message.bits):
        flipped = bytearray(message.data)
        flipped[position // 8] ^= 128 >> position % 8
        try:
            assert not same(decode(bytes(flipped), message.bits), tiny())
        except Malformed:
            refused += 1
    assert refused


def test_hostile_sizes_are_refused_before_they_cost_anything() -> None:
    writer = BitWriter()
    for value in (1, 1, 1000, 1000, 1, 1):
        writer.gamma(value)
    writer.fixed(0, 2)
    writer.gamma(900_000)  # a dense layer of 9·10^11 weights
    writer.gamma(1)
    writer.fixed(0, 1)
    with pytest.raises(Malformed, match="weights"):
        decode(writer.to_bytes(), len(writer))


def test_windows_that_would_fill_the_memory_are_refused() -> None:
    """A kernel of a million weights on an 8x8 image reads 10^12 values for each example."""
    side = 999
    layers = (Conv(np.zeros((1, 1, side, side), dtype=np.int64), None, 1, 0, 1, side - 1), Pool("max", 1000))
    with pytest.raises(Malformed, match="larger than the format allows"):
        IntegerNet((1, 8, 8), 0, (*layers, Dense(ones(2, 1), None, 1, 0)))
    wide = Conv(np.zeros((400, 1, 20, 20), dtype=np.int64), None, 1, 0, 1, 19)
    with pytest.raises(Malformed, match="multiplications"):
        IntegerNet((1, 30, 30), 0, (wide, Pool("max", 40), Dense(ones(2, 400), None, 1, 0)))


def test_weights_that_are_not_64_bit_integers_are_refused() -> None:
    for weight in (np.ones((2, 4), np.int8), np.ones((2, 4)), np.ones((2, 4), bool)):
        with pytest.raises(Malformed, match="64-bit"):
            IntegerNet((1, 2, 2), 0, (Dense(weight, None, 1, 0),))
    with pytest.raises(Malformed, match=r"outside -1\.\.1"):
        IntegerNet((1, 2, 2), 0, (Dense(np.full((2, 4), -(2**63)), None, 1, 0),))


def test_the_batch_does_not_change_the_count() -> None:
    rng = np.random.default_rng(0)
    convolution = Conv(rng.integers(-2, 3, (4, 1, 3, 3)), None, 2, 2, 1, 1)
    net = IntegerNet((1, 8, 8), 3, (convolution, Dense(rng.integers(-2, 3, (3, 256)), None, 2, 0)))
    x, y = rng.integers(0, 256, (50, 1, 8, 8), dtype=np.uint8), rng.integers(0, 3, 50)
    assert len({net.errors(x, y, batch) for batch in (None, 1, 7, 50, 512)}) == 1


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, dtype=np.int64)


def test_the_limit_on_weights_is_the_same_when_writing_and_reading() -> None:
    most = IntegerNet((1, 1, 500_000), 0, (Dense(np.zeros((2, 500_000), dtype=np.int64), None, 1, 0),))
    message = encode(most)
    assert decode(message.data, message.bits).weights == 10**6
    with pytest.raises(Malformed, match="1000002 weights"):
        IntegerNet((1, 1, 500_000), 0, (Dense(ones(2, 500_000), np.array([0, 1]), 1, 0),))


@pytest.mark.parametrize(
    "layers",
    [
        (),
        (Pool("max", 2),),
        (Dense(np.zeros((2, 3), dtype=np.int64), None, 1, 0),),
        (Dense(ones(1, 4), None, 1, 0),),
        (Dense(np.full((2, 4), 2), None, 1, 0),),
        (Dense(ones(2, 4), np.zeros(3, dtype=np.int64), 1, 0),),
        (Pool("mean", 2), Dense(ones(2, 1), None, 1, 0)),
        (Pool("max", 4), Dense(ones(2, 1), None, 1, 0)),
        (Conv(ones(1, 1, 2, 2), None, 1, 0, 1, 2), Dense(ones(2, 25), None, 1, 0)),
        (Conv(ones(1, 2, 2, 2), None, 1, 0, 1, 0), Dense(ones(2, 1), None, 1, 0)),
    ],
)
def test_nets_outside_the_grammar_are_refused(layers: tuple[Layer, ...]) -> None:
    with pytest.raises(Malformed):
        IntegerNet((1, 2, 2), 0, layers)


def test_ties_are_errors_and_inputs_are_checked() -> None:
    net = IntegerNet((1, 1, 2), 0, (Dense(np.array([[1, 0], [0, 1]]), None, 1, 0),))
    x = np.array([[[[3, 3]]], [[[4, 3]]], [[[3, 4]]]], dtype=np.uint8)
    assert net.errors(x, np.array([0, 0, 0])) == 2
    assert net.errors(x, np.array([0, 0, 0]), batch=1) == 2
    with pytest.raises(BadInput):
        net.scores(x.astype(np.float32))
    with pytest.raises(BadInput):
        net.scores(np.zeros((1, 3), dtype=np.uint8))


def test_single_and_double_precision_agree_at_the_edge_of_the_single_range() -> None:
    """Just below 2^24 the net runs in float32, just above in float64; both equal Python's integers."""
    for bias, floats in ((2**24 - 1 - 4 * 255, np.float32), (2**24 - 4 * 255, np.float64), (2**40 + 1, np.float64)):
        net = IntegerNet(
            (1, 2, 2), 0, (Dense(np.array([[1, 1, 1, 1], [1, -1, 1, -1]]), np.array([bias, -bias]), 1, 0),)
        )
        assert net._floats is floats
        x = np.array([[[[255, 255], [255, 255]]], [[[255, 0], [254, 1]]]], dtype=np.uint8)
        assert net.scores(x).tolist() == [naive_scores(net, row) for row in x]


def test_another_end_of_the_stream_is_refused() -> None:
    """Other last bits can name another interval inside the final one: the same net, but not its message."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        net = IntegerNet((1, 2, 2), 0, (Dense(rng.integers(-2, 3, (3, 4)), None, 2, 0),))
        message = encode(net)
        text = "".join(f"{byte:08b}" for byte in message.data)[: message.bits]
        for end in ("00", "01", "10", "11"):
            other = text[:-2] + end
            if other == text:
                continue
            data = int(other.ljust(8 * len(message.data), "0"), 2).to_bytes(len(message.data), "big")
            try:
                assert not same(decode(data, message.bits), net)
            except Malformed:
                continue


def test_layers_share_one_limit_on_weights_before_anything_is_allocated() -> None:
    writer = BitWriter()
    for value in (1, 1, 1, 1000, 1, 3):  # version, shape, shift, three layers
        writer.gamma(value)
    for outputs in (900, 900):
        writer.fixed(0, 2)
        writer.gamma(outputs)
        writer.gamma(1)
        writer.fixed(0, 1)
        writer.gamma(1)
    with pytest.raises(Malformed, match="more than the 1000000 weights"):
        decode(writer.to_bytes(), len(writer))
