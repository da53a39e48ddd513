"""Douglas-Rachford splitting between the ℓ1 norm and Pᵀ X Q = C, for orthonormal P and Q."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
_RELAXATION = 1.6  # of the splitting; between 1 and 2 all converge
# soft threshold against the largest entry of the feasible matrix of least squares
_FIRST_STEP = 0.1
_SINGLE = 1e-5  # single precision serves until the two halves of the splitting agree to this


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
