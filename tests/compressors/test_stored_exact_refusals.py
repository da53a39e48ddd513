"""What the format of certificates cannot hold of a compressed net: each refused, in one sentence
that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests import format_reader
from tests.exact_cases import (
    CASE,
    SEED,
    compressed,
    kept,
    logits,
    low_rank,
    made,
    sample,
    signs,
    sources_of,
)
from torch import nn

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import encode
from cushion.certificates.format.sources import Grid, Values
from cushion.compressors.projection.conv_project import project_filters
from cushion.compressors.projection.matrix_project import Projected
from cushion.compressors.pruning.sketched import Sketched
from cushion.compressors.storage import exact
from cushion.compressors.storage.exact import to_integer_net
from cushion.compressors.storage.exact_layers import coded_decisions
from cushion.compressors.storage.stored import Kept, Numbers
from cushion.errors import Unsupported


def deep(depth: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        hidden = [part for _ in range(depth) for part in (nn.Linear(32, 32), nn.ReLU())]
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), *hidden, nn.Linear(32, 3))
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight)
    return model


def test_deep_nets_get_fewer_bits_until_their_range_is_proved() -> None:
    x = np.random.default_rng(3).integers(0, 256, (300, 8), dtype=np.uint8)
    shifts = {}
    for depth in (1, 10):
        net, layers, biases = compressed(deep(depth), (8,), low_rank)
        integer = to_integer_net(net, layers, biases, SEED, sample(x, 3))
        assert integer.reach < 2**53
        assert (integer.answers(x) == logits(net, x).argmax(1)).mean() > 0.9
        shifts[depth] = sources_of(integer)[1].shift
    # weights of fewer than 12 bits, so activations of fewer than 10
    assert shifts[10] > shifts[1] + 4
    net, layers, biases = compressed(deep(14), (8,), low_rank)
    with pytest.raises(Unsupported, match="too deep"):
        to_integer_net(net, layers, biases, SEED, sample(x, 3))


def conv(*options: object, **more: object) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 2, *options, **more), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)
    )  # type: ignore[arg-type]


def pooled(pool: nn.Module, *before: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 2, 2), *before, pool, nn.Flatten(), nn.LazyLinear(3))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "residual": (CASE["residual"].factory, "not a chain"),
    "no ReLU": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.Linear(4, 3)),
        "1 and 2 have no ReLU",
    ),
    "oblong kernel": (lambda: conv((2, 3)), "2x3"),
    "strides": (lambda: conv(2, stride=(1, 2)), "strides differ"),
    "paddings": (lambda: conv(3, padding=(1, 0)), "paddings differ"),
    "dilation": (lambda: conv(2, dilation=2), "dilated"),
    "wide padding": (lambda: conv(2, padding=2), "padding of 2"),
    "overlapping windows": (lambda: pooled(nn.MaxPool2d(2, 1), nn.ReLU()), "squares side by side"),
    "dilated windows": (
        lambda: pooled(nn.MaxPool2d(2, 2, dilation=2), nn.ReLU()),
        "squares side by side",
    ),
    "oblong windows": (lambda: pooled(nn.MaxPool2d((1, 5)), nn.ReLU()), "squares side by side"),
    "padded windows": (lambda: pooled(nn.AvgPool2d(3, 3, 1), nn.ReLU()), "squares side by side"),
    "a rest": (lambda: pooled(nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()), "squares side by side"),
    "uneven means": (lambda: pooled(nn.AdaptiveAvgPool2d(2), nn.ReLU()), "squares side by side"),
    "mean before ReLU": (
        lambda: pooled(nn.AvgPool2d(5), nn.Identity()),
        "averages before the ReLU",
    ),
    "ends in a ReLU": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 3), nn.ReLU()),
        "last layer is a dense",
    ),
    "ends in a convolution": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 6), nn.Flatten()),
        "last layer is a dense",
    ),
    "batch-norm of numbers": (
        lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(72), nn.ReLU(), nn.Linear(72, 3)),
        "batch-norm",
    ),
    "reshaping": (
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(72, 4),
            nn.ReLU(),
            nn.Unflatten(1, (1, 2, 2)),
            nn.Conv2d(1, 1, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(1, 3),
        ),
        "reshapes",
    ),
    "too many weights": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 13_400), nn.ReLU(), nn.Linear(13_400, 3)),
        "1005000 weights",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_format_cannot_hold_is_refused_in_one_sentence(name: str) -> None:
    factory, reason = REFUSED[name]
    model = factory()
    shape = (2, 6, 6)
    model(torch.zeros(2, *shape))  # lazy layers
    net, layers, biases = compressed(model, shape, kept)
    x = np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8)
    with pytest.raises(Unsupported, match=reason) as refused:
        to_integer_net(net, layers, biases, SEED, sample(x))
    assert "\n" not in str(refused.value)


def test_layers_that_the_format_has_no_source_for_are_refused() -> None:
    model, shape = made("vgg-tiny")
    x = np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8)
    data = sample(x, 3)
    net, layers, biases = compressed(model, shape, signs)
    first = layers[0]
    assert isinstance(first, Projected)
    for changed, reason in (
        (
            replace(first, helper="gaussian"),
            "0: its helper numbers are floating point.*`helper` = signs",
        ),
        (replace(first, helper="srht"), "0: .*Hadamard.*`helper` = signs"),
        (replace(first, place=2), "0: its helper string is that of layer 2"),
    ):
        with pytest.raises(Unsupported, match=reason):
            to_integer_net(net, [changed, *layers[1:]], biases, SEED, data)
    operator = net.affine_layers[0].affine.operator
    located = project_filters(operator, 1, 2, 8, SEED, 1)
    net = net.with_affine(
        {1: replace(net.nodes[1].affine, operator=located.operator(operator, SEED))}
    )
    for changed, reason in (
        (located, "0: it has a different filter at each place"),
        (Sketched(located.coordinates, first.shape, 1, 0, 1), "0: the format has no sketches"),
    ):
        with pytest.raises(Unsupported, match=reason):
            to_integer_net(net, [changed, *layers[1:]], biases, SEED, data)


def test_a_pooling_that_changes_nothing_is_left_out_and_moves_the_places_of_helper_strings() -> (
    None
):
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    data = sample(np.random.default_rng(0).integers(0, 256, (20, 1, 3, 3), dtype=np.uint8), 3)
    assert len(to_integer_net(*compressed(model, (1, 3, 3), kept), SEED, data).layers) == 2
    with pytest.raises(
        Unsupported,
        match="4: its helper string is that of layer 3, and in a certificate it is layer 2",
    ):
        to_integer_net(*compressed(model, (1, 3, 3), signs), SEED, data)


def test_a_net_that_its_numbers_do_not_rebuild_is_refused() -> None:
    model, shape = made("mlp")
    data = sample(np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8))
    net, layers, biases = compressed(model, shape, signs)
    for other in (
        (net, layers, biases, SEED + 1),
        (net, layers, [biases[0], Numbers(np.ones(4, np.int64), 0)], SEED),
    ):
        with pytest.raises(Unsupported, match="not those that its stored integers make"):
            to_integer_net(*other, data)


def test_negative_inputs_and_zeros_around_them_do_not_go_together() -> None:
    model, shape = made("vgg-tiny")
    net, layers, biases = compressed(model, shape, kept)
    x = np.random.default_rng(0).normal(size=(20, *shape)).astype(np.float32)
    with pytest.raises(Unsupported, match="pads inputs that may be negative"):
        to_integer_net(net, layers, biases, SEED, sample(x, 3))
    rectified = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    with pytest.raises(Unsupported, match="rectifies inputs"):
        to_integer_net(*compressed(rectified, shape, kept), SEED, sample(x, 3))


def test_the_code_s_decisions_are_counted_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    plain = format_reader.Stream.decide

    def counted(self: format_reader.Stream, context: list[int]) -> int:
        nonlocal asked
        asked += 1
        return plain(self, context)

    monkeypatch.setattr(format_reader.Stream, "decide", counted)
    numbers = np.array([[0, 1, -1, 2, 3], [-7, 8, 100, -127, 0]])
    for source in (Grid(numbers, 127), Values(numbers)):
        message = encode(IntegerNet((1, 1, 5), Bytes(0), (Dense(source, None, 0, 0),)))
        asked = 0
        format_reader.read(message.data, message.bits)
        # the largest has no last decision
        ends = int((np.abs(numbers) == 127).sum()) if isinstance(source, Grid) else 0
        assert coded_decisions(numbers, grid=isinstance(source, Grid)) == asked + ends
    model, shape = made("mlp")
    data = sample(np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8))
    coarse = compressed(
        model, shape, lambda operator, _: Kept(Numbers.fitted(operator.weight.double().numpy(), 5))
    )
    assert all(
        isinstance(source, Grid) for source in sources_of(to_integer_net(*coarse, SEED, data))
    )
    monkeypatch.setattr(exact, "MOST_DECISIONS", 10)
    with pytest.raises(Unsupported, match="decisions of the arithmetic code"):
        to_integer_net(*coarse, SEED, data)
