"""Recovery against exact solvers: HiGHS on the vectorised linear program, and a search over all
small supports.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from cushion.compressors.pruning.recovery import recover
from cushion.compressors.pruning.sketched import bipartite


def smallest_norm(A: np.ndarray, B: np.ndarray, Y: np.ndarray) -> tuple[float, np.ndarray]:
    """min ‖X‖₁ with A X Bᵀ = Y as a linear program in X = X⁺ - X⁻: the row-major vec of A X Bᵀ is
    (A ⊗ B) vec X.
    """
    M = np.kron(A, B).astype(float)
    answer = linprog(
        np.ones(2 * M.shape[1]), A_eq=np.hstack([M, -M]), b_eq=Y.reshape(-1), method="highs"
    )
    assert answer.status == 0, answer.message
    plus, minus = np.split(answer.x, 2)
    return float(answer.fun), (plus - minus).reshape(A.shape[1], B.shape[1])


def case(
    p1: int, p2: int, r: int, c: int, nonzeros: int, seed: int, normal: bool = False
) -> tuple[np.ndarray, ...]:
    """Few 0/1 columns of few rows are often equal or sum to the same; normal factors are in general
    position.
    """
    rng = np.random.default_rng(seed)
    X = np.zeros(p1 * p2)
    X[rng.choice(p1 * p2, nonzeros, replace=False)] = rng.integers(1, 50, nonzeros) * rng.choice(
        [-1, 1], nonzeros
    )
    X = X.reshape(p1, p2)
    A: np.ndarray = (
        rng.normal(size=(r, p1)) if normal else bipartite(r, p1, min(3, r - 1), seed, "left")
    )
    B: np.ndarray = (
        rng.normal(size=(c, p2)) if normal else bipartite(c, p2, min(3, c - 1), seed, "right")
    )
    return X, A, B, A @ X @ B.T


CASES = [
    # sparse enough to come back; too dense for the sketch; in between; not square; factors with
    # more rows than columns
    *((8, 8, 6, 6, 3, seed) for seed in range(3)),
    *((8, 8, 5, 5, 20, seed) for seed in range(3)),
    *((12, 12, 7, 7, 8, seed) for seed in range(3)),
    *((14, 14, 8, 8, 12, seed) for seed in range(3)),
    *((9, 14, 6, 8, 8, seed) for seed in range(3)),
    *((8, 10, 12, 6, 10, seed) for seed in range(3)),
]


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize(("p1", "p2", "r", "c", "nonzeros", "seed"), CASES)
def test_the_norm_is_that_of_highs_and_the_matrix_too_where_it_is_unique(
    p1: int, p2: int, r: int, c: int, nonzeros: int, seed: int, normal: bool
) -> None:
    _, A, B, Y = case(p1, p2, r, c, nonzeros, seed, normal)
    norm, matrix = smallest_norm(A, B, Y)
    ours = recover(Y, A, B, most_iterations=20000)
    assert ours.feasible_error <= 1e-9
    assert np.abs(ours.matrix).sum() == pytest.approx(norm, rel=1e-6)
    # A lower bound stays below the optimum whatever the iteration has reached.
    assert ours.dual <= norm * (1 + 1e-9)
    assert ours.optimal_gap <= 1e-6
    if ours.unique:
        np.testing.assert_allclose(ours.matrix, matrix, atol=1e-6 * np.abs(matrix).max())


def test_a_claim_of_uniqueness_is_right() -> None:
    """Where it is unique, HiGHS finds nothing else even when pushed along random directions inside
    the optimal face.
    """
    claims = 0
    for seed in range(6):
        _, A, B, Y = case(8, 8, 6, 6, 4, seed, normal=seed > 2)
        ours = recover(Y, A, B, most_iterations=20000)
        if not ours.unique:
            continue
        claims += 1
        M = np.kron(A, B).astype(float)
        norm = np.abs(ours.matrix).sum()
        n = M.shape[1]
        for push in range(3):
            direction = np.random.default_rng(push).normal(size=n)
            answer = linprog(
                np.concatenate([direction, -direction]),
                A_eq=np.hstack([M, -M]),
                b_eq=Y.reshape(-1),
                A_ub=np.ones((1, 2 * n)),
                b_ub=[norm * (1 + 1e-9)],
                method="highs",
            )
            plus, minus = np.split(answer.x, 2)
            np.testing.assert_allclose((plus - minus).reshape(8, 8), ours.matrix, atol=1e-4)
    assert claims >= 3


def test_two_equal_columns_are_never_called_unique() -> None:
    """With two equal columns of A, moving a row's numbers to the other row changes neither the
    sketch nor the norm.
    """
    A = bipartite(5, 8, 2, 0, "left")
    A[:, 1] = A[:, 0]
    B = bipartite(6, 8, 3, 0, "right")
    X = np.zeros((8, 8))
    X[0, 3] = 7.0
    Y = A @ X @ B.T
    ours = recover(Y, A, B, most_iterations=3000)
    assert not ours.unique
    assert np.abs(ours.matrix).sum() == pytest.approx(smallest_norm(A, B, Y)[0], rel=1e-6)


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_small_support_holds_a_smaller_matrix(seed: int, normal: bool) -> None:
    """4 x 4, every support of up to 3 entries: least squares on each, so that every sparse feasible
    matrix is seen.
    """
    X, A, B, Y = case(4, 4, 3, 3, 2, seed, normal)
    ours = recover(Y, A, B, most_iterations=20000)
    norm = np.abs(ours.matrix).sum()
    assert norm <= np.abs(X).sum() * (1 + 1e-9)
    M = np.kron(A, B).astype(float)
    seen = 0
    for size in (1, 2, 3):
        for support in combinations(range(16), size):
            x, *_ = np.linalg.lstsq(M[:, support], Y.reshape(-1), rcond=None)
            if np.abs(M[:, support] @ x - Y.reshape(-1)).max() > 1e-9 * np.abs(Y).max():
                continue
            seen += 1
            assert np.abs(x).sum() >= norm * (1 - 1e-9)
            if ours.unique and np.abs(x).sum() <= norm * (1 + 1e-9):
                found = np.zeros(16)
                found[list(support)] = x
                np.testing.assert_allclose(found.reshape(4, 4), ours.matrix, atol=1e-6 * norm)
    assert seen >= 1  # X itself at least
