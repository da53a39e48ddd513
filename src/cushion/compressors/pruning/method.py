"""Magnitude pruning and sketching (Guha 2023): methods and options; torch only as one runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from cushion.compressors.method import Candidate, MarginOptions, Method, grids_of
from cushion.compressors.pruning.records import PruningSummary, TriedPruning
from cushion.errors import BadInput
from cushion.records import option

RULES = ("bernoulli", "global", "layer", "zeros")  # or N:M
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # values of d that are tried where none is given
FALLBACK_BITS = 8  # where Lemma 4.4 leaves no room for a grid
_PRUNING = ("rule", "d", "sparsity", "grid", "fine_tune", "subgaussian", "gamma", "level")
_PATTERN = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)


class PruneOptions(MarginOptions):
    """Options of both methods; m and ones are of the sketches alone.

    rule None: bernoulli, or global where a sparsity is given. "zeros" is for a net that was pruned
    while it was trained. Of several values of d or of the sparsity the one with the smallest bound
    is taken.
    """

    rule: str | None = option(
        None,
        "which weights go: bernoulli (Algorithm 1: w stays with probability 1 - exp(-w²/(dΨ))), "
        "global or layer (the smallest of the net or of each layer), N:M such as 2:4 (of M in a "
        "row the N largest stay), or zeros",
    )
    d: tuple[float, ...] | None = option(
        None, "strength of Algorithm 1; the one with the smallest bound", least=1e-6, most=1e6
    )
    sparsity: tuple[float, ...] | None = option(
        None, "fraction of the weights that go (global, layer)", least=0, below=1
    )
    grid: str = option("lemma", "the bits of a weight, best of several, or lemma (ρ of Lemma 4.4)")
    fine_tune: int = option(0, "epochs of training with the pruned weights held at zero", least=0)
    m: int | None = option(
        None, "side of a sketch (default: the smallest that comes back)", least=1
    )
    ones: int | None = option(
        None, "ones in each column of the sketching matrices, at most half of it", least=1
    )
    subgaussian: str = option("fit", "a,b,t of Condition C.1, or fit")

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = self.chosen_rule
        if rule not in RULES and self.pattern is None:
            raise BadInput(f"`rule` = {rule} must be one of {', '.join(RULES)}, or N:M such as 2:4")
        if self.d and rule != "bernoulli":
            raise BadInput(f"`d` goes with `rule` = bernoulli; `rule` = {rule} does not take it")
        sparse = rule in ("global", "layer")
        if self.sparsity and not sparse:
            words = "`sparsity` goes with `rule` = global or layer"
            raise BadInput(f"{words}; `rule` = {rule} does not take it")
        if sparse and not self.sparsity:
            words = "the fraction of weights to remove, such as 0.9"
            raise BadInput(f"`rule` = {rule} needs `sparsity`, {words}")
        self.grids, self.subgaussian_constants  # noqa: B018

    def check(self, method: str) -> None:
        for name, count in (("m", self.m), ("ones", self.ones)):
            if count is not None and method != "sketch":
                raise BadInput(f"`{name}` belongs to `method` = sketch")

    @property
    def chosen_rule(self) -> str:
        return self.rule or ("global" if self.sparsity else "bernoulli")

    @property
    def pattern(self) -> tuple[int, int] | None:
        """(N, M) of an N:M rule; None for another."""
        found = _PATTERN.fullmatch(self.chosen_rule)
        if found is None:
            return None
        kept, of = int(found[1]), int(found[2])
        if not 1 <= kept <= of:
            raise BadInput(f"`rule` = {self.chosen_rule}: of M weights 1 to M may stay")
        return kept, of

    @property
    def asked(self) -> list[tuple[str, float | None, float | None]]:
        """What is tried, each once: (asked, d, sparsity)."""
        if self.chosen_rule == "bernoulli":
            return [(f"d={d:g}", d, None) for d in dict.fromkeys(self.d or STRENGTHS)]
        if self.sparsity:
            return [(f"sparsity={one:g}", None, one) for one in dict.fromkeys(self.sparsity)]
        return [(self.chosen_rule, None, None)]

    @property
    def grids(self) -> tuple[int, ...]:
        """The bits of a weight that are tried; none for the grid of Lemma 4.4."""
        return grids_of(self.grid, "lemma", "best")

    @property
    def subgaussian_constants(self) -> tuple[float, float, float] | None:
        """(a, b, t) of Condition C.1 and Lemma C.1 as given; None where they are fitted."""
        if self.subgaussian == "fit":
            return None
        try:
            a, b, t = (float(part) for part in self.subgaussian.split(","))
        except ValueError:
            why = f"`subgaussian` = {self.subgaussian} must be fit, or the numbers a,b,t"
            raise BadInput(why) from None
        if not all(0 < value < math.inf for value in (a, b, t)):
            raise BadInput(f"`subgaussian` = {self.subgaussian}: a, b and t must be above 0")
        return a, b, t

    def settings(self) -> dict[str, Any]:
        """Every option by name, for records and files."""
        given = super().settings()
        lists = {name: given[name] or "" for name in ("d", "sparsity")}
        return {**given, **lists, "rule": self.chosen_rule}


@dataclass(frozen=True)
class Pruning(Method):
    """Positions and values of what stays; the coins of Algorithm 1 come from the seed."""

    options = PruneOptions
    summary = PruningSummary
    tried = TriedPruning
    stores = ("pruning.sketched",)
    candidates = "cushion.compressors.pruning.candidates:candidates"
    account = "cushion.compressors.pruning.account:PruningAccount"


@dataclass(frozen=True)
class Sketching(Pruning):
    """The same, as A X Bᵀ of every layer that comes back from it exactly."""

    def uncertifiable(self, options: PruneOptions) -> str:  # noqa: ARG002
        return "the format has no sketches; use `method` = magnitude, which has the same weights"

    def finish(self, subject: Any, best: Candidate) -> Candidate:
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
    "magnitude, each layer stored as a sketch A X Bᵀ and recovered by its smallest ℓ1 norm",
    ("m", "ones", *_PRUNING),
)
