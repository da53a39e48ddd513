"""Neyshabur 2017, Figures 3 and 4: global minima that generalise differently, found with a
confusion set of random labels, and two-layer perceptrons of growing width, also in the note.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Any

from scipy.stats import spearmanr

from cushion.nets.loading.weights import load_net
from cushion.papers.drawings import Panels, Picture, Series
from cushion.papers.nets import TrainingPlan, counted, held_out_error, train_plan, training_error
from cushion.papers.neyshabur.claims import RANKED, all_zero, moves, predicts, rank_correlation
from cushion.papers.neyshabur.nets import (
    KL,
    NORMS,
    PRINTS_NOTHING,
    NetFound,
    bicriteria,
    find_nets,
    net_table,
)
from cushion.papers.neyshabur.plans import (
    CONFUSED,
    EPSILON,
    LEVEL,
    MLP_ALPHAS,
    VGG_ALPHAS,
    WIDTHS,
)
from cushion.papers.pages import Columns, Page, Table, Tried
from cushion.papers.runner import Workshop

FITS, TURNS, SPECTRAL_TURNS = 32, 128, 512  # hidden units at which the text sees a change
_FALLS = -0.5  # rank correlation with the number of parameters that is called a fall
FITTED = 0.01  # a training error at most this counts as fitting


def _panels(nets: Sequence[NetFound], name: str, title: str, label: str, unit: str) -> Panels:
    """Errors (training: on S), norms over γ² and largest sharpness over the largest of them, and
    bi-criteria curves; units stand on logarithmic axes.
    """
    sizes, logs = [net.size for net in nets], unit == "units"
    errors = [
        Series("training", [net.train_error for net in nets]),
        Series("test", [net.test_error for net in nets]),
    ]
    measures = [
        Series(norm, shares([net.log10(key) for net in nets])) for key, norm in NORMS.items()
    ]
    top = max(net.sharpness for net in nets)
    sharp = [net.sharpness / top if top > 0 else None for net in nets]
    measures.append(Series("sharpness", sharp))
    axis = "error (fraction of examples)"
    panels = (
        Picture("", "errors", sizes, label, axis, errors, logs),
        Picture("", "measures", sizes, label, "share of the largest", measures, logs, logs),
        bicriteria("expected sharpness and KL", nets, unit),
    )
    return Panels(name, title, 3, panels)


def shares(logs: Sequence[float | None]) -> list[float | None]:
    """10^log over the largest of them."""
    top = max((value for value in logs if value is not None), default=0.0)
    return [None if value is None else float(10.0 ** (value - top)) for value in logs]


def figure_3(workshop: Workshop) -> Page:
    """Errors, measures and bi-criteria curves by the size of the confusion set."""
    nets = find_nets(workshop, CONFUSED[workshop.size], VGG_ALPHAS)
    label = "random labels in the confusion set"
    caption = "On the rows with true labels; norms are log10 of norm / γ²:"
    columns = ("train error", "test error", "γ", *NORMS.values(), "largest sharpness", *KL)
    settings = {"true labels": nets[0].norms["m"], "margin level": EPSILON, **nets[0].measured}
    return Page(
        tables=[net_table(caption, label, nets, *columns), _union_table(nets, label)],
        settings=settings,
        claims=minima_claims(nets),
        notes=(
            "Measures, not bounds. S is the part with true labels, which the paper calls the "
            "training set: training error, γ and sharpness are those on it. The second table has "
            "the margin over the union that the net was trained on.",
            f"Changed from the paper, with the largest confusion set: {nets[-1].plan.changes()}.",
            PRINTS_NOTHING,
        ),
        pictures=[
            _panels(
                nets, "minima", "Global minima with poor generalisation", label, "random labels"
            )
        ],
    )


def _union_table(nets: Sequence[NetFound], label: str) -> Table:
    """Of all that a net was trained on: S and its confusion set, if it has one."""
    columns: Columns = {
        label: "size",
        "error": lambda net: net.norms["union_errors"] / net.norms["union_m"],
        "γ": "norms.union_margin",
        **{name: f"norms.union_log10.{key}, as plotted" for key, name in NORMS.items()},
    }
    return Table.of("With the margin over true and random labels together:", nets, columns)


def minima_claims(nets: Sequence[NetFound]) -> list[Tried]:
    """What grows with the confusion set and with the test error, by rank correlation."""
    errors = [net.test_error for net in nets]
    counts = {str(net.size): net.norms["errors"] for net in nets}
    sizes, sharp = [float(net.size) for net in nets], [net.sharpness for net in nets]
    grows = "the test error increases with the confusion set"
    joint = f"at an expected sharpness of {LEVEL:g}, nets of higher test error have a higher KL"
    norms = {name: [net.log10(key) for net in nets] for key, name in NORMS.items()}
    return [
        all_zero(counts, "every net fits the training set with true labels"),
        predicts(grows, sizes, errors, what="of size and test error"),
        *(
            predicts(f"{name} over the margin predicts the test error", values, errors)
            for name, values in norms.items()
        ),
        predicts("sharpness alone does not predict it", sharp, errors, wanted=False),
        predicts(joint, [net.kl for net in nets], errors),
    ]


def figure_4(workshop: Workshop) -> Page:
    """Errors, measures and bi-criteria curves by the number of hidden units."""
    nets = find_nets(workshop, WIDTHS[workshop.size], MLP_ALPHAS)
    title, label = "Two-layer perceptrons on MNIST", "hidden units"
    columns = ("parameters", "train error", "test error", "loss", "γ", *NORMS.values())
    columns += ("ℓ2-path norm, ∏ 4h", "spectral norm, ∏ h", "largest sharpness", *KL)
    return Page(
        tables=[net_table("Norms are log10 of norm / γ²:", label, nets, *columns)],
        settings={"margin level": EPSILON, **nets[0].measured},
        claims=width_claims(nets),
        notes=(
            "Measures, not bounds. Norms are log10 of norm / γ²; the two columns with a product of "
            "h have the factors that depend on the widths, as §2.2 prints them.",
            f"Changed from the paper, at the largest width: {nets[-1].plan.changes()}.",
            "The paper trains until the cross-entropy is below 1e-4 wherever zero training error "
            "is possible; a net that stopped earlier has a smaller margin.",
            PRINTS_NOTHING,
        ),
        pictures=[_panels(nets, "widths", title, label, "units")],
    )


def width_claims(nets: Sequence[NetFound]) -> list[Tried]:
    """The text's sentences about 32, 128 and 512 hidden units."""

    def norms(*keys: str, form: str = "as plotted") -> dict[str, Callable[[NetFound], Any]]:
        return {NORMS[key]: methodcaller("log10", key, form) for key in keys}

    joint: dict[str, Callable[[NetFound], Any]] = {"ln KL": lambda net: net.kl and math.log(net.kl)}
    printed = "with the factors of width ℓ2-path norm and spectral norm"
    both = norms("l2-path", "spectral", form="as printed")
    beyond, wide = f"beyond {TURNS}", SPECTRAL_TURNS
    measure = f"the joint measure (ln KL at an expected sharpness of {LEVEL:g})"
    sentences = (
        (f"all four measures decrease up to {TURNS} hidden units", norms(*NORMS), FITS, False),
        (f"{beyond}, ℓ2 norm and ℓ1-path norm increase", norms("l2-norm", "l1-path"), TURNS, True),
        (f"{beyond}, the ℓ2-path norm as plotted still decreases", norms("l2-path"), TURNS, False),
        (f"{beyond}, {printed} increase", both, TURNS, True),
        (f"beyond {wide}, the spectral norm increases", norms("spectral"), wide, True),
        (f"{measure} decreases up to {TURNS}", joint, FITS, False),
        (f"{beyond} it increases", joint, TURNS, True),
    )
    claims = [fits(nets), wider_is_better(nets)]
    for text, readers, start, up in sentences:
        early = start == FITS
        inside = [net for net in nets if start <= net.size <= (TURNS if early else math.inf)]
        inside = inside if inside and inside[0].size == start else []
        found = {name: [read(net) for net in inside] for name, read in readers.items()}
        where = f"from {start} units to {TURNS if early else 'the widest net'}"
        where = where if readers is joint else f"log10 {where}"
        every = early and readers is not joint
        claims.append(moves(text, found, up=up, where=where, every=every))
    return claims


