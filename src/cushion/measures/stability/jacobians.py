"""Frobenius norms of the Jacobians J^{i,j} between all pairs of layers, exact where it is cheap.

Adjacent layers: closed form from the masked columns of A^{j}. Small outputs, the logits first of
all: one pulled-back row an output, exact. Dense chains: Gram matrices of the active units, exact
(`GramChain`). Everything else: Gaussian probes u pulled back from layer j, E‖(J^{i,j})ᵀ u‖² =
‖J^{i,j}‖_F², with the standard error of their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np
import torch
from scipy.linalg.blas import get_blas_funcs
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from cushion.errors import BadInput
from cushion.measures.probing import chunks, probe_generator, squared_lengths, unit_vectors
from cushion.measures.stability.family import Method
from cushion.nets.linearisation import Linearisation, feeding_layer
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine, Flatten, ReLU, Unflatten
from cushion.nets.operators import Linear

Pair: TypeAlias = tuple[int, int]  # node indices of affine layers i < j

_ROWS = 100  # logits up to so many are pulled back one by one even where probes would cost less


@dataclass(frozen=True, eq=False)
class GramChain:
    """Dense layers in a chain with ReLUs alone between them; covers hidden pairs i < j - 1, example
    by example, on the active units a_l of each layer l only.

    The columns of J^{i,j} that are not zero are A^j[:, a_{j-1}] T, where T = A^{j-1}[a_{j-1},
    a_{j-2}] ... A^{i+1}[a_{i+1}, a_i]. Hence ‖J^{i,j}‖_F² = ⟨G_j[a_{j-1}, a_{j-1}], T Tᵀ⟩ with the
    Gram matrix G_j = (A^j)ᵀ A^j, made once: about half the units are active, so the products shrink
    eightfold, and T Tᵀ is symmetric, so half of it suffices.
    """

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
    left = t.cpu().numpy()
    (syrk,) = get_blas_funcs(("syrk",), (left,))
    outer = syrk(1.0, left.T, trans=1)  # the upper triangle, zeros below it
    square = gram.cpu().numpy()
    triangle = float(np.vdot(square, outer.T))
    return 2 * triangle - float(np.vdot(np.diagonal(square), np.diagonal(outer)))


@dataclass
class PairSquares:
    """One pair on a batch, [B] float64: ‖J‖_F², its standard error (None: exact), ‖J x^i‖² and β².

    β² is (n₁n₂) max over places (a, b) of ‖J restricted to x^i's channels at (a, b)‖_F² / ‖J‖_F²
    (Definition 9 of Arora 2018): None where only probes were used, since the maximum of noisy
    places overstates it. It is 1 for vectors, which have one place.
    """

    squared: Tensor
    error: Tensor | None = None
    image: Tensor | None = None
    spread: Tensor | None = None


@dataclass(frozen=True)
class JacobianPlan:
    """How each pair is computed, fixed before any data is seen; built by `plan_jacobians`."""

    rows: frozenset[int]  # targets whose outputs are pulled back one by one
    probed: frozenset[int]  # targets pulled back by probes
    probes: int
    grams: GramChain | None
    multiplications: float  # an estimate for one example


def plan_jacobians(net: Network, probes: int, method: Method = "auto") -> JacobianPlan:
    """Choose for every target layer: all rows where that takes at most twice the probes' products,
    else probes. With `probes` = 0 only adjacent layers and a last layer of up to 100 outputs.
    """
    if probes < 0:
        raise BadInput(f"`probes` must be at least 0, not {probes}")
    layers = net.affine_layers
    # the products that pulling one vector back from each layer takes
    costs = accumulate([0, *(node.affine.operator.multiplications for node in layers[1:-1])])
    cost = dict(zip((node.index for node in layers), [0, *costs], strict=False))
    rows, probed = set(), set()
    for at, node in enumerate(layers[1:], 1):
        if at == 1 and feeding_layer(net, node) is layers[0]:
            continue  # its one pair has a closed form
        size, few = node.affine.operator.output_size, _ROWS if node is layers[-1] else 0
        if method == "exact" or size <= max(2 * probes, few):
            rows.add(node.index)
        elif probes > 0:
            probed.add(node.index)
    grams = None
    if method != "probes" and (chain := GramChain.of(net)) is not None:
        wanted = [index for index in (*rows, *probed) if index != layers[-1].index]
        vectors = sum(cost[i] * (net.nodes[i].shape[0] if i in rows else probes) for i in wanted)
        if wanted and chain.multiplications <= (vectors if method == "exact" else 2 * vectors):
            grams, rows, probed = chain, rows - set(wanted), set()
    work: float = sum(cost[i] * net.nodes[i].affine.operator.output_size for i in rows)
    work += sum(cost[i] * probes for i in probed) + (grams.multiplications if grams else 0)
    return JacobianPlan(frozenset(rows), frozenset(probed), probes, grams, work)


def pair_squares(line: Linearisation, plan: JacobianPlan, seed: int) -> dict[Pair, PairSquares]:
    """All pairs of one batch. `seed` alone fixes the probes; the batch's examples share them."""
    found: dict[Pair, PairSquares] = {}
    with torch.no_grad():
        for target in line.net.affine_layers[1:]:
            if target.index in plan.rows:
                _by_rows(line, target, found)
            elif target.index in plan.probed:
                _by_probes(line, target, plan.probes, seed, found)
            _adjacent(line, target, found)
        if plan.grams is not None:
            for pair, squared in plan.grams.squares(line).items():
                found[pair] = PairSquares(squared, spread=torch.ones_like(squared))
        _images(line, found)
    return found


