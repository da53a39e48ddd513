"""A Gaussian posterior over integer nets, and its message.

The stochastic classifier Q picks every weight and bias anew: w ~ N(μ, σ²), rounded to ⌊w + 1/2⌋.
The prior P gives the numbers of one factor (a layer's weights, or its biases) N(0, s²).
Architecture and prior scales stand in a header, a prefix code, and are paid in bits; means and
variances follow it uncoded, because they are paid by KL(Q‖P) instead.

Message: the header padded to a byte, then all means (signed 32-bit, little-endian, in quarters),
then all exponents of the variances (signed 8-bit), factor after factor in C order. There is exactly
one message for a posterior.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.evaluation import arranged, evaluate
from cushion.certificates.format.headers import code_front
from cushion.certificates.format.integer_net import Floating, IntegerNet, floats_for
from cushion.certificates.format.layers import Layer, Pool
from cushion.certificates.format.limits import multiplications
from cushion.certificates.format.message import Message, check_canonical
from cushion.certificates.format.rounded_gaussian import (
    LEAST_EXPONENT,
    MOST_EXPONENT,
    RoundedGaussians,
    Words,
)
from cushion.certificates.format.sources import Integers, Values
from cushion.errors import Malformed

MOST_NUMBERS = 10**5
MOST_MEAN = 2**20  # quarters
MOST_DRAWN = 2**31  # numbers in all nets that a file asks for
MOST_PRODUCTS = 2**40  # multiplications of all of them
USUAL_PRIOR = 8  # the prior's exponent that one bit names: s = 16


@dataclass(frozen=True, eq=False)
class Factor:
    """One layer's weights or biases: prior N(0, 2^prior), posterior N(means/4, 2^variances)."""

    layer: int  # from 1
    what: str  # "weights" | "biases"
    prior: int
    means: Integers  # [*shape] in quarters
    variances: Integers  # [*shape] exponents of two

    @property
    def item(self) -> str:
        return f"layer {self.layer}: {self.what}"

    @property
    def meaning(self) -> str:
        return f"KL of {self.means.size} Gaussians from the prior with variance 2^{self.prior}"


@dataclass(frozen=True, eq=False)
class Posterior:
    """skeleton: the net with zeros for numbers; factors: their laws, in its order."""

    skeleton: IntegerNet
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        shapes = [(place, what, held.shape) for place, what, held in _stored(self.skeleton.layers)]
        if shapes != [(f.layer, f.what, f.means.shape) for f in self.factors]:
            raise Malformed("the factors of a posterior are not the layers of its net")
        for factor in self.factors:
            _check_factor(factor)
        if self.size > MOST_NUMBERS:
            raise Malformed(f"a posterior is over at most {MOST_NUMBERS} numbers")
        _ = self._floats

    @property
    def size(self) -> int:
        """How many numbers Q draws for one net."""
        return sum(factor.means.size for factor in self.factors)

    def check_draws(self, nets: int) -> None:
        """Malformed if so many nets, each on one example, are more than a file may ask for."""
        products = multiplications(self.skeleton.input_shape, self.skeleton.layers)
        if nets * self.size > MOST_DRAWN or nets * products > MOST_PRODUCTS:
            raise Malformed(
                f"{nets} draws of {self.size} numbers and {products} multiplications are more than "
                "the format allows"
            )

    @cached_property
    def _law(self) -> RoundedGaussians:
        return RoundedGaussians(*_flat(self.factors))

    @cached_property
    def _floats(self) -> Floating:
        """Exact for every net; Malformed if a sum in any could leave the exact range."""
        return floats_for(self.with_numbers(self._law.largest()).reach)

    @cached_property
    def _places(self) -> list[tuple[Integers, Integers, float]]:
        """Where each layer's filters and biases stand among the numbers, and the biases' step."""
        found, start = [], 0
        for layer, before, *_ in self.skeleton.stages:
            if not isinstance(layer, Pool):
                filters = start + arranged(layer.order, before)
                start += math.prod(layer.source.shape)
                biases = np.arange(start, start + layer.biases).repeat(layer.positions)
                start += layer.biases
                found.append((filters, biases, 2.0**layer.bias_shift))
        return found

    @cached_property
    def width(self) -> int:
        """Values that one net takes at once, at most."""
        stages = self.skeleton.stages
        maps = [max(s.padded, s.patches, math.prod(s.after.shape)) for s in stages]
        return max(self.skeleton.weights, *maps, *(filters.size for filters, _, _ in self._places))

    def scores(self, numbers: Integers, x: NDArray[Any]) -> Integers:
        """numbers: [n, size], x: [n, *input_shape] -> [n, classes] exact, net i on input i."""
        held = numbers.astype(self._floats)
        layers = (
            (held[:, filters], held[:, biases] * held.dtype.type(step) if biases.size else None)
            for filters, biases, step in self._places
        )
        return evaluate(self.skeleton.stages, self.skeleton.maps(x, self._floats), layers)

    def with_numbers(self, numbers: Integers) -> IntegerNet:
        """numbers: [size] in the factors' order -> the net that has them."""
        parts = iter(np.split(numbers, np.cumsum([f.means.size for f in self.factors])[:-1]))
        layers: list[Layer] = []
        for layer in self.skeleton.layers:
            if not isinstance(layer, Pool):
                source = Values(next(parts).reshape(layer.source.shape))
                bias = None if layer.bias is None else next(parts)
                layer = dataclasses.replace(layer, source=source, bias=bias)
            layers.append(layer)
        return dataclasses.replace(self.skeleton, layers=tuple(layers))

    def draw(self, words: Words) -> Integers:
        """words: [n, size] -> [n, size] numbers of n independent nets."""
        return self._law.draw(words)


