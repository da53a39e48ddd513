"""The nets of Guha 2023 §7: planned as data, trained into OUT/.runs, then bounded by the rivals
and pruned by Algorithm 1.

Training can be killed and resumes from its last epoch; each net's bounds and each pruning are steps
of their own.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from cushion.compressors.pruning.method import STRENGTHS, PruneOptions
from cushion.compressors.run import compress_model as prune_net
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.table import measure, traced
from cushion.nets.loading.weights import load_net
from cushion.nets.network import Network
from cushion.papers.guha import paper
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.pages import Size
from cushion.papers.runner import Workshop
from cushion.theorems.capacities import figure_two, norm_capacities
from cushion.theorems.logs import LN10
from cushion.theorems.net_facts import gather, look_at
from cushion.theorems.norms import covered, noise_tolerance, peeled

Pruned: TypeAlias = dict[str, Any]  # what pages read of one pruned net, as `_pruned` has it
DELTA = "0.05"
# The rows of `cushion bounds` that stand for the paper's rivals, whose formulas it does not write:
# what each depends on (norms, widths, margin, 2^depth where the source has it) without numerical
# constants and logarithms, as in Ours.
RIVAL_ROWS = {
    paper.NEYSHABUR_2015: "l2-norm, as printed",
    paper.NEYSHABUR_2017: "spec-fro, as plotted",
    paper.BARTLETT_2017: "spec-l1,2, as plotted",
}
OURS_ROW = "sketch count, as plotted"
_FORMS = ("as printed", "corrected")
COUNTS = tuple(f"{kind} count, {form}" for kind in ("sketch", "naive") for form in _FORMS)
CERTIFICATE = "mask and values, exact tail (certificate)"
TRAINING_ERROR, BEFORE = "Training error", "True error before pruning"


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


# After a few epochs at the paper's learning rate the nets still err on a tenth of MNIST and on half
# of CIFAR-10, and a smaller fraction would leave γ negative.
_MNIST_LEVEL, _CIFAR10_LEVEL = 0.2, 0.7
_LEARNS = "3x32x32: flatten 4*[fc784 relu] fc10"


def _mnist(width: int, epochs: int, halve: int | None = None) -> NetPlan:
    """The paper's net of that width."""
    recipe = "guha-mlp" if width == 784 else f"guha-mlp-{width}"
    return NetPlan(recipe, "mnist", width, epochs, _MNIST_LEVEL, halve)


def _cifar10(epochs: int, learning: int, scale: float = 1.0) -> tuple[NetPlan, NetPlan]:
    """The net trained as the paper says, and one that learns (Adam at 1e-3, batches of 128)."""
    own = NetPlan("guha-mlp-cifar10", "cifar10", round(784 * scale), epochs, _CIFAR10_LEVEL)
    own = replace(own, scale=scale)
    return own, replace(own, recipe=_LEARNS, epochs=learning, stem="mlp-cifar10")


TABLE_1: dict[Size, tuple[NetPlan, ...]] = {
    "quick": (_mnist(500, 1), _mnist(784, 1)),
    "recorded": tuple(_mnist(width, 10, 2) for width in paper.TABLE_1),
    "full": tuple(_mnist(width, 300) for width in paper.TABLE_1),
}
TABLE_2: dict[Size, tuple[NetPlan, NetPlan]] = {
    "quick": _cifar10(1, 1, 0.25),
    "recorded": _cifar10(2, 10),
    "full": _cifar10(300, 300),
}
FIGURE_2: dict[Size, tuple[NetPlan, ...]] = {
    "quick": tuple(_mnist(784, epochs) for epochs in (1, 2)),
    "recorded": tuple(_mnist(784, epochs) for epochs in (1, 2, 4, 8)),
    "full": tuple(_mnist(784, epochs) for epochs in (1, 3, 10, 30, 100, 300)),
}


@dataclass(frozen=True)
class NetFound:
    """One trained net under its title on pages, the rivals' bounds on it in natural logarithms, and
    two prunings of it.

    Errors are counted; a tie is an error. smallest_bound: pruned with the d that `prune_net` takes
    for its bound; fewest_errors: with the d, of those tried, at which the pruned net errs least on
    the sample. Both are empty where pruning refused, and `refused` says why.
    """

    title: str
    plan: NetPlan
    smallest_bound: Pruned
    fewest_errors: Pruned
    refused: str
    shapes: list[list[int]]  # (inputs, outputs) of each layer
    m: int
    test_m: int
    errors: int
    test_errors: int
    margin: float
    logs: dict[str, float | None]

    @property
    def ways(self) -> list[Pruned]:
        """Its prunings, one where both choices of d agree."""
        found = {one["d"]: one for one in (self.fewest_errors, self.smallest_bound) if one}
        return list(found.values())[::-1]

    @property
    def bounded(self) -> dict[str, float | None]:
        """Our column with the d of the smallest bound."""
        return self._column(self.smallest_bound)

    @property
    def gentle(self) -> dict[str, float | None]:
        """Our column with the d of the fewest errors."""
        return self._column(self.fewest_errors)

    def _column(self, pruned: Pruned) -> dict[str, float | None]:
        """ln by row: the paper's rows first, then what the paper does not show."""
        logs = pruned.get("logs", {})
        return {
            **{rival: self.logs.get(row) for rival, row in RIVAL_ROWS.items()},
            paper.OURS: logs.get(OURS_ROW),
            paper.TRUE_ERROR: _log_rate(pruned.get("test_errors"), self.test_m),
            **{row: logs.get(row) for row in COUNTS},
            CERTIFICATE: _log_rate(pruned.get("bound"), 1),
            TRAINING_ERROR: _log_rate(pruned.get("errors"), self.m),
            BEFORE: _log_rate(self.test_errors, self.test_m),
        }


