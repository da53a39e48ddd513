"""What hooks claim of a net is tried on it: layers on noise, blocks by swapping rows, the axis of
the examples, and which numbers noise in the weights does not move.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cushion
from cushion.errors import Unsupported
from cushion.measures.sharpness.functional import unmoved
from cushion.nets.hooked.net import HookedNet

X = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
Y = np.arange(32) % 3


def hooked(net: nn.Module, shape: tuple[int, ...] = (8,)) -> HookedNet:
    rows = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    return HookedNet(net.eval(), rows)


class Standardised(nn.Conv2d):
    """Its forward scales its weight, which its attributes do not say."""

    def forward(self, input: Tensor) -> Tensor:
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / w.std((1, 2, 3), keepdim=True)
        return self._conv_forward(input, w, self.bias)


def test_a_layer_that_reads_zeros_is_tried_on_noise() -> None:
    net = nn.Sequential(Standardised(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 3))
    seen = HookedNet(net, torch.zeros(2, 2, 4, 4))
    assert seen.not_seen == ("0",)
    assert [node.name for node in seen.seen] == ["3"]


class Folded(nn.Module):
    """Folds positions into the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.head = nn.Linear(2, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.relu(self.each(x.reshape(len(x) * 4, 2)))
        return self.head(F.layer_norm(rows.reshape(len(x), 4, 6).mean(1), (6,)))


class TimeFirst(nn.Module):
    """Two steps of time before the examples: as many as rows in the pass that shows the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = self.each(x.reshape(len(x), 2, 4).transpose(0, 1))
        return self.head(F.layer_norm(torch.relu(steps).mean(0), (6,)))


@pytest.mark.parametrize("kind", [Folded, TimeFirst])
def test_layers_whose_first_axis_is_not_the_examples_have_norms_only(
    kind: type[nn.Module],
) -> None:
    torch.manual_seed(0)
    net = kind()
    table = cushion.measure(net, (X, Y))
    assert table.net.way == "hooks"
    assert table.net.apart == ("each",)
    own = {layer.name: layer for layer in table.layers}
    assert own["each"].layer_cushion is None
    weight = dict(net.named_parameters())["each.weight"]
    assert own["each"].spectral == pytest.approx(
        float(torch.linalg.matrix_norm(weight.detach(), 2)), 1e-5
    )
    assert own["head"].layer_cushion is not None


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 12)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.fc(x).chunk(2, 1))


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.sp, self.out = nn.Linear(8, 8), Halves(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        p, q = self.sp(torch.relu(self.a(x)))
        return self.out(F.layer_norm(0.01 * p + q, (6,)))


class Gated(nn.Module):
    """Data pass around `a`, hidden from gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.g, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.g(x.detach()))
        return self.out(F.layer_norm(self.a(x) * gate, (8,)))


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            h = self.b(torch.relu(self.a(x)))
        return self.out(F.layer_norm(h, (8,)))


def test_a_part_of_a_result_is_no_block() -> None:
    assert [block.name for block in hooked(Split()).blocks] == ["a", "sp.fc", "out"]


def test_what_passes_a_block_by_is_found_by_swapping_rows() -> None:
    assert "a" not in [block.name for block in hooked(Gated()).blocks]


@pytest.mark.parametrize(
    ("net", "source", "reached"),
    [(Gated, "g", {"out"}), (Frozen, "a", {"b", "out"}), (Split, "a", {"sp.fc", "out"})],
)
def test_noise_is_followed_where_gradients_do_not_flow(
    net: type[nn.Module], source: str, reached: set[str]
) -> None:
    seen = hooked(net())
    node = next(one for one in seen.seen if one.name == source)
    assert {seen.nodes[at].name for at in seen.descendants(node.index)} == reached


def test_writes_through_views_carry_dependence() -> None:
    class Pieces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.out = nn.Linear(4, 3), nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            found = torch.zeros(len(x), 6)
            for at in range(2):
                found[:, 3 * at : 3 * at + 3] = self.a(x[:, 4 * at : 4 * at + 4])
            return self.out(F.layer_norm(found, (6,)))

    seen = hooked(Pieces())
    names = {node.name: node.index for node in seen.seen}
    for layer in ("a", "a#2"):
        assert names["out"] in seen.descendants(names[layer])


