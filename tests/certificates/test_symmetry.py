"""Tied filters: the group's own laws, the tables against explicit motions, and nets whose scores
ignore the group.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import format_reader

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import (
    Conv,
    Dense,
    Feature,
    Layer,
    Pool,
    feature_after,
    stored_shape,
)
from cushion.certificates.format.sources import Grid, SeededNoise, Source
from cushion.certificates.format.symmetry import (
    ORDERS,
    invariant,
    lifted,
    motions,
    moved,
    regular,
    relative,
)
from cushion.errors import Malformed


@pytest.mark.parametrize("order", ORDERS)
def test_the_motions_form_a_group_in_the_order_that_format_md_states(order: int) -> None:
    probe = np.arange(25).reshape(5, 5)
    assert list(motions(order)) == format_reader.ELEMENTS[order]
    images = [moved(element, probe).tolist() for element in motions(order)]
    assert images[0] == probe.tolist()
    assert len({str(image) for image in images}) == order
    assert images == [format_reader.moves(element, probe.tolist()) for element in motions(order)]
    for a in range(order):
        assert sorted(relative(order)[a]) == list(range(order))
        for b in range(order):
            by_rule = format_reader.inverse_times(motions(order)[a], motions(order)[b])
            assert motions(order)[relative(order)[a][b]] == by_rule
            assert moved(motions(order)[a], moved(by_rule, probe)).tolist() == images[b]


def test_other_orders_are_refused() -> None:
    for order in (0, 3, 16, -1):
        with pytest.raises(Malformed, match="symmetry of order"):
            motions(order)


@pytest.mark.parametrize("order", ORDERS)
def test_tables_use_each_stored_number_equally_often(order: int) -> None:
    for table, stored, times in (
        (lifted((2, 3, 3, 3), order), 54, order),
        (regular((2, 3, order, 3, 3), order), 54 * order, order),
        (invariant((2, 3, 4, 4), order), 96, order),
    ):
        assert np.bincount(table.reshape(-1), minlength=stored).tolist() == [times] * stored


def test_mirrors_alone_need_no_square() -> None:
    assert invariant((1, 1, 1, 3), 2).tolist() == [[[[0, 1, 2]], [[2, 1, 0]]]]
    with pytest.raises(Malformed, match="square"):
        invariant((1, 1, 1, 3), 4)


def tied(
    order: int, side: int, rng: np.random.Generator, plan: list[str], pooled: bool
) -> IntegerNet:
    """Stride 1 and odd sides, so that every layer commutes with the group exactly."""
    feature, layers = Feature((2, side, side)), []

    def source(shape: tuple[int, ...]) -> Source:
        if len(layers) == 1:  # what a seed makes is tied as well
            return SeededNoise(rng.integers(-3, 4, shape), 5, 2, 1)
        return Grid(rng.integers(-3, 4, shape), 3)

    def add(layer: Layer) -> None:
        nonlocal feature
        feature = feature_after(feature, layer)
        layers.append(layer)

    for step in plan:
        channels = feature.shape[0] // order if feature.symmetry == order else feature.shape[0]
        groups = {"whole": 1, "groups": 2, "depthwise": 0}[step]
        outputs = channels if groups == 0 else 4
        shape = stored_shape(feature, outputs, 3, groups, order)
        add(Conv(source(shape), rng.integers(-9, 9, outputs), 2, 4, 1, 1, groups, order))
    if pooled:
        add(Pool("sum", feature.shape[1]))
    shape = (3, feature.shape[0] // order, *feature.shape[1:])
    add(Dense(source(shape), rng.integers(-9, 9, 3), 1, 0, order))
    return IntegerNet((2, side, side), Bytes(1), tuple(layers))


@pytest.mark.parametrize("order", [2, 4, 8])
@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([3, 5]),
    st.lists(st.sampled_from(["whole", "groups", "depthwise"]), max_size=2),
    st.booleans(),
)
def test_scores_ignore_the_group(
    order: int, seed: int, side: int, rest: list[str], pooled: bool
) -> None:
    rng = np.random.default_rng(seed)
    net = tied(order, side, rng, ["whole", *rest], pooled)
    x = rng.integers(0, 256, (2, 2, side, side), dtype=np.uint8)
    scores = net.scores(x)
    for element in motions(order):
        assert np.array_equal(net.scores(np.ascontiguousarray(moved(element, x))), scores)


def test_scores_do_not_ignore_motions_outside_the_group() -> None:
    """The property above can fail: a net tied to mirrors only sees a quarter turn, and an untied
    one all motions.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (4, 2, 5, 5), dtype=np.uint8)
    net = tied(2, 5, rng, ["whole", "whole"], False)
    assert not np.array_equal(net.scores(np.ascontiguousarray(moved((0, 1), x))), net.scores(x))
    plain = tied(4, 5, rng, ["whole", "whole"], False)
    loose = IntegerNet(plain.input_shape, plain.input, (*plain.layers[:2], untied(plain.layers[2])))
    assert not np.array_equal(loose.scores(np.ascontiguousarray(moved((0, 1), x))), loose.scores(x))


def untied(layer: Layer) -> Dense:
    assert isinstance(layer, Dense)
    rng = np.random.default_rng(1)
    return Dense(Grid(rng.integers(-3, 4, layer.weight.shape), 3), layer.bias, layer.bias_shift, 0)


@pytest.mark.parametrize(
    ("before", "outputs", "groups", "symmetry"),
    [
        (Feature((8, 5, 5), 4), 8, 0, 2),  # depthwise cannot change the symmetry
        (Feature((3, 5, 5)), 3, 0, 2),  # nor introduce one
        (Feature((8, 5, 5), 4), 8, 0, 4),  # it keeps 2 outputs, not 8
        (Feature((8, 5, 5), 4), 4, 4, 4),  # groups divide stored channels
        (Feature((6, 5, 5)), 4, 3, 1),  # and outputs
        (Feature((6, 5, 5)), 6, -1, 1),
    ],
)
def test_groups_and_symmetries_that_do_not_fit_are_refused(
    before: Feature, outputs: int, groups: int, symmetry: int
) -> None:
    with pytest.raises(Malformed):
        stored_shape(before, outputs, 3, groups, symmetry)


def test_invariant_dense_layers_that_do_not_fit_are_refused() -> None:
    def ones(*shape: int) -> Grid:
        return Grid(np.ones(shape, dtype=np.int64), 1)

    lifting = Conv(ones(1, 1, 1, 1), None, 0, 0, symmetry=4)
    for shape, layers in (
        ((1, 2, 3), (lifting, Dense(ones(2, 1, 2, 3), None, 0, 0, 4))),  # not square
        ((1, 2, 2), (lifting, Dense(ones(2, 2, 2, 2), None, 0, 0, 2))),  # another symmetry
        ((1, 2, 2), (lifting, Dense(ones(2, 4, 2, 2), None, 0, 0, 0))),
        ((4, 2, 2), (Dense(ones(2, 1, 2, 2), None, 0, 0, 4),)),  # the input carries none
        (
            (1, 2, 2),
            (lifting, Dense(ones(2, 16), None, 0, 0), Dense(ones(2, 2), None, 0, 0, 2)),
        ),  # nor does a row
        (
            (1, 2, 2),
            (Conv(ones(1, 1, 1, 1), None, 0, 0, symmetry=3), Dense(ones(2, 12), None, 0, 0)),
        ),
    ):
        with pytest.raises(Malformed):
            IntegerNet(shape, Bytes(0), layers)
