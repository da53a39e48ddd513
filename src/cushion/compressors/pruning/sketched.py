"""A pruned weight stored as its sketch Y = A X Bᵀ (Guha 2023, §5): how large it must be (where ℓ1
recovery sets in, the paper's side), how many ones a column has, the 0/1 matrices A and B from the
seed, and the search for a sketch that comes back.
"""

from __future__ import annotations

import math
import time
import zlib
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from cushion.certificates.format.number_stream import Integers, encode_numbers
from cushion.compressors.pruning.masks import as_matrix
from cushion.compressors.pruning.records import LayerSketch
from cushion.compressors.pruning.recovery import Recovery, recover
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import (
    MOST_BITS,
    Fields,
    Numbers,
    Parts,
    Shape,
    StoredLayer,
    Values,
)
from cushion.data.counter import stream
from cushion.errors import BadInput, Malformed

# for what a file holds; a sketch is stored only if _SURE of them were enough when it was made,
MOST_ITERATIONS = 400
_SURE = 250  # so that another machine's rounding does not matter
_MOST_FACTOR = 1 << 24  # numbers of A and of B
# of one layer that is stored: some three minutes, a quarter of what a file may take
_MOST_WORK = 2.0**39
# numbers of the first sketch that is tried, against the statistical dimension (phase-transition
# study)
MARGIN = 1.15
GROWTH = 1.15  # numbers of each further one
# sets of rows there should be for every pair of columns, so that hardly ever two columns are equal
_APART = 500
_BLOCK = 1 << 22  # hashes at a time


def factors(
    shape: tuple[int, ...], rows: int, columns: int, ones: int, seed: int, place: int
) -> tuple[Integers, Integers]:
    """A [rows, p1] and B [columns, p2] of a layer; the identity for a side that is not cut."""
    p1, p2 = as_matrix(shape)
    left = _factor(rows, p1, ones, seed, f"sketch left {place}")
    return left, _factor(columns, p2, ones, seed, f"sketch right {place}")


def sketch_of(left: Integers, matrix: Integers, right: Integers) -> Integers:
    """A X Bᵀ, exactly; BadInput where a number would not fit those that can be stored."""
    if np.abs(matrix).astype(np.float64).sum() >= 2.0**62:  # else no sum of them leaves int64
        raise BadInput("the numbers of a layer are too large to be sketched; give a coarser `grid`")
    product = sparse.csr_array(left) @ sparse.csr_array(matrix) @ sparse.csr_array(right).T
    found: Integers = np.asarray(product.todense(), dtype=np.int64)
    if np.abs(found).max(initial=0) >= 2 ** (MOST_BITS - 1):
        raise BadInput(f"a sum of a sketch takes above {MOST_BITS} bits; give a coarser `grid`")
    return found


@dataclass(frozen=True, eq=False)
class Sketched(StoredLayer, kind="sketched", number=8, field_count=4):
    """sketch: Y [rows, columns] in the grid's steps; ones: in a column of A and B; checksum: of the
    weight's integers.

    A weight of more than two axes is the matrix [out, rest]. What comes back from the ℓ1 program is
    rounded, must have exactly this sketch, and must have the checksum: a wrong weight passes one
    time in 2^32.
    """

    not_exact: ClassVar[str] = (
        "the format has no sketches; use `method` = magnitude, whose weights are the same"
    )
    sketch: Numbers
    shape: Shape
    ones: int
    checksum: int
    place: int
    _known: dict[int, Integers] = field(default_factory=dict, repr=False)  # recovery takes seconds

    @property
    def fields(self) -> Fields:
        return (*self.sketch.integers.shape, self.ones, self.checksum)

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        (p1, p2), (rows, columns, ones, checksum) = as_matrix(shape), fields
        if not (1 <= rows <= p1 and 1 <= columns <= p2):
            raise BadInput(f"a matrix of {p1} x {p2} numbers has no sketch of {rows} x {columns}")
        if not 1 <= ones <= max(rows, columns) or checksum >= 2**32:
            raise BadInput(f"a sketch has no {ones} ones in a column and no checksum {checksum}")
        if any(side < p and side * p > _MOST_FACTOR for side, p in ((rows, p1), (columns, p2))):
            raise BadInput(f"a sketch of {rows} x {columns} is larger than any that is stored")
        return ((rows, columns),)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
        return cls(numbers[0], shape, fields[2], fields[3], place)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:
        """Most iterations, half a step for each of weights · (rows + columns) (a multiply-add of
        single precision takes 0.08, twice as many are made at most, later ones in double precision,
        and supports are tried); then the bases and the hashes of the factors, of at most
        weights/columns and weights/rows columns.
        """
        rows, columns = fields[0], fields[1]
        widths = rows * weights / columns + columns * weights / rows
        bases = rows * rows * weights / columns + columns * columns * weights / rows
        steps = MOST_ITERATIONS * (0.5 * weights * (rows + columns) + 1e6)
        return steps + 15.0 * bases + 100.0 * widths

    def integers(self, seed: int) -> Integers:
        """The weight in steps of the grid, [*shape]; Malformed unless it comes back."""
        if seed not in self._known:
            rows, columns = self.sketch.integers.shape
            left, right = factors(self.shape, rows, columns, self.ones, seed, self.place)
            found = recover(self.sketch.integers, left, right, most_iterations=MOST_ITERATIONS)
            matrix = _rounded(found)
            if (
                matrix is None
                or checksum_of(matrix) != self.checksum
                or (sketch_of(left, matrix, right) != self.sketch.integers).any()
            ):
                raise Malformed(
                    f"the layer at place {self.place} did not come back from its sketch of {rows} "
                    f"x {columns} numbers; compress the net again, with a larger `m`"
                )
            self._known[seed] = matrix
        return self._known[seed].reshape(self.shape)

    def weight(self, seed: int) -> Values:
        return np.ldexp(self.integers(seed).astype(np.float64), self.sketch.exponent)


