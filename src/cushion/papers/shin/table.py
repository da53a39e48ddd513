"""Shin 2021, Table 1: accuracy before and after the last dense layer is compressed, on nets of the
fleet.

Beside Appendix E as printed stand two corrected forms with the same threshold, on |w|: with noise
of the variance of what goes, and without noise. Ten trials each, except without noise, where
nothing is random.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.noise.options import Form
from cushion.compressors.noise.replacement import choose_layers, replace_layer, standard_deviations
from cushion.compressors.noise.storing import store_replaced
from cushion.data import Dataset
from cushion.measures.margins import sample_margins
from cushion.measures.table import traced
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Total, map_shards
from cushion.nets.loading.weights import load_net
from cushion.nets.network import Network, Node
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop
from cushion.papers.shin.fleet import FLEET, train_net
from cushion.papers.shin.nets import NetTails, find_tails, settings_of
from cushion.papers.shin.paper import TABLE_1
from cushion.papers.shin.stable_rank import correlate

_BATCH = 128
_BITS = 16  # of a kept weight: the paper rounds nothing
_COMPARABLE = 1.0  # points of accuracy that a compressed net may lose and be called comparable
TRIALS = 10
_ROWS: dict[Size, Callable[[str], bool]] = {
    "quick": lambda name: name in ("digits-fc32", "digits-fc128", "digits-fc128x4", "digits-fc384"),
    "recorded": lambda name: "-noise" not in name and "-seed" not in name,
    "full": lambda name: "-noise" not in name and "-seed" not in name,
}


@dataclass(frozen=True)
class Way:
    """One way of compressing: the form, t in mean squares of what goes, and which layers."""

    name: str
    form: Form
    t: float
    layers: str = "last"

    @property
    def trials(self) -> int:
        return TRIALS if self.t > 0 else 1


PRINTED = Way("Appendix E as printed", "appendix", 1.0)
WAYS = (
    PRINTED,
    Way("|w| > σ stays, with noise", "corrected", 1.0),
    Way("|w| > σ stays, without noise", "corrected", 0.0),
    Way("all layers, with noise", "corrected", 1.0, "all"),
    Way("all layers, without noise", "corrected", 0.0, "all"),
)


@dataclass(frozen=True)
class Accuracies:
    """In percent, on the test set: the net's own, and those of the trials by way."""

    net: NetTails
    original: float
    trials: dict[str, list[float]]
    kept: dict[str, float]

    def mean(self, way: Way) -> float:
        return statistics.fmean(self.trials[way.name])

    def deviation(self, way: Way) -> float:
        return statistics.stdev(self.trials[way.name]) if way.trials > 1 else 0.0

    def shown(self, way: Way) -> str:
        return f"{self.mean(way):.2f} ± {self.deviation(way):.2f}"

    def lost(self, way: Way) -> float:
        """Points of accuracy, on average."""
        return self.original - self.mean(way)


def table_1(workshop: Workshop) -> Page:
    """The nets of the fleet with their labels as they are, one seed each."""
    plans = [plan for plan in FLEET[workshop.size] if _ROWS[workshop.size](plan.name)]
    found = [_accuracies(workshop, find_tails(workshop, plan)) for plan in plans]
    claims = (_comparable(found), _heavier_loses_less(found))
    epochs = [plan.epochs for plan in plans]
    return Page(
        tables=(_layout(found), _ways(found), _printed()),
        settings={
            "trials": TRIALS,
            "bits of a kept weight": _BITS,
            "threshold": "one standard deviation of the layer",
        },
        claims=claims,
        notes=(
            "The nets are not the paper's, so accuracies are not to be compared across the tables; "
            "losses are.",
            f"They were trained for {min(epochs)} to {max(epochs)} epochs (the page of Figure 3 "
            "lists them); a model zoo's are trained for hundreds.",
            "Appendix E compares weights with their sign: every weight below the standard "
            "deviation is replaced, the large negative ones too. The corrected ways compare |w|.",
            _sign_matters(found),
            _noise_costs(found),
            "Noise is a sum of 64 seeded signs over 8, of mean 0 and variance 1, the same on every "
            "machine.",
        ),
    )


def _accuracies(workshop: Workshop, net: NetTails) -> Accuracies:
    """One step a way, each of which trains the net unless that is done."""

    def made(way: Way) -> dict[str, Any]:
        run, data, test = train_net(workshop, net.plan)
        return _trials(traced(load_net(run.net).module, data), test, way, workshop.seed)

    settings = settings_of(workshop, net.plan)
    steps = {
        way.name: workshop.step("shin-trials", {**settings, **vars(way)}, partial(made, way))
        for way in WAYS
    }
    accuracies = {
        name: [100 * (1 - errors / net.record["test_m"]) for errors in step["errors"]]
        for name, step in steps.items()
    }
    kept = {name: step["kept"] for name, step in steps.items()}
    return Accuracies(net, 100 * (1 - net.test_error), accuracies, kept)


def _trials(net: Network, test: Dataset, way: Way, seed: int) -> dict[str, Any]:
    """Test errors of each trial, and the share of the weights in the chosen layers that stay."""
    chosen = choose_layers(net, (way.layers,))
    deviations = standard_deviations(net, chosen)
    replaced = [
        None
        if deviation is None
        else replace_layer(node.affine.operator.weight, way.form, deviation, way.t)
        for node, deviation in zip(net.affine_layers, deviations, strict=True)
    ]
    networks = [
        store_replaced(net, replaced, _BITS, seed + trial, faithful=True).network(net)
        for trial in range(way.trials)
    ]
    first = next(node for node, take in zip(net.affine_layers, chosen, strict=True) if take)
    errors = count_errors(networks, first.index, test)
    weights = sum(one.mask.numel() for one in replaced if one is not None)
    return {
        "errors": errors,
        "kept": sum(one.kept for one in replaced if one is not None) / weights,
    }


