"""Interlayer smoothness ρ_δ (Arora 2018, Definition 7): how far noise leaves the linearisation.

The definition's J(x^i + η) is x^j + Jη without biases; with them the latter is meant here (a bias
is an input that is always 1 and that no noise touches), because the deviation must vanish with the
noise. ρ_δ is the largest number that satisfies the inequality: the paper's "smallest" is a slip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.distribution import describe
from cushion.measures.probing import lengths
from cushion.measures.stability.noise import Noise, gaussian_like, project_net
from cushion.measures.stability.records import PairSmoothness, Smoothness
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, Smallest, map_shards
from cushion.nets.hooked.chain import Block
from cushion.nets.linearisation import Activations, Linearisation
from cushion.nets.network import Network, Node
from cushion.progress import progress

Law: TypeAlias = tuple[str, int | None]  # a kind of noise and its k


class SmoothnessDraws:
    """ρ of every draw of one noise: an example's smallest over j, a pair's over the examples."""

    def __init__(self, nodes: Sequence[Node | Block]) -> None:
        self.nodes = nodes
        self.examples: dict[int, list[NDArray[np.float32]]] = {}  # source -> [rows] a draw
        self.pairs: dict[tuple[int, int], list[float]] = {}
        self.norms: dict[int, list[float]] = {}

    def describe(
        self, noise: Noise, delta: float, source: Node | Block | None = None
    ) -> Smoothness:
        """The record of one layer; without one that of the net, the smallest of all, by draw."""
        sources = self.examples if source is None else [source.index]
        each = np.stack([np.stack(self.examples[i]) for i in sources]).min(axis=0)  # [draws, rows]
        by_draw = each.min(axis=1).astype(np.float64)
        value = float(quantile_over_draws(by_draw, delta))
        with np.errstate(divide="ignore"):
            inverse = 1 / quantile_over_draws(each.astype(np.float64), delta)
        pairs = [
            PairSmoothness(self.nodes[j].name, float(quantile_over_draws(np.array(own), delta)))
            for (i, j), own in self.pairs.items()
            if source is not None and i == source.index
        ]
        return Smoothness(
            noise=noise.name,
            kind=noise.kind,
            level=noise.level,
            delta=delta,
            draws=len(by_draw),
            value=value if math.isfinite(value) else None,
            inverse=1 / value if value > 0 else math.inf,
            standard_error=quantile_error(by_draw, delta),
            relative_norm=float(np.mean([np.mean(self.norms[i]) for i in sources])),
            inverse_spread=describe(inverse, "max"),
            pairs=tuple(pairs),
        )


def measure_smoothness(
    net: Network,
    data: Dataset,
    noises: Sequence[Noise],
    *,
    draws: int,
    seed: int,
    batch: int,
    initial: Network | None = None,
) -> dict[Noise, SmoothnessDraws]:
    """Each noise, `draws` times, followed from every layer to all later ones on all of `data`."""
    found = {noise: SmoothnessDraws(net.nodes) for noise in noises}
    for draw in progress(range(draws), "smoothness", "draw"):
        noisy: dict[Law, Network] = {}
        for kind, k in {(noise.kind, noise.k) for noise in noises}:
            start = initial if kind == "from-initialisation" else None
            if k is not None:
                noisy[kind, k] = project_net(net, k, seed, draw, start)
        work = partial(_shard, net, data, noises, noisy, seed, draw)
        merged = map_shards(len(data), batch, work, describe=f"smoothness, draw {draw + 1}/{draws}")
        for (at, i, what), part in merged.items():
            answer = found[noises[at]]
            if what == "rho":
                answer.examples.setdefault(i, []).append(part.values().astype(np.float32))
            elif what == "norm":
                norms = part.values()
                alive = norms[np.isfinite(norms)]  # x^i = 0 has no relative norm
                mean = float(alive.mean()) if len(alive) else math.nan
                answer.norms.setdefault(i, []).append(mean)
            else:
                answer.pairs.setdefault((i, int(what)), []).append(part.value)
    return found


def _shard(
    net: Network,
    data: Dataset,
    noises: Sequence[Noise],
    noisy: Mapping[Law, Network],
    seed: int,
    draw: int,
    rows: slice,
) -> Accumulators[tuple[int, int, str | int]]:
    """Under (noise, source, what): "rho" and "norm" by example, the smallest ρ a later layer."""
    x = as_floats(data.x[rows]).to(net.device, net.dtype)
    line, clean = Linearisation(net, x), Activations(net, x)
    hatted = {law: Activations(other, x) for law, other in noisy.items()}
    found: dict[tuple[int, int, str | int], Samples | Smallest] = {}
    for at, noise in enumerate(noises):
        for source in net.affine_layers[:-1]:
            signal = clean.values[source.index]
            if noise.kind == "gaussian":
                raw = gaussian_like(signal, seed, "smoothness", draw, rows.start, source)
            else:
                raw = hatted[noise.kind, noise.k].values[source.index] - signal
            eta = noise.scale(raw, signal)
            if not bool(torch.isfinite(eta).all()):
                how = "use more sign matrices (`k`) or a smaller level (`levels`)"
                raise BadInput(f"{source.name}: noise ({noise.name}) overflows; {how}")
            ratios = sample_smoothness(line, clean, source, eta)
            if not ratios:
                continue  # no later layer reads this one
            size = lengths(eta) / lengths(signal)
            whole = torch.stack(list(ratios.values())).amin(0)
            found[at, source.index, "rho"] = Samples.of(rows.start, whole.cpu().numpy())
            found[at, source.index, "norm"] = Samples.of(rows.start, size.cpu().numpy())
            for j, values in ratios.items():
                found[at, source.index, j] = Smallest(float(values.min()))
    return found


def sample_smoothness(
    line: Linearisation, clean: Activations, source: Node, eta: Tensor
) -> dict[int, Tensor]:
    """‖η‖‖x^j‖ / (‖x^i‖·‖M(x^i + η) - x^j - Jη‖), [B], for every later j under its index.

    Infinite where nothing bends (`departure`), or because η or x^i is 0.
    """
    signal = clean.values[source.index]
    moved: dict[int, Tensor] = {}
    found: dict[int, Tensor] = {}
    relative = lengths(eta) / lengths(signal)

    def keep(node: Node, t: Tensor) -> None:
        moved[node.index] = t - clean.values[node.index]

    def compare(node: Node, t: Tensor) -> None:
        own = clean.values[node.index]
        found[node.index] = departure(relative, own, moved[node.index], t[0])

    clean.rerun(source, signal + eta, keep)
    line.push(source, eta[None], compare)
    return found


def departure(relative: Tensor, value: Tensor, moved: Tensor, linear: Tensor) -> Tensor:
    """ρ = relative·‖x^j‖ / ‖moved - Jη‖ of each example, [B]: moved is M(x^i + η) - x^j, relative
    ‖η‖/‖x^i‖.

    Infinite where the deviation is within rounding (32 units of ‖x^j‖ + ‖Jη‖: where x^j nearly
    cancels, the rounding is that of what η adds).
    """
    size, deviation = lengths(value), lengths(moved - linear)
    bends = deviation > 32 * torch.finfo(value.dtype).eps * (size + lengths(linear))
    ratio = torch.where(bends, relative * size / deviation, torch.inf)
    return ratio.nan_to_num(torch.inf, torch.inf)


def quantile_over_draws(values: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """The largest number that at least a fraction 1 - δ of the draws (first axis) reach.

    >>> float(quantile_over_draws(np.arange(1.0, 21.0), 0.05))
    2.0
    """
    return np.asarray(np.sort(values, axis=0)[min(_rank(len(values), delta), len(values) - 1)])


def _rank(draws: int, delta: float) -> int:
    return math.floor(delta * draws + 1e-9)


def quantile_error(values: NDArray[np.float64], delta: float) -> float | None:
    """The standard error of `quantile_over_draws` of [draws] numbers: half the way between the
    order statistics one binomial standard deviation, √(nδ(1-δ)), above and below it; None if that
    reaches beyond the draws or is not finite.
    """
    n, ordered, middle = len(values), np.sort(values), _rank(len(values), delta)
    deviation = math.sqrt(n * delta * (1 - delta))
    width = max(1, math.ceil(deviation))
    if middle - width < 0 or middle + width >= n or not np.isfinite(ordered[middle + width]):
        return None
    return float(ordered[middle + width] - ordered[middle - width]) / 2 / width * deviation
