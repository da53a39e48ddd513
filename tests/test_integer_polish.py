"""The last layer changed on the bound itself: counts and lengths agree with recounting, nothing ever gets worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.test_integer_training import BLUEPRINTS

from cushion.compressors.integer.polish import _LastLayer, code_length, features, polish
from cushion.compressors.integer.relaxation import relaxed_bound
from cushion.compressors.integer.trainable import GridWeights, TrainableIntegerNet
from cushion.encoding.inputs import Bytes
from cushion.encoding.integer_net import Dense, IntegerNet
from cushion.encoding.message import encode
from cushion.encoding.sources import Grid, SeededMask


def case(name: str, seed: int = 0, m: int = 300) -> tuple[IntegerNet, np.ndarray, np.ndarray]:
    """A net with random numbers, and examples of three classes that it has not learnt."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 60
    generator = torch.Generator().manual_seed(seed)
    model = TrainableIntegerNet(
        BLUEPRINTS[name], (1, 8, 8), 3, Bytes(0), lambda shape, _: GridWeights(shape, 3, generator, 1.0)
    )
    model.calibrate(torch.from_numpy(x).float())
    with torch.no_grad():
        for bias in model.biases.values():
            bias.copy_(torch.randint(-2, 3, bias.shape, generator=generator).float())
    return model.freeze(), x, y


def bound_of(net: IntegerNet, x: np.ndarray, y: np.ndarray) -> float:
    return relaxed_bound(net.errors(x, y) / len(y), encode(net).bits, len(y))


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
        message = encode(IntegerNet((1, 1, 60), Bytes(0), (Dense(Grid(weight, levels), None, 0, 0),)))
        paid = next(item.bits for item in message.ledger if "weights" in item.item)
        assert code_length(weight, levels) == pytest.approx(paid, abs=2.5)


@pytest.mark.parametrize("name", ["linear", "mirrored", "turned"])
def test_errors_after_a_change_are_those_of_recounting(name: str) -> None:
    net, x, y = case(name)
    values = features(net, x)
    assert values is not None
    layer = _LastLayer(net, values, y)
    assert layer.errors == net.errors(x, y)
    assert layer.bits == pytest.approx(encode(net).bits)
    last = net.layers[-1]
    assert isinstance(last, Dense)
    rng = np.random.default_rng(1)
    for _ in range(40):
        label, column, step = int(rng.integers(3)), int(rng.integers(layer.weight.shape[1])), int(rng.integers(-4, 5))
        if step == 0:
            continue
        more = layer._more(layer._boundary(label), step)
        weight = layer.weight.copy()
        weight[label, column] += step
        source = Grid(weight.reshape(last.source.shape), 11)
        changed = replace(net, layers=(*net.layers[:-1], replace(last, source=source)))
        assert int(more[column]) == changed.errors(x, y) - layer.errors


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_polishing_lowers_the_bound_and_tells_the_truth(name: str) -> None:
    net, x, y = case(name)
    lowest = bound_of(net, x, y)
    states = list(polish(net, x, y, 0.5, seed=1))
    assert states[-1].last
    for state in states:
        assert state.net is not None
        assert state.promise == pytest.approx(bound_of(state.net, x, y), abs=0.02)  # but for the ends of the code
        assert state.promise <= lowest + 1e-9
        lowest = state.promise
    assert lowest < bound_of(net, x, y) - 0.02


def test_only_weights_on_a_grid_are_polished() -> None:
    net, x, y = case("linear")
    last = net.layers[-1]
    assert isinstance(last, Dense)
    seeded = replace(last, source=SeededMask(np.ones((3, 64), dtype=np.int64), 1, 1))
    assert list(polish(replace(net, layers=(seeded,)), x, y, 0.2, seed=0)) == []
