"""torch.export programs become plain modules that compute the same, for any batch size, and
trace.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.cases import CASES, Case
from torch import Tensor, nn
from torch.nn import functional as F

import cushion
from cushion.errors import Unsupported
from cushion.nets.loading.programs import plain_module


def export(net: nn.Module, shape: tuple[int, ...], rows: int = 2) -> torch.export.ExportedProgram:
    x = torch.randn(rows, *shape, generator=torch.Generator().manual_seed(0))
    return torch.export.export(net.eval(), (x,))


@pytest.mark.parametrize(
    "case",  # an export takes half a second
    [
        pytest.param(c, id=c.name, marks=[pytest.mark.full] * (i % 3 > 0))
        for i, c in enumerate(CASES)
    ],
)
def test_every_tiny_net_survives_export(case: Case, tmp_path: Path) -> None:
    net = case.module().eval()
    torch.export.save(export(net, case.input_shape), tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2")
    traced = cushion.trace(plain_module(loaded), case.input_shape)
    x = torch.randn(
        5, *case.input_shape, generator=torch.Generator().manual_seed(1), dtype=traced.dtype
    )
    with torch.no_grad():
        assert torch.allclose(traced.forward(x), net(x), rtol=1e-4, atol=1e-5)


def test_a_program_with_a_free_batch_size_asks_for_it() -> None:
    class View(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(x.view(x.size(0), -1))

    net = View().eval()
    batch = {0: torch.export.Dim("batch")}
    module = plain_module(
        torch.export.export(net, (torch.randn(3, 1, 2, 2),), dynamic_shapes=(batch,))
    )
    x = torch.randn(7, 1, 2, 2)
    with torch.no_grad():
        assert torch.allclose(cushion.trace(module, (1, 2, 2)).forward(x), net(x), atol=1e-6)


class Calls(nn.Module):
    """A function of feature maps [4, 6] between two layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.function, self.last = nn.Conv1d(2, 4, 3), function, nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)).flatten(1))


UNDERSTOOD: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "silu in place": lambda x: F.silu(x, inplace=True),
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardswish in place": lambda x: F.hardswish(x, inplace=True),
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "relu6 in place": lambda x: F.relu6(x, inplace=True),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "clamp": lambda x: x.clamp(-0.2, 0.3),
    "leaky relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu": nn.PReLU(4),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "elu": lambda x: F.elu(x, 0.5),
    "celu": lambda x: F.celu(x, 0.5),
    "selu": F.selu,
    "constants": lambda x: -((x - 0.5) / 2.0 * 3 + 1),
    "from a constant": lambda x: 1 - x,
    "constants in place": lambda x: x.clone().sub_(1).mul_(2).div_(3),
    "a call whose result is not read": lambda x: [x := x + 1, x.mul_(2)][0],
    "pad": lambda x: F.pad(x, (1, 2)),
    "slice": lambda x: x[:, 1:3, ::2],
    "one channel": lambda x: x[:, 1],
    "transpose": lambda x: F.relu(x.transpose(1, 2)),
    "last two axes": lambda x: F.relu(x.mT),
    "permute": lambda x: F.relu(x.permute(0, 2, 1)),
    "chunk": lambda x: torch.add(*x.chunk(2, 1)),
    "split": lambda x: x.split([1, 3], 1)[1],
    "unbind": lambda x: torch.add(*x.unbind(1)[:2]),
    "narrow": lambda x: x.narrow(1, 0, 2),
    "transposed convolution": nn.ConvTranspose1d(4, 2, 3, stride=2, output_padding=1, groups=2),
    "same padding": nn.Conv1d(4, 2, 3, padding="same", dilation=2),
    "pool": lambda x: F.max_pool1d(F.avg_pool1d(x, 2), 2),
    "adaptive pools": lambda x: F.adaptive_max_pool1d(F.adaptive_avg_pool1d(x, 3), 1),
    "maximum": lambda x: x.max(2)[0] + x.amax(2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "batch norm": nn.BatchNorm1d(4),
}


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_the_calls_of_a_program_are_traced_as_the_torch_functions_they_stand_for(name: str) -> None:
    torch.manual_seed(0)
    net, x = Calls(UNDERSTOOD[name]).eval(), torch.randn(5, 2, 8)
    net(x)
    module = plain_module(export(net, (2, 8)))
    with torch.no_grad():
        assert torch.allclose(module(x), net(x), atol=1e-6)
        assert torch.allclose(cushion.trace(module, (2, 8)).forward(x), net(x), atol=1e-5)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (nn.LayerNorm(6), r"\(layer_norm\): it normalises each example by its own statistics"),
        (nn.GroupNorm(2, 4), r"\(group_norm\): it normalises each example"),
        (lambda x: x.softmax(1), r"\(softmax\): softmax is not piecewise linear"),
        (lambda x: F.scaled_dot_product_attention(x, x, x), "attention weights are computed"),
        (lambda x: x.flip(2), r"\(flip\): there is no exact rule"),
    ],
)
def test_a_call_that_is_not_understood_is_named_and_its_module_still_answers(
    function: Callable[[Tensor], Tensor], said: str
) -> None:
    torch.manual_seed(0)
    net, x = Calls(function).eval(), torch.randn(5, 2, 8)
    net(x)
    module = plain_module(export(net, (2, 8)))
    with pytest.raises(Unsupported, match=f"{said}.*margins, sharpness and noise do not"):
        cushion.trace(module, (2, 8))
    with torch.no_grad():
        assert torch.allclose(module(x), net(x), atol=1e-6)


