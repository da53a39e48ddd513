"""Truncated singular value decompositions (Arora 2018, Lemma 1): a layer as two thin matrices.

Lemma 1: dropping the singular values below δ‖A‖₂ leaves ‖Â - A‖₂ ≤ δ‖A‖₂ and a rank of at most
‖A‖_F²/(δ²‖A‖₂²). Here ‖·‖₂ is always that of the true map. A convolution can be truncated in two
ways: its kernel as the matrix [out, in·taps] (the result is a convolution again, of r channels and
then 1x1), where no singular value of the true map is a singular value of that matrix, so that the
rank is searched for; or the true map itself (the result has no kernel any more), which stores fewer
numbers only where the feature map is hardly larger than the kernel.

Rounding. L = U√Σ and R = √ΣVᵀ are put on one grid of step s. ‖L̃R̃ - LR‖₂ ≤ ‖E_L‖‖R‖ + ‖L‖‖E_R‖ +
‖E_L‖‖E_R‖ with ‖E‖_F ≤ (s/2)·√(numbers): truncation gets 7/8 of δ‖A‖₂ and rounding the rest, with a
step found from this. That step is far too cautious, since roundings hardly ever line up; so it is
doubled as long as the measured ‖Â - A‖₂ allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import takewhile
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.sources import Product
from cushion.compressors.storage.exact_layers import ExactWeight
from cushion.compressors.storage.stored import (
    Fields,
    Kept,
    Numbers,
    Parts,
    Shape,
    StoredLayer,
    Values,
    grid_within,
    less_start,
    one_thread,
)
from cushion.errors import BadInput
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, FlatMap, Linear, Operator

_TRUNCATION = 0.875  # of the allowed error; the rest is for rounding
_HALVINGS = 4  # of that step, where the net's dtype spoils it
# of the grid's step that are tried: the proof's grid is some hundred times too fine
_DOUBLINGS = 24
_BLOCK = 1 << 20  # numbers of a product that are added at a time
MOST_MAP_ENTRIES = 1 << 22  # of a true map that is decomposed: some seconds


@dataclass(frozen=True, eq=False)
class _Factors(StoredLayer):
    """left · right, of rank r."""

    left: Numbers  # [rows, r]
    right: Numbers  # [r, columns]
    shape: Shape  # of the layer's weight

    @classmethod
    def rounded(cls, left: Values, right: Values, shape: Shape, exponent: int) -> Self:
        """Both factors on the grid of 2^exponent."""
        return cls(Numbers.rounded(left, exponent), Numbers.rounded(right, exponent), shape)

    @property
    def rank(self) -> int:
        return int(self.right.integers.shape[0])

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        left, right = numbers
        return cls(left, right, shape)

    def product(self) -> Values:
        """[rows, columns]"""
        # One rank after the other, since a matrix product would depend on the threads of the
        # library; some rows at a time, so that what is added takes little memory.
        total = np.zeros((self.left.integers.shape[0], self.right.integers.shape[1]))
        left, right = self.left.values, self.right.values
        step = max(1, _BLOCK // total.shape[1])
        for start in range(0, len(total), step):
            for column, row in zip(left[start : start + step].T, right, strict=True):
                total[start : start + step] += column[:, None] * row
        return total


@dataclass(frozen=True, eq=False)
class LowRank(_Factors, kind="low-rank", number=1, field_count=1):
    """left · right, reshaped: a matrix of rank r, or a kernel as the matrix [out, in·taps]."""

    @property
    def fields(self) -> Fields:
        return (self.rank,)

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        rows, columns = shape[0], math.prod(shape[1:])
        if not 1 <= fields[0] <= min(rows, columns):
            raise BadInput(f"a matrix of {rows} x {columns} has no truncation to rank {fields[0]}")
        return (rows, fields[0]), (fields[0], columns)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:
        return float(fields[0]) * weights

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.product().reshape(self.shape)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        factors = np.concatenate([part.integers.reshape(-1) for part in self.numbers])
        unit = Fraction(2) ** (self.left.exponent + self.right.exponent)
        return ExactWeight(lambda shift: Product(factors, shape, self.rank, shift), unit)


@dataclass(frozen=True, eq=False)
class LowRankMap(_Factors, kind="low-rank map", number=2, field_count=3):
    """left · right as a map between whole feature maps: the true map of a convolution, truncated.

    `shape` is the kernel's, as for every layer; `weight` answers [output size, input size].
    """

    not_exact: ClassVar[str] = (
        "it is a convolution no more but a map of whole images, which a certificate cannot hold"
    )

    @property
    def fields(self) -> Fields:
        return self.rank, self.left.integers.shape[0], self.right.integers.shape[1]

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:  # noqa: ARG003
        rank, rows, columns = fields
        if not 1 <= rank <= min(rows, columns) or rows * columns > MOST_MAP_ENTRIES:
            raise BadInput(f"a map of {rows} x {columns} has no stored truncation to rank {rank}")
        return (rows, rank), (rank, columns)

    @classmethod
    def check_fit(cls, fields: Fields, layer: Affine) -> None:
        if fields[1:] != (layer.operator.output_size, layer.operator.input_size):
            raise BadInput(f"a map of {fields[1]} x {fields[2]} is not this layer's")

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:  # noqa: ARG003
        return float(fields[0]) * fields[1] * fields[2]

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.product()

    def operator(self, original: Operator, seed: int, start: Operator | None = None) -> Operator:
        weight = torch.from_numpy(self.weight(seed))
        if start is not None:
            weight = weight + start.to(torch.float64).dense()
        sides = original.input_shape, original.output_shape
        return FlatMap(weight.to(original.weight.dtype), *sides)


def to_rank(original: Operator, rank: int, bits: int, start: Operator | None = None) -> StoredLayer:
    """The weight (less `start`'s) as a product of inner dimension `rank`, each number of at most
    `bits` bits.

    Where that would store no fewer numbers than the weight has, the weight itself.
    """
    left, right, values = _kernel_factors(original, start)
    r = max(1, min(rank, len(values)))
    if r * (left.shape[0] + right.shape[1]) >= original.parameters:
        return Kept(Numbers.fitted(less_start(original, start).numpy(), bits))
    left, right = left[:, :r], right[:r]
    both = np.concatenate([left.reshape(-1), right.reshape(-1)])
    exponent = Numbers.fitted(both, bits).exponent
    return LowRank.rounded(left, right, tuple(original.weight.shape), exponent)


def to_accuracy(original: Operator, delta: float, start: Operator | None = None) -> StoredLayer:
    """A layer with ‖Â - A‖₂ ≤ δ‖A‖₂ of the true maps, on the coarsest grid for which that holds.
    `start` is not stored.

    Of a truncated kernel, a truncated map and the weight as it is, the one that stores the fewest
    numbers.
    """
    # which errs by a millionth, and the rounding of the bias needs some
    allowed = 0.999 * delta * original.spectral()
    if allowed == 0.0:
        if start is not None and bool(less_start(original, start).any()):
            raise BadInput("a map of zeros has no accuracy; leave out `from_initialisation`")
        return to_rank(original, 1, 2, start)  # a map of zeros
    drafts = [_truncated_kernel(original, allowed, start)]
    small = original.input_size * original.output_size <= MOST_MAP_ENTRIES
    if isinstance(original, Conv2d) and small:
        drafts.append(_truncated_map(original, allowed, start))
    drafts.append(_as_it_is(original, allowed, start))
    for draft in sorted(drafts, key=lambda draft: draft.numbers):
        layer = _coarsest(draft, original, allowed, start)
        if layer is not None:
            return layer
    raise BadInput(f"no grid stores this layer to an accuracy of {delta:g}; ask for a coarser one")


@dataclass(frozen=True)
class _Draft:
    """What would be stored, how many numbers that is, and a grid that is provably fine enough."""

    numbers: int
    exponent: int
    build: Callable[[int], StoredLayer]


def _coarsest(
    draft: _Draft, original: Operator, allowed: float, start: Operator | None
) -> StoredLayer | None:
    """On the coarsest grid with ‖Â - A‖₂ ≤ allowed, found by doubling the step, with the weight in
    the net's dtype.

    The proof's own grid will do but for that dtype's rounding; where it does not, finer ones are
    tried, then None.
    """
    true_map = cache(lambda: original.to(torch.float64).dense())

    def holds(layer: StoredLayer) -> bool:
        moved = layer.operator(original, 0, start)
        if isinstance(layer, LowRankMap):
            error = moved.with_weight(moved.weight.to(torch.float64) - true_map())
        else:
            error = moved.minus(original)
        return error.spectral() * (1 + 1e-5) <= allowed

    finer = (draft.build(draft.exponent - halvings) for halvings in range(_HALVINGS + 1))
    best = next((layer for layer in finer if holds(layer)), None)
    if best is not None:
        coarser = (draft.build(draft.exponent + doublings) for doublings in range(1, _DOUBLINGS))
        best = [best, *takewhile(holds, coarser)][-1]
    return best


@lru_cache(maxsize=32)  # a curve asks for many ranks of the same layers
def _kernel_factors(original: Operator, start: Operator | None) -> tuple[Values, Values, Values]:
    """Of the kernel as the matrix [out, rest]."""
    return _factors(less_start(original, start).reshape(len(original.weight), -1))


def _factors(matrix: Tensor) -> tuple[Values, Values, Values]:
    """U√Σ, √ΣVᵀ and the singular values, largest first; every run rounds alike."""
    with one_thread():
        u, values, vt = torch.linalg.svd(matrix, full_matrices=False)
    root = values.sqrt()
    return (u * root).numpy(), (root[:, None] * vt).numpy(), values.numpy()


def ranks_for(
    operators: Sequence[Operator], starts: Sequence[Operator | None], budget: int
) -> list[int]:
    """The ranks at which all layers together store at most `budget` numbers, all truncated at one
    level of σ/‖A‖_F.

    Singular values are taken in the order of their share of their kernel's matrix, σ/‖A‖_F. (Lemma
    1 measures them by σ₁, which starves a layer with one dominant direction, such as a first layer
    that a batch-norm was folded into.) A layer whose product reaches the size of its weight is kept
    whole, at that price. Every layer gets a rank of at least 1, whatever the budget.
    """
    costs = [sum(operator.weight.reshape(len(operator.weight), -1).shape) for operator in operators]
    sizes = [operator.parameters for operator in operators]
    ranks = [1] * len(costs)
    spent = sum(map(min, costs, sizes))
    values = [_kernel_factors(*pair)[2] for pair in zip(operators, starts, strict=True)]
    steps = sorted(
        (-one / max(float(np.linalg.norm(own)), 1e-300), at, rank)
        for at, own in enumerate(values)
        for rank, one in enumerate(own[1:].tolist(), 2)
    )
    for _, at, rank in steps:
        more = min(sizes[at], rank * costs[at]) - min(sizes[at], (rank - 1) * costs[at])
        if spent + more > budget:
            break
        spent, ranks[at] = spent + more, rank
    return ranks


def _truncated_kernel(original: Operator, allowed: float, start: Operator | None) -> _Draft:
    left, right, values = _kernel_factors(original, start)
    shape = tuple(original.weight.shape)
    double = original.to(torch.float64)

    def rest(rank: int) -> float:
        """‖·‖₂ of the true map of what a truncation to this rank drops."""
        if rank >= len(values):
            return 0.0
        if isinstance(original, Linear):
            return float(values[rank])
        dropped = torch.from_numpy(left[:, rank:] @ right[rank:]).reshape(shape)
        return double.with_weight(dropped).spectral() * (1 + 1e-6)

    # the least rank lies in (low, high]; the norm falls with the rank, up to rounding
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rest(middle) <= _TRUNCATION * allowed else (middle, high)
    # The kernel's matrix understates the map by at most √taps: its rounding gets that much less.
    rounding = (1 - _TRUNCATION) * allowed / math.sqrt(math.prod(shape[2:]))
    return _cut(LowRank, left[:, :high], right[:high], shape, float(values[0]), rounding)


def _truncated_map(original: Conv2d, allowed: float, start: Operator | None) -> _Draft:
    matrix = original.to(torch.float64).dense()
    if start is not None:
        matrix = matrix - start.to(torch.float64).dense()
    left, right, values = _factors(matrix)
    rank = max(1, int((values > _TRUNCATION * allowed).sum()))
    shape, rounding = tuple(original.weight.shape), (1 - _TRUNCATION) * allowed
    return _cut(LowRankMap, left[:, :rank], right[:rank], shape, float(values[0]), rounding)


def _as_it_is(original: Operator, allowed: float, start: Operator | None) -> _Draft:
    """Half a step moves the kernel's matrix by at most (s/2)√n, the map by √taps times that."""
    weight = less_start(original, start).numpy()
    step = 2 * allowed / math.sqrt(weight.size * math.prod(weight.shape[2:]))
    return _Draft(weight.size, grid_within(step), lambda at: Kept(Numbers.rounded(weight, at)))


def _cut(
    kind: type[LowRank | LowRankMap],
    left: Values,
    right: Values,
    shape: Shape,
    largest: float,
    allowed: float,
) -> _Draft:
    """U√Σ and √ΣVᵀ on a grid that provably changes their product by at most `allowed`.

    largest: σ₁, so that √σ₁ is the spectral norm of both.
    """
    norm = math.sqrt(largest) * (1 + 1e-9)
    tall, wide = math.sqrt(left.size) / 2, math.sqrt(right.size) / 2  # ‖E‖_F of a step of 1
    # (tall + wide)·norm·s + tall·wide·s² ≤ allowed
    half = (tall + wide) * norm
    step = 2 * allowed / (half + math.sqrt(half * half + 4 * tall * wide * allowed))
    build = partial(kind.rounded, left, right, shape)
    return _Draft(left.size + right.size, grid_within(step), build)
