"""How noise stability is measured: what a user may choose, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from cushion.errors import BadInput
from cushion.measures.stability.jacobians import Method


@dataclass(frozen=True)
class StabilityOptions:
    """Defaults are quick; every one is an option of `cushion measure` of the same name.

    examples: rows for everything but the one-pass quantities (None: as many as a few minutes allow,
    see `budget`). probes: Gaussian probes a pair where exact norms cost more; 0 leaves those pairs
    out. method: "exact" uses none. draws, delta, k: draws of the noise for the interlayer
    smoothness ρ_δ, and the sign matrices of Algorithm 1. levels: relative norms of injected noise;
    the first is the one that ρ_δ uses. attenuation_draws: its repeats. zeta: the fraction of
    examples that Corollaries A.1 and C.1 may drop. places: sampled places a map for β where not all
    are computed. seed: of every probe, draw, subset and place.
    """

    examples: int | None = None
    probes: int = 16
    method: Method = "auto"
    draws: int = 20
    delta: float = 0.05
    k: int = 1000
    levels: tuple[float, ...] = (0.1, 1.0)
    attenuation_draws: int = 4
    zeta: float = 0.05
    places: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, count, least in (
            ("examples", self.examples, 1),
            ("probes", self.probes, 0),
            ("draws", self.draws, 0),
            ("k", self.k, 1),
            ("attenuation-draws", self.attenuation_draws, 0),
            ("places", self.places, 0),
            ("seed", self.seed, 0),
        ):
            if count is not None and count < least:
                raise BadInput(f"`{name}` must be a whole number of at least {least}, not {count}")
        if self.method not in get_args(Method):
            raise BadInput(f"`method` must be auto, exact or probes, not {self.method}")
        if self.k > 10**9:
            raise BadInput(
                f"`k` = {self.k} sign matrices would take forever; use at most 1000000000"
            )
        for name, fraction in (("delta", self.delta), ("zeta", self.zeta)):
            if not 0 <= fraction < 1:
                raise BadInput(f"`{name}` must be at least 0 and below 1, not {fraction}")
        if not self.levels or not all(0 < level < math.inf for level in self.levels):
            shown = ",".join(f"{level:g}" for level in self.levels)
            raise BadInput(
                f"`levels` must be numbers above 0, such as 0.1,1, not {shown or 'nothing'}"
            )
        if len(set(self.levels)) < len(self.levels):
            raise BadInput("`levels` names one level twice; leave one out")