class Held(nn.Module):
    """A lambda holds on to the module: a copy's still calls the original."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        self.run = lambda x: self.net(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)  # type: ignore[no-any-return]


def test_a_copy_that_computes_with_the_net_itself_is_refused_and_the_net_stays() -> None:
    net = Held().train()
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(Unsupported, match="a lambda over self"):
        HookedNet(net, torch.randn(2, 8))
    table = cushion.measure(net, (X, Y))
    assert table.net.way == "weights"
    assert {layer.name for layer in table.layers} == {"net.0", "net.2"}
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_a_layer_called_by_keyword_is_seen() -> None:
    class Keyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.out = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = torch.relu(self.fc(F.layer_norm(x, (8,))))
            return self.out(torch.relu(self.fc(input=h)))

    table = cushion.measure(Keyword(), (X, Y), only="stability", spectra=False)
    assert [layer.name for layer in table.layers] == ["fc", "fc#2", "out"]
    assert all(layer.noise_attenuation for layer in table.layers)


def test_a_number_of_calls_that_varies_is_refused() -> None:
    class InTwos(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.fc(F.layer_norm(rows, (8,))) for rows in x.split(2)])

    for rows, said in ((5, "fc reads 2 rows of a batch of 5"), (2, "")):
        seen = hooked(InTwos())
        if not said:
            seen.run(torch.randn(rows, 8), lambda *_: None)
            continue
        with pytest.raises(Unsupported, match=said):
            seen.run(torch.randn(rows, 8), lambda *_: None)


def test_torchs_own_transformer_has_cushions_between_its_blocks() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    parts = nn.Unflatten(1, (4, 2)), nn.Linear(2, 8), nn.TransformerEncoder(layer, 2), nn.Flatten()
    before = torch.backends.mha.get_fastpath_enabled()
    table = cushion.measure(nn.Sequential(*parts, nn.Linear(32, 3)), (X, Y), only="stability")
    assert table.net.stability.blocks_left_out == ""
    assert [block.interlayer_cushion is None for block in table.net.blocks] == [False] * 3 + [True]
    assert torch.backends.mha.get_fastpath_enabled() == before


class Memory(nn.Module):
    """Answers as the nearest row that it stores."""

    def __init__(self, x: Tensor, y: Tensor, *, registered: bool) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(1))
        if registered:
            self.register_buffer("x", x)
            self.register_buffer("y", y)
        else:
            self.x, self.y = x, y

    def forward(self, q: Tensor) -> Tensor:
        return torch.softmax(-1e3 * torch.cdist(q, self.x), 1) @ self.y + self.gain


@pytest.mark.parametrize("registered", [True, False])
def test_no_certificate_by_noise_for_a_net_that_stores_the_sample_elsewhere(
    registered: bool,
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((400, 8)).astype(np.float32), rng.integers(0, 2, 400)
    hot = F.one_hot(torch.tensor(y)).float()
    net = Memory(torch.tensor(x), hot, registered=registered)
    table = cushion.bounds(net, (x, y))
    assert table.errors == 0
    row = next(row for row in table.bounds if row.kind == "certificate")
    assert row.value is None
    assert "which are no weights and may hold the sample" in row.meaning


def test_what_noise_does_not_move_is_named() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.kept = nn.Linear(8, 3), [nn.Parameter(torch.randn(3))]
            self.listed = [self.fc.weight]
            self.register_buffer("places", torch.arange(8.0))
            self.register_buffer("ones", torch.ones(3, 8))
            self.register_buffer("mask", torch.ones(3, 3).tril())
            self.register_buffer("table", torch.randn(8))

        def forward(self, x: Tensor) -> Tensor:
            h = F.layer_norm(x + self.places + self.table, (8,))
            return (F.linear(h, self.listed[0] * self.ones) + self.kept[0]) @ self.mask

    seen, x = hooked(Many()), torch.randn(2, 8)
    assert set(unmoved(seen, x)) == {"table", "fc.weight", "a tensor of shape (3,)"}
    assert unmoved(hooked(nn.Sequential(nn.LSTM(8, 4), _First(), nn.Linear(4, 3))), x) == ()


class _First(nn.Module):
    def forward(self, given: tuple[Tensor, object]) -> Tensor:
        return given[0]


def test_slopes_that_training_chose_are_not_free_either() -> None:
    for activation, silent in ((nn.PReLU(), True), (nn.LeakyReLU(), False), (nn.ReLU(), False)):
        net = nn.Sequential(nn.Linear(8, 6), activation, nn.Linear(6, 3))
        proved = [row for row in cushion.bounds(net, (X, Y)).bounds if row.kind == "certificate"]
        assert [row.value is None for row in proved] == [silent] * len(proved)
        assert {row.name for row in proved} == {"noise", "stored weights"}
