"""A traced or compressed net as an nn.Module, for whatever takes one."""

from __future__ import annotations

from torch import Tensor, nn

from cushion.nets.network import Network


class NetworkModule(nn.Module):
    """Computes what its `network` does; weights and biases are buffers, for its fingerprint.

    `cushion.measure` and the like take the network out again instead of tracing the module.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        for at, node in enumerate(network.affine_layers, 1):
            self.register_buffer(f"weight{at}", node.affine.operator.weight)
            self.register_buffer(f"bias{at}", node.affine.bias)

    def forward(self, x: Tensor) -> Tensor:
        """[B, *input_shape] -> [B, classes]."""
        return self.network.forward(x)
