"""The induction of Lemmas 3 and 14 (Arora 2018), run: layers compressed one after the other, errors
seen at all later.

x̂_i^j is the output of layer j when layers 1 to i are compressed and the others are not. The lemmas
promise ‖x̂_i^j - x^j‖ ≤ (i/d)·ε·‖x^j‖ for every j ≥ i and every example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.margins import sample_margins
from cushion.measures.stability.noise import lengths
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.network import Network
from cushion.nets.perturbation import Activations

_VALUES = 1 << 24  # numbers in all activations of a shard

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class LayerErrors:
    """Relative errors, one number per example.

    errors: under (i, j), places in `net.affine_layers` from 0 with j ≥ i. gaps: ‖f̂(x) - f(x)‖₂ of
    the whole compressed net, and largest_gaps its largest score difference. sizes: ‖f(x)‖₂.
    margins: of the compressed net. scores: of the net as it was, [m, classes].
    """

    errors: dict[tuple[int, int], NDArray[np.float64]]
    gaps: NDArray[np.float64]
    largest_gaps: NDArray[np.float64]
    sizes: NDArray[np.float64]
    margins: NDArray[np.float64]
    scores: NDArray[np.float64]

    @property
    def relative(self) -> NDArray[np.float64]:
        """‖f̂(x) - f(x)‖/‖f(x)‖; where f(x) = 0, infinite unless the compressed net agrees."""
        return _ratio(self.gaps, self.sizes)


def follow_induction(
    net: Network, compressed: Network, data: Dataset, *, scores: NDArray[np.float64] | None = None
) -> LayerErrors:
    """Both nets on all of `data`, streamed. With the `scores` of `net` only the whole compressed
    net is run.
    """
    values = sum(int(np.prod(node.shape)) for node in net.nodes)
    batch = max(1, min(256, _VALUES // values))

    def work(rows: slice) -> Accumulators[Pair | str]:
        x = as_floats(data.x[rows]).to(net.dtype)
        found: dict[Pair | str, Samples] = {}
        if scores is None:
            clean = Activations(net, x).values
            own, changed = (
                clean[net.nodes[-1].index],
                _follow(net, compressed, clean, found, rows.start),
            )
        else:
            own, changed = torch.from_numpy(scores[rows]).to(net.dtype), compressed.forward(x)
        if not bool(torch.isfinite(changed).all()):
            raise BadInput(
                f"the compressed net's scores are not finite near row {rows.start}: so few numbers "
                "lose the net; use more (`k`)"
            )
        gap = changed.double() - own.double()
        columns = {
            "gaps": lengths(gap),
            "largest": gap.abs().amax(1),
            "sizes": lengths(own),
            "scores": own,
            "margins": sample_margins(changed.double(), torch.from_numpy(np.array(data.y[rows]))),
        }
        return found | {
            name: Samples.of(rows.start, column.numpy()) for name, column in columns.items()
        }

    merged = {
        key: part.values()
        for key, part in map_shards(
            len(data), batch, work, describe="errors of the compressed layers"
        ).items()
    }
    whole = [merged.pop(name) for name in ("gaps", "largest", "sizes", "margins", "scores")]
    errors = {pair: values for pair, values in merged.items() if not isinstance(pair, str)}
    return LayerErrors(errors, *whole)


@torch.no_grad()
def _follow(
    net: Network,
    compressed: Network,
    clean: dict[int, torch.Tensor],
    found: dict[Pair | str, Samples],
    start: int,
) -> torch.Tensor:
    """Fill in the errors of every (i, j); the scores of the whole compressed net."""
    values = dict(clean)
    layers = net.affine_layers
    for i, node in enumerate(layers):
        values[node.index] = compressed.nodes[node.index].affine(values[node.inputs[0]])
        after = net.descendants(node.index)
        for later in net.nodes[node.index + 1 :]:
            if later.index in after:
                values[later.index] = later.op(*(values[k] for k in later.inputs))
        for j in range(i, len(layers)):
            at = layers[j].index
            if at == node.index or at in after:
                moved = lengths(values[at] - clean[at]).numpy()
                found[i, j] = Samples.of(start, _ratio(moved, lengths(clean[at]).numpy()))
    return values[net.nodes[-1].index]


def _ratio(moved: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """moved / size; 0 where nothing moved, infinite where something moved from 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(moved == 0, 0.0, moved / size)
