"""Compressed nets as data: stored layers of three kinds, tiny nets that fit the format of
certificates, and scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from tests.cases import CASES
from torch import nn

import cushion
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Pool
from cushion.certificates.format.sources import Source
from cushion.compressors.projection.low_rank import LowRank
from cushion.compressors.projection.matrix_project import Projected
from cushion.compressors.storage.stored import Kept, Numbers, StoredLayer
from cushion.data.dataset import Dataset
from cushion.nets.network import Network
from cushion.nets.operators import Operator
from cushion.nets.operators.sign_projection import sign_coefficients

SEED = 11
Stored = tuple[Network, list[StoredLayer], list[Numbers | None]]


def kept(operator: Operator, place: int) -> StoredLayer:
    return Kept(Numbers.fitted(operator.weight.double().numpy(), 12))


def low_rank(operator: Operator, place: int) -> StoredLayer:
    if operator.weight.ndim == 1:
        return kept(operator, place)
    u, s, v = torch.linalg.svd(operator.weight.double().flatten(1), full_matrices=False)
    r = max(1, len(s) - 1)
    left, right = (u * s.sqrt())[:, :r].numpy(), (s.sqrt()[:, None] * v)[:r].numpy()
    return LowRank(
        Numbers.fitted(left, 12), Numbers.fitted(right, 11), tuple(operator.weight.shape)
    )


def signs(operator: Operator, place: int) -> StoredLayer:
    """So few coefficients that the weight is mostly noise: it is the compressed net that an integer
    net follows.
    """
    return projected(operator, place, 70)


def many_signs(operator: Operator, place: int) -> StoredLayer:
    """Eight coefficients for every weight, so that a trained net still classifies."""
    return projected(operator, place, 8 * operator.weight.numel())


def projected(operator: Operator, place: int, k: int) -> Projected:
    c = sign_coefficients(operator.weight.double(), k, SEED, f"weights {place}")
    return Projected(Numbers.fitted(c.numpy(), 12), tuple(operator.weight.shape), "signs", place)


WAYS: dict[str, Callable[[Operator, int], StoredLayer]] = {
    "kept": kept,
    "low-rank": low_rank,
    "signs": signs,
}


def compressed(
    model: nn.Module, shape: tuple[int, ...], way: Callable[[Operator, int], StoredLayer]
) -> Stored:
    """A net that has been compressed, with what is stored of it."""
    net = cushion.trace(model.eval(), shape)
    layers, biases, changes, place = [], [], {}, 0
    for node in net.nodes:
        place += "Pool" in type(node.op).__name__ or node in net.affine_layers
        if node in net.affine_layers:
            layer = way(node.affine.operator, place)
            bias = (
                None
                if node.affine.bias is None
                else Numbers.fitted(node.affine.bias.double().numpy(), 14)
            )
            rounded = None if bias is None else torch.from_numpy(bias.values).to(net.dtype)
            operator = layer.operator(node.affine.operator, SEED)
            changes[node.index] = replace(node.affine, operator=operator, bias=rounded)
            layers.append(layer)
            biases.append(bias)
    return net.with_affine(changes), layers, biases


def sample(x: np.ndarray, classes: int = 10) -> Dataset:
    return Dataset("inputs", x, np.zeros(len(x), dtype=np.int64), classes)


def logits(net: Network, x: np.ndarray) -> np.ndarray:
    batch = torch.from_numpy(x).reshape(-1, *net.input_shape).to(net.dtype)
    return net.forward(batch / 255 if x.dtype == np.uint8 else batch).double().numpy()


def distance(scores: np.ndarray, wanted: np.ndarray) -> float:
    """How far the scores are from a multiple of what is wanted, relative to it."""
    scores = scores.astype(np.float64)  # squares of integers would wrap
    factor = (scores * wanted).sum() / (scores * scores).sum()
    assert factor > 0
    return float(np.abs(factor * scores - wanted).max() / np.abs(wanted).max())


def sources_of(net: IntegerNet) -> list[Source]:
    return [layer.source for layer in net.layers if not isinstance(layer, Pool)]


CASE = {case.name: case for case in CASES}
FITTING = [
    "mlp",
    "mlp-no-bias",
    "linear-only",
    "mlp-batchnorm",
    "batchnorm-last",
    "max-pool",
    "avg-pool",
]
FITTING += ["avg-pool-divisor", "conv-batchnorm", "vgg-tiny"]
MORE = {
    "grouped and strided": lambda: nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 5)
    ),
    "one filter a channel": lambda: nn.Sequential(
        nn.Conv2d(4, 4, 2, groups=4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    ),
    "maxima before the ReLU": lambda: nn.Sequential(
        nn.Conv2d(4, 6, 2), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(24, 5)
    ),
    "one mean a map": lambda: nn.Sequential(
        nn.Conv2d(4, 6, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5)
    ),
    "maxima of quarters": lambda: nn.Sequential(
        nn.Conv2d(4, 6, 2), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(24, 5)
    ),
    "pooling comes first": lambda: nn.Sequential(
        nn.AvgPool2d(2), nn.Conv2d(4, 6, 2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 5)
    ),
    "a batch-norm comes first": lambda: nn.Sequential(
        nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 2), nn.ReLU(), nn.Flatten(), nn.Linear(96, 5)
    ),
    "a convolution with one place": lambda: nn.Sequential(
        nn.Conv2d(4, 6, 5), nn.ReLU(), nn.Flatten(), nn.Linear(6, 5)
    ),
}


def made(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    if name in CASE:
        return CASE[name].module(), CASE[name].input_shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = MORE[name]()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model, (4, 5, 5)