def sketch_layer(
    numbers: Numbers, seed: int, place: int, *, m: int | None, ones: int | None
) -> tuple[Sketched | None, LayerSketch]:
    """The layer as a sketch that was seen to come back exactly, or None; and how it went.

    m: the sketch has m rows and m columns (no more than the matrix has). None: sides in proportion
    to the matrix's, from a little above where ℓ1 recovery is known to set in, then larger and
    larger; given up where the sketch would hold as many numbers as the matrix, or its recovery
    would take minutes.
    """
    begin, shape = time.perf_counter(), numbers.integers.shape
    p1, p2 = as_matrix(shape)
    matrix = numbers.integers.reshape(p1, p2)
    held = matrix != 0
    in_a_line = int(max(held.sum(axis=0).max(initial=0), held.sum(axis=1).max(initial=0)))
    theory, plain = paper_side(in_a_line, max(p1, p2)), _bits(Pruned.of(numbers))
    none = False, int(held.sum()), math.inf, 0, 0.0, 0
    layer, record = None, LayerSketch(0, 0, 0, 0, theory, *none, plain)
    for rows, columns in _candidates(matrix, m):
        many = default_ones(p1, p2, rows, columns)
        many = many if ones is None else ones_within(ones, max(rows, columns))
        fields = (rows, columns, many, checksum_of(matrix))
        try:
            Sketched.sizes(shape, fields)
            if Sketched.work(fields, p1 * p2) > _MOST_WORK:
                break
            left, right = factors(shape, rows, columns, many, seed, place)
            sketch = Numbers(sketch_of(left, matrix, right), numbers.exponent)
        except BadInput:  # too large a matrix, or sums that do not fit: no larger sketch helps
            break
        found = recover(sketch.integers, left, right, most_iterations=_SURE)
        again = _rounded(found)
        wrong = matrix.size if again is None else int(np.count_nonzero(again != matrix))
        tried = Sketched.restore(shape, place, fields, (sketch,))
        seen = wrong == 0, wrong, found.optimal_gap, found.iterations, 0.0, _bits(tried)
        record = LayerSketch(rows, columns, many, rows * columns, theory, *seen, plain)
        if wrong == 0:
            layer = tried
            layer._known[seed] = matrix.copy()
            break
    return layer, replace(record, seconds=time.perf_counter() - begin)


def _candidates(matrix: Integers, m: int | None) -> list[tuple[int, int]]:
    """Sides to try, each once, from few numbers to fewer than the matrix has (or as asked)."""
    p1, p2 = matrix.shape
    if m is not None:
        return [(min(m, p1), min(m, p2))]
    part = MARGIN * statistical_dimension(np.count_nonzero(matrix) / matrix.size)
    found: list[tuple[int, int]] = [(1, 1)] if part == 0.0 else []
    while 0.0 < part < 1.0:
        found.append(sides(p1, p2, part))
        part *= GROWTH
    return [pair for pair in dict.fromkeys(found) if math.prod(pair) < max(2, matrix.size)]


def _bits(layer: StoredLayer) -> int:
    return encode_numbers(layer.fields, [part.integers for part in layer.numbers]).bits


