"""C1, C2, C3 and Theorem 1 of Neyshabur 2017 on a sample: rows chosen, streamed, put together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.conditions import activations
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.conditions.interaction import (
    ProductNorms,
    PushPlan,
    describe_interaction,
    plan_pushes,
    selects,
    triples,
    units,
)
from cushion.measures.conditions.records import DeltaRange, NetConditions, Version
from cushion.measures.conditions.theorem import Premises, minimise
from cushion.measures.distribution import describe
from cushion.measures.probing import check_scores, chosen_rows, shard_size, stream
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network
from cushion.nets.operations import Affine

_BUDGET = 2e12  # multiplications that the default number of examples may take: a few minutes
_KEPT = 1 << 23  # values of 1/μ that the examples may leave: one for each triple and example


def measure_conditions(net: Network, data: Dataset, options: ConditionOptions) -> NetConditions:
    """All conditions on the first `examples` rows of a seeded permutation of `data`; only the
    reason if `net` branches.

    Theorem 1 is evaluated for m = len(data), with the constants that those rows show.
    """
    method, seed, delta = options.method, options.seed, options.delta
    record = NetConditions(0, options.probes, method, seed, delta)
    if not net.is_chain:
        why = f"the conditions are about chains of layers, and {net.not_a_chain_because}"
        return replace(record, not_measured_because=why)
    plan = plan_pushes(net, options.probes, method)
    # the 1/μ of all triples, about depth³/6, are kept for each example
    affordable = max(1, int(_BUDGET / plan.multiplications))
    storable = max(1, _KEPT // len(triples(len(net.affine_layers))))
    count = min(options.examples or affordable, storable)
    some, _ = chosen_rows(data, count, seed, "conditions")
    found = _stream(net, some, plan, seed)
    return _together(net, found, record, plan, len(data))


def _stream(
    net: Network, data: Dataset, plan: PushPlan, seed: int
) -> dict[str, NDArray[np.float64]]:
    """One row an example: "inverse" and "errors" [m, triples], "flips k" per ReLU, "active" [m, d],
    and the sizes.
    """
    chosen, h = triples(len(net.affine_layers)), units(net)
    rectified = activations.rectified_layers(net)

    def work(x: Tensor, rows: slice) -> dict[str, NDArray[np.float64] | Tensor]:
        line = Linearisation(net, x)
        check_scores(line.scores, data, rows.start)
        norms = ProductNorms(line, first_input(net, x), plan, seed * (1 << 32) + rows.start)
        sizes = norms.squares[0, 0].sqrt()
        parts: dict[str, NDArray[np.float64] | Tensor] = {
            "inverse": np.stack([norms.inverse_mu(a, c, b, h[c]) for a, c, b in chosen], axis=1),
            "active": torch.stack([norms.squares[a, a] for a in range(1, len(h))], dim=1),
            "inputs": sizes,
            "outputs": torch.linalg.vector_norm(line.scores.flatten(1), dim=1).double(),
            "products": norms.squares[0, len(h) - 1].sqrt(),
        }
        if not all(plan.exact):
            unknown = np.full(len(x), np.nan)
            errors = [norms.standard_error(*triple) for triple in chosen]
            known = [unknown if error is None else error for error in errors]
            parts["errors"] = np.stack(known, axis=1)
        for index, relu in rectified.items():
            values = activations.pre_activations(line, net.nodes[index], relu)
            parts[f"flips {index}"] = activations.flip_constants(values, sizes)
        return parts

    return stream(net, data, shard_size(net), work, "conditions of Theorem 1")


def first_input(net: Network, x: Tensor) -> Tensor:
    """What layer 1 of a chain reads, W_0 in the paper: x after a reshape or pooling before it."""
    for node in net.nodes[1:]:
        if isinstance(node.op, Affine):
            break
        x = node.op(x)
    return x


def _together(
    net: Network,
    found: dict[str, NDArray[np.float64]],
    record: NetConditions,
    plan: PushPlan,
    m: int,
) -> NetConditions:
    h, layers = units(net), net.affine_layers
    outputs, inputs = found["outputs"], found["inputs"]
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(found["products"] - outputs) / outputs
    errors = found.get("errors")
    # every product of one layer has its closed form
    if errors is not None and np.isnan(errors).all():
        errors = None
    flips = []
    for index, relu in activations.rectified_layers(net).items():
        reads = math.prod(net.nodes[relu.inputs[0]].shape)
        flips.append(activations.describe_flips(net.nodes[index], reads, found[f"flips {index}"]))
    norms = []
    for at, node in enumerate(layers):
        exact = plan.exact[at] or selects(net, node)
        norms.append(activations.unit_norms(node, h[at + 1], found["active"][:, at], exact))
    interaction = describe_interaction(len(layers), found["inverse"], errors, gaps)
    scaled, mu = outputs[inputs > 0] / inputs[inputs > 0], interaction.figure6.mu
    record = replace(
        record,
        examples=len(outputs),
        layers=tuple(node.name for node in layers),
        units=h,
        interaction=interaction,
        activation_flips=tuple(one for one in flips if one is not None),
        unit_norms=tuple(norms),
        outputs=describe(outputs, "max"),
        zero_inputs=int((inputs == 0).sum()),
    )
    premises = Premises(
        units=h,
        frobenius=tuple(node.affine.operator.operator_frobenius() for node in layers),
        # None: every product vanishes with a factor, every μ will do
        mu=1.0 if mu is None else min(1.0, mu),
        c2=0.0,
        c3=record.c3 or 0.0,
        mean_output=float(scaled.mean()) if len(scaled) else math.nan,
        m=m,
        delta=record.delta,
    )
    # Without a ReLU nothing flips: C2 = 0.
    over: dict[DeltaRange, float | None] = {"all": record.c2_for_all, "restricted": record.c2}
    theorem = [
        minimise(replace(premises, c2=c2 or 0.0), version, delta_range)
        for delta_range, c2 in over.items()
        for version in get_args(Version)
    ]
    return replace(record, theorem=tuple(theorem))
