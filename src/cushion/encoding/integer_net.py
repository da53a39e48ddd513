"""The certified classifier: a net of integers whose outputs are the same on every machine.

Inputs are uint8, shifted right by `input_shift`. Convolutions and dense layers have integer weights and
biases; between layers stand ReLU and a right shift (a floor), maximum or sum pooling. If Σ|w|·max|x| + |b| is
below 2^53 for every output, each partial sum is an integer that float64 holds exactly, in any order of addition:
plain matrix products then give the same count on every machine, thread count and batch size. The range is
proved per layer when a net is made, and a net that could overflow is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput, Malformed

EXACT = 2**53  # float64 holds every integer below this
EXACT_SINGLE = 2**24  # float32 does below this
# Limits on one net, so that a hostile file costs little time and memory.
MOST_WEIGHTS = 10**6
MOST_DECISIONS = 4 * 10**6  # weights times (levels + 1): a weight takes at most so many coded decisions
MOST_ACTIVATIONS = 2**20  # of one example at one layer
MOST_PATCHES = 2**22  # values that a convolution reads for one example, each as often as a window covers it
MOST_WORK = 2**28  # multiplications of one example
MOST_SHIFT = 52

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dense:
    """scores[o] = Σ_i weight[o, i]·x[i] + bias[o], x flattened in C order; weight: [out, in] in -levels..levels."""

    weight: Integers
    bias: Integers | None
    levels: int
    shift: int  # right shift after ReLU; the last layer has neither and carries 0 here


@dataclass(frozen=True, eq=False)
class Conv:
    """Cross-correlation with zero padding; weight: [out, in, k, k]; output side ⌊(n + 2·padding - k)/stride⌋ + 1."""

    weight: Integers
    bias: Integers | None
    levels: int
    shift: int
    stride: int
    padding: int


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
    input_shift: int
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        prove_range(self)

    @cached_property
    def _memory(self) -> int:
        """The most values that one example needs at once."""
        shapes: list[tuple[int, ...]] = [self.input_shape]
        for layer in self.layers:
            shapes.append(shape_after(shapes[-1], layer))
        patches = [_patches(layer, after) for layer, after in zip(self.layers, shapes[1:], strict=True)]
        return max(*patches, *map(math.prod, shapes))

    @cached_property
    def _floats(self) -> type[np.floating[Any]]:
        """The narrowest float type that holds every sum exactly; both give the same integers."""
        return np.float32 if prove_range(self) < EXACT_SINGLE else np.float64

    @property
    def classes(self) -> int:
        last = self.layers[-1]
        assert isinstance(last, Dense)
        return len(last.weight)

    @property
    def weights(self) -> int:
        """How many weights and biases there are."""
        return sum(
            layer.weight.size + (0 if layer.bias is None else layer.bias.size)
            for layer in self.layers
            if not isinstance(layer, Pool)
        )

    def scores(self, x: NDArray[np.uint8]) -> Integers:
        """x: [n, *input_shape] uint8 (any shape with as many entries) -> [n, classes] exact integer scores."""
        if x.dtype != np.uint8 or math.prod(x.shape[1:]) != math.prod(self.input_shape):
            raise BadInput(f"the net reads uint8 inputs of shape {self.input_shape}, not {x.dtype} {x.shape[1:]}")
        values: NDArray[Any] = (x >> self.input_shift).reshape(len(x), *self.input_shape).astype(self._floats)
        for index, layer in enumerate(self.layers):
            if isinstance(layer, Pool):
                values = _pool(values, layer)
                continue
            values = _dense(values, layer) if isinstance(layer, Dense) else _conv(values, layer)
            if index + 1 < len(self.layers):
                values = np.floor(np.maximum(values, 0) * values.dtype.type(2.0**-layer.shift))  # exact: a power of two
        return values.astype(np.int64)

    def errors(
        self, x: NDArray[np.uint8], y: NDArray[np.int64], batch: int | None = None, progress: bool = False
    ) -> int:
        """How many rows are misclassified; a tie for the top score is an error. The batch changes memory only."""
        from tqdm import tqdm

        wrong = 0
        if batch is None:
            batch = max(1, min(512, 2**24 // self._memory))
        starts = range(0, len(x), batch)
        disable = None if progress else True
        for start in tqdm(starts, desc="counting errors", unit="batch", disable=disable, delay=2, leave=False):
            scores = self.scores(np.asarray(x[start : start + batch]))
            labels = y[start : start + batch]
            rows = np.arange(len(labels))
            own = scores[rows, labels]
            scores[rows, labels] = np.iinfo(np.int64).min
            wrong += int((own <= scores.max(axis=1)).sum())
        return wrong


def _dense(values: NDArray[Any], layer: Dense) -> NDArray[Any]:
    out: NDArray[Any] = values.reshape(len(values), -1) @ layer.weight.T.astype(values.dtype)
    return out if layer.bias is None else out + layer.bias.astype(values.dtype)


def _conv(values: NDArray[Any], layer: Conv) -> NDArray[Any]:
    out, channels, k, _ = layer.weight.shape
    pad = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(2, 3))
    windows = windows[:, :, :: layer.stride, :: layer.stride]  # [n, in, h, w, k, k]
    n, _, h, w = windows.shape[:4]
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, channels * k * k)
    flat = columns @ layer.weight.reshape(out, -1).T.astype(values.dtype)
    if layer.bias is not None:
        flat = flat + layer.bias.astype(values.dtype)
    maps: NDArray[Any] = flat.reshape(n, h, w, out).transpose(0, 3, 1, 2)
    return maps


def _pool(values: NDArray[Any], layer: Pool) -> NDArray[Any]:
    n, c, h, w = values.shape
    s = layer.size
    blocks = values[:, :, : h // s * s, : w // s * s].reshape(n, c, h // s, s, w // s, s)
    pooled: NDArray[Any] = blocks.max(axis=(3, 5)) if layer.kind == "max" else blocks.sum(axis=(3, 5))
    return pooled


def shape_after(shape: tuple[int, ...], layer: Layer) -> tuple[int, ...]:
    """Feature shape behind a layer; a layer that does not fit is Malformed."""
    if isinstance(layer, Dense):
        if layer.weight.ndim != 2 or layer.weight.shape[1] != math.prod(shape):
            raise Malformed(f"a dense layer of shape {layer.weight.shape} does not fit {shape}")
        return (len(layer.weight),)
    if len(shape) != 3:
        raise Malformed("a convolution or pooling cannot follow a dense layer")
    if isinstance(layer, Pool):
        if layer.kind not in ("max", "sum") or layer.size < 2:
            raise Malformed(f"pooling must be 'max' or 'sum' over at least 2x2, not {layer.kind!r} {layer.size}")
        sides = [side // layer.size for side in shape[1:]]
        channels = shape[0]
    else:
        if layer.weight.ndim != 4 or layer.weight.shape[1] != shape[0]:
            raise Malformed(f"a convolution of shape {layer.weight.shape} does not fit {shape}")
        k = layer.weight.shape[2]
        if layer.weight.shape[3] != k or layer.stride < 1 or not 0 <= layer.padding < k:
            raise Malformed(
                f"a {layer.weight.shape[2:]} convolution with padding {layer.padding} is not in the grammar"
            )
        sides = [(side + 2 * layer.padding - k) // layer.stride + 1 for side in shape[1:]]
        channels = len(layer.weight)
    if min(sides) < 1:
        raise Malformed(f"nothing is left of a {shape} feature map behind a layer")
    return (channels, *sides)


def prove_range(net: IntegerNet) -> int:
    """The largest magnitude that any sum can reach on any uint8 input.

    Raises Malformed unless shapes fit, limits hold and that magnitude is below 2^53.
    """
    if len(net.input_shape) != 3 or min(net.input_shape) < 1:
        raise Malformed(f"the input shape {net.input_shape} must be channels, height and width")
    if not 0 <= net.input_shift <= 7:
        raise Malformed(f"an input shift of {net.input_shift} must lie between 0 and 7")
    if not net.layers or not isinstance(net.layers[-1], Dense):
        raise Malformed("the last layer must be dense, with one score a class")
    if net.weights > MOST_WEIGHTS:
        raise Malformed(f"{net.weights} weights are more than the {MOST_WEIGHTS} that the format allows")
    if (
        sum(layer.weight.size * (layer.levels + 1) for layer in net.layers if not isinstance(layer, Pool))
        > MOST_DECISIONS
    ):
        raise Malformed(f"weights times levels are more than the {MOST_DECISIONS} that the format allows")
    shape: tuple[int, ...] = net.input_shape
    largest = 255 >> net.input_shift  # all values between layers are integers in 0..largest
    reach = largest
    work = 0
    for layer in net.layers:
        after = shape_after(shape, layer)
        if max(math.prod(shape), math.prod(after)) > MOST_ACTIVATIONS or _patches(layer, after) > MOST_PATCHES:
            raise Malformed(f"a feature map of shape {after} is larger than the format allows")
        work += 0 if isinstance(layer, Pool) else _patches(layer, after) * len(layer.weight)
        if work > MOST_WORK:
            raise Malformed(f"more than the {MOST_WORK} multiplications an example that the format allows")
        if isinstance(layer, Pool):
            largest *= layer.size**2 if layer.kind == "sum" else 1
            reach = max(reach, largest)
        else:
            largest = _largest_output(layer, largest)
            reach = max(reach, largest)
            largest >>= layer.shift
        if reach >= EXACT:
            raise Malformed("a sum could leave the exact range of ±2^53, so two machines could disagree")
        shape = after
    if len(shape) != 1 or shape[0] < 2:
        raise Malformed("a classifier needs at least two classes")
    return reach


def _patches(layer: Layer, after: tuple[int, ...]) -> int:
    """How many values the matrix product of a layer reads for one example."""
    if isinstance(layer, Pool):
        return 0
    return math.prod(layer.weight.shape[1:]) * (math.prod(after[1:]) if isinstance(layer, Conv) else 1)


def _largest_output(layer: Dense | Conv, largest: int) -> int:
    if not 0 <= layer.shift <= MOST_SHIFT or layer.levels < 1:
        raise Malformed(f"a shift of {layer.shift} or {layer.levels} levels is outside the format")
    if any(numbers is not None and numbers.dtype != np.int64 for numbers in (layer.weight, layer.bias)):
        raise Malformed("weights and biases must be 64-bit integers")
    if layer.weight.min(initial=0) < -layer.levels or layer.weight.max(initial=0) > layer.levels:
        raise Malformed(f"a weight lies outside -{layer.levels}..{layer.levels}")
    # In Python's integers: nothing here can wrap around.
    sums = np.abs(layer.weight).reshape(len(layer.weight), -1).sum(axis=1)
    biases = [0] * len(sums) if layer.bias is None else [abs(int(b)) for b in layer.bias]
    if len(biases) != len(sums):
        raise Malformed("a layer must have one bias an output")
    return max(int(s) * largest + b for s, b in zip(sums, biases, strict=True))
