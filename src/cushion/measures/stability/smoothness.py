"""Interlayer smoothness ρ_δ (Arora 2018, Definition 7): how far noise drives the net from its
linearisation.

The definition's J(x^i + η) is x^j + Jη without biases; with them the latter is meant here (a bias
is an input that is always 1 and that no noise touches), because the deviation must vanish with the
noise. ρ_δ is the largest number that satisfies the inequality: the paper's "smallest" is a slip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.distribution import describe
from cushion.measures.stability.noise import Noise, gaussian_like, lengths, project_net
from cushion.measures.stability.records import PairSmoothness, Smoothness
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, Smallest, map_shards
from cushion.nets.linearisation import Activations, Linearisation
from cushion.nets.network import Network, Node
from cushion.progress import progress

Law: TypeAlias = tuple[str, int | None]  # a kind of noise and its k


class SmoothnessDraws:
    """ρ of every draw of one noise: an example's smallest over j, a pair's over the examples."""

    def __init__(self) -> None:
        self.examples: dict[int, list[NDArray[np.float32]]] = {}  # source -> [rows] a draw
        self.pairs: dict[tuple[int, int], list[float]] = {}
        self.norms: dict[int, list[float]] = {}

    def describe(self, net: Network, source: Node, noise: Noise, delta: float) -> Smoothness:
        """The record of one layer."""
        each = np.stack(self.examples[source.index])  # [draws, rows]
        own = quantile_over_draws(each.astype(np.float64), delta)
        pairs = [
            (net.nodes[j].name, values)
            for (i, j), values in self.pairs.items()
            if i == source.index
        ]
        return _record(
            noise,
            delta,
            each.min(axis=1).astype(np.float64),
            float(np.mean(self.norms[source.index])),
            own,
            tuple(
                PairSmoothness(name, float(quantile_over_draws(np.array(values), delta)))
                for name, values in pairs
            ),
        )

    def describe_net(self, noise: Noise, delta: float) -> Smoothness:
        """The record of the whole net: the smallest over all layers, draw by draw."""
        each = np.stack([np.stack(parts) for parts in self.examples.values()]).min(axis=0)
        norm = float(np.mean([np.mean(parts) for parts in self.norms.values()]))
        own = quantile_over_draws(each.astype(np.float64), delta)
        return _record(noise, delta, each.min(axis=1).astype(np.float64), norm, own, ())


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
    found = {noise: SmoothnessDraws() for noise in noises}
    for draw in progress(range(draws), "smoothness", "draw"):
        noisy: dict[Law, Network] = {
            (kind, k): project_net(
                net, k, seed, draw, initial if kind == "from-initialisation" else None
            )
            for kind, k in {(noise.kind, noise.k) for noise in noises}
            if k is not None
        }

        def work(
            rows: slice, draw: int = draw, noisy: Mapping[Law, Network] = noisy
        ) -> Accumulators[str]:
            return _work(net, data, noises, noisy, rows, seed, draw)

        merged = map_shards(len(data), batch, work, describe=f"smoothness, draw {draw + 1}/{draws}")
        for at, noise in enumerate(noises):
            for i in net.affine_layers[:-1]:
                if f"rho {at} {i.index}" not in merged:
                    continue
                answer = found[noise]
                values = merged[f"rho {at} {i.index}"].values().astype(np.float32)
                answer.examples.setdefault(i.index, []).append(values)
                norms = merged[f"norm {at} {i.index}"].values()
                alive = norms[np.isfinite(norms)]  # x^i = 0 has no relative norm
                answer.norms.setdefault(i.index, []).append(
                    float(alive.mean()) if len(alive) else math.nan
                )
                for j in net.affine_layers:
                    if f"pair {at} {i.index} {j.index}" in merged:
                        smallest = merged[f"pair {at} {i.index} {j.index}"].value
                        answer.pairs.setdefault((i.index, j.index), []).append(smallest)
    return found


def _work(
    net: Network,
    data: Dataset,
    noises: Sequence[Noise],
    noisy: Mapping[Law, Network],
    rows: slice,
    seed: int,
    draw: int,
) -> Accumulators[str]:
    x = as_floats(data.x[rows]).to(net.dtype)
    line, clean = Linearisation(net, x), Activations(net, x)
    hatted = {law: Activations(other, x) for law, other in noisy.items()}
    found: dict[str, Samples | Smallest] = {}
    for at, noise in enumerate(noises):
        for source in net.affine_layers[:-1]:
            signal = clean.values[source.index]
            if noise.kind == "gaussian":
                raw = gaussian_like(signal, seed, "smoothness", draw, rows.start, source)
            else:
                raw = hatted[noise.kind, noise.k].values[source.index] - signal
            eta = noise.scale(raw, signal)
            if not bool(torch.isfinite(eta).all()):
                raise BadInput(
                    f"{source.name}: noise ({noise.name}) overflows; use more sign matrices (`k`) "
                    "or a smaller level (`levels`)"
                )
            ratios = sample_smoothness(line, clean, source, eta)
            if not ratios:
                continue  # no later layer reads this one
            size = lengths(eta) / lengths(signal)
            whole = torch.stack(list(ratios.values())).amin(0)
            found[f"rho {at} {source.index}"] = Samples.of(rows.start, whole.numpy())
            found[f"norm {at} {source.index}"] = Samples.of(rows.start, size.numpy())
            for j, values in ratios.items():
                found[f"pair {at} {source.index} {j}"] = Smallest(float(values.min()))
    return found


def sample_smoothness(
    line: Linearisation, clean: Activations, source: Node, eta: Tensor
) -> dict[int, Tensor]:
    """‖η‖‖x^j‖ / (‖x^i‖·‖M(x^i + η) - x^j - Jη‖) for each example, for every later j under its
    index: [B].

    Infinite where the deviation is within rounding (32 units of ‖x^j‖ + ‖Jη‖: where x^j nearly
    cancels, the rounding is that of what η adds), or where nothing bends because η or x^i is 0.
    """
    signal = clean.values[source.index]
    moved: dict[int, Tensor] = {}
    clean.rerun(
        source,
        signal + eta,
        lambda node, t: moved.__setitem__(node.index, t - clean.values[node.index]),
    )
    relative = lengths(eta) / lengths(signal)
    found: dict[int, Tensor] = {}

    def visit(node: Node, t: Tensor) -> None:
        size = lengths(clean.values[node.index])
        deviation = lengths(moved[node.index] - t[0])
        bends = deviation > 32 * torch.finfo(signal.dtype).eps * (size + lengths(t[0]))
        found[node.index] = torch.where(bends, relative * size / deviation, torch.inf).nan_to_num(
            torch.inf, torch.inf
        )

    line.push(source, eta[None], visit)
    return found


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
    n = len(values)
    ordered, middle = np.sort(values), _rank(n, delta)
    width = max(1, math.ceil(math.sqrt(n * delta * (1 - delta))))
    if middle - width < 0 or middle + width >= n or not np.isfinite(ordered[middle + width]):
        return None
    return (
        float(ordered[middle + width] - ordered[middle - width])
        / 2
        / width
        * math.sqrt(n * delta * (1 - delta))
    )


def _record(
    noise: Noise,
    delta: float,
    by_draw: NDArray[np.float64],
    relative_norm: float,
    own: NDArray[np.float64],
    pairs: tuple[PairSmoothness, ...],
) -> Smoothness:
    value = float(quantile_over_draws(by_draw, delta))
    with np.errstate(divide="ignore"):
        inverse = 1 / own
    return Smoothness(
        noise=noise.name,
        kind=noise.kind,
        level=noise.level,
        delta=delta,
        draws=len(by_draw),
        value=value if math.isfinite(value) else None,
        inverse=1 / value if value > 0 else math.inf,
        standard_error=quantile_error(by_draw, delta),
        relative_norm=relative_norm,
        inverse_spread=describe(inverse, "max"),
        pairs=pairs,
    )
