"""Pruning by magnitude and sketching (Guha 2023) as methods; no torch until one runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cushion.compressors.method import Account, Candidate, Found, Method
from cushion.compressors.pruning.options import PruneOptions
from cushion.compressors.pruning.records import PruningSummary, TriedPruning

if TYPE_CHECKING:
    from cushion.compressors.subject import Subject
    from cushion.nets.network import Network

_PRUNING = ("rule", "d", "sparsity", "grid", "fine_tune", "subgaussian", "gamma", "level")


@dataclass(frozen=True)
class Pruning(Method):
    """Positions and values of what stays; the coins of Algorithm 1 come from the seed."""

    options = PruneOptions
    summary = PruningSummary
    tried = TriedPruning
    stores = ("pruning.sketched",)

    def check(self, options: PruneOptions) -> None:
        options.check(self.name)

    def prepare(self, net: Network, start: Network | None) -> tuple[Network, Network | None]:
        from cushion.compressors.pruning.candidates import check_prunable

        check_prunable(net)
        return net, start

    def tries(self, options: PruneOptions) -> int:
        from cushion.compressors.pruning.candidates import settings

        return len(settings(options)) * max(1, len(options.grids))

    def candidates(self, subject: Subject) -> Iterator[Candidate]:
        from cushion.compressors.pruning.candidates import candidates

        return candidates(subject)

    def account(self, found: Found) -> Account:
        from cushion.compressors.pruning.account import PruningAccount

        return PruningAccount(found)


@dataclass(frozen=True)
class Sketching(Pruning):
    """The same, as A X Bᵀ of every layer that comes back from it exactly."""

    def uncertifiable(self, options: PruneOptions) -> str:  # noqa: ARG002
        return "the format has no sketches; use `method` = magnitude, which has the same weights"

    def finish(self, subject: Subject, best: Candidate) -> Candidate:
        from cushion.compressors.pruning.candidates import sketched

        return sketched(subject, best)


MAGNITUDE = Pruning(
    "magnitude",
    "NET without its small weights, the rest on a grid (Guha 2023, Algorithm 1, or as "
    "practitioners prune)",
    _PRUNING,
)
SKETCH = Sketching(
    "sketch",
    "the same, each layer stored as a sketch A X Bᵀ and recovered by its smallest ℓ1 norm",
    ("m", "ones", *_PRUNING),
)
