"""Layer cushions, contractions and noise sensitivities from the three norms of the one pass."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.nets.network import Network, Node, Stage

Values: TypeAlias = NDArray[np.float64]  # one number per example
OnePass: TypeAlias = dict[
    tuple[int, Stage], Values
]  # ‖φ(x^{i-1})‖, ‖A^i φ(x^{i-1})‖, ‖x^i‖ by node index and stage


class NormObserver:
    """‖φ(x^{i-1})‖, ‖A^i φ(x^{i-1})‖ and ‖x^i‖ of every layer: [B] under (index, stage)."""

    def __init__(self) -> None:
        self.norms: dict[tuple[int, Stage], Tensor] = {}

    def __call__(self, node: Node, stage: Stage, t: Tensor) -> None:
        self.norms[node.index, stage] = torch.linalg.vector_norm(t.flatten(1), dim=1)


def layer_cushions(norms: OnePass, node: Node, frobenius: float) -> Values:
    """‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖) for each example.

    Definition 4: the layer cushion μ_i is the largest number with μ_i ‖A^i‖_F ‖φ(x^{i-1})‖ ≤ ‖A^i
    φ(x^{i-1})‖ on all of S, the minimum of these. ‖A‖_F is the norm of the parameters (a
    convolution's kernel, as in Section C of the paper), or of A - A₀ for the version from
    initialisation. The paper has no biases: A φ(x) is the layer's output without its bias. An
    example whose φ(x^{i-1}) is zero constrains nothing; its ratio is NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return norms[node.index, "linear"] / (frobenius * norms[node.index, "input"])


def activation_contractions(norms: OnePass, node: Node, after: Node) -> Values:
    """‖x^i‖ / ‖φ(x^i)‖ for each example; φ is all that lies between layer i and the next one,
    pooling included.

    Definition 6: c is the smallest number with ‖φ(x^i)‖ ≥ ‖x^i‖/c, the maximum. Infinite where
    φ(x^i) = 0; NaN where x^i = 0 too.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return norms[node.index, "output"] / norms[after.index, "input"]


def noise_sensitivities(norms: OnePass, node: Node, operator_frobenius: float) -> Values:
    """ψ of the layer's true linear map at φ(x^{i-1}) for noise N(0, I), exact:
    ‖A‖_F²‖φ(x)‖²/‖Aφ(x)‖².

    Proposition 3.1. Definition 3 takes the maximum over S. At least the map's stable rank.
    """
    with np.errstate(divide="ignore"):
        return layer_cushions(norms, node, operator_frobenius) ** -2.0


def next_layer(net: Network, node: Node) -> Node | None:
    """The one layer that reads this one's output through φ; None at the end or at branches."""
    index = node.index
    while len(users := net.users[index]) == 1:
        following = net.nodes[users[0]]
        if len(following.inputs) != 1:
            return None
        if following in net.affine_layers:
            return following
        index = following.index
    return None
