"""Matrix-Project-Conv (Arora 2018, Algorithm 4): a filter a place, all in one random subspace.

With n numbers in the kernel A, a uniformly random subspace S of dimension q = kp and k normal
vectors M for each place,

    M' = √(n/q) · Proj_S M,    Â_l = (1/k) Σ ⟨A, M'⟩ M'.

With an orthonormal basis B [n, q] of S, BᵀM is a standard normal g in R^q, so that

    Â_l = n/(qk) · B G_lᵀ G_l a,    a = Bᵀ vec(A)    (G_l: the k vectors g as rows)

and the q coordinates a of Proj_S A are all that is stored (Lemma 11). E Â_l = A. What the paper
builds on this does not hold: Lemma 12 (the filters are p-wise independent, the M' spherical
normals) is false, because given S all Â_l share the mean (n/q)·Proj_S A; `location_sums` has the
exact correlation. So the k below is the paper's, and its promise (Lemma 13) can only be checked,
not proved.

**The constant Q** in k = Q⌈κ/s⌉² ln²(1/η)/ε² that the proof needs, Lemma 12 granted. The proof
takes k = 144 Q'²⌈κ/s⌉²p²/ε², where E‖X_l - E X_l‖^a ≤ (Q'τ‖A‖_F·a/√k)^a for whole a ≥ 2, with X_l =
(U_l ⊗ V_l) × Â_l and τ = ‖U_l‖_F‖V_l‖_F. With spherical normals X_l - E X_l is a quadratic form of
theirs without constant part, with values in a Hilbert space, so its L_a norm is at most a - 1 times
its L_2 norm (hypercontractivity, Nelson 1973), and E‖X_l - E X_l‖² = (τ²‖A‖² + ‖E X_l‖²)/k ≤
2τ²‖A‖²/k. So Q' = √2 is admissible, and Q = 288·p²/ln²(1/η) with p = ⌈log2(1/η)⌉ raised to an even
number: 599.4 or more.

**The basis.** S is spanned by the columns of an [n, q] matrix Γ of seeded normals, and B = Γ·T with
T upper triangular from the Cholesky factor of ΓᵀΓ, taken twice so that ‖BᵀB - I‖ is rounding only.
Γ is generated in blocks of rows and never held: memory O(q² + places·n), time O(n·q²). `helper`
"srht" is a variant: S is spanned by q rows of a randomly signed Hadamard matrix
(`operators.hadamard`; the kernel padded to N numbers, N/q instead of n/q), so that nothing is
factorised. All library products run in one thread, so the filters do not depend on the thread
count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import torch
from torch import Tensor

from cushion.compressors.projection.matrix_project import HELPERS, Helper, helper_purpose
from cushion.compressors.storage.stored import (
    Fields,
    Numbers,
    Parts,
    Shape,
    StoredLayer,
    Values,
    less_start,
    one_thread,
)
from cushion.errors import BadInput
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, LocalConv2d, Operator
from cushion.nets.operators.gaussian_projection import gaussian_rows
from cushion.nets.operators.hadamard import padded_size, srht_coefficients, srht_reconstruction

_BLOCK = 1 << 20  # normals generated at a time
_MOST_FILTERS = 1 << 28  # numbers of the filters of all places of one layer


@dataclass(frozen=True, eq=False)
class Located(StoredLayer, kind="located", number=4, field_count=4):
    """A convolution's coordinates in S, from which the filters of all places come back.

    `shape` is the kernel's; `weight` answers [places, *shape]. `places` follows from the
    architecture, but the filters cannot be counted without it, so it is among the fields.
    """

    not_exact: ClassVar[str] = (
        "it has a different filter at each place of its output, and a certificate's have one"
    )
    coordinates: Numbers  # [k·p]
    shape: Shape
    k: int
    p: int
    places: int
    helper: Helper
    place: int

    @property
    def purpose(self) -> str:
        """Names this layer's part of the helper string."""
        return helper_purpose(self.place)

    @property
    def fields(self) -> Fields:
        return HELPERS.index(self.helper), self.k, self.p, self.places

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        helper, k, p, places = fields
        if helper >= len(HELPERS) or HELPERS[helper] == "signs" or places < 1:
            raise BadInput(f"filters have no helper number {helper} with {places} places")
        return ((_dimension(math.prod(shape), k, p),),)

    @classmethod
    def check_fit(cls, fields: Fields, layer: Affine) -> None:
        places = math.prod(layer.operator.output_shape[1:])
        if fields[3] != places or places * layer.operator.parameters > _MOST_FILTERS:
            raise BadInput(f"filters for {fields[3]} places are not this layer's, or too many")

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
        helper, k, p, places = fields
        return cls(numbers[0], shape, k, p, places, HELPERS[helper], place)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:
        _, k, p, places = map(float, fields)
        q = k * p
        return weights * q * (q / 4 + 300.0) + 300.0 * places * k * q + places * weights * q

    def weight(self, seed: int) -> Values:
        """The filters, float64 [places, *shape]."""
        a, places = torch.from_numpy(self.coordinates.values), range(self.places)
        n, q, purpose = math.prod(self.shape), len(a), self.purpose
        with one_thread():
            mixed = [_mixed(a, self.k, seed, f"{purpose} filters {place}") for place in places]
            if self.helper == "srht":
                # (N/q) B m_l, with B = [M_1, ..., M_q]/√N and (1/q) Σ c_t M_t what a decoder of
                # Hadamard rows answers
                unit = math.sqrt(padded_size(n))
                rows = [srht_reconstruction(m * unit, self.shape, seed, purpose) for m in mixed]
                return torch.stack(rows).numpy()
            # (n/q) B m_l for every m_l = G_lᵀG_l a / k
            filters = torch.empty((self.places, n), dtype=torch.float64)
            across = _triangle(n, q, seed, purpose) @ torch.stack(mixed).T * (n / q)
            for entries, block in _normals(n, q, seed, purpose):
                filters[:, entries] = (block @ across).T
            return filters.reshape(self.places, *self.shape).numpy()

    def operator(self, original: Operator, seed: int, start: Operator | None = None) -> Operator:
        """The compressed map, in the original's dtype; `start`'s kernel is added at every place."""
        filters = torch.from_numpy(self.weight(seed))
        if start is not None:
            filters += start.weight.detach().to(torch.float64)
        return LocalConv2d.of(_convolution(original), filters.to(original.weight.dtype))


