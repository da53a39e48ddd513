"""Hidden units: which layers share them, permuted and left out."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from cushion.nets.network import Network
from cushion.nets.tracing import trace
from cushion.nets.units import hidden_units, used_units, with_units


class Residual(nn.Module):
    """conv1's units are its own; those of `stem` and conv2 meet in a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv1 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.conv2, self.head = nn.Conv2d(6, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        x = (x + self.conv2(self.conv1(x).relu())).relu()
        y: Tensor = self.head(x.mean(dim=(2, 3)))
        return y


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 5, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(5, 7, 2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(7, 6),
        nn.ReLU(),
        nn.Linear(6, 3),
    )


def grouped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def traced(module: nn.Module) -> Network:
    torch.manual_seed(0)
    return trace(module, (1, 8, 8))


def outputs(net: Network, x: Tensor) -> Tensor:
    return net.double().forward(x.double())


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (convolutional(), [(5, 1), (7, 1), (6, 1)]),
        (grouped(), [(4, 4)]),  # depthwise layers and their makers share nothing by units
        (Residual(), [(6, 1)]),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), []),
        (
            nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)),
            [(2, 36)],
        ),
    ],
)
def test_units_and_their_places(module: nn.Module, expected: list[tuple[int, int]]) -> None:
    net = traced(module)
    assert [(one.units, one.places) for one in hidden_units(net)] == expected


@pytest.mark.parametrize("module", [convolutional(), grouped(), Residual()])
def test_units_in_another_order_are_the_same_function(module: nn.Module) -> None:
    net, x = traced(module), torch.randn(5, 1, 8, 8)
    kept = {one.made_by: torch.randperm(one.units) for one in hidden_units(net)}
    turned = with_units(net, kept)
    assert torch.allclose(outputs(turned, x), outputs(net, x), atol=1e-12)
    assert turned.parameters == net.parameters
    assert [node.shape for node in turned.nodes] == [node.shape for node in net.nodes]


@pytest.mark.parametrize("module", [convolutional(), grouped(), Residual()])
def test_units_that_nothing_reads_go(module: nn.Module) -> None:
    """The first two units' readers are zero: the function is the same without them, and smaller."""
    net, x = traced(module), torch.randn(5, 1, 8, 8)
    for one in hidden_units(net):
        reader = net.nodes[one.read_by].affine.operator.weight
        one.read_weight(reader)[:, :2] = 0.0  # a view
    before = outputs(net, x)
    smaller = with_units(net, used_units(net))
    assert torch.allclose(outputs(smaller, x), before, atol=1e-12)
    for old, new in zip(hidden_units(net), hidden_units(smaller), strict=True):
        assert new.units == old.units - 2
    assert smaller.parameters < net.parameters


def test_units_without_inputs_go_and_take_others_along() -> None:
    net = traced(nn.Sequential(nn.Flatten(), *layers(64, 4, 5, 6), nn.Linear(6, 3)))
    first, second, third = (node.affine.operator.weight for node in net.affine_layers[:3])
    first[1] = 0.0
    second[:, [0, 2, 3]] = 0.0  # only unit 1 of the first layer is read, which has no inputs
    second[4] = 0.0
    third[2] = 0.0
    used = used_units(net)
    assert [units.tolist() for units in used.values()] == [[], [], []]
    net = traced(nn.Sequential(nn.Flatten(), *layers(64, 4, 5), nn.Linear(5, 3)))
    net.affine_layers[2].affine.operator.weight[:, [1, 3]] = 0.0
    net.affine_layers[1].affine.operator.weight[[0, 2, 4], 0] = 0.0  # unit 0: read by 1 and 3 alone
    assert [units.tolist() for units in used_units(net).values()] == [[1, 2, 3], [0, 2, 4]]


def layers(*widths: int) -> list[nn.Module]:
    return [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
