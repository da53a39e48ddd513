"""Nets to hold a trained one against, its initialisation or random weights scaled to match, and
what Arora 2018 says of the two (Sections 5, 6.1, D.1), checked on their records.

The paper's words are qualitative; each check names the threshold that it puts in their place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import geometric_mean, median
from typing import TYPE_CHECKING

import torch

from cushion.errors import BadInput
from cushion.measures.family import PaperClaim
from cushion.measures.probing import probe_generator
from cushion.measures.stability.records import standard
from cushion.nets.network import Network

if TYPE_CHECKING:
    from cushion.measures.records import LayerMeasures, MeasureTable

_OPTIONS = ("stride", "padding", "dilation", "groups")
_MOST = 0.8  # "most" and "almost all" layers
_SMALL = 2.0  # "a small constant", "approximately 1"
_MODEST = 3.0  # a contraction that is called small
_MEDIANS = "median of the layers' medians"


def check_alike(net: Network, other: Network, name: str) -> None:
    """BadInput unless both are the same graph of layers, so that weights can be subtracted."""
    if _outline(net) != _outline(other):
        raise BadInput(f"{name} has other layers than the net; give this very net's")


def _outline(net: Network) -> list[object]:
    """Everything but the numbers: operations with their options, shapes and connections."""
    lines: list[object] = []
    for node in net.nodes:
        what: object = repr(node.op)
        if node in net.affine_layers:
            operator = node.affine.operator
            options = {key: value for key, value in vars(operator).items() if key in _OPTIONS}
            what = type(operator), tuple(operator.weight.shape), options
        lines.append((what, node.inputs, node.shape))
    return lines


def scaled_to_match(net: Network, other: Network) -> Network:
    """`other` with each weight scaled to the Frobenius norm that it has in `net`.

    Biases grow with the product of the factors so far: in a chain the scores are those of `other`
    times one number (Figure 1 of Arora 2018: "scaled properly"), and cushions, which do not see
    scales, are those of `other`. Where branches meet, no such number exists.
    """
    changes = {}
    product = 1.0
    for node, model in zip(other.affine_layers, net.affine_layers, strict=True):
        operator, bias = node.affine.operator, node.affine.bias
        own = operator.frobenius()
        factor = model.affine.operator.frobenius() / own if own > 0 else 1.0
        product *= factor
        weight = operator.with_weight(operator.weight * factor)
        shift = None if bias is None else bias * product
        changes[node.index] = replace(node.affine, operator=weight, bias=shift)
    return other.with_affine(changes)


def random_like(net: Network, seed: int) -> Network:
    """The architecture with Gaussian weights of the same Frobenius norms and without biases."""
    changes = {}
    for node in net.affine_layers:
        operator = node.affine.operator
        generator = probe_generator(seed, "random net", node.index)
        old = operator.weight
        weight = torch.randn(old.shape, generator=generator, dtype=old.dtype).to(old.device)
        changes[node.index] = replace(node.affine, operator=operator.with_weight(weight), bias=None)
    return scaled_to_match(net, net.with_affine(changes))


def check_claims(found: MeasureTable, beside: MeasureTable) -> tuple[PaperClaim, ...]:
    """One record a claim; `beside` is the same architecture untrained, scaled to match."""
    return (*_growth(found, beside), *_layers(found), *_smooth(found))


def _growth(found: MeasureTable, beside: MeasureTable) -> Iterator[PaperClaim]:
    both = [(_middle(a), _middle(b)) for a, b in zip(found.layers, beside.layers, strict=True)]
    growth = [mine / other for mine, other in both if mine and other]
    if not growth:
        return
    up, mean = sum(factor > 1 for factor in growth), geometric_mean(growth)
    seen = f"median over examples larger than beside in {up} of {len(growth)} layers; factor"
    yield PaperClaim(
        held=up >= _MOST * len(growth),
        claim="the layer cushion grows with training",
        found=f"{seen} {mean:.3g} (geometric mean), {min(growth):.3g} to {max(growth):.3g}",
        threshold=f"in at least {_MOST:.0%} of the layers",
    )
    if len(growth) < 2:
        return
    half = len(growth) // 2
    early, late = geometric_mean(growth[:half]), geometric_mean(growth[half:])
    yield PaperClaim(
        claim="and most in later layers",
        found=f"factor {early:.3g} in the first half of the layers, {late:.3g} in the second",
        threshold="larger in the second half",
        held=late > early,
    )


def _middle(layer: LayerMeasures) -> float:
    """The median layer cushion; 0 if there is none."""
    return 0.0 if layer.layer_cushion is None else float(layer.layer_cushion.quantiles["0.5"])


def _layers(found: MeasureTable) -> Iterator[PaperClaim]:
    contractions = [layer.activation_contraction for layer in found.layers]
    if spreads := [one for one in contractions if one is not None]:
        largest = max(spread.value for spread in spreads)
        middle = median(spread.quantiles["0.5"] for spread in spreads)
        yield PaperClaim(
            claim="the activation contraction is small",
            found=f"c = {largest:.3g} over all layers and examples; {_MEDIANS} {middle:.3g}",
            threshold=f"c at most {_MODEST:g}",
            held=largest <= _MODEST,
        )
    inner = [layer.minimal_interlayer_cushion for layer in found.layers[1:-1]]
    if inner := [one for one in inner if one is not None and one.unclipped is not None]:
        reach = sum(one.value >= one.clip for one in inner)
        claim = "clipping sets the minimal interlayer cushion to 1/√h in all layers but the first"
        typical = sum(one.unclipped.quantiles["0.5"] >= one.clip for one in inner)
        yield PaperClaim(
            claim=claim,
            found=f"the minimum over examples reaches 1/√h in {reach} of {len(inner)} layers, the "
            f"median in {typical}",
            threshold="the minimum in all layers but the first (and the last, which is 1/√h by "
            "definition)",
            held=reach == len(inner),
        )
    betas = [layer.jacobian_beta for layer in found.layers if len(layer.output_shape) == 3]
    if betas := [one for one in betas if one is not None]:
        values = [one.value for one in betas]
        small = sum(value <= _SMALL for value in values)
        middle = median(one.spread.quantiles["0.5"] for one in betas)
        yield PaperClaim(
            claim="the Jacobian is well distributed: β ≈ 1 for almost all convolutional layers",
            found=f"largest β at most {_SMALL:g} in {small} of {len(values)} layers; from "
            f"{min(values):.3g} to {max(values):.3g}, {_MEDIANS} {middle:.3g}",
            threshold=f"β at most {_SMALL:g} in at least {_MOST:.0%} of the layers",
            held=small >= _MOST * len(values),
        )


def _smooth(found: MeasureTable) -> Iterator[PaperClaim]:
    laws = () if found.net.stability is None else found.net.stability.interlayer_smoothness
    law = standard(laws)
    if law is None:
        return
    raw = next((law for law in laws if law.level is None), law)
    rho, wanted = math.inf if law.value is None else law.value, 3 * found.net.depth
    yield PaperClaim(
        claim="1/ρ is a small constant",
        found=f"1/ρ = {law.inverse:.3g} under {law.noise} (δ = {law.delta:g}); "
        f"{raw.inverse:.3g} under {raw.noise}",
        threshold=f"at most {_SMALL:g} under the first",
        held=law.inverse <= _SMALL,
    )
    yield PaperClaim(
        claim="ρ ≥ 3d, as Theorems 4.1 and 5.1 assume",
        found=f"ρ = {rho:.3g}, 3d = {wanted}",
        threshold="as stated",
        held=rho >= wanted,
    )
