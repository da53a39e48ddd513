"""C1, C2, C3 and Theorem 1 of Neyshabur 2017 on a sample: rows chosen, streamed, put together."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.conditions import interaction, records
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.conditions.interaction import triples, units
from cushion.measures.conditions.theorem import Premises, minimise
from cushion.measures.distribution import describe
from cushion.measures.probing import check_scores, chosen_rows, shard_size, stream
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine, ReLU

AT_LEAST = 0.01  # the fraction of units below which the restricted C2 does not look
DELTAS = tuple(float(f"{10 ** (at / 4):.6g}") for at in range(-24, 13))  # to 1e3, four a decade
_BUDGET = 1e11  # multiplications that the default number of examples may take: some seconds
_KEPT = 1 << 23  # values of 1/μ that the examples may leave: one for each triple and example


def measure_conditions(
    net: Network, data: Dataset, options: ConditionOptions
) -> records.NetConditions:
    """All conditions on the first `examples` rows of a seeded permutation of `data`, Theorem 1 for
    m = len(data) with the constants that those rows show; only the reason if `net` branches.
    """
    method, seed, delta = options.method, options.seed, options.delta
    record = records.NetConditions(0, options.probes, method, seed, delta)
    if not net.is_chain:
        why = f"the conditions are about chains of layers, and {net.not_a_chain_because}"
        return replace(record, not_measured_because=why)
    net.require("rectifies", "Theorem 1 of Neyshabur 2017")
    plan = interaction.plan_pushes(net, options.probes, method)
    # the 1/μ of all triples, about depth³/6, are kept for each example
    affordable = max(1, int(_BUDGET / plan.multiplications))
    storable = max(1, _KEPT // len(triples(len(net.affine_layers))))
    count = min(options.examples or affordable, storable)
    some, _ = chosen_rows(data, count, seed, "conditions")
    found = _stream(net, some, plan, seed)
    return _together(net, found, record, plan, len(data))


def _stream(
    net: Network, data: Dataset, plan: interaction.PushPlan, seed: int
) -> dict[str, NDArray[np.float64]]:
    """ "inverse", "errors" [m, triples], "flips k" per ReLU, "active" [m, d], and the sizes [m]."""
    chosen, h = triples(len(net.affine_layers)), units(net)
    rectified = rectified_layers(net)

    def work(x: Tensor, rows: slice) -> dict[str, NDArray[np.float64] | Tensor]:
        line = Linearisation(net, x)
        check_scores(line.scores, data, rows.start)
        first, own = first_input(net, x), seed * (1 << 32) + rows.start
        norms = interaction.ProductNorms(line, first, plan, own)
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
            values = pre_activations(line, net.nodes[index], relu)
            parts[f"flips {index}"] = flip_constants(values, sizes)
        return parts

    return stream(net, data, shard_size(net), work, "conditions of Theorem 1")


def first_input(net: Network, x: Tensor) -> Tensor:
    """What layer 1 of a chain reads, W_0 in the paper: x after a reshape or pooling before it."""
    for node in takewhile(lambda node: not isinstance(node.op, Affine), net.nodes[1:]):
        x = node.op(x)
    return x


def _together(
    net: Network,
    found: dict[str, NDArray[np.float64]],
    record: records.NetConditions,
    plan: interaction.PushPlan,
    m: int,
) -> records.NetConditions:
    h, layers = units(net), net.affine_layers
    outputs, inputs = found["outputs"], found["inputs"]
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(found["products"] - outputs) / outputs
    errors = found.get("errors")
    if errors is not None and np.isnan(errors).all():  # one layer's products have closed forms
        errors = None
    flips, norms = [], []
    for index, relu in rectified_layers(net).items():
        reads = math.prod(net.nodes[relu.inputs[0]].shape)
        flips.append(describe_flips(net.nodes[index], reads, found[f"flips {index}"]))
    for at, node in enumerate(layers):
        exact = plan.exact[at] or interaction.selects(net, node)
        norms.append(unit_norms(node, h[at + 1], found["active"][:, at], exact))
    interplay = interaction.describe_interaction(len(layers), found["inverse"], errors, gaps)
    scaled, mu = outputs[inputs > 0] / inputs[inputs > 0], interplay.figure6.mu
    record = replace(
        record,
        examples=len(outputs),
        layers=tuple(node.name for node in layers),
        units=h,
        interaction=interplay,
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
    both = zip(get_args(records.DeltaRange), (record.c2_for_all, record.c2), strict=True)
    theorem = [
        minimise(replace(premises, c2=c2 or 0.0), version, delta_range)
        for delta_range, c2 in both
        for version in get_args(records.Version)
    ]
    return replace(record, theorem=tuple(theorem))


def rectified_layers(net: Network) -> dict[int, Node]:
    """Layers with a ReLU before the next one: node index -> that ReLU's node. Chains only."""
    found: dict[int, Node] = {}
    for node in net.nodes:
        before = [layer.index for layer in net.affine_layers if layer.index < node.index]
        if isinstance(node.op, ReLU) and before:
            found.setdefault(before[-1], node)
    return found


