"""The certified classifier: a net of integers whose outputs are the same on every machine.

Inputs are small whole numbers (see `inputs`). Convolutions and dense layers have integer weights and biases; between
layers stand ReLU and a right shift (a floor), maximum or sum pooling. If Σ|w|·max|x| + |b| is below 2^53 for every
output, each partial sum is an integer that float64 holds exactly, in any order of addition: plain matrix products then
give the same count on every machine, thread count and batch size. The range is proved per layer when a net is made,
and a net that could overflow is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.encoding import symmetry as tying
from cushion.encoding.evaluation import convolve, pool
from cushion.encoding.inputs import Input
from cushion.encoding.sources import EXACT, Grid, Integers, Source
from cushion.errors import BadInput, Malformed

EXACT_SINGLE = 2**24  # float32 holds every integer below this
# Limits on one net, so that a hostile file costs little time and memory.
MOST_WEIGHTS = 10**6
MOST_DECISIONS = 4 * 10**6  # weights times (levels + 1): a weight takes at most so many coded decisions
MOST_ACTIVATIONS = 2**20  # of one example at one layer
MOST_PATCHES = 2**22  # values that a convolution reads for one example, each as often as a window covers it
MOST_WORK = 2**28  # multiplications of one example
MOST_WEIGHT = 2**42
MOST_SHIFT = 52
MOST_BIAS_BITS = 40


@dataclass(frozen=True)
class Feature:
    """What flows between layers: (channels, height, width) or (values,), and the symmetry that its channels carry."""

    shape: tuple[int, ...]
    symmetry: int = 1


@dataclass(frozen=True, eq=False)
class Dense:
    """out[o] = Σ_i weight[o, i]·x[i] + bias[o], x flattened in C order.

    With symmetry > 1 (the input's own) the stored weights are those of one group element, [o, channels/|G|, h, w].
    """

    source: Source
    bias: Integers | None
    bias_shift: int
    shift: int  # right shift after ReLU; the last layer has neither and carries 0 here
    symmetry: int = 1

    @cached_property
    def weight(self) -> Integers:
        """[out, in]"""
        numbers = self.source.numbers
        if self.symmetry > 1:
            numbers = numbers.reshape(-1)[tying.invariant(numbers.shape, self.symmetry)]
        return numbers.reshape(len(numbers), -1)

    @property
    def offsets(self) -> Integers | None:
        """[out] biases as they are added."""
        return None if self.bias is None else self.bias << self.bias_shift


@dataclass(frozen=True, eq=False)
class Conv:
    """Cross-correlation with zero padding and output side ⌊(n + 2·padding - k)/stride⌋ + 1.

    groups 0 means depthwise: every channel has its own filter. With symmetry > 1 each stored filter is used in all
    its positions (see `symmetry`); stored as [o, i/groups, k, k], or [o, i/groups, |G|, k, k] where the input carries
    the same symmetry.
    """

    source: Source
    bias: Integers | None
    bias_shift: int
    shift: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    symmetry: int = 1

    @cached_property
    def weight(self) -> Integers:
        """[out, in/groups, k, k]"""
        numbers = self.source.numbers
        if numbers.ndim == 5:
            return numbers.reshape(-1)[tying.regular(numbers.shape, self.symmetry)]
        return numbers.reshape(-1)[tying.lifted(numbers.shape, self.symmetry)]

    @property
    def offsets(self) -> Integers | None:
        """[out] biases as they are added, one stored number for all positions of a filter."""
        return None if self.bias is None else np.repeat(self.bias << self.bias_shift, self.symmetry)


@dataclass(frozen=True)
class Pool:
    """size × size windows side by side (a remainder at the edge is dropped): the maximum, or the sum."""

    kind: str  # "max" | "sum"
    size: int


Layer = Dense | Conv | Pool


@dataclass(frozen=True, eq=False)
class IntegerNet:
    """input_shape: (channels, height, width); the last layer is Dense and gives one score a class."""

    input_shape: tuple[int, int, int]
    input: Input
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        prove_range(self)

    @cached_property
    def _memory(self) -> int:
        """The most values that one example needs at once."""
        features = features_of(self)
        patches = [
            _patches(layer, after.shape)
            for layer, after in zip(self.layers, features[1:], strict=True)
            if not isinstance(layer, Pool)
        ]
        return max(*patches, *(math.prod(feature.shape) for feature in features))

    @cached_property
    def _floats(self) -> type[np.floating[Any]]:
        """The narrowest float type that holds every sum exactly; both give the same integers."""
        return np.float32 if prove_range(self) < EXACT_SINGLE else np.float64

    @property
    def classes(self) -> int:
        return features_of(self)[-1].shape[0]

    @property
    def weights(self) -> int:
        """How many weights and biases are stored or made from a seed; each counts once, however often it is used."""
        return sum(
            math.prod(layer.source.shape) + (0 if layer.bias is None else layer.bias.size)
            for layer in self.layers
            if not isinstance(layer, Pool)
        )

    def fault(self, x: NDArray[Any]) -> str:
        """Why the net cannot read such inputs; empty if it can."""
        if math.prod(x.shape[1:]) != math.prod(self.input_shape):
            return f"the net reads inputs of shape {self.input_shape}, not {x.shape[1:]}"
        return self.input.fault(x)

    def scores(self, x: NDArray[Any]) -> Integers:
        """x: [n, *input_shape] (any shape with as many entries) -> [n, classes] exact integer scores."""
        if fault := self.fault(x):
            raise BadInput(fault)
        flat = self.input.read(x.reshape(len(x), -1), self._floats)
        values: NDArray[Any] = flat.reshape(len(x), *self.input_shape)
        for index, layer in enumerate(self.layers):
            if isinstance(layer, Pool):
                values = pool(values, layer.kind, layer.size)
                continue
            if isinstance(layer, Dense):
                values = values.reshape(len(values), -1) @ layer.weight.T.astype(values.dtype)
                if layer.offsets is not None:
                    values = values + layer.offsets.astype(values.dtype)
            else:
                values = convolve(values, layer.weight, layer.offsets, layer.stride, layer.padding)
            if index + 1 < len(self.layers):
                values = np.floor(np.maximum(values, 0) * values.dtype.type(2.0**-layer.shift))  # exact: a power of two
        return values.astype(np.int64)

    def answers(self, x: NDArray[Any], batch: int | None = None, progress: bool = False) -> Integers:
        """[n] the class with the largest score of each row, or -1 where two classes tie for it."""
        from tqdm import tqdm

        if batch is None:
            batch = max(1, min(512, 2**24 // self._memory))
        found = np.empty(len(x), dtype=np.int64)
        starts = range(0, len(x), batch)
        disable = None if progress else True
        for start in tqdm(starts, desc="counting errors", unit="batch", disable=disable, delay=2, leave=False):
            scores = self.scores(np.asarray(x[start : start + batch]))
            top = scores.max(axis=1, keepdims=True)
            unique = (scores == top).sum(axis=1) == 1
            found[start : start + batch] = np.where(unique, scores.argmax(axis=1), -1)
        return found

    def errors(self, x: NDArray[Any], y: NDArray[np.int64], batch: int | None = None, progress: bool = False) -> int:
        """How many rows are misclassified; a tie for the top score is an error. The batch changes memory only."""
        return int((self.answers(x, batch, progress) != y).sum())


def features_of(net: IntegerNet) -> list[Feature]:
    """The input and what is behind each layer."""
    features = [Feature(tuple(net.input_shape))]
    for layer in net.layers:
        features.append(feature_after(features[-1], layer))
    return features


def stored_shape(before: Feature, outputs: int, side: int, groups: int, symmetry: int) -> tuple[int, ...]:
    """Shape of a convolution's stored numbers on this input; Malformed where groups or symmetry do not fit."""
    regular = symmetry > 1 and before.symmetry == symmetry
    channels = before.shape[0] // symmetry if regular else before.shape[0]
    if groups == 0:
        if outputs != channels or (symmetry > 1 and not regular):
            raise Malformed("a depthwise convolution keeps the channels and the symmetry of its input")
        return (outputs, 1, side, side)
    if groups < 0 or channels % groups or outputs % groups:
        raise Malformed(f"{groups} groups do not divide {channels} input and {outputs} output channels")
    return (outputs, channels // groups, *([symmetry] if regular else []), side, side)


def feature_after(before: Feature, layer: Layer) -> Feature:
    """What is behind a layer; a layer that does not fit is Malformed."""
    if isinstance(layer, Dense):
        stored: tuple[int, ...] = (math.prod(before.shape),)
        if layer.symmetry > 1:
            if layer.symmetry != before.symmetry or len(before.shape) != 3:
                raise Malformed("an invariant dense layer needs a feature map of its own symmetry before it")
            stored = (before.shape[0] // layer.symmetry, *before.shape[1:])
            if layer.symmetry > 2 and stored[1] != stored[2]:
                raise Malformed(f"quarter turns need a square feature map, not {stored[1]}x{stored[2]}")
        if layer.source.shape[1:] != stored:
            raise Malformed(f"a dense layer of shape {layer.source.shape} does not fit {before.shape}")
        return Feature((layer.source.shape[0],))
    if len(before.shape) != 3:
        raise Malformed("a convolution or pooling cannot follow a dense layer")
    if isinstance(layer, Pool):
        if layer.kind not in ("max", "sum") or layer.size < 2:
            raise Malformed(f"pooling must be 'max' or 'sum' over at least 2x2, not {layer.kind!r} {layer.size}")
        sides = [side // layer.size for side in before.shape[1:]]
        channels, symmetry = before.shape[0], before.symmetry
    else:
        if layer.symmetry not in tying.ORDERS or len(layer.source.shape) not in (4, 5):
            raise Malformed(f"a convolution of shape {layer.source.shape} and symmetry {layer.symmetry} is not one")
        k = layer.source.shape[-1]
        outputs = layer.source.shape[0]
        if layer.source.shape != stored_shape(before, outputs, k, layer.groups, layer.symmetry):
            raise Malformed(f"a convolution of shape {layer.source.shape} does not fit {before.shape}")
        if layer.stride < 1 or not 0 <= layer.padding < k:
            raise Malformed(f"a {k}x{k} convolution with padding {layer.padding} is not in the grammar")
        sides = [(side + 2 * layer.padding - k) // layer.stride + 1 for side in before.shape[1:]]
        channels, symmetry = outputs * layer.symmetry, layer.symmetry
    if min(sides) < 1:
        raise Malformed(f"nothing is left of a {before.shape} feature map behind a layer")
    return Feature((channels, *sides), symmetry)


def check_sizes(shape: tuple[int, int, int], quantiser: Input, layers: tuple[Layer, ...]) -> None:
    """Malformed unless shapes fit and the format's limits hold; looks at no weight."""
    if len(shape) != 3 or min(shape) < 1:
        raise Malformed(f"the input shape {shape} must be channels, height and width")
    quantiser.check(math.prod(shape))
    if not layers or not isinstance(layers[-1], Dense):
        raise Malformed("the last layer must be dense, with one score a class")
    before = Feature(tuple(shape))
    work = used = decisions = 0
    for index, layer in enumerate(layers):
        after = feature_after(before, layer)
        if max(math.prod(before.shape), math.prod(after.shape)) > MOST_ACTIVATIONS:
            raise Malformed(f"a feature map of shape {after.shape} is larger than the format allows")
        if not isinstance(layer, Pool):
            patches = _patches(layer, after.shape)
            if patches > MOST_PATCHES:
                raise Malformed(f"a layer of shape {layer.source.shape} reads more values than the format allows")
            work += _work(layer, after.shape)
            used += math.prod(layer.source.shape) * layer.symmetry
            decisions += math.prod(layer.source.shape) * (
                layer.source.levels + 1 if isinstance(layer.source, Grid) else 1
            )
            if getattr(layer.source, "layer", index + 1) != index + 1:
                raise Malformed("a seeded layer must carry its own place in the net")
        if work > MOST_WORK:
            raise Malformed(f"more than the {MOST_WORK} multiplications an example that the format allows")
        if used > MOST_WEIGHTS or decisions > MOST_DECISIONS:
            raise Malformed(
                f"more than the {MOST_WEIGHTS} weights or {MOST_DECISIONS} decisions that the format allows"
            )
        before = after
    if len(before.shape) != 1 or before.shape[0] < 2:
        raise Malformed("a classifier needs at least two classes")


def prove_range(net: IntegerNet) -> int:
    """The largest magnitude that any sum can reach on any input.

    Raises Malformed unless shapes fit, limits hold and that magnitude is below 2^53.
    """
    check_sizes(net.input_shape, net.input, net.layers)
    largest = net.input.largest  # all values between layers are integers in 0..largest
    reach = largest
    for layer in net.layers:
        if isinstance(layer, Pool):
            largest *= layer.size**2 if layer.kind == "sum" else 1
            reach = max(reach, largest)
        else:
            largest = _largest_output(layer, largest)
            reach = max(reach, largest)
            largest >>= layer.shift
        if reach >= EXACT:
            raise Malformed("a sum could leave the exact range of ±2^53, so two machines could disagree")
    return reach


def _patches(layer: Dense | Conv, after: tuple[int, ...]) -> int:
    """How many values the matrix products of a layer read for one example."""
    if isinstance(layer, Dense):
        return math.prod(layer.source.shape[1:]) * layer.symmetry
    positions = math.prod(after[1:])
    depth = math.prod(layer.source.shape[1:])  # values that one output reads
    return positions * depth * (layer.groups or after[0])


def _work(layer: Dense | Conv, after: tuple[int, ...]) -> int:
    """Multiplications of a layer for one example."""
    reads = math.prod(layer.source.shape[1:]) * (layer.symmetry if isinstance(layer, Dense) else 1)
    return reads * math.prod(after)


def _largest_output(layer: Dense | Conv, largest: int) -> int:
    source = layer.source
    if not 0 <= layer.shift <= MOST_SHIFT or not 0 <= layer.bias_shift <= MOST_BIAS_BITS:
        raise Malformed(f"a shift of {layer.shift} or {layer.bias_shift} is outside the format")
    if isinstance(source, Grid) and (source.levels < 1 or np.abs(source.values).max(initial=0) > source.levels):
        raise Malformed(f"a weight lies outside -{source.levels}..{source.levels}")
    if any(numbers is not None and numbers.dtype != np.int64 for numbers in (source.numbers, layer.bias)):
        raise Malformed("weights and biases must be 64-bit integers")
    if layer.bias is not None and layer.bias.shape != source.shape[:1]:
        raise Malformed("a layer must have one bias an output")
    weight = np.abs(layer.weight.reshape(len(layer.weight), -1))
    if weight.max(initial=0) >= MOST_WEIGHT:
        raise Malformed(f"a weight of {weight.max()} is beyond the format's limit of {MOST_WEIGHT}")
    sums = weight.sum(axis=1).tolist()  # below 2^42 · 10^6, so nothing wraps; from here on in Python's integers
    biases = [0] * len(sums)
    if layer.bias is not None:
        repeat = len(sums) // len(layer.bias)
        biases = [abs(b) << layer.bias_shift for b in layer.bias.tolist() for _ in range(repeat)]
    return int(max(s * largest + b for s, b in zip(sums, biases, strict=True)))
