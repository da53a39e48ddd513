"""A compressed net as an exact integer net with the same stored integers, so that the real
certificate is about it.

Between the layers of the float net stand real factors: the grid's power of two, Algorithm 1's 1/k,
a mean's divisor, a byte's 1/255. A positive factor passes through ReLU, maxima and sums, so all of
them gather in one running scale, which ends as a common factor of the scores that no answer depends
on. What is lost is what right shifts cut off: of weights that a product or a projection makes, and
of activations.

A value of the float net is about scale · (integer + offset); only a quantiser of float inputs has
an offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.certificates.format import inputs, limits
from cushion.certificates.format.arithmetic import MOST_DECISIONS
from cushion.certificates.format.inputs import Bytes, Floats, Input
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Layer, Pool
from cushion.certificates.format.sources import EXACT, Grid, Integers, Values
from cushion.compressors.storage.exact_layers import (
    ExactWeight,
    Image,
    Pooling,
    Step,
    Weighted,
    coded_decisions,
    steps_of,
)
from cushion.compressors.storage.stored import Numbers, StoredLayer
from cushion.compressors.storage.stored_net import about
from cushion.data.dataset import Dataset
from cushion.errors import Malformed, Unsupported
from cushion.nets.network import Network, Node, Stage

_LOOKED_AT = 1024  # examples that choose the shifts
_BIAS_BITS = 16  # of a bias that has no grid of its own
# of the largest number: far above float32's rounding, far below the distance of another net
_SAME = 1e-5
# of weights that are made: ⌊·⌋ takes half a unit off each, which adds up over the inputs
_WEIGHT_BITS = (16, 14, 12)
_FEWEST = 4  # bits of activations


@dataclass(frozen=True, eq=False)
class _Layer:
    """An affine layer before its shifts are chosen; beside: the bias that is stored beside it."""

    step: Weighted
    exact: ExactWeight
    beside: Numbers | None

    @cached_property
    def numbers(self) -> Integers:
        """The weight over its unit, [*step.shape]."""
        return self.exact.source(0).numbers

    @cached_property
    def bias(self) -> list[Fraction] | None:
        own = self.step.node.affine.bias
        if own is None:
            return None
        values = own.double().numpy() if self.beside is None else self.beside.values
        return [Fraction(value) for value in values.tolist()]

    @property
    def bias_bits(self) -> int:
        if self.beside is None:
            return _BIAS_BITS
        return max(1, int(np.abs(self.beside.integers).max(initial=0)).bit_length())


_Part = Pooling | _Layer


def to_integer_net(
    net: Network,
    layers: Sequence[StoredLayer],
    biases: Sequence[Numbers | None],
    seed: int,
    sample: Dataset,
    *,
    activation_bits: int = 10,
) -> IntegerNet:
    """The compressed net `net`, rebuilt from `layers`, `biases` and the seed, as an integer net.

    It answers as `net` but for rounding, and its weights are made of the very integers that are
    stored; biases are rounded to as many bits as they had. The sample chooses the shifts:
    activations take about `activation_bits` bits (4 to 24), or fewer if only then every sum
    provably stays below 2^53. Unsupported for what the format of certificates cannot hold.
    """
    size = sum(node.affine.operator.parameters for node in net.affine_layers)
    if size > limits.MOST_WEIGHTS:
        raise Unsupported(f"{size} weights are more than a certificate's {limits.MOST_WEIGHTS}")
    for node, layer in zip(net.affine_layers, layers, strict=True):
        if layer.not_exact:
            raise Unsupported(f"layer {node.name}: {layer.not_exact}")
    shape, steps = steps_of(net, nonnegative=sample.x.dtype == np.uint8)
    padded = next(step for step in steps if isinstance(step, Weighted)).padded
    parts = _prepare(shape, steps, layers, biases, seed)
    largest = _largest_outputs(net, sample)
    problem = Malformed("")
    for weight_bits, bits in _precisions(activation_bits):
        quantiser, scale, offset = _quantiser(sample.x, bits, padded)
        try:
            drafts = _drafts(parts, largest, scale, offset, weight_bits, bits)
            limits.prove_range(shape, quantiser, tuple(layer for layer, _ in drafts))
        except Malformed as refused:
            problem = refused
            continue
        return IntegerNet(shape, quantiser, _with_sources(parts, drafts))
    raise Unsupported(f"too deep for a certificate, even with {_FEWEST} bits: {problem}")


def _prepare(
    shape: Image,
    steps: Sequence[Step],
    layers: Sequence[StoredLayer],
    biases: Sequence[Numbers | None],
    seed: int,
) -> list[_Part]:
    """The steps with their numbers: within the limits before any is made, the net's own after."""
    stored = iter(zip(layers, biases, strict=True))
    parts: list[_Part] = []
    empty: list[Layer] = []
    for place, step in enumerate(steps, 1):
        if isinstance(step, Pooling):
            parts.append(step)
            empty.append(step.pool)
            continue
        layer, bias = next(stored)
        with about(step.node, Unsupported):
            exact = layer.exact(step.shape, seed, place)
            if exact.only_last and step is not steps[-1]:
                raise Unsupported(exact.only_last)
        parts.append(_Layer(step, exact, bias))
        empty.append(step.layer(exact.source(0), None, 0, 0))
    try:
        limits.check_sizes(shape, Bytes(0), tuple(empty))
    except Malformed as problem:
        raise Unsupported(f"a certificate cannot hold this net: {problem}") from None
    for part in parts:
        if isinstance(part, _Layer):
            with about(part.step.node, Unsupported):
                _check_same(part, last=part is parts[-1])
    return parts


