"""The last layer changed on the bound itself: counts and lengths agree with recounting, nothing
ever gets worse.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.certificates.test_integer_training import BLUEPRINTS
from tests.clock import Clock

from cushion.certificates.format.arithmetic import bias_length, grid_length
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import encode
from cushion.certificates.format.sources import Grid, SeededMask
from cushion.certificates.search.integer.last_layer import LastLayer, features, polish
from cushion.certificates.search.integer.trainable import GridWeights, TrainableIntegerNet
from cushion.certificates.search.task import relaxed_bound


def case(name: str, seed: int = 0, m: int = 300) -> tuple[IntegerNet, np.ndarray, np.ndarray]:
    """A net with random numbers, and examples of three classes that it has not learnt."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 60
    generator = torch.Generator().manual_seed(seed)
    model = TrainableIntegerNet(
        BLUEPRINTS[name],
        (1, 8, 8),
        3,
        Bytes(0),
        lambda shape, _: GridWeights(shape, 3, generator, 1.0),
    )
    model.calibrate(torch.from_numpy(x).float())
    with torch.no_grad():
        for bias in model.biases.values():
            bias.copy_(torch.randint(-2, 3, bias.shape, generator=generator).float())
    return model.freeze(), x, y


def bound_of(net: IntegerNet, x: np.ndarray, y: np.ndarray) -> float:
    return relaxed_bound(net.errors(x, y) / len(y), encode(net).bits, len(y))


def layer_of(name: str) -> tuple[LastLayer, Dense, IntegerNet, np.ndarray, np.ndarray]:
    """A case's last layer, ready to be changed, and as it stands in its net."""
    net, x, y = case(name)
    values = features(net, x)
    assert values is not None
    last = net.layers[-1]
    assert isinstance(last, Dense)
    return LastLayer(net, values, y), last, net, x, y


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_features_times_weights_are_the_scores(name: str) -> None:
    net, x, _ = case(name)
    last = net.layers[-1]
    assert isinstance(last, Dense)
    values = features(net, x)
    assert values is not None
    offsets = 0 if last.offsets is None else last.offsets
    weight = last.source.numbers.reshape(len(last.source.numbers), -1)
    assert np.array_equal(values @ weight.T + offsets, net.scores(x))


@pytest.mark.parametrize("levels", [1, 2, 7])
def test_the_code_length_is_that_of_the_message(levels: int) -> None:
    rng = np.random.default_rng(levels)
    for density in (0.05, 0.5, 1.0):
        weight = rng.integers(-levels, levels + 1, (10, 60)) * (rng.random((10, 60)) < density)
        weight[0, 0] = levels
        message = encode(
            IntegerNet((1, 1, 60), Bytes(0), (Dense(Grid(weight, levels), None, 0, 0),))
        )
        paid = next(item.bits for item in message.ledger if "weights" in item.item)
        assert grid_length(weight, levels) == pytest.approx(paid, abs=2.5)


@pytest.mark.parametrize("shift", [0, 3, 40])
def test_the_length_of_biases_is_that_of_the_message(shift: int) -> None:
    """Against the message without biases: flag, step and numbers."""
    rng = np.random.default_rng(shift)
    weight = rng.integers(-1, 2, (50, 4))
    bare = encode(IntegerNet((1, 1, 4), Bytes(0), (Dense(Grid(weight, 1), None, 0, 0),))).bits
    for scale in (1, 3, 100, 2000):
        bias = np.round(rng.standard_normal(50) * scale).astype(np.int64)
        layers = (Dense(Grid(weight, 1), bias, shift, 0),)
        if scale >= 2000 and shift == 40:  # beyond the exact range
            continue
        more = encode(IntegerNet((1, 1, 4), Bytes(0), layers)).bits - bare
        assert bias_length(bias, shift) - 1 == pytest.approx(more, abs=2.5)
    assert bias_length(np.zeros(50, dtype=np.int64), shift) == 1.0


@pytest.mark.parametrize("name", ["linear", "mirrored", "turned"])
def test_errors_after_a_bias_are_those_of_recounting(name: str) -> None:
    layer, last, net, x, y = layer_of(name)
    for label in range(3):
        changes = np.array([-900, -40, -3, -1, 0, 1, 2, 50, 800])
        more = layer.edge(label).more(changes)
        for change, errors in zip(changes, more, strict=True):
            offsets = layer.numbers.offsets.copy()
            offsets[label] += change
            moved = replace(
                net, layers=(*net.layers[:-1], replace(last, bias=offsets, bias_shift=0))
            )
            assert int(errors) == moved.errors(x, y) - layer.errors


