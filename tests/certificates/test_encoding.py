"""Integer nets and their messages: round trips, exact evaluation, flipped bits, and what a batch
may not change.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import format_reader
from tests.encoding_cases import examples, grid, nets, same

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import Grid
from cushion.errors import BadInput, Malformed


def flipped(data: bytes, position: int) -> bytes:
    other = bytearray(data)
    other[position // 8] ^= 128 >> position % 8
    return bytes(other)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nets())
def test_round_trip_ledger_and_exact_scores(net: IntegerNet) -> None:
    """What is decoded is what was encoded, and a reader made from FORMAT.md alone finds the same
    scores.
    """
    message = encode(net)
    assert sum(item.bits for item in message.ledger) == message.bits
    assert all(item.bits >= 0 for item in message.ledger)
    assert len(message.data) == (message.bits + 7) // 8
    back = decode(message.data, message.bits)
    assert same(net, back)
    x = examples(net, 2)
    scores = back.scores(x)
    second = format_reader.read(message.data, message.bits)
    assert scores.tolist() == [format_reader.scores(second, row.reshape(-1).tolist()) for row in x]
    assert np.array_equal(scores, np.concatenate([back.scores(row[None]) for row in x]))
    assert max(abs(int(v)) for v in scores.reshape(-1)) <= net.reach


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nets(), st.data())
def test_every_flipped_bit_is_another_net_or_refused(net: IntegerNet, data: st.DataObject) -> None:
    message = encode(net)
    position = data.draw(st.integers(0, message.bits - 1))
    try:
        other = decode(flipped(message.data, position), message.bits)
    except Malformed:
        return
    assert not same(net, other)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nets(), st.integers(1, 5))
def test_no_message_begins_another_of_its_kind(net: IntegerNet, more: int) -> None:
    """A prefix code: a message followed by any bits is refused, and so is a message cut short."""
    message = encode(net)
    text = "".join(f"{byte:08b}" for byte in message.data)[: message.bits]
    for other in (text + "0" * more, text + "1" * more, text[:-more]):
        size = -(-len(other) // 8)
        with pytest.raises(Malformed):
            decode(int(other.ljust(8 * size, "0"), 2).to_bytes(size, "big"), len(other))


def test_the_grammar_is_drawn_in_full() -> None:
    """The strategy above reaches every source, order, kind of tying, grouping, pooling and
    input.
    """
    seen: set[object] = set()

    @settings(
        max_examples=200,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(nets())
    def look(net: IntegerNet) -> None:
        seen.add(type(net.input).__name__)
        for layer in net.layers:
            if isinstance(layer, Pool):
                seen.add(layer.kind)
                continue
            seen.add(type(layer.source).__name__)
            seen.add((type(layer).__name__, layer.symmetry))
            seen.add(("biases", layer.bias is None))
            if isinstance(layer, Conv):
                grouping = (
                    "depthwise" if layer.groups == 0 else "groups" if layer.groups > 1 else "one"
                )
                seen.add(("tied", layer.symmetry > 1, len(layer.source.shape), grouping))

    look()
    wanted: set[object] = {"Bytes", "Floats", "max", "sum"}
    wanted |= {
        "Grid",
        "Values",
        "SeededMask",
        "SeededProjection",
        "SeededNoise",
        "SignProjection",
        "Product",
    }
    wanted |= {(kind, order) for kind in ("Conv", "Dense") for order in (1, 2, 4, 8)}
    wanted |= {("biases", True), ("biases", False)}
    wanted |= {("tied", False, 4, grouping) for grouping in ("one", "groups", "depthwise")}
    wanted |= {("tied", True, 4, grouping) for grouping in ("one", "groups", "depthwise")}
    wanted |= {("tied", True, 5, grouping) for grouping in ("one", "groups")}
    assert wanted <= seen, wanted - seen


def test_the_batch_and_the_threads_do_not_change_the_count() -> None:
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    convolution = Conv(Grid(rng.integers(-2, 3, (4, 1, 3, 3)), 2), None, 0, 2, 1, 1)
    net = IntegerNet(
        (1, 8, 8),
        Bytes(3),
        (convolution, Dense(Grid(rng.integers(-2, 3, (3, 256)), 2), None, 0, 0)),
    )
    x, y = rng.integers(0, 256, (50, 1, 8, 8), dtype=np.uint8), rng.integers(0, 3, 50)
    counts = {net.errors(x, y, batch) for batch in (None, 1, 7, 50, 512)}
    for threads in (1, 3):
        with threadpool_limits(threads):
            counts.add(net.errors(x, y, 7))
    assert len(counts) == 1


def test_ties_are_errors_and_inputs_are_checked() -> None:
    net = IntegerNet((1, 1, 2), Bytes(0), (Dense(grid([[1, 0], [0, 1]]), None, 0, 0),))
    x = np.array([[[[3, 3]]], [[[4, 3]]], [[[3, 4]]]], dtype=np.uint8)
    assert net.answers(x).tolist() == [-1, 0, 1]
    assert net.errors(x, np.array([0, 0, 0])) == 2
    assert net.errors(x, np.array([0, 0, 0]), batch=1) == 2
    assert net.errors(x[:0], np.array([], dtype=np.int64)) == 0
    with pytest.raises(BadInput):
        net.scores(x.astype(np.float32))
    with pytest.raises(BadInput):
        net.scores(np.zeros((1, 3), dtype=np.uint8))


def test_the_input_is_left_as_it_was() -> None:
    """Layers work in place on their own sums, never on what they were given."""
    net = IntegerNet(
        (1, 2, 2), Bytes(0), (Pool("max", 2), Dense(grid([[1], [-1]]), np.array([7, 7]), 0, 0))
    )
    x = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)
    kept = x.copy()
    assert net.scores(x).tolist() == net.scores(x).tolist() == [[10, 4], [14, 0]]
    assert np.array_equal(x, kept)
