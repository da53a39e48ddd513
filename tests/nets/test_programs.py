"""torch.export programs become plain modules that compute the same, for any batch size, and
trace.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cases import CASES, Case
from torch import nn

import cushion
from cushion.errors import Unsupported
from cushion.nets.loading.programs import plain_module


def export(net: nn.Module, shape: tuple[int, ...]) -> torch.export.ExportedProgram:
    return torch.export.export(
        net.eval(), (torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)),)
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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


def test_what_is_not_understood_is_named() -> None:
    program = export(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.GELU()), (1, 2, 2))
    with pytest.raises(Unsupported, match="gelu"):
        cushion.trace(plain_module(program), (1, 2, 2))


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
