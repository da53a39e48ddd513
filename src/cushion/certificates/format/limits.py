"""What one net may cost, and the proof that its sums stay exact; other nets are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cushion.certificates.format import sources
from cushion.certificates.format.inputs import Input
from cushion.certificates.format.layers import Conv, Dense, Feature, Layer, Pool, feature_after
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
FEWEST_DRAWS, MOST_DRAWS = 10**5, 10**7  # of nets from a posterior
_MOVED = 16  # multiplications in the time of one value moved

Shape = tuple[int, int, int]


class Stage(NamedTuple):
    """A layer, what is before and behind it, and what it costs for one example."""

    layer: Layer
    before: Feature
    after: Feature
    padded: int  # values of its input with the zeros around it
    patches: int  # values that its matrix products read
    work: int  # multiplications


def stages(shape: Shape, layers: tuple[Layer, ...]) -> Iterator[Stage]:
    """Malformed where shapes do not fit; looks at no weight."""
    before = Feature(tuple(shape))
    for layer in layers:
        after = feature_after(before, layer)
        padded, patches, work = math.prod(before.shape), 0, 0
        if not isinstance(layer, Pool):
            patches = math.prod(layer.source.shape[1:])  # values that one output reads
            if isinstance(layer, Dense):
                patches *= layer.symmetry
            work = patches * math.prod(after.shape)
        if isinstance(layer, Conv):
            patches *= math.prod(after.shape[1:]) * (layer.groups or after.shape[0])
            sides = (side + 2 * layer.padding for side in before.shape[1:])
            padded = before.shape[0] * math.prod(sides)
        yield Stage(layer, before, after, padded, patches, work)
        before = after


def check_sizes(shape: Shape, quantiser: Input, layers: tuple[Layer, ...]) -> None:
    """Malformed unless shapes fit and the format's limits hold; looks at no weight."""
    if len(shape) != 3 or min(shape) < 1:
        raise Malformed(f"the input shape {shape} must be channels, height and width")
    quantiser.check(math.prod(shape))
    if not layers or not isinstance(layers[-1], Dense):
        raise Malformed("the last layer must be dense, with one score a class")
    work = numbers = signs = tabled = 0
    for place, stage in enumerate(stages(shape, layers), 1):
        source = getattr(stage.layer, "source", None)
        work += stage.work
        numbers += numbers_of(stage.layer)
        if isinstance(source, sources.SeededProjection):
            signs += math.prod(source.shape) * source.count
        if isinstance(source, sources.SignProjection):
            tabled += math.prod(source.shape) * source.count
        if getattr(source, "layer", place) != place:
            raise Malformed("a seeded layer must carry its own place in the net")
        values = max(stage.padded, math.prod(stage.after.shape))
        for found, most, what in (
            (values, MOST_ACTIVATIONS, f"values in a feature map at layer {place}"),
            (stage.patches, MOST_PATCHES, f"values read by layer {place}"),
            (work, MOST_WORK, "multiplications an example"),
            (numbers, MOST_WEIGHTS, "numbers"),
            (signs, MOST_SIGNS, "signs in seeded projections"),
            (tabled, MOST_TABLED_SIGNS, "signs in sign projections"),
        ):
            if found > most:
                raise Malformed(f"{found} {what} are more than the {most} that the format allows")
    if stage.after.shape[0] < 2:
        raise Malformed("a classifier needs at least two classes")


def prove_range(shape: Shape, quantiser: Input, layers: tuple[Layer, ...]) -> int:
    """The largest magnitude that any sum can reach on any input.

    Raises Malformed unless shapes fit, limits hold and that magnitude is below 2^53.
    """
    check_sizes(shape, quantiser, layers)
    reach = largest = quantiser.largest  # all values between layers are integers in 0..largest
    for layer in layers:
        if isinstance(layer, Pool):
            largest *= layer.size**2 if layer.kind == "sum" else 1
        else:
            largest = _largest_output(layer, largest)
        reach = max(reach, largest)
        if reach >= sources.EXACT:
            raise Malformed("a sum could leave the exact range of ±2^53 and differ by machine")
        largest >>= getattr(layer, "shift", 0)
    return reach


