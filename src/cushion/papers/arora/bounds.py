"""Arora 2018, Figure 2 middle (bounds side by side) and right (the bound during training).

All are capacities without constants, depth and logarithms, as the paper plots them. It does not say
its γ; here it is the 5th-percentile margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import spearmanr

from cushion.papers.arora.paper import CLOSEST_RIVAL_LOG10, PARAMETERS
from cushion.papers.arora.records import MARGIN_LEVEL, vgg19_epochs
from cushion.papers.arora.settings import net_name, vgg19_settings
from cushion.papers.drawings import Curve, Curves, Panels, Picture, Series
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

OURS, COUNT = "noise stability", "parameters"
RIVALS = ("l1-inf", "frobenius", "spec-l1,2", "spec-fro")
_ORDERS = 1.0  # "orders of magnitude worse": at least ten times
_FITTED = 0.05  # training error that is "almost zero": γ is positive from there on
_NOTES = (
    "Figure 2 drops constants, the depth and logarithms. Its ℓ_{1,∞} lacks the square, and its "
    "spec-ℓ_{1,2} is not the source's (Σ(·)^{2/3})³: the corrected forms stand beside them.",
    "Norms are those of the true linear maps, convolutions with their padding. The paper speaks of "
    "norms of weight matrices or tensors; of a kernel, ‖·‖_F and ‖·‖_{1,2} are smaller by the "
    "number of places and ‖·‖_{1,∞} stays: which rival is the closest depends on it.",
    "The paper's own row has no valid proof for convolutional nets (its Lemma 12 is false). It is "
    "a measure, like all.",
)
Epoch = Mapping[str, Any]


def log10_of(found: Epoch, name: str, form: str = "as plotted") -> float | None:
    """log10 of one capacity of a snapshot; None where γ is not positive or it cannot be said."""
    value = next(
        row["log10"] for row in found["rows"] if (row["name"], row["form"]) == (name, form)
    )
    return None if value is None else float(value)


def figure_2_middle(workshop: Workshop) -> Page:
    """The bounds on the trained net as bars."""
    last = vgg19_epochs(workshop)[-1]
    names = (*RIVALS, OURS, COUNT)
    plotted = tuple(log10_of(last, name) for name in names)
    corrected = tuple(
        log10_of(last, name, "corrected") if name in ("l1-inf", "spec-l1,2") else None
        for name in names
    )
    header = ("capacity", "log10, as plotted", "log10, corrected")
    rows = tuple(zip(names, plotted, corrected, strict=True))
    return Page(
        tables=(Table(header, rows, "After the last epoch:"), _epochs_table([last])),
        settings={**vgg19_settings(workshop, sparse=True), "margin level": MARGIN_LEVEL},
        claims=comparison_claims(last),
        notes=_NOTES,
        pictures=(
            Picture(
                "figure-2-middle",
                f"Capacities of {net_name(workshop)} (measures)",
                names,
                "what is counted (γ: 5th-percentile margin)",
                "log10 of the capacity",
                (Series("as plotted", plotted), Series("corrected", corrected)),
            ),
        ),
    )


def figure_2_right(workshop: Workshop) -> Page:
    """The errors, their difference and the bound after more and more epochs."""
    found = vgg19_epochs(workshop)
    return Page(
        tables=(_epochs_table(found),),
        settings={**vgg19_settings(workshop, sparse=True), "margin level": MARGIN_LEVEL},
        claims=training_claims(found),
        notes=(
            "Where γ ≤ 0 the bound has no value. The paper rescales its bound to the range of the "
            "error; here it has its own axis. While the training error still falls a little, the "
            "gap may grow as the test error falls.",
            _NOTES[-1],
        ),
        pictures=(
            Panels(
                "figure-2-right",
                f"{net_name(workshop)} during training",
                2,
                (_error_lines(found), _bound_curves(found)),
            ),
        ),
    )


def _error_lines(found: Sequence[Epoch]) -> Picture:
    epochs = tuple(float(one["epoch"]) for one in found)
    series = (
        Series("training", tuple(one["errors"] / one["m"] for one in found)),
        Series("test", tuple(one["test_errors"] / one["test_m"] for one in found)),
        Series("test minus training", tuple(map(_gap, found))),
    )
    return Picture("", "errors", epochs, "epoch", "error (fraction of examples)", series)


def _bound_curves(found: Sequence[Epoch]) -> Curves:
    known = [
        (float(one["epoch"]), value) for one in found if (value := log10_of(one, OURS)) is not None
    ]
    effective = [
        (float(one["epoch"]), math.log10(one["effective_parameters"]))
        for one in found
        if one["effective_parameters"] is not None
    ]
    curves = [
        Curve(label, tuple(x for x, _ in pairs), tuple(y for _, y in pairs))
        for label, pairs in (
            ("the bound", known),
            ("without max‖f‖²/γ²", effective),
        )
        if pairs
    ]
    return Curves("", "noise stability (measure)", "epoch", "log10 of the capacity", tuple(curves))


def comparison_claims(last: Epoch) -> tuple[Tried, ...]:
    """Section 6.3: the order of the bounds."""
    ours, count = log10_of(last, OURS), log10_of(last, COUNT)
    rivals = {name: log10_of(last, name) for name in RIVALS}
    known = {name: value for name, value in rivals.items() if value is not None}
    texts = (
        "every earlier bound is orders of magnitude worse than that from noise stability",
        "the closest one is spec-ℓ_{1,2}",
        "the closest one is far greater than the number of parameters",
        "noise stability gives less than the number of parameters",
    )
    if ours is None or count is None or len(known) < len(rivals):
        why = (
            f"γ = {last['margin']:.3g} is not positive"
            if last["margin"] <= 0
            else "a capacity is infinite"
        )
        return tuple(Tried(text, None, why) for text in texts)
    closest = min(known, key=lambda name: known[name])
    shown = ", ".join(f"{name} {value:.1f}" for name, value in known.items())
    return (
        Tried(
            texts[0],
            known[closest] >= ours + _ORDERS,
            f"log10: {shown}; noise stability {ours:.1f} (a factor of ten asked)",
        ),
        Tried(texts[1], closest == "spec-l1,2", f"the closest is {closest}"),
        Tried(
            texts[2],
            known[closest] >= count + _ORDERS,
            f"log10 {known[closest]:.1f}; parameters {count:.1f}",
            math.log10(PARAMETERS) + _ORDERS <= CLOSEST_RIVAL_LOG10,
            f"about 10^{CLOSEST_RIVAL_LOG10:g}; {PARAMETERS} parameters",
        ),
        Tried(texts[3], ours < count, f"log10 {ours:.1f}; parameters {count:.1f}"),
    )


def training_claims(found: Sequence[Epoch]) -> tuple[Tried, ...]:
    """Section 6.2: from the first epoch at which the training error is almost zero to the last."""
    late = [
        one
        for one in found
        if one["errors"] / one["m"] <= _FITTED and log10_of(one, OURS) is not None
    ]
    texts = (
        "the test error goes on improving after the training error is almost zero",
        "the bound goes on improving there",
        "so does the generalisation error, test minus training error",
        "the bound correlates with the test error during training",
    )
    if len(late) < 2:
        why = (
            f"only {len(late)} of the measured epochs have a training error of at most "
            f"{_FITTED:.0%} and a bound"
        )
        return tuple(Tried(text, None, why) for text in texts)
    first, last = late[0], late[-1]
    tests = [one["test_errors"] / one["test_m"] for one in (first, last)]
    bounds = [log10_of(one, OURS) for one in late]
    begin, end = bounds[0], bounds[-1]
    assert begin is not None
    assert end is not None
    span = f"from epoch {first['epoch']} to {last['epoch']}"
    claims = [
        Tried(texts[0], tests[1] < tests[0], f"{span}: {tests[0]:.2%} to {tests[1]:.2%}"),
        Tried(texts[1], end < begin, f"{span}: log10 {begin:.2f} to {end:.2f}"),
        Tried(texts[2], _gap(last) < _gap(first), f"{span}: {_gap(first):.2%} to {_gap(last):.2%}"),
    ]
    if len(late) < 4:
        return (
            *claims,
            Tried(texts[3], None, f"{len(late)} epochs with a bound are too few for a correlation"),
        )
    found_rank = spearmanr([one["test_errors"] for one in late], bounds)
    rank, p = float(found_rank.statistic), float(found_rank.pvalue)
    because = f"rank correlation {rank:+.2f} over {len(late)} epochs (p = {p:.2g}; above 0.5 asked)"
    return (*claims, Tried(texts[3], rank > 0.5, because))


def _gap(one: Epoch) -> float:
    return float(one["test_errors"] / one["test_m"] - one["errors"] / one["m"])


def _epochs_table(found: Sequence[Epoch]) -> Table:
    return Table.of(
        "What enters:",
        found,
        {
            "epoch": "epoch",
            "training error": lambda one: one["errors"] / one["m"],
            "test error": lambda one: one["test_errors"] / one["test_m"],
            "gap": _gap,
            "γ": "margin",
            "max‖f(x)‖": "largest_score",
            "effective parameters": "effective_parameters",
            "the same without the worst 5 % of the examples": "effective_parameters_zeta",
            "noise stability, log10": lambda one: log10_of(one, OURS),
        },
    )
