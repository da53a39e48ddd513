"""What a user may choose for the compressors of Arora 2018, checked once; no torch."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from cushion.errors import BadInput

Size: TypeAlias = int | str  # a whole number, or a percentage of each layer's weights such as "5%"
METHODS = ("low-rank", "matrix-project", "conv-project", "vector-compress", "vector-project")
_HELPERS = {
    "low-rank": (),
    "vector-compress": (),
    "matrix-project": ("signs", "srht"),
    "vector-project": ("gaussian", "signs", "srht"),
    "conv-project": ("gaussian", "srht"),
}
_SWEPT = {
    "low-rank": ("epsilon", "gamma"),
    "matrix-project": ("epsilon", "gamma"),
    "conv-project": ("epsilon", "gamma"),
    "vector-compress": ("gamma", "eta"),
    "vector-project": ("gamma", "eta"),
}
_MOST = 10**12
_PERCENTAGE = re.compile(
    r"(\d{1,9}|\d{0,9}\.\d{1,30}) ?%", re.ASCII
)  # no exponents: 1e999999999 would take for ever


@dataclass(frozen=True)
class NetOptions:
    """Every one is an option of `cushion compress` of the same name.

    k: the size: a layer's rank (low-rank; a percentage is of all weights together), helper matrices
    (matrix-project), vectors a place (conv-project; a dense layer gets kp helper matrices) or
    vectors (vector-project). epsilon: for low-rank the accuracy δ of Lemma 1 in every layer, for
    the projections the relative error ε of Lemma 3, for which it says how large k must be. gamma:
    the margin from which accuracy or ε follow; None: the one that all but a fraction `level` of the
    examples exceed. eta: the failure probability of the vector methods. p, constant: of Algorithm
    4. helper: which helper string, None for the paper's own. zeta: the fraction of examples that
    cushions and promises may leave out. number_bits: of a stored number. examples: rows for
    cushions and pairs of layers. sweep: other sizes (or accuracies, margins, ...) for the curve of
    error against size.
    """

    k: Size | None = None
    epsilon: float | None = None
    gamma: float | None = None
    level: float = 0.05
    eta: float | None = None
    p: int | None = None
    constant: float = 1.0
    helper: str | None = None
    from_initialisation: bool = False
    zeta: float = 0.0
    number_bits: int = 8
    examples: int = 100
    sweep: tuple[str, ...] = ()

    def check(self, method: str) -> None:
        """BadInput where a value or combination makes no sense for the method."""
        if method not in METHODS:
            raise BadInput(
                f"`method` = {method} compresses no net; use one of {', '.join(METHODS)}"
            )
        if self.k is not None:
            parse_size(self.k, "`k`")
        for name, value in (
            *_given(epsilon=self.epsilon, gamma=self.gamma),
            ("constant", self.constant),
        ):
            if not (_is_number(value) and 0 < value < math.inf):
                raise BadInput(f"`{name}` must be a number above 0, not {value}")
        for name, value in _given(epsilon=self.epsilon, eta=self.eta):
            if not (_is_number(value) and 0 < value <= 1):
                raise BadInput(f"`{name}` must be above 0 and at most 1, not {value}")
        for name, value in (("zeta", self.zeta), ("level", self.level)):
            if not (_is_number(value) and 0 <= value < 1):
                raise BadInput(f"`{name}` must be at least 0 and below 1, not {value}")
        if not (type(self.number_bits) is int and 2 <= self.number_bits <= 32):
            raise BadInput(
                f"`number_bits` must be a whole number from 2 to 32, not {self.number_bits}"
            )
        for name, count in (*_given(p=self.p), ("examples", self.examples)):
            if not (type(count) is int and count >= 1):
                raise BadInput(f"`{name}` must be a whole number of at least 1, not {count}")
        helpers = _HELPERS[method]
        if self.helper is not None and self.helper not in helpers:
            takes = (
                f"one of {', '.join(helpers)}"
                if helpers
                else "left out: this method has no helper string"
            )
            raise BadInput(
                f"`helper` = {self.helper} does not go with `method` = {method}; it must be {takes}"
            )
        if method == "low-rank" and self.k is not None and self.epsilon is not None:
            raise BadInput("`k` and `epsilon` both say where to truncate; give one of them")
        if type(self.from_initialisation) is not bool:
            raise BadInput(
                "`from_initialisation` is given or not (True or False), not "
                f"{self.from_initialisation}"
            )
        if not isinstance(self.sweep, tuple | list) or not all(
            isinstance(asked, str) for asked in self.sweep
        ):
            raise BadInput(
                f'`sweep` must be several words such as ("5%", "epsilon=0.1"), not {self.sweep!r}'
            )
        for asked in self.sweep:
            self.at(method, asked)

    def at(self, method: str, asked: str) -> NetOptions:
        """These options at one point of the sweep: a size, or "epsilon=0.1", "gamma=2",
        "eta=0.1".
        """
        name, equals, value = asked.partition("=")
        if not equals:
            if method == "vector-compress":
                raise BadInput(
                    f"`sweep` = {asked}: vector-compress has no k; sweep gamma=G or eta=P instead"
                )
            parse_size(asked, "`sweep`")
            return self._with(k=int(asked) if asked.isdigit() else asked, epsilon=None)
        if name not in _SWEPT[method]:
            names = " or ".join(f"{own}=" for own in _SWEPT[method])
            raise BadInput(
                f"`sweep` = {asked}: for {method} only {names} may stand before a value, or a size "
                "alone"
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
        return self._with(**{"k": None, "epsilon": None, name: number})

    def _with(self, **changes: Size | float | None) -> NetOptions:
        return replace(self, sweep=(), **changes)  # type: ignore[arg-type]

    def settings(self) -> dict[str, str | float | int | bool | None]:
        """Every option by name, for records and files; a sweep asks for other compressions, not for
        another one.
        """
        plain = {name: value for name, value in vars(self).items() if name != "sweep"}
        return plain | {"k": None if self.k is None else str(self.k)}

    def helper_of(self, method: str) -> str:
        """The helper string, by name; empty for a method without one."""
        helpers = _HELPERS[method]
        return self.helper or (helpers[0] if helpers else "")


def parse_size(size: Size, option: str) -> int | Fraction:
    """A whole number of at least 1, or the fraction of a layer's weights that a percentage stands
    for.
    """
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


def _given(**values: float | None) -> list[tuple[str, float]]:
    return [(name, value) for name, value in values.items() if value is not None]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
