"""From a traced net, its sample and its measures to the numbers that the theorems ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.data import Dataset
from cushion.measures.margins import epsilon_margin, margin_loss, sample_margins
from cushion.measures.probing import check_scores, feed
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.engine import Accumulators, Samples, Total, map_shards
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.scored import ScoredNet
from cushion.theorems.facts import LayerFacts, NetFacts
from cushion.theorems.occam import Decisions


@dataclass(frozen=True)
class SampleFacts:
    """Per example its margin, ‖f(x)‖ and ‖x‖, [m] each; per coordinate Σ x², [n]."""

    margins: NDArray[np.float64]
    scores: NDArray[np.float64]
    inputs: NDArray[np.float64]
    columns: NDArray[np.float64]

    @property
    def errors(self) -> int:
        """Examples with margin ≤ 0: ties are errors."""
        return int((self.margins <= 0).sum())


def look_at(net: Network | HookedNet | ScoredNet, data: Dataset) -> SampleFacts:
    """Run the net over the sample once; tokens and several inputs have no norm and count as 0."""

    def work(rows: slice) -> Accumulators[str]:
        x = feed(data, rows, net)
        logits = net.forward(x).cpu()
        check_scores(logits, data, rows.start)
        labels = torch.from_numpy(np.array(data.y[rows]))
        plain = isinstance(x, torch.Tensor) and x.is_floating_point()
        # float64 on the CPU: not every device has it
        squares = (x.flatten(1).cpu() if plain else torch.zeros(len(labels), 1)).double().square()
        found = {
            "margins": sample_margins(logits, labels),
            "scores": torch.linalg.vector_norm(logits.double(), dim=1),
            "inputs": squares.sum(1).sqrt(),
        }
        samples = {name: Samples.of(rows.start, part.cpu().numpy()) for name, part in found.items()}
        return {**samples, "columns": Total(squares.sum(0).numpy())}

    found = map_shards(len(data), rows_at_a_time(), work, describe="margins")
    margins, scores, inputs = (found[name].values() for name in ("margins", "scores", "inputs"))
    return SampleFacts(margins, scores, inputs, found["columns"].sum)


def gather(
    net: Network,
    data: Dataset,
    seen: SampleFacts,
    table: MeasureTable,
    initial: Network | None,
    *,
    delta: float,
    epsilon: float,
) -> NetFacts:
    """The theorems' numbers; `table` holds at least the families norms and paths."""
    net.require("contracts", "every bound by norms")
    margin = epsilon_margin(seen.margins, epsilon)
    starts = [None] * len(net.affine_layers) if initial is None else initial.affine_layers
    size = math.prod(net.input_shape)
    first_two, first_sup = _after(net, net.nodes[0])
    radius = math.sqrt(size) if in_unit_cube(data) else float(seen.inputs.max())
    plain = all(isinstance(one.op, Affine) or one.op.unitwise for one in net.nodes[1:])
    paths = {
        int(path.p): -math.inf if path.log10 is None else path.log10 * math.log(10.0)
        for path in table.net.path_norms
    }
    known = repeat(net), net.affine_layers, table.layers, starts
    return NetFacts(
        m=len(data),
        delta=delta,
        classes=net.classes,
        errors=seen.errors,
        margin=margin,
        margin_loss=margin_loss(seen.margins, margin),
        layers=tuple(map(_layer, *known)),
        input_size=size,
        input_energy=first_two * float(np.sqrt((seen.inputs**2).sum())),
        input_column=float(np.sqrt(seen.columns.max())),
        radius=first_two * radius,
        is_chain=net.is_chain,
        not_a_chain_because=net.not_a_chain_because,
        plain=net.is_chain and plain,
        largest_score=float(seen.scores.max()),
        weight_bits=8 * net.dtype.itemsize,
        first_lipschitz=first_two,
        first_lipschitz_inf=first_sup,
        path_logs=paths,
    )


def in_unit_cube(data: Dataset) -> bool:
    """Whether every input that can occur lies in [0, 1]^n: bytes are divided by 255."""
    return data.x.dtype == np.uint8


def _layer(net: Network, node: Node, row: LayerMeasures, start: Node | None) -> LayerFacts:
    operator, norms, moved = node.affine.operator, row.group_norms, row.distance
    assert norms is not None
    assert row.operator_frobenius is not None
    assert row.spectral is not None
    assert row.spectral_upper is not None
    zero = operator.weight.new_zeros(operator.channels, dtype=torch.float64)
    starting = zero if start is None or start.affine.bias is None else start.affine.bias.double()
    bias = zero if node.affine.bias is None else node.affine.bias.double()
    root = math.sqrt(operator.output_size // operator.channels)
    changed = root * float(torch.linalg.vector_norm(bias - starting))
    two, sup = _after(net, node)
    return LayerFacts(
        name=node.name,
        inputs=operator.input_size,
        outputs=operator.output_size,
        parameters=node.affine.parameters,
        frobenius=row.operator_frobenius,
        spectral=row.spectral,
        spectral_upper=row.spectral_upper,
        l1_inf=norms.l1_inf,
        l2_inf=norms.l2_inf,
        l2_1=norms.l2_1,
        bias=root * float(torch.linalg.vector_norm(bias)),
        bias_largest=float(bias.abs().max()),
        lipschitz=two,
        lipschitz_inf=sup,
        moved_l2_1=None if moved is None else moved.l2_1,
        moved_bias=None if start is None else changed,
    )


def _after(net: Network, node: Node) -> tuple[float, float]:
    """ℓ2 and ℓ∞ Lipschitz constants of what is between a layer (or the input) and the next."""
    two = sup = 1.0
    for after in net.nodes[node.index + 1 :]:
        if isinstance(after.op, Affine):
            break
        steeper = after.op.lipschitz(net.nodes[after.inputs[0]].shape)
        two, sup = two * steeper[0], sup * steeper[1]
    return two, sup


def decisions(net: Network) -> list[Decisions]:
    """The levels at which signs decide what the net computes, and the last one, which decides its
    answer.

    Between them every value is a polynomial in the parameters, of a degree that grows by one with
    each affine layer.
    """
    net.require("piecewise_linear", "the bound by counting labellings")
    degree = {0: 0}
    before: dict[int, frozenset[int]] = {0: frozenset()}
    levels = []
    sizes = {node.index: node.affine.parameters for node in net.affine_layers}
    for node in net.nodes[1:]:
        before[node.index] = frozenset().union(*(before[i] for i in node.inputs))
        degree[node.index] = max(degree[i] for i in node.inputs)
        known = sum(sizes[i] for i in before[node.index])
        if isinstance(node.op, Affine):
            before[node.index] |= {node.index}
            degree[node.index] += 1
        elif signs := node.op.decisions(net.nodes[node.inputs[0]].shape):
            levels.append(Decisions(signs, degree[node.index], known))
    last = net.nodes[-1].index
    pairs = net.classes * (net.classes - 1)
    return [*levels, Decisions(pairs, max(1, degree[last]), sum(sizes[i] for i in before[last]))]
