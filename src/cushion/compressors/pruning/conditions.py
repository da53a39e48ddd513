"""What Guha 2023 assumes, held against a net: Assumption 3.1, normal weights, and Condition C.1,
inputs that are spread over all directions. All of it is a measure.

Condition C.1 on the inputs of one layer: P(|⟨x, v⟩| ≥ t) ≤ a·exp(-b t² d_1), x scaled to length 1,
d_1 the number of its numbers. The paper's is about one side and "some" v; Lemma C.1 needs both
sides, and each of the k right singular vectors of the layer's Δ that has a singular value above 0.
It then holds for all m inputs at once but with probability m·k·a·exp(-b t² d_1). The paper leaves
out k, and the uniform law on the circle shows that it may not (a = 1, b = 0.68: κ = 0.99 at t = 0.7
fails always for B = I, where the paper has 0.52). A b that was fitted to a sample says nothing
certain about other inputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from cushion.compressors.pruning.records import Normality, Subgaussian
from cushion.data import Dataset
from cushion.measures.probing import chosen_rows, lengths, stream
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.network import Network, Node, Stage
from cushion.nets.operators import Operator
from cushion.theorems.pruning import kappa

Values = NDArray[np.float64]
# D(√n + 0.12 + 0.11/√n) of n normal numbers of mean 0, against N(0, their mean square), exceeds
# this once in a hundred times. Simulated, 10^6 samples of n = 30 and 3·10^5 of n = 300: 1.604 and
# 1.600, each ± 0.006 (two standard errors). With a known variance it would be 1.628, with mean and
# variance estimated (Lilliefors) 1.035; the factor of n is Stephens's (1974) for the known one, and
# brings n = 10 to 5000 within the error of the simulation.
_CRITICAL = 1.60
_ROWS = 2000  # examples that are looked at
_EXACT = 256  # up to so many singular vectors are all looked at
_LEADING = 64  # of more, the leading ones
_ITERATIONS = 3
_A = 2.0  # of a fit: one for each side of |⟨x, v⟩|


def normality(weight: Tensor) -> Normality:
    """The entries off the diagonal of the weight, seen as the matrix [out, rest], against N(0, Ψ),
    Ψ their mean square.

    The distance is exact: F_n jumps at the sorted entries and F is continuous, so the supremum is
    next to a jump. A layer of zeros is N(0, 0) itself: distance 0, and by convention kurtosis 3.
    """
    wide = weight.detach().cpu()
    matrix = (wide if wide.dtype == torch.float32 else wide.double()).reshape(len(wide), -1)
    off = matrix[~torch.eye(*matrix.shape, dtype=torch.bool)].numpy()
    entries = np.sort(off).astype(np.float64)  # float32 sorts several times faster
    n, critical = entries.size, ks_critical(entries.size)
    largest = float(np.abs(entries).max(initial=0.0))
    if largest == 0.0:
        return Normality(0.0, 0.0, critical, 3.0, 0.0)
    entries /= largest  # squares and fourth powers of any finite weight stay in range
    share = float(np.square(entries).mean())
    entries /= math.sqrt(share)
    kurtosis, mean = float(np.square(np.square(entries)).mean()), float(entries.mean())
    law = ndtr(entries)
    steps = np.arange(n + 1) / n
    distance = max(float((steps[1:] - law).max()), float((law - steps[:-1]).max()))
    return Normality(share * largest * largest, distance, critical, kurtosis, mean)


def ks_critical(n: int) -> float:
    """What the distance of n truly normal numbers exceeds once in a hundred times; at most 1."""
    root = math.sqrt(n)
    return min(1.0, _CRITICAL / (root + 0.12 + 0.11 / root)) if n else 1.0


@dataclass(frozen=True)
class SubgaussianFit:
    """Condition C.1 with constants a, b for `inputs` unit vectors and `directions` v."""

    a: float
    b: float
    dimension: int
    inputs: int
    directions: int

    def failure(self, t: float) -> float:
        """m·k·a·exp(-b t² d_1), at most 1: that some input has a |⟨x, v⟩| above t for some v."""
        if math.isinf(self.b):  # every projection is 0
            return 0.0
        return math.exp(min(0.0, self._nats - self._rate * t * t))

    def threshold(self, failure: float) -> float:
        """The smallest t, at most 1, whose `failure` is at most this."""
        nats = max(0.0, self._nats - math.log(failure))
        return min(1.0, math.sqrt(nats / self._rate)) if self._rate > 0.0 else 1.0

    @property
    def _nats(self) -> float:
        return math.log(self.a) + math.log(self.inputs * self.directions)

    @property
    def _rate(self) -> float:
        return self.b * self.dimension


def fit_subgaussian(
    projections: NDArray[np.float64], dimension: int, a: float = 2.0
) -> SubgaussianFit:
    """The largest b for which the inequality holds on the sample, for every direction and at every
    observed t.

    projections: |⟨x, v⟩| of m unit inputs on k unit directions, [m, k]. In each column the share of
    inputs with at least the i-th largest value t_i is i/m, so b ≤ ln(a·m/i)/(t_i² d_1). With this b
    `threshold` is at least the largest projection, so Lemma C.1 holds on the sample itself. ∞ where
    every projection is 0.
    """
    m, k = projections.shape
    nats = math.log(a) + np.log(m / np.arange(m, 0, -1))[:, None]  # of the smallest value first
    squares = np.square(np.sort(projections, axis=0)) * dimension
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(squares > 0, nats / squares, np.inf)
    return SubgaussianFit(a, float(limits.min()), dimension, m, k)


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
    some, _ = chosen_rows(sample, _ROWS, seed, "Condition C.1")
    moved = {}
    for node in net.affine_layers:
        difference = pruned.nodes[node.index].affine.operator.minus(node.affine.operator)
        if bool(difference.weight.any()):
            moved[node.index] = difference
    looks = {index: right_singular_vectors(one) for index, one in moved.items()}
    projections, stretches = _project(net, some, moved, looks)
    rows: list[tuple[float, float, float, float, float, int]] = []
    for node in net.affine_layers:
        seen = projections.get(node.index)
        if seen is None or not len(seen):  # nothing moved
            rows.append((1.0 if constants is None else constants[1], 1.0, 1.0, 0.0, 0.0, 0))
            continue
        size, outputs = node.affine.operator.input_size, node.affine.operator.output_size
        # the lemma is about all inputs and directions
        every = size, len(sample), min(outputs, size)
        if constants is None:
            fit = SubgaussianFit(_A, fit_subgaussian(seen, size, _A).b, *every)
            t = fit.threshold(delta / len(moved))
        else:
            fit, t = SubgaussianFit(*constants[:2], *every), constants[2]
        stretch = float(stretches[node.index].max()) / moved[node.index].spectral()
        factor = kappa(outputs, size, t)
        failure = fit.failure(t) if factor < 1 else 0.0  # ‖Δx‖ ≤ ‖Δ‖₂‖x‖ always
        rows.append((fit.b, t, factor, stretch, failure, seen.shape[1]))
    b, t_all, factors, stretched, failures, directions = zip(*rows, strict=True)
    return Subgaussian(
        how="fitted to the layers' inputs" if constants is None else "given",
        a=_A if constants is None else constants[0],
        b=b,
        t=t_all,
        kappa=factors,
        seen=stretched,
        product=math.prod(factors),
        failure=min(1.0, math.fsum(failures)),
        rows=len(some),
        directions=directions,
    )


def right_singular_vectors(operator: Operator) -> Tensor:
    """[k, input_size], orthonormal rows: all of a small map, else the leading 64."""
    least = min(operator.input_size, operator.output_size)
    if operator.weight.ndim == 2 and least <= _EXACT:
        vectors: Tensor = torch.linalg.svd(operator.weight.double(), full_matrices=False)[2]
        return vectors
    count, size = min(_LEADING, least), operator.output_size
    waves = torch.outer(torch.arange(1.0, count + 1), torch.arange(size) + 0.5).double()
    images = torch.cos(math.pi * waves / size).reshape(count, *operator.output_shape)  # any start
    for _ in range(1 + _ITERATIONS):
        basis = torch.linalg.qr(operator.adjoint(images).flatten(1).mT)[0].mT.contiguous()
        images = operator.apply(basis.reshape(-1, *operator.input_shape))
    found: Tensor = torch.linalg.svd(images.flatten(1), full_matrices=False)[0].mT @ basis
    return found


def _project(
    net: Network, some: Dataset, moved: dict[int, Operator], looks: dict[int, Tensor]
) -> tuple[dict[int, Values], dict[int, Values]]:
    """Of every layer that moved: |⟨x, v⟩| of inputs x of length 1, [rows, k], and ‖Δx‖, [rows]."""

    @torch.no_grad()
    def work(x: Tensor, rows: slice) -> dict[tuple[str, int], Tensor]:  # noqa: ARG001
        found = {}

        def observe(node: Node, stage: Stage, values: Tensor) -> None:
            if stage != "input" or node.index not in moved:
                return
            flat = values.double().flatten(1)
            unit = flat / lengths(flat)[:, None]  # NaN where the input is 0
            stretched = moved[node.index].apply(unit.reshape(values.shape))
            found["along", node.index] = (unit @ looks[node.index].mT).abs()
            found["stretch", node.index] = lengths(stretched)

        net.run(x, observe)
        return found

    merged = (
        stream(net, some, min(128, rows_at_a_time()), work, "inputs of layers") if moved else {}
    )
    there = {index: ~np.isnan(merged["stretch", index]) for index in moved}
    projections, stretches = (
        {index: merged[what, index][rows] for index, rows in there.items()}
        for what in ("along", "stretch")
    )
    return projections, stretches
