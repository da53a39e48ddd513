"""Arora 2018, Figure 2 middle (bounds side by side) and right (the bound during training), and the
note's Figures 2 and 6, which it takes from there.

All are capacities without constants, depth and logarithms, as the paper plots them. It does not say
its γ; here it is the 5th-percentile margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scipy.stats import spearmanr

from cushion.papers.arora.labels import TAKEN
from cushion.papers.arora.nets import MARGIN_LEVEL, net_name, vgg19_epochs, vgg19_settings
from cushion.papers.arora.paper import CLOSEST_RIVAL_LOG10, PARAMETERS
from cushion.papers.drawings import Curve, Curves, Panels, Picture, Series
from cushion.papers.nets import held_out_error, training_error
from cushion.papers.pages import Columns, Page, Table, Tried
from cushion.papers.runner import Workshop

OURS, COUNT = "noise stability", "parameters"
RIVALS = ("l1-inf", "frobenius", "spec-l1,2", "spec-fro")
_AXES = ("what is counted (γ: 5th-percentile margin)", "log10 of the capacity")
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
    rows = {(row["name"], row["form"]): row["log10"] for row in found["rows"]}
    value: float | None = rows[name, form]
    return value


def _gap(one: Epoch) -> float:
    return held_out_error(one) - training_error(one)


def figure_2_middle(workshop: Workshop) -> Page:
    """The bounds on the trained net as bars."""
    last = vgg19_epochs(workshop)[-1]
    names = (*RIVALS, OURS, COUNT)
    plotted = [log10_of(last, name) for name in names]
    corrected = [
        log10_of(last, name, "corrected") if name in ("l1-inf", "spec-l1,2") else None
        for name in names
    ]
    header = ("capacity", "log10, as plotted", "log10, corrected")
    rows = list(zip(names, plotted, corrected, strict=True))
    title = f"Capacities of {net_name(workshop)} (measures)"
    series = (Series("as plotted", plotted), Series("corrected", corrected))
    return Page(
        tables=(Table(header, rows, "After the last epoch:"), _epochs_table([last])),
        settings={**vgg19_settings(workshop, sparse=True), "margin level": MARGIN_LEVEL},
        claims=comparison_claims(last),
        notes=_NOTES,
        pictures=[Picture("figure-2-middle", title, names, *_AXES, series)],
    )


def note_figure_2(workshop: Workshop) -> Page:
    """The earlier bounds beside the number of parameters."""
    last = vgg19_epochs(workshop)[-1]
    rows = [(name, log10_of(last, name)) for name in (*RIVALS, COUNT)]
    title = "Norm-based capacities and the number of parameters (measures)"
    series = [Series("trained VGG-19", [value for _, value in rows])]
    note = "As Figure 2 of Arora 2018 plots them, without constants; ours is the 5th-percentile γ."
    return Page(
        tables=[Table(("capacity", "log10"), rows)],
        settings=vgg19_settings(workshop, sparse=True),
        claims=[above_count(last)],
        notes=[note],
        pictures=[Picture("figure-2", title, [name for name, _ in rows], *_AXES, series)],
    )


def _known(last: Epoch, *names: str) -> dict[str, float]:
    """The capacities of these names that have a value."""
    found = {name: log10_of(last, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def above_count(last: Epoch) -> Tried:
    """Every norm-based capacity exceeds the number of parameters."""
    text = "every norm-based bound is a lot more than the number of parameters (ten times)"
    rivals, count = _known(last, *RIVALS), log10_of(last, COUNT)
    if count is None or len(rivals) < len(RIVALS):
        return Tried(text, None, f"γ = {last['margin']:.3g} is not positive")
    shown = ", ".join(f"{name} {value:.1f}" for name, value in rivals.items())
    good = min(rivals.values()) >= count + _ORDERS
    return Tried(text, good, f"log10: {shown}; parameters {count:.1f}")


def comparison_claims(last: Epoch) -> list[Tried]:
    """Section 6.3: the order of the bounds."""
    ours, count, rivals = log10_of(last, OURS), log10_of(last, COUNT), _known(last, *RIVALS)
    texts = (
        "every earlier bound is orders of magnitude worse than that from noise stability",
        "the closest one is spec-ℓ_{1,2}",
        "the closest one is far greater than the number of parameters",
        "noise stability gives less than the number of parameters",
    )
    if ours is None or count is None or len(rivals) < len(RIVALS):
        gamma = f"γ = {last['margin']:.3g} is not positive"
        why = gamma if last["margin"] <= 0 else "a capacity is infinite"
        return [Tried(text, None, why) for text in texts]
    closest = min(rivals, key=rivals.__getitem__)
    least = rivals[closest]
    shown = ", ".join(f"{name} {value:.1f}" for name, value in rivals.items())
    asked = f"log10: {shown}; noise stability {ours:.1f} (a factor of ten asked)"
    in_paper = math.log10(PARAMETERS) + _ORDERS <= CLOSEST_RIVAL_LOG10
    paper = (in_paper, f"about 10^{CLOSEST_RIVAL_LOG10:g}; {PARAMETERS} parameters")
    far = f"log10 {least:.1f}; parameters {count:.1f}"
    return [
        Tried(texts[0], least >= ours + _ORDERS, asked),
        Tried(texts[1], closest == "spec-l1,2", f"the closest is {closest}"),
        Tried(texts[2], least >= count + _ORDERS, far, *paper),
        Tried(texts[3], ours < count, f"log10 {ours:.1f}; parameters {count:.1f}"),
    ]


def figure_2_right(workshop: Workshop) -> Page:
    """The errors, their difference and the bound after more and more epochs."""
    found = vgg19_epochs(workshop)
    title = f"{net_name(workshop)} during training"
    panels = (_error_lines(found), _bound_curves(found))
    return Page(
        tables=[_epochs_table(found)],
        settings={**vgg19_settings(workshop, sparse=True), "margin level": MARGIN_LEVEL},
        claims=training_claims(found),
        notes=(
            "Where γ ≤ 0 the bound has no value. The paper rescales its bound to the range of the "
            "error; here it has its own axis. While the training error still falls a little, the "
            "gap may grow as the test error falls.",
            _NOTES[-1],
        ),
        pictures=[Panels("figure-2-right", title, 2, panels)],
    )


def note_figure_6(workshop: Workshop) -> Page:
    """The bound and the errors during training: "Correlation with Generalization"."""
    page = figure_2_right(workshop)
    pictures = [replace(picture, name="figure-6") for picture in page.pictures]
    return replace(page, notes=(TAKEN, *page.notes), pictures=pictures)


def _error_lines(found: Sequence[Epoch]) -> Picture:
    epochs = [float(one["epoch"]) for one in found]
    reads = {"training": training_error, "test": held_out_error, "test minus training": _gap}
    series = [Series(label, [read(one) for one in found]) for label, read in reads.items()]
    return Picture("", "errors", epochs, "epoch", "error (fraction of examples)", series)


def _bound_curves(found: Sequence[Epoch]) -> Curves:
    curves = []
    for label, read in (("the bound", _bound), ("without max‖f‖²/γ²", _effective)):
        known = [(float(one["epoch"]), value) for one in found if (value := read(one)) is not None]
        if known:
            curves.append(Curve(label, [x for x, _ in known], [y for _, y in known]))
    return Curves("", "noise stability (measure)", "epoch", "log10 of the capacity", curves)


def _bound(one: Epoch) -> float | None:
    return log10_of(one, OURS)


def _effective(one: Epoch) -> float | None:
    found = one["effective_parameters"]
    return None if found is None else math.log10(found)


def training_claims(found: Sequence[Epoch]) -> list[Tried]:
    """Section 6.2: from the first epoch at which the training error is almost zero to the last."""
    known = [(one, value) for one in found if (value := _bound(one)) is not None]
    late = [(one, value) for one, value in known if training_error(one) <= _FITTED]
    texts = (
        "the test error goes on improving after the training error is almost zero",
        "the bound goes on improving there",
        "so does the generalisation error, test minus training error",
        "the bound correlates with the test error during training",
    )
    if len(late) < 2:
        why = f"only {len(late)} of the measured epochs have a training error of at most "
        return [Tried(text, None, f"{why}{_FITTED:.0%} and a bound") for text in texts]
    (first, begin), (last, end) = late[0], late[-1]
    span = f"from epoch {first['epoch']} to {last['epoch']}"
    tests, gaps = (held_out_error(first), held_out_error(last)), (_gap(first), _gap(last))
    claims = [
        Tried(texts[0], tests[1] < tests[0], f"{span}: {tests[0]:.2%} to {tests[1]:.2%}"),
        Tried(texts[1], end < begin, f"{span}: log10 {begin:.2f} to {end:.2f}"),
        Tried(texts[2], gaps[1] < gaps[0], f"{span}: {gaps[0]:.2%} to {gaps[1]:.2%}"),
    ]
    if len(late) < 4:
        why = f"{len(late)} epochs with a bound are too few for a correlation"
        return [*claims, Tried(texts[3], None, why)]
    rank, p = spearmanr([one["test_errors"] for one, _ in late], [bound for _, bound in late])
    because = f"rank correlation {rank:+.2f} over {len(late)} epochs (p = {p:.2g}; above 0.5 asked)"
    return [*claims, Tried(texts[3], bool(rank > 0.5), because)]


def _epochs_table(found: Sequence[Epoch]) -> Table:
    columns: Columns = {
        "epoch": "epoch",
        "training error": training_error,
        "test error": held_out_error,
        "gap": _gap,
        "γ": "margin",
        "max‖f(x)‖": "largest_score",
        "effective parameters": "effective_parameters",
        "the same without the worst 5 % of the examples": "effective_parameters_zeta",
        "noise stability, log10": _bound,
    }
    return Table.of("What enters:", found, columns)
