"""Theorem 6.1 of Guha 2023 tried: a small target net found inside a large random one by pruning
alone.

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
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.records import Record

Matrix: TypeAlias = NDArray[np.float64]
POINTS, CLIMBERS, STEPS = 4096, 64, 60  # of the search for the largest error
PACES = (
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
    10.0,
)  # how far a step of it may go; the last is almost g itself
_SLACK = 1e-9  # relative, far above the rounding of a singular value


@dataclass(frozen=True)
class TicketError(Record):
    """One ticket beside its target on the unit ball; errors are ‖G̃(x) - M(x)‖₂.

    found: the largest error that a search found, so at least; at_most: no input has a larger one,
    from the spectral norms of what the layers are off by. worst_weight: the largest |u·v - w|.
    active: weights that stay; target_weights: weights of M; all_weights: weights of G; printed: d₀D
    + D²L, what Theorem 6.1 prints for the active ones.
    """

    dims: tuple[int, ...]
    width: int
    seed: int
    found: float
    at_most: float
    worst_weight: float
    active: int
    target_weights: int
    all_weights: int
    printed: int


@dataclass(frozen=True, eq=False)
class TicketLayer:
    """Two layers of G that stand for one of M, [out, in].

    chosen: [out, in] the neuron for the positive part of each input, and one for the negative part
    of a first layer. realised: [out, in] its u·v, likewise.
    """

    target: Matrix
    block: int
    chosen: tuple[NDArray[np.int64], ...]
    realised: tuple[Matrix, ...]

    @property
    def off(self) -> Matrix:
        """What the layer does wrong, as a matrix on (relu(x), -relu(-x)), which is as long as x, or
        on x ≥ 0.
        """
        return np.concatenate([one - self.target for one in self.realised], axis=1)

    @property
    def active(self) -> int:
        """One weight into every neuron in use, one from it for each output that uses it."""
        neurons = np.unique(np.concatenate([one.ravel() for one in self.chosen]))
        return len(neurons) + sum(one.size for one in self.chosen)


@dataclass(frozen=True, eq=False)
class Ticket:
    """A pruned net inside the random net of this width and seed."""

    layers: tuple[TicketLayer, ...]
    width: int
    seed: int

    def masks(self) -> list[NDArray[np.bool_]]:
        """One for each of the 2L layers of `random_net`, True where a weight stays."""
        found = []
        for at, shape in enumerate(
            net_shapes([layer.target.shape for layer in self.layers], self.width)
        ):
            mask, layer = np.zeros(shape, dtype=np.bool_), self.layers[at // 2]
            for one in layer.chosen:
                output, _ = np.indices(one.shape)
                if at % 2:
                    mask[output, one] = True
                else:
                    mask[one, one // layer.block] = True
            found.append(mask)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """[B, d₀] -> [B, out] in float64: what the pruned net computes, by what it realises."""
        for at, layer in enumerate(self.layers):
            y = x.relu() @ torch.from_numpy(layer.realised[0]).T
            if len(layer.realised) > 1:
                y = y - (-x).relu() @ torch.from_numpy(layer.realised[1]).T
            x = y.relu() if at + 1 < len(self.layers) else y
        return x


def target_net(dims: Sequence[int], seed: int = 0) -> tuple[Matrix, ...]:
    """A seeded target: layers [out, in], entries U[-1, 1]/√inputs, each scaled to norm ≤ 1."""
    _check_dims(dims)
    layers = []
    for at, (inputs, outputs) in enumerate(pairwise(dims)):
        weight = _uniform(f"lottery target {at}", seed, inputs * outputs).reshape(
            outputs, inputs
        ) / math.sqrt(inputs)
        layers.append(weight / max(1.0, _norm_up(weight)))
    return tuple(layers)


def net_shapes(shapes: Sequence[tuple[int, ...]], width: int) -> list[tuple[int, int]]:
    """The 2L shapes [out, in] of G for a target of these shapes, all hidden layers of `width`."""
    inside = [width] * (2 * len(shapes) - 1)
    return list(zip([*inside, shapes[-1][0]], [shapes[0][1], *inside], strict=True))


def random_net(shapes: Sequence[tuple[int, ...]], width: int, seed: int) -> list[Matrix]:
    """All weights of G, for small widths: a ticket itself reads only those that it may keep.

    Entry (r, c) of layers 0, 2, ... is number c·rows + r of the layer's stream, of layers 1, 3, ...
    number r·columns + c, so that what a ticket reads lies together.
    """
    layers = []
    for at, (rows, columns) in enumerate(net_shapes(shapes, width)):
        numbers = _uniform(f"lottery layer {at}", seed, rows * columns)
        layers.append(
            numbers.reshape(rows, columns) if at % 2 else numbers.reshape(columns, rows).T
        )
    return layers


def find_ticket(target: Sequence[Matrix], width: int, seed: int = 0) -> Ticket:
    """The ticket of the construction above; BadInput for a bad target or too narrow a G."""
    _check_target(target)
    layers = []
    for at, weight in enumerate(target):
        outputs, inputs = weight.shape
        block = width // inputs
        if block < 1 or (at + 1 < len(target) and width < outputs):
            raise BadInput(
                f"a net of width {width} is narrower than a layer of {inputs} inputs and {outputs} "
                "outputs"
            )
        first = [
            _uniform(f"lottery layer {2 * at}", seed, block, i * width + i * block)
            for i in range(inputs)
        ]
        u = np.stack(first)  # [in, block]
        signs = (u > 0, u < 0) if at == 0 else (u > 0,)
        for usable in signs:
            if not usable.any(axis=1).all():
                raise BadInput(
                    f"a net of width {width} has no neuron of the right sign for some input; widen "
                    "it"
                )
        chosen = [np.empty((outputs, inputs), dtype=np.int64) for _ in signs]
        realised = [np.empty((outputs, inputs)) for _ in signs]
        for k in range(outputs):
            v = _uniform(f"lottery layer {2 * at + 1}", seed, inputs * block, k * width).reshape(
                inputs, block
            )
            product = u * v
            off = np.abs(product - weight[k][:, None])
            for usable, best, value in zip(signs, chosen, realised, strict=True):
                nearest = np.where(usable, off, np.inf).argmin(axis=1)
                best[k] = np.arange(inputs) * block + nearest
                value[k] = product[np.arange(inputs), nearest]
        layers.append(TicketLayer(weight, block, tuple(chosen), tuple(realised)))
    return Ticket(tuple(layers), width, seed)


def ticket_error(
    target: Sequence[Matrix] | Sequence[int], width: int, seed: int = 0
) -> TicketError:
    """How far the ticket in a random net of this width is from its target (or `target_net`)."""
    layers = _target(target)
    ticket = find_ticket(layers, width, seed)
    shapes = [layer.shape for layer in layers]
    d0, depth = shapes[0][1], len(shapes)
    return TicketError(
        dims=(d0, *(rows for rows, _ in shapes)),
        width=width,
        seed=seed,
        found=largest_error(ticket, seed),
        at_most=error_at_most(ticket),
        worst_weight=max(float(np.abs(layer.off).max()) for layer in ticket.layers),
        active=sum(layer.active for layer in ticket.layers),
        target_weights=sum(layer.size for layer in layers),
        all_weights=sum(rows * columns for rows, columns in net_shapes(shapes, width)),
        printed=d0 * width + width * width * depth,
    )


def error_at_most(ticket: Ticket) -> float:
    """At least sup ‖G̃(x) - M(x)‖₂ over ‖x‖ ≤ 1.

    With y the target's and ŷ the ticket's values before a layer, ‖Ŵŷ - Wy‖ ≤ ‖W‖·‖ŷ - y‖ + ‖Ŵ -
    W‖·‖ŷ‖, where Ŵ - W is the layer's `off`, and a ReLU makes no difference larger.
    """
    size, error = 1.0, 0.0
    for layer in ticket.layers:
        norm = _norm_up(layer.target)
        error = norm * error + _norm_up(layer.off) * (size + error)
        size *= norm
    return error * (1 + _SLACK)


def largest_error(ticket: Ticket, seed: int = 0) -> float:
    """The largest error found on the unit sphere (both nets are positively homogeneous): a lower
    estimate of the sup.

    Seeded points, the worst of which climb along g = Jᵀe(x), J the derivative of the difference e
    at x: of x + t·g/‖g‖, normalised, the best t goes on, and a point from which none leads upwards
    stays.
    """
    target = [torch.from_numpy(layer.target) for layer in ticket.layers]

    def difference(x: Tensor) -> Tensor:
        y = x
        for at, weight in enumerate(target):
            y = y @ weight.T
            y = y.relu() if at + 1 < len(target) else y
        return ticket.forward(x) - y

    x = torch.from_numpy(_sphere(seed, POINTS, target[0].shape[1]))
    errors = difference(x).norm(dim=1)
    x = x[errors.topk(min(CLIMBERS, POINTS)).indices]
    for _ in range(STEPS):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(difference(x).square().sum() / 2, x)
        x, slope = x.detach(), torch.nn.functional.normalize(slope, dim=1)
        tries = torch.stack(
            [x, *(torch.nn.functional.normalize(x + t * slope, dim=1) for t in PACES)]
        )
        errors = difference(tries.flatten(0, 1)).norm(dim=1).reshape(tries.shape[:2])
        x = tries[errors.argmax(dim=0), torch.arange(len(x))]
    return float(difference(x).norm(dim=1).max())


def _target(target: Sequence[Matrix] | Sequence[int]) -> tuple[Matrix, ...]:
    if all(isinstance(one, int) for one in target):
        return target_net([int(one) for one in target])
    return tuple(np.asarray(one, dtype=np.float64) for one in target)


def _check_dims(dims: Sequence[int]) -> None:
    if len(dims) < 2 or min(dims) < 1:
        raise BadInput(
            "a target needs its number of inputs and the widths of its layers, each at least 1, "
            f"not {list(dims)}"
        )


def _check_target(target: Sequence[Matrix]) -> None:
    """Theorem 6.1's conditions."""
    for at, weight in enumerate(target):
        if weight.ndim != 2 or (at and weight.shape[1] != target[at - 1].shape[0]):
            raise BadInput(
                f"layer {at} of the target has shape {list(weight.shape)}, which does not follow "
                "the one before"
            )
        limit = 1 / math.sqrt(weight.shape[1])
        if (
            not float(np.abs(weight).max()) <= limit * (1 + _SLACK)
            or _norm_up(weight) > 1 + 4 * _SLACK
        ):
            raise BadInput(
                f"layer {at} of the target needs a spectral norm up to 1 and entries up to "
                f"{limit:.4g}; scale it down"
            )


def _norm_up(matrix: Matrix) -> float:
    return float(np.linalg.norm(matrix, 2)) * (1 + _SLACK) + 1e-15 * math.sqrt(matrix.size)


def _uniform(purpose: str, seed: int, n: int, first: int = 0) -> Matrix:
    """U[-1, 1), as multiples of 2^-52."""
    return (stream(purpose, seed, n, first) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def _sphere(seed: int, n: int, d: int) -> Matrix:
    """Seeded points of the unit sphere, [n, d]: normal numbers by Box and Muller, normalised."""
    radius = np.sqrt(-2 * np.log((_uniform("lottery radii", seed, n * d) + 1) / 2 + 2.0**-54))
    points: Matrix = (radius * np.cos(np.pi * _uniform("lottery angles", seed, n * d))).reshape(
        n, d
    )
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points
