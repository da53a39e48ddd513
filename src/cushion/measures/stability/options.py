"""How noise stability is measured: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cushion.errors import BadInput
from cushion.records import Options, option

Method: TypeAlias = Literal["auto", "exact", "probes"]


@dataclass(frozen=True)
class StabilityOptions(Options):
    """Defaults are quick; every field is a flag of `cushion measure`."""

    examples: int | None = option(
        None, "rows for everything but the one pass: what some minutes allow, if not given", least=1
    )
    probes: int = option(
        16, "random probes for large pairs of layers; 0 leaves those pairs out", least=0
    )
    method: Method = option("auto", "of Jacobian norms: exact never probes, probes always does")
    draws: int = option(20, "of noise for the smoothness; 0: none", least=0)
    delta: float = option(0.05, "of the smoothness rho_delta", least=0, below=1)
    k: int = option(1000, "sign matrices of Algorithm 1", least=1, most=10**9, shown="K")
    levels: tuple[float, ...] = option(
        (0.1, 1.0),
        "relative norms of injected noise; the smoothness uses the first",
        above=0,
        shown="L,...",
    )
    attenuation_draws: int = option(4, "of injected noise; 0: none", least=0)
    zeta: float = option(0.05, "examples that Corollaries A.1 and C.1 may drop", least=0, below=1)
    places: int = option(0, "sampled places for beta of large pairs", least=0)
    seed: int = option(0, "of rows, probes and draws", least=0, most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.levels)) < len(self.levels):
            raise BadInput("`levels` names one level twice; leave one out")
