"""A compressed net as few whole numbers, a seed and its architecture: its message, its bits, and
the net itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from cushion.certificates.format.number_stream import (
    MOST_FIELD,
    Coded,
    Integers,
    NumberReader,
    check_canonical,
    encode_numbers,
    estimate_bits,
)
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.projection.conv_project import Located
from cushion.compressors.projection.low_rank import LowRankMap
from cushion.compressors.projection.vectors import ProjectedRows, Sparse, StoredVectors
from cushion.compressors.pruning.sketched import Sketched
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept, LowRank, Numbers, Projected, StoredLayer
from cushion.errors import BadInput, Malformed
from cushion.nets.network import AdaptiveAvgPool, AdaptiveMaxPool, Affine, AvgPool, MaxPool, Network

KINDS: tuple[type[StoredLayer], ...] = (
    Kept,
    LowRank,
    LowRankMap,
    Projected,
    Located,
    Sparse,
    ProjectedRows,
    Pruned,
    Sketched,
    Spiked,
)  # a file names a kind by its place here
_EXPONENTS = 1100  # exponents are coded as this much more than they are
MOST_WORK = 2.0**41  # some ten minutes: about four times a VGG with k = 5 % of its weights
_MOST_FILTERS = 1 << 28  # numbers of the filters of all places of one layer
_POOLS = (MaxPool, AvgPool, AdaptiveAvgPool, AdaptiveMaxPool)


@dataclass(frozen=True, eq=False)
class StoredNet:
    """One stored layer for each affine layer, in order, and its bias.

    The message pays the seed, every layer's kind, sizes and grids, and all numbers. It does not pay
    the architecture, which is taken to be fixed before the data, nor a start (initialisation),
    which is helper string.
    """

    seed: int
    layers: tuple[StoredLayer, ...]
    biases: tuple[Numbers | None, ...]

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed < MOST_FIELD:
            raise BadInput(
                f"`seed` must be a whole number of at least 0 and below {MOST_FIELD}, not "
                f"{self.seed}"
            )

    @cached_property
    def coded(self) -> Coded:
        """The message."""
        return encode_numbers(*self._parts())

    def estimated_bits(self) -> int:
        """About how long the message is, in a hundredth of the time that writing it takes."""
        return math.ceil(estimate_bits(*self._parts()))

    def _parts(self) -> tuple[list[int], list[Integers]]:
        fields, arrays = [self.seed], []
        for layer, bias in zip(self.layers, self.biases, strict=True):
            fields += [KINDS.index(type(layer)), *layer.fields]
            for part in (*layer.numbers, *([] if bias is None else [bias])):
                fields.append(part.exponent + _EXPONENTS)
                arrays.append(part.integers)
        return fields, arrays

    @property
    def bits(self) -> int:
        """Length of the message."""
        return self.coded.bits

    def layer_bits(self) -> tuple[int, ...]:
        """What the numbers of each layer take, its bias included; the rest of `bits` is sizes,
        grids and the seed.
        """
        parts = iter(self.coded.arrays)
        return tuple(
            sum(next(parts) for _ in range(len(layer.numbers) + (bias is not None)))
            for layer, bias in zip(self.layers, self.biases, strict=True)
        )

    @property
    def parameters(self) -> int:
        """How many numbers are stored, biases included."""
        biases = sum(0 if bias is None else bias.integers.size for bias in self.biases)
        return biases + sum(layer.parameters for layer in self.layers)

    def network(self, frame: Network, start: Network | None = None) -> Network:
        """The compressed net in the graph of `frame`, from the numbers and the seed alone."""
        return frame.with_affine(
            {
                node.index: self._affine(
                    at, node.affine, None if start is None else start.affine_layers[at].affine
                )
                for at, node in enumerate(frame.affine_layers)
            }
        )

    def _affine(self, at: int, affine: Affine, start: Affine | None) -> Affine:
        layer, stored = self.layers[at], self.biases[at]
        dtype = affine.operator.weight.dtype
        if isinstance(
            layer, StoredVectors
        ):  # a linear classifier's bias is one more coordinate of its vectors
            weight, given = layer.affine(
                self.seed, None if start is None else (start.operator.weight, start.bias)
            )
            operator = affine.operator.with_weight(
                torch.from_numpy(np.ascontiguousarray(weight)).to(dtype)
            )
            return replace(
                affine,
                operator=operator,
                bias=None if given is None else torch.tensor(given, dtype=dtype),
            )
        operator = layer.operator(
            affine.operator, self.seed, None if start is None else start.operator
        )
        if stored is None:
            return replace(affine, operator=operator, bias=None)
        bias = torch.from_numpy(stored.values)
        if start is not None and start.bias is not None:
            bias = bias + start.bias.to(torch.float64)
        return replace(affine, operator=operator, bias=bias.to(dtype))


def read_stored(data: bytes, bits: int, frame: Network) -> StoredNet:
    """The net of a message, for an architecture; Malformed unless it is, to the last bit, what
    `coded` writes.
    """
    reader = NumberReader(data, bits)
    seed = reader.field()
    heads: list[tuple[type[StoredLayer], tuple[int, ...], list[int]]] = []
    shapes: list[tuple[int, ...]] = []
    work = 0.0
    for node in frame.affine_layers:
        kind = KINDS[reader.field(len(KINDS) - 1)]
        fields = tuple(reader.field() for _ in range(kind.field_count))
        try:
            sizes = list(kind.sizes(tuple(node.affine.operator.weight.shape), fields))
            _check_fit(kind, fields, node.affine)
        except BadInput as problem:
            raise Malformed(f"{node.name}: {problem}") from None
        if node.affine.bias is not None and not issubclass(kind, StoredVectors):
            sizes.append(tuple(node.affine.bias.shape))
        work += kind.work(fields, node.affine.operator.parameters)
        if work > MOST_WORK:
            raise Malformed(
                f"{node.name}: rebuilding the net up to here would take longer than any real net "
                "does"
            )
        heads.append((kind, fields, [reader.field(2 * _EXPONENTS) - _EXPONENTS for _ in sizes]))
        shapes += sizes
    arrays = iter(reader.arrays(shapes))
    layers, biases = [], []
    for node, place, (kind, fields, exponents) in zip(
        frame.affine_layers, places(frame), heads, strict=True
    ):
        parts = [Numbers(next(arrays), exponent) for exponent in exponents]
        own = node.affine.bias is not None and not issubclass(kind, StoredVectors)
        biases.append(parts.pop() if own else None)
        try:
            layers.append(
                kind.restore(tuple(node.affine.operator.weight.shape), place, fields, tuple(parts))
            )
        except BadInput as problem:
            raise Malformed(f"{node.name}: {problem}") from None
    found = StoredNet(seed, tuple(layers), tuple(biases))
    check_canonical(data, bits, found.coded)
    return found


def _check_fit(kind: type[StoredLayer], fields: tuple[int, ...], affine: Affine) -> None:
    """BadInput unless the sizes that follow from the architecture are those of this layer, before
    any is allocated.
    """
    operator = affine.operator
    places = math.prod(operator.output_shape[1:])
    if kind is LowRankMap and fields[1:] != (operator.output_size, operator.input_size):
        raise BadInput(f"a map of {fields[1]} rows and {fields[2]} columns is not this layer's")
    if kind is Located and (fields[3] != places or places * operator.parameters > _MOST_FILTERS):
        raise BadInput(f"filters for {fields[3]} places are not those of this layer, or too many")
    if issubclass(kind, StoredVectors) and fields[-1] != (affine.bias is not None):
        raise BadInput("the vectors of a linear classifier end with its bias where it has one")


def places(net: Network) -> Sequence[int]:
    """Each affine layer's place among affine layers and poolings, from 1: the places of a
    certificate's layers.
    """
    found, place = [], 0
    for node in net.nodes:
        if isinstance(node.op, (Affine, *_POOLS)):
            place += 1
            if isinstance(node.op, Affine):
                found.append(place)
    return found
