"""Noise attenuation: noise in one layer's input, the relative error of every later layer (the
note's Figure 3).

The squares' mean is the noise sensitivity ψ of Definition 3 of the sub-network from that input to
that layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.stability.noise import Noise, gaussian_like, lengths
from cushion.measures.stability.records import AttenuationCurve, AttenuationPoint
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.linearisation import Activations
from cushion.nets.network import Network, Node
from cushion.progress import progress


def measure_attenuation(
    net: Network, data: Dataset, level: float, *, draws: int, seed: int, batch: int
) -> dict[int, AttenuationCurve]:
    """For every layer, under its index, the curve of noise of this relative norm in its input."""
    means: dict[tuple[int, int], list[float]] = {}
    squares: dict[tuple[int, int], NDArray[np.float64]] = {}
    for draw in progress(range(draws), f"attenuation of {level:g}", "draw"):

        def work(rows: slice, draw: int = draw) -> Accumulators[tuple[int, int]]:
            clean = Activations(net, as_floats(data.x[rows]).to(net.dtype))
            found: dict[tuple[int, int], Samples] = {}
            for source in net.affine_layers:
                errors = injected_errors(clean, source, _sphere(level, seed, draw, rows.start))
                for j, values in errors.items():
                    found[source.index, j] = Samples.of(rows.start, values.numpy())
            return found

        for pair, samples in map_shards(
            len(data), batch, work, describe=f"noise {level:g}, draw {draw + 1}"
        ).items():
            values = samples.values()
            alive = values[np.isfinite(values)]  # an example with x^j = 0 has no relative error
            means.setdefault(pair, []).append(float(alive.mean()) if len(alive) else math.nan)
            squares[pair] = squares.get(pair, np.zeros(len(values))) + values**2
    curves = {}
    for source in net.affine_layers:
        points = tuple(
            AttenuationPoint(
                to=net.nodes[j].name,
                mean=float(np.mean(parts)),
                standard_error=float(np.std(parts, ddof=1) / math.sqrt(draws))
                if draws > 1
                else None,
                sensitivity=float(np.fmax.reduce(squares[i, j])) / draws,
            )
            for (i, j), parts in sorted(means.items())
            if i == source.index
        )
        curves[source.index] = AttenuationCurve(level, draws, points)
    return curves


def _sphere(level: float, seed: int, draw: int, start: int) -> Callable[[Tensor, Node], Tensor]:
    law = Noise("gaussian", level)

    def noise(signal: Tensor, node: Node) -> Tensor:
        return law.scale(
            gaussian_like(signal, seed, f"attenuation {level}", draw, start, node), signal
        )

    return noise


def injected_errors(
    clean: Activations, source: Node, noise: Callable[[Tensor, Node], Tensor]
) -> dict[int, Tensor]:
    """‖x̂^j - x^j‖ / ‖x^j‖ for each example, for the layer itself and every later one: [B] under
    the nodes' indices.

    `noise(input, node)` is added to the input of layer `source` alone, not to what else reads the
    same value.
    """
    found: dict[int, Tensor] = {}

    def visit(node: Node, t: Tensor) -> None:
        whole = clean.values[node.index]
        found[node.index] = lengths(t - whole) / lengths(whole)

    before = clean.values[source.inputs[0]]
    with torch.no_grad():
        noisy = source.affine(before + noise(before, source))
        visit(source, noisy)
        clean.rerun(source, noisy, visit)
    return found
