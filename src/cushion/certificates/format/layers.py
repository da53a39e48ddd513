"""The layers of an integer net: what each stores, its weights, which fit each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cushion.certificates.format import symmetry as tying
from cushion.certificates.format.sources import Integers, Source, Values
from cushion.errors import Malformed


@dataclass(frozen=True)
class Feature:
    """(channels, height, width) or (values,), and the symmetry that the channels carry."""

    shape: tuple[int, ...]
    symmetry: int = 1


@dataclass(frozen=True, eq=False)
class _Affine:
    source: Source
    bias: Integers | None
    bias_shift: int
    shift: int  # right shift after ReLU; the last layer has neither and carries 0 here

    positions = 1  # in which each stored output is used, with the same bias

    @property
    def outputs(self) -> int:
        """As stored."""
        return self.source.shape[0]

    @property
    def biases(self) -> int:
        return 0 if self.bias is None else self.bias.size

    @property
    def order(self) -> Integers:
        """In the shape of `weight`: which of the stored numbers, in C order, each weight is."""
        stored = np.arange(math.prod(self.source.shape)).reshape(self.source.shape)
        return replace(self, source=Values(stored)).weight

    @property
    def weight(self) -> Integers:
        raise NotImplementedError

    @property
    def offsets(self) -> Integers | None:
        """[out] biases as they are added."""
        return None if self.bias is None else (self.bias << self.bias_shift).repeat(self.positions)


@dataclass(frozen=True, eq=False)
class Dense(_Affine):
    """out[o] = Σ_i weight[o, i]·x[i] + bias[o], x flattened in C order.

    With symmetry > 1 (the input's own) the stored weights are those of one group element, [o,
    channels/|G|, h, w].
    """

    symmetry: int = 1

    kind = "dense"

    @cached_property
    def weight(self) -> Integers:
        """[out, in]"""
        numbers = self.source.numbers
        if self.symmetry > 1:
            numbers = numbers.reshape(-1)[tying.invariant(numbers.shape, self.symmetry)]
        return numbers.reshape(len(numbers), -1)


@dataclass(frozen=True, eq=False)
class Conv(_Affine):
    """Cross-correlation with zero padding and output side ⌊(n + 2·padding - k)/stride⌋ + 1.

    groups 0 means depthwise: every channel has its own filter. With symmetry > 1 each stored filter
    is used in all its positions (see `symmetry`); stored as [o, i/groups, k, k], or [o, i/groups,
    |G|, k, k] where the input carries the same symmetry.
    """

    stride: int = 1
    padding: int = 0
    groups: int = 1
    symmetry: int = 1

    kind = "convolution"

    @property
    def positions(self) -> int:  # type: ignore[override]
        return self.symmetry

    @property
    def side(self) -> int:
        return self.source.shape[-1]

    @cached_property
    def weight(self) -> Integers:
        """[out, in/groups, k, k]"""
        numbers = self.source.numbers
        expand = tying.regular if numbers.ndim == 5 else tying.lifted
        return numbers.reshape(-1)[expand(numbers.shape, self.symmetry)]


@dataclass(frozen=True)
class Pool:
    """The maximum or sum of size × size windows side by side, a remainder dropped."""

    kind: str  # "max" | "sum"
    size: int


Layer = Dense | Conv | Pool


def dense_shape(before: Feature, outputs: int, symmetry: int) -> tuple[int, ...]:
    """Of a dense layer's numbers."""
    if symmetry == 1:
        return (outputs, math.prod(before.shape))
    return (outputs, before.shape[0] // symmetry, *before.shape[1:])


def stored_shape(
    before: Feature, outputs: int, side: int, groups: int, symmetry: int
) -> tuple[int, ...]:
    """Of a convolution's numbers; Malformed where groups or symmetry do not fit."""
    regular = symmetry > 1 and before.symmetry == symmetry
    channels = before.shape[0] // symmetry if regular else before.shape[0]
    if groups == 0:
        if outputs != channels or (symmetry > 1 and not regular):
            raise Malformed("a depthwise convolution keeps the channels and symmetry before it")
        return (outputs, 1, side, side)
    if groups < 0 or channels % groups or outputs % groups:
        raise Malformed(f"{groups} groups do not divide {channels} inputs and {outputs} outputs")
    return (outputs, channels // groups, *([symmetry] if regular else []), side, side)


def feature_after(before: Feature, layer: Layer) -> Feature:
    """What is behind a layer; a layer that does not fit is Malformed."""
    if isinstance(layer, Pool):
        _check_maps(before)
        if layer.kind not in ("max", "sum") or layer.size < 2:
            raise Malformed(f"pooling is 'max' or 'sum' from 2 on, not {layer.kind!r} {layer.size}")
        sides = [side // layer.size for side in before.shape[1:]]
        return _maps(before, before.shape[0], sides, before.symmetry)
    stored = layer.source.shape
    if len(stored) < 2 or min(stored) < 1:
        raise Malformed(f"a layer cannot have weights of shape {stored}")
    if isinstance(layer, Dense):
        if layer.symmetry not in (1, before.symmetry):
            raise Malformed("an invariant dense layer follows maps of its own symmetry")
        if layer.symmetry > 2:
            tying.check_square(*before.shape[1:])
        if stored != dense_shape(before, layer.outputs, layer.symmetry):
            raise Malformed(f"a dense layer of shape {stored} does not fit {before.shape}")
        return Feature((layer.outputs,))
    _check_maps(before)
    if layer.symmetry not in tying.ORDERS or len(stored) not in (4, 5):
        raise Malformed(f"no convolution has shape {stored} and symmetry {layer.symmetry}")
    k, padding = layer.side, layer.padding
    if stored != stored_shape(before, layer.outputs, k, layer.groups, layer.symmetry):
        raise Malformed(f"a convolution of shape {stored} does not fit {before.shape}")
    if layer.stride < 1 or not 0 <= padding < k:
        raise Malformed(f"a {k}x{k} convolution with padding {padding} is not in the grammar")
    sides = [(side + 2 * padding - k) // layer.stride + 1 for side in before.shape[1:]]
    return _maps(before, layer.outputs * layer.symmetry, sides, layer.symmetry)


def _check_maps(before: Feature) -> None:
    if len(before.shape) != 3:
        raise Malformed("a convolution or pooling cannot follow a dense layer")


def _maps(before: Feature, channels: int, sides: list[int], symmetry: int) -> Feature:
    if min(sides) < 1:
        raise Malformed(f"nothing is left of a {before.shape} feature map behind a layer")
    return Feature((channels, *sides), symmetry)
