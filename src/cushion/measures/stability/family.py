"""Noise stability (Arora 2018) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from cushion.errors import BadInput
from cushion.measures.family import Context, Family, Found, PaperClaim, View
from cushion.measures.stability.records import LayerStability, StabilityOfNet, standard
from cushion.records import Options, option

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

Method: TypeAlias = Literal["auto", "exact", "probes"]

_WORST = (
    "name kind shape layer_cushion activation_contraction minimal_interlayer_cushion.unclipped "
    "minimal_interlayer_cushion.clip pairs jacobian_beta smoothness.inverse effective_parameters "
    "effective_parameters.percent"
)
_WHOLE = (
    "activation_contraction effective_parameters zeta effective_parameters_zeta "
    "effective_parameters_from_initialisation capacity bias_gap"
)
_SMOOTHNESS = "noise delta draws value inverse standard_error relative_norm"
_MEDIANS = (
    "name layer_cushion.median activation_contraction.median "
    "minimal_interlayer_cushion.unclipped.median smoothness.inverse_spread.median"
)


_SEEN = "name kind shape layer_cushion activation_contraction noise_sensitivity"
_BLOCKS = "name kind shape interlayer_cushion interlayer_smoothness.inverse"


class StabilityOptions(Options):
    """Defaults are quick; every field is a flag of `cushion measure`."""

    examples: int | None = option(
        None, "rows for everything but the one pass: what some minutes allow, if not given", least=1
    )
    probes: int = option(16, "probes for large pairs of layers; 0 leaves those out", least=0)
    method: Method = option("auto", "of Jacobian norms: exact never probes, probes always does")
    draws: int = option(20, "of noise for the smoothness; 0: none", least=0)
    delta: float = option(0.05, "of the smoothness rho_delta", least=0, below=1)
    k: int = option(1000, "sign matrices of Algorithm 1", least=1, most=10**9, shown="K")
    levels: tuple[float, ...] = option(
        (0.1, 1.0), "norms of injected noise; smoothness uses the first", above=0, shown="L,..."
    )
    attenuation_draws: int = option(4, "of injected noise; 0: none", least=0)
    zeta: float = option(0.05, "examples that Corollaries A.1 and C.1 may drop", least=0, below=1)
    places: int = option(0, "sampled places for beta of large pairs", least=0)
    seed: int = option(0, "of rows, probes and draws", least=0, most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.levels)) < len(self.levels):
            raise BadInput("`levels` names one level twice; leave one out")


def _measure(context: Context) -> Found:
    from cushion.measures.stability.hooked import measure_hooked
    from cushion.measures.stability.measurement import measure_stability
    from cushion.nets.hooked.net import HookedNet

    if isinstance(context.net, HookedNet):
        layers, whole, blocks = measure_hooked(context)
        return Found(layers, StabilityOfNet(whole, blocks))
    layers, whole = measure_stability(context)
    return Found(layers, StabilityOfNet(whole))


def _claims(table: MeasureTable, twin: MeasureTable) -> tuple[PaperClaim, ...]:
    from cushion.measures.stability.comparison import check_claims

    return check_claims(table, twin)


def _views(table: MeasureTable) -> Iterator[View]:
    whole = table.net.stability
    if table.net.way == "hooks":
        yield from _hooked_views(table)
        return
    title = "Noise stability (Arora 2018): the worst over the examples, as each definition asks"
    rows = f"cushion, contraction: over all {table.net.m} examples; the rest over {whole.examples}"
    yield View(title, table.layers, _WORST, [rows, _pairs(table)])
    yield View("Noise stability of the whole net", [whole], _WHOLE, upright=True)
    law = standard(whole.interlayer_smoothness)
    few = law is not None and law.delta * law.draws < 1
    title = "Interlayer smoothness of the whole net" + (
        "" if law else ": not measured (`draws` = 0)"
    )
    notes = ["with so few draws rho is the worst of them: this δ needs more"] if few else []
    yield View(title, whole.interlayer_smoothness, _SMOOTHNESS, notes)
    for at, curve in enumerate(table.layers[0].noise_attenuation):
        columns = f"name noise_attenuation.{at}.after noise_attenuation.{at}.at_the_end"
        yield View(f"Noise of {curve.level:.0%} in each layer's input", table.layers, columns)
    if table.beside is not None:
        title = "Medians over the examples, and those of the net beside it"
        yield View(title, table.layers, _MEDIANS, beside=table.beside.layers)
        claims = []
        for one in table.claims:
            verdict = "holds" if one.held else "FAILS"
            claims.append(f"{verdict}: {one.claim}: {one.found} (threshold: {one.threshold})")
        yield View("What the paper says of trained nets, on this one", [], "", claims)


def _hooked_views(table: MeasureTable) -> Iterator[View]:
    whole, blocks = table.net.stability, table.net.blocks
    title = "Noise stability of the layers (Arora 2018, Definitions 3, 4 and 6), by hooks"
    seen = [layer for layer in table.layers if layer.layer_cushion is not None]
    rows = f"over all {table.net.m} examples; noise below over {whole.examples}"
    yield View(title, seen, _SEEN, [rows])
    for at, curve in enumerate(seen[0].noise_attenuation if seen else ()):
        columns = f"name noise_attenuation.{at}.after noise_attenuation.{at}.at_the_end"
        yield View(f"Noise of {curve.level:.0%} in each layer's input", seen, columns)
    why = [whole.blocks_left_out] if whole.blocks_left_out else []
    note = (
        f"between blocks, each one layer of a chain; {whole.probes} probes; a measure, no theorem"
    )
    yield View("Noise stability of the blocks", blocks, _BLOCKS, [note, *why])


def _pairs(table: MeasureTable) -> str:
    """How many pairs are exact, estimated or missing, for cushions and for β."""
    cushions = [layer.interlayer_cushion for layer in table.layers if layer.interlayer_cushion]
    pairs = [pair for cushion in cushions for pair in cushion.pairs]
    guessed = [pair.standard_error for pair in pairs if pair.standard_error is not None]
    text = f"pairs of layers: {len(pairs) - len(guessed)} exact"
    if guessed:
        error = f"mean relative standard error up to {max(guessed):.2g}"
        text += f"; {len(guessed)} by probes (~), {error}"
    minimal = [layer.minimal_interlayer_cushion for layer in table.layers]
    if any(part is not None and not part.all_pairs for part in minimal):
        text += "; some were left out (?), so effective parameters are not given"
    looked = sum(len(layer.jacobian_beta.to) for layer in table.layers if layer.jacobian_beta)
    return f"{text}; beta from the {looked} with all their places"


FAMILY = Family(
    "stability",
    _measure,
    "noise stability (Arora 2018)",
    StabilityOptions,
    LayerStability,
    StabilityOfNet,
    effort=20,
    ways=("trace", "hooks"),
    premises=("homogeneous",),  # J x^i is the output without bias, as Arora's lemmas use it
    sees=frozenset({"norms"}),
    brings=("spectra",),  # noise spreads over the whole spectrum
    views=_views,
    claims=_claims,
)
