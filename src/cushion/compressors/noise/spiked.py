"""√t·G + B as it is stored: B's non-zeros as a pruned weight, √t on its own grid, G from the seed.

G must be the same on every machine, and Proposition 1.1 (Shin 2021) must hold for it. Both are true
of g = (set bits of 64 random bits - 32)/4, the sum of 64 independent signs over 8: whole numbers
over 4, symmetric, of mean 0 and variance 1, and E exp(λg) = cosh(λ/8)^64 ≤ exp(λ²/2), which is all
that the proof uses of a normal variable. Its Kolmogorov-Smirnov distance to N(0, 1) is 0.05, half
the largest jump of such a lattice. A certificate's decoder makes the same numbers
(`certificates.format.sources.noise`), so that the integer net is exact too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from cushion.certificates.format.limits import MOST_AMPLITUDE
from cushion.certificates.format.sources import SeededNoise, noise
from cushion.compressors.storage.exact_layers import ExactWeight, check_place
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Fields, Numbers, Parts, Shape, StoredLayer, Values
from cushion.errors import BadInput, Unsupported

EVERYWHERE, ELSEWHERE = 0, 1
_BLOCK = 1 << 16  # numbers of G made at a time: what is computed on the way stays in the cache
_MOST_NUMBER_BITS = 40  # of a weight that is made of two grids
_WITH_A_MEAN = "its draws have a mean, which the format can leave out of a last layer only"
_WORK = 100.0  # of one number of G, in signs of a projection


def bell_numbers(seed: int, place: int, n: int) -> Values:
    """g of the first n weights of the layer at `place`: [n], whole multiples of 1/4."""
    found = np.empty(n)
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        np.divide(noise(seed, place, first, size), 4.0, out=found[first : first + size])
    return found


@dataclass(frozen=True, eq=False)
class Spiked(StoredLayer, kind="spiked", number=9, field_count=2):
    """B + √t·G (`everywhere`), or B where it has a non-zero and mean + deviation·G elsewhere
    (Appendix E).

    law: [1], √t; or [2], deviation and mean, on one grid. Without noise it would be `Pruned`, so
    the first is above 0.
    """

    kept: Pruned
    law: Numbers
    place: int

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.kept.shape

    @property
    def everywhere(self) -> bool:
        return bool(self.law.integers.size == 1)

    @property
    def numbers(self) -> Parts:
        return *self.kept.numbers, self.law

    @property
    def fields(self) -> Fields:
        return *self.kept.fields, EVERYWHERE if self.everywhere else ELSEWHERE

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        if fields[1] not in (EVERYWHERE, ELSEWHERE):
            raise BadInput(f"noise of the kind {fields[1]} is not known")
        return *Pruned.sizes(shape, fields[:1]), (1 if fields[1] == EVERYWHERE else 2,)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
        *kept, law = numbers
        if law.integers[0] <= 0:
            raise BadInput("the deviation of the noise must be above 0")
        return cls(Pruned.restore(shape, place, fields[:1], tuple(kept)), law, place)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:  # noqa: ARG003
        return _WORK * weights

    @property
    def deviation(self) -> float:
        """√t, or the deviation of the draws."""
        return float(self.law.values[0])

    @property
    def mean(self) -> float:
        """Of the draws."""
        return 0.0 if self.everywhere else float(self.law.values[1])

    def weight(self, seed: int) -> Values:
        kept = self.kept.weight(seed)
        bell = bell_numbers(seed, self.place, kept.size).reshape(self.shape)
        drawn = self.mean + self.deviation * bell
        return kept + drawn if self.everywhere else np.where(kept != 0, kept, drawn)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:
        """B + √t·G on a grid that holds both: the format stores what is not noise alone, so B's
        places carry their noise.

        Draws with a mean have it taken off every number of the layer, which changes no answer of a
        last layer.
        """
        check_place(self.place, place)
        kept, law = self.kept, self.law
        own = kept.values.exponent if kept.parameters else law.exponent
        lowest = min(own, law.exponent - 2)  # G is whole numbers over 4
        largest = int(np.abs(kept.values.integers).max(initial=1)).bit_length() + own - lowest
        amplitude = int(law.integers[0]) << (law.exponent - 2 - lowest)
        if amplitude > MOST_AMPLITUDE or largest > _MOST_NUMBER_BITS:
            raise Unsupported("its noise and its weights are too far apart in size for one grid")
        values = kept.integers.reshape(shape) << (own - lowest)
        at = values != 0
        if self.everywhere:
            drawn = amplitude * noise(seed, place, 0, values.size).reshape(shape)
            values = np.where(at, values + drawn, 0)
        else:
            values = np.where(at, values - (int(law.integers[1]) << (law.exponent - lowest)), 0)
        if (values[at] == 0).any():  # which the format reads as noise alone
            why = "a weight that stays and its noise cancel to an exact zero"
            raise Unsupported(f"{why}; use another `seed` or `grid`")
        source = SeededNoise(values, seed, place, amplitude)
        only_last = _WITH_A_MEAN if self.mean else ""
        return ExactWeight(lambda _: source, Fraction(2) ** lowest, fixed=True, only_last=only_last)

    @property
    def parameters(self) -> int:
        """The non-zeros of B, and the numbers of the law."""
        return self.kept.parameters + int(self.law.integers.size)


def on_a_grid(law: Values, bits: int) -> Numbers:
    """Deviation (and mean) on a grid where the larger takes `bits` bits, its sign included; the
    deviation odd.

    Then a kept number and its noise, which is a multiple of deviation/4, hardly ever cancel to an
    exact zero, which a certificate's code keeps for "nothing is stored here".
    """
    found = Numbers.fitted(law, bits)
    integers = found.integers.copy()
    integers[0] |= 1
    return Numbers(integers, found.exponent)
