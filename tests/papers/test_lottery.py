"""Theorem 6.1 tried: the ticket is a pruned net and nothing else, its error is bracketed, and falls
like 1/width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cushion.errors import BadInput
from cushion.papers.guha.lottery import (
    Matrix,
    TicketLayer,
    _uniform,
    error_at_most,
    find_ticket,
    forward,
    largest_error,
    target_net,
    ticket_error,
)

DIMS = (5, 7, 4, 3)


def run(layers: list[Matrix], x: Matrix) -> Matrix:
    """A ReLU net without biases, the last layer linear, one matrix product at a time."""
    for at, weight in enumerate(layers):
        x = x @ weight.T
        x = np.maximum(x, 0) if at + 1 < len(layers) else x
    return x


def net_shapes(dims: Sequence[int], width: int) -> list[tuple[int, int]]:
    """The 2L shapes [out, in] of G for a target of these sizes, all hidden layers of `width`."""
    inside = [width] * (2 * len(dims) - 3)
    return list(zip([*inside, dims[-1]], [dims[0], *inside], strict=True))


def random_net(dims: Sequence[int], width: int, seed: int) -> list[Matrix]:
    """All weights of G, in the order of `find_ticket`."""
    layers = []
    for at, (rows, columns) in enumerate(net_shapes(dims, width)):
        numbers = _uniform(f"lottery layer {at}", seed, rows * columns)
        layers.append(
            numbers.reshape(rows, columns) if at % 2 else numbers.reshape(columns, rows).T
        )
    return layers


def masks_of(ticket: list[TicketLayer], dims: Sequence[int], width: int) -> list[NDArray[np.bool_]]:
    """One for each of the 2L layers of `random_net`, True where a weight stays."""
    found = []
    for at, shape in enumerate(net_shapes(dims, width)):
        mask, layer = np.zeros(shape, dtype=np.bool_), ticket[at // 2]
        block = width // layer.target.shape[1]
        for one in layer.chosen:
            output, _ = np.indices(one.shape)
            if at % 2:
                mask[output, one] = True
            else:
                mask[one, one // block] = True
        found.append(mask)
    return found


def inputs(dims: tuple[int, ...], n: int = 300) -> Matrix:
    x = np.random.default_rng(3).normal(size=(n, dims[0]))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("dims", [DIMS, (3, 1), (1, 4, 2), (4, 4, 4, 4, 1)])
def test_the_ticket_is_the_random_net_with_some_weights_removed(dims: tuple[int, ...]) -> None:
    width, seed = 120, 2
    target = target_net(dims)
    ticket = find_ticket(target, width, seed)
    net, masks = random_net(dims, width, seed), masks_of(ticket, dims, width)
    assert (
        [weight.shape for weight in net]
        == [mask.shape for mask in masks]
        == net_shapes(dims, width)
    )
    assert len(net) == 2 * len(target)
    pruned = [weight * mask for weight, mask in zip(net, masks, strict=True)]
    x = inputs(dims)
    # The whole random net with the mask computes what the ticket says, although that never built
    # the net.
    assert np.allclose(run(pruned, x), forward(ticket, torch.from_numpy(x)).numpy(), atol=1e-12)
    record = ticket_error(dims, width, seed)
    assert record["active"] == sum(int(mask.sum()) for mask in masks)
    assert record["all_weights"] == sum(weight.size for weight in net)
    for at, mask in enumerate(masks[::2]):
        assert set(mask.sum(axis=1)) <= {0, 1}  # a neuron keeps one input
        kept = net[2 * at][mask]
        assert at == 0 or (kept > 0).all()  # behind a ReLU only the positive branch is needed


def test_random_weights_are_uniform_and_seeded() -> None:
    first, second = (
        np.concatenate([w.ravel() for w in random_net((4, 3, 2), 150, seed)]) for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    for numbers in (first, second):
        assert -1 <= numbers.min() < -0.999
        assert 0.999 < numbers.max() < 1
        # mean 0, variance 1/3, each within five standard errors
        assert abs(numbers.mean()) < 5 / math.sqrt(3 * numbers.size)
        assert abs((numbers**2).mean() - 1 / 3) < 5 * math.sqrt(4 / 45 / numbers.size)
    layers = random_net((4, 3, 2), 150, 0)
    pairs = itertools.combinations([layer.ravel()[:300] for layer in layers], 2)
    assert all(
        abs(np.corrcoef(a, b)[0, 1]) < 0.3 for a, b in pairs
    )  # each layer has a stream of its own


def test_the_nearest_product_is_chosen() -> None:
    """Against a search over every neuron of every input, one at a time."""
    target = target_net((3, 4, 2), 1)
    width = 40
    ticket = find_ticket(target, width, 1)
    net = random_net((3, 4, 2), width, 1)
    for at, (weight, layer) in enumerate(zip(target, ticket, strict=True)):
        block = width // weight.shape[1]
        for (k, i), w in np.ndenumerate(weight):
            for sign, chosen in zip((1, -1), layer.chosen, strict=False):
                best, where = math.inf, -1
                for j in range(i * block, (i + 1) * block):
                    u, v = net[2 * at][j, i], net[2 * at + 1][k, j]
                    if u * sign > 0 and abs(u * v - w) < best:
                        best, where = abs(u * v - w), j
                assert chosen[k, i] == where
    assert [len(layer.chosen) for layer in ticket] == [2, 1]


def test_the_error_per_weight_falls_like_one_over_the_block() -> None:
    """Nearest of b products with u > 0: about 1/(b ln(1/|w|)) off on average, from the density ½
    ln(1/|w|).
    """
    weight = np.full((400, 1), 0.3)
    for width in (200, 800):
        off = [np.abs(find_ticket([weight / 20], width, seed)[0].off).mean() for seed in range(10)]
        # w = 0.015: the density is smooth at the scale of 1/width; half of the block has each sign.
        expected = 1 / (width / 2 * math.log(1 / 0.015))
        assert np.mean(off) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("dims", [DIMS, (2, 3, 1), (6, 2)])
def test_the_error_is_bracketed(dims: tuple[int, ...]) -> None:
    target = target_net(dims, 4)
    ticket = find_ticket(target, 300, 4)
    found, at_most = largest_error(ticket), error_at_most(ticket)
    x = inputs(dims, 20_000)
    seen = np.linalg.norm(
        forward(ticket, torch.from_numpy(x)).numpy() - run(list(target), x), axis=1
    ).max()
    assert 0 < seen <= found * (1 + 1e-9)  # climbing finds more than many random points
    assert found <= at_most
    if len(dims) == 2:
        # One linear layer on (relu(x), relu(-x)): the bound is a norm that an input of its signs
        # would attain.
        signed = itertools.product((0, 1), repeat=dims[0])
        layer = ticket[0]
        exact = max(
            np.linalg.norm(
                np.where(np.array(s), layer.realised[0] - target[0], layer.realised[1] - target[0]),
                2,
            )
            for s in signed
        )
        assert found <= exact * (1 + 1e-9) <= at_most * (1 + 1e-9)


def test_the_search_finds_the_largest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the plane against all directions, a step of 3e-5 apart; with more inputs climbing must
    beat its start.
    """
    target = target_net((2, 5, 1), 0)
    ticket = find_ticket(target, 200, 0)
    angles = np.linspace(0, 2 * np.pi, 200_000)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    everywhere = np.abs(forward(ticket, torch.from_numpy(x)).numpy() - run(list(target), x)).max()
    assert largest_error(ticket) == pytest.approx(everywhere, rel=1e-6)
    ticket = find_ticket(target_net((16, 16, 16, 4)), 1024)
    climbed = largest_error(ticket)
    monkeypatch.setattr("cushion.papers.guha.lottery.STEPS", 0)
    assert climbed > 1.3 * largest_error(ticket)


