"""Lemmas 2 and 13 (Arora 2018) on a net: what a compressed layer's error becomes under the
Jacobians of later layers.

For layer i with Δ = Â - A, input v = φ(x^{i-1}) and U = J^{i,j} at x^i, j ≥ i (J^{i,i} the
identity), all of them independent of the helper string, the lemmas promise

    ‖U Δ v‖ ≤ ε·‖A‖_F·‖U‖_F·‖v‖                          (Lemma 2, a dense layer),
    ‖U Δ v‖ ≤ ε·⌈κ/s⌉·‖A‖_F·‖U‖_F·‖v‖      (one projected kernel used at every place),
    ‖U Δ v‖ ≤ ε·β·‖A‖_F·‖U‖_F·‖v‖ / √(places)            (Lemma 13, a filter at each place).

The second line is Lemma 2 for the matrix B = Σ_places u ⊗ patch in place of uvᵀ: its ‖B‖_F is at
most ‖u‖ times the length of all patches together, and every number of v is in at most ⌈κ/s⌉² of
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.probing import lengths, stream
from cushion.measures.stability.jacobians import pair_squares, plan_jacobians
from cushion.nets.linearisation import Activations, Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operators import Conv2d, Operator

_VALUES = 1 << 22
_Number: TypeAlias = Tensor | float
_Ratio: TypeAlias = Callable[[Tensor, _Number, _Number], Tensor]


@dataclass(frozen=True)
class Allowance:
    """What a lemma allows layer i: ε times its geometry; with `spread`, times β/√(places)."""

    epsilon: float
    frobenius: float  # ‖A‖_F of what was projected
    factor: float = 1.0
    spread: bool = False


@dataclass(frozen=True)
class PairRatios:
    """Observed over allowed, one number per example, under (i, j): places in `net.affine_layers`, j
    ≥ i. exact: the pairs whose ‖J‖_F is not an estimate from random probes.
    """

    ratios: dict[tuple[int, int], NDArray[np.float64]]
    exact: frozenset[tuple[int, int]]

    def worst(self, i: int) -> float:
        """Over all examples and j, of layer i."""
        own = [values for (at, _), values in self.ratios.items() if at == i]
        return max((float(np.fmax.reduce(values)) for values in own), default=0.0)


def overlap(operator: Operator) -> int:
    """⌈κ/s⌉², in how many patches a number of the input can be; 1 for a dense layer.

    With dilation t a number that tap a of one patch reads is read by tap a + s/gcd(s, t) of
    another: ⌈κ·gcd(s, t)/s⌉.
    """
    if not isinstance(operator, Conv2d):
        return 1
    sides = zip(operator.weight.shape[2:], operator.stride, operator.dilation, strict=True)
    return math.prod(-(-taps * math.gcd(step, gap) // step) for taps, step, gap in sides)


def check_pairs(
    net: Network,
    compressed: Network,
    data: Dataset,
    allowances: Sequence[Allowance | None],
    *,
    probes: int = 16,
    seed: int = 0,
) -> PairRatios:
    """Every example of `data`, every layer with an allowance, every later layer."""
    plan = plan_jacobians(net, probes, "auto")
    layers = net.affine_layers
    position = {node.index: at for at, node in enumerate(layers)}
    batch = max(4, min(128, _VALUES // max(node.affine.operator.output_size for node in layers)))
    exact: set[tuple[int, int]] = set()

    @torch.no_grad()
    def work(x: Tensor, rows: slice) -> dict[tuple[int, int], Tensor]:
        line, clean = Linearisation(net, x), Activations(net, x).values
        jacobians = pair_squares(line, plan, seed * (1 << 32) + rows.start)
        found: dict[tuple[int, int], Tensor] = {}
        for i, (node, allowance) in enumerate(zip(layers, allowances, strict=True)):
            if allowance is None:
                continue
            v, operator = clean[node.inputs[0]], node.affine.operator
            noise = compressed.nodes[node.index].affine.operator.apply(v) - operator.apply(v)
            ratio = partial(_ratio, allowance, lengths(v), math.prod(node.shape[1:]))
            found[i, i] = ratio(noise, math.sqrt(operator.output_size), 1.0)
            exact.add((i, i))

            def visit(later: Node, t: Tensor, i: int = i, ratio: _Ratio = ratio) -> None:
                one, j = allowances[i], position[later.index]
                pair = jacobians.get((layers[i].index, later.index))
                if one is None or pair is None or (one.spread and pair.spread is None):
                    return
                beta = 1.0 if pair.spread is None else pair.spread.sqrt()
                found[i, j] = ratio(t[0], pair.squared.sqrt(), beta)
                if pair.error is None:
                    exact.add((i, j))

            line.push(node, noise[None].clone(), visit)
        return found

    return PairRatios(stream(net, data, batch, work, "pairs of layers"), frozenset(exact))


def _ratio(
    one: Allowance, size: Tensor, places: int, image: Tensor, jacobian: _Number, beta: _Number
) -> Tensor:
    allowed = one.epsilon * one.factor * one.frobenius * jacobian * size
    if one.spread:
        allowed = allowed * beta / math.sqrt(places)
    observed = lengths(image)
    return torch.where(observed == 0, 0.0, observed / allowed)
