"""Supermasks (Zhou 2019, Ramanujan 2020): a seed makes every weight's sign, training chooses which
of them to keep.

Stored is one flag a weight under an adaptive code, so n weights of which a share p is kept cost
about n·H(p) bits: signs are free, and what is never kept costs little.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from cushion.certificates.format.sources import SeededMask, Source, signs
from cushion.certificates.search.integer.blueprints import DenseBlock
from cushion.certificates.search.integer.trainable import straight
from cushion.certificates.search.judging import Found, Judge
from cushion.certificates.search.options import Report
from cushion.certificates.search.sample import image_shape
from cushion.certificates.search.seeded import (
    Budget,
    SeededPlan,
    check_seed,
    search_seeded,
    wide_blueprint,
)
from cushion.data.dataset import Dataset

_HIDDEN = 64
_KEPT = 0.3  # share of the signs that the first mask keeps


class MaskedWeights(nn.Module):
    """A shadow number in 0..1 a weight, kept from ½ on; the rate is an adaptive code's."""

    def __init__(
        self, shape: tuple[int, ...], seed: int, place: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.seed = seed
        self.signs = torch.from_numpy(
            signs(seed, place, 0, math.prod(shape)).astype(np.float32)
        ).reshape(shape)
        self.shadow = nn.Parameter(torch.rand(shape, generator=generator) * (0.5 / (1 - _KEPT)))
        self.kept_bits, self.dropped_bits = 1.0, 1.0
        self.refresh()

    def mask(self) -> Tensor:
        """Whole floats 0 and 1, differentiable (straight through)."""
        # a shadow beyond the ends would take long to come back, and never if it were clipped here
        with torch.no_grad():
            self.shadow.clamp_(0.0, 1.0)
        return straight(self.shadow)

    def integers(self) -> Tensor:
        return self.mask() * self.signs

    def rate(self) -> Tensor:
        """Bits by linear interpolation between dropped and kept."""
        kept = self.shadow.sum()
        return kept * self.kept_bits + (self.shadow.numel() - kept) * self.dropped_bits

    def refresh(self) -> None:
        """-log2 of the shares of kept and dropped signs; keeping never costs less than dropping."""
        kept = float(self.mask().detach().sum())
        share = min(0.5, (kept + 0.5) / (self.shadow.numel() + 1))
        self.kept_bits, self.dropped_bits = -math.log2(share), -math.log2(1 - share)

    def source(self, place: int) -> Source:
        return SeededMask(self.mask().detach().numpy().astype(np.int64), self.seed, place)


def compress_to_supermask(
    data: Dataset,
    judge: Judge,
    *,
    budget: Budget,
    seed: int,
    width: float | None = None,
    teacher: Tensor | None = None,
    report: Report | None = None,
) -> Found:
    """Train masks over a net that the seed makes; see `search_seeded`.

    Below 16x16 a single dense layer is tried as well, unless a width asks for hidden values.
    """
    check_seed(seed)
    shape = image_shape(data)
    large = min(shape[1:]) >= 16
    blueprints = [wide_blueprint(shape, data.classes, width or 1.0, _HIDDEN)]
    if width is None and not large:
        blueprints.insert(0, (DenseBlock(),))
    plans = [
        SeededPlan(
            blueprint,
            lambda stored, place, generator: MaskedWeights(stored, seed, place, generator),
            learning_rate=0.005,
            price=price,
            steps=8000 if large else 3000,
        )
        for price in (3.0, 2.0)
        for blueprint in blueprints
    ]
    return search_seeded(
        plans, data, judge, budget=budget, seed=seed, teacher=teacher, report=report
    )
