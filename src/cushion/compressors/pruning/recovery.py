"""A sparse matrix from its sketch: min ‖X‖₁ with A X Bᵀ = Y (Guha 2023, Eq. 1), proved optimal.

Douglas-Rachford splitting between the ℓ1 norm and the affine set. With orthonormal bases P [p1, k1]
and Q [p2, k2] of the row spaces of A and B the constraint reads Pᵀ X Q = C, and the projection on
it is V - P (Pᵀ V Q - C) Qᵀ: four products with the two factors; no Kronecker product is ever
formed.

Now and then the support that the splitting has found is tried: least squares on it, then a dual
certificate. A matrix U whose lift W = P U Qᵀ (a matrix of the form Aᵀ U' B) has ‖W‖_∞ ≤ 1 proves
‖X‖₁ ≥ ⟨W, X⟩ = ⟨U, C⟩ for every feasible X.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cushion.compressors.pruning import splitting
from cushion.compressors.pruning.splitting import Splitting, Support, Vector
from cushion.errors import BadInput
from cushion.progress import progress

Matrix = NDArray[np.float64]
MOST_ITERATIONS = 5000
TOLERANCE = 1e-9
_LOOK = 10  # iterations between two looks at the residuals
_FIRST_LOOK = 30  # iterations before the support is tried, and by how much later each time
_GROWTH = 1.5
_COMPLETIONS = 6  # rounds in which entries join a support
_JOIN = 0.3  # those of at least this part of the largest
_SMALL = 4096  # numbers of a sketch whose every support is tried
_CLOSE = 1e-8  # least squares while a support is being completed
_ROUGH = 1e-3  # the first try of a certificate
_FIRST_STAY = 100  # iterations on the matrix of signs
_SINGULAR = 1e-10  # singular values below this part of the largest count as zero
_STRICT = 1e-6  # how far below 1 a certificate stays off the support where it proves uniqueness


@dataclass(frozen=True, eq=False)
class Recovery:
    """matrix: [p1, p2], the feasible matrix with the smallest ℓ1 norm that was found.

    feasible_error: max |A X Bᵀ - Y| / max |Y|. dual: a proven lower bound on the ℓ1 norm of every
    feasible matrix; optimal_gap: (‖X‖₁ - dual) / ‖X‖₁, 0 (to rounding) where nothing feasible is
    smaller. unique: whether the certificate also shows that no other matrix reaches it (strictly
    below 1 off the support, and A X Bᵀ one-to-one on it). All are float64 arithmetic: a proof up to
    rounding.
    """

    matrix: Matrix
    iterations: int
    feasible_error: float
    optimal_gap: float
    dual: float
    unique: bool


def recover(
    sketch: NDArray[np.generic],
    left: NDArray[np.generic],
    right: NDArray[np.generic],
    *,
    most_iterations: int = MOST_ITERATIONS,
) -> Recovery:
    """The matrix of smallest ℓ1 norm with left · X · rightᵀ = sketch: [r, c], [r, p1] and [c, p2]
    give [p1, p2].

    Stops as soon as the duality gap is at most TOLERANCE; else after most_iterations, with the gap
    as it is. Where no matrix has this sketch, feasible_error says so, at once.
    """
    A, B, Y = (np.asarray(part, dtype=np.float64) for part in (left, right, sketch))
    if A.ndim != 2 or B.ndim != 2 or Y.shape != (len(A), len(B)):
        raise BadInput(f"a sketch {Y.shape} does not fit matrices {A.shape} and {B.shape}")
    if not all(np.isfinite(part).all() for part in (A, B, Y)):
        raise BadInput("a sketch and its matrices must be finite numbers")
    # One thread: the same steps, and so the same answer, whatever the machine has.
    with threadpool_limits(1, user_api="blas"):
        size = float(np.abs(Y).max(initial=0.0))
        search = _Search(A, B, Y / (size or 1.0))
        iterations = 0
        if size == 0.0:
            search.offer(np.zeros((A.shape[1], B.shape[1])))  # ‖X‖₁ = 0 for this one alone
            search.unique = True
        elif not search.feasible(search.nearest):
            search.best = search.nearest
        else:
            iterations = search.run(most_iterations)
        matrix = search.best * size
        error = float(np.abs(A @ matrix @ B.T - Y).max(initial=0.0)) / (size or 1.0)
    dual = max(search.dual, 0.0)
    gap = max(0.0, 1.0 - dual / search.norm) if search.norm > 0.0 else 0.0
    return Recovery(matrix, iterations, error, gap, dual * size, search.unique)


def row_space(factor: Matrix) -> tuple[Matrix, Matrix]:
    """(orthonormal basis [p, k] of the row space, T [k, r]): factor · X = Y is basisᵀ X = T Y."""
    if factor.shape[0] == factor.shape[1] and np.array_equal(factor, np.eye(len(factor))):
        return factor, factor
    U, s, Vt = np.linalg.svd(factor, full_matrices=False)
    rank = int((s > _SINGULAR * s.max(initial=0.0)).sum())
    return np.ascontiguousarray(Vt[:rank].T), U[:, :rank].T / s[:rank, None]


class _Search:
    """One sketch, scaled to size 1: the best feasible matrix and lower bound so far."""

    def __init__(self, A: Matrix, B: Matrix, Y: Matrix) -> None:
        self.A, self.B, self.Y = A, B, Y
        (self.P, left), (self.Q, right) = row_space(A), row_space(B)
        self.C = left @ Y @ right.T
        self.nearest: Matrix = self.P @ self.C @ self.Q.T  # the least-squares solution
        self.best: Matrix = self.nearest
        self.norm, self.dual, self.unique = np.inf, 0.0, False

    def feasible(self, X: Matrix) -> bool:
        return bool(np.abs(self.A @ X @ self.B.T - self.Y).max(initial=0.0) <= TOLERANCE)

    def offer(self, X: Matrix) -> None:
        """Take X, which is feasible, if it is the smallest so far."""
        norm = float(np.abs(X).sum())
        if norm < self.norm:
            self.best, self.norm = X, norm

    def bound(self, U: Matrix) -> Matrix:
        """Take the lower bound that U gives after scaling; answers its lift, not scaled."""
        W: Matrix = self.P @ U @ self.Q.T
        scale = max(1.0, float(np.abs(W).max(initial=0.0)))
        self.dual = max(self.dual, float((U * self.C).sum()) / scale)
        return W

    def run(self, most: int) -> int:
        """Iterate until the gap is at most TOLERANCE; how many iterations it took."""
        self.offer(self.nearest)
        # enough where the sketch loses nothing
        self.look(self.nearest, np.zeros_like(self.C))
        main = state = Splitting(self.P, self.Q, self.C, self.nearest)
        due, back = _FIRST_LOOK, 0
        found: tuple[Support, Vector] | None = None
        count: int
        for count in progress(range(1, most + 1), "recovering"):
            if self.norm - self.dual <= TOLERANCE * self.norm:
                return count - 1
            if count % _LOOK == 1:
                state.adapt(count >= most // 2)
            state.step()
            if count % _LOOK and count != most:
                continue
            if state is not main and found is not None:
                if self.certify(found, state.certificate) or count < back:
                    continue
                state, due = main, int(_GROWTH * count)
            elif count >= due or count == most:
                due = int(_GROWTH * count)
                found = self.look(state.sparse.astype(np.float64), state.certificate)
                self.offer(state.feasible_point())
                if found is not None:
                    # A certificate belongs to signs alone, and the matrix of signs, whose non-zeros
                    # are all of one size, shows its own soonest.
                    support, signs = found[0], np.sign(found[1])
                    start, C = support.scattered(signs), support.sketch(signs)
                    state = Splitting(self.P, self.Q, C, start, main.certificate)
                    back = count + max(_FIRST_STAY, count)
        return most

    def look(self, sparse: Matrix, U: Matrix) -> tuple[Support, Vector] | None:
        """Polish the support of `sparse`: what is feasible there, kept if it is the smallest."""
        self.bound(U)
        found = self.polished(sparse)
        if found is not None:
            support, values = found
            self.offer(support.scattered(values))
            self.certify(found, U)
        return found

    def certify(self, found: tuple[Support, Vector], U: Matrix) -> bool:
        """Move U so that its lift has the signs on the support; whether this proves it optimal."""
        support, values = found
        wanted = np.sign(values) - self.bound(U)[support.at]
        for accuracy in (_ROUGH, splitting.EXACT):
            W = self.bound(U + support.sketch(support.lifted_back(wanted, accuracy)))
            W[support.at] = 0.0
            off = float(np.abs(W).max(initial=0.0))
            if off > 1.0 + 10 * _ROUGH:
                return False
        if np.abs(values).sum() - self.dual > TOLERANCE * self.norm:
            return False
        self.best, self.norm = support.scattered(values), float(np.abs(values).sum())
        self.unique = off < 1.0 - _STRICT and splitting.is_injective(support)
        return True

    def polished(self, sparse: Matrix) -> tuple[Support, Vector] | None:
        """A feasible matrix by least squares on the support of `sparse`, or None.

        Small non-zeros take the splitting longest. What least squares leaves over is the sketch of
        those that are missing: where the remainder, lifted, is largest, entries join the support, a
        few times.
        """
        size = float(np.linalg.norm(self.C))
        likely = np.abs(sparse) > TOLERANCE * np.abs(sparse).max(initial=0.0)
        matrix, before = sparse, np.inf
        for _ in range(_COMPLETIONS):
            at = splitting.places(likely)
            # Near as many entries as the sketch has: ill-conditioned, and seldom the last; cheap
            # where all is small.
            if not 0 < len(at[0]) <= (self.C.size if self.C.size <= _SMALL else self.C.size // 2):
                return None
            support = Support(self.P, self.Q, at)
            values = support.solve(self.C, matrix[at], _CLOSE * size)
            matrix, rest = support.scattered(values), self.C - support.sketch(values)
            after = float(np.linalg.norm(rest))
            if after <= 10 * _CLOSE * size:
                values = support.solve(self.C, values, splitting.EXACT * size)
                keep = np.abs(values) > TOLERANCE * np.abs(values).max()
                support = Support(self.P, self.Q, (at[0][keep], at[1][keep]))
                values = support.solve(self.C, values[keep], splitting.EXACT * size)
                return (support, values) if self.feasible(support.scattered(values)) else None
            if after > 0.5 * min(before, size):
                return None
            before = after
            lifted = np.abs(self.P @ rest @ self.Q.T)
            lifted[at] = 0.0
            likely |= lifted >= _JOIN * lifted.max()
        return None
