"""Noise in a net's activations (Arora 2018): that of compression, Gaussian noise of its size, and
what noise in one layer's input leaves behind each later one: relative errors (the note's Figure 3),
and the noise sensitivity ψ of Definition 3, the mean of their squares, for any part and any law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.distribution import describe
from cushion.measures.probing import lengths, probe_generator, spread_over, stream
from cushion.measures.stability.records import AttenuationCurve, AttenuationPoint, NoiseSensitivity
from cushion.nets.hooked.chain import Block
from cushion.nets.linearisation import Activations
from cushion.nets.network import Network, Node
from cushion.nets.operators.sign_projection import sign_project
from cushion.progress import progress

Draw: TypeAlias = Callable[[tuple[int, ...], torch.Generator], Tensor]


@dataclass(frozen=True)
class Noise:
    """A law of the noise η that is added to x^i.

    "gaussian": uniform direction, ‖η‖ = level·‖x^i‖. "sign-projection": η = x̂^i - x^i, where
    layers 1 to i have been replaced by their images under Algorithm 1 with k sign matrices; a level
    rescales it to level·‖x^i‖ (the covariance of Â - A falls as 1/k and is otherwise the same, so
    this stands for the k that makes so much noise). "from-initialisation" projects A - A₀ instead
    of A.
    """

    kind: Literal["gaussian", "sign-projection", "from-initialisation"]
    level: float | None = None
    k: int | None = None

    @property
    def name(self) -> str:
        """How tables and records call it."""
        if self.kind == "gaussian":
            return f"gaussian at {self.level:g}"
        what = "" if self.kind == "sign-projection" else " of A - A0"
        scaled = "" if self.level is None else f", scaled to {self.level:g}"
        return f"sign-projection{what}, k = {self.k}{scaled}"

    def scale(self, noise: Tensor, signal: Tensor) -> Tensor:
        """The noise at its stated relative norm, example by example; zero noise stays zero."""
        if self.level is None:
            return noise
        size = lengths(noise)
        factor = torch.where(size > 0, self.level * lengths(signal) / size, size)
        return noise * spread_over(factor, noise)


def project_net(
    net: Network, k: int, seed: int, draw: int, initial: Network | None = None
) -> Network:
    """The net with every weight's image under Algorithm 1 (Matrix-Project), biases kept.

    Each layer and draw has sign matrices of its own. A convolution's kernel is projected as one
    matrix and shared by all places. With `initial`, A₀ + projection(A - A₀).
    """
    changes = {}
    for at, node in enumerate(net.affine_layers):
        operator = node.affine.operator
        start = None if initial is None else initial.affine_layers[at].affine.operator.weight
        weight = operator.weight if start is None else operator.weight - start
        _, image = sign_project(weight, k, seed, f"smoothness {draw} {node.name}")
        image = image if start is None else image + start
        changes[node.index] = replace(node.affine, operator=operator.with_weight(image))
    return net.with_affine(changes)


def gaussian_like(
    signal: Tensor, seed: int, purpose: str, draw: int, start: int, node: Node | Block
) -> Tensor:
    """Standard normal numbers of the signal's shape, a function of the arguments after it alone."""
    generator = probe_generator(start, f"{purpose} {seed} {draw}", node.index)
    drawn = torch.randn(signal.shape, generator=generator, dtype=signal.dtype).to(signal.device)
    return drawn.contiguous(memory_format=torch.channels_last) if drawn.ndim == 4 else drawn


