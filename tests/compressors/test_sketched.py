"""A layer stored as its sketch: it comes back exactly or is refused, and hostile fields are refused
first.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cushion.certificates.format.number_stream import encode_numbers
from cushion.compressors.pruning import sketched
from cushion.compressors.pruning.sketched import (
    Sketched,
    checksum_of,
    default_ones,
    factors,
    ones_within,
    paper_side,
    sides,
    sketch_layer,
    sketch_of,
    statistical_dimension,
)
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept, Numbers
from cushion.compressors.storage.stored_net import StoredNet, places, read_stored
from cushion.errors import BadInput, Malformed
from cushion.nets.models import build
from cushion.nets.tracing import trace


def pruned(shape: tuple[int, ...], nonzeros: int, seed: int = 0, largest: int = 127) -> Numbers:
    rng = np.random.default_rng(seed)
    flat = np.zeros(math.prod(shape), dtype=np.int64)
    at = rng.choice(flat.size, nonzeros, replace=False)
    flat[at] = rng.integers(1, largest + 1, nonzeros) * rng.choice([-1, 1], nonzeros)
    return Numbers(flat.reshape(shape), -7)


@pytest.mark.parametrize(
    ("shape", "nonzeros", "largest"),
    [
        ((60, 60), 150, 127),
        ((90, 40), 200, 127),  # not square
        ((10, 120), 80, 127),  # a short side is not cut
        ((32, 8, 3, 3), 150, 127),  # a kernel as the matrix [32, 72]
        ((1, 60), 4, 127),
        ((60, 60), 150, 2**30),  # far beyond single precision
        ((8, 9), 0, 1),
    ],
)
def test_a_layer_comes_back_exactly(shape: tuple[int, ...], nonzeros: int, largest: int) -> None:
    numbers = pruned(shape, nonzeros, largest=largest)
    layer, record = sketch_layer(numbers, 3, 2, m=None, ones=None)
    assert layer is not None
    assert record.recovered
    assert record.wrong == 0
    assert record.optimal_gap <= 1e-9
    assert (
        record.numbers
        == record.rows * record.columns
        == layer.sketch.integers.size
        < math.prod(shape)
    )
    # What a decoder does, from fields and numbers alone: nothing is carried over.
    assert Sketched.sizes(shape, layer.fields) == (layer.sketch.integers.shape,)
    again = Sketched.restore(shape, 2, layer.fields, layer.numbers)
    weight = again.weight(3)
    assert weight.shape == shape
    np.testing.assert_array_equal(weight, numbers.values)
    np.testing.assert_array_equal(again.integers(3), numbers.integers)
    assert record.bits == encode_numbers(layer.fields, [layer.sketch.integers]).bits
    own = Pruned.of(numbers)
    assert (
        record.pruned_bits
        == encode_numbers(own.fields, [part.integers for part in own.numbers]).bits
    )


def test_the_sketch_is_the_product_in_whole_numbers() -> None:
    numbers = pruned((60, 50), 150)
    layer, record = sketch_layer(numbers, 3, 2, m=40, ones=5)
    assert layer is not None
    assert (record.rows, record.columns, record.ones) == (40, 40, 5)
    A, B = factors((60, 50), 40, 40, 5, 3, 2)
    np.testing.assert_array_equal(layer.sketch.integers, A @ numbers.integers @ B.T)
    assert layer.fields == (40, 40, 5, checksum_of(numbers.integers))
    held = numbers.integers != 0
    j = max(held.sum(axis=0).max(), held.sum(axis=1).max())
    assert record.theory == pytest.approx(math.sqrt(j * 60) * math.log(60))


def test_the_place_and_the_seed_name_the_factors() -> None:
    first = factors((30, 30), 20, 20, 4, 0, 1)
    assert (first[0] != first[1]).any()
    assert (first[0] != factors((30, 30), 20, 20, 4, 0, 2)[0]).any()
    assert (first[0] != factors((30, 30), 20, 20, 4, 1, 1)[0]).any()
    np.testing.assert_array_equal(factors((30, 30), 30, 20, 4, 0, 1)[0], np.eye(30))


def test_too_small_a_side_is_reported_and_not_stored() -> None:
    numbers = pruned((60, 60), 300)
    layer, record = sketch_layer(numbers, 0, 1, m=12, ones=None)
    assert layer is None
    assert not record.recovered
    assert record.wrong > 100
    assert record.rows == record.columns == 12


def test_a_dense_layer_is_given_up() -> None:
    """Two thirds of the entries are non-zeros: no sketch of fewer numbers than entries holds
    them.
    """
    layer, record = sketch_layer(pruned((40, 40), 1100), 0, 1, m=None, ones=None)
    assert layer is None
    assert not record.recovered
    assert record.wrong > 0
    assert record.rows * record.columns < 1600


def test_sums_that_do_not_fit_are_refused() -> None:
    ones = np.ones((1, 1000), dtype=np.int64)
    matrix = np.full((1000, 1), 2**30, dtype=np.int64)
    with pytest.raises(BadInput, match="40 bits"):
        sketch_of(ones, matrix, np.ones((1, 1), dtype=np.int64))  # 1000 · 2^30 > 2^39
    with pytest.raises(BadInput, match="too large"):
        sketch_of(ones, np.full((1000, 1), 2**60, dtype=np.int64), np.ones((1, 1), dtype=np.int64))
    # 2^38 in one column: sums of two and more do not fit, which the search answers, not raises.
    assert (
        sketch_layer(Numbers(np.eye(60, dtype=np.int64) * (2**39 - 1), 0), 0, 1, m=None, ones=None)[
            0
        ]
        is None
    )


def test_another_seed_or_place_or_altered_number_does_not_come_back() -> None:
    layer, _ = sketch_layer(pruned((60, 60), 150), 3, 2, m=None, ones=None)
    assert layer is not None
    with pytest.raises(Malformed, match="did not come back"):
        layer.weight(4)
    with pytest.raises(Malformed, match="did not come back"):
        Sketched.restore(layer.shape, 1, layer.fields, layer.numbers).weight(3)
    changed = layer.sketch.integers.copy()
    changed[0, 0] += 1
    with pytest.raises(Malformed, match="did not come back"):
        Sketched.restore(layer.shape, 2, layer.fields, (Numbers(changed, -7),)).weight(3)
    with pytest.raises(Malformed, match="did not come back"):
        replace(layer, checksum=layer.checksum ^ 1, _known={}).weight(3)


def test_what_another_matrix_of_the_same_sketch_would_be_is_refused() -> None:
    """X is not the smallest with this sketch: without the checksum the smaller one would pass for
    it.
    """
    numbers = pruned((40, 40), 500)
    A, B = factors((40, 40), 20, 20, 6, 0, 1)
    Y = sketch_of(A, numbers.integers, B)
    layer = Sketched(Numbers(Y, 0), (40, 40), 6, checksum_of(numbers.integers), 1)
    with pytest.raises(Malformed, match="did not come back"):
        layer.weight(0)


@pytest.mark.parametrize(
    "fields",
    [
        (0, 5, 1, 0),
        (61, 5, 1, 0),
        (5, 0, 1, 0),
        (5, 51, 1, 0),
        (5, 6, 0, 0),
        (5, 6, 7, 0),
        (5, 6, 2, 2**32),
        (2**39, 2**39, 1, 0),
    ],
)
def test_absurd_fields_are_refused(fields: tuple[int, ...]) -> None:
    with pytest.raises(BadInput):
        Sketched.sizes((60, 50), fields)


def test_absurd_work_is_refused_before_it_is_done() -> None:
    with pytest.raises(BadInput, match="larger"):
        Sketched.sizes((30000, 10), (20000, 10, 5, 0))  # A alone would hold 6·10^8 numbers
    assert Sketched.sizes((30000, 10), (500, 10, 5, 0)) == ((500, 10),)
    # A loader's limit is 2^41: a layer of 784 x 784 passes, 5000 x 5000 with a third of the numbers
    # does not.
    assert Sketched.work((200, 200, 7, 0), 784 * 784) < 2.0**37
    assert Sketched.work((2900, 2900, 9, 0), 5000 * 5000) > 2.0**41


def test_the_checksum_is_crc32_of_shape_and_numbers() -> None:
    matrix = np.array([[1, -2], [0, 3]])
    raw = b"2 2 " + b"".join(
        int(value).to_bytes(8, "little", signed=True) for value in matrix.reshape(-1)
    )
    assert checksum_of(matrix) == zlib.crc32(raw)
    assert checksum_of(matrix.reshape(1, 4)) != checksum_of(matrix)


def test_recovery_sets_in_where_the_statistical_dimension_says() -> None:
    # One measurement for one number, none for none; the classical weak threshold of half as many
    # measurements as unknowns lies near a share of 0.19 of non-zeros (Donoho and Tanner 2009: k/n =
    # 0.385 at n/N = 1/2).
    assert statistical_dimension(0.0) == 0.0
    assert statistical_dimension(1.0) == 1.0
    assert statistical_dimension(0.5 * 0.3851) == pytest.approx(0.5, abs=2e-3)
    shares = [statistical_dimension(share) for share in np.linspace(0, 1, 50)]
    assert all(a < b for a, b in pairwise(shares))
    # Where τ is optimal the sampled distance of a normal vector to τ times the subdifferential is
    # the same.
    rng = np.random.default_rng(0)
    g = rng.normal(size=200000)
    sampled = min(
        0.1 * (1 + tau**2) + 0.9 * np.mean(np.maximum(np.abs(g) - tau, 0) ** 2)
        for tau in np.linspace(0.5, 3, 100)
    )
    assert statistical_dimension(0.1) == pytest.approx(sampled, rel=0.02)


def test_sides_and_ones() -> None:
    assert sides(200, 200, 0.25) == (100, 100)
    assert sides(784, 300, 0.04) == (157, 60)
    assert sides(10, 300, 0.25) == (10, 75)  # few columns of 5 rows differ: the short side stays
    assert sides(300, 10, 0.25) == (75, 10)
    assert sides(60, 60, 1.0) == (60, 60)
    assert default_ones(784, 784, 200, 200) == math.ceil(math.log(784))
    assert default_ones(2500, 2500, 400, 400) == math.ceil(math.log(2500))
    chosen = default_ones(30, 30, 22, 22)
    assert math.comb(22, chosen) >= 500 * 900 > math.comb(22, chosen - 1)
    assert default_ones(10, 300, 10, 75) == math.ceil(
        math.log(300)
    )  # a side that is not cut asks for nothing
    assert (ones_within(7, 5), ones_within(7, 40), ones_within(3, 1)) == (2, 7, 1)
    assert paper_side(5, 200) == pytest.approx(math.sqrt(1000) * math.log(200))
    assert paper_side(0, 200) == paper_side(1, 1) == 0


def test_a_sketch_is_stored_only_with_iterations_to_spare() -> None:
    assert sketched._SURE <= 0.7 * sketched.MOST_ITERATIONS


def test_a_net_with_a_sketched_layer_is_read_from_its_message() -> None:
    """Through the code of whole nets: the loader rebuilds the very weight, and refuses a message
    with another seed.
    """
    frame = trace(build("64: fc60 relu fc10", seed=0).eval(), (64,))
    first, last = (node.affine.operator.weight for node in frame.affine_layers)
    numbers = pruned(tuple(first.shape), 150)
    layer, _ = sketch_layer(numbers, 5, places(frame)[0], m=None, ones=None)
    assert layer is not None
    kept = Kept(Numbers(np.ones(tuple(last.shape), dtype=np.int64), 0))
    biases = tuple(Numbers(np.zeros(len(weight), dtype=np.int64), 0) for weight in (first, last))
    stored = StoredNet(5, (layer, kept), biases)
    again = read_stored(stored.coded.data, stored.coded.bits, frame)
    np.testing.assert_array_equal(again.layers[0].weight(5), numbers.values)
    rebuilt = again.network(frame).affine_layers[0].affine.operator.weight
    np.testing.assert_array_equal(rebuilt.numpy(), numbers.values.astype(np.float32))
    other = StoredNet(6, (layer, kept), biases).coded
    with pytest.raises(Malformed, match="did not come back"):
        read_stored(other.data, other.bits, frame).network(frame)