def _log_rate(count: float | None, m: int) -> float | None:
    """None for no errors at all, and where none were counted."""
    return math.log(count / m) if count else None


def find_net(workshop: Workshop, plan: NetPlan, title: str) -> NetFound:
    """Its steps; one that is missing trains the net unless that is done."""
    own = {"seed": workshop.seed, "device": workshop.device}
    settings: dict[str, Any] = {"plan": asdict(plan), "delta": DELTA, **own}

    def pruning(strengths: tuple[float, ...], **more: float) -> dict[str, Any]:
        make = partial(_pruned, workshop, plan, strengths)
        return workshop.step("guha-pruning", settings | more, make)

    found = workshop.step("guha-rivals", settings, lambda: _rivals(workshop, plan))
    best = least = pruning(STRENGTHS)
    if "refused" not in best:
        d = float(min(best["tried"], key=best["tried"].__getitem__))
        least = best if d == best["d"] else pruning((d,), d=d)
    first, second = ({} if "refused" in one else one for one in (best, least))
    refused = best.get("refused") or least.get("refused", "")
    return NetFound(title, plan, first, second, refused, **found)


def _pruned(workshop: Workshop, plan: NetPlan, strengths: tuple[float, ...]) -> dict[str, Any]:
    """The net pruned with all strengths, or without the smallest ones, where more weights of a wide
    net stay than a file holds; or why pruning refuses (a net without a margin, say).

    Errors are counted, on the sample and on the test set. bound: the Occam bound from the bits of
    mask and values, on this machine's scores. reach: the largest ‖Δ_l‖₂ over ‖A_l‖₂/L of a layer;
    above 1, Lemma 4.3 and so Theorem 5.2 say nothing. logs, nats: of the paper's bounds by "name,
    form", ln of the value and what the count pays; None where a row abstains. tried: training
    errors by d.
    """
    net, data, test = _trained(workshop, plan)
    refusals = []
    for skipped in range(len(strengths)):
        options = PruneOptions(rule="bernoulli", d=strengths[skipped:], level=plan.level)
        own: dict[str, Any] = {"options": options, "delta": DELTA, "seed": workshop.seed}
        try:
            made = prune_net(net, data, method="magnitude", holdout=test, **own)
        except BadInput as problem:
            refusals.append(str(problem))
            continue
        record = made.summary.to_json()
        rows, here = record["paper_bounds"], record["occam"][0]
        factors = {f"{row['name']}, {row['form']}": row["factors"] for row in rows}
        return {
            **{key: record[key] for key in ("d", "errors", "sparsity", "bits")},
            "test_errors": here["holdout_errors"],
            "bound": here["bound"],
            "reach": worst_reach(record["layers"]),
            "logs": logs_of(rows),
            "nats": {name: (one or {}).get("nats") for name, one in factors.items()},
            "tried": {one["asked"].removeprefix("d="): one["errors"] for one in record["tried"]},
        }
    return {"refused": refusals[0]}


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
    planned = TrainingPlan(plan.recipe, plan.data, plan.scale, plan.epochs, plan.halve)
    run, data, test = train_plan(workshop, planned)
    return traced(load_net(run.net).module, data), data, test


def _rivals(workshop: Workshop, plan: NetPlan) -> dict[str, Any]:
    """Every form of the rivals' bounds: `cushion bounds` without its dearer families."""
    net, data, test = _trained(workshop, plan)
    seen = look_at(net, data)
    table = measure(net, data, only=["norms", "paths"], spectra=False)
    facts = gather(net, data, seen, table, None, delta=float(DELTA), epsilon=plan.level)
    rows = [*norm_capacities(facts), *figure_two(facts, None), *peeled(facts), *covered(facts)]
    return {
        "m": len(data),
        "test_m": len(test),
        "errors": seen.errors,
        "test_errors": look_at(net, test).errors,
        "margin": facts.margin,
        "shapes": [[layer.inputs, layer.outputs] for layer in facts.layers],
        "logs": logs_of([row.to_json() for row in (*rows, noise_tolerance(facts))]),
    }
