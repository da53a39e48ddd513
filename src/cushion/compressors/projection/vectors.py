"""A linear classifier as few numbers: Vector-Compress and Vector-Project (Arora 2018, Algorithms 2
and 3, Lemmas 4-8).

Both replace a vector c by ĉ with |⟨ĉ - c, u⟩| ≤ γ for any fixed |u| ≤ 1 but for a probability η.
Only |c|/γ matters, so c need not be normalised: below, γ is the error that is allowed on inputs of
length 1, and the paper's γ is γ/|c|.

**Vector-Compress** keeps coordinate i with probability p_i = min(1, 2c_i²/(ηγ²)), as c_i/p_i:
unbiased, with variance c_i²(1/p_i - 1) ≤ ηγ²/2. Chebyshev's inequality gives a failure of at most
η/2, half of what is asked (the paper's own factor 2, which the rates in `theorems.linear_rates`
use); at most 2|c|²/(ηγ²) coordinates are kept on average.

On a grid (Lemma 5), for h coordinates: those with |c_i| < γ/(4√h) are dropped (they move ⟨c, u⟩ by
less than γ/4), the rest go through Vector-Compress with γ/2, and rounding to multiples of at most
γ/(2√h) moves the result by at most γ/4. The lemma drops by the size of the outcome instead: where
p_i < 1 a kept c̃_i is ηγ²/(8c_i), so |c_i| ≤ γ/(4√h) is the same as |c̃_i| ≥ ηγ√h/2, and not ≥
2ηγ√h as printed. But with either threshold the printed rule also drops coordinates that are certain
to be kept (p_i = 1, c̃_i = c_i) and long: for c = e_1 and ηγ√h < ½ it returns 0. So c decides here.

**Vector-Project** stores z_t = ⟨v_t, c⟩ for k seeded vectors; ĉ = (1/k) Σ z_t v_t. With ε =
γ/(2|c|) < ½ and k ≥ ln(4/η)/(ε²/4 - ε³/6), the squared lengths of c/|c| ± u/|u| under (1/√k)Vᵀ are
kept to a relative ε but for a probability η (Johnson-Lindenstrauss; normal or sign vectors). Then,
by polarisation, |⟨ĉ - c, u⟩| ≤ γ/2, and by the parallelogram law |Vᵀu|² ≤ 2k(1 + ε) ≤ 3k.
*Rounding*: if every z_t moves by r_t, |r_t| ≤ s/2, then ⟨ĉ, u⟩ moves by ⟨r, Vᵀu⟩/k ≤ (s/2)|Vᵀu|/√k
≤ (s/2)√3, whatever made r: a step s ≤ γ/2 costs less than γ/2, in the same event. The paper takes
γ/(2√(hk)) and |V|₂ ≤ 2√h. That norm is near √h + √k and so exceeds 2√h where k > h, yet its
conclusion stands: |r| ≤ √k·s/2 gives |V|₂·γ/(4k√h) ≈ (γ/4)(1/k + 1/√(hk)) ≤ γ/2 for all u at once.
It is finer than one u needs by √(hk). `helper` "srht" is a variant without this tail bound; at k =
N (`hadamard.padded_size`) it loses nothing but rounding.

**A classifier** has one vector a class, with the bias as the coordinate of a constant input 1, and
|x| ≤ R. Errors of γ/2 in each score move a margin by at most γ; the classes share η. Two classes
have one vector, the difference of the rows (the paper's setting), which may err by γ itself; it
comes back as the rows (-d/2, d/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.projection.matrix_project import (
    Helper,
    ProjectedRows,
    Sparse,
    Start,
    coefficients,
    helper_purpose,
    homogeneous,
)
from cushion.compressors.storage.stored import Numbers, Values, grid_within
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators.hadamard import padded_size
from cushion.nets.operators.sign_projection import sign_projection_k


def vector_compress(c: Values, gamma: float, eta: float, seed: int, purpose: str) -> Values:
    """ĉ [h], mostly zero (Arora 2018, Algorithm 2, with probabilities above 1 clipped): E ĉ = c.

    Coin i compares word i of `counter.stream(purpose, seed, ...)`, as a number in [0, 1), with p_i.
    """
    _check(gamma, eta)
    chances = np.minimum(1.0, np.square(c / gamma) * (2.0 / eta))
    coins = (stream(purpose, seed, c.size) >> np.uint64(11)) * 2.0**-53
    return np.divide(c, chances, out=np.zeros(c.size), where=coins < chances)


def vector_compress_on_grid(
    c: Values, gamma: float, eta: float, seed: int, purpose: str
) -> Numbers:
    """ĉ [h], with P[|⟨ĉ - c, u⟩| > γ] ≤ η/2 for any fixed |u| ≤ 1 (Lemma 5, corrected)."""
    short = np.abs(c) < gamma / (4.0 * math.sqrt(c.size))
    sampled = vector_compress(np.where(short, 0.0, c), gamma / 2.0, eta, seed, purpose)
    return Numbers.rounded(sampled, grid_within(gamma / (2.0 * math.sqrt(c.size))))


def vector_project_k(gamma: float, eta: float) -> int:
    """The least whole k ≥ 16 ln(4/η)/(γ²(1 - γ/3)) for |c| ≤ 1 and 0 < γ ≤ 1: Matrix-Project's
    count at ε = γ/2.

    The paper's 16 ln(1/η)/γ² is enough for a failure of η in practice (u = c is exactly a χ² tail),
    but not always: at γ = 1 and η = 1e-8 that tail is 5.6e-8.

    >>> vector_project_k(0.1, 0.01)
    9917
    """
    if not 0.0 < gamma <= 1.0:
        raise BadInput(f"a unit vector's error γ must be above 0 and at most 1, not {gamma:g}")
    return sign_projection_k(gamma / 2.0, eta)


def vector_project(
    c: Values, gamma: float, k: int, seed: int, purpose: str, helper: Helper = "gaussian"
) -> Numbers:
    """z_1, ..., z_k, rounded to multiples of at most γ/2 (Arora 2018, Algorithm 3); `Projected`
    turns them into ĉ.

    P[|⟨ĉ - c, u⟩| > γ] ≤ η for any fixed |u| ≤ 1 if k ≥ vector_project_k(min(1, γ/|c|), η) and the
    vectors are normal or signs; rounding alone costs at most (γ/4)·√3 of it (above).
    """
    found = coefficients(torch.from_numpy(c), k, seed, purpose, helper)
    return Numbers.rounded(found, grid_within(gamma / 2.0))


@dataclass(frozen=True, eq=False)
class LinearTask:
    """A classifier whose scores may err by so little that, but for a probability η, a given example
    of |x| ≤ `radius` keeps its label if its margin exceeds γ.

    weight: [classes, h], bias: [classes]. With `start` the vectors are what training added to it,
    and it is not stored: give it to `classifier` again.
    """

    weight: Tensor
    bias: Tensor | None
    start: Start | None
    gamma: float
    eta: float
    radius: float  # of the sample, without the constant input that a bias is read by

    def __post_init__(self) -> None:
        _check(self.gamma, self.eta)
        if not 0.0 <= self.radius < math.inf or self.longest == 0.0:
            raise BadInput(f"the longest input must have a positive length, not {self.radius:g}")
        shape = tuple(self.weight.shape)
        if len(shape) != 2 or shape[0] < 2:
            raise BadInput(f"a linear classifier has one layer of 2 classes or more, not {shape}")
        if self.start is not None and tuple(self.start[0].shape) != shape:
            raise BadInput(f"the initialisation of a layer {shape} must have its shape")
        if not np.isfinite(self.vectors).all():
            raise BadInput("the weights of the linear classifier must be finite numbers")

    @cached_property
    def vectors(self) -> Values:
        """What is stored: [1, coordinates] for two classes, else [classes, coordinates]."""
        has_bias = self.bias is not None
        rows = homogeneous(self.weight, self.bias, has_bias=has_bias)
        if self.start is not None:
            rows = rows - homogeneous(*self.start, has_bias=has_bias)
        return rows[1:] - rows[:1] if len(rows) == 2 else rows

    @property
    def coordinates(self) -> int:
        """Of a vector, that of the bias included."""
        return int(self.vectors.shape[1])

    @property
    def norm(self) -> float:
        """S: of the longest vector."""
        return float(np.sqrt(np.square(self.vectors).sum(axis=1)).max())

    @property
    def longest(self) -> float:
        """R: the longest input, its constant 1 included where there is a bias."""
        return self.radius if self.bias is None else math.hypot(self.radius, 1.0)

    @property
    def allowance(self) -> float:
        """What a vector may err on an input of length 1: γ/R for two classes, else γ/(2R)."""
        return self.gamma / (self.longest if len(self.weight) == 2 else 2.0 * self.longest)

    @property
    def share(self) -> float:
        """A vector's share of η."""
        return self.eta / len(self.vectors)

    @property
    def unit_gamma(self) -> float:
        """The paper's γ, for unit vectors and inputs; above 1 nothing need be stored at all."""
        return min(1.0, self.allowance / self.norm) if self.norm > 0.0 else 1.0

    @property
    def projections(self) -> int:
        """The k that Vector-Project needs, for all vectors alike: they share v_1, ..., v_k."""
        return vector_project_k(self.unit_gamma, self.share)

    def sparse(self, seed: int, place: int) -> Sparse:
        """By Vector-Compress."""
        setting = self.allowance, self.share, seed
        found = [
            vector_compress_on_grid(row, *setting, f"vector compress {place} {number}")
            for number, row in enumerate(self.vectors)
        ]
        return Sparse(_stacked(found), tuple(self.weight.shape), self.bias is not None)

    def projected(self, k: int | None, helper: Helper, seed: int, place: int) -> ProjectedRows:
        """By Vector-Project; with a k of one's own nothing is promised."""
        if k is None:
            k = self.projections
            if helper == "srht":
                k = min(k, padded_size(self.coordinates))  # all there are: exact
        setting = self.allowance, k, seed, helper_purpose(place), helper
        rows = [vector_project(row, *setting) for row in self.vectors]
        shape, has_bias = tuple(self.weight.shape), self.bias is not None
        return ProjectedRows(_stacked(rows), shape, has_bias, helper, place)


def _check(gamma: float, eta: float) -> None:
    if not 0.0 < gamma < math.inf:
        raise BadInput(f"the margin γ must be a positive number, not {gamma:g}")
    if not 0.0 < eta < 1.0:
        raise BadInput(f"the failure probability η must lie strictly between 0 and 1, not {eta:g}")


def _stacked(parts: list[Numbers]) -> Numbers:
    return Numbers(np.stack([part.integers for part in parts]), parts[0].exponent)
