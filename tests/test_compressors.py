"""The search for integer nets: what it trains is what it freezes, and it keeps the best within its time."""

from __future__ import annotations

import itertools
import time
from decimal import Decimal

import numpy as np
import pytest
import torch

import cushion
from cushion.compressors import integer_net as compressor
from cushion.data.dataset import Dataset
from cushion.encoding.integer_net import IntegerNet
from cushion.encoding.message import decode, encode
from cushion.errors import BadInput


def blobs(m: int = 200, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 120
    return Dataset("blobs", x, y, 3)


@pytest.mark.parametrize("channels", [(), (4,), (3, 5)])
@pytest.mark.parametrize("levels", [1, 3])
def test_frozen_net_computes_what_the_trained_one_did(channels: tuple[int, ...], levels: int) -> None:
    plan = compressor.Plan(channels, levels, 4, 1.0)
    generator = torch.Generator().manual_seed(1)
    model = compressor.TrainableIntegerNet(plan, (1, 8, 8), 3, generator)
    x = blobs(20).x
    pixels = torch.from_numpy(x >> 4).float()
    model.calibrate(pixels)
    with torch.no_grad():
        for bias in model.biases:
            bias.uniform_(-1, 1, generator=generator)
        scores = model(pixels)
    net = model.freeze()
    assert np.array_equal(scores.numpy().astype(np.int64), net.scores(x))
    message = encode(net)
    assert np.array_equal(decode(message.data, message.bits).scores(x), net.scores(x))


def test_search_returns_the_best_it_judged_in_time() -> None:
    data = blobs()

    def run(seed: int) -> tuple[Decimal, list[Decimal]]:
        judged: list[Decimal] = []

        def judge(net: IntegerNet) -> Decimal:
            value = Decimal(net.errors(data.x, data.y) * 1000 + encode(net).bits)
            judged.append(value)
            return value

        found = compressor.search(data, judge, seconds=1.5, seed=seed).net
        count = len(judged)
        best = judge(found)
        return best, judged[:count]

    begin = time.monotonic()
    best, judged = run(0)
    assert time.monotonic() - begin < 8
    assert best == min(judged)


def test_certify_beats_chance_and_verifies(tmp_path) -> None:
    data, held_out = blobs(300), blobs(100, seed=1)
    told: list[tuple[float, Decimal | None]] = []
    certificate = cushion.certify(data, holdout=held_out, minutes=0.05, report=lambda *news: told.append(news))
    assert certificate.bound < 0.6
    assert str(told[-1][1]) == certificate.claim.bound
    assert all(before[0] <= after[0] for before, after in itertools.pairwise(told))
    path = certificate.save(tmp_path / "b.cushion")
    assert cushion.verify(path, data, held_out).ok


def test_a_teacher_is_imitated(tmp_path) -> None:
    data = blobs(300)
    teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    certificate = cushion.certify(data, model=teacher, minutes=0.03)
    assert certificate.claim.made_with["imitates_a_model"] is True
    assert certificate.claim.about == "g"
    with pytest.raises(BadInput, match="2 scores"):
        cushion.certify(data, model=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), minutes=0.01)


def test_ctrl_c_keeps_the_best_so_far() -> None:
    data = blobs()
    judged: list[IntegerNet] = []

    def judge(net: IntegerNet) -> Decimal:
        judged.append(net)
        if len(judged) == 3:
            raise KeyboardInterrupt
        return Decimal(len(judged))

    found = compressor.search(data, judge, seconds=20, seed=0)
    assert found.net is judged[0]
    assert found.interrupted


def test_the_search_begins_with_the_most_frequent_class() -> None:
    data = blobs()
    net = compressor.constant_net((1, 8, 8), data)
    assert net.errors(data.x, data.y) == len(data) - np.bincount(data.y).max()
    assert encode(net).bits < 80


def test_slow_judging_is_done_less_often_and_the_time_is_kept() -> None:
    data = blobs()
    times: list[float] = []

    def judge(net: IntegerNet) -> Decimal:
        time.sleep(0.3)
        times.append(time.monotonic())
        return Decimal(encode(net).bits)

    begin = time.monotonic()
    compressor.search(data, judge, seconds=3, seed=0)
    assert time.monotonic() - begin < 4.5
    assert 0.3 * len(times) < 2.1


def test_vectors_become_a_dense_net() -> None:
    data = Dataset("flat", blobs().x.reshape(200, 64), blobs().y, 3)
    assert cushion.certify(data, minutes=0.02).claim.m == 200


def test_float_inputs_and_bad_options_are_refused() -> None:
    floats = Dataset("floats", blobs().x.astype(np.float32), blobs().y, 3)
    with pytest.raises(BadInput, match="uint8"):
        cushion.certify(floats, minutes=0.01)
    with pytest.raises(BadInput, match="--minutes"):
        cushion.certify(blobs(), minutes=0)
    with pytest.raises(BadInput, match="--delta"):
        cushion.certify(blobs(), delta=0.9)
