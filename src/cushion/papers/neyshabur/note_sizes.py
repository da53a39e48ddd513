"""The note, Figure 1: larger nets generalise better. Two-layer nets on MNIST, those of Neyshabur
2017's Figure 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scipy.stats import spearmanr

from cushion.nets.loading.weights import load_net
from cushion.papers.drawings import Picture, Series
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.neyshabur.plans import WIDTHS
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_FALLS = -0.5  # rank correlation with the number of parameters that is called a fall
Net = Mapping[str, Any]


def figure_1(workshop: Workshop) -> Page:
    """Training and test error over the number of parameters."""
    sized = WIDTHS[workshop.size]
    nets = [_errors(workshop, one.plan) for one in sized]
    claims = size_claims(nets)
    rows = [{"units": one.size, **net} for one, net in zip(sized, nets, strict=True)]
    columns = {"hidden units": "units", "parameters": "parameters", "examples": "m"}
    errors: dict[str, Callable[[Net], float]] = {"training error": _train, "test error": _test}
    return Page(
        tables=(Table.of("", rows, {**columns, **errors}),),
        settings={"nets": "two-layer perceptrons", "changed": sized[0].plan.changes()},
        claims=claims,
        notes=(
            "The note shows a picture of a talk and does not say which nets it is about; these are "
            "the two-layer nets with which Neyshabur 2017 (Figure 4) makes the same point.",
        ),
        pictures=(
            Picture(
                "figure-1",
                "Two-layer nets: error against size",
                tuple(net["parameters"] for net in nets),
                "number of parameters",
                "error (fraction of examples)",
                (
                    Series("training", tuple(_train(net) for net in nets)),
                    Series("test", tuple(_test(net) for net in nets)),
                ),
                x_log=True,
            ),
        ),
    )


def size_claims(nets: Sequence[Net]) -> tuple[Tried, ...]:
    """The test error falls with the size, also past as many parameters as examples."""
    beyond = [net for net in nets if net["parameters"] > net["m"]]
    text = "so it does among nets with more parameters than examples"
    if len(beyond) < 3:
        second = Tried(
            text, None, f"{len(beyond)} nets have more parameters than examples; three asked"
        )
    else:
        second = _falls(text, beyond)
    return (_falls("the test error falls with the size of the net", nets), second)


def _falls(text: str, nets: Sequence[Net]) -> Tried:
    tests = [_test(net) for net in nets]
    rank = (
        float(spearmanr([net["parameters"] for net in nets], tests).statistic)
        if len(set(tests)) > 1
        else 0.0
    )
    because = (
        f"from {tests[0]:.2%} to {tests[-1]:.2%}, rank correlation {rank:+.2f} (below {_FALLS:g} "
        "asked)"
    )
    return Tried(text, rank < _FALLS and tests[-1] < tests[0], because)


def _errors(workshop: Workshop, plan: TrainingPlan) -> Net:
    def make() -> dict[str, Any]:
        run, data, test = train_plan(workshop, plan)
        weights = load_net(run.net).module.parameters()
        counts = {
            "m": len(data),
            "test_m": len(test),
            "parameters": sum(part.numel() for part in weights),
        }
        return counts | {
            "errors": run.metrics["train_errors"],
            "test_errors": run.metrics["test_errors"],
        }

    settings = {"plan": plan.to_json(), "seed": workshop.seed, "device": workshop.device}
    found: Net = workshop.step("note-errors", settings, make)
    return found


def _train(net: Net) -> float:
    return float(net["errors"] / net["m"])


def _test(net: Net) -> float:
    return float(net["test_errors"] / net["test_m"])
