"""The nets of Figures 1 to 4 as they were found: errors, margin, four norms, two sharpnesses.

S is the sample that a net was trained on; of a union with a confusion set, S is its true part,
which stands first: that is what the paper calls the training set there. The norms are kept over the
margin of either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np

from cushion.data import Dataset
from cushion.measures.margins import epsilon_margin
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.papers.drawings import Curve, Curves
from cushion.papers.nets import TrainingPlan, held_out_error, train_plan, training_error
from cushion.papers.neyshabur.plans import EPSILON, LEVEL, Sized, sharpness_options
from cushion.papers.pages import Columns, Table
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
PRINTS_NOTHING = (
    "The paper prints no number of this figure. Every point is one net, not an average over seeds."
)
_DELTA = 0.05  # of bounds that are not asked for here
_SHOWN = 0.5  # expected sharpness; what lies above is cut off, as it hides the rest


@dataclass(frozen=True)
class NetFound:
    """One net. norms, sharp: what the steps kept; sharp is empty where nobody asked for it.

    size: the number that stands on its figure's axis. labels: true or random, where that matters.
    """

    plan: TrainingPlan
    norms: dict[str, Any]
    sharp: dict[str, Any]
    size: int = 0
    labels: str = ""

    @property
    def train_error(self) -> float:
        """On S."""
        return training_error(self.norms)

    @property
    def test_error(self) -> float:
        return held_out_error(self.norms)

    def log10(self, norm: str, form: str = "as plotted") -> float | None:
        """log10 of a norm over γ² of S; None where γ ≤ 0."""
        found: float | None = self.norms["log10"][f"{norm}, {form}"]
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
            "alphas": [point["alpha"] for point in expected["points"]],
            "draws": expected["points"][0]["draws"],
            "batch": maximum["batch"],
        }

    @property
    def points(self) -> list[dict[str, Any]]:
        """Of the bi-criteria curve (§2.4), expected sharpness over KL as α varies, by KL."""
        return sorted(self.sharp["expected"]["points"], key=lambda point: float(point["kl"]))

    @property
    def kl(self) -> float | None:
        """KL at an expected sharpness (of the loss) of 0.05; None where no α reaches it."""
        return kl_at(self.points, LEVEL, "sharpness")

    @property
    def error_kl(self) -> float | None:
        """KL at a rise of 0.05 of the error."""
        return kl_at(self.points, LEVEL, "error_sharpness")


def kl_at(points: Sequence[Mapping[str, Any]], level: float, key: str) -> float | None:
    """The KL at which `key` (sharpness, error_sharpness) is `level`, by straight lines in ln KL;
    None: not reached. The points stand in the order of their KL.

    The smallest such KL, hence the largest noise that the net bears; as ExpectedSharpness.kl_at has
    it.

    >>> points = [{"kl": 1.0, "sharpness": 0.2}, {"kl": 100.0, "sharpness": 0.0}]
    >>> round(kl_at(points, 0.1, "sharpness"), 9)
    10.0
    """
    for one, two in pairwise(points):  # noise falls, and with it the rise
        high, low = float(one[key]), float(two[key])
        if high > level >= low:
            share = (high - level) / (high - low)
            return math.exp((1 - share) * math.log(one["kl"]) + share * math.log(two["kl"]))
    return None


def bicriteria(
    title: str, nets: Sequence[NetFound], unit: str, limits: tuple[float, float] | None = None
) -> Curves:
    """Expected sharpness over KL, a curve a net, within `limits` if given, with error bars."""
    curves = [
        Curve(
            f"{net.size} {unit}",
            [float(point["kl"]) for point in net.points],
            [float(point["sharpness"]) for point in net.points],
            [float(point["sharpness_standard_error"] or 0.0) for point in net.points],
        )
        for net in nets
    ]
    axes = ("KL (nats)", "expected sharpness")
    return Curves("", title, *axes, curves, True, x_limits=limits, y_limits=(-0.02, _SHOWN))


COLUMNS: Columns = {
    "labels": "labels",
    "parameters": "norms.parameters",
    "epochs": "norms.epochs",
    "train error": "train_error",
    "test error": "test_error",
    "loss": "norms.loss",
    "γ": "norms.margin",
    **{name: methodcaller("log10", key) for key, name in NORMS.items()},
    "ℓ2-path norm, ∏ 4h": methodcaller("log10", "l2-path", "as printed"),
    "spectral norm, ∏ h": methodcaller("log10", "spectral", "as printed"),
    "largest sharpness": "sharpness",
    "at the edge of the box": "sharp.maximum.at_the_edge",
    f"KL at sharpness {LEVEL:g}": "kl",
    f"KL at error + {LEVEL:g}": "error_kl",
}
KL = list(COLUMNS)[-2:]


def net_table(caption: str, label: str, nets: Sequence[NetFound], *names: str) -> Table:
    """One row a net: its size under `label`, and the columns of these names."""
    chosen = {name: COLUMNS[name] for name in names}
    return Table.of(caption, nets, {label: "size", **chosen})


def find_net(
    workshop: Workshop,
    plan: TrainingPlan,
    alphas: tuple[float, ...] = (),
    size: int = 0,
    labels: str = "",
) -> NetFound:
    """Its norms, and with `alphas` its sharpness; a missing step trains the net."""
    settings = {**plan.to_json(), "seed": plan.seed + workshop.seed, "device": workshop.device}
    asked = {**settings, "epsilon": EPSILON}
    norms = workshop.step("neyshabur-norms", asked, partial(_norms, workshop, plan))
    sharp: dict[str, Any] = {}
    if alphas:
        options = sharpness_options(workshop.size, alphas, workshop.seed)
        asked = {**settings, "sharpness": asdict(options)}
        make = partial(_sharpness, workshop, plan, options)
        sharp = workshop.step("neyshabur-sharpness", asked, make)
    return NetFound(plan, norms, sharp, size, labels)


def find_nets(workshop: Workshop, plans: Sized, alphas: tuple[float, ...]) -> list[NetFound]:
    return [find_net(workshop, plan, alphas, size) for size, plan in plans.items()]


def training_set(plan: TrainingPlan, sample: Dataset) -> Dataset:
    """S: the true rows of a sample with a confusion set, else all of it."""
    confused = re.search(r"confusion=(\d+)\+", plan.data)
    if confused is None:
        return sample
    words = f"the first {confused[1]} rows, which have true labels"
    return sample.select(np.arange(int(confused[1])), words)


def _norms(workshop: Workshop, plan: TrainingPlan) -> dict[str, Any]:
    run, sample, test = train_plan(workshop, plan)
    data = training_set(plan, sample)
    net = traced(load_net(run.net).module, sample)
    table = measure(net, sample, only=["norms", "paths"], spectra=False)
    all_of_it, seen = look_at(net, sample), look_at(net, data)
    facts = gather(net, sample, all_of_it, table, None, delta=_DELTA, epsilon=EPSILON)
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


def _log10s(facts: NetFacts) -> dict[str, float | None]:
    """Of the capacities themselves; a row's own value is √(capacity / m)."""
    return {f"{row.name}, {row.form}": row.capacity_log10 for row in norm_capacities(facts)}


def _sharpness(workshop: Workshop, plan: TrainingPlan, options: SharpnessOptions) -> dict[str, Any]:
    run, sample, _ = train_plan(workshop, plan)
    net, data = load_net(run.net).module, training_set(plan, sample)
    found = measure(net, data, only=["sharpness"], sharpness=options).net.sharpness
    assert found is not None
    return dict(found.to_json())
