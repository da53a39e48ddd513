"""Theorem 6.1 of Guha 2023 tried: a small target net inside a large random one, by pruning alone.

The theorem is that of Malach et al. 2020, and so is the construction. The target M has L layers
without biases, ‖A‖₂ ≤ 1 and |entries| ≤ 1/√(inputs); G has 2L layers of width D with weights U[-1,
1] that are never changed, only pruned. Two layers of G stand for one of M. In the first of them
every neuron keeps one incoming weight u, that of "its" input i, and is relu(u·x_i); D/inputs
neurons belong to each input. In the second, output k keeps for input i one weight v, that of the
neuron among those of i for which u·v is nearest to the target's weight w. As

    w·x = w·relu(x) - w·relu(-x),
    v·relu(u·x) = u·v·relu(x) where u > 0, -u·v·relu(-x) where u < 0,

it takes one neuron with u > 0 and one with u < 0, both with u·v near w; behind a ReLU inputs are
never negative and the first is enough. Outputs share neurons: v is another number for each of them.

Given u > 0, u·v has the density ½ ln(1/|z|), at least ½ ln(1/|w|) nearer to 0 than w. So the
nearest of b products is about 1/(b ln(1/|w|)) off, and errors fall like 1/D. This shows that a
ticket exists, by a search that knows the target weight by weight. It says nothing about pruning by
magnitude (docs/pruning-bounds.md), and its active weights are a few for each weight of M; the
count printed in Theorem 6.1, O(d₀D + D²L), is that of all weights of G.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from cushion.data.counter import stream
from cushion.errors import BadInput

Matrix: TypeAlias = NDArray[np.float64]
POINTS, CLIMBERS, STEPS = 4096, 64, 60  # of the search for the largest error
_PACES = (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)  # of its steps; the last goes almost to g itself
_SLACK = 1e-9  # relative, far above the rounding of a singular value


@dataclass(frozen=True, eq=False)
class TicketLayer:
    """Two layers of G that stand for one of M, [out, in].

    chosen: [out, in] the neuron for the positive part of each input, and one for the negative part
    of a first layer. realised: [out, in] its u·v, likewise.
    """

    target: Matrix
    chosen: tuple[NDArray[np.int64], ...]
    realised: tuple[Matrix, ...]

    @property
    def off(self) -> Matrix:
        """The layer's mistake: a matrix on (relu(x), -relu(-x)), as long as x, or on x ≥ 0."""
        return np.concatenate([one - self.target for one in self.realised], axis=1)

    @property
    def active(self) -> int:
        """One weight into every neuron in use, one from it for each output that uses it."""
        return len(np.unique(self.chosen)) + sum(one.size for one in self.chosen)


def forward(ticket: Sequence[TicketLayer], x: Tensor) -> Tensor:
    """[B, d₀] -> [B, out] in float64: what the pruned net computes, by what it realises."""
    for layer in ticket:
        positive, *negative = (torch.from_numpy(one).T for one in layer.realised)
        y = x.relu() @ positive
        x = y - (-x).relu() @ negative[0] if negative else y
    return x


def target_net(dims: Sequence[int], seed: int = 0) -> tuple[Matrix, ...]:
    """A seeded target: layers [out, in], entries U[-1, 1]/√inputs, each scaled to norm ≤ 1."""
    layers = []
    for at, (inputs, outputs) in enumerate(pairwise(dims)):
        numbers = _uniform(f"lottery target {at}", seed, inputs * outputs)
        weight = numbers.reshape(outputs, inputs) / math.sqrt(inputs)
        layers.append(weight / max(1.0, _norm_up(weight)))
    return tuple(layers)


def find_ticket(target: Sequence[Matrix], width: int, seed: int = 0) -> list[TicketLayer]:
    """The ticket of the construction above; BadInput for too narrow a G.

    Entry (r, c) of G's layers 0, 2, ... is number c·rows + r of the layer's stream, of layers 1, 3,
    ... number r·columns + c: what a ticket reads lies together, and G itself is never built.
    """
    layers = []
    for at, weight in enumerate(target):
        outputs, inputs = weight.shape
        block, every = width // inputs, np.arange(inputs)
        starts = every * (width + block)
        u = np.stack([_uniform(f"lottery layer {2 * at}", seed, block, int(i)) for i in starts])
        signs = (u > 0, u < 0) if at == 0 else (u > 0,)  # [in, block]
        if not all(usable.any(axis=1).all() for usable in signs):
            raise BadInput(
                f"a net of width {width} has no neuron of the right sign for some of {inputs} "
                "inputs; widen it"
            )
        chosen = [np.empty(weight.shape, dtype=np.int64) for _ in signs]
        realised = [np.empty(weight.shape) for _ in signs]
        for k in range(outputs):
            v = _uniform(f"lottery layer {2 * at + 1}", seed, u.size, k * width)
            product = u * v.reshape(u.shape)
            off = np.abs(product - weight[k][:, None])
            for usable, best, value in zip(signs, chosen, realised, strict=True):
                nearest = np.where(usable, off, np.inf).argmin(axis=1)
                best[k], value[k] = every * block + nearest, product[every, nearest]
        layers.append(TicketLayer(weight, tuple(chosen), tuple(realised)))
    return layers


