"""Architectures as JSON text and back: the same net, or one sentence and nothing allocated."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.cases import CASES, Case
from torch.nn import functional as F

import cushion
from cushion.compressors.file import _USUAL, describe_graph, rebuild_graph
from cushion.errors import Malformed, Unsupported
from cushion.nets.network import Network
from cushion.nets.operations import Affine, AvgPool, MaxPool
from cushion.nets.operators import FlatMap

NAMES = {case.name: case for case in CASES}


def network(name: str) -> Network:
    return cushion.trace(NAMES[name].module(), NAMES[name].input_shape)


def text_of(net: Network) -> str:
    return json.dumps(describe_graph(net))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_graph_comes_back_as_it_was(case: Case) -> None:
    net = cushion.trace(case.module(), case.input_shape)
    again = rebuild_graph(json.loads(text_of(net)), "it")
    assert [node.name for node in again.nodes] == [node.name for node in net.nodes]
    assert [node.shape for node in again.nodes] == [node.shape for node in net.nodes]
    assert [node.inputs for node in again.nodes] == [node.inputs for node in net.nodes]
    assert (again.input_shape, again.classes, again.dtype) == (
        net.input_shape,
        net.classes,
        net.dtype,
    )
    assert [node.affine.kind[0] for node in again.affine_layers] == list(case.layers)
    assert text_of(again) == text_of(net)
    for node in again.affine_layers:
        assert not node.affine.operator.weight.any()
        mine = net.nodes[node.index].affine
        assert (node.affine.bias is None) == (mine.bias is None)
    weighed = again.with_affine(
        {
            node.index: Affine(
                node.affine.operator.with_weight(net.nodes[node.index].affine.operator.weight),
                net.nodes[node.index].affine.bias,
                node.affine.kind,
            )
            for node in again.affine_layers
        }
    )
    x = case.inputs()
    assert torch.equal(weighed.forward(x), net.forward(x))


def test_doubles_stay_doubles() -> None:
    assert rebuild_graph(json.loads(text_of(network("conv").double())), "it").dtype == torch.float64


def test_the_zeros_take_no_memory() -> None:
    wide = json.loads(text_of(network("mlp")))
    wide["nodes"][1]["weight"] = [20_000_000, 7]
    wide["nodes"][3]["weight"] = [4, 20_000_000]
    net = rebuild_graph(wide, "it")
    assert net.parameters == 11 * 20_000_000 + 20_000_004
    assert all(
        node.affine.operator.weight.untyped_storage().nbytes() <= 8 for node in net.affine_layers
    )


@pytest.mark.parametrize("seed", range(6))
def test_windows_are_counted_as_torch_counts_them(seed: int) -> None:
    """Every pooling of a range of settings: accepted with the shape that torch computes, or refused
    by both.
    """
    base = json.loads(text_of(network("max-pool" if seed % 2 else "avg-pool")))
    at = next(i for i, node in enumerate(base["nodes"]) if node["op"] in ("MaxPool", "AvgPool"))
    draw = torch.Generator().manual_seed(seed)

    def pick(low: int, high: int) -> list[int]:
        return torch.randint(low, high, (2,), generator=draw).tolist()

    accepted = refused = 0
    for _ in range(150):
        entry = base["nodes"][at]
        entry |= {
            "kernel": pick(1, 5),
            "stride": pick(1, 5),
            "padding": pick(0, 3),
            "ceil_mode": pick(0, 2)[0] == 1,
        }
        if entry["op"] == "MaxPool":
            entry["dilation"] = pick(1, 4)
            extra = {"dilation": entry["dilation"]}
        else:
            extra = {}
        pool = F.max_pool2d if entry["op"] == "MaxPool" else F.avg_pool2d
        window = [entry["kernel"], entry["stride"], entry["padding"]]
        try:
            shape = list(
                pool(torch.zeros(1, 3, 6, 7), *window, ceil_mode=entry["ceil_mode"], **extra).shape[
                    1:
                ]
            )
        except RuntimeError:
            shape = None
        size = shape[0] * shape[1] * shape[2] if shape else 3
        base["nodes"][at + 2]["weight"] = [3, size]
        usual = _USUAL[entry["op"]]
        base["nodes"][at] = {k: v for k, v in entry.items() if k not in usual or v != usual[k]}
        if shape is None:
            refused += 1
            with pytest.raises(Malformed):
                rebuild_graph(base, "it")
        else:
            accepted += 1
            assert isinstance(rebuild_graph(base, "it").nodes[at].op, MaxPool | AvgPool)
    assert accepted > 20
    assert refused > 5


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set nodes[i][key]... = value, the path written "i.key.j"."""

    def edit(graph: dict[str, Any]) -> None:
        place: Any = graph["nodes"]
        *steps, last = (int(part) if part.isdigit() else part for part in path.split("."))
        for step in steps:
            place = place[step]
        place[last] = value

    return edit


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# vgg-tiny: 0 Input, 1 conv, 2 ReLU, 3 conv, 4 ReLU, 5 MaxPool, 6 conv, 7 ReLU, 8 AvgPool, 9
# Flatten, 10 linear, ...
HUGE = 2**40
EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no nodes": lambda graph: graph.update(nodes=[]),
    "nodes of text": lambda graph: graph.update(nodes="nodes"),
    "nodes missing": lambda graph: graph.pop("nodes"),
    "nodes a number": lambda graph: graph.update(nodes=3),
    "too many nodes": lambda graph: graph.update(nodes=graph["nodes"][:1] * 10_001),
    "only an input": lambda graph: graph.update(nodes=graph["nodes"][:1]),
    "no affine layer": lambda graph: graph.update(
        nodes=[graph["nodes"][0], {**graph["nodes"][2], "inputs": [0]}]
    ),
    "dtype": lambda graph: graph.update(dtype="int8"),
    "dtype a list": lambda graph: graph.update(dtype=["float32"]),
    "no dtype": lambda graph: graph.pop("dtype"),
    "a cycle": change("2.inputs", [3]),
    "itself": change("2.inputs", [2]),
    "a negative input": change("2.inputs", [-1]),
    "an input that is no whole number": change("2.inputs", [1.0]),
    "an input that is true": change("2.inputs", [True]),
    "no input": change("2.inputs", []),
    "two inputs": change("2.inputs", [1, 1]),
    "inputs of text": change("2.inputs", "1"),
    "a million inputs": change("2.inputs", [1] * 1_000_000),
    "a second input node": change("2.op", "Input"),
    "a first node that is none": change("0.op", "ReLU"),
    "another operation": change("2.op", "Sigmoid"),
    "an operation of python": change("2.op", "__import__"),
    "an operation that is a list": change("2.op", ["ReLU"]),
    "an entry of text": change("2", "ReLU"),
    "a name that is a number": change("2.name", 3),
    "no shape": lambda graph: graph["nodes"][0].pop("shape"),
    "an empty shape": change("0.shape", []),
    "a negative side": change("0.shape.0", -2),
    "no side": change("0.shape.0", 0),
    "a side of 2.0": change("0.shape.0", 2.0),
    "a huge side": change("0.shape.0", HUGE),
    "huge sides": change("0.shape", [2**20, 2**20, 2**20]),
    "a side that is not a number": change("0.shape.0", float("nan")),
    "a shape that follows": change("2.shape", [3, 8, 8]),
    "a deep shape": change("0.shape", nested(500)),
    "a word too many": change("2.word", nested(500)),
    "the node before, which follows": change("2.inputs", [1]),
    "another kind": change("1.kind", "lstm"),
    "a kind of another operator": change("1.kind", "linear"),
    "an operator, which follows": change("1.operator", "Conv2d"),
    "a weight without sides": change("1.weight", []),
    "a weight of three sides": change("1.weight", [3, 2, 3]),
    "a weight of five sides": change("1.weight", [3, 2, 3, 3, 1]),
    "a huge weight": change("1.weight", [2**14, 2, 2**14, 3]),
    "a negative weight": change("1.weight.0", -3),
    "a dense weight of three sides": change("10.weight", [5, 3, 1]),
    "a dense layer of another width": change("10.weight", [5, 4]),
    "a bias of text": change("1.bias", "yes"),
    "a bias of 1": change("1.bias", 1),
    "a stride of 0": change("1.stride", [0, 1]),
    "three strides": change("1.stride", [1, 1, 1]),
    "a dilation of 0": change("1.dilation", [1, 0]),
    "huge padding": change("1.padding", [2**27] * 4),
    "negative padding": change("1.padding", [-1, 1, 1, 1]),
    "no groups": change("1.groups", 0),
    "groups that do not divide": change("1.groups", 2),
    "a pool without a window": change("5.kernel", [0, 2]),
    "a huge pool": change("5.kernel", [HUGE, 2]),
    "a pool of text": change("5.kernel", "22"),
    "a pool of one number": change("5.kernel", 2),
    "a pool without stride": change("5.stride", [0, 2]),
    "a pool with padding beyond its half": change("5.padding", [2, 2]),
    "a pool of a deep list": change("5.padding", nested(50)),
    "a ceiling that is 1": change("5.ceil_mode", 1),
    "a divisor of 0": change("8.divisor", 0),
    "a divisor of text": change("8.divisor", "2"),
    "a pool without its options": lambda graph: graph["nodes"][8].pop("kernel"),
    "what is usual": change("8.count_include_pad", True),
    "a score alone": change("12.weight", [1, 5]),
    "the end in the middle": lambda graph: graph.update(nodes=graph["nodes"][:5]),
    "many large weights": lambda graph: _pile(graph),
}


