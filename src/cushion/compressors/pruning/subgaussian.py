"""Condition C.1 of Guha 2023 on the inputs of one layer: P(|⟨x, v⟩| ≥ t) ≤ a·exp(-b t² d_1), x
scaled to length 1.

The paper's condition is about one side and "some" v; Lemma C.1 needs both sides, and each of the k
right singular vectors of the layer's Δ that has a singular value above 0. It then holds for all m
inputs at once but with probability m·k·a·exp(-b t² d_1). The paper leaves out k, and the uniform
law on the circle shows that it may not (a = 1, b = 0.68: κ = 0.99 at t = 0.7 fails always for B =
I, where the paper has 0.52).

d_1 is the number of numbers of x. A b that was fitted to a sample says nothing certain about other
inputs: a measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput


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
        log = math.log(self.a) + math.log(self.inputs * self.directions) - self._rate * t * t
        return math.exp(min(0.0, log))

    def threshold(self, failure: float) -> float:
        """The smallest t, at most 1, whose `failure` is at most this."""
        if not 0.0 < failure < 1.0:
            raise BadInput(f"a failure probability lies strictly between 0 and 1, not {failure}")
        nats = math.log(self.a) + math.log(self.inputs * self.directions) - math.log(failure)
        return min(1.0, math.sqrt(max(0.0, nats) / self._rate)) if self._rate > 0.0 else 1.0

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
    if projections.ndim != 2 or projections.size == 0:
        raise BadInput(
            "the fit of Condition C.1 needs the projections of at least one input on at least one "
            "direction"
        )
    if not (np.isfinite(projections).all() and (projections >= 0).all()):
        raise BadInput("the fit of Condition C.1 needs finite projections, without their signs")
    if not 1.0 <= a < math.inf:  # at t = 0 the probability is 1
        raise BadInput(f"Condition C.1 needs a finite a of at least 1, not {a}")
    m, k = projections.shape
    nats = math.log(a) + np.log(m / np.arange(m, 0, -1))[:, None]  # of the smallest value first
    squares = np.square(np.sort(projections, axis=0)) * dimension
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(squares > 0, nats / squares, np.inf)
    return SubgaussianFit(a, float(limits.min()), dimension, m, k)
