"""Brute force for the conditions of Neyshabur 2017: explicit matrices, and noise in tiny bias-free
nets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from tests.cases import CASES, Case
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.conditions.measurement import measure_conditions
from cushion.measures.conditions.records import NetConditions, TheoremOne
from cushion.measures.conditions.theorem import Premises
from cushion.nets.network import Network
from cushion.nets.operations import Affine
from cushion.nets.tracing import trace

Array: TypeAlias = NDArray[np.float64]
CHAINS = [case for case in CASES if case.chain]
# Units and seed of random nets on inputs of length 1, for the simulations.
SPHERES = [((5, 8, 6, 3), seed) for seed in range(4)] + [
    ((10, 20, 20, 4), seed) for seed in range(3)
]


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def sample(x: Any) -> Dataset:
    rows = np.asarray(x, dtype=np.float32)
    return Dataset("noise", rows, np.arange(len(rows)) % 2, 2)


def layer_matrices(net: Network, x: Tensor) -> tuple[Array, list[Array]]:
    """Layer 1's input and D_1 W_1, ..., D_d W_d at one example x [1, ...], each a Jacobian of a
    piece of the net.
    """
    starts = [node.index for node in net.nodes if isinstance(node.op, Affine)]
    pieces = [net.nodes[a:b] for a, b in zip([1, *starts], [*starts, len(net.nodes)], strict=True)]

    def through(piece: Any, z: Tensor) -> Tensor:
        for node in piece:
            z = node.op(z)
        return z

    first = z = through(pieces[0], x)
    matrices = []
    for piece in pieces[1:]:
        jacobian = torch.autograd.functional.jacobian(lambda t, piece=piece: through(piece, t), z)
        matrices.append(np.asarray(jacobian.reshape(-1, z.numel())))  # type: ignore[union-attr]
        z = through(piece, z)
    return first.numpy().reshape(-1), matrices


def product_norms(first: Array, matrices: Sequence[Array]) -> dict[tuple[int, int], float]:
    """‖M_{a..b}‖_F for 0 <= a <= b <= d, each from its own product of matrices."""
    whole = [first[:, None], *matrices]
    norms = {}
    for a in range(len(whole)):
        for b in range(a, len(whole)):
            product = whole[a]
            for matrix in whole[a + 1 : b + 1]:
                product = matrix @ product
            norms[a, b] = float(np.linalg.norm(product))
    return norms


def mlp(weights: Sequence[Array]) -> nn.Sequential:
    """The bias-free ReLU net with these weights, float64."""
    layers: list[nn.Module] = []
    for weight in weights:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
        layer.weight.data = torch.from_numpy(np.array(weight))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conditions_of(weights: Sequence[Array], x: Array, **options: Any) -> NetConditions:
    """The package's answer for `mlp(weights)` on rows x [m, h_0]."""
    net = trace(mlp(weights), (x.shape[1],))
    return measure_conditions(net, sample(x), ConditionOptions(**{"method": "exact", **options}))


def random_weights(units: Sequence[int], rng: np.random.Generator) -> list[Array]:
    """Gaussian weights, each layer scaled so that activations keep their size."""
    return [
        rng.normal(size=(after, before)) * np.sqrt(2 / before) for before, after in pairwise(units)
    ]


def masks_of(weights: Sequence[Array], x: Array) -> tuple[list[Array], list[Array]]:
    """D_i (as 0/1 vectors; the last is all ones) and f^i(x) = D_i W_i ... x for i = 0..d."""
    masks, levels = [], [x]
    for at, weight in enumerate(weights, 1):
        z = weight @ levels[-1]
        masks.append(np.ones(len(z)) if at == len(weights) else (z > 0).astype(np.float64))
        levels.append(z * masks[-1])
    return masks, levels


def noisy_levels(
    weights: Sequence[Array], noise: Sequence[Array], x: Array, masks: Sequence[Array] | None
) -> tuple[list[Array], list[Array]]:
    """f^i of the net with weights W + ν for every draw, [draws, h_i], i = 1..d, and its masks (or
    the given ones).
    """
    z, levels, used = np.broadcast_to(x, (len(noise[0]), len(x))), [], []
    for at, (weight, nu) in enumerate(zip(weights, noise, strict=True), 1):
        z = np.einsum("nij,nj->ni", weight + nu, z)
        own = np.ones_like(z) if at == len(weights) else (z > 0).astype(np.float64)
        used.append(own if masks is None else np.broadcast_to(masks[at - 1], z.shape))
        z = z * used[-1]
        levels.append(z)
    return levels, used


def draw_noise(
    weights: Sequence[Array], sigmas: Sequence[float], draws: int, rng: np.random.Generator
) -> list[Array]:
    """ν_i with entries N(0, σ_i²): [draws, h_i, h_{i-1}] for each layer."""
    return [
        sigma * rng.normal(size=(draws, *w.shape)) for w, sigma in zip(weights, sigmas, strict=True)
    ]


def mean_and_error(values: Array) -> tuple[float, float]:
    """The mean over draws and its standard error."""
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def cross_entropy(scores: Array, label: int) -> Array:
    """ln Σ_j exp(scores_j) - scores_label along the last axis."""
    highest = scores.max(-1, keepdims=True)
    loss: Array = np.log(np.exp(scores - highest).sum(-1)) + highest[..., 0] - scores[..., label]
    return loss


def net_on_the_sphere(
    units: tuple[int, ...], seed: int, m: int
) -> tuple[list[Array], Array, NetConditions]:
    """Random weights, m rows with ‖x‖ = 1, and their conditions; seeds are searched for nets
    without dead layers.
    """
    rng = np.random.default_rng(seed)
    while True:
        weights, x = random_weights(units, rng), rng.normal(size=(m, units[0]))
        x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
        found = conditions_of(weights, x)
        if found.theorem[0].finite:
            return weights, x, found


def as_premises(record: TheoremOne, weights: list[Array]) -> Premises:
    units = (weights[0].shape[1], *(len(w) for w in weights))
    norms = tuple(float(np.linalg.norm(w)) for w in weights)
    return Premises(
        units, norms, record.mu, record.c2, record.c3, record.mean_output, record.m, record.delta
    )
