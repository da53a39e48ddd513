"""Condition C1 of Neyshabur 2017: how much of their norms successive layers keep if multiplied.

‖M_{a..b}‖_F for every 1 <= a <= b <= d and example: vectors pushed from layer a's input give every
b at once. All unit vectors give the norms exactly; P Gaussian probes g (random, shared by the
examples of a shard) estimate them, since E‖M g‖² = ‖M‖_F². Where D_a only selects units (ReLU,
max-pool), ‖D_a W_a‖_F has a closed form and is always exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.measures.conditions.family import Method
from cushion.measures.conditions.records import IndexSet, LayerInteraction, TripleCondition
from cushion.measures.distribution import describe
from cushion.measures.probing import chunks, probe_generator, squared_lengths, unit_vectors
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operators import Operator

_CHEAP = 1e8  # multiplications an example: what all unit vectors of one layer may always take


@dataclass(frozen=True)
class PushPlan:
    """Which layers' norms are exact, fixed before any data is seen; position a - 1 for layer a."""

    exact: tuple[bool, ...]
    probes: int
    multiplications: float  # for one example


def plan_pushes(net: Network, probes: int, method: Method) -> PushPlan:
    """Exact at a layer whose inputs are at most twice the probes or take ≤ 10^8 products each."""
    operators = [node.affine.operator for node in net.chain()]
    exact, vectors, onwards = [], [], []
    for at, operator in enumerate(operators):
        size, cost = operator.input_size, sum(one.multiplications for one in operators[at:])
        cheap = method == "auto" and (size <= 2 * probes or size * cost <= _CHEAP)
        exact.append(method == "exact" or cheap)
        vectors.append(size if exact[-1] else probes)
        onwards.append(cost)
    work = sum(count * cost for count, cost in zip(vectors, onwards, strict=True)) + onwards[0]
    return PushPlan(tuple(exact), probes, float(work))


def units(net: Network) -> tuple[int, ...]:
    """h_0..h_d: what layer 1 reads, what each layer hands on to the next, and the logits."""
    return (*(node.affine.operator.input_size for node in net.chain()), net.classes)


class ProductNorms:
    """‖M_{a..b}‖_F² of a batch: `squares[a, b]` [B], `samples[a, b]` [P, B] by probes; float64."""

    def __init__(self, line: Linearisation, first: Tensor, plan: PushPlan, seed: int) -> None:
        """`first`: layer 1's input, [B, *shape]. `seed` alone fixes the probes."""
        self.squares: dict[tuple[int, int], Tensor] = {
            (0, 0): squared_lengths(first[None])[0].cpu()
        }
        self.samples: dict[tuple[int, int], Tensor] = {}
        with torch.no_grad():
            for b, squared in _pushed(line, 1, first[None]):
                self.squares[0, b] = squared[0].expand(line.batch)
            for a, node in enumerate(line.net.affine_layers, 1):
                if plan.exact[a - 1]:
                    self._by_unit_vectors(line, a, node.affine.operator)
                else:
                    self._by_probes(line, a, node.affine.operator, plan.probes, seed)
                if selects(line.net, node):
                    rows = row_energies(node.affine.operator)[None, None]
                    energies = line.push_to_next(node, rows).flatten(2)
                    squared = energies.sum(2, dtype=torch.float64)[0].cpu()
                    self.squares[a, a] = squared.expand(line.batch)
                    self.samples.pop((a, a), None)

    def _by_unit_vectors(self, line: Linearisation, a: int, operator: Operator) -> None:
        size = operator.input_size
        for start, stop in chunks(size, _largest(line), line.batch):
            basis = unit_vectors(start, stop, size, operator.weight)
            for b, squared in _pushed(line, a, basis.reshape(-1, 1, *operator.input_shape)):
                sums = squared.sum(0).expand(line.batch)
                self.squares[a, b] = self.squares[a, b] + sums if (a, b) in self.squares else sums

    def _by_probes(
        self, line: Linearisation, a: int, operator: Operator, probes: int, seed: int
    ) -> None:
        size, generator = (probes, operator.input_size), probe_generator(seed, "interaction", a)
        g = torch.randn(size, generator=generator, dtype=torch.float64).to(operator.weight)
        parts: dict[int, list[Tensor]] = {}
        for start, stop in chunks(probes, _largest(line), line.batch):
            for b, squared in _pushed(line, a, g[start:stop].reshape(-1, 1, *operator.input_shape)):
                parts.setdefault(b, []).append(squared.expand(-1, line.batch))
        for b, found in parts.items():
            self.samples[a, b] = torch.cat(found)
            self.squares[a, b] = self.samples[a, b].mean(0)

    def inverse_mu(self, a: int, c: int, b: int, h_c: int) -> NDArray[np.float64]:
        """1/μ of one triple: [B]. ∞ where only the product vanishes, NaN where C1 reads 0 >= 0."""
        factors = self.squares[c + 1, b].sqrt() * self.squares[a, c].sqrt()
        return np.asarray(factors / (math.sqrt(h_c) * self.squares[a, b].sqrt()))

    def standard_error(self, a: int, c: int, b: int) -> NDArray[np.float64] | None:
        """Relative, of `inverse_mu`, to first order: [B]; None if no probe entered.

        ‖M_{a..c}‖ and ‖M_{a..b}‖ share their probes, so their errors partly cancel.
        """
        first, second = self._deviations(a, c), self._deviations(a, b)
        both = first is not None and second is not None
        shared = [first - second] if both else [first, second]  # type: ignore[operator]
        parts = [part for part in (*shared, self._deviations(c + 1, b)) if part is not None]
        if not parts:
            return None
        probes = len(parts[0])
        if probes == 1:
            return np.full(parts[0].shape[1], np.inf)
        variance = torch.stack([part.var(0) for part in parts]).sum(0) / probes
        return np.asarray(variance.sqrt() / 2)  # a norm has half its square's relative error

    def _deviations(self, a: int, b: int) -> Tensor | None:
        """Each probe's relative deviation from the mean square, [P, B]; None if exact."""
        samples = self.samples.get((a, b))
        if samples is None:
            return None
        return torch.nan_to_num(samples / self.squares[a, b] - 1, nan=0.0)


