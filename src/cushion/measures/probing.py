"""What measures by random vectors and on chosen rows share: shards, chunks, lengths, subsets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.data.samples import permutation
from cushion.errors import BadInput
from cushion.nets.batches import Batch, as_batch, mix_seed
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.network import Network


class Placed(Protocol):
    """A net whose numbers have one precision and one place."""

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...


Key = TypeVar("Key", bound=Hashable)
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


def feed(data: Dataset, rows: NDArray[np.int64] | slice, net: Placed) -> Any:
    """Some rows as the net reads them: floats in its precision, all on its device."""

    def fit(t: Tensor) -> Tensor:
        return t.to(net.device, net.dtype if t.is_floating_point() else t.dtype)

    batch: Batch = as_batch(data.x[rows])
    return {n: fit(t) for n, t in batch.items()} if isinstance(batch, dict) else fit(batch)


def stream(
    net: Placed,
    data: Dataset,
    batch: int,
    work: Callable[[Any, slice], Mapping[Key, Tensor | NDArray[Any]]],
    describe: str,
) -> dict[Key, NDArray[np.float64]]:
    """By key one number (or row) an example: what `work` makes of a shard's inputs and its rows."""

    def shard(rows: slice) -> Accumulators[Key]:
        found = work(feed(data, rows, net), rows)
        return {key: Samples.of(rows.start, _numbers(part)) for key, part in found.items()}

    merged = map_shards(len(data), batch, shard, describe=describe)
    return {key: samples.values() for key, samples in merged.items()}


def _numbers(part: Tensor | NDArray[Any]) -> NDArray[Any]:
    return part.cpu().numpy() if isinstance(part, Tensor) else part


def spread_over(sizes: Tensor, like: Tensor) -> Tensor:
    """[B] numbers, so that they multiply the examples of [B, *shape]: [B, 1, ...] of its type."""
    return sizes.to(like.dtype).reshape(-1, *[1] * (like.ndim - 1))


def lengths(t: Tensor) -> Tensor:
    """‖t‖ of each example: [B, *shape] -> [B] float64, where large squares do not overflow."""
    norms: Tensor = torch.linalg.vector_norm(t, dim=tuple(range(1, t.ndim)), dtype=torch.float64)
    return norms


def check_scores(scores: Tensor, data: Dataset, start: int) -> None:
    """BadInput unless all scores of the rows from `start` on are finite."""
    if not bool(torch.isfinite(scores).all()):
        where = f"{data.name} are not finite near row {start}"
        raise BadInput(f"the net's scores on {where}; check its weights")
