"""What measures by random vectors and on chosen rows share: streams, chunks, lengths, subsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.data.samples import permutation
from cushion.errors import BadInput
from cushion.nets.batches import mix_seed
from cushion.nets.network import Network

# numbers in the largest tensor that passes the net at a time: 8 MB, which stay in fast memory
_CHUNK = 1 << 21


def probe_generator(seed: int, purpose: str, index: int) -> torch.Generator:
    """A stream of its own for each purpose and layer."""
    return torch.Generator().manual_seed(mix_seed(seed, index, purpose))


def chosen_rows(
    data: Dataset, count: int, seed: int, purpose: str
) -> tuple[Dataset, NDArray[np.int64]]:
    """The first `count` rows of a seeded permutation of the data, or all, and their numbers."""
    count = min(len(data), count)
    rows = np.sort(permutation(len(data), seed)[:count])
    if count == len(data):
        return data, rows
    return data.select(rows, f"{count} rows for {purpose}, seed={seed}"), rows


def shard_size(net: Network) -> int:
    """Examples that are worked on at once."""
    largest = max(node.affine.operator.output_size for node in net.affine_layers)
    return max(8, min(256, _CHUNK // largest))


def chunks(vectors: int, largest: int, batch: int) -> Iterator[tuple[int, int]]:
    """From where to where, if a vector becomes `largest` numbers for each of the examples."""
    step = max(1, _CHUNK // (largest * batch))
    return ((start, min(start + step, vectors)) for start in range(0, vectors, step))


def unit_vectors(start: int, stop: int, size: int, like: Tensor) -> Tensor:
    """Rows start..stop of the identity: [stop - start, size]."""
    basis = like.new_zeros((stop - start, size))
    basis[torch.arange(stop - start), torch.arange(start, stop)] = 1
    return basis


def squared_lengths(t: Tensor) -> Tensor:
    """Of [P, B, *shape]: [P, B] float64."""
    norms: Tensor = torch.linalg.vector_norm(t, dim=tuple(range(2, t.ndim)))
    return norms.double().square()


def check_scores(scores: Tensor, data: Dataset, start: int) -> None:
    """BadInput unless all scores of the rows from `start` on are finite."""
    if not bool(torch.isfinite(scores).all()):
        raise BadInput(
            f"the net's scores on {data.name} are not finite near row {start}; check its weights"
        )
