"""The density of a large map's singular values, by stochastic Lanczos quadrature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from cushion.nets.operators.norms import Gram, scale_to_one
from cushion.nets.operators.operator import Operator

PROBES, STEPS = 16, 96  # random vectors, and Lanczos steps from each
_ZERO = 1e-6  # a node below this part of the largest σ² is an eigenvalue zero in float32

Values = NDArray[np.float64]


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
