"""Random-subspace training (Li 2018, Lotfi 2022): k trained coefficients move a whole net that a
seed makes.

A layer's numbers are amplitude·noise + ⌊(Σ_j θ_j Z_j) / 2^shift⌋ with noise and sign matrices Z_j
from a seed. Only the k whole coefficients θ are stored, so the net may be wide: its weights cost
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from cushion.certificates.format.limits import MOST_SIGNS
from cushion.certificates.format.sources import SeededProjection, Source, noise, sign_rows
from cushion.certificates.search.integer.trainable import interpolated, straight
from cushion.certificates.search.judging import Found, Judge
from cushion.certificates.search.options import Report
from cushion.certificates.search.sample import image_shape
from cushion.certificates.search.seeded import (
    Budget,
    SeededPlan,
    check_seed,
    search_seeded,
    sizes_of,
    wide_blueprint,
)
from cushion.data.dataset import Dataset
from cushion.errors import BadInput

_HIDDEN = 32
_EXACT_SINGLE = 2**24  # float32 sums of whole numbers are exact below this
_LARGEST = 255  # of a coefficient
_SPREAD = 4.0  # standard deviation of the seeded noise
_AMPLITUDE = 1
_ROWS = 64  # sign matrices made at once


class SubspaceWeights(nn.Module):
    """k shadow coefficients of one layer, rounded; their rate is what an adaptive code charges for
    today's sizes.

    The shift makes coefficients of ±1 move the weights about as far as the noise is wide. The
    coefficients are kept so small that every sum of theirs is exact in float32: the forward pass
    uses the integers of `source`.
    """

    def __init__(self, shape: tuple[int, ...], k: int, seed: int, place: int) -> None:
        super().__init__()
        size = math.prod(shape)
        self.shape, self.seed = shape, seed
        self.shift = max(0, round(math.log2(math.sqrt(k) / _SPREAD)))
        self.largest = min(_LARGEST, (_EXACT_SINGLE - 1) // k)
        self.signs = torch.empty(k, size)
        for first in range(0, k, _ROWS):
            rows = sign_rows(seed, place, first, min(_ROWS, k - first), size)
            self.signs[first : first + _ROWS] = torch.from_numpy(rows)
        drawn = -(-size // 64) * k  # words that the signs take; the noise follows them
        self.start = torch.from_numpy(noise(seed, place, drawn, size).astype(np.float32))
        self.shadow = nn.Parameter(torch.zeros(k))
        self.costs = torch.zeros(self.largest + 2)
        self.refresh()

    def coefficients(self) -> Tensor:
        """[k] whole floats, differentiable (straight through)."""
        return straight(self.shadow.clamp(-self.largest, self.largest))

    def integers(self) -> Tensor:
        moved = straight((self.coefficients() @ self.signs) * 2.0**-self.shift, 0.0)
        return (_AMPLITUDE * self.start + moved).reshape(self.shape)

    def rate(self) -> Tensor:
        """Bits by linear interpolation between the costs of neighbouring sizes."""
        return interpolated(self.costs, self.shadow.abs())

    def refresh(self) -> None:
        """-log2 of each bit length's share, the other bits and a sign; never falling."""
        every = _bit_lengths(torch.arange(self.largest + 2))
        found = _bit_lengths(self.coefficients().detach().abs())
        counts = torch.bincount(found, minlength=int(every[-1]) + 1).double() + 0.5
        costs = -torch.log2(counts / counts.sum())[every] + every
        self.costs = torch.cummax(costs, 0).values.float()

    def source(self, place: int) -> Source:
        values = self.coefficients().detach().numpy().astype(np.int64)
        return SeededProjection(values, self.shape, self.seed, place, self.shift, _AMPLITUDE)


def _bit_lengths(sizes: Tensor) -> Tensor:
    return torch.frexp(sizes.double()).exponent.long()


def compress_to_subspace(
    data: Dataset,
    judge: Judge,
    *,
    budget: Budget,
    seed: int,
    k: int | None = None,
    width: float | None = None,
    teacher: Tensor | None = None,
    report: Report | None = None,
) -> Found:
    """Train k coefficients in all, or try several numbers of them; see `search_seeded`."""
    check_seed(seed)
    shape = image_shape(data)
    large = min(shape[1:]) >= 16
    blueprint = wide_blueprint(shape, data.classes, width or 1.0, _HIDDEN)
    sizes = sizes_of(blueprint, shape, data.classes)
    most = sum(sizes.values())
    choices = (
        [k] if k is not None else [min(most, few) for few in ([400] if large else [100, 140, 70])]
    )

    def plan(total: int) -> SeededPlan:
        shares = share_out(total, sizes)
        if sum(shares[place] * size for place, size in sizes.items()) > MOST_SIGNS:
            raise BadInput(
                f"`k` = {total} is too many for a net of {most} weights; lower `k` or `width`"
            )
        return SeededPlan(
            blueprint,
            lambda stored, place, _: SubspaceWeights(stored, shares[place], seed, place),
            learning_rate=0.05,
            price=2.0,
            steps=8000 if large else 3000,
        )

    plans = [plan(total) for total in choices]
    return search_seeded(
        plans, data, judge, budget=budget, seed=seed, teacher=teacher, report=report
    )


def share_out(k: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """k coefficients in proportion to the layers' sizes, at least one each, k in all; BadInput
    where that cannot be.

    >>> share_out(10, {1: 75, 3: 20, 4: 5})
    {1: 7, 3: 2, 4: 1}
    """
    most = sum(sizes.values())
    if not len(sizes) <= k <= most:
        raise BadInput(
            f"`k` = {k}: this net has {len(sizes)} layers and {most} weights; give {len(sizes)} to "
            f"{most} coefficients"
        )
    exact = {place: k * size / most for place, size in sizes.items()}
    shares = {place: max(1, int(share)) for place, share in exact.items()}
    while (left := k - sum(shares.values())) != 0:
        step = 1 if left > 0 else -1
        place = max(
            exact,
            key=lambda p: step * (exact[p] - shares[p]) if step > 0 or shares[p] > 1 else -math.inf,
        )
        shares[place] += step
    return shares