def test_another_bias_step_is_taken_where_it_pays(clock: Clock) -> None:
    """x > 100 told from the rest: a step of 64 cannot say so, a finer one can."""
    x = np.arange(0, 200, dtype=np.uint8).reshape(-1, 1, 1, 1).repeat(20, axis=0)
    y = (x.reshape(-1) > 100).astype(np.int64)
    layer = Dense(Grid(np.array([[-1], [1]]), 1), np.array([1, -1]), 6, 0)
    net = IntegerNet((1, 1, 1), Bytes(0), (layer,))
    *_, final = polish(net, x, y, 0.2, seed=0)
    assert final.net is not None
    assert net.errors(x, y) > 700
    assert final.net.errors(x, y) <= 20  # ties at 100
    assert encode(final.net).bits < encode(net).bits + 20


def test_ties_are_parted_by_doubling_all_weights(clock: Clock) -> None:
    """Sums of two bytes against 30: with weights of 1 no whole bias lies between 30 and 31, and
    ties are errors.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(0, 31, (3000, 1, 1, 4), dtype=np.uint8)
    y = (x[:, 0, 0, 0].astype(int) + x[:, 0, 0, 1] > 30).astype(np.int64)
    weight = np.array([[-1, -1, 0, 0], [0, 0, 0, 0]])
    net = IntegerNet((1, 1, 4), Bytes(0), (Dense(Grid(weight, 1), np.array([1, -1]), 4, 0),))
    assert net.errors(x, y) > 80
    *_, final = polish(net, x, y, 1.0, seed=0)
    assert final.net is not None
    assert final.net.errors(x, y) == 0


@pytest.mark.parametrize("name", ["linear", "mirrored", "turned"])
def test_errors_after_a_change_are_those_of_recounting(name: str) -> None:
    layer, last, net, x, y = layer_of(name)
    assert layer.errors == net.errors(x, y)
    assert layer.bits == pytest.approx(encode(net).bits)
    rng = np.random.default_rng(1)
    for _ in range(40):
        label, column, step = (
            int(rng.integers(3)),
            int(rng.integers(layer.numbers.weight.shape[1])),
            int(rng.integers(-4, 5)),
        )
        if step == 0:
            continue
        more = layer.more(layer.edge(label), step)
        weight = layer.numbers.weight.copy()
        weight[label, column] += step
        source = Grid(weight.reshape(last.source.shape), 11)
        changed = replace(net, layers=(*net.layers[:-1], replace(last, source=source)))
        assert int(more[column]) == changed.errors(x, y) - layer.errors


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_polishing_lowers_the_bound_and_tells_the_truth(name: str, clock: Clock) -> None:
    net, x, y = case(name)
    lowest = bound_of(net, x, y)
    clock.tick = 3e-3
    states = list(polish(net, x, y, 1.0, seed=1))
    assert states[-1].last
    for state in states:
        assert state.net is not None
        assert state.promise == pytest.approx(
            bound_of(state.net, x, y), abs=0.02
        )  # but for the ends of the code
        assert state.promise <= lowest + 1e-9
        lowest = state.promise
    assert lowest < bound_of(net, x, y) - 0.02


def test_polishing_keeps_its_time(clock: Clock) -> None:
    """Two hundred classes: trying all bias steps would take minutes."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (4000, 1, 1, 8), dtype=np.uint8), rng.integers(0, 200, 4000)
    net = IntegerNet(
        (1, 1, 8), Bytes(0), (Dense(Grid(rng.integers(-3, 4, (200, 8)), 3), None, 0, 0),)
    )
    clock.tick = 1e-3
    *_, final = polish(net, x, y, 0.5, seed=0)
    assert clock.now < 0.8  # one look at the clock for each class is left when the time is over
    assert final.net is not None
    assert final.net.errors(x, y) <= net.errors(x, y)


def test_only_weights_on_a_grid_are_polished() -> None:
    net, x, y = case("linear")
    last = net.layers[-1]
    assert isinstance(last, Dense)
    seeded = replace(last, source=SeededMask(np.ones((3, 64), dtype=np.int64), 1, 1))
    assert list(polish(replace(net, layers=(seeded,)), x, y, 0.2, seed=0)) == []
