"""The nets of Figures 1 to 4 as they were found: errors, margin, four norms, and both kinds of
sharpness.

S is the sample that a net was trained on; of a union with a confusion set, S is its true part,
which stands first: that is what the paper calls the training set there. The norms are kept over the
margin of either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cushion.data import Dataset
from cushion.measures.margins import epsilon_margin
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.nets.network import Network
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.neyshabur.bicriteria import kl_at
from cushion.papers.neyshabur.plans import EPSILON, LEVEL, sharpness_options
from cushion.papers.runner import Workshop
from cushion.theorems.capacities import norm_capacities
from cushion.theorems.facts import NetFacts
from cushion.theorems.net_facts import gather, look_at

NORMS = {
    "l2-norm": "ℓ2 norm",
    "l1-path": "ℓ1-path norm",
    "l2-path": "ℓ2-path norm",
    "spectral": "spectral norm",
}
_DELTA = 0.05  # of bounds that are not asked for here


@dataclass(frozen=True)
class NetFound:
    """One net. norms, sharp: what the steps kept; sharp is empty where nobody asked for it."""

    plan: TrainingPlan
    norms: dict[str, Any]
    sharp: dict[str, Any]

    @property
    def errors(self) -> int:
        """On S."""
        return int(self.norms["errors"])

    @property
    def train_error(self) -> float:
        return float(self.norms["errors"] / self.norms["m"])

    @property
    def union_error(self) -> float:
        """On all that it was trained on: S and its confusion set, if it has one."""
        return float(self.norms["union_errors"] / self.norms["union_m"])

    @property
    def test_error(self) -> float:
        return float(self.norms["test_errors"] / self.norms["test_m"])

    @property
    def margin(self) -> float:
        """γ on S."""
        return float(self.norms["margin"])

    def log10(self, norm: str, form: str = "as plotted") -> float | None:
        """log10 of a norm over γ² of S; None where γ ≤ 0."""
        found: float | None = self.norms["log10"][f"{norm}, {form}"]
        return found

    def union_log10(self, norm: str) -> float | None:
        """The same with the margin over all that it was trained on."""
        found: float | None = self.norms["union_log10"][f"{norm}, as plotted"]
        return found

    @property
    def sharpness(self) -> float:
        """ζ_α of Keskar, a lower estimate."""
        return float(self.sharp["maximum"]["value"])

    @property
    def measured(self) -> dict[str, Any]:
        """How its sharpness was measured, for the settings of a page."""
        maximum, expected = self.sharp["maximum"], self.sharp["expected"]
        return {
            "box": f"{maximum['alpha']:g}(|w| + 1)",
            "ascent steps": maximum["steps"],
            "noise": f"α({expected['scale']:g}|w| + {expected['offset']:g})",
            "alphas": [point["alpha"] for point in self.points],
            "draws": self.points[0]["draws"],
            "batch": maximum["batch"],
        }

    @property
    def points(self) -> list[dict[str, Any]]:
        """Of the bi-criteria curve, by α."""
        found: list[dict[str, Any]] = self.sharp["expected"]["points"]
        return found

    @property
    def kl(self) -> float | None:
        """KL at an expected sharpness (of the loss) of 0.05; None where no α reaches it."""
        return kl_at(self.points, LEVEL, "sharpness")

    @property
    def error_kl(self) -> float | None:
        """KL at a rise of 0.05 of the error."""
        return kl_at(self.points, LEVEL, "error_sharpness")


@dataclass(frozen=True)
class SizedNet:
    """A net and the number that stands on its figure's axis; its labels, where that matters."""

    size: int
    net: NetFound
    labels: str = ""


def columns(**readers: Callable[[NetFound], Any]) -> dict[str, Callable[[SizedNet], Any]]:
    """Columns of a table of sized nets, from what each reads of the net."""
    return {name: partial(lambda read, one: read(one.net), read) for name, read in readers.items()}


NORM_COLUMNS = columns(
    **{name: partial(lambda key, net: net.log10(key), key) for key, name in NORMS.items()}
)
ERRORS = columns(
    **{"train error": lambda net: net.train_error, "test error": lambda net: net.test_error}
)
GAMMA = columns(γ=lambda net: net.margin)
LOSS = columns(loss=lambda net: net.norms["loss"])
SHARPNESS = columns(**{"largest sharpness": lambda net: net.sharpness})
KL = columns(
    **{
        f"KL at sharpness {LEVEL:g}": lambda net: net.kl,
        f"KL at error + {LEVEL:g}": lambda net: net.error_kl,
    }
)


def find_net(workshop: Workshop, plan: TrainingPlan, alphas: tuple[float, ...] = ()) -> NetFound:
    """Its norms, and with `alphas` its sharpness; a missing step trains the net."""
    settings = {**plan.to_json(), "seed": plan.seed + workshop.seed, "device": workshop.device}
    norms = workshop.step(
        "neyshabur-norms", {**settings, "epsilon": EPSILON}, lambda: _norms(workshop, plan)
    )
    if not alphas:
        return NetFound(plan, norms, {})
    options = sharpness_options(workshop.size, alphas, workshop.seed)
    measured = {**settings, "sharpness": asdict(options)}
    return NetFound(
        plan,
        norms,
        workshop.step("neyshabur-sharpness", measured, lambda: _sharpness(workshop, plan, options)),
    )


def training_set(plan: TrainingPlan, sample: Dataset) -> Dataset:
    """S: the true rows of a sample with a confusion set, else all of it."""
    confused = re.search(r"confusion=(\d+)\+", plan.data)
    if confused is None:
        return sample
    return sample.select(
        np.arange(int(confused[1])), f"the first {confused[1]} rows, which have true labels"
    )


def _norms(workshop: Workshop, plan: TrainingPlan) -> dict[str, Any]:
    run, sample, test = train_plan(workshop, plan)
    data = training_set(plan, sample)
    net = traced(load_net(run.net).module, sample)
    facts = _facts(net, sample)
    seen = look_at(net, data)
    margin = epsilon_margin(seen.margins, EPSILON)
    return {
        "m": len(data),
        "errors": seen.errors,
        "margin": margin,
        "log10": _log10s(replace(facts, margin=margin)),
        "union_m": len(sample),
        "union_errors": facts.errors,
        "union_margin": facts.margin,
        "union_log10": _log10s(facts),
        "test_m": len(test),
        "test_errors": run.metrics["test_errors"],
        "loss": run.metrics["train_loss"],
        "epochs": run.epochs,
        "parameters": sum(layer.parameters for layer in facts.layers),
    }


def _facts(net: Network, sample: Dataset) -> NetFacts:
    table = measure(net, sample, only=["norms", "paths"], spectra=False)
    return gather(net, sample, look_at(net, sample), table, None, delta=_DELTA, epsilon=EPSILON)


def _log10s(facts: NetFacts) -> dict[str, float | None]:
    """Of the capacities themselves; a row's own value is √(capacity / m)."""
    return {f"{row.name}, {row.form}": row.capacity_log10 for row in norm_capacities(facts)}


def _sharpness(workshop: Workshop, plan: TrainingPlan, options: SharpnessOptions) -> dict[str, Any]:
    run, sample, _ = train_plan(workshop, plan)
    data = training_set(plan, sample)
    found = measure(
        load_net(run.net).module, data, only=["sharpness"], sharpness=options
    ).net.sharpness
    assert found is not None
    return dict(found.to_json())
