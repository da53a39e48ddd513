"""Large images, many classes, long rows: a search starts, reads a piece at a time, and its nets are
such as the format allows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.certificates.test_integer_search import blobs
from tests.clock import Clock
from tests.posterior_cases import few_draws, verify_claim

import cushion
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.inputs import Bytes, Floats
from cushion.certificates.format.layers import Pool
from cushion.certificates.format.message import encode
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.certificates.search import sample as reading
from cushion.certificates.search import sizes
from cushion.certificates.search.integer.blueprints import lay_out, plans
from cushion.certificates.search.integer.last_layer import LastLayer, features, polish
from cushion.certificates.search.integer.search import attempt
from cushion.certificates.search.integer.trainable import GridWeights, TrainableIntegerNet
from cushion.certificates.search.options import SearchOptions
from cushion.certificates.search.posterior import train_posterior
from cushion.certificates.search.sample import Sample, quantiser_for
from cushion.certificates.search.task import constant_net
from cushion.data import Dataset


def scenes(
    m: int = 60, classes: int = 3, side: int = 64, dtype: Any = np.uint8, seed: int = 0
) -> Dataset:
    """Colour images; the class is which stripe is bright."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, m)
    x = rng.integers(0, 80, (m, 3, side, side)).astype(np.float32)
    part = side // classes
    for row, label in enumerate(y):
        x[row, :, label * part : (label + 1) * part] += 120
    return Dataset("scenes", x.astype(dtype), y, classes)


