"""Sums over places, simulated on a net's own convolution: Algorithm 4's filters do as the closed
form says.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.place_moments import place_variance
from torch import nn

import cushion
from cushion.compressors.projection import location_sums as module
from cushion.compressors.projection.location_sums import simulate_places
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.storing import LayerPlan, store_net
from cushion.nets.network import Network
from cushion.nets.operators.gaussian_projection import gaussian_rows


def net_of(channels: int, side: int = 5) -> Network:
    torch.manual_seed(1)
    layers = nn.Sequential(
        nn.Conv2d(1, channels, 3),
        nn.ReLU(),
        nn.Conv2d(channels, 2, 2),
        nn.Flatten(),
        nn.Linear(2 * (side - 3) ** 2, 3),
    )
    return cushion.trace(layers.eval(), (1, side, side))


def plans(net: Network, k: int, p: int) -> list[LayerPlan]:
    return [LayerPlan(size=k, p=p) for _ in net.affine_layers]


def test_both_kinds_of_filter_have_the_variance_of_the_closed_form() -> None:
    net, k, p, seed = net_of(4), 2, 4, 3
    stored = store_net(net, None, "conv-project", plans(net, k, p), NetOptions(), seed)
    found = simulate_places(net, stored, seed)
    assert [(one.claim, one.filters) for one in found] == [
        ("Lemma 15", "independent"),
        ("Lemma 15", "algorithm 4"),
        ("Corollary C.2", "independent"),
        ("Corollary C.2", "algorithm 4"),
    ]
    smallest = min(net.affine_layers[:2], key=lambda node: node.affine.operator.parameters)
    kernel = smallest.affine.operator.weight.double().numpy().reshape(-1)
    places = math.prod(smallest.affine.operator.output_shape[1:])
    u = gaussian_rows(kernel.size, 0, 1, seed, "directions of a sum over places")[0] / math.sqrt(
        kernel.size
    )
    squares, inner = float(u @ u) * float(kernel @ kernel), float(u @ kernel) ** 2
    variance, covariance = place_variance(kernel.size, k, p, squares, inner)
    # The same U at all places: L variances and L(L-1) covariances, over L(‖U‖²‖A‖² + ⟨U, A⟩²)/k of
    # independent normals.
    expected = (places * variance + places * (places - 1) * covariance) / (
        places * (squares + inner) / k
    )
    independent, dependent = found[0], found[1]
    for one in found:
        assert (one.layer, one.k, one.p, one.places) == (smallest.name, k, p, places)
        assert one.trials >= 50
        assert one.moment_ratio <= 1
        assert one.tail_ratio <= 1
    assert abs(independent.variance_ratio - 1) < 5 * independent.variance_error
    assert abs(dependent.variance_ratio - expected) < 5 * dependent.variance_error
    assert dependent.variance_ratio > 1 + 5 * dependent.variance_error  # so Lemma 12 is false
    assert abs(independent.pair_correlation) < 5 * independent.pair_error
    assert dependent.pair_correlation > 3 * dependent.pair_error


def test_nothing_is_simulated_where_there_is_nothing_to_add_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = net_of(4)
    dense = store_net(net, None, "matrix-project", plans(net, 4, 1), NetOptions(), 0)
    assert simulate_places(net, dense, 0) == ()
    single = store_net(net, None, "conv-project", plans(net, 2, 1), NetOptions(), 0)
    # p = 1: no two places are claimed to be independent
    assert simulate_places(net, single, 0) == ()
    located = store_net(net, None, "conv-project", plans(net, 2, 4), NetOptions(), 0)
    monkeypatch.setattr(module, "_NORMALS", 10)
    assert simulate_places(net, located, 0) == ()  # too dear


def test_the_same_seed_gives_the_same_simulation() -> None:
    net = net_of(3)
    stored = store_net(net, None, "conv-project", plans(net, 2, 3), NetOptions(), 0)
    assert simulate_places(net, stored, 5) == simulate_places(net, stored, 5)
    first, other = simulate_places(net, stored, 5)[0], simulate_places(net, stored, 6)[0]
    assert not np.isclose(first.variance_ratio, other.variance_ratio)
