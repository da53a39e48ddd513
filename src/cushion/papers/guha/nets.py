"""The nets of Guha 2023 §7: trained once into OUT/.runs, then bounded by the rivals and pruned by
Algorithm 1.

Training can be killed and resumes from its last epoch; each net's bounds and each pruning are steps
of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from cushion.compressors.pruning.options import STRENGTHS, PruneOptions
from cushion.compressors.run import compress_model as prune_net
from cushion.data import Dataset, load_pair
from cushion.errors import BadInput
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.nets.network import Network
from cushion.papers.nets import train_once
from cushion.papers.runner import Workshop
from cushion.theorems.capacities import figure_two, norm_capacities
from cushion.theorems.covering import covered
from cushion.theorems.net_facts import gather, look_at
from cushion.theorems.rademacher import peeled
from cushion.theorems.rows import LN10
from cushion.theorems.spectral_pac_bayes import noise_tolerance
from cushion.training.recipes import find_recipe
from cushion.training.training import RunResult

DELTA = "0.05"


@dataclass(frozen=True)
class NetPlan:
    """A net to train and to look at: γ is the margin that all but a fraction `level` of the sample
    exceed.

    recipe: a name, or a spec that pages call `stem`. scale: of the recipe's hidden widths. width:
    the hidden units of a layer that result.
    """

    recipe: str
    data: str
    width: int
    epochs: int
    level: float
    halve: int | None = None
    scale: float = 1.0
    stem: str = ""


@dataclass(frozen=True)
class PrunedFound:
    """What pages read of one pruned net: `record` is PruningSummary as JSON."""

    record: dict[str, Any]

    @property
    def d(self) -> float:
        return float(self.record["d"])

    @property
    def errors(self) -> int:
        return int(self.record["errors"])

    @property
    def certificate(self) -> dict[str, Any]:
        """The Occam bound from the bits of mask and values, on this machine's scores; it counted
        the test errors.
        """
        found: dict[str, Any] = self.record["occam"][0]
        return found

    @property
    def test_errors(self) -> int:
        return int(self.certificate["holdout_errors"])

    @property
    def reach(self) -> float:
        """The largest ‖Δ_l‖₂ over ‖A_l‖₂/L of a layer: above 1, Lemma 4.3 and so Theorem 5.2 say
        nothing.
        """
        layers = self.record["layers"]
        ratios = [layer["shift"] / layer["spectral"] for layer in layers if layer["spectral"] > 0]
        return float(len(layers) * max(ratios, default=0.0))

    def log(self, name: str, form: str) -> float | None:
        """ln of a bound's value; None where it abstains."""
        return logs_of(self.record["paper_bounds"]).get((name, form))

    def nats(self, name: str, form: str) -> float | None:
        """What a count of the pruned net pays, in nats."""
        for row in self.record["paper_bounds"]:
            if (row["name"], row["form"]) == (name, form) and row["factors"] is not None:
                return float(row["factors"]["nats"])
        return None


@dataclass(frozen=True)
class NetFound:
    """One trained net, the rivals' bounds on it in natural logarithms, and two prunings of it.

    Errors are counted; a tie is an error. smallest_bound: pruned with the d that `prune_net` takes
    for its bound; fewest_errors: with the d, of those tried, at which the pruned net errs least on
    the sample. Both are None where pruning refused, and `refused` says why.
    """

    plan: NetPlan
    shapes: tuple[tuple[int, int], ...]  # (inputs, outputs) of each layer
    m: int
    test_m: int
    errors: int
    test_errors: int
    margin: float
    logs: dict[tuple[str, str], float | None]
    smallest_bound: PrunedFound | None
    fewest_errors: PrunedFound | None
    refused: str

    @property
    def weights(self) -> int:
        """Of all layers, biases left out."""
        return sum(inputs * outputs for inputs, outputs in self.shapes)


def find_net(workshop: Workshop, plan: NetPlan) -> NetFound:
    """Train the net unless that is done, then its steps."""
    data, test = load_pair(plan.data)
    if test is None:
        raise BadInput(f"{plan.data} has no test set, and the true error is counted on one")
    run = _trained(workshop, plan, data, test)
    settings = {
        "plan": asdict(plan),
        "spec": run.spec,
        "data": data.fingerprint,
        "test": test.fingerprint,
        "level": plan.level,
        "delta": DELTA,
        "seed": workshop.seed,
        "device": workshop.device,
    }
    net = traced(load_net(run.net).module, data)

    def pruned(d: tuple[float, ...]) -> dict[str, Any]:
        options = PruneOptions(rule="bernoulli", d=d, level=plan.level)
        made = prune_net(
            net,
            data,
            method="magnitude",
            options=options,
            holdout=test,
            delta=DELTA,
            seed=workshop.seed,
        )
        return made.summary.to_json()

    found = workshop.step("guha-rivals", settings, lambda: _rivals(net, data, test, plan.level))
    best, least, refused = None, None, ""
    try:
        best = workshop.step("guha-pruning", settings, lambda: _gentlest_possible(pruned))
        fewest = min(best["tried"], key=lambda one: one["errors"])["asked"]
        d = float(fewest.removeprefix("d="))
        least = (
            best
            if d == best["d"]
            else workshop.step("guha-pruning", {**settings, "d": d}, lambda: pruned((d,)))
        )
    except (
        BadInput
    ) as problem:  # such as a net without a margin; not kept as a step, since nothing was made
        refused = str(problem)
    return NetFound(
        plan,
        tuple((a, b) for a, b in found["shapes"]),
        found["m"],
        found["test_m"],
        found["errors"],
        found["test_errors"],
        found["margin"],
        logs_of(found["rows"]),
        None if best is None else PrunedFound(best),
        None if least is None else PrunedFound(least),
        refused,
    )


def _gentlest_possible(pruned: Callable[[tuple[float, ...]], dict[str, Any]]) -> dict[str, Any]:
    """With all strengths, or without the smallest ones, where more weights of a wide net stay than
    a file holds.
    """
    first: BadInput | None = None
    for skipped in range(len(STRENGTHS)):
        try:
            return pruned(STRENGTHS[skipped:])
        except BadInput as problem:
            first = first or problem
    assert first is not None
    raise first


def logs_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float | None]:
    """(name, form) of each bound to ln of its value."""
    return {
        (row["name"], row["form"]): None if row["log10"] is None else row["log10"] * LN10
        for row in rows
    }


def _trained(workshop: Workshop, plan: NetPlan, data: Dataset, test: Dataset) -> RunResult:
    recipe = find_recipe(plan.recipe)
    recipe = replace(recipe, epochs=plan.epochs, lr_halve_every=plan.halve or recipe.lr_halve_every)
    return train_once(workshop, recipe, data, test, width=plan.scale, seed=workshop.seed)


def _rivals(net: Network, data: Dataset, test: Dataset, level: float) -> dict[str, Any]:
    """Every form of the rivals' bounds; from the functions behind `cushion bounds`, without its
    dearer families.
    """
    seen = look_at(net, data)
    table = measure(net, data, only=["norms", "paths"], spectra=False)
    facts = gather(net, data, seen, table, None, delta=float(DELTA), epsilon=level)
    rows = [
        *norm_capacities(facts),
        *figure_two(facts, None),
        *peeled(facts),
        *covered(facts),
        noise_tolerance(facts),
    ]
    return {
        "m": len(data),
        "test_m": len(test),
        "errors": seen.errors,
        "test_errors": look_at(net, test).errors,
        "margin": facts.margin,
        "shapes": [[layer.inputs, layer.outputs] for layer in facts.layers],
        "rows": [row.to_json() for row in rows],
    }
