"""A batch's activations, and what becomes of later layers when one layer's output is changed."""

from __future__ import annotations

import torch
from torch import Tensor

from cushion.nets.linearisation import Visit
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine


class Activations:
    """Every node's output for one batch, in `values` under its index: [B, *shape]."""

    def __init__(self, net: Network, x: Tensor) -> None:
        self.net = net
        # Channels last, as in a Linearisation: faster, and differences lie alike in memory.
        self.values: dict[int, Tensor] = {
            0: x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
        }
        with torch.no_grad():
            for node in net.nodes[1:]:
                self.values[node.index] = node.op(*(self.values[i] for i in node.inputs))

    @torch.no_grad()
    def rerun(self, source: Node, t: Tensor, visit: Visit) -> None:
        """Put t, [B, *shape], in place of the source's output; show what affine layers become.

        This is M^{i,j}(t) of Arora 2018, Section 3, for all j > i. What `visit` is shown is its own
        to keep.
        """
        changed = {source.index: t}
        for node in self.net.nodes[source.index + 1 :]:
            if not any(i in changed for i in node.inputs):
                continue
            inputs = [changed.get(i, self.values[i]) for i in node.inputs]
            changed[node.index] = node.op(*inputs)
            if isinstance(node.op, Affine):
                visit(node, changed[node.index])
            for i in node.inputs:
                if self.net.users[i][-1] == node.index:
                    changed.pop(i, None)
