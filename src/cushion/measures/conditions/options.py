"""How the conditions of Neyshabur 2017 are measured: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cushion.records import Options, option

Method: TypeAlias = Literal["auto", "exact", "probes"]


@dataclass(frozen=True)
class ConditionOptions(Options):
    """Every field is a flag of `cushion measure`; those of noise stability are shared with it."""

    examples: int | None = option(
        None, "rows to measure on: what some minutes allow, if not given", least=1
    )
    probes: int = option(16, "random probes a layer where all unit vectors cost more", least=1)
    method: Method = option("auto", "of condition C1: exact never probes, probes always does")
    seed: int = option(0, "of rows and probes", least=0, most=2**63 - 1)
    delta: float = option(
        0.05,
        "of Theorem 1, split equally over the layers",
        above=0,
        below=1,
        flag="condition-delta",
    )

    @classmethod
    def as_published(cls) -> ConditionOptions:
        """C1 without probes."""
        return cls(method="exact")