def triples(depth: int) -> list[tuple[int, int, int]]:
    """Figure 6's (a, c, b): 0 <= a <= c <= b - 1, b <= d."""
    return [(a, c, b) for b in range(1, depth + 1) for c in range(b) for a in range(c + 1)]


def describe_interaction(
    depth: int,
    inverse: NDArray[np.float64],
    errors: NDArray[np.float64] | None,
    gaps: NDArray[np.float64],
) -> LayerInteraction:
    """`inverse`, `errors`: [m, triples(depth)], an error NaN where exact; `gaps`: [m]."""
    chosen = triples(depth)
    records = []
    for at, (a, c, b) in enumerate(chosen):
        values = inverse[:, at]
        seen = ~np.isnan(values)
        worst = int(np.argmax(np.where(seen, values, -1.0)))
        error = None if errors is None or np.isnan(errors[worst, at]) else float(errors[worst, at])
        value = float(values[worst]) if seen.any() else None
        records.append(TripleCondition(a, c, b, value, int((~seen).sum()), error))
    known = None if errors is None else errors[np.isfinite(errors) & np.isfinite(inverse)]

    starts, cuts, ends = np.array(chosen).T

    def over(description: str, kept: NDArray[np.bool_]) -> IndexSet:
        return _over(description, depth, inverse[:, kept])

    return LayerInteraction(
        text=over("0 <= a < c < b <= d", starts < cuts),
        figure6=over("a <= c <= b - 1", cuts < ends),
        inner=over("a < c < b - 1", (starts < cuts) & (cuts < ends - 1)),
        outer=over("c = a or c = b - 1", (cuts == starts) | (cuts == ends - 1)),
        from_input=over("0 = a <= c <= b - 1", starts == 0),
        triples=tuple(records),
        exact=errors is None,
        standard_error=None if known is None else float(known.mean()) if len(known) else math.inf,
        bias_gap=float(np.nanmax(gaps)) if not np.isnan(gaps).all() else None,
    )


def _over(description: str, depth: int, inverse: NDArray[np.float64]) -> IndexSet:
    spread = describe(inverse.ravel(), "max")
    because = ""
    if inverse.shape[1] == 0:
        because = f"with {depth} affine layer{'s' * (depth > 1)} there are no {description}"
    elif spread is None:
        because = "every product vanishes together with one of its factors, so that every μ will do"
    mu = None if spread is None else 1 / spread.value if spread.value > 0 else math.inf
    return IndexSet(inverse.shape[1], mu, spread, because)


def row_energies(operator: Operator) -> Tensor:
    """‖W_{i,·}‖² of each unit, [*output_shape]: no output reads an input twice."""
    ones = operator.weight.new_ones((1, *operator.input_shape))
    return operator.with_weight(operator.weight.square()).apply(ones)[0]


def selects(net: Network, node: Node) -> bool:
    """Whether each unit after D_i is one unit of layer i or 0: no average pool before the next."""
    behind = takewhile(lambda later: not isinstance(later.op, Affine), net.nodes[node.index + 1 :])
    return all(later.op.selects for later in behind)


def _pushed(line: Linearisation, a: int, t: Tensor) -> Iterator[tuple[int, Tensor]]:
    """(b, ‖M_{a..b} t‖² [P, B or 1]) for b = a..d; t: [P, B or 1, *input_shape] at layer a."""
    for b, node in enumerate(line.net.affine_layers[a - 1 :], a):
        applied = node.affine.operator.apply(t.flatten(0, 1))
        t = line.push_to_next(node, applied.view(*t.shape[:2], *applied.shape[1:]))
        yield b, squared_lengths(t).cpu()


def _largest(line: Linearisation) -> int:
    """Numbers that one pushed vector becomes at most."""
    operators = [node.affine.operator for node in line.net.affine_layers]
    return max(max(one.input_size, one.output_size) for one in operators)