def fits(nets: Sequence[NetFound]) -> Tried:
    """The training error of the net with 32 units is at most 1 %."""
    text = f"{FITS} hidden units are enough to fit the training data"
    for net in nets:
        if net.size == FITS:
            because = (
                f"its training error is {net.train_error:.3%}; at most {FITTED:.0%} counts as "
            )
            return Tried(text, net.train_error <= FITTED, f"{because}fitting")
    return Tried(text, None, "no net of that width was trained")


def wider_is_better(nets: Sequence[NetFound]) -> Tried:
    """From 32 units on: rank correlation below -0.5, and the widest errs less than 32 units."""
    text = f"beyond {FITS} hidden units the test error decreases with the width"
    wide = [net for net in nets if net.size >= FITS]
    errors = [net.test_error for net in wide]
    found = rank_correlation([net.size for net in wide], errors)
    if found is None:
        return Tried(text, None, "fewer than three such nets, or all alike")
    because = f"rank correlation {found:+.2f} (below -{RANKED} is needed), test error "
    because += f"{errors[0]:.3%} to {errors[-1]:.3%}"
    return Tried(text, found < -RANKED and errors[-1] < errors[0], because)


def note_figure_1(workshop: Workshop) -> Page:
    """The note: larger nets generalise better. Both errors over the number of parameters."""
    plans = WIDTHS[workshop.size]
    nets = [{"units": units, **_errors(workshop, plan)} for units, plan in plans.items()]
    columns = {"hidden units": "units", "parameters": "parameters", "examples": "m"}
    errors = {"training error": training_error, "test error": held_out_error}
    series = [
        Series("training", [training_error(net) for net in nets]),
        Series("test", [held_out_error(net) for net in nets]),
    ]
    axes = ("number of parameters", "error (fraction of examples)")
    title, x = "Two-layer nets: error against size", [net["parameters"] for net in nets]
    changed = next(iter(plans.values())).changes()
    return Page(
        tables=[Table.of("", nets, {**columns, **errors})],
        settings={"nets": "two-layer perceptrons", "changed": changed},
        claims=size_claims(nets),
        notes=(
            "The note shows a picture of a talk and does not say which nets it is about; these are "
            "the two-layer nets with which Neyshabur 2017 (Figure 4) makes the same point.",
        ),
        pictures=[Picture("figure-1", title, x, *axes, series, x_log=True)],
    )


