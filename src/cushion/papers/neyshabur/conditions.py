"""The net of Figures 5 to 8 as it was found, learned and at initialisation: conditions C1 to C3 of
Theorem 1, and what Neyshabur 2017 says of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.papers.drawings import Histogram, Spread
from cushion.papers.nets import train_plan
from cushion.papers.neyshabur.plans import DEEP, condition_options
from cushion.papers.pages import Tried
from cushion.papers.runner import Workshop
from cushion.theorems.net_facts import look_at

MU, C2, C3 = 0.25, 5.0, 3.0  # §4: "our experiments suggest that μ ≥ 1/4, C2 ≤ 5 and C3 ≤ 3"
ALIKE = 1.5  # medians within this factor of one another are similar
DENSITY = "density"  # the label of every histogram: its title names the net
_BINS = 40  # of pooled histograms


@dataclass(frozen=True)
class Conditions:
    """NetConditions as JSON, where an infinite number is null. label: learned, or random."""

    label: str
    record: dict[str, Any]

    def interaction(self, part: str) -> dict[str, Any]:
        """C1 over one set of indices: `text`, `figure6`, `inner`, `outer`."""
        found: dict[str, Any] = self.record["interaction"][part]
        return found

    def inverse_mu(self, part: str) -> float | None:
        """The largest 1/μ; None if nothing constrains μ."""
        return _largest([self.interaction(part)["inverse"]])

    def median_inverse_mu(self, part: str) -> float | None:
        return _median(self.interaction(part)["inverse"])

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
        return [_median(layer["spread"]) for layer in self.units]


def _number(value: float | None) -> float:
    """An infinite number is null in JSON."""
    return math.inf if value is None else float(value)


def _median(spread: dict[str, Any] | None) -> float | None:
    return None if spread is None else _number(spread["quantiles"]["0.5"])


def _largest(spreads: Sequence[dict[str, Any] | None]) -> float | None:
    return max((_number(one["value"]) for one in spreads if one is not None), default=None)


@dataclass(frozen=True)
class Pair:
    """The learned net, its initialisation, the mean length of inputs, what all four pages say."""

    learned: Conditions
    random: Conditions
    input_length: float
    settings: dict[str, Any]
    notes: tuple[str, ...]


def find_conditions(workshop: Workshop) -> Pair:
    """One step: train the net unless that is done, then measure it and its initialisation."""
    plan, options = DEEP[workshop.size], condition_options(workshop.size, workshop.seed)

    def make() -> dict[str, Any]:
        run, data, _ = train_plan(workshop, plan)
        loaded = load_net(run.net)
        asked: dict[str, Any] = {"only": ["conditions"], "conditions": options}
        table = measure(loaded.module, data, init=loaded.init, beside="init", **asked)
        assert table.beside is not None
        both = [one.net.conditions for one in (table, table.beside)]
        learned, random = (one.to_json() for one in both if one is not None)
        for one in (learned, random):  # no figure shows them one by one
            del one["interaction"]["triples"]
        return {
            "learned": learned,
            "random": random,
            "train_error": run.metrics["train_error"],
            "test_error": run.metrics["test_error"],
            "input_length": float(look_at(traced(loaded.module, data), data).inputs.mean()),
        }

    settings = {**plan.to_json(), "seed": plan.seed + workshop.seed, "device": workshop.device}
    settings["conditions"] = asdict(options)
    found = workshop.step("neyshabur-conditions", settings, make)
    learned, random = (Conditions(label, found[label]) for label in ("learned", "random"))
    shown = {
        "examples": learned.record["examples"],
        "method": options.method,
        "probes": options.probes,
        "train error": found["train_error"],
        "test error": found["test_error"],
    }
    notes = (
        "Measures, not bounds. One net: Figures 5 to 8 show the same learned net, beside its own "
        "initialisation.",
        f"Changed from the paper: {plan.changes()}. The paper says neither how it initialised nor "
        "on how many examples it measured.",
        "Inputs are scaled to ‖x‖ = 1, as the theorem has it; their mean length is "
        f"{found['input_length']:.3g}.",
    )
    return Pair(learned, random, found["input_length"], shown, notes)


def mu_at_least(net: Conditions, part: str, indices: str) -> Tried:
    """1/μ ≤ 4 over all examples and all triples of `part`."""
    text = f"C1: μ ≥ 1/4, that is 1/μ ≤ 4, on the {net.label} net ({indices})"
    found = net.inverse_mu(part)
    if found is None:
        why = net.interaction(part)["because"] or "no example counts"
        return Tried(text, None, f"nothing constrains μ: {why}")
    return Tried(text, found <= 1 / MU, f"the largest 1/μ is {found:.3g}")


def c2_at_most(net: Conditions, input_length: float) -> Tried:
    """C2 ≤ 5 over the δ at which 1 % of a layer can flip: the weaker reading."""
    text = f"C2 ≤ 5 on the {net.label} net"
    found, all_of_them = net.c2(), net.c2("value")
    if found is None or all_of_them is None:
        return Tried(text, None, "the net has no ReLU")
    median = max(net.median_c2())
    because = (
        f"the largest C2 is {found:.3g} over the δ at which at least 1 % of the units can flip, "
        f"{all_of_them:.3g} over all δ; the worst layer's median is {median:.3g}, about "
        f"{median / input_length:.2g} if inputs kept their length"
    )
    return Tried(text, found <= C2, because)


def c3_at_most(net: Conditions) -> Tried:
    """C3 ≤ 3 over all layers and examples."""
    text = f"C3 ≤ 3 on the {net.label} net"
    found = net.c3()
    if found is None:
        return Tried(text, None, "all layers are zero, so that any C3 will do")
    return Tried(text, found <= C3, f"the largest C3 is {found:.3g}")


def alike(
    name: str,
    parts: Sequence[str],
    learned: Sequence[float | None],
    random: Sequence[float | None],
) -> Tried:
    """Every median of the learned net within a factor 1.5 of the random one's."""
    text = f"{name} of the learned net is very similar to that of its random initialisation"
    found = zip(parts, learned, random, strict=True)
    ratios = {
        part: one / other
        for part, one, other in found
        if one is not None and other and math.isfinite(one) and math.isfinite(other)
    }
    outside = [part for part, ratio in ratios.items() if not 1 / ALIKE <= ratio <= ALIKE]
    if not outside and (len(ratios) < len(parts) or not ratios):
        return Tried(text, None, "a median is infinite, zero or missing")
    low, high = min(ratios.values()), max(ratios.values())
    span = f"medians of learned over random from {low:.3g} to {high:.3g}"
    rest = f", outside for {', '.join(outside)}" if outside else ""
    return Tried(text, not outside, f"{span}; within a factor {ALIKE:g} is needed{rest}")


def pooled(label: str, found: Sequence[dict[str, Any] | None]) -> Spread:
    """One histogram of several: every bin's count stands at the middle of that bin."""
    known = [one for one in found if one is not None]
    if not known:
        return Spread(label, (0.0, 1.0), (0.0,))
    middles = [(np.array(one["edges"][:-1]) + np.array(one["edges"][1:])) / 2 for one in known]
    weights = np.concatenate([np.array(one["counts"], dtype=np.float64) for one in known])
    inside = np.concatenate(middles)[weights > 0]
    counts, edges = np.histogram(inside, bins=_BINS, weights=weights[weights > 0])
    return Spread(label, edges.tolist(), counts.tolist())


def unit_histogram(net: Conditions) -> Histogram:
    """Incoming norm of every hidden unit over the mean of its layer's: Figures 5 and 8."""
    hidden = net.units[:-1] or net.units
    spread = pooled(DENSITY, [layer["unit_ratio"] for layer in hidden])
    axis = "incoming norm of a unit / mean of its layer"
    return Histogram("", f"C3, {net.label}", axis, [spread])
