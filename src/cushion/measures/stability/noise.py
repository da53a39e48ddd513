"""The noise that compression makes in a net's activations, and Gaussian noise of the same size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from cushion.measures.probing import lengths, probe_generator, spread_over
from cushion.nets.network import Network, Node
from cushion.nets.operators.sign_projection import sign_project


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
    signal: Tensor, seed: int, purpose: str, draw: int, start: int, node: Node
) -> Tensor:
    """Standard normal numbers of the signal's shape, a function of the arguments after it alone."""
    generator = probe_generator(start, f"{purpose} {seed} {draw}", node.index)
    drawn = torch.randn(signal.shape, generator=generator, dtype=signal.dtype).to(signal.device)
    return drawn.contiguous(memory_format=torch.channels_last) if drawn.ndim == 4 else drawn