def _pile(graph: dict[str, Any]) -> None:
    """Forty layers of 2^26 weights: each is allowed, all together are not."""
    nodes = [{**graph["nodes"][0], "shape": [2**13]}]
    layer = {
        "op": "Affine",
        "kind": "linear",
        "weight": [2**13, 2**13],
        "bias": False,
    }
    nodes += [{"name": str(i), **layer} for i in range(40)]
    graph["nodes"] = nodes


@pytest.mark.parametrize("name", EDITS)
def test_what_is_no_graph_gets_one_sentence_and_no_memory(name: str) -> None:
    graph = copy.deepcopy(describe_graph(network("vgg-tiny")))
    graph = json.loads(json.dumps(graph))
    assert graph["nodes"][12]["weight"] == [3, 5]
    rebuild_graph(graph, "it")
    EDITS[name](graph)
    tracemalloc.start()
    try:
        with pytest.raises(
            Malformed, match=r"^some file describes no net that can be run; .*$"
        ) as caught:
            rebuild_graph(graph, "some file")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "graph", [None, 3, "text", [], [1], {}, nested(300), {"dtype": "float32", "nodes": None}]
)
def test_other_json_is_no_graph(graph: Any) -> None:
    with pytest.raises(Malformed, match="describes no net"):
        rebuild_graph(graph, "it")


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("residual", "inputs", [1, "2"]),
        ("dense", "inputs", [0, 3]),  # Cat of 3 and 2 channels
        ("adaptive-avg", "output", [0, 2]),
        ("adaptive-max", "output", [3, HUGE]),
        ("unflatten", "shape", [1, 4, 5]),
        ("batchnorm-first", "weight", [5]),
    ],
)
def test_other_operations_are_checked_too(name: str, path: str, value: Any) -> None:
    ops = {
        "residual": "Add",
        "dense": "Cat",
        "adaptive-avg": "AdaptiveAvgPool",
        "adaptive-max": "AdaptiveMaxPool",
    }
    op = ops.get(name, "Unflatten" if name == "unflatten" else "Affine")
    graph = json.loads(text_of(network(name)))
    node = next(node for node in graph["nodes"] if node["op"] == op)
    node[path] = value
    with pytest.raises(Malformed, match="describes no net"):
        rebuild_graph(graph, "it")


