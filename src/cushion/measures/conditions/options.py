"""How the conditions of Neyshabur 2017 are measured: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from cushion.errors import BadInput

Method: TypeAlias = Literal["auto", "exact", "probes"]


@dataclass(frozen=True)
class ConditionOptions:
    """Every field is an option of `cushion measure` of the same name.

    examples: rows to measure on (None: as many as some minutes allow). probes: Gaussian probes for
    each layer where pushing all unit vectors costs more. method: "exact" never probes, "probes"
    always does. delta: of Theorem 1, split equally over the layers. seed: of the probes and of the
    choice of rows.
    """

    examples: int | None = None
    probes: int = 16
    method: Method = "auto"
    seed: int = 0
    delta: float = 0.05

    def __post_init__(self) -> None:
        for name, count, least in (
            ("examples", self.examples, 1),
            ("probes", self.probes, 1),
            ("seed", self.seed, 0),
        ):
            if count is not None and count < least:
                raise BadInput(f"`{name}` must be a whole number of at least {least}, not {count}")
        if self.method not in get_args(Method):
            raise BadInput(f"`method` must be auto, exact or probes, not {self.method}")
        if not 0 < self.delta < 1:
            raise BadInput(f"`delta` must be above 0 and below 1, not {self.delta}")
