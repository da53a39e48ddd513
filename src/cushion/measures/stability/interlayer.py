"""Interlayer cushions (Arora 2018, Definitions 5 and 8) and the well-distributed Jacobian
(Definition 9), all pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cushion.data import Dataset
from cushion.measures.distribution import describe
from cushion.measures.probing import lengths
from cushion.measures.stability.jacobians import JacobianPlan, pair_squares
from cushion.measures.stability.places import sampled_spreads
from cushion.measures.stability.records import (
    InterlayerCushion,
    JacobianBeta,
    MinimalInterlayerCushion,
    PairCushion,
)
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node

_PAIR_BINS = 20  # there are many pairs


@dataclass
class Pairs:
    """One number per example for each pair (i, j) of node indices: the cushion ratio, its relative
    standard error, the bias gap, and β; `sampled` holds the β of pairs of which only some places
    were looked at.
    """

    net: Network
    rows: int
    cushions: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    errors: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    gaps: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    betas: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    sampled: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    places: int = 0

    def interlayer(self, node: Node) -> InterlayerCushion | None:
        """μ_{i,j} of all later layers; None if there is none, or nothing finite was seen."""
        found = []
        for (i, j), values in sorted(self.cushions.items()):
            spread = describe(values, "min", _PAIR_BINS) if i == node.index else None
            if spread is None:
                continue
            error = self.errors.get((i, j))
            gap = self.gaps[i, j]
            found.append(
                PairCushion(
                    to=self.net.nodes[j].name,
                    value=spread.value,
                    exact=error is None,
                    standard_error=None if error is None else float(np.nanmean(error)),
                    bias_gap=float(np.nanmax(gap)) if np.isfinite(gap).any() else math.nan,
                    spread=spread,
                )
            )
        return InterlayerCushion(min(pair.value for pair in found), tuple(found)) if found else None

    def unclipped(self, node: Node) -> NDArray[np.float64] | None:
        """The smallest μ_{i,j}(x) over j > i, by example; NaN where no pair says anything."""
        parts = [values for (i, _), values in self.cushions.items() if i == node.index]
        return np.fmin.reduce(parts) if parts else None

    def minimal(self, node: Node) -> MinimalInterlayerCushion:
        """μ_{i→}."""
        clip = 1 / math.sqrt(node.shape[0])
        values = self.unclipped(node)
        spread = None if values is None else describe(values, "min")
        after = self.net.descendants(node.index)
        later = [other for other in self.net.affine_layers if other.index in after]
        return MinimalInterlayerCushion(
            value=clip if spread is None else min(clip, spread.value),
            clip=clip,
            unclipped=spread,
            all_pairs=all((node.index, other.index) in self.cushions for other in later),
        )

    def worst_betas(self, node: Node) -> NDArray[np.float64] | None:
        """The largest β_{i,j}(x) over j > i; ones for the last layer, which sends nothing on."""
        if node is self.net.affine_layers[-1]:
            return np.ones(self.rows)
        parts = [
            values for (i, _), values in {**self.sampled, **self.betas}.items() if i == node.index
        ]
        return np.fmax.reduce(parts) if parts else None

    def beta(self, node: Node) -> JacobianBeta | None:
        """β of the layer, with the names of the pairs that entered."""
        values = self.worst_betas(node)
        spread = None if values is None else describe(values, "max")
        if spread is None:
            return None
        return JacobianBeta(
            value=spread.value,
            to=tuple(self.net.nodes[j].name for i, j in sorted(self.betas) if i == node.index),
            sampled_to=tuple(
                self.net.nodes[j].name for i, j in sorted(self.sampled) if i == node.index
            ),
            places=self.places,
            spread=spread,
        )


def measure_pairs(
    net: Network, data: Dataset, plan: JacobianPlan, *, places: int, seed: int, batch: int
) -> Pairs:
    """All pairs on all of `data`; a shard's probes depend on the seed and its first row alone."""

    def work(rows: slice) -> Accumulators[tuple[str, int, int]]:
        line = Linearisation(net, as_floats(data.x[rows]).to(net.dtype))
        shard_seed = seed * (1 << 32) + rows.start
        answers = pair_squares(line, plan, shard_seed)
        spreads = sampled_spreads(line, answers, places, seed) if places else {}
        found: dict[tuple[str, int, int], Samples] = {}
        size = {index: lengths(output).double() for index, output in line.outputs.items()}
        for (i, j), answer in answers.items():
            assert answer.image is not None
            area = math.prod(
                net.nodes[i].shape[1:]
            )  # Definition 8; 1 for a dense layer, where it is Definition 5
            image = answer.image.sqrt()
            parts = {
                "cushions": image * math.sqrt(area) / (answer.squared.sqrt() * size[i]),
                "gaps": (image - size[j]).abs() / size[j],
            }
            if answer.error is not None:
                parts["errors"] = answer.error / (2 * answer.squared)
            if answer.spread is not None:
                parts["betas"] = answer.spread.sqrt()
            if (i, j) in spreads:
                parts["sampled"] = spreads[i, j].sqrt()
            for name, values in parts.items():
                found[name, i, j] = Samples.of(rows.start, values.numpy())
        return found

    pairs = Pairs(net, len(data), places=places)
    merged = map_shards(len(data), batch, work, describe="all pairs of layers")
    for (name, i, j), samples in merged.items():
        getattr(pairs, name)[i, j] = samples.values()
    return pairs
