"""The note, Figure 1: larger nets generalise better. Two-layer nets on MNIST, those of Neyshabur
2017's Figure 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import spearmanr

from cushion.nets.loading.weights import load_net
from cushion.papers.drawings import Picture, Series
from cushion.papers.nets import TrainingPlan, counted, held_out_error, train_plan, training_error
from cushion.papers.neyshabur.plans import WIDTHS
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_FALLS = -0.5  # rank correlation with the number of parameters that is called a fall
Net = Mapping[str, Any]


def figure_1(workshop: Workshop) -> Page:
    """Training and test error over the number of parameters."""
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


def size_claims(nets: Sequence[Net]) -> list[Tried]:
    """The test error falls with the size, also past as many parameters as examples."""
    beyond = [net for net in nets if net["parameters"] > net["m"]]
    text = "so it does among nets with more parameters than examples"
    few = Tried(text, None, f"{len(beyond)} nets have more parameters than examples; three asked")
    second = few if len(beyond) < 3 else _falls(text, beyond)
    return [_falls("the test error falls with the size of the net", nets), second]


def _falls(text: str, nets: Sequence[Net]) -> Tried:
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
