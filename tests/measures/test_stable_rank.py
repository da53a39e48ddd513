"""Stable rank: against its definition, closed forms, and power iteration, which comes from
below.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cushion.errors import BadInput
from cushion.measures.spectra import power_iteration_norm, stable_rank


def with_singular_values(
    values: list[float], rows: int, columns: int, seed: int = 0
) -> NDArray[np.float64]:
    """A [rows, columns] matrix with these singular values and random directions."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((rows, len(values))))[0]
    right = np.linalg.qr(rng.standard_normal((columns, len(values))))[0]
    return (left * values) @ right.T


@pytest.mark.parametrize("shape", [(7, 12), (12, 7), (1, 9), (9, 1)])
def test_stable_rank_is_its_definition(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(1).standard_normal(shape)
    naive = np.linalg.norm(matrix, "fro") ** 2 / np.linalg.norm(matrix, 2) ** 2
    assert stable_rank(matrix) == pytest.approx(naive, rel=1e-12)
    assert stable_rank(matrix.astype(np.float32)) == pytest.approx(naive, rel=1e-5)
    assert stable_rank(-3 * matrix.T) == pytest.approx(naive, rel=1e-12)


def test_stable_rank_has_closed_forms() -> None:
    assert stable_rank(np.eye(6)) == pytest.approx(6)
    assert stable_rank(np.outer([1.0, 2.0, 3.0], [4.0, 5.0])) == pytest.approx(1)
    assert stable_rank(np.diag([2.0, 1.0, 1.0])) == pytest.approx(1.5)
    assert stable_rank(np.zeros((3, 4))) == 0.0
    assert stable_rank(np.zeros((0, 4))) == 0.0
    assert stable_rank(1e200 * np.diag([2.0, 1.0])) == pytest.approx(1.25)  # squares would overflow
    assert stable_rank(1e-200 * np.diag([2.0, 1.0])) == pytest.approx(1.25)


@pytest.mark.parametrize("gap", [0.5, 0.9, 0.99, 1 - 1e-3, 1 - 1e-6, 1.0])
def test_a_thousand_iterations_find_the_norm_even_where_singular_values_nearly_agree(
    gap: float,
) -> None:
    """Directions of nearly the first singular value stay mixed in, and cost no more than the gap
    between them.
    """
    for seed in range(5):
        matrix = with_singular_values([3.0, 3.0 * gap, 1.0, 0.2], 20, 30, seed)
        found, exact = (
            power_iteration_norm(matrix, seed=seed),
            np.linalg.svd(matrix, compute_uv=False)[0],
        )
        assert found <= exact * (1 + 1e-13)
        assert found == pytest.approx(exact, rel=1e-3 if 0.99 < gap < 1 else 1e-9)
        assert found >= 3.0 * gap * (1 - 1e-12)


def test_it_agrees_with_the_norm_of_random_layers() -> None:
    """Dense Gaussian matrices have the smallest gaps at the top that a layer shows."""
    for seed in range(3):
        matrix = np.random.default_rng(seed).standard_normal((100, 256))
        assert power_iteration_norm(matrix) == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)


def test_fewer_iterations_are_further_below() -> None:
    matrix = with_singular_values([2.0, 1.9, 1.8, 1.7], 30, 40)
    found = [power_iteration_norm(matrix, iterations) for iterations in (0, 1, 10, 100)]
    assert found == sorted(found)
    assert found[0] < 0.9 * found[-1]
    vector = np.random.default_rng(0).standard_normal(40)
    assert found[0] == pytest.approx(np.linalg.norm(matrix @ vector) / np.linalg.norm(vector))
    vector = matrix.T @ (matrix @ vector)
    assert found[1] == pytest.approx(np.linalg.norm(matrix @ vector) / np.linalg.norm(vector))


def test_scales_do_not_matter() -> None:
    matrix = np.random.default_rng(0).standard_normal((8, 9))
    norm = power_iteration_norm(matrix)
    for scale in (1e-200, 1e200):
        assert power_iteration_norm(scale * matrix) == pytest.approx(scale * norm)
    assert power_iteration_norm(np.zeros((3, 4))) == 0.0


@pytest.mark.parametrize("function", [stable_rank, power_iteration_norm])
def test_what_is_no_matrix_is_refused(function: object) -> None:
    assert callable(function)
    with pytest.raises(BadInput, match=r"shape \(2, 3, 3\); reshape"):
        function(np.ones((2, 3, 3)))
    with pytest.raises(BadInput, match="infinite or not a number"):
        function(np.array([[1.0, np.inf]]))
