"""The one pass over the data that families share: margins, and the three norms of every layer."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.data import Dataset
from cushion.measures.margins import sample_margins
from cushion.measures.probing import check_scores
from cushion.measures.stability.one_pass import NormObserver
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.network import Network, Stage


def one_pass(
    net: Network, data: Dataset, batch: int, *, norms: bool, margins: bool
) -> dict[object, NDArray[np.float64]]:
    """One number per example: margins under "margins", the three norms of each affine layer under
    (index, stage).
    """
    if not (norms or margins):
        return {}
    order: list[tuple[int, Stage]] = []  # the columns of the norms, the same in every shard

    def work(rows: slice) -> Accumulators[str]:
        observer = NormObserver()
        logits = net.run(as_floats(data.x[rows]).to(net.dtype), observer if norms else None)
        check_scores(logits, data, rows.start)
        found: dict[str, Samples] = {}
        if norms:  # one array of all columns: a conversion for each would cost as much as the norms
            order[:] = observer.norms
            columns = torch.stack(list(observer.norms.values()), dim=1)
            found["norms"] = Samples.of(rows.start, columns.numpy())
        if margins:
            labels = torch.from_numpy(np.array(data.y[rows]))
            found["margins"] = Samples.of(rows.start, sample_margins(logits, labels).numpy())
        return found

    merged = {
        key: samples.values()
        for key, samples in map_shards(len(data), batch, work, describe="measuring").items()
    }
    columns: dict[object, NDArray[np.float64]] = {"margins": merged["margins"]} if margins else {}
    return columns | {
        key: np.ascontiguousarray(merged["norms"][:, at]) for at, key in enumerate(order)
    }