def pre_activations(line: Linearisation, layer: Node, relu: Node) -> Tensor:
    """What the ReLU reads, bias included, [B, units]: x^k, or its map after a first pooling."""
    t = line.outputs[layer.index]
    for node in line.net.nodes[layer.index + 1 : relu.index]:
        t = node.op(t)
    return t.flatten(1)


def flip_constants(values: Tensor, sizes: Tensor) -> NDArray[np.float64]:
    """[B, units], ‖x‖ [B] -> [B, 2 + len(DELTAS)]: C2, the restricted C2, and the fraction of units
    within each δ.

    With the |values|/‖x‖ sorted, u_1 <= ... <= u_h, the fraction over δ jumps at u_r and falls in
    between, so its supremum is the largest (r/h)/u_r: ∞ if u_1 = 0. Rows with x = 0 are NaN.
    """
    units = values.cpu().abs().double()
    ordered = torch.sort(units / sizes.cpu()[:, None].double(), dim=1).values
    count = ordered.shape[1]
    steepness = torch.arange(1, count + 1).to(ordered) / count / ordered
    # r from ⌈h/100⌉ on; 0.01·700 rounds to more than 7
    first = math.ceil(AT_LEAST * count - 1e-9) - 1
    deltas = torch.tensor(DELTAS, dtype=torch.float64).repeat(len(ordered), 1)
    within = torch.searchsorted(ordered, deltas, right=True)
    tops = [part.amax(1, keepdim=True) for part in (steepness, steepness[:, first:])]
    columns = torch.cat([*tops, within / count], dim=1)
    return np.asarray(torch.where(sizes[:, None] > 0, columns, torch.nan))


def describe_flips(
    layer: Node, units: int, columns: NDArray[np.float64]
) -> records.ActivationFlips | None:
    """The record from `flip_constants` of all examples; None if every x was 0."""
    known = columns[~np.isnan(columns[:, 2])]
    if len(known) == 0:
        return None
    spread, restricted = (describe(known[:, at], "max") for at in (0, 1))
    assert spread is not None
    assert restricted is not None
    return records.ActivationFlips(
        layer=layer.name,
        units=units,
        value=spread.value,
        spread=spread,
        at_least=AT_LEAST,
        restricted=restricted.value,
        restricted_spread=restricted,
        deltas=DELTAS,
        mean_fraction=tuple(known[:, 2:].mean(0).tolist()),
        max_fraction=tuple(known[:, 2:].max(0).tolist()),
    )


def unit_norms(layer: Node, h: int, active: NDArray[np.float64], exact: bool) -> records.UnitNorms:
    """C3 of one layer from ‖D_i W_i‖_F² of every example, `active` [m], and h_i = `h`."""
    norms = interaction.row_energies(layer.affine.operator).double().sqrt().flatten().cpu().numpy()
    largest = float(norms.max())
    if largest == 0:
        return records.UnitNorms(layer.name, None, None, 0.0, None, exact)
    with np.errstate(divide="ignore"):
        values = math.sqrt(h) * largest / np.sqrt(active)
    spread = describe(values, "max")
    assert spread is not None
    ratios = describe(norms / norms.mean(), "max")
    return records.UnitNorms(layer.name, spread.value, spread, largest, ratios, exact)