def project_filters(
    original: Operator,
    k: int,
    p: int,
    bits: int,
    seed: int,
    place: int,
    helper: Helper = "gaussian",
    start: Operator | None = None,
) -> Located:
    """The kernel (less `start`'s) as k·p coordinates in S of at most `bits` bits (Lemma 11)."""
    convolution = _convolution(original)
    kernel = less_start(convolution, start)
    n = kernel.numel()
    q = _dimension(n, k, p)
    purpose, places = helper_purpose(place), math.prod(convolution.output_shape[1:])
    if helper == "srht":
        a = srht_coefficients(kernel, q, seed, purpose).numpy() / math.sqrt(padded_size(n))
    else:
        with one_thread():
            a = _coordinates(kernel.reshape(-1), q, seed, purpose).numpy()
    return Located(Numbers.fitted(a, bits), tuple(kernel.shape), k, p, places, helper, place)


def paper_p(eta: float) -> int:
    """log2(1/η), rounded up; at least 1. (The paper writes log; 2^-p = η in its proof says which.)

    >>> paper_p(0.01)
    7
    """
    return max(1, math.ceil(-math.log2(eta)))


def epsilon_of(
    k: int, eta: float, kernel: tuple[int, int], stride: tuple[int, int], constant: float = 1.0
) -> float:
    """The ε that a k stands for: √Q⌈κ/s⌉ ln(1/η)/√k, since Algorithm 4 takes k = Q⌈κ/s⌉²
    ln²(1/η)/ε².

    ⌈κ/s⌉² is ⌈K_h/s_h⌉·⌈K_w/s_w⌉ for kernels that are not square, the number of places that read
    one number of the input, at most; the count is that of kernels without dilation.
    """
    overlap = math.prod(-(-taps // step) for taps, step in zip(kernel, stride, strict=True))
    return math.sqrt(constant * overlap / k) * -math.log(eta)


def _dimension(n: int, k: int, p: int) -> int:
    """k·p, that of S (Lemma 11): nothing is compressed where it reaches the kernel's own size."""
    if k < 1 or p < 1:
        raise BadInput(f"filters need k and p of at least 1, not k = {k} and p = {p}")
    if k * p > n:
        raise BadInput(f"k·p = {k}·{p} numbers are more than the kernel's own {n}; use a smaller k")
    return k * p


def _convolution(operator: Operator) -> Conv2d:
    if not isinstance(operator, Conv2d):
        raise BadInput("conv-project takes convolutions only; use matrix-project for a dense layer")
    if operator.groups != 1:
        raise BadInput(f"conv-project takes convolutions of one group, not {operator.groups}")
    return operator


def _mixed(a: Tensor, k: int, seed: int, purpose: str) -> Tensor:
    """GᵀG a / k for the k normal vectors of one place: [q]."""
    q, total = len(a), torch.zeros_like(a)
    step = max(1, _BLOCK // q)
    for first in range(0, k, step):
        G = torch.from_numpy(gaussian_rows(q, first, min(step, k - first), seed, purpose))
        total += G.T @ (G @ a)
    return total / k


def _coordinates(kernel: Tensor, q: int, seed: int, purpose: str) -> Tensor:
    """Bᵀ vec(A): [q]."""
    total = torch.zeros(q, dtype=torch.float64)
    for entries, block in _normals(len(kernel), q, seed, purpose):
        total += block.T @ kernel[entries]
    return _triangle(len(kernel), q, seed, purpose).T @ total


@lru_cache(maxsize=1)  # a layer is compressed and then rebuilt
def _triangle(n: int, q: int, seed: int, purpose: str) -> Tensor:
    """The upper triangular T for which Γ T has orthonormal columns: [q, q]."""
    triangle: Tensor | None = None
    identity = torch.eye(q, dtype=torch.float64)
    for _ in range(2):  # what rounding left of the first factorisation, the second removes
        gram = torch.zeros_like(identity)
        for _, block in _normals(n, q, seed, purpose):
            part = block if triangle is None else block @ triangle
            gram += part.T @ part
        lower, failed = torch.linalg.cholesky_ex(gram)
        if failed:
            raise BadInput(f"the random subspace of {purpose} is degenerate; choose another seed")
        inverse = torch.linalg.solve_triangular(lower.mT, identity, upper=True)
        triangle = inverse if triangle is None else triangle @ inverse
    assert triangle is not None
    return triangle


def _normals(n: int, q: int, seed: int, purpose: str) -> Iterator[tuple[slice, Tensor]]:
    """Γ in blocks of rows: entries s of the kernel, and their rows of Γ [entries, q]."""
    step = max(1, _BLOCK // q)
    for first in range(0, n, step):
        count = min(step, n - first)
        rows = gaussian_rows(q, first, count, seed, f"{purpose} subspace")
        yield slice(first, first + count), torch.from_numpy(rows)
