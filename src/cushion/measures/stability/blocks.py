"""Interlayer cushions and smoothness between the blocks of a net that hooks see.

A block (a residual or transformer block, or a layer outside one) is one layer of a chain: x^i is
its result, J^{i,j} the derivative of block j's result with respect to block i's at the example's
own activations (Arora 2018, Definitions 5, 7 and 8, with blocks in place of layers).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from cushion.data import Dataset
from cushion.measures.distribution import describe
from cushion.measures.probing import (
    feed,
    lengths,
    probe_generator,
    stream,
)
from cushion.measures.stability import records
from cushion.measures.stability.noise import Noise, gaussian_like
from cushion.measures.stability.smoothness import SmoothnessDraws, departure
from cushion.nets.batches import Batch
from cushion.nets.engine import Samples, map_shards
from cushion.nets.hooked.chain import Block
from cushion.nets.hooked.net import HookedNet
from cushion.progress import progress

_PAIR_BINS = 20  # there are many pairs


def measure_blocks(
    net: HookedNet, data: Dataset, *, probes: int, seed: int, batch: int
) -> dict[int, records.InterlayerCushion]:
    """μ_{i,j} of every pair of blocks, under the first one's index; {} without probes."""
    if probes < 1 or len(net.blocks) < 2:
        return {}

    def work(x: Batch, rows: slice) -> dict[tuple[str, int, int], Tensor]:
        found: dict[tuple[str, int, int], Tensor] = {}
        squares = block_squares(net, x, probes, seed * (1 << 32) + rows.start)
        for source in net.blocks[:-1]:
            clean, images = _images(net, x, source)
            for j, image in images.items():
                squared, error = squares[source.index, j]
                size, length = lengths(clean[source.index]), lengths(image)
                ratio = length * math.sqrt(source.places) / (squared.sqrt() * size)
                found["cushions", source.index, j] = ratio
                gap = (length - lengths(clean[j])).abs() / lengths(clean[j])
                found["gaps", source.index, j] = gap
                if error is not None:
                    found["errors", source.index, j] = error / (2 * squared)
        return found

    by_pair = stream(net, data, batch, work, "all pairs of blocks")
    cushions = {}
    for source in net.blocks[:-1]:
        pairs = []
        for later in net.blocks[source.index + 1 :]:
            key = source.index, later.index
            spread = describe(by_pair["cushions", *key], "min", _PAIR_BINS)
            if spread is None:
                continue
            errors, gaps = by_pair.get(("errors", *key)), by_pair["gaps", *key]
            error = None if errors is None else float(np.nanmean(errors))
            gap = float(np.nanmax(gaps)) if np.isfinite(gaps).any() else math.nan
            exact = errors is None
            pairs.append(records.PairCushion(later.name, spread.value, exact, error, gap, spread))
        if pairs:
            smallest = min(pair.value for pair in pairs)
            cushions[source.index] = records.InterlayerCushion(smallest, tuple(pairs))
    return cushions


def block_squares(
    net: HookedNet, x: Batch, probes: int, seed: int
) -> dict[tuple[int, int], tuple[Tensor, Tensor | None]]:
    """‖J^{i,j}‖_F² of every pair and example, and its standard error (None: exact): [B] float64.

    E‖Jᵀv‖² = ‖J‖_F² for standard normal v; one vector at block j passes back to all blocks before
    it. Where j has no more numbers than there would be probes, every unit vector is used instead.
    """
    chain = {block.index: _identity for block in net.blocks[1:]}
    found: dict[tuple[int, int], tuple[Tensor, Tensor | None]] = {}
    with torch.enable_grad(), _differentiable():
        values = net.chain.outputs(x, {0: _leaf, **chain})
        for later in net.blocks[1:]:
            target, before = values[later.index], values[: later.index]
            size = math.prod(later.shape)
            exact = size <= probes
            generator = probe_generator(seed, "block probes", later.index)
            squares = []
            for at in range(size if exact else probes):
                if exact:
                    vector = torch.zeros_like(target)
                    vector.flatten(1)[:, at] = 1
                else:
                    drawn = torch.randn(target.shape, generator=generator, dtype=torch.float32)
                    vector = drawn.to(target)
                gradients = torch.autograd.grad(target, before, vector, retain_graph=True)
                squares.append(torch.stack([lengths(one) ** 2 for one in gradients]))
            whole = torch.stack(squares)  # [vectors, i, B]
            for i in range(later.index):
                part = whole[:, i].detach()
                if exact:
                    found[i, later.index] = part.sum(0), None
                else:
                    error = part.std(0) / math.sqrt(probes) if probes > 1 else part[0] * math.inf
                    found[i, later.index] = part.mean(0), error
    return found