def size_claims(nets: Sequence[Mapping[str, Any]]) -> list[Tried]:
    """The test error falls with the size, also past as many parameters as examples."""
    beyond = [net for net in nets if net["parameters"] > net["m"]]
    text = "so it does among nets with more parameters than examples"
    few = Tried(text, None, f"{len(beyond)} nets have more parameters than examples; three asked")
    second = few if len(beyond) < 3 else _falls(text, beyond)
    return [_falls("the test error falls with the size of the net", nets), second]


def _falls(text: str, nets: Sequence[Mapping[str, Any]]) -> Tried:
    tests, parameters = [held_out_error(net) for net in nets], [net["parameters"] for net in nets]
    rank = float(spearmanr(parameters, tests).statistic) if len(set(tests)) > 1 else 0.0
    because = f"from {tests[0]:.2%} to {tests[-1]:.2%}, rank correlation {rank:+.2f}"
    holds = rank < _FALLS and tests[-1] < tests[0]
    return Tried(text, holds, f"{because} (below {_FALLS:g} asked)")


def _errors(workshop: Workshop, plan: TrainingPlan) -> dict[str, int]:
    def make() -> dict[str, int]:
        run, data, test = train_plan(workshop, plan)
        weights = load_net(run.net).module.parameters()
        parameters = sum(part.numel() for part in weights)
        return {"parameters": parameters, **counted(run, data, test)}

    settings = {"plan": plan.to_json(), "seed": workshop.seed, "device": workshop.device}
    return workshop.step("note-errors", settings, make)
