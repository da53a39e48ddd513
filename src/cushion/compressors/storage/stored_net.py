"""A compressed net as whole numbers, a seed and its architecture: its message and bits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from cushion.certificates.format import number_stream
from cushion.compressors.storage.stored import KINDS, Numbers, StoredLayer
from cushion.errors import BadInput, CushionError, Malformed
from cushion.nets.network import Network, Node
from cushion.nets.operations import AdaptiveAvgPool, AdaptiveMaxPool, Affine, AvgPool, MaxPool

_EXPONENTS = 1100  # exponents are coded as this much more than they are
MOST_WORK = 2.0**41  # some ten minutes: about four times a VGG with k = 5 % of its weights
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
        if type(self.seed) is not int or not 0 <= self.seed < number_stream.MOST_FIELD:
            most = number_stream.MOST_FIELD
            raise BadInput(f"`seed` = {self.seed} must be a whole number below {most}")

    @cached_property
    def coded(self) -> number_stream.Coded:
        """The message."""
        return number_stream.encode_numbers(*self._parts())

    def estimated_bits(self) -> int:
        """About how long the message is, in a hundredth of the time that writing it takes."""
        return math.ceil(number_stream.estimate_bits(*self._parts()))

    def _parts(self) -> tuple[list[int], list[number_stream.Integers], list[bool]]:
        fields, arrays, matrices = [self.seed], [], []
        for layer, numbers in zip(self.layers, self._numbers(), strict=True):
            exponents = [part.exponent + _EXPONENTS for part in numbers]
            fields += [layer.number, *layer.fields, *exponents]
            arrays += [part.integers for part in numbers]
            matrices += _matrices(type(layer), len(numbers))
        return fields, arrays, matrices

    def _numbers(self) -> list[list[Numbers]]:
        """Each layer's numbers in the order of the message, its bias last."""
        pairs = zip(self.layers, self.biases, strict=True)
        return [[*layer.numbers, *([] if bias is None else [bias])] for layer, bias in pairs]

    @property
    def bits(self) -> int:
        return self.coded.bits

    @cached_property
    def layer_bits(self) -> tuple[int, ...]:
        """What the numbers of each layer take, its bias included; the rest is sizes and grids."""
        parts = iter(self.coded.arrays)
        return tuple(sum(next(parts) for _ in numbers) for numbers in self._numbers())

    @property
    def parameters(self) -> int:
        """How many numbers are stored, biases included."""
        biases = sum(0 if bias is None else bias.integers.size for bias in self.biases)
        return biases + sum(layer.parameters for layer in self.layers)

    def network(self, frame: Network, start: Network | None = None) -> Network:
        """The compressed net in the graph of `frame`, from the numbers and the seed alone."""
        starts: list[Affine | None] = [None] * len(self.layers)
        if start is not None:
            starts = [node.affine for node in start.affine_layers]
        parts = zip(frame.affine_layers, self.layers, self.biases, starts, strict=True)
        changes = {
            node.index: layer.affine(node.affine, bias, self.seed, first)
            for node, layer, bias, first in parts
        }
        return frame.with_affine(changes)


def _matrices(kind: type[StoredLayer], count: int) -> list[bool]:
    """Which of a layer's numbers are told in the code of a matrix: the first, if any."""
    return [kind.as_matrix, *[False] * (count - 1)]


@dataclass(frozen=True)
class _Head:
    """What a message says of a layer before any number: its kind and its sizes."""

    kind: type[StoredLayer]
    fields: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]  # of its numbers, a bias beside them last

    @classmethod
    def read(cls, reader: number_stream.NumberReader, affine: Affine) -> Self:
        """BadInput where the sizes do not fit this layer, before any number is allocated."""
        number = reader.field(max(KINDS))
        if number not in KINDS:
            raise BadInput(f"layers of the kind number {number} are not known")
        kind = KINDS[number]
        fields = tuple(reader.field() for _ in range(kind.field_count))
        shapes = kind.sizes(tuple(affine.operator.weight.shape), fields)
        kind.check_fit(fields, affine)
        if affine.bias is not None and not kind.stores_bias:
            shapes += (tuple(affine.bias.shape),)
        return cls(kind, fields, shapes)


def read_stored(data: bytes, bits: int, frame: Network) -> StoredNet:
    """The net of a message; Malformed unless it is, to the last bit, what `coded` writes."""
    reader = number_stream.NumberReader(data, bits)
    seed = reader.field()
    heads: list[_Head] = []
    exponents: list[int] = []
    work = 0.0
    for node in frame.affine_layers:
        with about(node, Malformed):
            head = _Head.read(reader, node.affine)
        work += head.kind.work(head.fields, node.affine.operator.parameters)
        if work > MOST_WORK:
            raise Malformed(f"layer {node.name}: rebuilding it takes longer than any real net does")
        heads.append(head)
        exponents += [reader.field(2 * _EXPONENTS) - _EXPONENTS for _ in head.shapes]
    matrices = [one for head in heads for one in _matrices(head.kind, len(head.shapes))]
    arrays = reader.arrays([shape for head in heads for shape in head.shapes], matrices)
    numbers = map(Numbers, arrays, exponents)
    layers, biases = [], []
    for node, place, head in zip(frame.affine_layers, places(frame), heads, strict=True):
        parts = [next(numbers) for _ in head.shapes]
        beside = node.affine.bias is not None and not head.kind.stores_bias
        biases.append(parts.pop() if beside else None)
        shape = tuple(node.affine.operator.weight.shape)
        with about(node, Malformed):
            layers.append(head.kind.restore(shape, place, head.fields, tuple(parts)))
    found = StoredNet(seed, tuple(layers), tuple(biases))
    number_stream.check_canonical(data, bits, found.coded)
    return found


@contextmanager
def about(node: Node, refusal: type[CushionError]) -> Iterator[None]:
    """Refusals of any sort become `refusal`, and name the layer."""
    try:
        yield
    except CushionError as problem:
        raise refusal(f"layer {node.name}: {problem}") from None


def places(net: Network) -> Sequence[int]:
    """The place of each affine layer in a certificate, from 1: poolings are counted too."""
    counted = [node for node in net.nodes if isinstance(node.op, (Affine, *_POOLS))]
    return [at for at, node in enumerate(counted, 1) if isinstance(node.op, Affine)]
