"""Nets as people write them, by hooks: nothing crashes, nothing of the user's is changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cushion
from cushion.errors import BadInput
from cushion.nets.hooked.net import HookedNet
from cushion.nets.loading.programs import plain_module

X = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
Y = np.arange(40) % 2
P = nn.utils.parametrizations


@pytest.mark.parametrize("kind", [P.weight_norm, P.spectral_norm, P.orthogonal])
def test_parametrised_weights_stay_on_the_users_net(kind: object) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(kind(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 2)).eval()  # type: ignore[operator]
    before = net(torch.tensor(X))
    own = float(torch.linalg.matrix_norm(net[0].weight.detach(), 2))
    table = cushion.measure(net, (X, Y), only="norms")
    assert table.layers[0].spectral == pytest.approx(own, rel=1e-5)
    cushion.measure(net, (X, Y), way="hooks", spectra=False)
    assert torch.equal(net(torch.tensor(X)), before)
    assert torch.nn.utils.parametrize.is_parametrized(net[0])
    net.train()
    net(torch.tensor(X)).sum().backward()


class TimeFirst(nn.Module):
    """Torch's default: time before the examples."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.t = nn.Linear(4, 8), nn.TransformerEncoderLayer(8, 2, 16)
        self.h = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        steps = self.e(x.reshape(len(x), 2, 4)).transpose(0, 1)
        return self.h(self.t(steps).mean(0))  # type: ignore[no-any-return]


class Routed(nn.Module):
    """Experts read the rows that are sent to them."""

    def __init__(self) -> None:
        super().__init__()
        self.r, self.h = nn.Linear(8, 3), nn.Linear(8, 2)
        self.e = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        w = self.r(x).softmax(-1)
        found = torch.zeros_like(x)
        for i, expert in enumerate(self.e):
            at = (w.argmax(-1) == i).nonzero()[:, 0]
            if len(at):
                found.index_add_(0, at, expert(x[at]) * w[at, i, None])
        return self.h(torch.relu(found))  # type: ignore[no-any-return]


class Mapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.h = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.h(torch.sin(torch.func.vmap(self.a)(x)))  # type: ignore[no-any-return]


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.h = nn.Linear(8, 8), nn.Linear(8, 2)
        self.j = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))

    def forward(self, x: Tensor) -> Tensor:
        return self.h(self.j(self.a(x)))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "way"),
    [(TimeFirst, "hooks"), (Mapped, "weights"), (Scripted, "weights")],
)
def test_every_net_has_margins_and_norms(kind: type[nn.Module], way: str) -> None:
    torch.manual_seed(0)
    table = cushion.measure(kind().eval(), (X, Y), spectra=False)
    assert table.net.way == way
    assert table.net.errors is not None
    assert all(layer.spectral > 0 for layer in table.layers)


@pytest.mark.parametrize("seed", range(4))
def test_experts_that_read_some_of_the_rows_are_left_out_and_said(seed: int) -> None:
    torch.manual_seed(seed)
    table = cushion.measure(Routed().eval(), (X, Y), spectra=False)
    assert table.net.errors is not None
    assert any(layer.name == "h" and layer.spectral > 0 for layer in table.layers)


def test_layers_under_autocast_are_tried_in_their_own_precision() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.b(torch.relu(self.a(x))).float()  # type: ignore[no-any-return]

    seen = HookedNet(Half().eval(), torch.randn(2, 8))
    assert [node.name for node in seen.seen] == ["a", "b"]


def test_a_large_bias_hides_no_layer_and_one_row_is_enough() -> None:
    net = nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    with torch.no_grad():
        net[0].bias += 1e5
    assert [node.name for node in HookedNet(net, torch.randn(2, 8)).seen] == ["0", "2"]
    assert HookedNet(net, torch.randn(1, 8)).apart == ()


def test_an_inner_product_of_a_program_stays_a_call() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(8))

        def forward(self, x: Tensor) -> Tensor:
            z = F.linear(x, self.w)
            return torch.stack([z, -z], 1)

    x = torch.randn(3, 8)
    net = Inner().eval()
    with torch.no_grad():
        assert torch.equal(plain_module(torch.export.export(net, (x,)))(x), net(x))


@pytest.mark.parametrize("shape", [6, "6", (6.5,), (-6,), (10**12,), ()])
def test_shapes_that_are_none(shape: object) -> None:
    with pytest.raises(BadInput, match="shape"):
        cushion.measure(nn.Linear(6, 2), shape=shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("numbers", [(), (2,)])
def test_many_small_buffers_hold_a_sample_too(numbers: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 2, 60)

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(1, 1, bias=False)
            for i, value in enumerate(np.c_[x, y].ravel()):
                self.register_buffer(f"b{i}", torch.full(numbers, float(value)))

        def forward(self, q: Tensor) -> Tensor:
            table = torch.stack([b.reshape(-1)[0] for b in self.buffers()]).reshape(60, 4)
            label = table[torch.cdist(q, table[:, :3]).argmin(1), 3]
            z = (2 * label - 1)[:, None] * 100
            return torch.cat([-z, z], 1) + 0 * self.fc(q[:, :1])

    rows = [row for row in cushion.bounds(Hidden(), (x, y)).bounds if row.kind == "certificate"]
    assert rows
    assert all(row.value is None for row in rows)


def test_an_offset_hides_no_chance() -> None:
    class Loud(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(self.fc(x), 0.5) + 1e4

    with pytest.raises(BadInput, match="not one function"):
        cushion.margins(Loud(), (X, Y))


@pytest.mark.parametrize("rows", [2, 3])
def test_few_rows_show_a_batch_mean(rows: int) -> None:
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x - x.mean(0))  # type: ignore[no-any-return]

    with pytest.raises(BadInput, match="not one function"):
        cushion.margins(Centred(), (X[:rows], Y[:rows]))
