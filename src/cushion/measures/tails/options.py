"""How tails are fitted: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.records import Options, option


@dataclass(frozen=True)
class TailOptions(Options):
    """100 draws of the bootstrap tell p to 0.05, 2500 to 0.01; each costs a fit."""

    bootstrap: int = option(
        0,
        "samples of each fitted power law that test its goodness of fit, such as 100; 0: no test",
        least=0,
        most=10**6,
    )
    seed: int = option(0, "of those draws; all layers use the same", least=0, most=2**63 - 1)
