"""Noise stability of a net that hooks see: layers by themselves, and blocks among each other.

Layer cushions, contractions and sensitivities are as in a traced net, over all of the data; noise
is followed from any layer to every later one; what needs the derivative between layers is taken
between blocks (`stability.blocks`). Effective parameters need every pair of layers and stay out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.measures.distribution import describe
from cushion.measures.family import Context
from cushion.measures.probing import chosen_rows, lengths, stream
from cushion.measures.stability import effective, records
from cushion.measures.stability.blocks import measure_block_smoothness, measure_blocks
from cushion.measures.stability.effective import OnePass
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.stability.measurement import BUDGET
from cushion.measures.stability.noise import Noise, gaussian_like
from cushion.nets.batches import Batch
from cushion.nets.hooked.chain import Block
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Node

_Injected: TypeAlias = tuple[float, int, int, int]  # level, draw, source and later layer
_CHUNK = 1 << 22  # numbers in the largest activation of a shard


def measure_hooked(
    context: Context,
) -> tuple[
    dict[int, records.LayerStability], records.NetStability, tuple[records.BlockStability, ...]
]:
    """Layers under their nodes' indices, the whole net, and its blocks."""
    net, options = context.net, context.options
    assert isinstance(net, HookedNet)
    norms: OnePass = {key: part for key, part in context.passed.items() if key != "margins"}  # type: ignore[misc]
    count = options.examples or max(1, int(BUDGET / _cost(net, options)))
    some, rows = chosen_rows(context.data, count, options.seed, "noise stability")
    batch = _shard(net)
    curves = attenuation(net, some, options, batch) if options.attenuation_draws else {}
    layers = {node.index: _layer(net, node, norms, curves.get(node.index, ())) for node in net.seen}
    blocks, why = _blocks(net, some, options, batch)
    gaps = [
        pair.bias_gap for b in blocks if b.interlayer_cushion for pair in b.interlayer_cushion.pairs
    ]
    whole = records.NetStability(
        examples=len(rows),
        probes=options.probes,
        method="probes",
        zeta=options.zeta,
        seed=options.seed,
        activation_contraction=None,
        interlayer_smoothness=(),
        capacity=None,
        effective_parameters=None,
        effective_parameters_zeta=None,
        effective_parameters_from_initialisation=None,
        bias_gap=max(gaps, default=None),
        weights=context.weights,
        blocks_left_out=why,
    )
    return layers, whole, blocks


def attenuation(
    net: HookedNet, data: Dataset, options: StabilityOptions, batch: int
) -> dict[int, tuple[records.AttenuationCurve, ...]]:
    """Noise in each layer's input, followed to every later layer: a pass a layer, level and draw.

    Random: the noise, from the seed, the draw, the shard's first row and the layer.
    """
    draws = options.attenuation_draws

    def work(x: Batch, rows: slice) -> dict[_Injected, Tensor]:
        clean = {j: (t, lengths(t)) for j, t in net.outputs(x).items()}
        found: dict[_Injected, Tensor] = {}
        for level, draw, source in product(options.levels, range(draws), net.seen):
            for j, error in _errors(net, x, clean, source, _law(options.seed, level, draw, rows)):
                found[level, draw, source.index, j] = error
        return found

    values = stream(net, data, batch, work, "noise in every layer")
    curves: dict[int, tuple[records.AttenuationCurve, ...]] = {}
    for source in net.seen:
        reached = sorted(net.descendants(source.index) | {source.index})
        own = []
        for level in options.levels:
            every = {j: [values[level, d, source.index, j] for d in range(draws)] for j in reached}
            points = tuple(_point(net.nodes[j], errors) for j, errors in every.items())
            own.append(records.AttenuationCurve(level, draws, points))
        curves[source.index] = tuple(own)
    return curves


def _law(seed: int, level: float, draw: int, rows: slice) -> Callable[[Tensor, Node], Tensor]:
    """Gaussian noise of this relative norm for the input of a layer."""
    law = Noise("gaussian", level)

    def noise(signal: Tensor, node: Node) -> Tensor:
        raw = gaussian_like(signal, seed, f"attenuation {level}", draw, rows.start, node)
        return law.scale(raw, signal)

    return noise


