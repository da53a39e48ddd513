"""Conditions C2 and C3 of Neyshabur 2017: how many units can flip, and how spiky a layer is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.measures.conditions.interaction import row_energies
from cushion.measures.conditions.records import ActivationFlips, UnitNorms
from cushion.measures.distribution import describe
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine, ReLU

AT_LEAST = 0.01  # the fraction of units below which the restricted C2 does not look
DELTAS = tuple(float(f"{10 ** (at / 4):.6g}") for at in range(-24, 13))  # to 1e3, four a decade


def rectified_layers(net: Network) -> dict[int, Node]:
    """Layers with a ReLU before the next one: node index -> that ReLU's node. Chains only."""
    found: dict[int, Node] = {}
    layer = None
    for node in net.nodes:
        if isinstance(node.op, Affine):
            layer = node
        elif isinstance(node.op, ReLU) and layer is not None:
            found.setdefault(layer.index, node)
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
    ordered = torch.sort(values.abs().double() / sizes[:, None].double(), dim=1).values
    count = ordered.shape[1]
    steepness = torch.arange(1, count + 1).to(ordered) / count / ordered
    # r from ⌈h/100⌉ on; 0.01·700 rounds to more than 7
    first = math.ceil(AT_LEAST * count - 1e-9) - 1
    deltas = torch.tensor(DELTAS, dtype=torch.float64).repeat(len(ordered), 1)
    within = torch.searchsorted(ordered, deltas, right=True)
    tops = [part.amax(1, keepdim=True) for part in (steepness, steepness[:, first:])]
    columns = torch.cat([*tops, within / count], dim=1)
    return np.asarray(torch.where(sizes[:, None] > 0, columns, torch.nan))


def describe_flips(layer: Node, units: int, columns: NDArray[np.float64]) -> ActivationFlips | None:
    """The record from `flip_constants` of all examples; None if every x was 0."""
    known = columns[~np.isnan(columns[:, 2])]
    if len(known) == 0:
        return None
    spread, restricted = describe(known[:, 0], "max"), describe(known[:, 1], "max")
    assert spread is not None
    assert restricted is not None
    return ActivationFlips(
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


def unit_norms(layer: Node, h: int, active: NDArray[Any], exact: bool) -> UnitNorms:
    """C3 of one layer from ‖D_i W_i‖_F² of every example, `active` [m], and h_i = `h`."""
    norms = row_energies(layer.affine.operator).double().sqrt().flatten().numpy()
    largest = float(norms.max())
    if largest == 0:
        return UnitNorms(layer.name, None, None, 0.0, None, exact)
    with np.errstate(divide="ignore"):
        values = math.sqrt(h) * largest / np.sqrt(active)
    spread = describe(values, "max")
    assert spread is not None
    ratios = describe(norms / norms.mean(), "max")
    return UnitNorms(layer.name, spread.value, spread, largest, ratios, exact)