def count_errors(networks: Sequence[Network], first: int, data: Dataset) -> list[int]:
    """Errors of nets that differ from the node `first` on: what comes before runs once."""

    @torch.no_grad()
    def work(rows: slice) -> Accumulators[str]:
        values = {0: as_floats(data.x[rows]).to(networks[0].dtype)}
        labels = torch.from_numpy(np.array(data.y[rows]))
        _run(networks[0].nodes[1:first], values, networks[0].users)
        found = {}
        for number, net in enumerate(networks):
            own = dict(values)
            _run(net.nodes[first:], own, net.users)
            margins = sample_margins(own[len(net.nodes) - 1], labels)
            found[str(number)] = Total((margins <= 0).sum().double().numpy())
        return found

    counts = map_shards(len(data), _BATCH, work, describe="trials")
    return [int(counts[str(number)].sum) for number in range(len(networks))]


def _run(nodes: Sequence[Node], values: dict[int, Tensor], users: Sequence[Sequence[int]]) -> None:
    """Put the outputs of these nodes into `values`, and drop what no later node reads."""
    for node in nodes:
        values[node.index] = node.op(*(values[i] for i in node.inputs))
        for i in node.inputs:
            if users[i][-1] == node.index:
                values.pop(i, None)


def _comparable(found: Sequence[Accuracies]) -> Tried:
    text = f"with Appendix E as printed a net loses at most {_COMPARABLE:g} point of accuracy"
    paper = [row.lost for row in TABLE_1]
    ours = [one.lost(PRINTED) for one in found]

    def tried(losses: Sequence[float]) -> tuple[bool, str]:
        within = sum(lost <= _COMPARABLE for lost in losses)
        average = statistics.fmean(losses)
        because = (
            f"{within} of {len(losses)} nets do; {average:.2f} points on average, "
            f"{max(losses):.2f} at worst"
        )
        return within == len(losses), because

    return Tried(text, *tried(ours), *tried(paper))


def _noise_costs(found: Sequence[Accuracies]) -> str:
    """Noise only adds error (docs/heavy-tail-bounds.md)."""
    better = sum(one.lost(WAYS[2]) <= one.lost(WAYS[1]) for one in found)
    return (
        f"With the same weights kept, {better} of {len(found)} nets lose no more without noise (t "
        "= 0) than with it."
    )


def _sign_matters(found: Sequence[Accuracies]) -> str:
    no_more = sum(one.lost(WAYS[1]) <= one.lost(PRINTED) for one in found)
    return (
        f"Keeping the large negative weights as well, {no_more} of {len(found)} nets lose no more "
        "than as printed."
    )


def _heavier_loses_less(found: Sequence[Accuracies]) -> Tried:
    """Section 5.2: with a smaller α more weights can go without harm, so the loss falls."""
    text = "nets with a smaller α lose less (resilient classification)"

    def tried(pairs: Sequence[tuple[float, float]]) -> tuple[bool | None, str]:
        one = correlate([alpha for alpha, _ in pairs], [lost for _, lost in pairs])
        if one is None:
            return None, "too few nets have a fit, or all lose the same"
        return one.value > 0 and one.p < 0.05, f"rank correlation of α and the loss {one}"

    ours = [(one.net.alpha, one.lost(PRINTED)) for one in found if one.net.alpha is not None]
    return Tried(text, *tried(ours), *tried([(row.alpha, row.lost) for row in TABLE_1]))


def _layout(found: Sequence[Accuracies]) -> Table:
    def fitted(one: Accuracies) -> str:
        fit = one.net.layers[-1]["power_law"]
        return "no fit" if fit is None else f"{fit['alpha']:.2f} ± {fit['alpha_error']:.2f}"

    return Table.of(
        "The layout of Table 1 with our nets (Appendix E as printed, ten trials):",
        found,
        {
            "architecture": lambda one: one.net.plan.name,
            "data set": lambda one: one.net.plan.data,
            "α-fit": fitted,
            "original accuracy, %": lambda one: f"{one.original:.2f}",
            "compressed accuracy, %": lambda one: one.shown(PRINTED),
        },
    )


def _ways(found: Sequence[Accuracies]) -> Table:
    def kept(one: Accuracies) -> str:
        return " / ".join(f"{100 * one.kept[way.name]:.1f}" for way in WAYS[:2])

    columns: dict[str, Callable[[Accuracies], str]] = {
        "net": lambda one: one.net.plan.name,
        "original": lambda one: f"{one.original:.2f}",
    }
    for way in WAYS:
        columns[way.name] = partial(Accuracies.shown, way=way)
    columns["weights of the layer that stay, %: printed / |w|"] = kept
    caption = "Accuracy in percent, mean and standard deviation over the trials:"
    return Table.of(caption, found, columns)


def _printed() -> Table:
    return Table.of(
        "The paper's own Table 1, nets from a model zoo:",
        TABLE_1,
        {
            "architecture": lambda row: row.net,
            "data set": lambda row: row.data,
            "α-fit": lambda row: f"{row.alpha:.2f}",
            "original accuracy, %": lambda row: f"{row.original:.2f}",
            "compressed accuracy, %": lambda row: f"{row.compressed:.2f} ± {row.deviation:.2f}",
        },
    )
