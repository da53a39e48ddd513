"""The measure table for people: numbers in columns, and under them what they mean."""

from __future__ import annotations

from cushion.cli.capacity_text import (
    condition_lines,
    margin_lines,
    norm_lines,
    path_lines,
    sharpness_lines,
)
from cushion.cli.output import number, table
from cushion.cli.tail_text import tail_lines
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.measures.stability.records import NetStability, Smoothness


def describe(found: MeasureTable) -> str:
    """All that was measured, family by family."""
    net = found.net
    lines = [
        f"{net.parameters} parameters in {net.depth} affine layers, on {net.m} examples of "
        f"{net.data} ({found.note})"
    ]
    if not net.is_chain:
        lines.append(f"not a chain of layers: {net.not_a_chain_because}")
    if net.stability is not None:
        lines += ["", *_stability(found, net.stability)]
    if any(layer.spectrum is not None for layer in found.layers):
        lines += ["", *_spectra(found)]
    parts = [
        norm_lines(found),
        path_lines(net),
        margin_lines(net),
        sharpness_lines(net),
        condition_lines(found),
    ]
    for part in (*parts, tail_lines(found)):
        lines += ["", *part] if part else []
    return "\n".join(lines)


def standard(laws: tuple[Smoothness, ...]) -> Smoothness | None:
    """The law of noise that the table shows."""
    return next((law for law in laws if law.is_standard), None)


def _spectra(found: MeasureTable) -> list[str]:
    header = [
        "layer",
        "values",
        "largest",
        "median",
        "stable rank",
        "hold 90 %",
        "kernel: largest",
        "hold 90 %",
    ]
    rows = []
    for layer in found.layers:
        whole, kernel = layer.spectrum, layer.kernel_spectrum
        if whole is None or kernel is None:
            continue
        cells = [
            layer.name,
            f"{whole.count}{'' if whole.exact else ' (estimated)'}",
            number(whole.spectral),
        ]
        cells += [
            number(whole.quantiles["0.5"]),
            number(whole.stable_rank),
            str(whole.effective_rank_90),
        ]
        rows.append(
            [*cells, number(kernel.spectral), f"{kernel.effective_rank_90} of {kernel.count}"]
        )
    return [
        "Singular values of each layer's true map (padding and stride included), and of its kernel "
        "as a matrix",
        table(header, rows),
        "hold 90 %: the fewest that hold 90 % of ‖A‖_F²; few large values carry the signal, noise "
        "spreads over all",
    ]


def _name(layer: LayerMeasures) -> list[str]:
    return [layer.name, layer.kind, "x".join(map(str, layer.shape))]


def _stability(found: MeasureTable, whole: NetStability) -> list[str]:
    header = [
        "layer",
        "kind",
        "shape",
        "cushion",
        "contraction",
        "interlayer",
        "clipped at",
        "beta",
        "1/rho",
    ]
    header += ["effective", "% of actual"]
    rows = [[*_name(layer), *_stability_cells(layer)] for layer in found.layers]
    lines = [
        "Noise stability (Arora 2018): the worst over the examples, as each definition asks",
        table(header, rows),
        f"cushion, contraction: over all {found.net.m} examples; the rest over {whole.examples} of "
        "them",
        "cushion      ‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖), smallest: the larger, the less noise in A matters "
        "(Def. 4)",
        "contraction  ‖x‖ / ‖φ(x)‖ of what the layer puts out, largest (Def. 6)",
        "interlayer   smallest over later layers of √places·‖J x‖ / (‖J‖_F ‖x‖), unclipped (Def. "
        "5, 8)",
        "beta         largest share of one place in the Jacobian, 1 = even (Def. 9)",
        _rho_line(whole),
        "effective    c²β²⌈κ/s⌉²/(μ²μ_→²), the parameters that the layer counts as, up to "
        "constants and logarithms (Table 1); % of its weights",
        _pairs_line(found),
    ]
    lines += _whole_net(whole)
    lines += _attenuation(found)
    if found.beside is not None:
        lines += _beside(found, found.beside)
    return lines


def _stability_cells(layer: LayerMeasures) -> list[str]:
    minimal, effective = layer.minimal_interlayer_cushion, layer.effective_parameters
    rho = standard(layer.interlayer_smoothness)
    return [
        number(layer.layer_cushion and layer.layer_cushion.value),
        number(layer.activation_contraction and layer.activation_contraction.value),
        _mark(layer) + number(minimal and minimal.unclipped and minimal.unclipped.value),
        number(minimal and minimal.clip),
        number(layer.jacobian_beta and layer.jacobian_beta.value),
        number(rho and rho.inverse),
        number(effective and effective.value),
        number(effective and effective.percent),
    ]


def _mark(layer: LayerMeasures) -> str:
    """~ before what rests on probes, ? before what lacks some later layers."""
    minimal, cushion = layer.minimal_interlayer_cushion, layer.interlayer_cushion
    if minimal is None or cushion is None:
        return ""
    guessed = any(not pair.exact for pair in cushion.pairs)
    return ("~" if guessed else "") + ("" if minimal.all_pairs else "?")