def numbers_of(layer: Layer) -> int:
    """Towards MOST_WEIGHTS: weights as they are used, biases, and what is coded to make them.

    This limits the work of multiplying a product's factors too: with o·r, r·w and o·w numbers in
    the factors and the weights, o·r·w is at most (10^6 / 3)^(3/2) < 2^28, by the inequality of the
    means.
    """
    if isinstance(layer, Pool):
        return 0
    source = layer.source
    made = isinstance(source, sources.SeededProjection | sources.SignProjection | sources.Product)
    return math.prod(source.shape) * layer.symmetry + made * source.coded.size + layer.biases


def effort(shape: Shape, layers: tuple[Layer, ...]) -> int:
    """About how long one example takes, in multiplications; a value moved counts _MOVED."""
    return sum(s.work + _MOVED * (s.padded + s.patches) for s in stages(shape, layers))


def multiplications(shape: Shape, layers: tuple[Layer, ...]) -> int:
    """Of one example, at most MOST_WORK."""
    return sum(stage.work for stage in stages(shape, layers))


def _largest_output(layer: Dense | Conv, largest: int) -> int:
    if not 0 <= layer.shift <= MOST_SHIFT or not 0 <= layer.bias_shift <= MOST_BIAS_BITS:
        raise Malformed(f"a shift of {layer.shift} or {layer.bias_shift} is outside the format")
    _check_source(layer.source)
    bias = np.zeros(layer.outputs, np.int64) if layer.bias is None else layer.bias
    if bias.dtype != np.int64 or bias.shape != (layer.outputs,):
        raise Malformed("a layer must have one bias an output, a 64-bit integer")
    weight = layer.weight.reshape(len(layer.weight), -1)
    if _outside(weight, 1 - MOST_WEIGHT, MOST_WEIGHT - 1):
        raise Malformed(f"a weight reaches the format's limit of {MOST_WEIGHT}")
    # below 2^42 · 10^6, so nothing wraps; from here on in Python's integers
    sums = np.abs(weight).sum(axis=1).tolist()
    biases = bias.repeat(layer.positions).tolist()
    outputs = zip(sums, biases, strict=True)
    return int(max(s * largest + (abs(b) << layer.bias_shift) for s, b in outputs))


def _check_source(source: sources.Source) -> None:
    """Malformed unless the coded numbers are what the source's kind can code."""
    coded = source.coded
    if coded.dtype != np.int64:
        raise Malformed("weights must be 64-bit integers")
    if isinstance(source, sources.Grid) and _outside(coded, -source.levels, source.levels):
        raise Malformed(f"a weight lies outside -{source.levels}..{source.levels}")
    if isinstance(source, sources.SeededMask) and _outside(coded, 0, 1):
        raise Malformed("a mask keeps a sign or does not: its numbers are 0 and 1")
    if not 0 <= getattr(source, "shift", 0) <= MOST_SHIFT:
        raise Malformed(f"numbers are made with a right shift of at most {MOST_SHIFT}")
    if isinstance(source, sources.SeededProjection | sources.SignProjection) and coded.ndim != 1:
        raise Malformed("a projection has a row of coefficients")
    if isinstance(source, sources.Product):
        size = source.rank * (source.shape[0] + math.prod(source.shape[1:]))
        if source.rank < 1 or coded.shape != (size,):
            raise Malformed("a product has two factors of a rank of at least 1")
    if not 0 <= (amplitude := getattr(source, "amplitude", 0)) <= MOST_AMPLITUDE:
        raise Malformed(f"an amplitude of {amplitude} is outside the format")


def _outside(numbers: sources.Integers, low: int, high: int) -> bool:
    """Whether any number is below low or above high (np.abs would wrap at -2^63)."""
    return bool(numbers.size and (numbers.min() < low or numbers.max() > high))
