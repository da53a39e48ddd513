"""The compressors of Arora 2018: the methods and their options; torch only as one runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from cushion.compressors.method import MarginOptions, Method
from cushion.compressors.projection.records import ProjectionSummary
from cushion.errors import BadInput
from cushion.records import option

if TYPE_CHECKING:
    from cushion.compressors.storage.stored_net import StoredNet
    from cushion.nets.network import Network

Size: TypeAlias = int | str  # a whole number, or a percentage of each layer's weights such as "5%"
VECTORS = ("vector-compress", "vector-project")
_HELPERS = {
    "matrix-project": ("signs", "srht"),
    "vector-project": ("gaussian", "signs", "srht"),
    "conv-project": ("gaussian", "srht"),
}
_MOST = 10**12
# no exponents: 1e999999999 would take for ever
_PERCENTAGE = re.compile(r"(\d{1,9}|\d{0,9}\.\d{1,30}) ?%", re.ASCII)


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
    helper: str | None = option(
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
            parse_size(self.k, "`k`", SIGNS_MOST)
        super().__post_init__()

    def check(self, method: str) -> None:
        helpers = _HELPERS.get(method, ())
        if self.helper is not None and self.helper not in helpers:
            takes = f"one of {', '.join(helpers)}" if helpers else "left out: it has none"
            raise BadInput(f"`helper` = {self.helper} with `method` = {method} must be {takes}")
        if method == "vector-compress" and self.k is not None:
            raise BadInput("vector-compress has no k: leave out `k`, or use vector-project")
        if method == "low-rank" and self.k is not None and self.epsilon is not None:
            raise BadInput("`k` and `epsilon` both say where to truncate; give one of them")
        if self.k is not None:
            parse_size(self.k, "`k`", self._most(method))
        for asked in self.sweep or ():
            self.at(method, asked)

    def _most(self, method: str) -> int:
        """Sign matrices may outnumber the weights that they stand for; nothing else may."""
        signs = method == "matrix-project" and self.helper_of(method) == "signs"
        return SIGNS_MOST if signs else 1

    def at(self, method: str, asked: str) -> NetOptions:
        """These options at one point of the sweep: a size, or a value such as "gamma=2"."""
        name, equals, value = asked.partition("=")
        if not equals:
            if method == "vector-compress":
                raise BadInput(f"`sweep` = {asked}: {method} has no k; sweep gamma=G or eta=P")
            parse_size(asked, "`sweep`", self._most(method))
            return replace(self, sweep=None, k=asked, epsilon=None)
        swept = ("gamma", "eta") if method in VECTORS else ("epsilon", "gamma")
        if name not in swept:
            ways = f"{swept[0]}= or {swept[1]}="
            raise BadInput(f"`sweep` = {asked}: for {method} only {ways} may stand before a value")
        try:
            number = float(value)
        except ValueError:
            raise BadInput(f"`sweep` = {asked}: {value!r} is not a number") from None
        if not 0 < number < math.inf or (name != "gamma" and number > 1):
            most = "" if name == "gamma" else " and at most 1"
            raise BadInput(f"`sweep` = {asked}: the value must be above 0{most}")
        changes: dict[str, Any] = {"k": None, "epsilon": None, name: number}
        return replace(self, sweep=None, **changes)

    def settings(self) -> dict[str, Any]:
        """Every option by name; a sweep asks for other compressions, not for another one."""
        return {name: value for name, value in super().settings().items() if name != "sweep"}

    def helper_of(self, method: str) -> Any:
        """The helper string, a `Helper` by name; empty for a method without one."""
        return self.helper or next(iter(_HELPERS.get(method, ())), "")


def parse_size(size: Size, option: str, most: int = 1) -> int | Fraction:
    """A whole number of at least 1, or the fraction, up to `most`, that a percentage stands for."""
    text = str(size)
    percentage = _PERCENTAGE.fullmatch(text)
    if percentage:
        part = Fraction(percentage[1]) / 100
        if 0 < part <= most:
            return part
    if text.isascii() and text.isdigit() and len(text) <= 20 and 1 <= int(text) <= _MOST:
        return int(text)
    rule = f"a whole number of at least 1, or a percentage up to {100 * most}%, such as 5%"
    raise BadInput(f"{option} {size} must be {rule}")


SIGNS_MOST = 10  # times the weights
_OF_NETS = ("gamma", "level", "from_initialisation", "zeta", "sweep")
_OF_LAYERS = ("number_bits", "examples", *_OF_NETS)


@dataclass(frozen=True)
class Projection(Method):
    """Each layer by fewer numbers, or a linear classifier's vectors by fewer."""

    options = NetOptions
    summary = ProjectionSummary
    stores = ("projection.conv_project", "projection.low_rank", "projection.matrix_project")
    subject = "cushion.compressors.projection.subject:ProjectionSubject"
    candidates = "cushion.compressors.projection.storing:candidates"
    account = "cushion.compressors.projection.account:ProjectionAccount"

    def settings(self, options: NetOptions) -> dict[str, Any]:
        return super().settings(options) | {"helper": options.helper_of(self.name)}

    def uncertifiable(self, options: NetOptions) -> str:
        if options.from_initialisation:
            return "the initialisation is floating point, which no decoder makes again from a seed"
        if self.name in ("conv-project", "vector-project"):
            return f"the format has no weights as {self.name} makes them"
        return "the format has no Hadamard rows; use `helper` = signs" * (options.helper == "srht")

    def prepare(self, net: Network, start: Network | None) -> tuple[Network, Network | None]:
        from cushion.compressors.projection.storing import centred

        if self.name not in VECTORS or net.classes != 2:
            return net, start
        return centred(net, self.name), None if start is None else centred(start, self.name)

    def curve(self, subject: Any) -> Iterator[tuple[str, StoredNet]]:
        from cushion.compressors.projection.storing import store

        for asked in subject.options.sweep or ():
            yield asked, store(subject.swept(asked))[0]


LOW_RANK = Projection(
    "low-rank",
    "NET with each layer cut to few singular values (Arora 2018, Lemma 1)",
    ("k", "epsilon", *_OF_LAYERS),
)
MATRIX_PROJECT = Projection(
    "matrix-project",
    "NET with each layer as k inner products with seeded sign matrices (Algorithm 1)",
    ("k", "epsilon", "helper", *_OF_LAYERS),
)
CONV_PROJECT = Projection(
    "conv-project",
    "NET with a filter at each place, all from one seeded subspace (Algorithm 4)",
    ("k", "p", "constant", "epsilon", "helper", *_OF_LAYERS),
)
VECTOR_COMPRESS = Projection(
    "vector-compress",
    "a linear classifier with few coordinates left (Algorithm 2)",
    ("eta", *_OF_NETS),
)
VECTOR_PROJECT = Projection(
    "vector-project",
    "a linear classifier as k inner products with seeded vectors (Algorithm 3)",
    ("k", "eta", "helper", *_OF_NETS),
)
