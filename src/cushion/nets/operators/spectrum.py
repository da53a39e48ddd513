"""The singular values of a linear map: all of them where that is affordable, the largest, or their
density, by stochastic Lanczos quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.operators.conv2d import Conv2d
from cushion.nets.operators.matrices import Diagonal, Linear
from cushion.nets.operators.norms import Gram, scale_to_one, square
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.positionwise import Positionwise

# rows or columns, whichever are fewer, up to which all values are computed (about 12 s on a core)
EXACT_SIDE = 4096
SVD_SIDE = 2048  # up to which they come from an SVD and not from the Gram matrix
_ENTRIES = 1 << 25  # of a matrix that may be written out (256 MB)
PROBES, STEPS = 16, 96  # random vectors, and Lanczos steps from each
_ZERO = 1e-6  # a node below this part of the largest σ² is an eigenvalue zero in float32

Values = NDArray[np.float64]
# maps never change, and several measures ask
_KNOWN: WeakKeyDictionary[Operator, Values] = WeakKeyDictionary()


def is_exact(operator: Operator) -> bool:
    """Whether `singular_values` takes this map."""
    return isinstance(operator, Diagonal) or _cost(_blocks(operator)[0]) <= EXACT_SIDE**3


def singular_values(operator: Operator) -> Values:
    """The min(input_size, output_size) singular values of the map, largest first, zeros too.

    Diagonal maps in closed form; a convolution falls apart into its groups, and with a 1x1 kernel
    into its positions. Blocks whose smaller sides, cubed, sum to at most 2048³ take an SVD: every
    value is right to about 1e-14·σ₁. Larger ones take the eigenvalues of the Gram matrix, so that
    σ² and not σ has that error: values above 1e-3·σ₁ are right to a relative 1e-8, values below
    about 1e-7·σ₁ are lost in rounding.
    """
    if not is_exact(operator):
        said = "this map is too large for all of its singular values"
        raise BadInput(f"{said}; estimate their density instead")
    if operator not in _KNOWN:
        _KNOWN[operator] = _all_values(operator)
        _KNOWN[operator].flags.writeable = False
    return _KNOWN[operator]


def _all_values(operator: Operator) -> Values:
    count = min(operator.input_size, operator.output_size)
    if isinstance(operator, Diagonal):
        each = operator.weight.detach().to(torch.float64).abs()
        found = each.repeat_interleave(count // len(each))
    else:
        blocks, copies = _blocks(operator)
        by_svd = _cost(blocks) <= SVD_SIDE**3
        parts = [(_dense_values if by_svd and _fits(b) else _gram_values)(b) for b in blocks]
        found = torch.cat(parts).repeat_interleave(copies)
    values = np.zeros(count)
    ordered = np.sort(found.cpu().numpy())[::-1]
    values[: len(ordered)] = ordered
    return values


def _blocks(operator: Operator) -> tuple[list[Operator], int]:
    """Maps on separate inputs and outputs that make up A, and how often each occurs."""
    if isinstance(operator, Positionwise):
        return [operator.each_position], operator.positions
    if not isinstance(operator, Conv2d):
        return [operator], 1
    weights = operator.weight.detach().chunk(operator.groups)
    _, height, width = operator.input_shape
    if operator.weight.shape[2:] != (1, 1):
        apart = replace(operator, input_shape=(operator.weight.shape[1], height, width), groups=1)
        return [apart.with_weight(weight) for weight in weights], 1
    # One matrix per position at which an output reads the image and not the padding.
    one = replace(operator, weight=torch.ones(1, 1, 1, 1), input_shape=(1, height, width), groups=1)
    positions = int(one.apply(torch.ones(1, 1, height, width)).sum())
    return [Linear(weight[:, :, 0, 0]) for weight in weights], positions


def _cost(blocks: list[Operator]) -> int:
    return sum(min(block.input_size, block.output_size) ** 3 for block in blocks)


def _fits(block: Operator) -> bool:
    return block.input_size * block.output_size <= _ENTRIES


def _dense_values(block: Operator) -> Tensor:
    matrix = block.to(torch.float64).dense()
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.mT
    values: Tensor = torch.linalg.svdvals(torch.linalg.qr(tall, mode="r").R)
    return values


def _gram_values(block: Operator) -> Tensor:
    gram = Gram(block, torch.float64)
    if _fits(block):
        matrix = block.to(torch.float64).dense()
        product = square(matrix if len(matrix) == gram.size else matrix.mT)
    else:
        step = max(1, _ENTRIES // max(block.input_size, block.output_size) // 16)
        parts = np.split(np.eye(gram.size), range(step, gram.size, step))
        product = torch.from_numpy(np.concatenate([gram(part) for part in parts]))
    values: Tensor = torch.linalg.eigvalsh(product).clamp_min(0.0).sqrt()
    return values


def top_values(operator: Operator, count: int) -> Values:
    """The `count` largest singular values (fewer than the map has), largest first, from below.

    Lanczos to residuals of 1e-6·σ², then Rayleigh-Ritz in float64: far closer than that where
    values are apart. Unlike for the norm alone there is no second start: a value that occurs
    several times may be listed less often.
    """
    scaled, unit = scale_to_one(operator)
    fast, exact = Gram(scaled, torch.float32), Gram(scaled, torch.float64)
    start = np.random.default_rng(0).standard_normal(fast.size)

    def eigenvectors(gram: Gram, restarts: int | None) -> Values:
        linear = LinearOperator((gram.size, gram.size), matvec=gram, dtype=np.float64)
        _, found = eigsh(linear, k=count, which="LA", v0=start, tol=1e-6, maxiter=restarts)
        return np.asarray(found)

    try:
        vectors = eigenvectors(fast, 300)
    except ArpackNoConvergence:
        vectors = eigenvectors(exact, None)
    images = exact.first(exact.maps(torch.from_numpy(np.linalg.qr(vectors)[0].T.copy())))
    return unit * np.asarray(torch.linalg.svdvals(images.flatten(1)).cpu())


@dataclass(frozen=True)
class GaussRule:
    """Singular values and weights (summing to 1) that stand for the spectrum as one probe sees it.

    `closed`: the Krylov space was invariant, so the rule is the probe's own spectrum and not a
    quadrature of it.
    """

    values: Values
    weights: Values
    closed: bool

    def below(self, points: Values) -> Values:
        """The part of the spectrum below each point.

        By the Chebyshev-Markov-Stieltjes inequalities the part below a node lies between the sums
        of the weights without and with that node's own: take the middle, and a straight line from
        node to node.
        """
        total = np.cumsum(self.weights)
        if self.closed:
            return np.concatenate([[0.0], total])[np.searchsorted(self.values, points)]
        above_zero = self.values**2 > _ZERO * self.values[-1] ** 2
        middle = total - np.where(above_zero, self.weights / 2, 0.0)
        return np.interp(points, self.values, middle, left=0.0, right=1.0)


@dataclass(frozen=True)
class Density:
    """The spectrum of a map of `count` singular values, as `len(rules)` random probes see it.

    `coarse` holds the same probes after three quarters of the steps: what still changed in the last
    quarter is the measure of the error of the quadrature, which averaging over probes does not
    remove.
    """

    count: int
    rules: tuple[GaussRule, ...]
    coarse: tuple[GaussRule, ...]

    def histogram(self, edges: Values) -> tuple[Values, Values]:
        """Expected singular values in each bin, with standard errors; the last takes the rest."""

        def counts(rules: tuple[GaussRule, ...]) -> Values:
            inner = np.array([rule.below(edges[1:-1]) for rule in rules])
            return self.count * np.diff(inner, axis=1, prepend=0.0, append=1.0)

        fine = counts(self.rules)
        of_probes = fine.std(0, ddof=1) / math.sqrt(len(fine))
        of_quadrature = np.abs(fine.mean(0) - counts(self.coarse).mean(0))
        return fine.mean(0), np.hypot(of_probes, of_quadrature)

    def quantiles(self, levels: tuple[float, ...]) -> list[float]:
        """Values with about these fractions of the singular values below them."""
        points = np.unique(np.concatenate([rule.values for rule in self.rules]))
        share = np.mean([rule.below(points) for rule in self.rules], 0)
        return [float(value) for value in np.interp(levels, share, points)]

    def rank_of_energy(self, part: float) -> int:
        """The number of largest singular values that hold this part of ‖A‖_F²."""
        values = np.concatenate([rule.values for rule in self.rules])
        weights = np.concatenate([rule.weights for rule in self.rules]) / len(self.rules)
        order = np.argsort(values)[::-1]
        energy = np.cumsum(np.append(0.0, values[order] ** 2 * weights[order]))
        if energy[-1] == 0.0:
            return 0
        share = np.interp(part * energy[-1], energy, np.cumsum(np.append(0.0, weights[order])))
        return min(self.count, math.ceil(self.count * float(share)))


def estimate_density(
    operator: Operator, *, seed: int, probes: int = PROBES, steps: int = STEPS
) -> Density:
    """Stochastic Lanczos quadrature (Ubaru, Chen & Saad 2017) on the smaller Gram matrix.

    Each probe is a vector of random signs; Lanczos from it with full reorthogonalisation, in
    float32 products, gives the Gauss rule of the spectral measure that it sees, and the mean over
    probes has the right expectation.
    """
    scaled, unit = scale_to_one(operator)
    gram, rng = Gram(scaled, torch.float32), np.random.default_rng(seed)
    fine, coarse = [], []
    for _ in range(probes):
        start = rng.choice(np.array([-1, 1], np.float32), gram.size)
        diagonal, beside = _lanczos(gram, start, min(steps, gram.size))
        closed = len(diagonal) < steps
        fine.append(_rule(diagonal, beside, unit, closed))
        part = len(diagonal) if closed else 3 * steps // 4
        coarse.append(_rule(diagonal[:part], beside[: part - 1], unit, closed))
    return Density(gram.size, tuple(fine), tuple(coarse))


def _lanczos(gram: Gram, start: NDArray[np.float32], steps: int) -> tuple[list[float], list[float]]:
    """The tridiagonal matrix of G in the Krylov space of `start`; shorter if that is invariant."""
    basis = np.empty((steps, len(start)), np.float32)
    basis[0] = start / np.linalg.norm(start)
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(steps):
        rest, so_far = gram(basis[step]), basis[: step + 1]
        inner = so_far @ rest
        rest = rest - inner @ so_far
        # once more: the first pass leaves rounding of the size of what it removed
        rest -= (so_far @ rest) @ so_far
        diagonal.append(float(inner[step]))
        length = float(np.linalg.norm(rest))
        if step + 1 == steps or length <= 1e-5 * max(diagonal):
            break
        beside.append(length)
        basis[step + 1] = rest / length
    return diagonal, beside


def _rule(diagonal: list[float], beside: list[float], unit: float, closed: bool) -> GaussRule:
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside))
    return GaussRule(unit * np.sqrt(np.maximum(nodes, 0.0)), vectors[0] ** 2, closed)