def _check_same(part: _Layer, *, last: bool) -> None:
    """Unsupported unless the net has the weight and bias that the stored numbers make."""
    affine, numbers = part.step.node.affine, part.numbers
    weight = affine.operator.weight.double().reshape(numbers.shape).numpy()
    made = numbers * float(part.exact.unit)
    if last:  # answers compare its rows, so only their differences count
        weight, made = weight - weight[:1], made - made[:1]
    pairs = [(weight, made)]
    if part.beside is not None:
        own = np.zeros(1) if affine.bias is None else affine.bias.double().numpy()
        pairs.append((own, part.beside.values))
    for theirs, ours in pairs:
        same = theirs.shape == ours.shape
        if not (same and np.abs(theirs - ours).max() <= _SAME * np.abs(theirs).max()):
            raise Unsupported("the net's numbers are not those that its stored integers make")


def _largest_outputs(net: Network, sample: Dataset) -> dict[int, float]:
    """The largest output of every affine layer, by node, on some examples; at least 0."""
    rows = np.ascontiguousarray(sample.x[:: -(-len(sample) // _LOOKED_AT)])
    x = torch.from_numpy(rows).to(net.device, net.dtype).reshape(-1, *net.input_shape)
    found: dict[int, float] = {}

    def observe(node: Node, stage: Stage, values: Tensor) -> None:
        if stage == "output":
            found[node.index] = max(found.get(node.index, 0.0), float(values.max()))

    for batch in torch.split(x / 255 if rows.dtype == np.uint8 else x, 64):
        net.run(batch, observe)
    return found


def _precisions(activation_bits: int) -> Iterator[tuple[int, int]]:
    """Bits of weights that are made and of activations, the finest first."""
    yield from ((weight_bits, activation_bits) for weight_bits in _WEIGHT_BITS)
    for fewer in range(1, activation_bits - _FEWEST + 1):
        yield max(8, _WEIGHT_BITS[-1] - fewer), activation_bits - fewer


def _quantiser(x: NDArray[Any], bits: int, padded: bool) -> tuple[Input, Fraction, Fraction]:
    """How inputs become integers, with the scale and offset by which these are read.

    Floats share one window around all of them: windows of their own would scale the columns of a
    weight. Around padding it begins at 0, where padding lies; elsewhere the middle of a step stands
    for it.
    """
    if x.dtype == np.uint8:
        return Bytes(0), Fraction(1, 255), Fraction(0)
    width = min(bits, inputs.MOST_WIDTH)
    low, high = float(x.min()), float(x.max())
    if padded and low < 0:
        raise Unsupported("the first layer pads inputs that may be negative")
    low = 0.0 if padded else low
    exponent = math.floor(math.log2((2**width - 1) / max(high - low, 2.0**-100)))
    exponent = max(-inputs.MOST_EXPONENT, min(inputs.MOST_EXPONENT, exponent))
    while abs(math.floor(math.ldexp(low, exponent))) > inputs.MOST_OFFSET:
        exponent -= 1
    offset = math.floor(math.ldexp(low, exponent))
    scale, middle = Fraction(2) ** -exponent, offset + Fraction(not padded, 2)
    return Floats(width, (exponent,), (offset,)), scale, middle


def _drafts(
    parts: Sequence[_Part],
    largest: Mapping[int, float],
    scale: Fraction,
    offset: Fraction,
    weight_bits: int,
    bits: int,
) -> list[tuple[Layer, int]]:
    """Layers with plain weights, and each weight's shift; Malformed where a bias is too large."""
    drafts: list[tuple[Layer, int]] = []
    for part in parts:
        if isinstance(part, Pooling):
            drafts.append((part.pool, 0))
            offset *= part.pool.size**2 if part.pool.kind == "sum" else 1
            scale /= part.divisor
            continue
        down = 0 if part.exact.fixed else _excess(int(np.abs(part.numbers).max()), weight_bits)
        weight = part.numbers >> down
        scale *= part.exact.unit * 2**down
        shift = 0
        if part is not parts[-1]:
            before_relu = Fraction(largest[part.step.node.index])
            shift = min(limits.MOST_SHIFT, _excess(int(before_relu / scale), bits))
        added, bias_bits = part.bias, part.bias_bits
        if offset:
            # what the offset adds may be far larger than the bias
            bias_bits = max(bias_bits, _BIAS_BITS)
            sums = weight.reshape(len(weight), -1).sum(axis=1).tolist()
            own = part.bias or [Fraction(0)] * len(sums)
            added = [b + scale * offset * s for b, s in zip(own, sums, strict=True)]
        # makes the floor of the shift a rounding, at no bits
        half = Fraction(1 << shift, 2) if shift else Fraction(0)
        wanted = None if added is None else [b / scale + half for b in added]
        drafts.append((part.step.layer(Values(weight), *_rounded(wanted, bias_bits), shift), down))
        scale, offset = scale * 2**shift, Fraction(0)
    return drafts


def _excess(number: int, bits: int) -> int:
    """Bits that the number has above so many."""
    return max(0, number.bit_length() - bits)


def _rounded(wanted: list[Fraction] | None, bits: int) -> tuple[Integers | None, int]:
    """Biases as whole numbers of at most about `bits` bits, and their shift."""
    largest = round(max(map(abs, wanted or [Fraction(0)])))
    if largest >= EXACT:
        raise Malformed("a bias leaves the exact range of ±2^53")
    shift = min(limits.MOST_BIAS_BITS, _excess(largest, bits))
    numbers = np.array([round(value / 2**shift) for value in wanted or []], dtype=np.int64)
    return (numbers, shift) if numbers.any() else (None, 0)


def _with_sources(parts: Sequence[_Part], drafts: Sequence[tuple[Layer, int]]) -> tuple[Layer, ...]:
    """The layers with the stored integers as they are coded; Unsupported if they are too many."""
    layers = [layer for layer, _ in drafts]
    for at, (part, (layer, down)) in enumerate(zip(parts, drafts, strict=True)):
        if isinstance(part, _Layer) and not isinstance(layer, Pool):
            layers[at] = replace(layer, source=part.exact.source(down))
    if _decisions(layers) > MOST_DECISIONS:  # a wide number takes fewer than a large one of a grid
        for at, layer in enumerate(layers):
            if not isinstance(layer, Pool) and isinstance(layer.source, Grid):
                layers[at] = replace(layer, source=Values(layer.source.coded))
    if (asked := _decisions(layers)) > MOST_DECISIONS:
        raise Unsupported(
            f"its numbers take {asked} decisions of the arithmetic code, and a certificate holds "
            f"at most {MOST_DECISIONS}; use fewer `number_bits`, a coarser `grid` or a smaller `k`"
        )
    return tuple(layers)


def _decisions(layers: Sequence[Layer]) -> int:
    total = 0
    for layer in layers:
        if not isinstance(layer, Pool):
            grid = isinstance(layer.source, Grid)
            total += coded_decisions(layer.source.coded, grid=grid)
            total += 0 if layer.bias is None else coded_decisions(layer.bias, grid=False)
    return total
