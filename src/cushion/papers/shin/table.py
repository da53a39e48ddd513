"""Shin 2021, Table 1: accuracy before and after the last dense layer is compressed, on the fleet.

Beside Appendix E as printed stand two corrected forms with the same threshold, on |w|: with noise
of the variance of what goes, and without noise. Ten trials each, except without noise, where
nothing is random.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.noise.candidates import (
    choose_layers,
    replace_layer,
    standard_deviations,
    store_replaced,
)
from cushion.compressors.noise.method import Form
from cushion.data import Dataset
from cushion.measures.margins import sample_margins
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Total, map_shards
from cushion.nets.network import Network, Node
from cushion.papers.pages import Columns, Page, Table, Tried
from cushion.papers.runner import Workshop
from cushion.papers.shin.fleet import FLEET, NetTails, find_tails, settings_of, train_net
from cushion.papers.shin.stable_rank import rises

_BATCH = 128
_BITS = 16  # of a kept weight: the paper rounds nothing
_COMPARABLE = 1.0  # points of accuracy that a compressed net may lose and be called comparable
_THRESHOLD = "one standard deviation of the layer"
TRIALS = 10  # of a way with noise; without it nothing is random
_QUICK = ("digits-fc32", "digits-fc128", "digits-fc128x4", "digits-fc384")
# The paper's own: net, data set, α, accuracy in percent, of ten compressed nets mean and deviation.
PAPER = (
    ("densenet40_k12", "CIFAR-10", 2.84, 94.46, 94.26, 0.09),
    ("resnet20", "CIFAR-10", 3.22, 93.90, 89.19, 3.03),
    ("resnet56", "CIFAR-10", 3.02, 95.32, 94.74, 0.30),
    ("resnet110", "CIFAR-10", 2.98, 96.26, 95.63, 0.63),
    ("resnet164bn", "CIFAR-10", 4.65, 96.24, 95.78, 0.15),
    ("resnet272bn", "CIFAR-10", 2.89, 96.63, 96.51, 0.06),
    ("densenet40_k12", "SVHN", 1.39, 96.99, 96.99, 0.02),
    ("xdensenet40_2_k24_bc", "SVHN", 2.99, 97.08, 96.97, 0.05),
    ("resnet20", "SVHN", 3.34, 96.60, 94.60, 0.71),
    ("resnet56", "SVHN", 2.63, 97.19, 96.58, 0.39),
    ("resnet110", "SVHN", 2.33, 97.48, 97.16, 0.14),
    ("pyramidnet110_a48", "SVHN", 3.64, 97.56, 97.28, 0.11),
)
_PAPER_LOST = [original - compressed for _, _, _, original, compressed, _ in PAPER]
_HEADER = ("architecture", "data set", "α-fit", "original accuracy, %", "compressed accuracy, %")


@dataclass(frozen=True)
class Way:
    """One way of compressing: the form, t in mean squares of what goes, and which layers."""

    name: str
    form: Form
    t: float
    layers: str = "last"


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

    def shown(self, way: Way) -> str:
        """Mean and deviation."""
        trials = self.trials[way.name]
        deviation = statistics.stdev(trials) if len(trials) > 1 else 0.0
        return f"{statistics.fmean(trials):.2f} ± {deviation:.2f}"

    def lost(self, way: Way) -> float:
        """Points of accuracy, on average."""
        return self.original - statistics.fmean(self.trials[way.name])


def table_1(workshop: Workshop) -> Page:
    """The nets of the fleet with their labels as they are, one seed each."""
    fleet, quick = FLEET[workshop.size], workshop.size == "quick"
    chosen = (plan.name in _QUICK if quick else not plan.noise and not plan.seed for plan in fleet)
    plans = [plan for plan, take in zip(fleet, chosen, strict=True) if take]
    found = [_accuracies(workshop, find_tails(workshop, plan)) for plan in plans]
    epochs = [plan.epochs for plan in plans]

    def no_more(way: Way, than: Way) -> str:
        better = sum(one.lost(way) <= one.lost(than) for one in found)
        return f"{better} of {len(found)} nets lose no more"

    return Page(
        tables=_tables(found),
        settings={"trials": TRIALS, "bits of a kept weight": _BITS, "threshold": _THRESHOLD},
        claims=(_comparable(found), _heavier_loses_less(found)),
        notes=(
            "The nets are not the paper's, so accuracies are not to be compared across the tables; "
            "losses are.",
            f"They were trained for {min(epochs)} to {max(epochs)} epochs (the page of Figure 3 "
            "lists them); a model zoo's are trained for hundreds.",
            "Appendix E compares weights with their sign: every weight below the standard "
            "deviation is replaced, the large negative ones too. The corrected ways compare |w|.",
            f"Keeping the large negative weights as well, {no_more(WAYS[1], PRINTED)} than as "
            "printed.",
            # noise only adds error (docs/heavy-tail-bounds.md)
            f"With the same weights kept, {no_more(WAYS[2], WAYS[1])} without noise (t = 0) than "
            "with it.",
            "Noise is a sum of 64 seeded signs over 8, of mean 0 and variance 1, the same on every "
            "machine.",
        ),
    )


def _accuracies(workshop: Workshop, net: NetTails) -> Accuracies:
    """One step a way, each of which trains the net unless that is done."""

    def made(way: Way) -> dict[str, Any]:
        trained, _, test = train_net(workshop, net.plan)
        return _trials(trained, test, way, workshop.seed)

    settings = settings_of(workshop, net.plan)
    accuracies, kept = {}, {}
    for way in WAYS:
        step = workshop.step("shin-trials", {**settings, **vars(way)}, partial(made, way))
        accuracies[way.name] = [100 * (1 - errors / net.test_m) for errors in step["errors"]]
        kept[way.name] = step["kept"]
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
        for trial in range(TRIALS if way.t > 0 else 1)
    ]
    first = next(node for node, take in zip(net.affine_layers, chosen, strict=True) if take)
    errors = count_errors(networks, first.index, test)
    there = [one for one in replaced if one is not None]
    weights = sum(one.mask.numel() for one in there)
    return {"errors": errors, "kept": sum(one.kept for one in there) / weights}


def count_errors(networks: Sequence[Network], first: int, data: Dataset) -> list[int]:
    """Errors of nets that differ from the node `first` on: what comes before runs once."""

    @torch.no_grad()
    def work(rows: slice) -> Accumulators[str]:
        values = {0: as_floats(data.x[rows]).to(networks[0].dtype)}
        labels = torch.from_numpy(np.array(data.y[rows]))
        _run(networks[0].nodes[1:first], values, networks[0].users)
        errors = []
        for net in networks:
            own = dict(values)
            _run(net.nodes[first:], own, net.users)
            margins = sample_margins(own[len(net.nodes) - 1], labels)
            errors.append(float((margins <= 0).sum()))
        return {"errors": Total(np.array(errors))}

    counts = map_shards(len(data), _BATCH, work, describe="trials")
    return [int(count) for count in counts["errors"].sum]


def _run(nodes: Sequence[Node], values: dict[int, Tensor], users: Sequence[Sequence[int]]) -> None:
    """Put the outputs of these nodes into `values`, and drop what no later node reads."""
    for node in nodes:
        values[node.index] = node.op(*(values[i] for i in node.inputs))
        for i in node.inputs:
            if users[i][-1] == node.index:
                values.pop(i, None)


def _comparable(found: Sequence[Accuracies]) -> Tried:
    text = f"with Appendix E as printed a net loses at most {_COMPARABLE:g} point of accuracy"

    def tried(losses: Sequence[float]) -> tuple[bool, str]:
        within = sum(lost <= _COMPARABLE for lost in losses)
        average = f"{statistics.fmean(losses):.2f} points on average, {max(losses):.2f} at worst"
        return within == len(losses), f"{within} of {len(losses)} nets do; {average}"

    return Tried(text, *tried([one.lost(PRINTED) for one in found]), *tried(_PAPER_LOST))


def _heavier_loses_less(found: Sequence[Accuracies]) -> Tried:
    """Section 5.2: with a smaller α more weights can go without harm, so the loss falls."""
    what, lacking = " of α and the loss", "too few nets have a fit, or all lose the same"
    some = [one for one in found if one.net.fit is not None]
    alphas, losses = [one.net.alpha for one in some], [one.lost(PRINTED) for one in some]
    return Tried(
        "nets with a smaller α lose less (resilient classification)",
        *rises(alphas, losses, what, lacking),
        *rises([row[2] for row in PAPER], _PAPER_LOST, what, lacking),
    )


def _tables(found: Sequence[Accuracies]) -> list[Table]:
    """The layout of Table 1, every way, and the paper's own."""

    def fitted(one: Accuracies) -> str:
        fit = one.net.fit
        return "no fit" if fit is None else f"{fit['alpha']:.2f} ± {fit['alpha_error']:.2f}"

    def kept(one: Accuracies) -> str:
        return " / ".join(f"{100 * one.kept[way.name]:.1f}" for way in WAYS[:2])

    ways: Columns = {
        "net": "net.plan.name",
        "original": lambda one: f"{one.original:.2f}",
        **{way.name: partial(Accuracies.shown, way=way) for way in WAYS},
        "weights of the layer that stay, %: printed / |w|": kept,
    }
    layout = []
    for one in found:
        plan, original = one.net.plan, f"{one.original:.2f}"
        layout.append((plan.name, plan.data, fitted(one), original, one.shown(PRINTED)))
    printed = [
        (net, data, f"{alpha:.2f}", f"{original:.2f}", f"{compressed:.2f} ± {deviation:.2f}")
        for net, data, alpha, original, compressed, deviation in PAPER
    ]
    caption = "The layout of Table 1 with our nets (Appendix E as printed, ten trials):"
    return [
        Table(_HEADER, layout, caption),
        Table.of("Accuracy in percent, mean and standard deviation over the trials:", found, ways),
        Table(_HEADER, printed, "The paper's own Table 1, nets from a model zoo:"),
    ]
