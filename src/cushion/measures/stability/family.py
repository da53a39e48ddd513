"""Noise stability (Arora 2018) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cushion.measures.family import Context, Family, Found, PaperClaim, View
from cushion.measures.stability.options import StabilityOptions
from cushion.measures.stability.records import LayerStability, StabilityOfNet, standard

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_WORST = (
    "name kind shape layer_cushion activation_contraction minimal_interlayer_cushion.unclipped "
    "minimal_interlayer_cushion.clip pairs jacobian_beta smoothness.inverse effective_parameters "
    "effective_parameters.percent"
)
_WHOLE = (
    "activation_contraction effective_parameters zeta effective_parameters_zeta "
    "effective_parameters_from_initialisation capacity bias_gap"
)
_MEDIANS = (
    "name layer_cushion.median activation_contraction.median "
    "minimal_interlayer_cushion.unclipped.median smoothness.inverse_spread.median"
)


def _measure(context: Context) -> Found:
    from cushion.measures.stability.measurement import measure_stability

    layers, whole = measure_stability(context)
    return Found(layers, StabilityOfNet(whole))


def _claims(table: MeasureTable, twin: MeasureTable) -> tuple[PaperClaim, ...]:
    from cushion.measures.stability.claims import check_claims

    return check_claims(table, twin)


def _views(table: MeasureTable) -> Iterator[View]:
    whole = table.net.stability
    title = "Noise stability (Arora 2018): the worst over the examples, as each definition asks"
    notes = [
        f"cushion, contraction: over all {table.net.m} examples; the rest over {whole.examples}",
        _pairs(table),
    ]
    yield View(title, table.layers, _WORST, notes)
    yield View("Noise stability of the whole net", [whole], _WHOLE, upright=True)
    law = standard(whole.interlayer_smoothness)
    few = law is not None and law.delta * law.draws < 1
    yield View(
        "Interlayer smoothness of the whole net" + ("" if law else ": not measured (`draws` = 0)"),
        whole.interlayer_smoothness,
        "noise delta draws value inverse standard_error relative_norm",
        ["with so few draws rho is the worst of them: this δ needs more"] if few else [],
    )
    for at, curve in enumerate(table.layers[0].noise_attenuation):
        columns = f"name noise_attenuation.{at}.after noise_attenuation.{at}.at_the_end"
        yield View(f"Noise of {curve.level:.0%} in each layer's input", table.layers, columns)
    if table.beside is not None:
        title = "Medians over the examples, and those of the net beside it"
        yield View(title, table.layers, _MEDIANS, beside=table.beside.layers)
        claims = [
            f"{'holds' if one.held else 'FAILS'}: {one.claim}: {one.found} (threshold: "
            f"{one.threshold})"
            for one in table.claims
        ]
        yield View("What the paper says of trained nets, on this one", [], "", claims)


def _pairs(table: MeasureTable) -> str:
    """How many pairs are exact, estimated or missing, for cushions and for β."""
    cushions = [layer.interlayer_cushion for layer in table.layers if layer.interlayer_cushion]
    pairs = [pair for cushion in cushions for pair in cushion.pairs]
    guessed = [pair.standard_error for pair in pairs if pair.standard_error is not None]
    text = f"pairs of layers: {len(pairs) - len(guessed)} exact"
    if guessed:
        text += (
            f"; {len(guessed)} by probes (~), mean relative standard error up to {max(guessed):.2g}"
        )
    minimal = [layer.minimal_interlayer_cushion for layer in table.layers]
    if any(part is not None and not part.all_pairs for part in minimal):
        text += "; some were left out (?), so effective parameters are not given"
    looked = sum(len(layer.jacobian_beta.to) for layer in table.layers if layer.jacobian_beta)
    return f"{text}; beta from the {looked} with all their places"


FAMILY = Family(
    name="stability",
    effort=20,
    title="noise stability (Arora 2018)",
    options=StabilityOptions,
    layer=LayerStability,
    net=StabilityOfNet,
    sees=frozenset({"norms"}),
    brings=("spectra",),  # noise spreads over the whole spectrum
    measure=_measure,
    views=_views,
    claims=_claims,
)