def ticket_error(dims: Sequence[int], width: int, seed: int = 0) -> dict[str, Any]:
    """The ticket in a random net of this width beside its `target_net` on the unit ball; errors are
    ‖G̃(x) - M(x)‖₂.

    found: the largest error that a search found, so at least; at_most: no input has a larger one,
    from the spectral norms of what the layers are off by. worst_weight: the largest |u·v - w|.
    active: weights that stay; target_weights: weights of M; all_weights: weights of G; printed: d₀D
    + D²L, what Theorem 6.1 prints for the active ones.
    """
    ticket = find_ticket(target_net(dims), width, seed)
    return {
        "dims": list(dims),
        "width": width,
        "seed": seed,
        "found": largest_error(ticket, seed),
        "at_most": error_at_most(ticket),
        "worst_weight": max(float(np.abs(layer.off).max()) for layer in ticket),
        "active": sum(layer.active for layer in ticket),
        "target_weights": sum(layer.target.size for layer in ticket),
        "all_weights": width * (dims[0] + (2 * len(ticket) - 2) * width + dims[-1]),
        "printed": dims[0] * width + width * width * len(ticket),
    }


def error_at_most(ticket: Sequence[TicketLayer]) -> float:
    """At least sup ‖G̃(x) - M(x)‖₂ over ‖x‖ ≤ 1.

    With y the target's and ŷ the ticket's values before a layer, ‖Ŵŷ - Wy‖ ≤ ‖W‖·‖ŷ - y‖ + ‖Ŵ -
    W‖·‖ŷ‖, where Ŵ - W is the layer's `off`, and a ReLU makes no difference larger.
    """
    size, error = 1.0, 0.0
    for layer in ticket:
        norm = _norm_up(layer.target)
        error = norm * error + _norm_up(layer.off) * (size + error)
        size *= norm
    return error * (1 + _SLACK)


def largest_error(ticket: Sequence[TicketLayer], seed: int = 0) -> float:
    """The largest error found on the unit sphere (both nets are positively homogeneous): a lower
    estimate of the sup.

    Seeded points, the worst of which climb along g = Jᵀe(x), J the derivative of the difference e
    at x: of x + t·g/‖g‖, normalised, the best t goes on, and a point from which none leads upwards
    stays.
    """

    def difference(x: Tensor) -> Tensor:
        y = x
        for at, layer in enumerate(ticket):
            y = (y.relu() if at else y) @ torch.from_numpy(layer.target).T
        return forward(ticket, x) - y

    x = torch.from_numpy(_sphere(seed, POINTS, ticket[0].target.shape[1]))
    x = x[difference(x).norm(dim=1).topk(CLIMBERS).indices]
    for _ in range(STEPS):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(difference(x).square().sum() / 2, x)
        x, slope = x.detach(), normalize(slope, dim=1)
        tries = torch.stack([x, *(normalize(x + t * slope, dim=1) for t in _PACES)])
        errors = difference(tries.flatten(0, 1)).norm(dim=1).reshape(tries.shape[:2])
        x = tries[errors.argmax(dim=0), torch.arange(len(x))]
    return float(difference(x).norm(dim=1).max())


def _norm_up(matrix: Matrix) -> float:
    return float(np.linalg.norm(matrix, 2)) * (1 + _SLACK) + 1e-15 * math.sqrt(matrix.size)


def _uniform(purpose: str, seed: int, n: int, first: int = 0) -> Matrix:
    """U[-1, 1), as multiples of 2^-52."""
    return (stream(purpose, seed, n, first) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def _sphere(seed: int, n: int, d: int) -> Matrix:
    """Seeded points of the unit sphere, [n, d]: normal numbers by Box and Muller, normalised."""
    radius = np.sqrt(-2 * np.log((_uniform("lottery radii", seed, n * d) + 1) / 2 + 2.0**-54))
    normals = radius * np.cos(np.pi * _uniform("lottery angles", seed, n * d))
    points: Matrix = normals.reshape(n, d)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points
