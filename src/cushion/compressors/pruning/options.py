"""What a user may choose for pruning and sketching (Guha 2023), checked once; no torch."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from cushion.errors import BadInput

METHODS = ("magnitude", "sketch")
RULES = ("bernoulli", "global", "layer", "zeros")  # or N:M
STRENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # values of d that are tried where none is given
BEST_GRIDS = (2, 3, 4, 5, 6, 8)  # bits of a weight that `--grid best` tries
FALLBACK_BITS = 8  # where Lemma 4.4 leaves no room for a grid
_PATTERN = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)
_GRID = re.compile("[0-9]{1,2}", re.ASCII)
_MOST_TRIED = 64


@dataclass(frozen=True)
class PruneOptions:
    """Every one is an option of `cushion compress` of the same name.

    rule: how weights are chosen. "bernoulli": Algorithm 1, weight w stays with probability 1 -
    exp(-w²/(dΨ)), the diagonal always; "global" and "layer": the smallest go until a fraction
    `sparsity` of the net or of each layer is gone; "N:M": of M consecutive weights of a row the N
    largest stay; "zeros": what is zero already goes (a net that was pruned while it was trained).
    None: bernoulli, or global where a sparsity is given. d, sparsity: one value, or several of
    which the one with the smallest bound is taken. grid: "lemma" takes ρ from Lemma 4.4, a whole
    number is the bits of a weight, "best" tries several. fine_tune: epochs of training with the
    mask held. m: side of the sketches (sketch alone); ones: the ones in every column of their
    matrices. subgaussian: (a, b, t) of Condition C.1, or "fit". gamma, level: the margin, as for
    the other methods.
    """

    rule: str | None = None
    d: tuple[float, ...] = ()
    sparsity: tuple[float, ...] = ()
    grid: str = "lemma"
    fine_tune: int = 0
    m: int | None = None
    ones: int | None = None
    subgaussian: str = "fit"
    gamma: float | None = None
    level: float = 0.05

    @classmethod
    def given(cls, **options: Any) -> PruneOptions:
        """From options as a user gives them: one number stands for a list of one."""
        changed: dict[str, Any] = {}
        for name in ("d", "sparsity"):
            if _is_number(options.get(name)):
                changed[name] = (float(options[name]),)
            elif name in options and not isinstance(options[name], str):
                changed[name] = tuple(map(float, options[name]))
        if type(options.get("grid")) is int:
            changed["grid"] = str(options["grid"])
        return cls(**{**options, **changed})

    def check(self, method: str) -> None:
        """BadInput where a value or combination makes no sense for the method."""
        rule = self.chosen_rule
        if rule not in RULES and self.pattern is None:
            raise BadInput(f"`rule` = {rule} must be one of {', '.join(RULES)}, or N:M such as 2:4")
        if self.d and rule != "bernoulli":
            raise BadInput(
                f"`d` is the strength of `rule` = bernoulli (Algorithm 1); `rule` = {rule} does "
                "not take it"
            )
        if self.sparsity and rule not in ("global", "layer"):
            raise BadInput(
                f"`sparsity` goes with `rule` = global or layer; `rule` = {rule} does not take it"
            )
        if rule in ("global", "layer") and not self.sparsity:
            raise BadInput(
                f"`rule` = {rule} needs `sparsity`, the fraction of weights to remove, such as 0.9"
            )
        for name, values in (("d", self.d), ("sparsity", self.sparsity)):
            if not isinstance(values, tuple) or not all(_is_number(value) for value in values):
                raise BadInput(f"`{name}` must be numbers such as 0.5 or 0.5,0.9, not {values}")
            if len(values) > _MOST_TRIED:
                raise BadInput(
                    f"`{name}` lists {len(values)} values, and at most {_MOST_TRIED} are tried"
                )
        for value in self.d:
            if not 1e-6 <= value <= 1e6:
                raise BadInput(f"`d` must be from 1e-6 to 1e6, not {value}")
        for value in self.sparsity:
            if not 0 <= value < 1:
                raise BadInput(f"`sparsity` is a fraction, at least 0 and below 1, not {value}")
        if not isinstance(self.grid, str) or (
            self.grid not in ("lemma", "best")
            and not (_GRID.fullmatch(self.grid) and 2 <= int(self.grid) <= 32)
        ):
            raise BadInput(
                f"`grid` = {self.grid} must be lemma, best, or the bits of a weight, from 2 to 32"
            )
        if not (type(self.fine_tune) is int and self.fine_tune >= 0):
            raise BadInput(f"`fine_tune` must be a whole number of epochs, not {self.fine_tune}")
        for name, count in (("m", self.m), ("ones", self.ones)):
            if count is not None and not (type(count) is int and count >= 1):
                raise BadInput(f"`{name}` must be a whole number of at least 1, not {count}")
            if count is not None and method != "sketch":
                raise BadInput(f"`{name}` belongs to `method` = sketch")
        if self.subgaussian != "fit":
            self.subgaussian_constants  # noqa: B018
        if self.gamma is not None and not (_is_number(self.gamma) and 0 < self.gamma < math.inf):
            raise BadInput(f"`gamma` must be a number above 0, not {self.gamma}")
        if not (_is_number(self.level) and 0 <= self.level < 1):
            raise BadInput(f"`level` must be at least 0 and below 1, not {self.level}")

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
    def strengths(self) -> tuple[float, ...]:
        """The values of d that are tried."""
        return self.d or STRENGTHS

    @property
    def subgaussian_constants(self) -> tuple[float, float, float] | None:
        """(a, b, t) of Condition C.1 and Lemma C.1 as given; None where they are fitted."""
        if self.subgaussian == "fit":
            return None
        try:
            a, b, t = (float(part) for part in self.subgaussian.split(","))
        except ValueError:
            raise BadInput(
                f"`subgaussian` = {self.subgaussian} must be fit, or the numbers a,b,t"
            ) from None
        if not all(0 < value < math.inf for value in (a, b, t)):
            raise BadInput(f"`subgaussian` = {self.subgaussian}: a, b and t must be above 0")
        return a, b, t

    def settings(self) -> dict[str, Any]:
        """Every option by name, for records and files."""
        lists = {
            name: ",".join(f"{value:g}" for value in getattr(self, name))
            for name in ("d", "sparsity")
        }
        return {**vars(self), "rule": self.chosen_rule, **lists}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
