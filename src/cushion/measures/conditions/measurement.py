"""C1, C2, C3 and Theorem 1 of Neyshabur 2017 on a sample: rows chosen, streamed, put together."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.conditions.activations import (
    describe_flips,
    flip_constants,
    pre_activations,
    rectified_layers,
    unit_norms,
)
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
from cushion.measures.conditions.records import (
    ActivationFlips,
    NetConditions,
    TheoremOne,
    UnitNorms,
)
from cushion.measures.conditions.theorem import Premises, minimise
from cushion.measures.distribution import describe
from cushion.measures.probing import check_scores, chosen_rows, shard_size
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network
from cushion.nets.operations import Affine

# multiplications that the default number of examples may take: a few minutes on one core
_BUDGET = 2e12
# values of 1/μ that the default number of examples may leave: one for each triple and example
_KEPT = 1 << 23


def measure_conditions(net: Network, data: Dataset, options: ConditionOptions) -> NetConditions:
    """All conditions on the first `examples` rows of a seeded permutation of `data`; only the
    reason if `net` branches.

    Theorem 1 is evaluated for m = len(data), with the constants that those rows show.
    """
    if not net.is_chain:
        return NetConditions(
            examples=0,
            probes=options.probes,
            method=options.method,
            seed=options.seed,
            delta=options.delta,
            not_measured_because="the conditions are about chains of layers, and "
            f"{net.not_a_chain_because}",
        )
    plan = plan_pushes(net, options.probes, options.method)
    count = min(options.examples or _affordable(plan), _storable(net))
    some, _ = chosen_rows(data, count, options.seed, "conditions")
    found = _stream(net, some, plan, options.seed)
    return _together(net, found, options, len(data))


def _affordable(plan: PushPlan) -> int:
    """How many examples the budget of multiplications is enough for."""
    return max(1, int(_BUDGET / plan.multiplications))


def _storable(net: Network) -> int:
    """For how many examples the 1/μ of all triples, about depth³/6, may be kept in any case."""
    return max(1, _KEPT // len(triples(len(net.affine_layers))))


def _stream(
    net: Network, data: Dataset, plan: PushPlan, seed: int
) -> dict[str, NDArray[np.float64]]:
    """One row an example: "inverse" and "errors" [m, triples], "flips k" per ReLU, "active" [m, d],
    and the sizes.
    """
    chosen, h, rectified = triples(len(net.affine_layers)), units(net), rectified_layers(net)
    exact = all(plan.exact)

    def work(rows: slice) -> Accumulators[str]:
        x = as_floats(data.x[rows]).to(net.dtype)
        line = Linearisation(net, x)
        check_scores(line.scores, data, rows.start)
        first = first_input(net, x)
        norms = ProductNorms(line, first, plan, seed * (1 << 32) + rows.start)
        parts: dict[str, NDArray[np.float64]] = {
            "inverse": np.stack([norms.inverse_mu(a, c, b, h[c]) for a, c, b in chosen], axis=1),
            "active": np.stack([norms.squares[a, a].numpy() for a in range(1, len(h))], axis=1),
            "inputs": norms.squares[0, 0].sqrt().numpy(),
            "outputs": torch.linalg.vector_norm(line.scores.flatten(1), dim=1).double().numpy(),
            "products": norms.squares[0, len(h) - 1].sqrt().numpy(),
        }
        if not exact:
            unknown = np.full(len(x), np.nan)
            errors = [norms.standard_error(*triple) for triple in chosen]
            parts["errors"] = np.stack(
                [unknown if error is None else error for error in errors], axis=1
            )
        for index, relu in rectified.items():
            values = pre_activations(line, net.nodes[index], relu)
            parts[f"flips {index}"] = flip_constants(values, norms.squares[0, 0].sqrt())
        return {key: Samples.of(rows.start, values) for key, values in parts.items()}

    merged = map_shards(len(data), shard_size(net), work, describe="conditions of Theorem 1")
    return {key: samples.values() for key, samples in merged.items()}


def first_input(net: Network, x: Tensor) -> Tensor:
    """What layer 1 of a chain reads, W_0 in the paper: x after a reshape or pooling before it."""
    for node in net.nodes[1:]:
        if isinstance(node.op, Affine):
            break
        x = node.op(x)
    return x


def _together(
    net: Network, found: dict[str, NDArray[np.float64]], options: ConditionOptions, m: int
) -> NetConditions:
    h, layers = units(net), net.affine_layers
    outputs, inputs = found["outputs"], found["inputs"]
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(found["products"] - outputs) / outputs
    errors = found.get("errors")
    # every product of one layer has its closed form
    if errors is not None and np.isnan(errors).all():
        errors = None
    flips = [
        record
        for index, relu in rectified_layers(net).items()
        if (
            record := describe_flips(
                net.nodes[index], _reads(net, relu.index), found[f"flips {index}"]
            )
        )
        is not None
    ]
    exact = plan_pushes(net, options.probes, options.method).exact
    norms = [
        unit_norms(node, h[a], found["active"][:, a - 1], exact[a - 1] or selects(net, node))
        for a, node in enumerate(layers, 1)
    ]
    interaction = describe_interaction(len(layers), found["inverse"], errors, gaps)
    scaled = outputs[inputs > 0] / inputs[inputs > 0]
    return NetConditions(
        examples=len(outputs),
        probes=options.probes,
        method=options.method,
        seed=options.seed,
        delta=options.delta,
        layers=tuple(node.name for node in layers),
        units=h,
        interaction=interaction,
        activation_flips=tuple(flips),
        unit_norms=tuple(norms),
        outputs=describe(outputs, "max"),
        zero_inputs=int((inputs == 0).sum()),
        theorem=_theorem(net, interaction.figure6.mu, flips, norms, scaled, m, options.delta),
    )


def _theorem(
    net: Network,
    mu: float | None,
    flips: list[ActivationFlips],
    norms: list[UnitNorms],
    scaled: NDArray[np.float64],
    m: int,
    delta: float,
) -> tuple[TheoremOne, ...]:
    """Every version, with C2 over all δ and restricted. Without a ReLU nothing flips: C2 = 0."""
    records = []
    for delta_range in ("all", "restricted"):
        c2 = max(
            (part.value if delta_range == "all" else part.restricted for part in flips), default=0.0
        )
        premises = Premises(
            units=units(net),
            frobenius=tuple(
                node.affine.operator.operator_frobenius() for node in net.affine_layers
            ),
            mu=1.0
            if mu is None
            else min(1.0, mu),  # None: every product vanishes with a factor, every μ will do
            c2=c2,
            c3=max((part.value for part in norms if part.value is not None), default=0.0),
            mean_output=float(scaled.mean()) if len(scaled) else math.nan,
            m=m,
            delta=delta,
        )
        records += [
            minimise(premises, version, delta_range)
            for version in ("as printed", "simplified", "corrected")
        ]
    return tuple(records)


def _reads(net: Network, index: int) -> int:
    return math.prod(net.nodes[net.nodes[index].inputs[0]].shape)
