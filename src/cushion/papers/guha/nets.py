"""The nets of Guha 2023 §7: trained once into OUT/.runs, then bounded by the rivals and pruned by
Algorithm 1.

Training can be killed and resumes from its last epoch; each net's bounds and each pruning are steps
of their own.
"""

from __future__ import annotations

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
    """What pages read of one pruned net. Errors are counted, on the sample and on the test set.

    bound: the Occam bound from the bits of mask and values, on this machine's scores. reach: the
    largest ‖Δ_l‖₂ over ‖A_l‖₂/L of a layer; above 1, Lemma 4.3 and so Theorem 5.2 say nothing.
    logs, nats: of the paper's bounds by "name, form", ln of the value and what the count pays; None
    where a row abstains. tried: training errors by d.
    """

    d: float
    errors: int
    test_errors: int
    sparsity: float
    bits: int
    bound: float
    reach: float
    logs: dict[str, float | None]
    nats: dict[str, float | None]
    tried: dict[str, int]


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
    logs: dict[str, float | None]
    smallest_bound: PrunedFound | None
    fewest_errors: PrunedFound | None
    refused: str

    @property
    def weights(self) -> int:
        """Of all layers, biases left out."""
        return sum(inputs * outputs for inputs, outputs in self.shapes)

    @property
    def ways(self) -> list[PrunedFound]:
        """Its prunings, one where both choices of d agree."""
        ways = [one for one in (self.smallest_bound, self.fewest_errors) if one is not None]
        return ways[:1] if len({one.d for one in ways}) == 1 else ways


def find_net(workshop: Workshop, plan: NetPlan) -> NetFound:
    """Its steps; one that is missing trains the net unless that is done."""
    settings = {
        "plan": asdict(plan),
        "delta": DELTA,
        "seed": workshop.seed,
        "device": workshop.device,
    }

    def pruning(strengths: tuple[float, ...], **more: float) -> dict[str, Any]:
        found: dict[str, Any] = workshop.step(
            "guha-pruning", settings | more, lambda: _pruned(workshop, plan, strengths)
        )
        return found

    found = workshop.step("guha-rivals", settings, lambda: _rivals(workshop, plan))
    best = pruning(STRENGTHS)
    least = best
    if "refused" not in best:
        d = float(min(best["tried"], key=best["tried"].__getitem__))
        least = best if d == best["d"] else pruning((d,), d=d)
    ways = [None if "refused" in one else PrunedFound(**one) for one in (best, least)]
    found["shapes"] = tuple((a, b) for a, b in found["shapes"])
    refused = best.get("refused") or least.get("refused", "")
    return NetFound(plan, **found, smallest_bound=ways[0], fewest_errors=ways[1], refused=refused)


def _pruned(workshop: Workshop, plan: NetPlan, strengths: tuple[float, ...]) -> dict[str, Any]:
    """A PrunedFound as JSON: with all strengths, or without the smallest ones, where more weights
    of a wide net stay than a file holds; or why pruning refuses (a net without a margin, say).
    """
    net, data, test = _trained(workshop, plan)
    refusals = []
    for skipped in range(len(strengths)):
        options = PruneOptions(rule="bernoulli", d=strengths[skipped:], level=plan.level)
        try:
            made = prune_net(
                net,
                data,
                method="magnitude",
                options=options,
                holdout=test,
                delta=DELTA,
                seed=workshop.seed,
            )
        except BadInput as problem:
            refusals.append(str(problem))
            continue
        return _read(made.summary.to_json())
    return {"refused": refusals[0]}


def _read(record: dict[str, Any]) -> dict[str, Any]:
    """Of NetPruning as JSON."""
    rows, here = record["paper_bounds"], record["occam"][0]
    factors = {f"{row['name']}, {row['form']}": row["factors"] for row in rows}
    return {
        "d": record["d"],
        "errors": record["errors"],
        "test_errors": here["holdout_errors"],
        "sparsity": record["sparsity"],
        "bits": record["bits"],
        "bound": here["bound"],
        "reach": worst_reach(record["layers"]),
        "logs": logs_of(rows),
        "nats": {name: (one or {}).get("nats") for name, one in factors.items()},
        "tried": {one["asked"].removeprefix("d="): one["errors"] for one in record["tried"]},
    }


def worst_reach(layers: list[dict[str, Any]]) -> float:
    """The largest ‖Δ_l‖₂ over ‖A_l‖₂/L; a layer of zeros does not move."""
    ratios = [layer["shift"] / layer["spectral"] for layer in layers if layer["spectral"] > 0]
    return float(len(layers) * max(ratios, default=0.0))


def logs_of(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """ "name, form" of each bound to ln of its value."""
    return {
        f"{row['name']}, {row['form']}": None if row["log10"] is None else row["log10"] * LN10
        for row in rows
    }


def _trained(workshop: Workshop, plan: NetPlan) -> tuple[Network, Dataset, Dataset]:
    """Train it, or finish that, or find it trained; with its sample and its test set."""
    data, test = load_pair(plan.data)
    if test is None:
        raise BadInput(f"{plan.data} has no test set, and the true error is counted on one")
    recipe = find_recipe(plan.recipe)
    recipe = replace(recipe, epochs=plan.epochs, lr_halve_every=plan.halve or recipe.lr_halve_every)
    run = train_once(workshop, recipe, data, test, width=plan.scale, seed=workshop.seed)
    return traced(load_net(run.net).module, data), data, test


def _rivals(workshop: Workshop, plan: NetPlan) -> dict[str, Any]:
    """Every form of the rivals' bounds: `cushion bounds` without its dearer families."""
    net, data, test = _trained(workshop, plan)
    seen = look_at(net, data)
    table = measure(net, data, only=["norms", "paths"], spectra=False)
    facts = gather(net, data, seen, table, None, delta=float(DELTA), epsilon=plan.level)
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
        "logs": logs_of([row.to_json() for row in rows]),
    }
