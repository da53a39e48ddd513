"""The two halves of recovery: Douglas-Rachford splitting between the ℓ1 norm and Pᵀ X Q = C, for
orthonormal P and Q, and linear algebra on a few entries of X.

For entries S the Gram matrix of the map x_S -> Pᵀ X Q is G[s, s'] = (PPᵀ)[i, i'] (QQᵀ)[j, j']. It
is never formed: a product with it is a few products with the factors, and conjugate gradients solve
with it. They also answer the smallest correction where G is singular.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cushion.data.counter import stream

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Places = tuple[NDArray[np.int64], NDArray[np.int64]]
_RELAXATION = 1.6  # of the splitting; between 1 and 2 all converge
# soft threshold against the largest entry of the feasible matrix of least squares
_FIRST_STEP = 0.1
_SINGLE = 1e-5  # single precision serves until the two halves of the splitting agree to this
_MOST_STEPS = 300  # of conjugate gradients
EXACT = 1e-14  # relative residual of a solution that is as good as float64 gives
_SAME = 1e-6


class Splitting:
    """The iteration: Z, its projection, and the sparse half; in single precision at first."""

    def __init__(
        self, P: Matrix, Q: Matrix, C: Matrix, start: Matrix, U: Matrix | None = None
    ) -> None:
        """From a feasible `start`, and the coordinates of a dual variable where one is known."""
        self._exact = P, Q, C
        self._threshold = _FIRST_STEP * float(np.abs(start).max(initial=0.0))
        self._use(np.float32, start if U is None else start - self._threshold * (P @ U @ Q.T))

    def _use(self, kind: type[np.floating], Z: NDArray[np.floating]) -> None:
        P, Q, C = self._exact
        self._P, self._Q, self._C = (part.astype(kind) for part in (P, Q, C))
        self._Pt, self._Qt = np.ascontiguousarray(self._P.T), np.ascontiguousarray(self._Q.T)
        self._Z = np.ascontiguousarray(Z.astype(kind))
        self._lift, self._reflected, self.sparse, self._before = (
            np.zeros_like(self._Z) for _ in range(4)
        )
        self._excess = np.zeros_like(self._C)

    def step(self) -> None:
        """Z += λ (soft(2X - Z) - X) with X the projection of Z; `sparse` is soft(2X - Z)."""
        kind = self._Z.dtype.type
        Z, lift, reflected = self._Z, self._lift, self._reflected
        self.sparse, self._before = self._before, self.sparse
        self._excess = (self._Pt @ Z) @ self._Q - self._C
        np.matmul(self._P @ self._excess, self._Qt, out=lift)  # Z - X
        np.multiply(lift, kind(-2), out=reflected)
        reflected += Z
        limit = kind(self._threshold)
        np.clip(reflected, -limit, limit, out=self.sparse)
        np.subtract(reflected, self.sparse, out=self.sparse)
        np.subtract(self.sparse, Z, out=reflected)
        reflected += lift  # sparse - X
        reflected *= kind(_RELAXATION)
        Z += reflected

    @property
    def certificate(self) -> Matrix:
        """(X - Z)/t in coordinates of the bases: at a fixed point a subgradient of the ℓ1 norm."""
        found: Matrix = self._excess.astype(np.float64) / -self._threshold
        return found

    def feasible_point(self) -> Matrix:
        """The sparse half, projected on the affine set in double precision."""
        P, Q, C = self._exact
        V = self.sparse.astype(np.float64)
        found: Matrix = V - P @ (P.T @ V @ Q - C) @ Q.T
        return found

    def adapt(self, late: bool) -> None:
        """Balance the threshold between both residuals; double precision once single is spent."""
        size = float(np.linalg.norm(self.sparse))
        primal = float(np.linalg.norm(self._reflected)) / _RELAXATION
        dual = float(np.linalg.norm(self.sparse - self._before))
        if self._Z.dtype == np.float32 and (late or 0.0 < primal <= _SINGLE * size):
            self._use(np.float64, self._Z)
        elif not late and primal > 0.0 and dual > 0.0:
            factor = 0.5 if primal > 10 * dual else 2.0 if dual > 10 * primal else 1.0
            if factor != 1.0:  # the dual variable stays: Z = X + t·(Z - X)/t
                self._Z += self._lift * self._Z.dtype.type(factor - 1.0)
                self._threshold *= factor


def places(chosen: NDArray[np.bool_]) -> Places:
    """Where the entries that are chosen stand, row by row."""
    rows, columns = np.nonzero(chosen)
    return rows.astype(np.int64), columns.astype(np.int64)


class Support:
    """Entries `at` = (rows [n], columns [n]), row by row, of a matrix [p1, p2] under P and Q."""

    def __init__(self, P: Matrix, Q: Matrix, at: Places) -> None:
        self.P, self.Q, self.at = P, Q, at
        starts = np.searchsorted(at[0], np.arange(len(P) + 1))
        self._frame = sparse.csr_array(
            (np.zeros(len(at[0])), at[1], starts), shape=(len(P), len(Q))
        )

    def scattered(self, values: Vector) -> Matrix:
        """The matrix [p1, p2] with these values on the support, 0 elsewhere."""
        found = np.zeros(self._frame.shape)
        found[self.at] = values
        return found

    def sketch(self, values: Vector) -> Matrix:
        """Pᵀ X Q: [k1, k2]."""
        self._frame.data = values
        found: Matrix = (self._frame.T @ self.P).T @ self.Q
        return found

    def gathered(self, U: Matrix) -> Vector:
        """(P U Qᵀ) on the support: the adjoint of `sketch`."""
        found: Vector = (self.P @ U @ self.Q.T)[self.at]
        return found

    def solve(self, C: Matrix, start: Vector, residual: float) -> Vector:
        """Least squares of Pᵀ X Q = C on the support, nearest to `start`; to a residual of G."""
        right = self.gathered(C - self.sketch(start))
        size = float(np.linalg.norm(right))
        return start + self.lifted_back(right, residual / size) if size > residual else start

    def lifted_back(self, right: Vector, accuracy: float = EXACT) -> Vector:
        """G⁺ right by conjugate gradients from zero, to a relative residual."""
        found = np.zeros_like(right)
        residual = right.copy()
        direction = residual.copy()
        square = float(residual @ residual)
        stop = square * accuracy**2
        for _ in range(_MOST_STEPS):
            if square <= stop or square == 0.0:
                break
            image = self.gathered(self.sketch(direction))
            curvature = float(direction @ image)
            if curvature <= 0.0:  # the null space, up to rounding
                break
            length = square / curvature
            found += length * direction
            residual -= length * image
            before, square = square, float(residual @ residual)
            direction *= square / before
            direction += residual
        return found


def is_injective(support: Support) -> bool:
    """Whether different values on the support give different sketches, by a probe.

    A fixed vector in general position comes back from its own image only where the map has no null
    space: what lies in one is lost. An almost singular map fails the probe too, which errs on the
    safe side.
    """
    n = len(support.at[0])
    probe = stream("injectivity probe", 0, n).astype(np.float64) / 2.0**64 - 0.5
    again = support.lifted_back(support.gathered(support.sketch(probe)))
    return bool(np.linalg.norm(again - probe) <= _SAME * np.linalg.norm(probe))
