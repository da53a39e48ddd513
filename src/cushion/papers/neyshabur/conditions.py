"""The net of Figures 5 to 8 as it was found: conditions C1 to C3 of Theorem 1 when learned, and at
initialisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.papers.drawings import Histogram, Spread
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.neyshabur.plans import DEEP, condition_options
from cushion.papers.runner import Workshop
from cushion.theorems.net_facts import look_at

DENSITY = "density"  # the label of every histogram: its title names the net
_BINS = 40  # of pooled histograms


@dataclass(frozen=True)
class Conditions:
    """NetConditions as JSON, where an infinite number is null. label: learned, or random."""

    label: str
    record: dict[str, Any]

    @property
    def layers(self) -> list[str]:
        return [str(name) for name in self.record["layers"]]

    def interaction(self, part: str) -> dict[str, Any]:
        """C1 over one set of indices: `text`, `figure6`, `inner`, `outer`."""
        found: dict[str, Any] = self.record["interaction"][part]
        return found

    def inverse_mu(self, part: str) -> float | None:
        """The largest 1/μ; None if nothing constrains μ."""
        return _largest([self.interaction(part)["inverse"]])

    def median_inverse_mu(self, part: str) -> float | None:
        found = self.interaction(part)["inverse"]
        return None if found is None else _number(found["quantiles"]["0.5"])

    @property
    def flips(self) -> list[dict[str, Any]]:
        """C2, one record a ReLU."""
        found: list[dict[str, Any]] = self.record["activation_flips"]
        return found

    def c2(self, which: str = "restricted") -> float | None:
        """The largest C2 of a layer: `value` over all δ, `restricted` where 1 % flip."""
        return max((_number(layer[which]) for layer in self.flips), default=None)

    def median_c2(self) -> list[float]:
        """By layer: the median of the restricted C2."""
        return [_number(layer["restricted_spread"]["quantiles"]["0.5"]) for layer in self.flips]

    @property
    def units(self) -> list[dict[str, Any]]:
        """C3, one record a layer."""
        found: list[dict[str, Any]] = self.record["unit_norms"]
        return found

    def c3(self) -> float | None:
        """The largest C3 of a layer."""
        return _largest([layer["spread"] for layer in self.units])

    def median_c3(self) -> list[float | None]:
        """By layer: the median of C3; None for a layer of zeros, which constrains nothing."""
        spreads = [layer["spread"] for layer in self.units]
        return [None if one is None else _number(one["quantiles"]["0.5"]) for one in spreads]


@dataclass(frozen=True)
class Pair:
    """The learned net, its errors, its random initialisation, and the mean length of inputs."""

    plan: TrainingPlan
    options: ConditionOptions
    learned: Conditions
    random: Conditions
    train_error: float
    test_error: float
    input_length: float

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "examples": self.learned.record["examples"],
            "method": self.options.method,
            "probes": self.options.probes,
            "train error": self.train_error,
            "test error": self.test_error,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What all four figures have to say."""
        return (
            "Measures, not bounds. One net: Figures 5 to 8 show the same learned net, beside its "
            "own initialisation.",
            f"Changed from the paper: {self.plan.changes()}. The paper says neither how it "
            "initialised nor on how many examples it measured.",
            "Inputs are scaled to ‖x‖ = 1, as the theorem has it; their mean length is "
            f"{self.input_length:.3g}.",
        )


def find_conditions(workshop: Workshop) -> Pair:
    """One step: train the net unless that is done, then measure it and its initialisation."""
    plan, options = DEEP[workshop.size], condition_options(workshop.size, workshop.seed)
    settings = {**plan.to_json(), "seed": plan.seed + workshop.seed, "device": workshop.device}
    settings["conditions"] = asdict(options)
    found = workshop.step(
        "neyshabur-conditions", settings, lambda: _conditions(workshop, plan, options)
    )
    return Pair(
        plan,
        options,
        Conditions("learned", found["learned"]),
        Conditions("random", found["random"]),
        found["train_error"],
        found["test_error"],
        found["input_length"],
    )


def _conditions(
    workshop: Workshop, plan: TrainingPlan, options: ConditionOptions
) -> dict[str, Any]:
    run, data, _ = train_plan(workshop, plan)
    loaded = load_net(run.net)
    table = measure(
        loaded.module,
        data,
        only=["conditions"],
        conditions=options,
        init=loaded.init,
        beside="init",
    )
    assert table.net.conditions is not None
    assert table.beside is not None
    assert table.beside.net.conditions is not None
    learned, random = table.net.conditions.to_json(), table.beside.net.conditions.to_json()
    for one in (learned, random):  # no figure shows them one by one
        del one["interaction"]["triples"]
    return {
        "learned": learned,
        "random": random,
        "train_error": run.metrics["train_error"],
        "test_error": run.metrics["test_error"],
        "input_length": float(look_at(traced(loaded.module, data), data).inputs.mean()),
    }


def pooled(label: str, found: Sequence[dict[str, Any] | None]) -> Spread:
    """One histogram of several: every bin's count stands at the middle of that bin."""
    known = [one for one in found if one is not None]
    middles = [(np.array(one["edges"][:-1]) + np.array(one["edges"][1:])) / 2 for one in known]
    if not known:
        return Spread(label, (0.0, 1.0), (0.0,))
    weights = np.concatenate([np.array(one["counts"], dtype=np.float64) for one in known])
    inside = np.concatenate(middles)[weights > 0]
    counts, edges = np.histogram(inside, bins=_BINS, weights=weights[weights > 0])
    return Spread(label, tuple(edges.tolist()), tuple(counts.tolist()))


def unit_histogram(net: Conditions) -> Histogram:
    """Incoming norm of every hidden unit over the mean of its layer's: Figures 5 and 8."""
    hidden = net.units[:-1] or net.units
    spread = pooled(DENSITY, [layer["unit_ratio"] for layer in hidden])
    return Histogram(
        "", f"C3, {net.label}", "incoming norm of a unit / mean of its layer", (spread,)
    )


def _number(value: float | None) -> float:
    """An infinite number is null in JSON."""
    return math.inf if value is None else float(value)


def _largest(spreads: Sequence[dict[str, Any] | None]) -> float | None:
    return max((_number(one["value"]) for one in spreads if one is not None), default=None)
