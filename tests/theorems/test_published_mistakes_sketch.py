"""Guha 2023 on sketches, as printed and as it should be: Definition E.1 and the count of Theorem
5.2.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from cushion.compressors.pruning.recovery import recover
from cushion.compressors.pruning.sketched import bipartite, statistical_dimension
from cushion.papers.guha.sketch import counts, sparse_matrix


def test_with_ones_in_every_row_columns_stay_empty_and_nothing_there_comes_back() -> None:
    """Definition E.1 has at most δ ones in every *row*: of p = 100 columns about 100·(1 - 5/100)^60
    = 4.6 stay empty.

    A row of X that meets an empty column of A leaves no trace in Y, so that no method can bring it
    back; with ones in every column, as in Dasarathy et al. 2013, the same sketch sizes suffice.
    """
    p, m, ones = 100, 60, 5
    X = sparse_matrix(p, 5, 0, 0)
    right = bipartite(m, p, ones, 0, "right")
    printed = bipartite(p, m, ones, 0, "left").T  # [m, p], five ones in every row
    assert (printed.sum(axis=1) == ones).all()
    empty = printed.sum(axis=0) == 0
    assert empty.sum() >= 1
    other = X.copy()
    other[empty] = 0
    assert (other != X).any()
    np.testing.assert_array_equal(
        printed @ X @ right.T, printed @ other @ right.T
    )  # the same sketch, another matrix
    failed = recover(printed @ X @ right.T, printed, right, most_iterations=500)
    assert (np.rint(failed.matrix)[empty] == 0).all()
    assert not np.array_equal(np.rint(failed.matrix), X)

    ours = bipartite(m, p, ones, 0, "left")
    found = recover(ours @ X @ right.T, ours, right)
    np.testing.assert_array_equal(np.rint(found.matrix), X)
    assert found.unique


@pytest.mark.parametrize("bits", [6, 8, 16])
@pytest.mark.parametrize("chi", [0.1, 0.2, 0.3])
def test_the_sketch_count_is_far_larger_than_the_count_it_replaces(chi: float, bits: int) -> None:
    """784 x 784: j·p = 3χp² (Lemma 5.1 with λ = 1, its smallest) numbers times ln² p = 44, against
    mask and values.

    "Vastly improves", says the text after Theorem 5.2; it is 70 to 115 times worse.
    """
    p = 784
    nonzeros = round(chi * p * p)
    sketch, naive = counts(p, 3 * chi * p, nonzeros, bits)
    assert 70 < sketch / naive < 115
    # and more numbers than the matrix has entries: nothing is compressed
    assert sketch / bits > p * p
    # In closed form: 3·ln²p numbers for every non-zero, against log2(1/χ) + ... bits and its value.
    entropy = (-chi * math.log2(chi) - (1 - chi) * math.log2(1 - chi)) / chi
    assert sketch / naive == pytest.approx(3 * math.log(p) ** 2 * bits / (entropy + bits), rel=1e-3)


def test_even_the_smallest_sketch_that_works_holds_more_bits_than_mask_and_values() -> None:
    """Where recovery really sets in (the statistical dimension) Y still has more numbers than X has
    non-zeros, each as wide as a value of X or wider, for every sparsity; the mask costs less than
    that.
    """
    for chi in (0.005, 0.02, 0.1, 0.3):
        entropy = (-chi * math.log2(chi) - (1 - chi) * math.log2(1 - chi)) / chi
        sketch = statistical_dimension(chi) / chi  # numbers of Y for every non-zero
        assert sketch * 8 > entropy + 8