def injected_errors(
    clean: Activations, source: Node, noise: Callable[[Tensor, Node], Tensor]
) -> dict[int, Tensor]:
    """‖x̂^j - x^j‖ / ‖x^j‖, [B] under the node's index, of the layer itself and every later one.

    `noise(input, node)` is added to the input of layer `source` alone, not to what else reads it.
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


def measure_attenuation(
    net: Network, data: Dataset, level: float, *, draws: int, seed: int, batch: int
) -> dict[int, AttenuationCurve]:
    """For every layer, under its index, the curve of noise of this relative norm in its input."""
    law = Noise("gaussian", level)
    means: dict[tuple[int, int], list[float]] = {}
    squares: dict[tuple[int, int], NDArray[np.float64]] = {}
    for draw in progress(range(draws), f"attenuation of {level:g}", "draw"):

        def work(x: Tensor, rows: slice, draw: int = draw) -> dict[tuple[int, int], Tensor]:
            def noise(signal: Tensor, node: Node) -> Tensor:
                purpose = f"attenuation {level}"
                drawn = gaussian_like(signal, seed, purpose, draw, rows.start, node)
                return law.scale(drawn, signal)

            clean = Activations(net, x)
            return {
                (source.index, j): errors
                for source in net.affine_layers
                for j, errors in injected_errors(clean, source, noise).items()
            }

        found = stream(net, data, batch, work, f"noise {level:g}, draw {draw + 1}")
        for pair, values in found.items():
            alive = values[np.isfinite(values)]  # an example with x^j = 0 has no relative error
            means.setdefault(pair, []).append(float(alive.mean()) if len(alive) else math.nan)
            squares[pair] = squares.get(pair, np.zeros(len(values))) + values**2
    points: dict[int, list[AttenuationPoint]] = {node.index: [] for node in net.affine_layers}
    for (i, j), parts in sorted(means.items()):
        error = float(np.std(parts, ddof=1) / math.sqrt(draws)) if draws > 1 else None
        sensitivity = float(np.fmax.reduce(squares[i, j])) / draws
        name, mean = net.nodes[j].name, float(np.mean(parts))
        points[i].append(AttenuationPoint(name, mean, error, sensitivity))
    return {i: AttenuationCurve(level, draws, tuple(found)) for i, found in points.items()}


def gaussian(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """N(0, I), the law of Proposition 3.1."""
    return torch.randn(shape, generator=generator)


def sphere(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform on the unit sphere."""
    drawn = torch.randn(shape, generator=generator)
    return drawn / spread_over(lengths(drawn), drawn)


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
        raise BadInput(f"layer {start} comes after {end}; name the first layer of the part first")
    if target.index != source.index and target.index not in net.descendants(source.index):
        raise BadInput(f"layer {end} does not depend on {start}; name layers on one path")
    if draws < 1 or not 0 < scale < math.inf:
        raise BadInput(f"draws must be at least 1 and scale above 0, not {draws} and {scale}")
    if isinstance(law, str) and law not in LAWS:
        known = f"choose from {', '.join(LAWS)}, or give a function"
        raise BadInput(f"there is no law of noise called {law!r}; {known}")
    draw = LAWS[law] if isinstance(law, str) else law

    def work(x: Tensor, rows: slice) -> dict[str, Tensor]:
        generator = probe_generator(seed, f"sensitivity {rows.start}", source.index)

        def noise(x: Tensor, _: Node) -> Tensor:
            return scale * spread_over(lengths(x), x) * draw(tuple(x.shape), generator).to(x)

        mean, error = sample_sensitivity(Activations(net, x), source, target, noise, draws)
        return {"mean": mean, "error": error}

    found = stream(net, data, 256, work, "noise sensitivity")
    spread = describe(found["mean"], "max")
    if spread is None:
        where = f"layer {end} is zero on every example of {data.name}"
        raise BadInput(f"{where}, so it has no relative error")
    worst = float(found["error"][int(np.nanargmax(found["mean"]))])
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
    errors = [injected_errors(clean, source, noise)[target.index] for _ in range(draws)]
    squares = torch.stack(errors).double() ** 2
    if draws == 1:
        return squares[0], torch.full_like(squares[0], torch.inf)
    return squares.mean(0), squares.std(0) / math.sqrt(draws)


def _layer(net: Network, name: str) -> Node:
    layers = {node.name: node for node in net.affine_layers}
    if name not in layers:
        raise BadInput(f"there is no layer called {name!r}; the layers are {', '.join(layers)}")
    return layers[name]