def test_maps_that_cannot_be_joined_are_refused() -> None:
    for name, op in (("residual", "Add"), ("dense", "Cat")):
        graph = json.loads(text_of(network(name)))
        node = next(node for node in graph["nodes"] if node["op"] == op)
        node["inputs"] = [
            0,
            *node["inputs"][1:],
        ]  # the input has other channels, and in `dense` another size
        if name == "dense":
            with pytest.raises(Malformed, match="describes no net"):
                rebuild_graph(graph, "it")
        node["inputs"] = []
        with pytest.raises(Malformed, match="describes no net"):
            rebuild_graph(graph, "it")


def test_groups_divide_the_channels() -> None:
    graph = json.loads(
        text_of(network("conv-groups"))
    )  # 6 channels in 2 groups; now 7, and all that follows fits
    conv, dense = graph["nodes"][1], graph["nodes"][5]
    conv["weight"][0], dense["weight"] = 7, [3, 28]
    with pytest.raises(Malformed, match="describes no net"):
        rebuild_graph(graph, "it")
    del conv["groups"]
    conv["weight"][1] = 4
    rebuild_graph(graph, "it")


def test_a_net_that_was_compressed_before_is_not_described() -> None:
    net = network("conv")
    node = net.affine_layers[0]
    operator = node.affine.operator
    flat = FlatMap(operator.dense(), operator.input_shape, operator.output_shape)
    again = net.with_affine({node.index: Affine(flat, node.affine.bias, "conv2d")})
    with pytest.raises(Unsupported, match="compressed before"):
        describe_graph(again)
