"""The top of a symmetric map by block Lanczos: several starts share every product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor

Floats = NDArray[np.float64]
Enough = Callable[[Floats, Floats], bool]

_NUMBERS = 1 << 22  # of the basis: 16 MB in float32
_LEAST, _MOST = 40, 240  # vectors of the basis, whatever their size


@dataclass(frozen=True)
class Top:
    """The largest Ritz values, largest first, one more than there were starts; their residuals, and
    the orthonormal Ritz vectors, [values, size].

    Different eigenvalues lie within the residuals of their values.
    """

    values: Floats
    residuals: Floats
    vectors: Tensor


def top_of(
    gram: Callable[[Tensor], Tensor], starts: Tensor, enough: Enough, restarts: int | None = None
) -> Top:
    """Lanczos from the rows of `starts` at once, until (values, residuals) are `enough` or as many
    restarts.

    The Krylov space holds that of every start, so a vector is missed only if all starts are poor
    in it, and an eigenvalue that occurs k times is seen k times for up to k = the number of starts.
    Every new vector is made orthogonal to all before it. A full basis is replaced by the better
    half of its Ritz vectors (thick restart), which keeps G Vᵀ = Vᵀ T + Qᵀ R: R gives the residuals.
    """
    width, size = starts.shape
    room = min(size - width, min(_MOST, max(_LEAST, _NUMBERS // size)))
    basis, inner = starts.new_empty(room, size), np.zeros((room, room))
    block, count, done = _orthonormal(starts), 0, 0
    while True:
        basis[count : count + width] = block
        count += width
        so_far = basis[:count]
        block, found, rest = _next(gram(block), so_far)
        inner[count - width : count, :count] = found
        inner[:count, count - width : count] = found.T
        full = count + width > room
        values, ritz = _ritz(inner[:count, :count], width + 1)
        residuals = np.linalg.norm(rest @ ritz[count - width :], axis=0)
        if enough(values, residuals) or (full and done == restarts):
            return Top(values, residuals, _mixed(ritz, so_far))
        if full:
            values, ritz = _ritz(inner[:count, :count], max(width, count // 2))
            count, done = len(values), done + 1
            basis[:count] = _mixed(ritz, so_far)
            inner[:] = 0.0
            np.fill_diagonal(inner[:count, :count], values)


def _ritz(inner: Floats, count: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues, largest first, and their vectors as columns."""
    size = len(inner)
    values, vectors = eigh(inner, subset_by_index=[max(0, size - count), size - 1])
    return values[::-1], vectors[:, ::-1]


def _mixed(ritz: Floats, basis: Tensor) -> Tensor:
    return torch.from_numpy(ritz.T.copy()).to(basis.dtype) @ basis


def _next(products: Tensor, basis: Tensor) -> tuple[Tensor, Floats, Floats]:
    """Orthonormal rows beyond the basis, ⟨products, basis⟩, and what the new rows make of them."""
    width = len(products)
    # Nearly all of what there is to remove lies along the last two blocks. Removing it first leaves
    # the pass over the whole basis little to round.
    near = basis[-2 * width :]
    along = products @ near.T
    products = products - along @ near
    found = products @ basis.T
    products -= found @ basis
    found[:, -2 * width :] += along
    block, rest = torch.linalg.qr(products.T)
    block = block.T
    if float(rest.diagonal().abs().min()) <= 0.1 * float(found.abs().max()):
        # what was left is little beside what was removed: not yet orthogonal, maybe only rounding
        block = _orthonormal(block - (block @ basis.T) @ basis)
        block = block - (block @ basis.T) @ basis
    return _orthonormal(block), found.double().numpy(), rest.double().numpy()


def _orthonormal(rows: Tensor) -> Tensor:
    columns: Tensor = torch.linalg.qr(rows.T)[0]
    return columns.T.contiguous()
