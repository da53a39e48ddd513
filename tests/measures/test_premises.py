"""What a family or theorem asks of a net's layers, and what is said and done where one lacks it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion.errors import Unsupported
from cushion.measures.families import FAMILIES
from cushion.nets.network import Network

torch.set_num_threads(1)
NO_PATHS = (
    r"^the family paths holds for nets without such layers only: 1 \(curve\) is not positively "
    r"homogeneous with slopes of at most 1; margins, norms, tails and sharpness do not need that$"
)


def net(activation: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), activation, nn.Linear(5, 3)).eval()


@pytest.fixture(scope="module")
def data() -> cushion.Dataset:
    rng = np.random.default_rng(0)
    return cushion.Dataset(rng.normal(size=(30, 4)).astype(np.float32), np.arange(30) % 3)


def test_families_state_their_premises_by_names_that_operations_have() -> None:
    stated = {family.name: family.premises for family in FAMILIES if family.premises}
    assert stated["paths"] == ("contracts",)
    assert stated["conditions"] == ("rectifies",)
    relu = cushion.trace(net(nn.ReLU()), (4,))
    for family, premises in stated.items():
        assert not any(relu.lacks(premise, family) for premise in premises)


def test_a_family_whose_premise_fails_is_refused_where_it_is_named(data: cushion.Dataset) -> None:
    with pytest.raises(Unsupported, match=NO_PATHS):
        cushion.measure(net(nn.GELU()), data, only="paths")
    assert cushion.measure(net(nn.ReLU()), data, only="paths").net.path_norms


def test_a_family_whose_premise_fails_is_left_out_of_all_with_the_sentence(
    data: cushion.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ("norms", "paths", "margins", "stability")
    few = tuple(family for family in FAMILIES if family.name in wanted)
    monkeypatch.setattr("cushion.measures.table.FAMILIES", few)
    table = cushion.measure(net(nn.GELU()), data)
    left = {one.family: one.why for one in table.left_out}
    assert re.match(NO_PATHS, left["paths"])
    assert "norms" not in left
    assert table.net.way == "hooks"  # by which stability is measured, between blocks
    assert "stability" not in left
    assert table.net.margin is not None
    assert all(layer.spectral is not None for layer in table.layers)
    assert not table.net.path_norms
    assert not cushion.measure(net(nn.ReLU()), data).left_out


def test_bounds_watch_a_net_by_hooks_where_bounds_by_norms_lack_a_premise(
    data: cushion.Dataset,
) -> None:
    by_trace, by_hooks = (cushion.bounds(net(one), data) for one in (nn.ReLU(), nn.GELU()))
    assert by_trace.left_out == ""
    said = "every bound by norms holds for nets without such layers only: 1 (curve) is not posit"
    assert by_hooks.left_out.startswith(said)
    rows = {row.name for row in by_hooks.bounds}
    assert rows
    assert rows < {row.name for row in by_trace.bounds}
    with torch.no_grad():
        scores = net(nn.GELU())(torch.from_numpy(np.asarray(data.x))).numpy()
    rest = scores.copy()
    rest[np.arange(30), data.y] = -np.inf
    margins = scores[np.arange(30), data.y] - rest.max(1)
    assert by_hooks.errors == int((margins <= 0).sum())  # ties are errors


class Positions(nn.Module):
    """A Linear layer at each of two positions."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.last = nn.Linear(2, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.each(x.view(-1, 2, 2))).flatten(1))


class Sequences(nn.Module):
    """A convolution of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.along, self.last = nn.Linear(4, 4), nn.Conv1d(1, 2, 2), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.along(self.first(x).unsqueeze(1)).flatten(1))


@pytest.mark.parametrize(("make", "layer"), [(Positions, "each"), (Sequences, "along")])
@pytest.mark.parametrize("method", ["magnitude", "matrix-project", "low-rank"])
def test_compressors_refuse_layers_they_do_not_take_by_name(
    make: type[nn.Module], layer: str, method: str, data: cushion.Dataset
) -> None:
    model = make().eval()
    assert isinstance(cushion.trace(model, (4,)), Network)
    said = f"^layer {layer} is a transposed .* compressors take Linear and Conv2d layers only; .*$"
    with pytest.raises(Unsupported, match=said):
        cushion.compress(model, data, method=method)
