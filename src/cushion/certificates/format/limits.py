"""What one net may cost, and the proof that its sums stay exact; other nets are refused."""

from __future__ import annotations

import math

import numpy as np

from cushion.certificates.format.inputs import Input
from cushion.certificates.format.layers import Conv, Dense, Feature, Layer, Pool, feature_after
from cushion.certificates.format.sources import (
    EXACT,
    Grid,
    Integers,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Source,
    coded_numbers,
)
from cushion.errors import Malformed

# Limits on one net, so that a hostile file costs little time and memory.
MOST_WEIGHTS = 10**6
MOST_SIGNS = 2**27  # that seeded projections draw: coefficients times numbers
# that sign projections draw, eight at one look into a table: some seconds
MOST_TABLED_SIGNS = 2**33
MOST_ACTIVATIONS = 2**20  # of one example at one layer, padding included
# values that a convolution reads for one example, each as often as a window covers it
MOST_PATCHES = 2**22
MOST_WORK = 2**28  # multiplications of one example
MOST_WEIGHT = 2**42
MOST_SHIFT = 52
MOST_BIAS_BITS = 40
MOST_AMPLITUDE = 2**20
_MOVED = 16  # multiplications in the time of one value moved


def check_sizes(shape: tuple[int, int, int], quantiser: Input, layers: tuple[Layer, ...]) -> None:
    """Malformed unless shapes fit and the format's limits hold; looks at no weight."""
    if len(shape) != 3 or min(shape) < 1:
        raise Malformed(f"the input shape {shape} must be channels, height and width")
    quantiser.check(math.prod(shape))
    if not layers or not isinstance(layers[-1], Dense):
        raise Malformed("the last layer must be dense, with one score a class")
    before = Feature(tuple(shape))
    work = numbers = signs = tabled = 0
    for place, layer in enumerate(layers, 1):
        after = feature_after(before, layer)
        values = max(_padded(before, layer), math.prod(after.shape))
        patches = 0
        if not isinstance(layer, Pool):
            source = layer.source
            patches = patches_of(layer, after.shape)
            work += _work(layer, after.shape)
            numbers += numbers_of(layer)
            if isinstance(source, SeededProjection):
                signs += math.prod(source.shape) * source.coefficients.size
            if isinstance(source, SignProjection):
                tabled += math.prod(source.shape) * source.coefficients.size
            if getattr(source, "layer", place) != place:
                raise Malformed("a seeded layer must carry its own place in the net")
        for found, most, what in (
            (values, MOST_ACTIVATIONS, f"values in a feature map at layer {place}"),
            (patches, MOST_PATCHES, f"values read by layer {place}"),
            (work, MOST_WORK, "multiplications an example"),
            (numbers, MOST_WEIGHTS, "numbers"),
            (signs, MOST_SIGNS, "signs in seeded projections"),
            (tabled, MOST_TABLED_SIGNS, "signs in sign projections"),
        ):
            if found > most:
                raise Malformed(f"{found} {what} are more than the {most} that the format allows")
        before = after
    if len(before.shape) != 1 or before.shape[0] < 2:
        raise Malformed("a classifier needs at least two classes")


def prove_range(shape: tuple[int, int, int], quantiser: Input, layers: tuple[Layer, ...]) -> int:
    """The largest magnitude that any sum can reach on any input.

    Raises Malformed unless shapes fit, limits hold and that magnitude is below 2^53.
    """
    check_sizes(shape, quantiser, layers)
    largest = quantiser.largest  # all values between layers are integers in 0..largest
    reach = largest
    for layer in layers:
        if isinstance(layer, Pool):
            largest *= layer.size**2 if layer.kind == "sum" else 1
            reach = max(reach, largest)
        else:
            largest = _largest_output(layer, largest)
            reach = max(reach, largest)
            largest >>= layer.shift
        if reach >= EXACT:
            raise Malformed(
                "a sum could leave the exact range of ±2^53, so two machines could disagree"
            )
    return reach


def numbers_of(layer: Layer) -> int:
    """What a layer adds to MOST_WEIGHTS: its weights as they are used, its biases, and what is
    coded to make them.

    This limits the work of multiplying a product's factors too: with o·r, r·w and o·w numbers in
    the factors and the weights, o·r·w is at most (10^6 / 3)^(3/2) < 2^28, by the inequality of the
    means.
    """
    if isinstance(layer, Pool):
        return 0
    made = isinstance(layer.source, SeededProjection | SignProjection | Product)
    biases = 0 if layer.bias is None else layer.bias.size
    return (
        math.prod(layer.source.shape) * layer.symmetry
        + made * coded_numbers(layer.source).size
        + biases
    )


