"""The methods of `cushion compress`: what each means, which options it takes, and the function behind it; no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from cushion.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

    from cushion.compressors.integer.search import Found
    from cushion.data.dataset import Dataset
    from cushion.encoding.integer_net import IntegerNet

DEFAULT_MINUTES = 1.0


@dataclass(frozen=True)
class Task:
    """What every method is given besides its own options.

    judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None. report is told now and then
    which part of the work is done, and the best bound so far.
    """

    data: Dataset
    judge: Callable[[IntegerNet], Decimal]
    seed: int
    teacher: Tensor | None
    report: Callable[[float, Decimal], None] | None


@dataclass(frozen=True)
class Option:
    """An option of some methods: `--name N`, a whole number of at least 1 or any number above 0."""

    name: str
    kind: Literal["whole", "number"]
    meaning: str

    def check(self, value: float) -> None:
        """BadInput unless the value is of the kind."""
        if self.kind == "whole" and not (isinstance(value, int) and value >= 1):
            raise BadInput(f"--{self.name} {value} must be a whole number of at least 1")
        if not 0 < value < float("inf"):
            raise BadInput(f"--{self.name} {value} must be a number above 0")


@dataclass(frozen=True)
class Method:
    """One way to compress; run(task, options) trains until its budget is spent and returns the best net."""

    name: str
    meaning: str
    options: tuple[str, ...]
    run: Callable[[Task, Mapping[str, Any]], Found]


def choose(name: str, options: Mapping[str, Any]) -> Method:
    """The method of that name, or BadInput where there is none or an option does not belong to it."""
    if name not in METHODS:
        raise BadInput(f"there is no method called {name!r}; --method is one of {', '.join(METHODS)}")
    method = METHODS[name]
    for option, value in options.items():
        if option not in method.options:
            takes = ", ".join(f"--{own}" for own in method.options)
            raise BadInput(f"--method {name} does not take --{option}; its options are {takes}")
        OPTIONS[option].check(value)
    if "minutes" in options and "steps" in options:
        raise BadInput("--minutes and --steps both say how long to train; give one of them")
    return method


def _run_integer(task: Task, options: Mapping[str, Any]) -> Found:
    from cushion.compressors.integer.search import search

    seconds = 60 * options.get("minutes", DEFAULT_MINUTES)
    report = task.report

    def share(passed: float, best: Decimal) -> None:
        if report is not None:
            report(min(1.0, passed / seconds), best)

    return search(task.data, task.judge, seconds=seconds, seed=task.seed, teacher=task.teacher, report=share)


def _run_subspace(task: Task, options: Mapping[str, Any]) -> Found:
    from cushion.compressors.subspace import compress_to_subspace

    return compress_to_subspace(**vars(task), **_seeded(options), k=options.get("k"))


def _run_supermask(task: Task, options: Mapping[str, Any]) -> Found:
    from cushion.compressors.supermask import compress_to_supermask

    return compress_to_supermask(**vars(task), **_seeded(options))


def _seeded(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the two methods over seeded nets share."""
    from cushion.compressors.seeded_search import Budget

    budget = (
        Budget(steps=options["steps"])
        if "steps" in options
        else Budget(seconds=60 * options.get("minutes", DEFAULT_MINUTES))
    )
    return {"budget": budget, "width": options.get("width")}


OPTIONS = {
    option.name: option
    for option in (
        Option("minutes", "number", f"time for the training (default {DEFAULT_MINUTES:g})"),
        Option("steps", "whole", "train for so many steps instead of a time; the answer then repeats"),
        Option("k", "whole", "how many coefficients to train (default: several are tried)"),
        Option("width", "number", "make the seeded net wider or narrower by this factor"),
    )
}
METHODS = {
    method.name: method
    for method in (
        Method(
            "integer",
            "the integer net with the smallest bound, every weight stored (what certify finds)",
            ("minutes",),
            _run_integer,
        ),
        Method(
            "subspace",
            "a few trained coefficients of seeded sign matrices, added to a seeded net",
            ("minutes", "steps", "k", "width"),
            _run_subspace,
        ),
        Method(
            "supermask",
            "which of the signs of a seeded net to keep",
            ("minutes", "steps", "width"),
            _run_supermask,
        ),
    )
}
