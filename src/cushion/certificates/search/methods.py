"""The searches for one net with a small Occam bound, by name."""

from __future__ import annotations

from decimal import Decimal

from torch import Tensor

from cushion.certificates.search.integer.search import search
from cushion.certificates.search.judging import Found, Judge
from cushion.certificates.search.options import Report, SearchOptions
from cushion.certificates.search.seeded import Budget
from cushion.certificates.search.subspace import compress_to_subspace
from cushion.certificates.search.supermask import compress_to_supermask
from cushion.data.dataset import Dataset


def find_net(
    options: SearchOptions,
    data: Dataset,
    judge: Judge,
    *,
    teacher: Tensor | None = None,
    report: Report | None = None,
) -> Found:
    """The net with the smallest judge(net) that the method finds; Ctrl-C keeps the best so far.

    judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None. report is
    told now and then which part of the work is done, and the best bound so far.
    """
    seconds, seed = options.seconds, options.seed
    if options.method == "integer":

        def share(passed: float, best: Decimal) -> None:
            if report is not None:
                report(min(1.0, passed / seconds), best)

        return search(data, judge, seconds=seconds, seed=seed, teacher=teacher, report=share)
    timed = options.steps is None
    budget = Budget(seconds=seconds if timed else None, steps=options.steps)
    if options.method == "subspace":
        return compress_to_subspace(
            data,
            judge,
            budget=budget,
            seed=seed,
            k=options.k,
            width=options.width,
            teacher=teacher,
            report=report,
        )
    return compress_to_supermask(
        data,
        judge,
        budget=budget,
        seed=seed,
        width=options.width,
        teacher=teacher,
        report=report,
    )
