"""Classification margins: the true class's score minus the best other; negative ones stay so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput
from cushion.measures.distribution import describe
from cushion.measures.family import Context, Family, Found, View
from cushion.records import Distribution, Options, Record, column, option

if TYPE_CHECKING:
    from torch import Tensor

    from cushion.measures.records import MeasureTable


class MarginOptions(Options):
    """Which margin is called γ."""

    epsilon: float = option(
        0.05, "all but this fraction of examples exceed gamma; 0: hard margin", least=0, below=1
    )


class Margin(Record):
    """The margin γ that all but a fraction ε of S exceed (Neyshabur 2017, §2.2)."""

    epsilon: float = column("the fraction of S that may have a smaller margin", label="ε")
    value: float = column(
        "the margin that all but a fraction ε of the examples exceed", label="γ", better="high"
    )
    loss: float = column("L̂_γ: the fraction of S with margin at most γ", label="margin loss")
    hard: float = column("the smallest margin of all", label="hard margin", better="high")


class NetMargins(Record):
    """Errors and margins on S. Ties count as errors."""

    errors: int | None = column("on these examples", better="low")
    error_rate: float | None = column("errors over m", better="low")
    margins: Distribution | None = column("true class's score minus the best other", better="high")
    margin_5th: float | None = column("the margin that is the papers' γ", label="5th percentile")
    margin: Margin | None = column("γ, its ε and its loss")


def sample_margins(logits: Tensor, labels: Tensor) -> Tensor:
    """[n, classes], [n] -> [n]: f(x)[y] - max_{j≠y} f(x)[j] (Neyshabur 2017, eq. 2).

    An example is misclassified exactly when its margin is ≤ 0: a tie is an error.
    """
    logits = logits if logits.dtype.itemsize > 2 else logits.float()  # half precision
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -math.inf)
    return own.squeeze(1) - others.amax(dim=1)


def epsilon_margin(margins: NDArray[np.float64], epsilon: float) -> float:
    """γ: the ⌈εm⌉-th smallest margin, so that all but a fraction ε of the examples exceed it, and
    the hard margin for ε = 0 (Neyshabur 2017, §2.2, with ε = 0.05 in its figures).

    >>> margins = np.array([3.0, -1.0, 2.0, 5.0])
    >>> epsilon_margin(margins, 0.5), epsilon_margin(margins[:2], 0.0)
    (2.0, -1.0)
    """
    if not 0 <= epsilon < 1:
        raise BadInput(f"`epsilon` must be at least 0 and below 1, not {epsilon}")
    rank = max(1, math.ceil(epsilon * len(margins) - 1e-9))
    return float(np.partition(margins, rank - 1)[rank - 1])


def margin_loss(margins: NDArray[np.float64], gamma: float) -> float:
    """L̂_γ: the fraction of examples with margin at most γ; at γ = 0 the error."""
    return float((margins <= gamma).mean())


def _measure(context: Context) -> Found:
    found, options = context.passed["margins"], context.options
    spread, errors = describe(found, "min"), int((found <= 0).sum())
    gamma = epsilon_margin(found, options.epsilon)
    net = NetMargins(
        errors=errors,
        error_rate=errors / len(found),
        margins=spread,
        margin_5th=None if spread is None else spread.quantiles["0.05"],
        margin=Margin(options.epsilon, gamma, margin_loss(found, gamma), float(found.min())),
    )
    return Found(net=net)


def _views(table: MeasureTable) -> Iterator[View]:
    net = table.net
    lost = "γ is not positive: the net errs on too many examples for norms to be compared with it"
    notes = [lost] if net.margin is not None and net.margin.value <= 0 else []
    columns = "errors error_rate margin.hard margin_5th margins.median margin.value margin.epsilon"
    yield View("Errors and margins", [net], f"{columns} margin.loss", notes, upright=True)


FAMILY = Family(
    "margins",
    _measure,
    "margins (Neyshabur 2017)",
    MarginOptions,
    net=NetMargins,
    effort=0.2,
    ways=("trace", "hooks", "weights", "answers"),
    sees=frozenset({"margins"}),
    views=_views,
)
