"""Interlayer cushions (Arora 2018, Definitions 5 and 8) and the well-distributed Jacobian
(Definition 9), all pairs; β by sampled places (Figure A.5) where the Jacobian has too many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.distribution import describe
from cushion.measures.probing import lengths, probe_generator, squared_lengths, stream
from cushion.measures.stability import records
from cushion.measures.stability.jacobians import JacobianPlan, Pair, PairSquares, pair_squares
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node

ByPair: TypeAlias = dict[Pair, NDArray[np.float64]]  # one number per example

_PAIR_BINS = 20  # there are many pairs
_VECTORS = 32  # columns of a Jacobian pushed at a time


@dataclass
class Pairs:
    """By pair: cushion ratio, its relative error, bias gap, β; `sampled`: β of some places only."""

    net: Network
    rows: int
    cushions: ByPair = field(default_factory=dict)
    errors: ByPair = field(default_factory=dict)
    gaps: ByPair = field(default_factory=dict)
    betas: ByPair = field(default_factory=dict)
    sampled: ByPair = field(default_factory=dict)
    places: int = 0

    def interlayer(self, node: Node) -> records.InterlayerCushion | None:
        """μ_{i,j} of all later layers; None if there is none, or nothing finite was seen."""
        found = []
        for (i, j), values in sorted(self.cushions.items()):
            spread = describe(values, "min", _PAIR_BINS) if i == node.index else None
            if spread is None:
                continue
            errors, gaps, name = self.errors.get((i, j)), self.gaps[i, j], self.net.nodes[j].name
            error = None if errors is None else float(np.nanmean(errors))
            gap = float(np.nanmax(gaps)) if np.isfinite(gaps).any() else math.nan
            found.append(
                records.PairCushion(name, spread.value, errors is None, error, gap, spread)
            )
        smallest = min((pair.value for pair in found), default=math.inf)
        return records.InterlayerCushion(smallest, tuple(found)) if found else None

    def unclipped(self, node: Node) -> NDArray[np.float64] | None:
        """The smallest μ_{i,j}(x) over j > i, by example; NaN where no pair says anything."""
        parts = [values for (i, _), values in self.cushions.items() if i == node.index]
        return np.fmin.reduce(parts) if parts else None

    def minimal(self, node: Node) -> records.MinimalInterlayerCushion:
        """μ_{i→}."""
        clip, values = 1 / math.sqrt(node.shape[0]), self.unclipped(node)
        spread = None if values is None else describe(values, "min")
        after = self.net.descendants(node.index)
        later = [other.index for other in self.net.affine_layers if other.index in after]
        value, every = clip, all((node.index, j) in self.cushions for j in later)
        if spread is not None:
            value = min(clip, spread.value)
        return records.MinimalInterlayerCushion(value, clip, spread, every)

    def worst_betas(self, node: Node) -> NDArray[np.float64] | None:
        """The largest β_{i,j}(x) over j > i; ones for the last layer, which sends nothing on."""
        if node is self.net.affine_layers[-1]:
            return np.ones(self.rows)
        both = {**self.sampled, **self.betas}
        parts = [values for (i, _), values in both.items() if i == node.index]
        return np.fmax.reduce(parts) if parts else None

    def beta(self, node: Node) -> records.JacobianBeta | None:
        """β of the layer, with the names of the pairs that entered."""
        values = self.worst_betas(node)
        spread = None if values is None else describe(values, "max")
        if spread is None:
            return None
        whole, some = (
            tuple(self.net.nodes[j].name for i, j in sorted(pairs) if i == node.index)
            for pairs in (self.betas, self.sampled)
        )
        return records.JacobianBeta(spread.value, whole, some, self.places, spread)


def measure_pairs(
    net: Network, data: Dataset, plan: JacobianPlan, *, places: int, seed: int, batch: int
) -> Pairs:
    """All pairs on all of `data`; a shard's probes depend on the seed and its first row alone."""

    def work(x: Tensor, rows: slice) -> dict[tuple[str, Pair], Tensor]:
        line = Linearisation(net, x)
        answers = pair_squares(line, plan, seed * (1 << 32) + rows.start)
        spreads = sampled_spreads(line, answers, places, seed) if places else {}
        found: dict[tuple[str, Pair], Tensor] = {}
        size = {index: lengths(output).double() for index, output in line.outputs.items()}
        for pair, answer in answers.items():
            i, j = pair
            assert answer.image is not None
            # Definition 8; 1 for a dense layer, where it is Definition 5
            area = math.prod(net.nodes[i].shape[1:])
            image = answer.image.sqrt()
            found["cushions", pair] = image * math.sqrt(area) / (answer.squared.sqrt() * size[i])
            found["gaps", pair] = (image - size[j]).abs() / size[j]
            if answer.error is not None:
                found["errors", pair] = answer.error / (2 * answer.squared)
            if answer.spread is not None:
                found["betas", pair] = answer.spread.sqrt()
            if pair in spreads:
                found["sampled", pair] = spreads[pair].sqrt()
        return found

    pairs = Pairs(net, len(data), places=places)
    for (name, pair), values in stream(net, data, batch, work, "all pairs of layers").items():
        getattr(pairs, name)[pair] = values
    return pairs


def sampled_spreads(
    line: Linearisation, pairs: dict[Pair, PairSquares], places: int, seed: int
) -> dict[Pair, Tensor]:
    """(n₁n₂) max over `places` sampled places of ‖J at the place‖_F² / ‖J‖_F²: [B], for pairs whose
    spread is missing.

    At most Definition 9's β², because not all places were looked at; ‖J‖_F² is taken from `pairs`,
    where it may itself be an estimate. The columns of J^{i,j} at one place are pushed forward, as
    many as x^i has channels, and reach every later layer at once: exact there.
    """
    found: dict[Pair, Tensor] = {}
    for source in line.net.affine_layers:
        wanted = [j for (i, j), one in pairs.items() if i == source.index and one.spread is None]
        if not wanted or len(source.shape) != 3:
            continue
        count = source.shape[1] * source.shape[2]
        generator = probe_generator(seed, "places", source.index)
        best: dict[int, Tensor] = {}
        for place in torch.randperm(count, generator=generator)[:places].tolist():
            for j, energy in _place_energy(line, source, place, max(wanted)).items():
                best[j] = torch.maximum(best[j], energy) if j in best else energy
        for j in wanted:
            found[source.index, j] = best[j] * count / pairs[source.index, j].squared
    return found


def _place_energy(line: Linearisation, source: Node, place: int, last: int) -> dict[int, Tensor]:
    """‖J^{i,j} restricted to the channels at one place‖_F² for every later j: [B] float64."""
    energy: dict[int, Tensor] = {}

    def visit(node: Node, t: Tensor) -> None:
        energy[node.index] = energy.get(node.index, 0) + squared_lengths(t).sum(0)

    for some in torch.split(torch.arange(source.shape[0]), _VECTORS):
        columns = torch.zeros((len(some), 1, *source.shape), dtype=line.net.dtype)
        columns.flatten(3)[torch.arange(len(some)), 0, some, place] = 1
        with torch.no_grad():
            line.push(source, columns.to(line.net.device), visit, last=last)
    return energy
