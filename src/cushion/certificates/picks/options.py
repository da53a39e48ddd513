"""What a person may say about the picking of rows; what is not said is a constant."""

from __future__ import annotations

from cushion.errors import BadInput
from cushion.records.options import Options, option

CHOICES = 128  # learners of the frozen list: each gets δ / 128
_FEWEST, _PART, _ROUNDS = 20, 8, 40


def schedule() -> tuple[int, ...]:
    """Rows that the rounds of a fit add: 20, and later an eighth of those before, in 40 rounds.

    >>> schedule()[:12], sum(schedule())
    ((20, 20, 20, 20, 20, 20, 20, 20, 20, 22, 25, 28), 6811)
    """
    sizes: list[int] = []
    while len(sizes) < _ROUNDS:
        sizes.append(max(_FEWEST, sum(sizes) // _PART))
    return tuple(sizes)


class PicksOptions(Options):
    """How rows are picked. Nothing here may be chosen by looking at the sample, unless it is paid:
    by `tried`, or by being one of the frozen list.
    """

    configuration: int | None = option(
        None,
        "which learner of the frozen list (default: the best of those that read such data; all of "
        "them are paid)",
        least=0,
        most=CHOICES - 1,
    )
    recipe: int | None = option(
        None,
        "only this of the list's eight recipes, at its best stop: 0 grey pictures, 1 and their "
        "mirror images, 2 moved a little, 3 colour pictures and their mirror images, 4 without, 5 "
        "tables, 6 smoother, 7 features",
        least=0,
        most=7,
    )
    looks: int = option(
        1,
        "classifiers that were ever looked at on the held-out rows",
        least=1,
        most=2**40,
        flag="looked",
    )
    groups: tuple[int, ...] | None = option(
        None,
        "with a fit: rows that each round adds, at most (default: 20 each, and later an eighth of "
        "those before, in 40 rounds)",
        least=1,
        most=10**7,
    )
    tried: int = option(
        1,
        "with a fit or a backbone: how many versions of it (code, seeds, groups, tolerances; nets, "
        "sizes, scales) were ever run on these examples, this one included",
        least=1,
        most=2**40,
    )
    tolerance: str = option(
        "0.0001",
        "with a fit: a row is wrong where the gap between its two largest scores is at most this, "
        "times the largest in magnitude",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recipe is not None and self.configuration is not None:
            raise BadInput("`configuration` says its recipe; leave `recipe` out")
        if self.groups is not None and not 1 <= len(self.groups) <= 1000:
            raise BadInput(f"`groups` must be 1 to 1000 numbers, not {len(self.groups)}")
