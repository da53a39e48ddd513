"""A net of which only the answers are asked: its scores, batch by batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cushion.nets.batches import Batch
from cushion.nets.calling import evaluating, fitted, place, precision
from cushion.nets.network import Node, Observer
from cushion.nets.operations.operation import Shape


class ScoredNet:
    """The user's own module, uncopied: it is in eval mode during a pass and as before behind it."""

    affine_layers: tuple[Node, ...] = ()
    is_chain = False
    not_a_chain_because = "only its answers were looked at"

    def __init__(self, module: nn.Module, rows: Batch) -> None:
        self.module = module
        self.input_shape: Shape = () if isinstance(rows, dict) else tuple(rows.shape[1:])
        self.parameters = sum(p.numel() for p in module.parameters())
        self.dtype, self.device = precision(module), place(module)
        self.classes = self.forward(fitted(module, rows)).shape[1]

    @torch.no_grad()
    def forward(self, x: Batch) -> Tensor:
        """The scores, [B, classes]."""
        with evaluating(self.module):
            return self.module(x)  # type: ignore[no-any-return]

    def run(self, x: Batch, observe: Observer | None) -> Tensor:
        """The scores; there is nothing to observe."""
        del observe
        return self.forward(x)