def test_the_bound_follows_the_recursion_by_hand() -> None:
    target = target_net((2, 3, 1), 0)
    ticket = find_ticket(target, 100, 0)
    first, second = ticket
    e1 = np.linalg.norm(
        np.hstack([first.realised[0] - target[0], target[0] - first.realised[1]]), 2
    )
    e2 = np.linalg.norm(second.realised[0] - target[1], 2)
    a1, a2 = (np.linalg.norm(weight, 2) for weight in target)
    assert error_at_most(ticket) == pytest.approx(a2 * e1 + e2 * (a1 + e1), rel=1e-6)


def test_errors_fall_like_one_over_the_width() -> None:
    found = [ticket_error((8, 8, 8, 2), width) for width in (256, 1024, 4096, 16384)]
    for kind in ("found", "at_most"):
        first, last = (one[kind] for one in (found[0], found[-1]))
        assert -1.25 < math.log(last / first) / math.log(64) < -0.75


def test_erratum_h_the_count_printed_is_that_of_the_whole_net() -> None:
    """Theorem 6.1 prints O(d D_G + D_G^2 L) active weights; a ticket has a few for each weight of
    the target.
    """
    for width in (500, 2000, 8000):
        one = ticket_error((8, 8, 8, 2), width)
        assert 0.5 * one["printed"] < one["all_weights"] < 2 * one["printed"]
        # Two branches in the first layer, one behind it; each branch has a weight into its neuron
        # and one out of it.
        assert one["active"] <= 2 * (2 * 64 + 64 + 16) == 2 * (one["target_weights"] + 64)
        assert one["active"] > one["target_weights"]
    assert one["printed"] > 100_000 * one["active"]


def test_erratum_h_pruning_by_magnitude_does_not_find_the_ticket() -> None:
    """The same net, as many weights left in every layer, but the largest ones: nothing of the
    target appears.
    """
    target = target_net((6, 6, 2), 0)
    width = 900
    ticket = find_ticket(target, width, 0)
    net, masks = random_net((6, 6, 2), width, 0), masks_of(ticket, (6, 6, 2), width)
    largest = []
    for weight, mask in zip(net, masks, strict=True):
        smallest = np.sort(np.abs(weight).ravel())[-int(mask.sum())]
        largest.append(weight * (np.abs(weight) >= smallest))
    x = inputs((6,), 2000)
    wanted = run(list(target), x)
    by_size = np.linalg.norm(run(largest, x) - wanted, axis=1).max()
    assert largest_error(ticket) < 0.2 * np.linalg.norm(wanted, axis=1).max() < by_size
    shared = sum(
        int((mask & (weight != 0)).sum()) for mask, weight in zip(masks, largest, strict=True)
    )
    assert shared < 0.1 * sum(int(mask.sum()) for mask in masks)


def test_targets_satisfy_the_conditions() -> None:
    for weight in target_net((16, 40, 40, 3), 7):
        assert np.linalg.norm(weight, 2) <= 1
        assert np.abs(weight).max() <= 1 / math.sqrt(weight.shape[1])


@pytest.mark.parametrize(("dims", "width"), [((5, 3), 4), ((5, 9, 2), 8), ((50, 3), 50)])
def test_too_narrow_a_net_is_one_sentence(dims: tuple[int, ...], width: int) -> None:
    """Fewer neurons than inputs, than a hidden layer, or none of one sign."""
    with pytest.raises(BadInput, match=f"a net of width {width} has no neuron of the right sign"):
        ticket_error(dims, width)
