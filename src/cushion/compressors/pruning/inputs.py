"""Condition C.1 (Guha 2023) on a net: the inputs of each layer along what was pruned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.pruning.records import Subgaussian
from cushion.compressors.pruning.subgaussian import SubgaussianFit, fit_subgaussian
from cushion.data import Dataset
from cushion.data.samples import permutation
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.network import Network, Node, Stage
from cushion.nets.operators import Operator
from cushion.theorems.pruning import kappa

ROWS = 2000
_EXACT = 256  # up to so many singular vectors are all looked at
_LEADING = 64  # of more, the leading ones
_ITERATIONS = 3
_A = 2.0  # of a fit: one for each side of |⟨x, v⟩|

Values = NDArray[np.float64]


@dataclass(frozen=True)
class _Layer:
    b: float
    t: float
    kappa: float
    seen: float
    failure: float
    directions: int


def check_condition(
    net: Network,
    pruned: Network,
    sample: Dataset,
    constants: tuple[float, float, float] | None,
    delta: float,
    seed: int,
) -> Subgaussian:
    """Lemma C.1 with the constants (a, b, t) as given, or with b fitted and t such that all layers
    fail with δ at most.

    The inputs of a layer are those of the net as it was, on up to 2000 examples; the lemma's m is
    that of the sample.
    """
    rows = np.sort(permutation(len(sample), seed)[:ROWS])
    some = sample.select(rows, f"{len(rows)} rows for Condition C.1, seed={seed}")
    moved = {}
    for node in net.affine_layers:
        difference = pruned.nodes[node.index].affine.operator.minus(node.affine.operator)
        if bool(difference.weight.any()):
            moved[node.index] = difference
    looks = {index: right_singular_vectors(one) for index, one in moved.items()}
    projections, stretches = _project(net, some, moved, looks)
    layers = []
    for node in net.affine_layers:
        if node.index not in moved or not len(projections[node.index]):
            layers.append(
                _Layer(1.0 if constants is None else constants[1], 1.0, 1.0, 0.0, 0.0, 0)
            )  # nothing moved
            continue
        size, seen = node.affine.operator.input_size, projections[node.index]
        sides = node.affine.operator.output_size, size
        fit = (
            SubgaussianFit(*constants[:2], size, 1, 1)
            if constants is not None
            else fit_subgaussian(seen, size, _A)
        )
        fit = replace(
            fit, inputs=len(sample), directions=min(sides)
        )  # the lemma is about all of them
        t = constants[2] if constants is not None else fit.threshold(delta / len(moved))
        stretch = float(stretches[node.index].max()) / moved[node.index].spectral()
        factor = kappa(*sides, t)
        failure = fit.failure(t) if factor < 1 else 0.0  # ‖Δx‖ ≤ ‖Δ‖₂‖x‖ always
        layers.append(_Layer(fit.b, t, factor, stretch, failure, seen.shape[1]))
    return Subgaussian(
        how="fitted to the layers' inputs" if constants is None else "given",
        a=_A if constants is None else constants[0],
        b=tuple(layer.b for layer in layers),
        t=tuple(layer.t for layer in layers),
        kappa=tuple(layer.kappa for layer in layers),
        seen=tuple(layer.seen for layer in layers),
        product=math.prod(layer.kappa for layer in layers),
        failure=min(1.0, math.fsum(layer.failure for layer in layers)),
        rows=len(rows),
        directions=tuple(layer.directions for layer in layers),
    )


def right_singular_vectors(operator: Operator) -> Tensor:
    """[k, input_size], orthonormal rows: all of a small map, else the leading 64."""
    least = min(operator.input_size, operator.output_size)
    if operator.weight.ndim == 2 and least <= _EXACT:
        vectors: Tensor = torch.linalg.svd(operator.weight.double(), full_matrices=False)[2]
        return vectors
    count = min(_LEADING, least)
    size = operator.output_size
    waves = torch.outer(
        torch.arange(1.0, count + 1), torch.arange(size) + 0.5
    ).double()  # any start does
    start = torch.cos(math.pi * waves / size).reshape(count, *operator.output_shape)
    basis = _orthonormal(operator.adjoint(start))
    for _ in range(_ITERATIONS):
        basis = _orthonormal(
            operator.adjoint(operator.apply(basis.reshape(-1, *operator.input_shape)))
        )
    images = operator.apply(basis.reshape(-1, *operator.input_shape)).flatten(1)
    left: Tensor = torch.linalg.svd(images, full_matrices=False)[0]
    return left.mT @ basis


def _orthonormal(vectors: Tensor) -> Tensor:
    found: Tensor = torch.linalg.qr(vectors.flatten(1).mT)[0].mT
    return found.contiguous()


def _project(
    net: Network, some: Dataset, moved: dict[int, Operator], looks: dict[int, Tensor]
) -> tuple[dict[int, Values], dict[int, Values]]:
    """Of every layer that moved: |⟨x, v⟩| of its inputs x of length 1, [rows, k], and ‖Δx‖, [rows];
    without x = 0.
    """

    def work(rows: slice) -> Accumulators[str]:
        found: dict[str, Samples] = {}

        def observe(node: Node, stage: Stage, values: Tensor) -> None:
            if stage != "input" or node.index not in moved:
                return
            flat = values.double().flatten(1)
            size = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
            unit = flat / size  # NaN where the input is 0
            stretch = torch.linalg.vector_norm(
                moved[node.index].apply(unit.reshape(values.shape)).flatten(1), dim=1
            )
            found[f"p {node.index}"] = Samples.of(
                rows.start, (unit @ looks[node.index].mT).abs().numpy()
            )
            found[f"s {node.index}"] = Samples.of(rows.start, stretch.numpy())

        net.run(as_floats(some.x[rows]).to(net.dtype), observe)
        return found

    merged = map_shards(len(some), 128, work, describe="inputs of layers") if moved else {}
    projections, stretches = {}, {}
    for index in moved:
        stretch = merged[f"s {index}"].values()
        there = ~np.isnan(stretch)
        projections[index] = merged[f"p {index}"].values()[there]
        stretches[index] = stretch[there]
    return projections, stretches
