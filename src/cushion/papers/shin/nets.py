"""The fleet's nets as they were found: tails of every dense and convolutional layer, stable rank of
the last.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput
from cushion.measures.table import traced
from cushion.measures.tails.power_law import Magnitudes, fit_power_law
from cushion.measures.tails.stable_fit import fit_stable
from cushion.measures.tails.stable_rank import power_iteration_norm, stable_rank
from cushion.nets.loading.weights import load_net
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal
from cushion.papers.runner import Workshop
from cushion.papers.shin.fleet import FleetNet, train_net

ITERATIONS = 1000  # of the power method, as Appendix D has it


@dataclass(frozen=True)
class NetTails:
    """One net of the fleet. record: what the step kept, as JSON.

    layers: one a dense or convolutional layer, in order: name, weights, and `power_law` and
    `stable` as their records, or None with the reason. last: stable rank by SVD, and both spectral
    norms of the last dense layer.
    """

    plan: FleetNet
    record: dict[str, Any]

    @property
    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record["last"]
        return found

    @property
    def layers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.record["layers"]
        return found

    @property
    def alpha(self) -> float | None:
        """The power law's exponent of the last dense layer; None where none could be fitted."""
        fit = self.layers[-1]["power_law"]
        return None if fit is None else float(fit["alpha"])

    @property
    def stable_rank(self) -> float:
        return float(self.last["stable_rank"])

    @property
    def test_error(self) -> float:
        return float(self.record["test_errors"] / self.record["test_m"])

    @property
    def gap(self) -> float:
        """Test error minus training error, on the labels that it was trained with."""
        return self.test_error - float(self.record["errors"] / self.record["m"])


def find_tails(workshop: Workshop, plan: FleetNet) -> NetTails:
    """One step, which trains the net unless that is done."""
    found = workshop.step("shin-tails", settings_of(workshop, plan), lambda: _tails(workshop, plan))
    return NetTails(plan, found)


def settings_of(workshop: Workshop, plan: FleetNet) -> dict[str, Any]:
    """What decides a trained net."""
    return {"net": asdict(plan), "seed": workshop.seed, "device": workshop.device}


def _tails(workshop: Workshop, plan: FleetNet) -> dict[str, Any]:
    run, data, test = train_net(workshop, plan)
    net = traced(load_net(run.net).module, data)
    names = [
        node.name for node in net.affine_layers if not isinstance(node.affine.operator, Diagonal)
    ]
    matrix = last_matrix(net)
    return {
        "spec": run.spec,
        "m": len(data),
        "test_m": len(test),
        "errors": run.metrics["train_errors"],
        "test_errors": run.metrics["test_errors"],
        "layers": [
            {"name": name, **_fits(weights)}
            for name, weights in zip(names, _weights(net), strict=True)
        ],
        "last": {
            "shape": list(matrix.shape),
            "frobenius": float(np.linalg.norm(matrix)),
            "spectral": float(np.linalg.norm(matrix, 2)),
            "power_iteration": power_iteration_norm(matrix, iterations=ITERATIONS),
            "stable_rank": stable_rank(matrix),
        },
    }


def last_matrix(net: Network) -> NDArray[np.float64]:
    """The weight of the last layer, [classes, inputs]."""
    weight = net.affine_layers[-1].affine.operator.weight
    if weight.ndim != 2:
        raise BadInput(
            f"{net.affine_layers[-1].name}: the last layer is not dense, and Figure 3 is about one "
            "that is"
        )
    return weight.detach().double().numpy()


def _weights(net: Network) -> list[NDArray[np.float64]]:
    operators = [node.affine.operator for node in net.affine_layers]
    return [
        one.weight.detach().double().numpy().reshape(-1)
        for one in operators
        if not isinstance(one, Diagonal)
    ]


def _fits(weights: NDArray[np.float64]) -> dict[str, Any]:
    sample = Magnitudes.of(weights)
    power = None if sample.refusal else fit_power_law(sample).to_json()
    try:
        stable = None if sample.refusal else fit_stable(weights, symmetric=True).to_json()
    except BadInput:  # such as a layer that is mostly zeros
        stable = None
    return {
        "weights": int(weights.size),
        "refusal": sample.refusal,
        "power_law": power,
        "stable": stable,
    }
