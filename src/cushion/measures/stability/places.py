"""β by sampled places (Arora 2018, Figure A.5): the Jacobian's share at a few places of a map,
exact at each.

For pairs whose Jacobian is too large to have all its places computed: the columns of J^{i,j} at one
place are pushed forward, as many as x^i has channels, and reach every later layer at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cushion.measures.probing import probe_generator
from cushion.measures.stability.jacobians import PairSquares
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Node

_VECTORS = 32  # columns pushed at a time


def sampled_spreads(
    line: Linearisation, pairs: dict[tuple[int, int], PairSquares], places: int, seed: int
) -> dict[tuple[int, int], Tensor]:
    """(n₁n₂) max over `places` sampled places of ‖J at the place‖_F² / ‖J‖_F²: [B], for pairs whose
    spread is missing.

    At most Definition 9's β², because not all places were looked at; ‖J‖_F² is taken from `pairs`,
    where it may itself be an estimate.
    """
    found: dict[tuple[int, int], Tensor] = {}
    for source in line.net.affine_layers:
        wanted = [
            j for (i, j), answer in pairs.items() if i == source.index and answer.spread is None
        ]
        if not wanted or len(source.shape) != 3:
            continue
        _, height, width = source.shape
        generator = probe_generator(seed, "places", source.index)
        chosen = torch.randperm(height * width, generator=generator)[:places]
        best: dict[int, Tensor] = {}
        for place in chosen.tolist():
            for j, energy in _place_energy(line, source, place, max(wanted)).items():
                best[j] = torch.maximum(best[j], energy) if j in best else energy
        for j in wanted:
            found[source.index, j] = best[j] * (height * width) / pairs[source.index, j].squared
    return found


def _place_energy(line: Linearisation, source: Node, place: int, last: int) -> dict[int, Tensor]:
    """‖J^{i,j} restricted to the channels at one place‖_F² for every later j: [B] float64."""
    channels = source.shape[0]
    energy: dict[int, Tensor] = {}

    def visit(node: Node, t: Tensor) -> None:
        squares = torch.linalg.vector_norm(t, dim=tuple(range(2, t.ndim))).double().square().sum(0)
        energy[node.index] = energy.get(node.index, 0) + squares

    for start in range(0, channels, _VECTORS):
        some = torch.arange(start, min(start + _VECTORS, channels))
        columns = torch.zeros(
            (len(some), 1, *source.shape), dtype=line.net.dtype, device=line.net.device
        )
        columns.flatten(3)[torch.arange(len(some)), 0, some, place] = 1
        with torch.no_grad():
            line.push(source, columns, visit, last=last)
    return energy
