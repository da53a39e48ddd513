"""Compressed nets as files: the same outputs from numbers and seed alone, and one sentence for
every damaged file.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cases import Case
from tests.compressed_cases import NAMED, WAYS, compressed, moved, network

import cushion
from cushion.compressors.file import CompressedNet, is_compressed, read_compressed
from cushion.compressors.projection.matrix_project import Projected
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.storing import (
    LayerPlan,
    low_rank_sizes,
    size_of,
    store,
    store_net,
)
from cushion.compressors.projection.subject import ProjectionSubject, linear_layer
from cushion.compressors.storage.stored import Kept
from cushion.compressors.storage.stored_net import StoredNet, places
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, Unsupported
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d, Linear

LINEAR = [
    ("vector-compress", None),
    ("vector-project", "gaussian"),
    ("vector-project", "signs"),
    ("vector-project", "srht"),
]


def poisoned(net: Network) -> Network:
    """The same graph with weights that would show in any output."""
    return net.with_affine(
        {
            node.index: replace(
                node.affine,
                operator=node.affine.operator.with_weight(
                    torch.full_like(node.affine.operator.weight, math.nan)
                ),
                bias=None
                if node.affine.bias is None
                else torch.full_like(node.affine.bias, math.nan),
            )
            for node in net.affine_layers
        }
    )


def check_round_trip(net: CompressedNet, case: Case, path: Path) -> None:
    x = case.inputs()
    expected = net.network.forward(x)
    assert torch.isfinite(expected).all()
    assert net.save(path) == path
    assert is_compressed(path)
    again = read_compressed(path)
    assert torch.equal(again.network.forward(x), expected)
    assert torch.equal(again.stored.network(poisoned(net.frame), net.start).forward(x), expected)
    assert (again.stored.bits, again.stored.parameters) == (net.stored.bits, net.stored.parameters)
    assert again.stored.layer_bits == net.stored.layer_bits
    assert net.stored.bits > sum(net.stored.layer_bits)
    assert again.notes == net.notes
    assert again.stored.seed == net.stored.seed
    first = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == first


TURNS = [
    (name, way)
    for name in NAMED
    for way in WAYS
    if way != "accuracy" or name in ("mlp", "conv-groups", "dense")
]


@pytest.mark.parametrize(("name", "way"), TURNS)
def test_every_net_comes_back_from_its_numbers_and_seed(
    name: str, way: str, tmp_path: Path
) -> None:
    case, net = NAMED[name], network(name)
    operators = [node.affine.operator for node in net.affine_layers]
    if WAYS[way][0] == "conv-project" and any(
        isinstance(one, Conv2d) and one.groups > 1 for one in operators
    ):
        with pytest.raises(
            BadInput, match=rf"^layer {net.affine_layers[0].name}: conv-project .* one group"
        ):
            compressed(net, way)
        return
    for start in (None, moved(net)):
        check_round_trip(compressed(net, way, start), case, tmp_path / "net")


@pytest.mark.parametrize(("method", "helper"), LINEAR)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_classifiers_come_back(
    method: str, helper: str, classes: int, bias: bool, tmp_path: Path
) -> None:
    case = Case(
        f"linear {classes} {bias}", lambda: torch.nn.Linear(5, classes, bias=bias), (5,), "l"
    )
    net = cushion.trace(case.module(), (5,))
    options = NetOptions(helper=helper, k=6 if helper else None, gamma=0.5, eta=0.1)
    x = torch.eye(5).numpy() * 2  # a radius of 2
    data = Dataset("eye", x, np.zeros(5, dtype=np.int64), classes)
    for start in (None, moved(net, 0.01)):
        stored, _ = store(ProjectionSubject(net, start, data, method, options, 0.1, 3))
        check_round_trip(CompressedNet(stored, net, {}, start), case, tmp_path / "net")


def test_doubles_come_back_as_doubles(tmp_path: Path) -> None:
    net = network("vgg-tiny").double()
    path = compressed(net, "signs", moved(net)).save(tmp_path / "net")
    found = read_compressed(path).network
    assert found.dtype == torch.float64
    x = NAMED["vgg-tiny"].inputs(dtype=torch.float64)
    assert torch.equal(found.forward(x), compressed(net, "signs", moved(net)).network.forward(x))


def test_the_start_of_a_layer_that_is_called_twice_is_saved(tmp_path: Path) -> None:
    case = NAMED["methods"]
    net, start = network("methods"), network("methods")  # equal: all that is stored is zero
    path = compressed(net, "signs", start).save(tmp_path / "net")
    x = case.inputs()
    assert torch.equal(read_compressed(path).network.forward(x), net.forward(x))


def test_the_seed_is_part_of_the_net(tmp_path: Path) -> None:
    net, x = network("mlp"), NAMED["mlp"].inputs()
    one, other = compressed(net, "signs", seed=1), compressed(net, "signs", seed=2)
    assert not torch.equal(one.network.forward(x), other.network.forward(x))
    swapped = StoredNet(2, one.stored.layers, one.stored.biases).network(net)
    assert not torch.equal(one.network.forward(x), swapped.forward(x))


@pytest.mark.parametrize("seed", [-1, 2**40, 1.0, True, "1", None])
def test_seeds_that_no_message_holds_are_refused(seed: Any) -> None:
    with pytest.raises(BadInput, match="`seed`"):
        StoredNet(seed, (), ())
    assert StoredNet(2**40 - 1, (), ()).bits > 80


def test_places_count_pooling() -> None:
    assert list(places(network("vgg-tiny"))) == [1, 2, 4, 6, 7]
    stored = compressed(network("vgg-tiny"), "signs").stored
    assert [layer.place for layer in stored.layers] == [1, 2, 4, 6, 7]  # type: ignore[attr-defined]


def test_parameters_and_kinds_are_what_was_planned() -> None:
    net = network("vgg-tiny")
    stored = compressed(net, "signs").stored
    assert stored.parameters == 5 * 9 + 3 + 4 + 3 + 5 + 3
    assert {type(layer) for layer in stored.layers} == {Projected}
    mixed = compressed(
        network("dense"), "rank"
    ).stored  # batch-norms that cannot be folded are kept
    assert [
        type(layer) for layer, kind in zip(mixed.layers, "cbcbc", strict=True) if kind == "b"
    ] == [Kept, Kept]
    assert all(
        np.abs(layer.weight(0) - node.affine.operator.weight.double().numpy()).max()
        <= layer.values.step / 2
        for layer, node in zip(mixed.layers, network("dense").affine_layers, strict=True)
        if isinstance(layer, Kept)
    )


def test_sizes_and_percentages() -> None:
    dense, conv = Linear(torch.zeros(10, 30)), Conv2d(torch.zeros(8, 5, 3, 3), (5, 6, 6))
    assert size_of(12, dense, "matrix-project") == size_of("12", conv, "matrix-project") == 12
    assert size_of("5%", dense, "matrix-project") == 15
    assert size_of("0.1%", dense, "matrix-project") == 1  # 0.3, and at least 1
    assert size_of("5.1%", dense, "matrix-project") == 16  # 15.3: at least the fraction asked for
    # k·p = 12 numbers, and as many in a dense layer
    assert size_of(3, conv, "conv-project", 4) == 3
    assert size_of(3, dense, "conv-project", 4) == 12
    assert size_of("10%", conv, "conv-project", 5) == 7  # ⌊36/5⌋: k·p never exceeds the kernel
    assert size_of("100%", conv, "conv-project", 7) * 7 <= 360
    net = network("mlp-deep")
    weights = sum(node.affine.operator.parameters for node in net.affine_layers)
    assert low_rank_sizes(3, net, None) == [3] * 6
    for percent in ("60%", "80%"):
        plans = [LayerPlan(size=rank) for rank in low_rank_sizes(percent, net, None)]
        stored = store_net(net, None, "low-rank", plans, NetOptions(), 0)
        assert (
            sum(layer.parameters for layer in stored.layers)
            <= Fraction(percent[:-1]) / 100 * weights
        )
    assert len(low_rank_sizes("60%", net, moved(net))) == 6


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_vector_methods_are_for_linear_nets(name: str) -> None:
    with pytest.raises(Unsupported, match="linear classifiers"):
        linear_layer(network(name), "vector-project")


def test_a_refusal_names_the_layer() -> None:
    net = network("mlp")
    node = net.affine_layers[1]
    bias = node.affine.bias
    assert bias is not None
    huge = net.with_affine({node.index: replace(node.affine, bias=bias + 1e30)})
    with pytest.raises(BadInput, match=rf"^layer {node.name}: a grid of 2\^-?\d+ is too fine"):
        compressed(huge, "accuracy")


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, path = compressed(network("mlp"), "rank"), tmp_path / "net"
    net.save(path)
    before = path.read_bytes()

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(BadInput, match="No space left"):
        compressed(network("mlp"), "signs").save(path)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["net"]
    with pytest.raises(BadInput):
        net.save(tmp_path / "missing" / "net")