def _padded(before: Feature, layer: Layer) -> int:
    """Values of a layer's input with the zeros around it."""
    if isinstance(layer, Conv):
        return before.shape[0] * math.prod(side + 2 * layer.padding for side in before.shape[1:])
    return math.prod(before.shape)


def patches_of(layer: Dense | Conv, after: tuple[int, ...]) -> int:
    """How many values the matrix products of a layer read for one example."""
    if isinstance(layer, Dense):
        return math.prod(layer.source.shape[1:]) * layer.symmetry
    positions = math.prod(after[1:])
    depth = math.prod(layer.source.shape[1:])  # values that one output reads
    return positions * depth * (layer.groups or after[0])


def effort(shape: tuple[int, int, int], layers: tuple[Layer, ...]) -> int:
    """About how long one example takes, in multiplications; a value moved counts _MOVED."""
    feature, total = Feature(tuple(shape)), multiplications(shape, layers)
    for layer in layers:
        moved = _padded(feature, layer)
        feature = feature_after(feature, layer)
        total += _MOVED * (
            moved + (0 if isinstance(layer, Pool) else patches_of(layer, feature.shape))
        )
    return total


def multiplications(shape: tuple[int, int, int], layers: tuple[Layer, ...]) -> int:
    """Of one example, at most MOST_WORK."""
    feature, work = Feature(tuple(shape)), 0
    for layer in layers:
        feature = feature_after(feature, layer)
        work += 0 if isinstance(layer, Pool) else _work(layer, feature.shape)
    return work


def _work(layer: Dense | Conv, after: tuple[int, ...]) -> int:
    """Multiplications of a layer for one example."""
    reads = math.prod(layer.source.shape[1:]) * (layer.symmetry if isinstance(layer, Dense) else 1)
    return reads * math.prod(after)


def _largest_output(layer: Dense | Conv, largest: int) -> int:
    if not 0 <= layer.shift <= MOST_SHIFT or not 0 <= layer.bias_shift <= MOST_BIAS_BITS:
        raise Malformed(f"a shift of {layer.shift} or {layer.bias_shift} is outside the format")
    _check_source(layer.source)
    if layer.bias is not None and (
        layer.bias.dtype != np.int64 or layer.bias.shape != layer.source.shape[:1]
    ):
        raise Malformed("a layer must have one bias an output, a 64-bit integer")
    weight = layer.weight.reshape(len(layer.weight), -1)
    if _outside(weight, 1 - MOST_WEIGHT, MOST_WEIGHT - 1):
        raise Malformed(f"a weight reaches the format's limit of {MOST_WEIGHT}")
    # below 2^42 · 10^6, so nothing wraps; from here on in Python's integers
    sums = np.abs(weight).sum(axis=1).tolist()
    biases = [0] * len(sums)
    if layer.bias is not None:
        repeat = len(sums) // len(layer.bias)
        biases = [abs(b) << layer.bias_shift for b in layer.bias.tolist() for _ in range(repeat)]
    return int(max(s * largest + b for s, b in zip(sums, biases, strict=True)))


def _check_source(source: Source) -> None:
    """Malformed unless the coded numbers are what the source's kind can code."""
    coded = coded_numbers(source)
    if coded.dtype != np.int64:
        raise Malformed("weights must be 64-bit integers")
    if isinstance(source, Grid) and _outside(coded, -source.levels, source.levels):
        raise Malformed(f"a weight lies outside -{source.levels}..{source.levels}")
    if isinstance(source, SeededMask) and _outside(coded, 0, 1):
        raise Malformed("a mask keeps a sign or does not: its numbers are 0 and 1")
    if isinstance(source, SeededProjection | SignProjection) and (
        coded.ndim != 1 or not _in_shift(source.shift)
    ):
        raise Malformed("a projection has a row of coefficients and a right shift of at most 52")
    if isinstance(source, Product):
        size = source.rank * (source.shape[0] + math.prod(source.shape[1:]))
        if source.rank < 1 or coded.shape != (size,) or not _in_shift(source.shift):
            raise Malformed(
                "a product has two factors of a rank of at least 1 and a right shift of at most 52"
            )
    if (
        isinstance(source, SeededProjection | SeededNoise)
        and not 0 <= source.amplitude <= MOST_AMPLITUDE
    ):
        raise Malformed(f"an amplitude of {source.amplitude} is outside the format")


def _in_shift(shift: int) -> bool:
    return 0 <= shift <= MOST_SHIFT


def _outside(numbers: Integers, low: int, high: int) -> bool:
    """Whether any number is below low or above high (np.abs would wrap at -2^63)."""
    return bool(numbers.size and (numbers.min() < low or numbers.max() > high))
