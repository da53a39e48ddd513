"""What Arora 2018 says of trained nets (Sections 5, 6.1, D.1), checked on the net that was
measured, from its records.

The paper's words are qualitative; each check names the threshold that it puts in their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import geometric_mean, median

from cushion.measures.family import PaperClaim
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.measures.stability.records import standard

_MOST = 0.8  # "most" and "almost all" layers
_SMALL = 2.0  # "a small constant", "approximately 1"
_MODEST = 3.0  # a contraction that is called small


def check_claims(found: MeasureTable, beside: MeasureTable) -> tuple[PaperClaim, ...]:
    """One record a claim; `beside` is the same architecture untrained, scaled to match."""
    growth = [
        _middle(layer) / _middle(twin)
        for layer, twin in zip(found.layers, beside.layers, strict=True)
        if _middle(layer) and _middle(twin)
    ]
    checks = [
        _grows(growth),
        _grows_later(growth),
        _contracts(found),
        _unclipped(found.layers),
        _even(found.layers),
    ]
    return tuple(check for check in (*checks, *_smooth(found)) if check is not None)


def _middle(layer: LayerMeasures) -> float:
    """The median layer cushion; 0 if there is none."""
    return 0.0 if layer.layer_cushion is None else layer.layer_cushion.quantiles["0.5"]


def _grows(growth: Sequence[float]) -> PaperClaim | None:
    if not growth:
        return None
    up = sum(factor > 1 for factor in growth)
    return PaperClaim(
        claim="the layer cushion grows with training",
        found=f"median over examples larger than beside in {up} of {len(growth)} layers; factor "
        f"{geometric_mean(growth):.3g} (geometric mean), {min(growth):.3g} to {max(growth):.3g}",
        threshold=f"in at least {_MOST:.0%} of the layers",
        held=up >= _MOST * len(growth),
    )


def _grows_later(growth: Sequence[float]) -> PaperClaim | None:
    if len(growth) < 2:
        return None
    early, late = growth[: len(growth) // 2], growth[len(growth) // 2 :]
    return PaperClaim(
        claim="and most in later layers",
        found=f"factor {geometric_mean(early):.3g} in the first half of the layers, "
        f"{geometric_mean(late):.3g} in the second",
        threshold="larger in the second half",
        held=geometric_mean(late) > geometric_mean(early),
    )


def _contracts(found: MeasureTable) -> PaperClaim | None:
    worst = [
        layer.activation_contraction
        for layer in found.layers
        if layer.activation_contraction is not None
    ]
    if not worst:
        return None
    middle = median(spread.quantiles["0.5"] for spread in worst)
    largest = max(spread.value for spread in worst)
    return PaperClaim(
        claim="the activation contraction is small",
        found=f"c = {largest:.3g} over all layers and examples; median of the layers' medians "
        f"{middle:.3g}",
        threshold=f"c at most {_MODEST:g}",
        held=largest <= _MODEST,
    )


def _unclipped(layers: Sequence[LayerMeasures]) -> PaperClaim | None:
    inner = [
        layer.minimal_interlayer_cushion
        for layer in layers[1:-1]
        if layer.minimal_interlayer_cushion is not None
        and layer.minimal_interlayer_cushion.unclipped is not None
    ]
    if not inner:
        return None
    reach = sum(part.value >= part.clip for part in inner)
    typical = sum(
        part.unclipped.quantiles["0.5"] >= part.clip for part in inner if part.unclipped is not None
    )
    return PaperClaim(
        claim="clipping sets the minimal interlayer cushion to 1/√h in all layers but the first",
        found=f"the minimum over examples reaches 1/√h in {reach} of {len(inner)} layers, the "
        f"median in {typical}",
        threshold="the minimum in all layers but the first (and the last, which is 1/√h by "
        "definition)",
        held=reach == len(inner),
    )


def _even(layers: Sequence[LayerMeasures]) -> PaperClaim | None:
    maps = [
        layer.jacobian_beta
        for layer in layers
        if layer.jacobian_beta is not None and len(layer.output_shape) == 3
    ]
    if not maps:
        return None
    values = [part.value for part in maps]
    small = sum(value <= _SMALL for value in values)
    middle = median(part.spread.quantiles["0.5"] for part in maps)
    return PaperClaim(
        claim="the Jacobian is well distributed: β ≈ 1 for almost all convolutional layers",
        found=f"largest β at most {_SMALL:g} in {small} of {len(values)} layers; from "
        f"{min(values):.3g} to "
        f"{max(values):.3g}, median of the layers' medians {middle:.3g}",
        threshold=f"β at most {_SMALL:g} in at least {_MOST:.0%} of the layers",
        held=small >= _MOST * len(values),
    )


def _smooth(found: MeasureTable) -> tuple[PaperClaim, ...]:
    laws = () if found.net.stability is None else found.net.stability.interlayer_smoothness
    law = standard(laws)
    if law is None:
        return ()
    raw = next((law for law in laws if law.level is None), law)
    depth = found.net.depth
    rho = math.inf if law.value is None else law.value
    return (
        PaperClaim(
            claim="1/ρ is a small constant",
            found=f"1/ρ = {law.inverse:.3g} under {law.noise} (δ = {law.delta:g}); "
            f"{raw.inverse:.3g} under {raw.noise}",
            threshold=f"at most {_SMALL:g} under the first",
            held=law.inverse <= _SMALL,
        ),
        PaperClaim(
            claim="ρ ≥ 3d, as Theorems 4.1 and 5.1 assume",
            found=f"ρ = {rho:.3g}, 3d = {3 * depth}",
            threshold="as stated",
            held=rho >= 3 * depth,
        ),
    )
