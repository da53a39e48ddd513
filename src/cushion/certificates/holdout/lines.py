"""The lines of a hold-out certificate: overall, within each class, top-k, selective.

Each is BinInv of a count at a share of δ (`shares`). For a fixed threshold and given which rows are
answered, errors among them are draws with one probability; so are a class's errors given which rows
are of it. Thresholds come from a fixed grid, each of which has its part of the share.

Without a ledger the counts are stated as they are. A look tells the overall count rounded up on a
ladder, and of every other line the bound alone, rounded up on a coarse one (`grid`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Literal

import numpy as np

from cushion.certificates.format.holdout_claim import Line, Look, Selective
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.counting import Flags, Scored
from cushion.certificates.holdout.shares import Shares, left
from cushion.numerics import log_binomial_cdf_upper, occam_log_delta
from cushion.records import Record
from cushion.theorems.occam import occam_bound

_VACUOUS = "1.000000"
_EXACT = Context(prec=60)


class Asked(Record):
    """Which lines are asked for beside the overall one.

    per_class: one for each class. top_k: the errors of the k best scored classes together.
    selective: the risk, a decimal, that what is answered may have.
    """

    per_class: bool = False
    top_k: int | None = None
    selective: str | None = None


@dataclass(frozen=True)
class Told:
    """What a look tells about its rows, all of it.

    errors: rounded up on the ladder. rates: of each line, its bound in ten-thousandths. chosen:
    number of the selective line's threshold (None: there is none) and the bound on refusals.
    """

    errors: int
    rates: tuple[int, ...] = ()
    chosen: tuple[int | None, int] | None = None

    def bits(self, n: int, best: int | None) -> int:
        """What this answer costs every later look, beside the best count before it."""
        lines = grid.line_bits() * len(self.rates)
        if self.chosen is not None:
            none = self.chosen[0] is None
            lines += grid.threshold_bits() + (0 if none else grid.line_bits())
        return grid.count_bits(n, best, self.errors) + lines


def bound_of(errors: int, m: int, share: Decimal, look: Look | None, among: int = 1) -> str:
    """BinInv(errors; m, what is left of the share), rounded up; 1 where no row was counted."""
    delta, bits = left(share, look, among)
    return occam_bound(errors, m, bits, delta) if m else _VACUOUS


# ---- without a ledger


def exact_lines(
    rows: Scored, asked: Asked, classes: int, shares: Shares
) -> tuple[tuple[Line, ...], Selective | None]:
    """Every line asked for, with its counts."""
    lines = [
        Line(what, which, errors, m, plain(share), bound_of(errors, m, share, None))
        for what, which, errors, m, share in _counted(rows, asked, classes, shares)
    ]
    if asked.selective is None:
        return tuple(lines), None
    among = len(grid.thresholds())
    chosen = choose_threshold(rows, asked.selective, shares.errors, None)
    if chosen is None:
        return tuple(lines), _selective(asked.selective, shares, None, _VACUOUS, _VACUOUS)
    errors, answered = answering(rows, grid.thresholds()[chosen])
    refused = len(rows.y) - answered
    bound = min(bound_of(errors, answered, shares.errors, None, among), asked.selective, key=float)
    refusing = bound_of(refused, len(rows.y), shares.refused, None, among)
    counts = (errors, answered, refused)
    return tuple(lines), _selective(asked.selective, shares, chosen, bound, refusing, counts)


# ---- in a look


def tell(
    rows: Scored, asked: Asked, classes: int, shares: Shares, look: Look, best: int | None
) -> Told | None:
    """What the look says of these rows; None: no better than the best count so far."""
    n = len(rows.y)
    errors = grid.at_least(int(rows.missed().sum()), grid.counts(n))
    if best is not None and errors >= best:
        return None
    rates = tuple(
        _rate(bound_of(wrong, m, share, look))
        for _, _, wrong, m, share in _counted(rows, asked, classes, shares)
    )
    if asked.selective is None:
        return Told(errors, rates)
    chosen = choose_threshold(rows, asked.selective, shares.errors, look)
    if chosen is None:
        return Told(errors, rates, (None, grid.PARTS))
    _, answered = answering(rows, grid.thresholds()[chosen])
    among = len(grid.thresholds())
    refusing = _rate(bound_of(n - answered, n, shares.refused, look, among))
    return Told(errors, rates, (chosen, refusing))


def told_lines(
    told: Told, asked: Asked, classes: int, shares: Shares
) -> tuple[tuple[Line, ...], Selective | None]:
    """The lines of a certificate, from what a look told."""
    kinds = list(_kinds(asked, classes, shares))
    lines = tuple(
        Line(what, which, None, None, plain(share), _rated(rate))
        for (what, which, share), rate in zip(kinds, told.rates, strict=True)
    )
    if asked.selective is None or told.chosen is None:
        return lines, None
    chosen, rate = told.chosen
    bound = _VACUOUS if chosen is None else asked.selective
    return lines, _selective(asked.selective, shares, chosen, bound, _rated(rate))


# ---- counts


def answering(rows: Scored, threshold: Decimal) -> tuple[int, int]:
    """(errors, rows answered) above the threshold.

    Rows near it may be answered on one machine and refused on another: all of them count as
    answered where they are wrong, and none of them does otherwise.
    """
    gaps, level = rows.gaps, float(threshold)
    wrong = rows.missed() & (gaps > level - rows.slack)
    return int(wrong.sum()), int((gaps > level + rows.slack).sum())


def choose_threshold(rows: Scored, risk: str, share: Decimal, look: Look | None) -> int | None:
    """The least threshold, so the one that answers most, whose error bound is at most the risk."""
    delta, bits = left(share, look, len(grid.thresholds()))
    log_delta = occam_log_delta(delta, bits)
    most = float(risk)
    most = most if Decimal(most) <= Decimal(risk) else math.nextafter(most, 0.0)
    for number, threshold in enumerate(grid.thresholds()):
        errors, answered = answering(rows, threshold)
        # the tail falls in p: where it is at most δ' at the risk, BinInv is at most the risk
        if log_binomial_cdf_upper(errors, answered, most) <= log_delta:
            return number
    return None


_What = Literal["class", "top"]


def _kinds(asked: Asked, classes: int, shares: Shares) -> Iterator[tuple[_What, int, Decimal]]:
    """What each line is about, and its share."""
    if asked.per_class:
        yield from (("class", number, shares.each_class) for number in range(classes))
    if asked.top_k is not None:
        yield "top", asked.top_k, shares.top


def _counted(
    rows: Scored, asked: Asked, classes: int, shares: Shares
) -> Iterator[tuple[_What, int, int, int, Decimal]]:
    """The same with errors and rows."""
    missed = rows.missed()
    for what, which, share in _kinds(asked, classes, shares):
        if what == "class":
            own: Flags = rows.y == which
            yield what, which, int((missed & own).sum()), int(own.sum()), share
        else:
            yield what, which, int(np.sum(rows.missed(which))), len(rows.y), share


def _rate(bound: str) -> int:
    return grid.at_least(Decimal(bound) * grid.PARTS, grid.rates())


def _rated(rate: int) -> str:
    return f"{Decimal(rate) / grid.PARTS:.4f}"


def _selective(
    risk: str,
    shares: Shares,
    chosen: int | None,
    bound: str,
    bound_refused: str,
    counts: tuple[int, int, int] | tuple[None, None, None] = (None, None, None),
) -> Selective:
    threshold = None if chosen is None else plain(grid.thresholds()[chosen])
    errors, answered, refused = counts
    return Selective(
        risk,
        threshold,
        errors,
        answered,
        plain(shares.errors),
        bound,
        refused,
        plain(shares.refused),
        bound_refused,
    )


def plain(value: Decimal) -> str:
    """A decimal without exponent, with at least one digit behind the point and no idle zeros."""
    text = format(value.normalize(_EXACT), "f")
    return text if "." in text else f"{text}.0"
