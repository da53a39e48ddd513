"""What `cushion compress` found: the compressed net, what it stores layer by layer, and its
certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cushion.certificates.certificate import Certificate
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Layer, Pool
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Source,
    Values,
    coded_numbers,
)
from cushion.compressors.records import Promise
from cushion.numerics import float_up
from cushion.records import Record

_SOURCES: dict[type[Source], str] = {
    Grid: "grid",
    Values: "mask and values",
    SeededMask: "mask of seeded signs",
    SeededProjection: "projection of seeded signs",
    SeededNoise: "values over seeded noise",
    SignProjection: "Matrix-Project of seeded signs",
    Product: "product of two factors",
}


@dataclass(frozen=True)
class CompressedLayer(Record):
    """One layer of the compressed net, pooling included.

    shape: of the layer's numbers before any symmetry spreads them (empty for pooling). stored: how
    many numbers the message codes for it, zeros included; biases count. bits: what the ledger
    charges for its header and numbers.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    source: str  # where its numbers come from; empty for pooling
    stored: int
    bits: int


@dataclass(frozen=True)
class Compression(Record):
    """parameters: Σ stored over the layers. bits: the whole message, so Σ bits over the layers plus
    its own header.

    bound: of the Occam certificate of this very net, rounded up. promise: None for a method without
    a theorem.
    """

    method: str
    parameters: int
    bits: int
    seed: int
    layers: tuple[CompressedLayer, ...]
    errors: int
    m: int
    delta: float
    bound: float
    interrupted: bool
    promise: Promise | None = None


@dataclass(frozen=True)
class Compressed:
    """The compressed net with its summary and the certificate that carries it."""

    net: IntegerNet
    summary: Compression
    certificate: Certificate

    @property
    def bound(self) -> float:
        return self.certificate.bound

    def save(self, path: str | Path) -> Path:
        """Write the certificate file, whole or not at all; the net is inside."""
        return self.certificate.save(path)


def summarise(
    net: IntegerNet, certificate: Certificate, *, method: str, seed: int, interrupted: bool
) -> Compression:
    """The summary of a net whose certificate this is."""
    claim = certificate.claim
    layers = tuple(
        _layer(
            layer,
            place,
            sum(item.bits for item in claim.ledger if item.item.startswith(f"layer {place}: ")),
        )
        for place, layer in enumerate(net.layers, 1)
    )
    return Compression(
        method=method,
        parameters=sum(layer.stored for layer in layers),
        bits=certificate.bits,
        seed=seed,
        layers=layers,
        errors=claim.errors,
        m=claim.m,
        delta=float_up(claim.delta),
        bound=float_up(claim.bound),
        interrupted=interrupted,
    )


def _layer(layer: Layer, place: int, bits: int) -> CompressedLayer:
    name = f"layer {place}"
    if isinstance(layer, Pool):
        return CompressedLayer(name, f"{layer.kind} pooling", (), "", 0, bits)
    kind = (
        ("depthwise convolution" if layer.groups == 0 else "convolution")
        if isinstance(layer, Conv)
        else "dense"
    )
    stored = coded_numbers(layer.source).size + (0 if layer.bias is None else layer.bias.size)
    return CompressedLayer(
        name, kind, tuple(layer.source.shape), _SOURCES[type(layer.source)], stored, bits
    )