def encode_posterior(posterior: Posterior) -> Message:
    """The one message of a posterior. Raises Malformed for one outside the grammar."""
    writer = BitWriter()
    bill = code_front(writer, posterior.skeleton, MOST_NUMBERS, _drawn_numbers).bill
    for factor in posterior.factors:
        writer.signed(factor.prior - USUAL_PRIOR, MOST_EXPONENT - LEAST_EXPONENT)
        item = f"layer {factor.layer}: prior of its {factor.what}"
        bill.charge(item, f"Gaussian with variance 2^{factor.prior}")
    means, variances = _flat(posterior.factors)
    numbers = means.astype("<i4").tobytes() + variances.astype("<i1").tobytes()
    return Message(len(writer), writer.to_bytes() + numbers, tuple(bill.items))


def read_posterior(data: bytes, bits: int) -> tuple[Posterior, Message]:
    """Malformed unless `data`, its header `bits` bits, is exactly a posterior's message."""
    front = (bits + 7) // 8
    reader = BitReader(data[:front], bits)
    size, rest = divmod(len(data) - front, 5)  # numbers that the message can hold
    shape, quantiser, layers, room, _ = code_front(reader, None, size, _drawn_numbers)
    stored = list(_stored(layers))
    priors = [reader.signed(0, MOST_EXPONENT - LEAST_EXPONENT) + USUAL_PRIOR for _ in stored]
    if reader.position != bits or room or rest:
        raise Malformed("the message's length is not that of its posterior", reader.position)
    means = np.frombuffer(data, "<i4", size, front).astype(np.int64)
    variances = np.frombuffer(data, "<i1", size, front + 4 * size).astype(np.int64)
    cuts = np.cumsum([held.size for _, _, held in stored])[:-1]
    factors = [
        Factor(place, what, prior, mean.reshape(held.shape), variance.reshape(held.shape))
        for (place, what, held), prior, mean, variance in zip(
            stored, priors, np.split(means, cuts), np.split(variances, cuts), strict=True
        )
    ]
    posterior = Posterior(IntegerNet(shape, quantiser, layers), tuple(factors))
    again = encode_posterior(posterior)
    check_canonical(data, bits, again, "posterior")
    return posterior, again


def _stored(layers: tuple[Layer, ...]) -> Iterator[tuple[int, str, Integers]]:
    """(layer from 1, what, the numbers to draw) in the order of the message."""
    for index, layer in enumerate(layers, 1):
        if not isinstance(layer, Pool):
            yield index, "weights", layer.source.numbers
            if layer.bias is not None:
                yield index, "biases", layer.bias


def _drawn_numbers(layer: Layer) -> int:
    """How many numbers of a layer Q draws: all of them."""
    if isinstance(layer, Pool):
        return 0
    if not isinstance(layer.source, Values):
        raise Malformed("a posterior draws all its weights: its layers hold plain values")
    return layer.source.coded.size + layer.biases


def _flat(factors: tuple[Factor, ...]) -> tuple[Integers, Integers]:
    """All means and all variances' exponents, factor after factor in C order: [size] each."""
    means = np.concatenate([factor.means.reshape(-1) for factor in factors])
    return means, np.concatenate([factor.variances.reshape(-1) for factor in factors])


def _check_factor(factor: Factor) -> None:
    if factor.means.dtype != np.int64 or factor.variances.dtype != np.int64:
        raise Malformed("means and variances must be 64-bit integers")
    if factor.means.shape != factor.variances.shape or not factor.means.size:
        raise Malformed("a factor has one variance a mean, and at least one")
    if factor.means.min() < -MOST_MEAN or factor.means.max() > MOST_MEAN:
        raise Malformed(f"a mean lies beyond ±{MOST_MEAN} quarters")
    exponents = (factor.prior, int(factor.variances.min()), int(factor.variances.max()))
    if min(exponents) < LEAST_EXPONENT or max(exponents) > MOST_EXPONENT:
        raise Malformed(f"a variance lies outside 2^{LEAST_EXPONENT}..2^{MOST_EXPONENT}")
