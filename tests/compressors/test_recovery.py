"""Recovery from a sketch: what comes back, what is proved, what is not claimed, and the degenerate
cases.
"""

from __future__ import annotations

import numpy as np
import pytest

from cushion.compressors.pruning.recovery import _Search, recover, row_space
from cushion.compressors.pruning.sketched import bipartite
from cushion.compressors.pruning.splitting import EXACT, Support, is_injective, places
from cushion.errors import BadInput


def sparse(p1: int, p2: int, per_row: int, seed: int, *, normal: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.zeros((p1, p2))
    for row in X:
        at = rng.choice(p2, per_row, replace=False)
        row[at] = (
            rng.normal(size=per_row)
            if normal
            else rng.integers(1, 128, per_row) * rng.choice([-1, 1], per_row)
        )
    return X


def sketched(
    X: np.ndarray, m: int, ones: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    A, B = (
        bipartite(m, size, ones, seed, side)
        for side, size in zip(("left", "right"), X.shape, strict=True)
    )
    return A @ X @ B.T, A, B


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize(("p", "m"), [(100, 60), (200, 90)])
def test_a_sparse_matrix_comes_back_with_a_proof(p: int, m: int, normal: bool) -> None:
    X = sparse(p, p, 5, 0, normal=normal)
    Y, A, B = sketched(X, m, 6, 0)
    found = recover(Y, A, B)
    np.testing.assert_allclose(found.matrix, X, atol=1e-9 * np.abs(X).max())
    assert found.unique
    assert np.count_nonzero(found.matrix) == np.count_nonzero(X)
    assert found.feasible_error <= 1e-9
    assert 0 <= found.optimal_gap <= 1e-9
    assert found.dual == pytest.approx(np.abs(X).sum(), rel=1e-9)
    assert found.iterations <= 300
    # feasibility, recomputed
    assert np.abs(A @ found.matrix @ B.T - Y).max() <= 1e-9 * np.abs(Y).max()


def test_too_small_a_sketch_is_never_claimed() -> None:
    """40 x 40 numbers cannot hold 500 non-zeros among 10^4 entries (recovery sets in at a side of
    45).
    """
    X = sparse(100, 100, 5, 1)
    Y, A, B = sketched(X, 38, 6, 1)
    found = recover(Y, A, B, most_iterations=400)
    assert np.abs(found.matrix - X).max() > 1
    assert not found.unique
    assert found.feasible_error <= 1e-9  # still a matrix with this sketch,
    # and a smaller one than X: the program itself fails
    assert np.abs(found.matrix).sum() < np.abs(X).sum()
    assert found.dual <= np.abs(found.matrix).sum()


def test_the_gap_is_honest_where_iterations_run_out() -> None:
    X = sparse(60, 60, 4, 2)
    Y, A, B = sketched(X, 40, 5, 2)
    best = np.abs(recover(Y, A, B).matrix).sum()
    short = recover(Y, A, B, most_iterations=5)
    assert short.iterations == 5
    norm = np.abs(short.matrix).sum()
    assert short.dual <= best * (1 + 1e-12) <= norm * (1 + 1e-9)
    assert short.optimal_gap == pytest.approx(1 - short.dual / norm, abs=1e-12)
    assert short.feasible_error <= 1e-9


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_scale_does_not_matter(scale: float) -> None:
    X = sparse(50, 50, 2, 3)
    Y, A, B = sketched(X, 34, 5, 3)
    found = recover(scale * Y, A, B)
    np.testing.assert_allclose(found.matrix / scale, X, atol=1e-9 * np.abs(X).max())
    assert found.unique
    assert found.dual == pytest.approx(scale * np.abs(X).sum(), rel=1e-9)


def test_a_matrix_of_zeros_is_its_own_proof() -> None:
    found = recover(np.zeros((4, 5)), bipartite(4, 9, 2, 0, "left"), bipartite(5, 8, 2, 0, "right"))
    assert (found.matrix == 0).all()
    assert found.matrix.shape == (9, 8)
    assert found.unique
    assert found.optimal_gap == found.dual == found.iterations == 0


def test_a_sketch_that_loses_nothing_is_solved_at_once() -> None:
    """Both factors have full column rank: one matrix alone is feasible, however dense."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(6, 7))
    A, B = rng.normal(size=(9, 6)), rng.normal(size=(7, 7))
    found = recover(A @ X @ B.T, A, B)
    np.testing.assert_allclose(found.matrix, X, atol=1e-9)
    assert found.iterations == 0
    assert found.unique
    assert found.optimal_gap <= 1e-9


def test_one_row_and_the_identity() -> None:
    X = np.zeros((1, 40))
    X[0, [3, 17, 30]] = 5, -2, 9
    B = bipartite(20, 40, 6, 0, "right")
    found = recover(X @ B.T, np.eye(1), B)
    np.testing.assert_allclose(found.matrix, X, atol=1e-9)
    assert found.unique


def test_rows_that_repeat_do_not_matter() -> None:
    """A of rank below its rows: the same constraints twice."""
    X = sparse(60, 60, 3, 5)
    Y, A, B = sketched(X, 40, 5, 5)
    found = recover(np.vstack([Y, Y[:7]]), np.vstack([A, A[:7]]), B)
    np.testing.assert_allclose(found.matrix, X, atol=1e-8 * np.abs(X).max())
    assert found.unique


def test_a_sketch_that_no_matrix_has_is_said_so_at_once() -> None:
    A = np.vstack([np.eye(4), np.ones((1, 4))])  # the last row of Y must be the sum of the others
    Y = np.ones((5, 4))
    found = recover(Y, A, np.eye(4))
    assert found.feasible_error > 0.1
    assert found.iterations == 0
    assert not found.unique


def test_the_answer_repeats() -> None:
    X = sparse(80, 80, 4, 6)
    Y, A, B = sketched(X, 50, 5, 6)
    assert recover(Y, A, B).matrix.tobytes() == recover(Y, A, B).matrix.tobytes()


@pytest.mark.parametrize(
    ("Y", "A", "B"),
    [
        (np.zeros((2, 2)), np.zeros((3, 4)), np.zeros((2, 4))),
        (np.zeros((3, 2)), np.zeros(3), np.zeros((2, 4))),
        (np.full((3, 2), np.nan), np.ones((3, 4)), np.ones((2, 4))),
        (np.ones((3, 2)), np.full((3, 4), np.inf), np.ones((2, 4))),
    ],
)
def test_what_does_not_fit_is_refused(Y: np.ndarray, A: np.ndarray, B: np.ndarray) -> None:
    with pytest.raises(BadInput):
        recover(Y, A, B)


def test_the_projection_is_that_of_the_kronecker_product() -> None:
    """V - P (Pᵀ V Q - C) Qᵀ against the textbook V - M⁺(M v - y) with M = A ⊗ B, for a factor of
    low rank too.
    """
    rng = np.random.default_rng(7)
    A, B = rng.normal(size=(4, 6)), rng.normal(size=(3, 5))
    A[3] = A[0] + A[1]
    V, Y = rng.normal(size=(6, 5)), A @ rng.normal(size=(6, 5)) @ B.T
    (P, left), (Q, right) = row_space(A), row_space(B)
    assert P.shape == (6, 3)
    ours = V - P @ (P.T @ V @ Q - left @ Y @ right.T) @ Q.T
    M = np.kron(A, B)
    textbook = V.reshape(-1) - np.linalg.pinv(M) @ (M @ V.reshape(-1) - Y.reshape(-1))
    np.testing.assert_allclose(ours.reshape(-1), textbook, atol=1e-10)


def test_a_vertex_of_many_optima_is_optimal_but_not_unique() -> None:
    """x₁ + x₂ = 3: (3, 0) is as small as (0, 3); one-to-one on its support, but its certificate
    reaches 1 off it.
    """
    A, B, Y = np.array([[1.0, 1.0]]), np.array([[1.0]]), np.array([[3.0]])
    search = _Search(A, B, Y)
    support = Support(search.P, search.Q, places(np.array([[True], [False]])))
    search.offer(support.scattered(np.array([3.0])))
    assert is_injective(support)
    assert search.certify((support, np.array([3.0])), np.zeros((1, 1)))
    assert search.dual == pytest.approx(3.0)
    assert not search.unique
    assert not recover(Y, A, B).unique


def test_support_algebra_is_that_of_the_gram_matrix() -> None:
    """G[s, s'] = (PPᵀ)[i, i'] (QQᵀ)[j, j'], formed here, against products with the factors."""
    rng = np.random.default_rng(8)
    P, _ = np.linalg.qr(rng.normal(size=(9, 5)))
    Q, _ = np.linalg.qr(rng.normal(size=(8, 4)))
    at = np.nonzero(rng.random((9, 8)) < 0.2)
    support = Support(P, Q, at)
    G = (P @ P.T)[np.ix_(at[0], at[0])] * (Q @ Q.T)[np.ix_(at[1], at[1])]
    x = rng.normal(size=len(at[0]))
    np.testing.assert_allclose(support.gathered(support.sketch(x)), G @ x, atol=1e-12)
    np.testing.assert_allclose(support.lifted_back(x), np.linalg.solve(G, x), rtol=1e-8)
    C = rng.normal(size=(5, 4))
    M = np.kron(P, Q).T[:, at[0] * 8 + at[1]]
    np.testing.assert_allclose(
        support.solve(C, np.zeros(len(x)), EXACT),
        np.linalg.lstsq(M, C.reshape(-1), rcond=None)[0],
        rtol=1e-8,
    )
    assert is_injective(support)
    # 72 entries seen through 20 numbers have a null space.
    assert not is_injective(Support(P, Q, np.nonzero(np.ones((9, 8)))))
    # Two equal rows of P: one entry in each, in the same column, cannot be told apart.
    P[1] = P[0]
    assert not is_injective(Support(P, Q, (np.array([0, 1, 4]), np.array([2, 2, 3]))))