@pytest.mark.parametrize("example", [1, 2])
def test_a_program_that_keeps_the_batch_size_of_its_example_answers_other_batches_too(
    example: int, capfd: pytest.CaptureFixture[str]
) -> None:
    class Token(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.out = nn.Parameter(torch.ones(1, 1, 4)), nn.Linear(12, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.cat([self.token.expand(len(x), 1, 4), x], 1).flatten(1))

    torch.manual_seed(0)
    net = Token()
    module = plain_module(export(net, (2, 4), example))
    with pytest.raises(Unsupported, match="reads batches of one size only; export it with a free"):
        cushion.trace(module, (2, 4))
    for rows in (1, 2, 5):
        x = torch.randn(rows, 2, 4)
        with torch.no_grad():
            assert torch.allclose(module(x), net(x), atol=1e-6)
    assert capfd.readouterr().err == ""  # the trial of another size fails without a word


def test_a_program_exported_in_training_mode_is_refused() -> None:
    torch.manual_seed(0)  # with little luck both draws drop everything
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout(0.9)).train()
    program = torch.export.export(net, (torch.randn(8, 1, 2, 2),))
    with pytest.raises(Unsupported, match="evaluation mode"):
        plain_module(program)


def test_in_place_calls_change_their_operand() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x)
            y = torch.relu_(x)
            return self.b(x + y)  # x was overwritten: this is twice the ReLU

    torch.manual_seed(0)
    net = InPlace()
    module = plain_module(export(net, (4,)))
    x = torch.randn(6, 4)
    with torch.no_grad():
        assert torch.allclose(module(x), net(x))
        assert torch.allclose(cushion.trace(module, (4,)).forward(x), net(x), atol=1e-6)


class Mixed(nn.Module):
    """What no trace follows (a layer-norm), between layers of every kind that a program writes as
    calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding="same"), nn.BatchNorm2d(4)
        self.thin = nn.Conv1d(4, 4, 2, stride=2, groups=2, bias=False)
        self.own, self.head = nn.LayerNorm(32), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.thin(torch.relu(self.norm(self.conv(x))).flatten(2))
        return self.head(self.own(z.flatten(1)))


def test_layers_of_an_untraceable_program_are_seen_by_hooks() -> None:
    net = Mixed().eval()
    x, y = torch.randn(6, 1, 4, 4), torch.arange(6) % 3
    program = plain_module(export(net, (1, 4, 4)))
    with torch.no_grad():
        assert torch.equal(program(x), net(x))
    seen = cushion.measure(program, (x, y), only="norms,stability")
    eager = cushion.measure(net, (x, y), only="norms,stability")
    assert [one.name for one in seen.layers] == ["conv2d", "conv1d", "linear"]
    for one, other in zip(seen.layers, (o for o in eager.layers if o.name != "norm"), strict=True):
        assert one.shape == other.shape
        assert one.layer_cushion is not None
    last, twin = seen.layers[-1], eager.layers[-1]
    assert last.spectral == pytest.approx(twin.spectral, rel=1e-6)
    assert last.layer_cushion.value == pytest.approx(twin.layer_cushion.value, rel=1e-5)


def test_tokens_are_read_by_the_embedding_of_a_program() -> None:
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.LayerNorm(12), nn.Linear(12, 2)).eval()
    tokens = torch.randint(0, 9, (4, 3), generator=torch.Generator().manual_seed(0))
    program = plain_module(torch.export.export(net, (tokens,)))
    with torch.no_grad():
        assert torch.equal(program(tokens), net(tokens))
    table = cushion.measure(program, (tokens, torch.arange(4) % 2), only="norms")
    assert {one.kind for one in table.layers} == {"embedding", "linear"}


def test_a_weight_that_is_computed_stays_a_call() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(F.layer_norm(x, (4,)), 2 * self.weight)

    net = Doubled().eval()
    program, x = plain_module(export(net, (4,))), torch.randn(5, 4)
    with torch.no_grad():
        assert torch.equal(program(x), net(x))
    assert not any(isinstance(part, nn.Linear) for part in program.modules())