def _rounded(found: Recovery) -> Integers | None:
    """The whole numbers nearest to what came back; None where they would not fit."""
    if np.abs(found.matrix).max(initial=0.0) >= 2.0 ** (MOST_BITS - 1):
        return None
    return np.rint(found.matrix).astype(np.int64)


def checksum_of(matrix: Integers) -> int:
    """CRC-32 of "p1 p2 " and the entries as little-endian 64-bit integers, row by row."""
    head = "".join(f"{size} " for size in matrix.shape).encode()
    return zlib.crc32(np.ascontiguousarray(matrix, dtype="<i8").tobytes(), zlib.crc32(head))


def _factor(side: int, p: int, ones: int, seed: int, purpose: str) -> Integers:
    if side == p:
        return np.eye(p, dtype=np.int64)
    return bipartite(side, p, ones_within(ones, side), seed, purpose)


def statistical_dimension(share: float) -> float:
    """Numbers that a generic sketch needs, as a part of all N entries, where this share of them is
    not zero.

    ℓ1 recovery from generic linear measurements sets in at δ(share)·N numbers, min over τ of
    share·(1 + τ²) + (1 - share)·E(|g| - τ)₊² for a standard normal g (Amelunxen, Lotz, McCoy, Tropp
    2014, Proposition 4.5). Sketches A X Bᵀ are not generic; the study shows that they need little
    more.
    """
    if share <= 0.0 or share >= 1.0:
        return float(share > 0.0)

    def size(tau: float) -> float:
        near = tau * math.sqrt(2 / math.pi) * math.exp(-tau * tau / 2)
        excess = (1 + tau * tau) * math.erfc(tau / math.sqrt(2)) - near
        return share * (1 + tau * tau) + (1 - share) * excess

    least = minimize_scalar(size, bounds=(0.0, 40.0), method="bounded", options={"xatol": 1e-9})
    return float(least.fun)


def paper_side(j: int, p: int) -> float:
    """√(jp)·ln p, Guha 2023, Theorem 5.1 without its constant; j most non-zeros of a row."""
    return math.sqrt(j * p) * math.log(p) if j and p > 1 else 0.0


def sides(p1: int, p2: int, part: float) -> tuple[int, int]:
    """(rows, columns) of a sketch with about `part` of p1·p2 numbers, both sides cut alike.

    A side so short that few different columns exist for it is not cut at all, and the other takes
    the whole cut.
    """
    found = [_cut(p, math.sqrt(part)) for p in (p1, p2)]
    if found[0] == p1 and part < 1:
        found[1] = _cut(p2, part)
    elif found[1] == p2 and part < 1:
        found[0] = _cut(p1, part)
    return found[0], found[1]


def _cut(p: int, part: float) -> int:
    side = max(1, min(p, math.ceil(p * part)))
    return p if math.comb(side, side // 2) < p * p and part > 0 else side


def ones_within(ones: int, side: int) -> int:
    """Ones in a column of `side` rows: at most half of them, where the choice is largest."""
    return max(1, min(ones, side // 2))


def default_ones(p1: int, p2: int, rows: int, columns: int) -> int:
    """⌈ln p⌉ (Theorem 5.1), and more where two columns would be equal by chance too often."""

    def crowded(ones: int) -> bool:
        return any(
            ones < side // 2 and math.comb(side, ones) < _APART * p * p
            for p, side in ((p1, rows), (p2, columns))
            if side < p
        )

    ones = max(1, math.ceil(math.log(max(p1, p2, 2))))
    while crowded(ones):
        ones += 1
    return min(ones, max(rows, columns))


def bipartite(rows: int, columns: int, ones: int, seed: int, purpose: str) -> Integers:
    """A 0/1 matrix [rows, columns] with exactly `ones` ones in every column, each such matrix
    equally likely.

    Every *column* has δ = `ones` ones (Dasarathy et al. 2013); Guha 2023, Definition E.1 says every
    row, which leaves columns empty, and what stands there in X cannot come back. Entry (i, j) has
    the (j·rows + i)-th hash of the stream of `purpose`; the ones of a column stand where its
    smallest hashes are. The hashes of one stream are all different (SplitMix64 is one-to-one), so
    that there are no ties, and by symmetry no set of rows is more likely than another.
    """
    if not (1 <= ones <= rows and columns >= 0):
        raise BadInput(f"no matrix of {rows} rows and {columns} columns has {ones} ones in each")
    found = np.zeros((rows, columns), dtype=np.int64)
    step = max(1, _BLOCK // rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        keys = stream(purpose, seed, width * rows, start * rows).reshape(width, rows)
        chosen = np.argpartition(keys, ones - 1, axis=1)[:, :ones]
        found[chosen, start + np.arange(width)[:, None]] = 1
    return found
