"""Compressed nets as exact integer nets: the same stored integers, nearly all answers, certificates
that verify.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import format_reader
from tests.encoding_cases import same
from tests.exact_cases import (
    FITTING,
    MORE,
    SEED,
    WAYS,
    compressed,
    distance,
    kept,
    logits,
    low_rank,
    made,
    many_signs,
    sample,
    sources_of,
)
from torch import nn

import cushion
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import Grid, Product, SignProjection, Values
from cushion.compressors.projection.matrix_project import Sparse
from cushion.compressors.searches import summarise
from cushion.compressors.storage.exact import to_integer_net
from cushion.compressors.storage.stored import Kept, Numbers
from cushion.data import load_pair


@pytest.mark.parametrize("name", [*FITTING, *MORE])
@pytest.mark.parametrize(
    ("way", "kind"), [*((way, "bytes") for way in WAYS), ("low-rank", "floats")]
)
def test_tiny_nets_keep_their_scores_and_answers(name: str, way: str, kind: str) -> None:
    """Scores are a multiple of the float net's but for 1 % of the largest, and 98.5 % of the
    answers are the same.
    """
    model, shape = made(name)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, *shape)).astype(np.float32)
    if kind == "bytes":
        x = np.clip(60 * x + 100, 0, 255).astype(np.uint8)
    elif name == "vgg-tiny" or name.startswith("grouped"):
        x = np.abs(x)  # the first layer pads
    net, layers, biases = compressed(model, shape, WAYS[way])
    integer = to_integer_net(net, layers, biases, SEED, sample(x, net.classes))
    wanted = logits(net, x)
    assert distance(integer.scores(x), wanted) < 0.01
    assert (integer.answers(x) == wanted.argmax(1)).mean() >= 0.985
    message = encode(integer)
    back = decode(message.data, message.bits)
    assert same(back, integer)
    assert np.array_equal(back.scores(x), integer.scores(x))


@pytest.mark.parametrize("way", WAYS)
def test_the_coded_integers_are_the_stored_ones(way: str) -> None:
    model, shape = made("vgg-tiny")
    net, layers, biases = compressed(model, shape, WAYS[way])
    x = np.random.default_rng(1).integers(0, 256, (50, *shape), dtype=np.uint8)
    for source, layer in zip(
        sources_of(to_integer_net(net, layers, biases, SEED, sample(x, 3))), layers, strict=True
    ):
        stored = np.concatenate([part.integers.reshape(-1) for part in layer.numbers])
        assert source.coded.reshape(-1).tolist() == stored.tolist()
        assert isinstance(
            source, {"kept": Grid | Values, "low-rank": Product, "signs": SignProjection}[way]
        )
        if way != "kept":  # what the shift leaves: 16 bits, or everything
            bits = int(np.abs(source.numbers).max()).bit_length()
            assert bits == 16 if source.shift else bits <= 16


@pytest.mark.parametrize("way", ["low-rank", "signs"])
def test_made_weights_are_the_floor_of_the_float_ones(way: str) -> None:
    """unit·2^shift·(number .. number + 1) holds the weight that the stored layer rebuilds in
    float64.
    """
    model, shape = made("mlp")
    net, layers, biases = compressed(model, shape, WAYS[way])
    x = np.random.default_rng(1).normal(size=(50, *shape)).astype(np.float32)
    source, layer = sources_of(to_integer_net(net, layers, biases, SEED, sample(x)))[0], layers[0]
    unit = 2.0 ** sum(part.exponent for part in layer.numbers) / (
        len(source.coded) if way == "signs" else 1
    )
    real = layer.weight(SEED) / (unit * 2.0**source.shift)
    assert (source.numbers <= real + 1e-6).all()
    assert (real - 1e-6 <= source.numbers + 1).all()


def test_a_linear_net_of_bytes_is_exact() -> None:
    """Scores are Σ q·x + b·255/16, the bias rounded to as many bits as it had: nothing else is
    lost.
    """
    q, b = np.array([[3, -2, 0], [1, 5, -128]]), np.array([700, -333])
    layer, bias = Kept(Numbers(q, -6)), Numbers(b, -10)
    model = nn.Linear(3, 2)
    net = cushion.trace(nn.Sequential(model), (3,))
    node = net.affine_layers[0]
    operator = layer.operator(node.affine.operator, SEED)
    net = net.with_affine(
        {
            node.index: replace(
                node.affine, operator=operator, bias=torch.tensor(bias.values).float()
            )
        }
    )
    x = np.random.default_rng(0).integers(0, 256, (20, 3), dtype=np.uint8)
    integer = to_integer_net(net, [layer], [bias], SEED, sample(x, 2))
    # b·2^-10 / (2^-6 / 255) = b·255/16 = 11156.25 and -5307.19; 10 of 14 bits are steps of 16:
    # 697.27 and -331.70
    assert integer.scores(x).tolist() == (x.astype(int) @ q.T + np.array([697, -332]) * 16).tolist()


def test_activations_take_the_bits_that_are_asked_for() -> None:
    model, shape = made("mlp")
    net, layers, biases = compressed(model, shape, kept)
    x = np.random.default_rng(2).integers(0, 256, (200, *shape), dtype=np.uint8)
    for bits in (4, 7, 10):
        first = to_integer_net(net, layers, biases, SEED, sample(x), activation_bits=bits).layers[0]
        assert isinstance(first, Dense)
        assert first.bias is not None
        sums = x.astype(np.int64) @ first.weight.T + (first.bias << first.bias_shift)
        activations = np.maximum(sums, 0) >> first.shift
        assert 2 ** (bits - 1) <= activations.max() <= 2**bits  # the last from rounding up, at most
        scale = 2.0 ** (layers[0].numbers[0].exponent + first.shift) / 255
        hidden = (
            torch.relu(net.nodes[1].op(torch.from_numpy(x).float() / 255)).double().numpy() / scale
        )
        wrong = (activations - hidden)[
            hidden > 1
        ]  # rounded to the nearest: half of the step is in the bias
        assert abs(wrong.mean()) < 0.1
        assert np.abs(wrong).max() < 0.7


def test_two_classes_of_a_sparse_classifier_pay_for_one_vector() -> None:
    entries = Numbers(np.array([[3, 0, -2, 0, 5, 9]]), -3)  # the last is the bias
    layer = Sparse(entries, (2, 5), has_bias=True)
    net = cushion.trace(nn.Sequential(nn.Linear(5, 2)), (5,))
    node = net.affine_layers[0]
    weight, bias = (torch.tensor(part).float() for part in layer.classifier(SEED))
    net = net.with_affine(
        {
            node.index: replace(
                node.affine, operator=node.affine.operator.with_weight(weight), bias=bias
            )
        }
    )
    x = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    integer = to_integer_net(net, [layer], [None], SEED, sample(x, 2))
    assert sources_of(integer)[0].numbers.tolist() == [[0] * 5, [3, 0, -2, 0, 5]]
    assert (integer.answers(x) == logits(net, x).argmax(1)).mean() > 0.99
    three = Sparse(Numbers(np.arange(18).reshape(3, 6), 0), (3, 5), has_bias=True)
    weight, bias = (torch.tensor(part).float() for part in three.classifier(SEED))
    net = cushion.trace(nn.Sequential(nn.Linear(5, 3)), (5,))
    net = net.with_affine(
        {
            1: replace(
                net.nodes[1].affine,
                operator=net.nodes[1].affine.operator.with_weight(weight),
                bias=bias,
            )
        }
    )
    integer = to_integer_net(net, [three], [None], SEED, sample(x, 3))
    assert distance(integer.scores(x), logits(net, x)) < 0.01


# ---- a trained net

SOURCES = {
    "kept": "mask and values",
    "low-rank": "product of two factors",
    "signs": "Matrix-Project of seeded signs",
}


@cache
def trained(convolution: bool) -> nn.Module:
    """Digits after some seconds of training: more than nine in ten right."""
    data, _ = load_pair("digits")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = (
            nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(8, 8, 3, padding=1),
                nn.ReLU(),
                nn.AvgPool2d(2),
                nn.Flatten(),
                nn.Linear(32, 10),
            )
            if convolution
            else nn.Sequential(
                nn.Flatten(),
                nn.Linear(64, 24),
                nn.ReLU(),
                nn.Linear(24, 16),
                nn.ReLU(),
                nn.Linear(16, 10),
            )
        )
        x, y = torch.from_numpy(data.x).float() / 255, torch.from_numpy(data.y)
        optimiser = torch.optim.Adam(model.parameters(), 0.03)
        for _ in range(80):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
    return model


@pytest.mark.parametrize("convolution", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_trained_net_is_certified_as_it_was_compressed(
    way: str, convolution: bool, tmp_path: Path
) -> None:
    """Of 1797 digits 99.5 % or more get the compressed net's answer, and the integer net's
    certificate verifies.
    """
    data, held = load_pair("digits")
    net, layers, biases = compressed(
        trained(convolution), (1, 8, 8), many_signs if way == "signs" else WAYS[way]
    )
    integer = to_integer_net(net, layers, biases, SEED, data)
    x = np.concatenate([data.x, held.x])
    wanted = logits(net, x)
    assert (
        wanted.argmax(1)[: len(data)] == data.y
    ).mean() > 0.7  # compression was coarse, but it left a classifier
    assert (integer.answers(x) == wanted.argmax(1)).mean() >= 0.995
    assert distance(integer.scores(x), wanted) < 0.005
    certificate = certify_net(integer, data, Decimal("0.05"), holdout=held)
    summary = summarise(integer, certificate, method=way, seed=SEED)
    assert [layer.source for layer in summary.layers if layer.source] == [SOURCES[way]] * len(
        layers
    )
    stored = [part for layer in layers for part in layer.numbers] + [
        bias for bias in biases if bias is not None
    ]
    assert summary.parameters == sum(part.integers.size for part in stored)
    verdict = cushion.verify(certificate.save(tmp_path / "c.cushion"), data, held)
    assert verdict.ok
    assert verdict.level == "replay"


def test_the_reader_of_the_format_finds_the_same_scores() -> None:
    data, _ = load_pair("digits")
    net, layers, biases = compressed(trained(True), (1, 8, 8), low_rank)
    integer = to_integer_net(net, layers, biases, SEED, data)
    message = encode(integer)
    second = format_reader.read(message.data, message.bits)
    for row, scores in zip(data.x[:2], integer.scores(data.x[:2]).tolist(), strict=True):
        assert format_reader.scores(second, row.reshape(-1).tolist()) == scores
