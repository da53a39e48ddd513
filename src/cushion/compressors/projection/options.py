"""What a user may choose for the compressors of Arora 2018; no torch."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from cushion.compressors.options import MarginOptions
from cushion.errors import BadInput
from cushion.records import option

Size: TypeAlias = int | str  # a whole number, or a percentage of each layer's weights such as "5%"
VECTORS = ("vector-compress", "vector-project")
_HELPERS = {
    "matrix-project": ("signs", "srht"),
    "vector-project": ("gaussian", "signs", "srht"),
    "conv-project": ("gaussian", "srht"),
}
_MOST = 10**12
_PERCENTAGE = re.compile(
    r"(\d{1,9}|\d{0,9}\.\d{1,30}) ?%", re.ASCII
)  # no exponents: 1e999999999 would take for ever


@dataclass(frozen=True)
class NetOptions(MarginOptions):
    """Options of all five compressors; each takes those that its method lists."""

    k: Size | None = option(
        None,
        "how large: a layer's rank (5% is of all weights together), its helper matrices, the "
        "vectors of a place (a dense layer gets kp matrices); 5% is of the layer's weights",
        shown="N",
    )
    epsilon: float | None = option(
        None,
        "accuracy of each layer's map (low-rank: δ of Lemma 1), or of the scores (ε of Lemma 3), "
        "by which k is chosen",
        above=0,
        most=1,
    )
    eta: float | None = option(None, "how often an example may fail", above=0, most=1)
    p: int | None = option(
        None, "how many places Algorithm 4 takes as independent (default: log2 of 1/eta)", least=1
    )
    constant: float = option(1.0, "the constant Q of Algorithm 4", above=0)
    helper: Literal["signs", "gaussian", "srht"] | None = option(
        None, "the helper string: signs, gaussian, or srht, a fast structured variant", shown="WORD"
    )
    from_initialisation: bool = option(False, "compress what training changed; NET is a RUN folder")
    zeta: float = option(
        0.0,
        "leave out this fraction of examples, the worst, and add it to the bounds",
        least=0,
        below=1,
    )
    number_bits: int = option(8, "bits of a stored number, sign included", least=2, most=32)
    examples: int = option(100, "rows for cushions and for pairs of layers", least=1)
    sweep: tuple[str, ...] | None = option(
        None, "more sizes, or epsilon=F, gamma=G, eta=F, for the curve of error against size"
    )

    def __post_init__(self) -> None:
        if self.k is not None:
            parse_size(self.k, "`k`")
        super().__post_init__()

    def check(self, method: str) -> None:
        """BadInput where a combination makes no sense for the method."""
        helpers = _HELPERS.get(method, ())
        if self.helper is not None and self.helper not in helpers:
            takes = f"one of {', '.join(helpers)}" if helpers else "left out: it has none"
            raise BadInput(
                f"`helper` = {self.helper} does not go with `method` = {method}; it must be {takes}"
            )
        if method == "low-rank" and self.k is not None and self.epsilon is not None:
            raise BadInput("`k` and `epsilon` both say where to truncate; give one of them")
        for asked in self.sweep or ():
            self.at(method, asked)

    def at(self, method: str, asked: str) -> NetOptions:
        """These options at one point of the sweep: a size, or a value such as "gamma=2"."""
        name, equals, value = asked.partition("=")
        if not equals:
            if method == "vector-compress":
                raise BadInput(
                    f"`sweep` = {asked}: vector-compress has no k; sweep gamma=G or eta=P instead"
                )
            parse_size(asked, "`sweep`")
            return replace(self, sweep=None, k=asked, epsilon=None)
        swept = ("gamma", "eta") if method in VECTORS else ("epsilon", "gamma")
        if name not in swept:
            raise BadInput(
                f"`sweep` = {asked}: for {method} only {swept[0]}= or {swept[1]}= may stand before "
                "a value, or a size alone"
            )
        try:
            number = float(value)
        except ValueError:
            raise BadInput(f"`sweep` = {asked}: {value!r} is not a number") from None
        if not 0 < number < math.inf or (name != "gamma" and number > 1):
            raise BadInput(
                f"`sweep` = {asked}: the value must be above "
                f"0{'' if name == 'gamma' else ' and at most 1'}"
            )
        changes: dict[str, Any] = {"k": None, "epsilon": None, name: number}
        return replace(self, sweep=None, **changes)

    def settings(self) -> dict[str, Any]:
        """Every option by name; a sweep asks for other compressions, not for another one."""
        return {name: value for name, value in super().settings().items() if name != "sweep"}

    def helper_of(self, method: str) -> str:
        """The helper string, by name; empty for a method without one."""
        return self.helper or next(iter(_HELPERS.get(method, ())), "")


def parse_size(size: Size, option: str) -> int | Fraction:
    """A whole number of at least 1, or the fraction that a percentage stands for."""
    text = str(size)
    percentage = _PERCENTAGE.fullmatch(text)
    if percentage:
        part = Fraction(percentage[1]) / 100
        if 0 < part <= 1000:
            return part
    elif text.isascii() and text.isdigit() and len(text) <= 20 and 1 <= int(text) <= _MOST:
        return int(text)
    raise BadInput(
        f"{option} {size} must be a whole number of at least 1, or a percentage of the weights "
        "such as 5%"
    )
