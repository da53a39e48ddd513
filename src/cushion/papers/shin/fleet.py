"""The fleet of Figure 3 and Table 1 of Shin 2021: which nets each size trains, their training into
OUT/.runs, and their tails.

The paper takes 43 pretrained nets. Here they are trained: plain SGD with momentum, because the
tails that the paper speaks of are ascribed to it. Nets differ in one thing at a time from the
middle one of their data set: width, depth, seed, or the share of random labels; small
convolutional, residual and dense nets join them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data import Dataset, load_pair
from cushion.errors import BadInput
from cushion.measures.spectra import power_iteration_norm, stable_rank
from cushion.measures.table import traced
from cushion.measures.tails.power_law import Magnitudes, fit_power_law
from cushion.measures.tails.stable_fit import fit_stable
from cushion.nets.loading.weights import load_net
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal
from cushion.papers.nets import counted, train_once
from cushion.papers.pages import Size
from cushion.papers.runner import Workshop
from cushion.training.recipes import Recipe, find_recipe

ITERATIONS = 1000  # of the power method, as Appendix D has it
_IMAGE = {"digits": "1x8x8", "mnist": "1x28x28", "fashion-mnist": "1x28x28", "cifar10": "3x32x32"}


@dataclass(frozen=True)
class FleetNet:
    """One net of the fleet.

    spec: of the net, or the name of a recipe. noise: the share of the sample whose labels are drawn
    at random. varies: what sets it apart from the middle net of its data set. scale: of the hidden
    widths.
    """

    name: str
    data: str
    spec: str
    epochs: int
    varies: str
    noise: float = 0.0
    seed: int = 0
    scale: float = 1.0

    @property
    def recipe(self) -> Recipe:
        """A recipe of the paper's nets with fewer epochs, or a spec with plain SGD."""
        found, halve = find_recipe(self.spec), max(1, self.epochs // 4)
        found = replace(found, epochs=self.epochs, lr_halve_every=halve)
        if found.name != "spec":
            return found
        named = replace(found, name=self.name, source="Shin 2021, a fleet of our own")
        return replace(named, dataset=self.data, optimiser="sgd", lr=0.05, momentum=0.9)


@dataclass(frozen=True)
class NetTails:
    """One net of the fleet with what its step kept; errors are counted.

    layers: one a dense or convolutional layer, in order: name, weights, and `power_law` and
    `stable` as their records, or None with the reason. last: stable rank by SVD, and both spectral
    norms of the last dense layer.
    """

    plan: FleetNet
    spec: str
    m: int
    test_m: int
    errors: int
    test_errors: int
    layers: list[dict[str, Any]]
    last: dict[str, Any]

    @property
    def fit(self) -> dict[str, Any] | None:
        """The power law of the last dense layer; None where none could be fitted."""
        found: dict[str, Any] | None = self.layers[-1]["power_law"]
        return found

    @property
    def alpha(self) -> float:
        """Its exponent; NaN where none could be fitted."""
        return float(self.fit["alpha"]) if self.fit else math.nan

    @property
    def stable_rank(self) -> float:
        return float(self.last["stable_rank"])

    @property
    def test_error(self) -> float:
        return self.test_errors / self.test_m

    @property
    def gap(self) -> float:
        """Test error minus training error, on the labels that it was trained with."""
        return self.test_error - self.errors / self.m


def find_tails(workshop: Workshop, plan: FleetNet) -> NetTails:
    """One step, which trains the net unless that is done."""
    step = workshop.step("shin-tails", settings_of(workshop, plan), lambda: _tails(workshop, plan))
    return NetTails(plan, **step)


def settings_of(workshop: Workshop, plan: FleetNet) -> dict[str, Any]:
    """What decides a trained net."""
    return {"net": asdict(plan), "seed": workshop.seed, "device": workshop.device}


def train_net(workshop: Workshop, plan: FleetNet) -> tuple[Network, dict[str, Any], Dataset]:
    """Train it, or finish that, or find it trained; with its errors, and the test set."""
    noise = f",random-labels={plan.noise:g}" if plan.noise else ""
    data, test = load_pair(plan.data + noise)
    assert test is not None
    seed = plan.seed + workshop.seed
    run = train_once(workshop, plan.recipe, data, test, width=plan.scale, seed=seed)
    net = traced(load_net(run.net).module, data)
    return net, {"spec": run.spec, **counted(run, data, test)}, test


def _tails(workshop: Workshop, plan: FleetNet) -> dict[str, Any]:
    net, errors, _ = train_net(workshop, plan)
    weights = [
        (node.name, node.affine.operator.weight.detach().double().numpy())
        for node in net.affine_layers
        if not isinstance(node.affine.operator, Diagonal)
    ]
    matrix = weights[-1][1]
    last = {
        "shape": list(matrix.shape),
        "frobenius": float(np.linalg.norm(matrix)),
        "spectral": float(np.linalg.norm(matrix, 2)),
        "power_iteration": power_iteration_norm(matrix, iterations=ITERATIONS),
        "stable_rank": stable_rank(matrix),
    }
    layers = [{"name": name, **_fits(weight.reshape(-1))} for name, weight in weights]
    return {**errors, "layers": layers, "last": last}


def _fits(weights: NDArray[np.float64]) -> dict[str, Any]:
    sample = Magnitudes.of(weights)
    power = None if sample.refusal else fit_power_law(sample).to_json()
    try:
        stable = None if sample.refusal else fit_stable(weights, symmetric=True).to_json()
    except BadInput:  # such as a layer that is mostly zeros
        stable = None
    fits = {"power_law": power, "stable": stable}
    return {"weights": int(weights.size), "refusal": sample.refusal, **fits}


def _perceptrons(data: str, widths: tuple[int, int, int], epochs: int) -> list[FleetNet]:
    """Around one hidden layer: two other widths, two depths, two seeds, three shares of noise."""
    image, middle = _IMAGE[data], widths[1]

    def one(label: str, hidden: str, varies: str, noise: float = 0.0, seed: int = 0) -> FleetNet:
        spec = f"{image}: flatten {hidden} fc10"
        return FleetNet(f"{data}-fc{label}", data, spec, epochs, varies, noise, seed)

    own, shares = f"fc{middle} relu", (0.25, 0.5, 1.0)
    return [
        *(one(f"{width}", f"fc{width} relu", "width") for width in widths),
        *(one(f"{middle}x{depth}", f"{depth}*[{own}]", "depth") for depth in (2, 4)),
        *(one(f"{middle}-seed{seed}", own, "seed", seed=seed) for seed in (1, 2)),
        *(one(f"{middle}-noise{share:g}", own, "label noise", noise=share) for share in shares),
    ]


def _fleet(epochs: int, conv: int, residual: int, dense: int, scale: float) -> list[FleetNet]:
    # An epoch of CIFAR-10 takes four times as long.
    sets = {"mnist": epochs, "fashion-mnist": epochs, "cifar10": epochs // 2}
    inner = "conv16k5p2 relu maxpool2 conv32k5p2 relu maxpool2 flatten fc64 relu fc10"
    specs = {data: f"{_IMAGE[data]}: {inner}" for data in sets}
    perceptrons = (_perceptrons(data, (64, 256, 1024), count) for data, count in sets.items())
    return [
        *(net for some in perceptrons for net in some),
        *(FleetNet(f"{one}-conv", one, spec, conv, "kind") for one, spec in specs.items()),
        FleetNet("cifar10-resnet20", "cifar10", "shin-resnet20", residual, "kind"),
        FleetNet("cifar10-densenet40", "cifar10", "shin-densenet", dense, "kind", scale=scale),
    ]


_QUICK = ((16, 32, 64), (96, 128, 192), (256, 384, 512))
FLEET: dict[Size, Sequence[FleetNet]] = {
    "quick": [net for widths in _QUICK for net in _perceptrons("digits", widths, 20)],
    "recorded": _fleet(40, 12, 3, 2, 0.34),
    "full": _fleet(400, 200, 200, 200, 1.0),
}
