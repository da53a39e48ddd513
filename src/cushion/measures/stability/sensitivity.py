"""Noise sensitivity ψ of any part of a net for any law of noise (Arora 2018, Definition 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.distribution import describe
from cushion.measures.probing import lengths, probe_generator
from cushion.measures.stability.attenuation import injected_errors
from cushion.measures.stability.records import NoiseSensitivity
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.linearisation import Activations
from cushion.nets.network import Network, Node

Draw: TypeAlias = Callable[[tuple[int, ...], torch.Generator], Tensor]


def gaussian(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """N(0, I), the law of Proposition 3.1."""
    return torch.randn(shape, generator=generator)


def sphere(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform on the unit sphere."""
    drawn = torch.randn(shape, generator=generator)
    return drawn / lengths(drawn).to(drawn.dtype).reshape(-1, *[1] * (drawn.ndim - 1))


def signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent ±1."""
    return torch.randint(0, 2, shape, generator=generator).mul(2).sub(1).float()


LAWS: dict[str, Draw] = {"gaussian": gaussian, "sphere": sphere, "signs": signs}


def measure_sensitivity(
    net: Network,
    data: Dataset,
    start: str,
    end: str,
    law: str | Draw,
    *,
    scale: float,
    draws: int,
    seed: int,
) -> NoiseSensitivity:
    """ψ = E‖M(x + η‖x‖) - M(x)‖² / ‖M(x)‖², M from the input of layer `start` to the output of
    layer `end`.

    η is `scale` times a draw of the law: a name in LAWS, or a function of ([B, *shape], generator).
    The value is the largest mean over the draws among the examples, with that example's standard
    error.
    """
    source, target = _layer(net, start), _layer(net, end)
    if source.index > target.index:
        raise BadInput(
            f"layer {start} comes after {end}; name the part of the net from its first to its last "
            "layer"
        )
    if target.index != source.index and target.index not in net.descendants(source.index):
        raise BadInput(f"layer {end} does not depend on {start}; name layers on one path")
    if draws < 1 or not 0 < scale < math.inf:
        raise BadInput(f"draws must be at least 1 and scale above 0, not {draws} and {scale}")
    if isinstance(law, str) and law not in LAWS:
        raise BadInput(
            f"there is no law of noise called {law!r}; choose from {', '.join(LAWS)}, or give a "
            "function"
        )
    draw = LAWS[law] if isinstance(law, str) else law

    def work(rows: slice) -> Accumulators[str]:
        clean = Activations(net, as_floats(data.x[rows]).to(net.dtype))
        generator = probe_generator(seed, f"sensitivity {rows.start}", source.index)

        def noise(x: Tensor, _: Node) -> Tensor:
            size = lengths(x).to(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
            return scale * size * draw(tuple(x.shape), generator).to(x)

        mean, error = sample_sensitivity(clean, source, target, noise, draws)
        return {
            "mean": Samples.of(rows.start, mean.numpy()),
            "error": Samples.of(rows.start, error.numpy()),
        }

    merged = map_shards(len(data), 256, work, describe="noise sensitivity")
    means, errors = merged["mean"].values(), merged["error"].values()
    spread = describe(means, "max")
    if spread is None:
        raise BadInput(
            f"layer {end} is zero on every example of {data.name}, so it has no relative error"
        )
    worst = float(errors[int(np.nanargmax(means))])
    return NoiseSensitivity(
        start=start,
        end=end,
        noise=law if isinstance(law, str) else getattr(law, "__name__", "own law"),
        scale=scale,
        draws=draws,
        value=spread.value,
        standard_error=worst if math.isfinite(worst) else None,
        spread=spread,
    )


def sample_sensitivity(
    clean: Activations,
    source: Node,
    target: Node,
    noise: Callable[[Tensor, Node], Tensor],
    draws: int,
) -> tuple[Tensor, Tensor]:
    """ψ of each example and its standard error (infinite for one draw): [B] float64 each.

    `noise(x, node)` draws η‖x‖ for the input x of the source, a new one at each call.
    """
    found = [injected_errors(clean, source, noise).get(target.index) for _ in range(draws)]
    squares = torch.stack([part.double() ** 2 for part in found if part is not None])
    error = (
        squares.std(0) / math.sqrt(draws) if draws > 1 else torch.full_like(squares[0], torch.inf)
    )
    return squares.mean(0), error


def _layer(net: Network, name: str) -> Node:
    for node in net.affine_layers:
        if node.name == name:
            return node
    raise BadInput(
        f"there is no layer called {name!r}; the layers are "
        f"{', '.join(n.name for n in net.affine_layers)}"
    )
