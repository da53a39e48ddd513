"""A pruned weight stored as its sketch Y = A X Bᵀ (Guha 2023, §5), and the search for a sketch that
comes back.
"""

from __future__ import annotations

import math
import time
import zlib
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from cushion.certificates.format.number_stream import Integers, encode_numbers
from cushion.compressors.pruning import sketches
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
from cushion.errors import BadInput, Malformed

# for what a file holds; a sketch is stored only if _SURE of them were enough when it was made,
MOST_ITERATIONS = 400
_SURE = 250  # so that another machine's rounding does not matter
_MOST_FACTOR = 1 << 24  # numbers of A and of B
# of one layer that is stored: some three minutes, a quarter of what a file may take
_MOST_WORK = 2.0**39


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
    theory, plain = sketches.paper_side(in_a_line, max(p1, p2)), _bits(Pruned.of(numbers))
    none = False, int(held.sum()), math.inf, 0, 0.0, 0
    layer, record = None, LayerSketch(0, 0, 0, 0, theory, *none, plain)
    for rows, columns in _candidates(matrix, m):
        many = sketches.default_ones(p1, p2, rows, columns)
        many = many if ones is None else sketches.ones_within(ones, max(rows, columns))
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
    part = sketches.MARGIN * sketches.statistical_dimension(np.count_nonzero(matrix) / matrix.size)
    found: list[tuple[int, int]] = [(1, 1)] if part == 0.0 else []
    while 0.0 < part < 1.0:
        found.append(sketches.sides(p1, p2, part))
        part *= sketches.GROWTH
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
    return sketches.bipartite(side, p, sketches.ones_within(ones, side), seed, purpose)