def _adjacent(line: Linearisation, target: Node, found: dict[Pair, PairSquares]) -> None:
    if (answer := line.pull_energy(target)) is None:
        return
    source, energy = answer
    squared = energy.flatten(1).sum(1, dtype=torch.float64)
    # Through one ReLU and its pooling J x^i is the layer's own output without bias.
    bias, output = target.affine.bias, line.outputs[target.index]
    linear = output if bias is None else output - target.affine.operator.per_channel(bias)
    image, places = squared_lengths(linear[None])[0], energy.sum(1, dtype=torch.float64)
    spread = _spread(places, squared)
    found[source.index, target.index] = PairSquares(squared, image=image, spread=spread)


def _by_rows(line: Linearisation, target: Node, found: dict[Pair, PairSquares]) -> None:
    """Every output's row of J^{i,j}, for all i at once: exact."""
    operator = target.affine.operator
    places: dict[int, Tensor] = {}
    images: dict[int, Tensor] = {}

    def visit(node: Node, t: Tensor) -> None:
        energy = torch.linalg.vector_norm(t, dim=2).square_().double()
        along = _dots(t, line.outputs[node.index]).double().square_().sum(0)
        places[node.index] = places.get(node.index, 0) + energy.sum(0)
        images[node.index] = images.get(node.index, 0) + along

    for start, stop in chunks(operator.output_size, _largest(line), line.batch):
        basis = unit_vectors(start, stop, operator.output_size, operator.weight)
        line.pull(target, basis.reshape(-1, 1, *operator.output_shape), visit)
    for index, energy in places.items():
        squared = energy.reshape(line.batch, -1).sum(1)
        spread = _spread(energy, squared)
        found[index, target.index] = PairSquares(squared, image=images[index], spread=spread)


def _by_probes(
    line: Linearisation, target: Node, probes: int, seed: int, found: dict[Pair, PairSquares]
) -> None:
    shape = target.affine.operator.output_shape
    energies: dict[int, list[Tensor]] = {}

    def visit(node: Node, t: Tensor) -> None:
        energies.setdefault(node.index, []).append(squared_lengths(t))

    generator = probe_generator(seed, "jacobian", target.index)
    vectors = torch.randn((probes, 1, *shape), generator=generator, dtype=line.net.dtype)
    for start, stop in chunks(probes, _largest(line), line.batch):
        line.pull(target, vectors[start:stop].to(line.net.device), visit)
    for index, parts in energies.items():
        each = torch.cat(parts)  # [P, B]
        error = each.std(0) / probes**0.5 if probes > 1 else torch.full_like(each[0], torch.inf)
        found[index, target.index] = PairSquares(each.mean(0), error=error)


def _images(line: Linearisation, found: dict[Pair, PairSquares]) -> None:
    """‖J^{i,j} x^i‖² where it is still missing: one push of x^i reaches every j."""
    layers = line.net.affine_layers
    biases = [node.affine.bias for node in layers[1:]]
    has_bias = any(bias is not None and bool(bias.any()) for bias in biases)
    for source in layers:
        missing = [j for (i, j), one in found.items() if i == source.index and one.image is None]
        if not missing:
            continue
        if line.net.is_chain and not has_bias:  # x^j itself is J^{i,j} x^i
            for j in missing:
                found[source.index, j].image = squared_lengths(line.outputs[j][None])[0]
            continue
        images: dict[int, Tensor] = {}
        keep = partial(_keep_squares, images)
        line.push(source, line.outputs[source.index][None], keep, last=max(missing))
        for j in missing:
            found[source.index, j].image = images[j]


def _keep_squares(found: dict[int, Tensor], node: Node, t: Tensor) -> None:
    found[node.index] = squared_lengths(t)[0]


def _dots(t: Tensor, x: Tensor) -> Tensor:
    """⟨t[p, b], x[b]⟩ for [P, B, *shape] and [B, *shape]: [P, B]."""
    if t.ndim == 5:  # channels last, as they lie in memory: no copy
        t, x = t.movedim(2, 4), x.movedim(1, 3)
    return torch.einsum("pbn,bn->pb", t.flatten(2), x.flatten(1))


def _spread(places: Tensor, squared: Tensor) -> Tensor:
    """β² from the energies of the places, [B, H, W]; [B] is one place."""
    if places.ndim == 1:
        return torch.ones_like(squared)
    return places.flatten(1).amax(1) * places[0].numel() / squared


def _largest(line: Linearisation) -> int:
    """Numbers that one pulled-back vector becomes at most."""
    return max(node.affine.operator.output_size for node in line.net.affine_layers)
