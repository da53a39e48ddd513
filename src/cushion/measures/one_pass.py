"""The one pass over the data that families share: margins, and the three norms of every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.margins import sample_margins
from cushion.measures.probing import check_scores, stream
from cushion.nets.network import Node, Stage
from cushion.nets.view import View


def one_pass(
    net: View, data: Dataset, batch: int, *, norms: bool, margins: bool
) -> dict[object, NDArray[np.float64]]:
    """One number per example: margins under "margins", and under (node's index, stage) the norms
    ‖φ(x^{i-1})‖, ‖A^i φ(x^{i-1})‖ and ‖x^i‖ of each affine layer.
    """
    if not (norms or margins):
        return {}
    order: list[tuple[int, Stage]] = []  # the columns of the norms, the same in every shard

    def work(x: Any, rows: slice) -> dict[str, Tensor]:
        seen: dict[tuple[int, Stage], Tensor] = {}

        def observe(node: Node, stage: Stage, t: Tensor) -> None:
            flat = t.flatten(1)
            wide = torch.float32 if flat.dtype.itemsize < 4 else flat.dtype
            seen[node.index, stage] = torch.linalg.vector_norm(flat, dim=1, dtype=wide)

        logits = net.run(x, observe if norms else None)
        check_scores(logits, data, rows.start)
        found = {}
        if seen:  # one array of all columns: a conversion for each would cost as much as the norms
            order[:] = seen
            found["norms"] = torch.stack(list(seen.values()), dim=1)
        if margins:
            found["margins"] = sample_margins(
                logits, torch.from_numpy(np.array(data.y[rows])).to(logits.device)
            )
        return found

    merged = stream(net, data, batch, work, "measuring")
    columns: dict[object, NDArray[np.float64]] = {"margins": merged["margins"]} if margins else {}
    return columns | {
        key: np.ascontiguousarray(merged["norms"][:, at]) for at, key in enumerate(order)
    }
