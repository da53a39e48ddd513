"""Searches for a small integer net, as methods of `compress`: what `certify` finds, layer by layer.

No torch until one runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from cushion.certificates.certificate import Certificate
from cushion.certificates.format import sources
from cushion.certificates.format.claims import Claim
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Layer, Pool
from cushion.certificates.format.message import read
from cushion.certificates.search.options import Budgeted, Report
from cushion.compressors.method import MethodOptions, Named
from cushion.compressors.records import Promise
from cushion.numerics import float_up
from cushion.records import Record, column

if TYPE_CHECKING:
    from torch import nn

    from cushion.compressors.choice import Compressed
    from cushion.data.dataset import Dataset

_SOURCES: dict[type[sources.Source], str] = {
    sources.Grid: "grid",
    sources.Values: "mask and values",
    sources.SeededMask: "mask of seeded signs",
    sources.SeededProjection: "projection of seeded signs",
    sources.SeededNoise: "values over seeded noise",
    sources.SignProjection: "Matrix-Project of seeded signs",
    sources.Product: "product of two factors",
}


class FreeSearch(Budgeted, MethodOptions):
    """What a user may choose for a search."""


@dataclass(frozen=True)
class Search(Named):
    """A method that looks for a net itself, and may imitate one."""

    options = FreeSearch

    def run(
        self,
        sample: Dataset,
        options: FreeSearch,
        *,
        model: nn.Module | None,
        holdout: Dataset | None,
        delta: Decimal,
        seed: int,
        report: Report | None,
    ) -> Compressed[SearchSummary]:
        """The net with the smallest bound that was found, its summary and its certificate."""
        from cushion.certificates.certify import certify
        from cushion.compressors.choice import Compressed

        certificate = certify(
            model,
            sample,
            method=self.name,  # type: ignore[arg-type]
            holdout=holdout,
            delta=str(delta),
            seed=seed,
            report=report,
            **vars(options),
        )
        net, _ = read(certificate.message, certificate.bits)
        summary = summarise(net, certificate, method=self.name, seed=seed)
        return Compressed(net, summary, certificate)


INTEGER = Search(
    "integer",
    "the integer net with the smallest bound, every weight stored (what certify finds)",
    ("minutes",),
)
SUBSPACE = Search(
    "subspace",
    "a few trained coefficients of seeded sign matrices, added to a seeded net",
    ("minutes", "steps", "k", "width"),
)
SUPERMASK = Search("supermask", "which signs of a seeded net stay", ("minutes", "steps", "width"))


class SearchedLayer(Record):
    """One layer of the net that was found, pooling included."""

    name: str = column("in the order of the net", label="layer")
    kind: str = column("dense, convolution or pooling")
    shape: tuple[int, ...] = column(
        "of the layer's numbers before any symmetry spreads them; empty for pooling"
    )
    source: str = column("where its numbers come from; empty for pooling", label="numbers from")
    stored: int = column("how many numbers the message codes for it, zeros and biases included")
    bits: int = column("what the ledger charges for its header and numbers")


class SearchSummary(Record):
    """parameters: Σ stored over the layers. bits: the whole message, so Σ bits over the layers plus
    its own header.

    bound: of the Occam certificate of this very net, rounded up. promise: None, as no theorem
    speaks of a search.
    """

    method: str
    parameters: int
    bits: int
    seed: int
    layers: tuple[SearchedLayer, ...]
    errors: int
    m: int
    delta: float
    bound: float
    interrupted: bool
    promise: Promise | None = None


def summarise(
    net: IntegerNet, certificate: Certificate, *, method: str, seed: int
) -> SearchSummary:
    """The summary of a net whose certificate this is."""
    claim = certificate.claim
    layers = tuple(_layer(layer, at, claim) for at, layer in enumerate(net.layers, 1))
    return SearchSummary(
        method=method,
        parameters=sum(layer.stored for layer in layers),
        bits=certificate.bits,
        seed=seed,
        layers=layers,
        errors=claim.errors,
        m=claim.m,
        delta=float_up(claim.delta),
        bound=float_up(claim.bound),
        interrupted=bool(claim.made_with.get("interrupted", False)),
    )


def _layer(layer: Layer, place: int, claim: Claim) -> SearchedLayer:
    name = f"layer {place}"
    bits = sum(item.bits for item in claim.ledger if item.item.startswith(f"{name}: "))
    if isinstance(layer, Pool):
        return SearchedLayer(name, f"{layer.kind} pooling", (), "", 0, bits)
    kind = "convolution" if isinstance(layer, Conv) else "dense"
    if isinstance(layer, Conv) and layer.groups == 0:
        kind = "depthwise convolution"
    stored = layer.source.coded.size + (0 if layer.bias is None else layer.bias.size)
    shape, source = tuple(layer.source.shape), _SOURCES[type(layer.source)]
    return SearchedLayer(name, kind, shape, source, stored, bits)
