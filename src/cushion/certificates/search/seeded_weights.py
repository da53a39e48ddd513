"""Nets that a seed makes, and the little that training stores of them.

Random-subspace training (Li 2018, Lotfi 2022): a layer's numbers are amplitude·noise + ⌊(Σ_j θ_j
Z_j) / 2^shift⌋ with noise and sign matrices Z_j from a seed. Only the k whole coefficients θ are
stored, so the net may be wide: its weights cost nothing.

Supermasks (Zhou 2019, Ramanujan 2020): a seed makes every weight's sign, training chooses which of
them to keep. Stored is one flag a weight under an adaptive code, so n weights of which a share p is
kept cost about n·H(p) bits: signs are free, and what is never kept costs little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from cushion.certificates.format import sources
from cushion.certificates.format.limits import MOST_SIGNS
from cushion.certificates.search.integer.blueprints import DenseBlock
from cushion.certificates.search.integer.trainable import interpolated, straight
from cushion.certificates.search.seeded import SeededPlan, sizes_of, wide_blueprint
from cushion.certificates.search.sizes import image_shape, square_summed, summed_shape
from cushion.certificates.search.task import Task
from cushion.errors import BadInput

MOST_SEED = 2**32 - 1  # the largest that the format can name
_SUBSPACE_HIDDEN, _MASKED_HIDDEN = 32, 64
_EXACT_SINGLE = 2**24  # float32 sums of whole numbers are exact below this
_LARGEST = 255  # of a coefficient
_SPREAD = 4.0  # standard deviation of the seeded noise
_AMPLITUDE = 1
_ROWS = 64  # sign matrices made at once
_KEPT = 0.3  # share of the signs that the first mask keeps


class SubspaceWeights(nn.Module):
    """k shadow coefficients of one layer, rounded; their rate is what an adaptive code charges.

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
            rows = sources.sign_rows(seed, place, first, min(_ROWS, k - first), size)
            self.signs[first : first + _ROWS] = torch.from_numpy(rows)
        drawn = -(-size // 64) * k  # words that the signs take; the noise follows them
        self.start = torch.from_numpy(sources.noise(seed, place, drawn, size).astype(np.float32))
        self.shadow = nn.Parameter(torch.zeros(k))
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

    def source(self, place: int) -> sources.Source:
        values = self.coefficients().detach().numpy().astype(np.int64)
        return sources.SeededProjection(
            values, self.shape, self.seed, place, self.shift, _AMPLITUDE
        )


def _bit_lengths(sizes: Tensor) -> Tensor:
    return torch.frexp(sizes.double()).exponent.long()


class MaskedWeights(nn.Module):
    """A shadow number in 0..1 a weight, kept from ½ on; the rate is an adaptive code's."""

    def __init__(
        self, shape: tuple[int, ...], seed: int, place: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.seed = seed
        made = sources.signs(seed, place, 0, math.prod(shape)).astype(np.float32)
        self.signs = torch.from_numpy(made).reshape(shape)
        self.shadow = nn.Parameter(torch.rand(shape, generator=generator) * (0.5 / (1 - _KEPT)))
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

    def source(self, place: int) -> sources.Source:
        return sources.SeededMask(self.mask().detach().numpy().astype(np.int64), self.seed, place)


def seeded_plans(task: Task) -> list[SeededPlan]:
    """What subspace training or supermasks try on these data, in order."""
    options, classes = task.options, task.data.classes
    square = square_summed(image_shape(task.data))
    shape = summed_shape(image_shape(task.data), square)
    seed = options.seed
    if seed > MOST_SEED:
        raise BadInput(f"`seed` = {seed} cannot be written into a net; the largest is {MOST_SEED}")
    large = min(shape[1:]) >= 16
    steps, width = 8000 if large else 3000, options.width or 1.0
    if options.method == "supermask":
        blueprints = [wide_blueprint(shape, classes, width, _MASKED_HIDDEN)]
        if options.width is None and not large:  # nobody asks for hidden values
            blueprints.insert(0, (DenseBlock(),))

        def masked(stored: tuple[int, ...], place: int, generator: torch.Generator) -> nn.Module:
            return MaskedWeights(stored, seed, place, generator)

        tried = [(price, blueprint) for price in (3.0, 2.0) for blueprint in blueprints]
        return [SeededPlan(blueprint, masked, 0.005, price, steps) for price, blueprint in tried]
    blueprint = wide_blueprint(shape, classes, width, _SUBSPACE_HIDDEN)
    sizes = sizes_of(blueprint, shape, classes, 1 if square == 1 else 2)
    most = sum(sizes.values())

    def plan(total: int) -> SeededPlan:
        shares = share_out(total, sizes)
        if sum(shares[place] * size for place, size in sizes.items()) > MOST_SIGNS:
            raise BadInput(f"`k` = {total} of {most} weights is too many; lower `k` or `width`")

        def moved(stored: tuple[int, ...], place: int, _: torch.Generator) -> nn.Module:
            return SubspaceWeights(stored, shares[place], seed, place)

        return SeededPlan(blueprint, moved, 0.05, 2.0, steps)

    usual = [min(most, few) for few in ([400] if large else [100, 140, 70])]
    return [plan(total) for total in ([options.k] if options.k else usual)]


def share_out(k: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """k coefficients in proportion to the layers' sizes, one each at least; BadInput if that fails.

    >>> share_out(10, {1: 75, 3: 20, 4: 5})
    {1: 7, 3: 2, 4: 1}
    """
    most = sum(sizes.values())
    if not len(sizes) <= k <= most:
        raise BadInput(f"`k` = {k}: this net's layers and weights ask for {len(sizes)} to {most}")
    exact = {place: k * size / most for place, size in sizes.items()}
    shares = {place: max(1, int(share)) for place, share in exact.items()}
    while (left := k - sum(shares.values())) != 0:
        step = 1 if left > 0 else -1
        open_ones = [place for place in exact if step > 0 or shares[place] > 1]
        shares[max(open_ones, key=lambda p: step * (exact[p] - shares[p]))] += step
    return shares
