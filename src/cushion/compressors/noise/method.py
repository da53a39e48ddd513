"""Small weights replaced by noise (Shin 2021) as a method; no torch until it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cushion.compressors.method import Account, Candidate, Found, Method
from cushion.compressors.noise.options import HeavyTailOptions
from cushion.compressors.noise.records import ReplacementSummary, TriedTail

if TYPE_CHECKING:
    from cushion.compressors.subject import Subject


@dataclass(frozen=True)
class HeavyTail(Method):
    """G comes from the seed, which is part of the message and paid; the trials use seed, seed + 1,
    ..., and the net that is returned is that of the first.
    """

    options = HeavyTailOptions
    summary = ReplacementSummary
    tried = TriedTail
    stores = ("noise.spiked",)

    def seeds(self, options: HeavyTailOptions) -> int:
        return options.trials

    def tries(self, options: HeavyTailOptions) -> int:
        from cushion.compressors.noise.candidates import settings

        return len(settings(options)) * len(options.grids)

    def candidates(self, subject: Subject) -> Iterator[Candidate]:
        from cushion.compressors.noise.candidates import candidates

        return candidates(subject)

    def account(self, found: Found) -> Account:
        from cushion.compressors.noise.account import ReplacementAccount

        return ReplacementAccount(found)


HEAVY_TAIL = HeavyTail(
    "heavy-tail",
    "NET with its small weights replaced by noise from the seed, √t·G + B (Shin 2021)",
    ("form", "tau", "t", "epsilon", "eta", "layers", "trials", "grid", "gamma", "level"),
)
