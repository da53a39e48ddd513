"""How far a net moves when its layers do (Arora 2018): Lemmas 1 and 9 by spectral norms, 2 and 13
under the Jacobians of later layers.

Lemma 9: if ‖Δ^i‖₂ ≤ ‖A^i‖₂/d for every layer, then ‖f̂(x) - f(x)‖ ≤
e·‖x‖·∏L_i‖A^i‖₂·Σ‖Δ^i‖₂/‖A^i‖₂, with L_i the Lipschitz constant of what follows layer i. A net with
biases is one without on (x, 1): each layer then is [[A, b], [0, 1]] (the last [A, b]), and Δ = [[Â
- A, b̂ - b], [0, 0]].

Lemmas 2 and 13: for layer i with Δ = Â - A, input v = φ(x^{i-1}) and U = J^{i,j} at x^i, j ≥ i
(J^{i,i} the identity), all of them independent of the helper string,

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
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, FlatMap, Operator
from cushion.theorems.facts import NetFacts, lifted_spectral

_VALUES = 1 << 22
_Number: TypeAlias = Tensor | float
_Ratio: TypeAlias = Callable[[Tensor, _Number, _Number], Tensor]


@dataclass(frozen=True)
class LayerShift:
    """One layer: ‖Â - A‖₂ from above, ‖A‖₂ from below, and both lifted to (x, 1) from above."""

    shift: float
    spectral: float
    lifted_shift: float
    lifted: float

    @property
    def relative(self) -> float:
        """‖Â - A‖₂/‖A‖₂, erring upwards."""
        if self.spectral == 0:
            return 0.0 if self.shift == 0 else math.inf
        return self.shift / self.spectral


def layer_shifts(net: Network, compressed: Network, facts: NetFacts) -> list[LayerShift]:
    """Every layer's shift, of the true maps."""
    found = []
    for at, (node, layer) in enumerate(zip(net.affine_layers, facts.layers, strict=True)):
        mine, other = node.affine, compressed.nodes[node.index].affine
        shift = _shift(mine, other)
        moved = math.hypot(shift, _bias_shift(mine, other, math.prod(node.shape[1:])))
        lifted = lifted_spectral(layer, facts.has_bias, last=at == len(facts.layers) - 1)
        found.append(LayerShift(shift, layer.spectral, moved, lifted))
    return found


def _shift(mine: Affine, other: Affine) -> float:
    """At least ‖Â - A‖₂."""
    if type(mine.operator) is type(other.operator):
        return other.operator.minus(mine.operator).spectral_upper()
    ours, theirs = (one.operator.to(torch.float64) for one in (mine, other))
    moved = FlatMap(theirs.dense() - ours.dense(), ours.input_shape, ours.output_shape)
    return moved.spectral_upper()


def _bias_shift(mine: Affine, other: Affine, places: int) -> float:
    """‖b̂ - b‖₂ over all units."""
    if mine.bias is None and other.bias is None:
        return 0.0
    zero = torch.zeros((), dtype=torch.float64)
    ours, theirs = (zero if one.bias is None else one.bias.double() for one in (mine, other))
    return float(torch.linalg.vector_norm(theirs - ours)) * math.sqrt(places) * (1 + 1e-12)


def lemma_9(
    shifts: list[LayerShift], facts: NetFacts, inputs: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The promised ‖f̂(x) - f(x)‖, [n]; None where a layer moved by more than ‖A‖₂/d."""
    if any(shift.lifted_shift > shift.lifted / facts.depth for shift in shifts):
        return None
    logs = [math.log(shift.lifted) if shift.lifted > 0 else -math.inf for shift in shifts]
    steps = [facts.log_step(layer) for layer in facts.layers]
    product = math.exp(math.fsum(logs) + math.fsum(steps))
    total = math.fsum(shift.lifted_shift / shift.lifted for shift in shifts if shift.lifted > 0)
    sizes = np.hypot(inputs, 1.0) if facts.has_bias else inputs
    return np.asarray(math.e * product * total * (1 + 1e-9) * sizes * first_step(facts))


def first_step(facts: NetFacts) -> float:
    """The Lipschitz constant of what stands before the first layer."""
    return max(1.0, facts.first_lipschitz) if facts.has_bias else facts.first_lipschitz


def accuracy_for(gamma: float, facts: NetFacts, longest: float) -> float:
    """δ = γ/(√2·e·max‖x‖·d·∏L‖A‖₂), at most 1/d, by which ‖f̂ - f‖₂ ≤ γ/√2 (Thm 2.2)."""
    biased, final = facts.has_bias, facts.layers[-1]
    norms = [lifted_spectral(one, biased, last=one is final) for one in facts.layers]
    size = (math.hypot(longest, 1.0) if facts.has_bias else longest) * first_step(facts)
    if not all(one > 0 for one in (*norms, size)):
        return 1.0 / facts.depth  # the scores are 0 whatever the other layers do
    total = math.fsum(map(math.log, norms)) + math.fsum(map(facts.log_step, facts.layers))
    log_delta = math.log(gamma) - total - math.log(math.sqrt(2.0) * math.e * size * facts.depth)
    return min(1.0 / facts.depth, math.exp(min(max(log_delta, -700.0), 0.0)))


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
