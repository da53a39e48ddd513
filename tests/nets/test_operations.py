"""An operation is one file: RReLU, in eval mode a leaky ReLU, written here as such a file would be
goes all the way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cushion
from cushion.compressors.file import describe_graph, rebuild_graph
from cushion.errors import Malformed, Unsupported
from cushion.measures.norms.paths import path_norms
from cushion.nets.linearisation import Linearisation
from cushion.nets.operations.operation import OPERATIONS, Masked, Operation, Shape
from cushion.nets.operations.vocabulary import MODULES, Step, feature, traces
from cushion.nets.operators.path_sums import PathSums
from cushion.theorems.net_facts import decisions

SHAPE = (2, 6, 6)


@pytest.fixture
def leaky() -> Iterator[None]:
    """RReLU is understood inside a test, and nowhere else."""

    @dataclass(frozen=True)
    class RReLU(Operation):
        slope: float

        def __call__(self, x: Tensor) -> Tensor:
            return F.leaky_relu(x, self.slope)

        def output_shape(self, shape: Shape) -> Shape:
            return shape

        def linearise(self, x: Tensor) -> tuple[Tensor, Masked]:
            return self(x), Masked(torch.where(x > 0, 1.0, self.slope).to(x.dtype))

        def path_sums(
            self, sums: PathSums, shapes: Sequence[Shape], p: float
        ) -> list[PathSums | None]:
            return [sums]

        def lipschitz(self, shape: Shape) -> tuple[float, float]:
            return 1.0, 1.0

        def decisions(self, shape: Shape) -> int:
            return math.prod(shape)

        @classmethod
        def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Operation:
            return cls(float(entry["slope"]))

    @traces(nn.RReLU)
    def rrelu(x: Any, lower: float, upper: float, inplace: bool = False) -> Step:
        return Step("leaky relu", (feature(x),), lambda _: RReLU((lower + upper) / 2))

    yield
    del OPERATIONS["RReLU"], MODULES[nn.RReLU]


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(3),
        nn.RReLU(0.125, 0.375),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    ).eval()


def test_without_its_file_an_operation_is_refused() -> None:
    with pytest.raises(Unsupported, match="its activation has no rule"):
        cushion.trace(module(), SHAPE)


@pytest.mark.usefixtures("leaky")
def test_one_file_traces_evaluates_and_linearises() -> None:
    net = cushion.trace(module(), SHAPE).double()
    x = torch.randn(4, *SHAPE, dtype=torch.float64)
    assert torch.allclose(net.forward(x), module().double()(x))
    line, first = Linearisation(net, x), net.affine_layers[0]

    def rest(t: Tensor) -> Tensor:
        for node in net.nodes[first.index + 1 :]:
            t = node.op(t)
        return t

    t = torch.randn(1, 4, *first.shape, dtype=torch.float64)
    found: dict[int, Tensor] = {}
    line.push(first, t, lambda node, v: found.update({node.index: v.clone()}))
    _, expected = torch.autograd.functional.jvp(rest, line.outputs[first.index], t[0])
    assert torch.allclose(found[net.affine_layers[1].index][0], expected)


@pytest.mark.usefixtures("leaky")
def test_one_file_is_stored_and_bounded() -> None:
    net = cushion.trace(module(), SHAPE)
    text = json.dumps(describe_graph(net))
    assert json.dumps(describe_graph(rebuild_graph(json.loads(text), "it"))) == text
    assert [level.count for level in decisions(net)] == [3 * 4 * 4, 3 * 2 * 2 * 4 * 3, 3 * 2]
    plain = nn.Sequential(*(nn.ReLU() if isinstance(m, nn.RReLU) else m for m in module()))
    assert path_norms(net, [2.0]) == path_norms(cushion.trace(plain, SHAPE), [2.0])


def test_a_stored_operation_that_nobody_knows_is_refused() -> None:
    graph = describe_graph(cushion.trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (4,)))
    for name in ("RReLU", "Pool", "Join", "Operation", 3, ["ReLU"]):
        graph["nodes"][2]["op"] = name
        with pytest.raises(Malformed, match="describes no net that can be run"):
            rebuild_graph(graph, "it")
