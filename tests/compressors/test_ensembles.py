"""The sketching matrices: ones in every column, drawn uniformly without replacement, and always the
same.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from cushion.compressors.pruning import sketched as sketches
from cushion.compressors.pruning.sketched import bipartite
from cushion.data.counter import stream
from cushion.errors import BadInput


@pytest.mark.parametrize(
    ("rows", "columns", "ones"), [(5, 9, 2), (9, 5, 9), (1, 4, 1), (40, 200, 6), (3, 0, 1)]
)
def test_every_column_has_so_many_ones(rows: int, columns: int, ones: int) -> None:
    A = bipartite(rows, columns, ones, 0, "left")
    assert A.shape == (rows, columns)
    assert A.dtype == np.int64
    assert set(np.unique(A)) <= {0, 1}
    assert (A.sum(axis=0) == ones).all()


def test_the_ones_stand_where_the_smallest_hashes_do() -> None:
    """The textbook version: sort each column's hashes; what is documented may be rebuilt elsewhere
    from it.
    """
    rows, columns, ones = 7, 11, 3
    expected = np.zeros((rows, columns), dtype=np.int64)
    for j in range(columns):
        keys = stream("left", 5, rows, j * rows)
        for i in sorted(range(rows), key=lambda i, keys=keys: int(keys[i]))[:ones]:
            expected[i, j] = 1
    np.testing.assert_array_equal(bipartite(rows, columns, ones, 5, "left"), expected)


def test_the_block_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bipartite(6, 50, 2, 1, "left")
    monkeypatch.setattr(sketches, "_BLOCK", 13)
    np.testing.assert_array_equal(bipartite(6, 50, 2, 1, "left"), whole)


def test_every_set_of_rows_is_equally_likely() -> None:
    """C(5, 2) = 10 sets of rows over 20000 columns: chi-squared with 9 degrees of freedom."""
    n = 20000
    A = bipartite(5, n, 2, 3, "left")
    seen = Counter(tuple(np.flatnonzero(column)) for column in A.T)
    assert set(seen) == set(combinations(range(5), 2))
    chi_squared = sum((count - n / 10) ** 2 / (n / 10) for count in seen.values())
    assert chi_squared < 33.7  # exceeded once in 10 000 seeds; this seed is fixed


def test_columns_are_unrelated() -> None:
    """One one of five rows: neighbours agree with probability 1/5, seen with a standard error of
    0.0028.
    """
    A = bipartite(5, 20000, 1, 4, "left")
    assert abs((A[:, 1:] * A[:, :-1]).sum() / 19999 - 0.2) < 5 * 0.0029


def test_seeds_and_purposes_name_different_matrices() -> None:
    first = bipartite(10, 30, 3, 0, "left")
    np.testing.assert_array_equal(first, bipartite(10, 30, 3, 0, "left"))
    assert (first != bipartite(10, 30, 3, 1, "left")).any()
    assert (first != bipartite(10, 30, 3, 0, "right")).any()


@pytest.mark.parametrize(("rows", "columns", "ones"), [(5, 9, 0), (5, 9, 6), (0, 3, 1), (3, -1, 1)])
def test_what_no_matrix_has_is_refused(rows: int, columns: int, ones: int) -> None:
    with pytest.raises(BadInput):
        bipartite(rows, columns, ones, 0, "left")