def naive_sums(x: np.ndarray, square: int) -> np.ndarray:
    """One example's sums of squares, by loops."""
    channels, height, width = x.shape
    found = np.zeros((channels, height // square, width // square), np.int64)
    for c, i, j in np.ndindex(*found.shape):
        found[c, i, j] = (
            x[c, i * square : (i + 1) * square, j * square : (j + 1) * square]
            .astype(np.int64)
            .sum()
        )
    return found


@pytest.mark.parametrize(("square", "shift"), [(1, 0), (3, 0), (5, 4), (16, 0)])
def test_examples_are_summed_a_piece_at_a_time(
    monkeypatch: pytest.MonkeyPatch, square: int, shift: int
) -> None:
    data = scenes(7, side=34)
    monkeypatch.setattr(reading, "_PIECE", 3 * 34 * 34 * 2)  # two rows
    sample = Sample.of(data, shift, 0, square=square)
    assert len(sample) == len(sample.labels) == 7
    for row in range(7):
        expected = naive_sums(data.x[row] >> shift, square)
        assert np.array_equal(sample.pixels[row].numpy(), expected)


def test_rows_beyond_memory_are_left_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    data = scenes(10, side=16)
    teacher = torch.arange(30.0).reshape(10, 3)
    monkeypatch.setattr(sizes, "_HELD", 5 * 3 * 16 * 16)
    sample = Sample.of(data, 0, 0, teacher)
    assert len(sample) == 10  # bits are paid for all of them
    assert sample.labels.tolist() == data.y[::2].tolist()
    assert np.array_equal(sample.pixels.numpy(), data.x[::2])
    assert sample.teacher is not None
    assert torch.equal(sample.teacher, teacher[::2])
    assert sorted(sample.rows().tolist()) == [0, 1, 2, 3, 4]


def test_many_float_pixels_share_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    data = scenes(20, side=64, dtype=np.float32)
    monkeypatch.setattr(reading, "_FITTED", 5 * data.x[0].size)  # every fourth row
    quantiser = quantiser_for(data, 0)
    assert isinstance(quantiser, Floats)
    (low,), (high,) = quantiser.offsets, quantiser.exponents
    reach = (low + quantiser.largest + 1) / 2**high
    assert low / 2**high <= 1
    assert 190 < reach < 600


def test_a_large_image_is_learned_by_a_net_that_sums_first(tmp_path: Path, clock: Clock) -> None:
    data = scenes(200, side=128)
    plan = replace(plans((3, 128, 128), 3)[0], steps=300)
    sample = Sample.of(data, plan.input_shift, 0, square=plan.square)
    *_, final = attempt(plan, sample, data, 60, 0)
    net = final.net
    assert net is not None
    assert isinstance(net.layers[0], Pool)
    assert net.input_shape == (3, 128, 128)
    certificate = certify_net(net, data, Decimal("0.05"))
    assert certificate.bound < 0.5
    assert cushion.verify(certificate.save(tmp_path / "s.cushion"), data).ok


@pytest.mark.parametrize("method", ["subspace", "supermask"])
def test_every_method_reads_large_images(tmp_path: Path, method: Any) -> None:
    data = scenes(40, side=64)
    certificate = cushion.certify(None, data, method=method, steps=5)
    assert cushion.verify(certificate.save(tmp_path / "s.cushion"), data).ok


def test_a_posterior_reads_large_images() -> None:
    data = scenes(40, side=64)
    found = train_posterior(data, SearchOptions(0.02, method="pac-bayes"), 10**5)
    with few_draws():
        made = certify_gaussian(found.posterior, data, Decimal("0.05"), draws=100)
        assert verify_claim(made.claim, made.message, data, None).ok


@pytest.mark.parametrize(
    ("shape", "classes"),
    [((3, 224, 224), 7), ((3, 224, 224), 1000), ((150_528,), 7), ((150_528,), 1000), ((5,), 2)],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_first_net_needs_no_dense_matrix(
    shape: tuple[int, ...], classes: int, dtype: Any
) -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, *shape)).astype(dtype)
    data = Dataset("large", x, np.array([4, 1, 4, 0, 1, 4]) % classes, classes)
    net = constant_net(data)
    assert net.errors(data.x, data.y) == len(data) - np.bincount(data.y).max()
    assert encode(net).bits < 220


@pytest.mark.parametrize(
    ("shape", "classes"),
    [
        ((3, 224, 224), 7),
        ((3, 224, 224), 1000),
        ((1, 55, 55), 1000),
        ((1, 1, 150_528), 7),
        ((1, 1, 2000), 1000),
        ((3, 97, 640), 5),
        ((1, 28, 28), 10_000),
    ],
)
def test_every_plan_is_a_net_that_the_format_allows(
    shape: tuple[int, int, int], classes: int
) -> None:
    found = plans(shape, classes)
    assert found
    for plan in found:
        summed: tuple[Any, ...] = (Pool("sum", plan.square),) if plan.square > 1 else ()
        stages = lay_out((*summed, *plan.blueprint), shape, classes)
        numbers = [math.prod(s.layer.source.shape) for s in stages if not isinstance(s.layer, Pool)]
        assert sum(numbers) <= 10**6
        assert max(stage.patches for stage in stages) <= 2**22


def test_long_rows_are_learned_in_pieces(clock: Clock) -> None:
    """400 000 values and three classes: a dense layer over them is more than a net may have."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    x = rng.integers(0, 60, (60, 400_000), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, label * 130_000 : (label + 1) * 130_000] += 120
    certificate = cushion.certify(None, Dataset("long", x, y, 3), minutes=0.02)
    assert certificate.claim.m == 60


def test_the_usual_time_grows_with_the_set() -> None:
    def minutes(m: int, shape: tuple[int, ...], classes: int) -> float:
        x = np.broadcast_to(np.uint8(0), (m, *shape))
        return sizes.usual_minutes(Dataset("any", x, np.zeros(m, np.int64), classes))

    assert minutes(1500, (1, 8, 8), 10) == 1
    assert minutes(60_000, (1, 28, 28), 10) == 5
    assert minutes(50_000, (3, 32, 32), 10) == 9
    assert minutes(2000, (3, 224, 224), 7) == 2
    assert minutes(5000, (3, 224, 224), 1000) == 5
    assert minutes(20_000, (3, 224, 224), 7) == 8
    assert minutes(10_000_000, (50,), 2) == 9
    assert minutes(1_000_000, (3, 32, 32), 1000) == 15


def test_what_is_polished_on_a_part_of_the_rows_pays_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = blobs(400)
    net = constant_net(data)
    values = features(net, data.x[::2])
    assert values is not None
    layer = LastLayer(net, values, data.y[::2], 400)
    whole = LastLayer(net, np.repeat(values, 2, axis=0), np.repeat(data.y[::2], 2))
    assert layer.height() == pytest.approx(whole.height())
    seen: list[int] = []

    def counted(_: object, x: np.ndarray) -> None:
        seen.append(len(x))

    monkeypatch.setattr("cushion.certificates.search.integer.last_layer.features", counted)
    monkeypatch.setattr("cushion.certificates.search.integer.last_layer._HELD", 100 * 70)
    assert list(polish(net, data.x, data.y, 1.0, 0)) == []
    assert seen == [100]


def test_bytes_are_summed_in_the_same_units_as_the_format_sums_them() -> None:
    """What a net learned on sums is what it says of the images: the scores agree."""
    data = scenes(12, side=64)
    plan = plans((3, 64, 64), 3)[0]
    sample = Sample.of(data, plan.input_shift, 0, square=plan.square)

    model = TrainableIntegerNet(
        plan.blueprint,
        *sample.kind,
        lambda stored, _: GridWeights(stored, 3, sample.generator),
        sample.square,
    )
    model.calibrate(sample.some())
    net = model.freeze()
    assert net.input == Bytes(plan.input_shift)
    rounded = model.weights[str(len(model.stages))].rounded()  # type: ignore[operator]
    flat = sample.pixels.double().flatten(1) @ rounded.double().T
    assert np.array_equal(net.scores(data.x), flat.numpy().astype(np.int64))
