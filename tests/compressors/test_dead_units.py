"""Units without inputs or outputs go, and the net computes what it did."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion.compressors.storage.pruned import (
    Values,
    WithBias,
    linked_layers,
    without_dead_units,
)


def run(layers: tuple[WithBias, ...] | list[WithBias], x: Values) -> Values:
    for at, layer in enumerate(layers):
        x = x @ layer.weight.T + (0.0 if layer.bias is None else layer.bias)
        x = np.maximum(x, 0.0) if at < len(layers) - 1 else x
    return x


def sparse_net(widths: list[int], kept: float, seed: int, *, biases: bool) -> list[WithBias]:
    random = np.random.default_rng(seed)
    return [
        WithBias(
            random.normal(size=(rows, columns)) * (random.random((rows, columns)) < kept),
            random.normal(size=rows) if biases else None,
        )
        for columns, rows in itertools.pairwise(widths)
    ]


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_function_stays_and_no_dead_unit_is_left(seed: int, biases: bool) -> None:
    layers = sparse_net([7, 9, 8, 6, 4], 0.15, seed, biases=biases)
    before = sum(np.count_nonzero(layer.weight) for layer in layers)
    found = without_dead_units(layers, [True, True, True, False])
    x = np.random.default_rng(seed).normal(size=(50, 7))
    np.testing.assert_allclose(run(found, x), run(layers, x), atol=1e-12)
    # the given ones are not touched
    assert sum(np.count_nonzero(layer.weight) for layer in layers) == before
    for here, after in itertools.pairwise(found):
        empty, unread = ~here.weight.any(axis=1), ~after.weight.any(axis=0)
        assert not after.weight[:, empty].any()  # a constant is in the bias, not read
        assert not here.weight[unread].any()
        if here.bias is not None:
            assert not here.bias[unread].any()
        # so a unit is either alive on both sides or zero altogether
        assert (empty == unread).all()


def test_by_hand() -> None:
    # Unit 0 has no inputs and gives ReLU(2) = 2; unit 1 is read by nobody; unit 2 lives; unit 3
    # gives ReLU(-5) = 0.
    first = WithBias(
        np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 0.0], [0.0, 0.0]]), np.array([2.0, 7.0, 1.0, -5.0])
    )
    second = WithBias(np.array([[10.0, 0.0, 1.0, 4.0]]), np.array([0.5]))
    a, b = without_dead_units([first, second], [True, False])
    assert a.weight.tolist() == [[0.0, 0.0], [0.0, 0.0], [3.0, 0.0], [0.0, 0.0]]
    assert a.bias is not None
    assert a.bias.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert b.weight.tolist() == [[0.0, 0.0, 1.0, 0.0]]
    assert b.bias is not None
    assert b.bias.tolist() == [20.5]


def test_a_constant_stays_where_no_bias_can_carry_it() -> None:
    first = WithBias(np.array([[0.0], [0.0]]), np.array([2.0, -1.0]))
    second = WithBias(np.array([[10.0, 3.0]]), None)
    a, b = without_dead_units([first, second], [True, False])
    assert b.weight.tolist() == [[10.0, 0.0]]  # the second gives 0 whatever reads it
    assert a.bias is not None
    assert a.bias.tolist() == [2.0, 0.0]


def test_layers_that_are_not_linked_are_left_alone() -> None:
    layers = sparse_net([5, 6, 3], 0.1, 0, biases=True)
    for one, other in zip(without_dead_units(layers, [False, False]), layers, strict=True):
        assert (one.weight == other.weight).all()


class Fork(nn.Module):
    """fc1's units are read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.fc1(x))
        return self.fc3(hidden + torch.relu(self.fc2(hidden)))


def test_only_dense_layers_with_a_relu_between_are_linked() -> None:
    dense = nn.Sequential(
        nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2)
    )
    assert linked_layers(cushion.trace(dense.eval(), (1, 2, 2))) == (True, True, False)
    linear = nn.Sequential(
        nn.Linear(4, 5), nn.Linear(5, 2)
    )  # without ReLU an empty row gives b, not ReLU(b)
    assert linked_layers(cushion.trace(linear.eval(), (4,))) == (False, False)
    conv = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 2)
    )
    assert linked_layers(cushion.trace(conv.eval(), (1, 4, 4))) == (False, True, False)
    assert linked_layers(cushion.trace(Fork().eval(), (4,))) == (False, False, False)