def measure_block_smoothness(
    net: HookedNet, data: Dataset, noise: Noise, *, draws: int, seed: int, batch: int
) -> SmoothnessDraws:
    """ρ of Gaussian noise at every block but the last, in each of `draws` draws."""
    found = SmoothnessDraws(net.blocks)
    for draw in progress(range(draws), "smoothness of blocks", "draw"):

        def work(rows: slice, draw: int = draw) -> dict[tuple[str, int, int], Samples]:
            x, answers = feed(data, rows, net), {}
            for source in net.blocks[:-1]:
                ratios, size = _smoothness(net, x, source, noise, (seed, draw, rows.start))
                for j, ratio in ratios.items():
                    answers["pair", source.index, j] = Samples.of(rows.start, ratio.cpu().numpy())
                answers["norm", source.index, 0] = Samples.of(rows.start, size.cpu().numpy())
            return answers

        merged = map_shards(len(data), batch, work, describe=f"smoothness, draw {draw + 1}/{draws}")
        for source in net.blocks[:-1]:
            i = source.index
            later = {j: merged["pair", i, j].values() for j in range(i + 1, len(net.blocks))}
            found.examples.setdefault(i, []).append(
                np.min(list(later.values()), axis=0).astype(np.float32)
            )
            found.norms.setdefault(i, []).append(float(np.nanmean(merged["norm", i, 0].values())))
            for j, values in later.items():
                found.pairs.setdefault((i, j), []).append(float(values.min()))
    return found


def _smoothness(
    net: HookedNet, x: Batch, source: Block, noise: Noise, seeds: Sequence[int]
) -> tuple[dict[int, Tensor], Tensor]:
    """ρ of one draw for every later block, [B] each, and ‖η‖/‖x^i‖."""
    seed, draw, start = seeds
    with torch.no_grad():
        clean = net.chain.outputs(x)
        signal = clean[source.index]
        eta = noise.scale(
            gaussian_like(signal, seed, "block smoothness", draw, start, source), signal
        )
        moved = net.chain.outputs(x, {source.index: lambda value: value + eta})
    with _differentiable():
        linear = net.chain.jvp(x, source, lambda _: eta)
    relative = lengths(eta) / lengths(signal)
    found = {}
    for later in net.blocks[source.index + 1 :]:
        image, value = linear[later.index], clean[later.index]
        pushed = torch.zeros_like(value) if image is None else image
        found[later.index] = departure(relative, value, moved[later.index] - value, pushed)
    return found, relative


def _images(net: HookedNet, x: Batch, source: Block) -> tuple[list[Tensor], dict[int, Tensor]]:
    """The blocks' own results, and J^{i,j} x^i at every later block."""
    with torch.no_grad(), _differentiable():
        clean = net.chain.outputs(x)
        pushed = net.chain.jvp(x, source, lambda value: value.clone())
    return clean, {
        j: torch.zeros_like(clean[j]) if (part := pushed[j]) is None else part
        for j in range(source.index + 1, len(net.blocks))
    }


@contextmanager
def _differentiable() -> Iterator[None]:
    """Attention by plain products: its fused kernels have no forward derivative."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):  # type: ignore[no-untyped-call, unused-ignore]
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _identity(value: Tensor) -> Tensor:
    return value


def _leaf(value: Tensor) -> Tensor:
    return value.detach().requires_grad_()