def _pairs_line(found: MeasureTable) -> str:
    """How many pairs are exact, estimated or missing, for cushions and for β."""
    cushions = [
        layer.interlayer_cushion for layer in found.layers if layer.interlayer_cushion is not None
    ]
    pairs = [pair for cushion in cushions for pair in cushion.pairs]
    guessed = [pair.standard_error for pair in pairs if pair.standard_error is not None]
    text = f"pairs        {len(pairs) - len(guessed)} exact"
    if guessed:
        text += (
            f"; {len(guessed)} by probes (~), mean relative standard error up to {max(guessed):.2g}"
        )
    minimal = [layer.minimal_interlayer_cushion for layer in found.layers]
    if any(part is not None and not part.all_pairs for part in minimal):
        text += "; some were left out (?), so effective parameters are not given"
    looked = sum(
        len(layer.jacobian_beta.to) for layer in found.layers if layer.jacobian_beta is not None
    )
    return f"{text}; beta from the {looked} with all their places"


def _rho_line(whole: NetStability) -> str:
    law = standard(whole.interlayer_smoothness)
    if law is None:
        return "1/rho        not measured (--draws 0)"
    few = ", the worst of them: this δ needs more" if law.delta * law.draws < 1 else ""
    return (
        f"1/rho        departure from the linearised net under noise ({law.noise}; δ = "
        f"{law.delta:g}, draws: {law.draws}{few}): small is smooth (Def. 7)"
    )


def _whole_net(whole: NetStability) -> list[str]:
    lines = ["", f"whole net: contraction c = {number(whole.activation_contraction)}"]
    for law in whole.interlayer_smoothness:
        error = (
            ""
            if law.standard_error is None
            else f" (standard error of rho {law.standard_error:.2g})"
        )
        lines.append(
            f"           rho = {number(law.value)}, 1/rho = {number(law.inverse)}{error} under "
            f"{law.noise}; mean ‖η‖/‖x‖ {number(law.relative_norm)}"
        )
    lines.append(
        f"           effective parameters {number(whole.effective_parameters)}; without the worst "
        f"{whole.zeta:.0%} of examples {number(whole.effective_parameters_zeta)}; from "
        f"initialisation {number(whole.effective_parameters_from_initialisation)}"
    )
    lines.append(
        f"           capacity (depth·c/(μ·μ_→))² of the worst layer {number(whole.capacity)} "
        "(without β and ⌈κ/s⌉)"
    )
    if whole.bias_gap is not None and whole.bias_gap > 1e-3:
        lines.append(
            "           biases matter: ‖J x^i‖ differs from ‖x^j‖ by up to "
            f"{number(whole.bias_gap)} of it (the paper has no biases)"
        )
    return lines


def _attenuation(found: MeasureTable) -> list[str]:
    curves = [layer for layer in found.layers if layer.noise_attenuation]
    if not curves:
        return []
    last = found.layers[-1].name
    header = ["noise into"]
    for curve in curves[0].noise_attenuation:
        header += [f"{curve.level:.0%}: after it", f"at {last}"]
    rows = []
    for layer in curves:
        cells = [layer.name]
        for curve in layer.noise_attenuation:
            cells += [number(curve.points[0].mean), number(curve.points[-1].mean)]
        rows.append(cells)
    return [
        "",
        "Injected noise, mean relative error right after the layer and at the scores",
        table(header, rows),
    ]


def _beside(found: MeasureTable, other: MeasureTable) -> list[str]:
    """Medians side by side: they show what training did to most examples."""
    header = [
        "layer",
        "cushion",
        "beside",
        "contraction",
        "beside",
        "interlayer",
        "beside",
        "1/rho",
        "beside",
    ]
    rows = []
    for layer, twin in zip(found.layers, other.layers, strict=True):
        cells = [layer.name]
        for mine, theirs in zip(_medians(layer), _medians(twin), strict=True):
            cells += [number(mine), number(theirs)]
        rows.append(cells)
    lines = [
        "",
        "Medians over the examples, and those of the net beside it",
        table(header, rows),
        "",
    ]
    lines.append("What the paper says of trained nets, on this one")
    for claim in found.claims:
        lines.append(
            f"{'holds' if claim.held else 'FAILS'}  {claim.claim}: {claim.found} (threshold: "
            f"{claim.threshold})"
        )
    return lines


def _medians(layer: LayerMeasures) -> list[float | None]:
    minimal = layer.minimal_interlayer_cushion
    rho = standard(layer.interlayer_smoothness)
    spreads = (
        layer.layer_cushion,
        layer.activation_contraction,
        None if minimal is None else minimal.unclipped,
        None if rho is None else rho.inverse_spread,
    )
    return [None if spread is None else spread.quantiles["0.5"] for spread in spreads]
