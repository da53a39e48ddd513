"""Exact Jacobian norms of a dense chain, example by example, on its active units only.

With a_l the active units of layer l, the columns of J^{i,j} that are not zero are A^j[:, a_{j-1}]
T, where T = A^{j-1}[a_{j-1}, a_{j-2}] ... A^{i+1}[a_{i+1}, a_i]. Hence ‖J^{i,j}‖_F² = ⟨G_j[a_{j-1},
a_{j-1}], T Tᵀ⟩ with the Gram matrix G_j = (A^j)ᵀ A^j, made once: about half the units are active,
so the products shrink eightfold, and T Tᵀ is symmetric, so half of it suffices.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.linalg.blas import get_blas_funcs
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine, Flatten, ReLU, Unflatten
from cushion.nets.operators import Linear


@dataclass(frozen=True, eq=False)
class GramChain:
    """Dense layers in a chain with ReLUs alone between them; covers hidden pairs i < j - 1."""

    layers: tuple[Node, ...]
    weights: tuple[Tensor, ...]
    rectified: tuple[bool, ...]  # whether a ReLU follows the layer
    grams: tuple[Tensor | None, ...]  # G_j, for the hidden layers j that end a pair

    @classmethod
    def of(cls, net: Network) -> GramChain | None:
        """None if the net is no such chain, or too short for a pair with one between."""
        layers = net.affine_layers
        if not net.is_chain or len(layers) < 4:
            return None
        operators = [node.affine.operator for node in layers]
        weights = [one.weight for one in operators if isinstance(one, Linear)]
        plain = all(isinstance(n.op, Affine | ReLU | Flatten | Unflatten) for n in net.nodes[1:])
        if len(weights) < len(layers) or not plain:
            return None
        rectified = tuple(
            any(isinstance(between.op, ReLU) for between in net.nodes[node.index : after.index])
            for node, after in pairwise(layers)
        )
        grams = (None, None, *(weight.T @ weight for weight in weights[2:-1]), None)
        return cls(layers, tuple(weights), (*rectified, False), grams)

    @property
    def multiplications(self) -> float:
        """Products for one example, if half of each layer's units behind a ReLU are active."""
        both = zip(self.layers, self.rectified, strict=True)
        active = [node.shape[0] / (2 if relu else 1) for node, relu in both]
        last, total = len(self.layers) - 2, 0.0
        for i, j in self._pairs:
            total += active[j - 1] ** 2 * active[i] / 2
            total += active[j] * active[j - 1] * active[i] if j < last else 0
        return total

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Positions i < j - 1 of layers, j not the last."""
        depth = len(self.layers)
        return [(i, j) for i in range(depth - 3) for j in range(i + 2, depth - 1)]

    def squares(self, line: Linearisation) -> dict[tuple[int, int], Tensor]:
        """‖J^{i,j}‖_F² for i < j - 1, j not the last: [B] float64 under nodes' indices."""
        found = {
            (self.layers[i].index, self.layers[j].index): torch.empty(line.batch).double()
            for i, j in self._pairs
        }
        # small products: a second BLAS pool only gets in torch's way
        with threadpool_limits(1, user_api="blas"):
            for b in range(line.batch):
                self._fill(line, b, found)
        return found

    def _fill(self, line: Linearisation, b: int, found: dict[tuple[int, int], Tensor]) -> None:
        active = []
        for node, relu in zip(self.layers, self.rectified, strict=True):
            whole = torch.arange(node.shape[0])
            active.append(whole[line.outputs[node.index][b] > 0] if relu else whole)
        kept, grams = {}, {}
        for j in range(1, len(self.layers) - 1):
            rows, columns, gram = active[j], active[j - 1], self.grams[j]
            if j < len(self.layers) - 2:
                kept[j] = _pick(self.weights[j], rows, columns)
            if gram is not None:
                grams[j] = _pick(gram, columns, columns)
        t = kept[1]
        for i, j in self._pairs:
            t = kept[i + 1] if j == i + 2 else kept[j - 1] @ t
            found[self.layers[i].index, self.layers[j].index][b] = _inner_with_outer(grams[j], t)


def _pick(matrix: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return matrix.index_select(0, rows).index_select(1, columns)


def _inner_with_outer(gram: Tensor, t: Tensor) -> float:
    """⟨gram, t tᵀ⟩ for a symmetric gram, from one triangle of t tᵀ."""
    if 0 in t.shape:
        return 0.0
    left = t.numpy()
    (syrk,) = get_blas_funcs(("syrk",), (left,))
    outer = syrk(1.0, left.T, trans=1)  # the upper triangle, zeros below it
    square = gram.numpy()
    triangle = float(np.vdot(square, outer.T))
    return 2 * triangle - float(np.vdot(np.diagonal(square), np.diagonal(outer)))