def _errors(
    net: HookedNet,
    x: Batch,
    clean: Mapping[int, tuple[Tensor, Tensor]],
    source: Node,
    noise: Callable[[Tensor, Node], Tensor],
) -> list[tuple[int, Tensor]]:
    """‖x̂^j - x^j‖ / ‖x^j‖, [B], of the layer itself and every later one, by index; `clean` are
    the x^j and their lengths.
    """
    found: list[tuple[int, Tensor]] = []

    def visit(node: Node, t: Tensor) -> None:
        whole, length = clean[node.index]
        found.append((node.index, lengths(t - whole) / length))

    net.rerun(x, source, lambda signal: signal + noise(signal, source), visit)
    return found


def _point(node: Node, errors: Sequence[NDArray[np.float64]]) -> records.AttenuationPoint:
    means = []
    for values in errors:
        alive = values[np.isfinite(values)]  # an example with x^j = 0 has no relative error
        means.append(float(alive.mean()) if len(alive) else math.nan)
    spread = float(np.std(means, ddof=1) / math.sqrt(len(means))) if len(means) > 1 else None
    squares = np.sum([values**2 for values in errors], axis=0)
    sensitivity = float(np.fmax.reduce(squares)) / len(errors)
    return records.AttenuationPoint(node.name, float(np.mean(means)), spread, sensitivity)


def _layer(
    net: HookedNet, node: Node, norms: OnePass, curves: tuple[records.AttenuationCurve, ...]
) -> records.LayerStability:
    operator, after, contraction = node.affine.operator, net.next_layer(node), None
    if after is not None:
        contraction = describe(effective.activation_contractions(norms, node, after), "max")
    cushions = effective.layer_cushions(norms, node, operator.frobenius())
    noisy = effective.noise_sensitivities(norms, node, operator.operator_frobenius())
    return records.LayerStability(
        layer_cushion=describe(cushions, "min"),
        activation_contraction=contraction,
        noise_sensitivity=describe(noisy, "max"),
        interlayer_cushion=None,
        minimal_interlayer_cushion=None,
        jacobian_beta=None,
        interlayer_smoothness=(),
        noise_attenuation=curves,
        effective_parameters=None,
        from_initialisation=None,
    )


def _blocks(
    net: HookedNet, data: Dataset, options: StabilityOptions, batch: int
) -> tuple[tuple[records.BlockStability, ...], str]:
    """The chain of blocks; and why there is none, or nothing between them."""
    if len(net.blocks) < 2:
        return (), "no two modules with weights carry everything from the data to the scores"
    if net.detaches:
        return (), "its forward detaches a result, which derivatives between blocks would not see"
    how = {"seed": options.seed, "batch": batch}
    cushions: Mapping[int, records.InterlayerCushion] = {}
    drawn, why = None, ""
    noise = Noise("gaussian", options.levels[0])
    try:
        cushions = measure_blocks(net, data, probes=options.probes, **how)
        if options.draws:
            drawn = measure_block_smoothness(net, data, noise, draws=options.draws, **how)
    except (NotImplementedError, RuntimeError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        why = f"torch cannot differentiate between its blocks ({said[:200]})"

    def one(block: Block) -> records.BlockStability:
        smooth = None
        if drawn is not None and block.index in drawn.examples:
            smooth = drawn.describe(noise, options.delta, block)
        own = cushions.get(block.index)
        return records.BlockStability(block.name, block.kind, block.shape, own, smooth)

    return tuple(map(one, net.blocks)), why


def _cost(net: HookedNet, options: StabilityOptions) -> float:
    """Multiplications an example: each pass through the net counts as one of its layers' maps."""
    forward = sum(node.affine.operator.multiplications for node in net.seen)
    blocks = len(net.blocks)
    injected = len(net.seen) * len(options.levels) * options.attenuation_draws
    pulled = 2 * options.probes * blocks  # from the last block back; on average half of the way
    pushed = 3 * blocks * (1 + options.draws)
    return float(max(1, forward * (injected + pulled + pushed)))


def _shard(net: HookedNet) -> int:
    largest = max((math.prod(node.shape) for node in net.seen), default=1)
    return max(1, min(256, _CHUNK // max(1, largest)))
