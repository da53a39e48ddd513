"""What a search can be told; no torch, so that the command line makes its flags from it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

from cushion.certificates.format.limits import FEWEST_DRAWS, MOST_DRAWS
from cushion.errors import BadInput
from cushion.records import Options, option

Method: TypeAlias = Literal["integer", "subspace", "supermask", "pac-bayes"]
Kind: TypeAlias = Literal["holdout", "picks", "occam", "pac-bayes"]
# told now and then which part of the work is done, and the best bound so far
Report: TypeAlias = Callable[[float, Decimal], None]
_MINUTES = 1.0


def no_report(share: float, bound: Decimal) -> None:
    """Tells nobody."""


# Which methods take an option that not all take.
_TAKEN_BY = {
    "steps": ("subspace", "supermask"),
    "k": ("subspace",),
    "width": ("subspace", "supermask"),
    "draws": ("pac-bayes",),
}


class Budgeted(Options):
    """How long to search, and how large a net; what is None is the method's own choice."""

    minutes: float | None = option(
        None, "time to search (default: 1 to 15, by the size of the set)", above=0, shown="N"
    )
    steps: int | None = option(
        None, "train for so many steps instead of a time; the answer then repeats", least=1
    )
    k: int | None = option(None, "how many coefficients to train", least=1)
    width: float | None = option(None, "makes the seeded net wider by this factor", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minutes is not None and self.steps is not None:
            raise BadInput("`minutes` and `steps` both say how long to train; give one of them")

    @property
    def seconds(self) -> float:
        """The time for a search that is not told its steps."""
        return 60 * (self.minutes or _MINUTES)


class SearchOptions(Budgeted):
    """How to look for what is certified, and how sure the certificate is to be."""

    method: Method = option(
        "integer",
        "integer: one integer net, every weight stored; subspace: few coefficients of seeded sign "
        "matrices; supermask: which seeded signs to keep; pac-bayes: a Gaussian distribution over "
        "nets, paid by its divergence from a prior",
    )
    delta: str = option(
        "0.05",
        "probability that the statement fails; with unlabelled inputs, 4/5 of it go to the bound "
        "on the integer net and 1/5 to its disagreements with NET",
        shown="P",
    )
    seed: int = option(
        0, "seed of the search; how far it gets still depends on the time", least=0, below=2**63
    )
    draws: int = option(
        FEWEST_DRAWS, "nets drawn and counted, each on one row", least=FEWEST_DRAWS, most=MOST_DRAWS
    )

    def __post_init__(self) -> None:
        for name, methods in _TAKEN_BY.items():
            if self.method not in methods and getattr(self, name) != getattr(type(self), name):
                takers = ", ".join(methods)
                raise BadInput(f"`method` = {self.method} does not take `{name}`, only {takers}")
        super().__post_init__()


def check_kind(kind: Kind | None, method: Method | None) -> None:
    """BadInput for a word that is none of them."""
    for name, said, known in (("kind", kind, get_args(Kind)), ("method", method, get_args(Method))):
        if said is not None and said not in known:
            raise BadInput(f"`{name}` = {said!r} must be one of {', '.join(known)}")
