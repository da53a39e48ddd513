"""Norms, paths, margins, sharpness and conditions for people: numbers in columns, and under them
what they mean.
"""

from __future__ import annotations

import math

from cushion.cli.output import number, power, table
from cushion.measures.conditions.records import NetConditions, TheoremOne
from cushion.measures.records import MeasureTable, NetMeasures
from cushion.records import Distribution


def norm_lines(found: MeasureTable) -> list[str]:
    """Norms of each layer, and how far training moved it."""
    if not any(layer.spectral is not None for layer in found.layers):
        return []
    header = [
        "layer",
        "kind",
        "shape",
        "weight ‖·‖_F",
        "map ‖·‖_F",
        "‖·‖₂",
        "at most",
        "stable rank",
    ]
    header += ["‖·‖_1,∞", "‖·‖_2,1", "trace norm"]
    moved = any(layer.distance is not None for layer in found.layers)
    header += ["moved ‖·‖_F", "moved ‖·‖₂"] if moved else []
    rows = []
    for layer in found.layers:
        groups = layer.group_norms
        values = [
            layer.frobenius,
            layer.operator_frobenius,
            layer.spectral,
            layer.spectral_upper,
            layer.stable_rank,
        ]
        values += [None, None] if groups is None else [groups.l1_inf, groups.l2_1]
        trace = (
            "-"
            if groups is None
            else ("" if groups.trace_norm_exact else "~") + number(groups.trace_norm)
        )
        cells = [
            layer.name,
            layer.kind,
            "x".join(map(str, layer.shape)),
            *map(number, values),
            trace,
        ]
        if moved:
            far = layer.distance
            cells += ["-", "-"] if far is None else [number(far.frobenius), number(far.spectral)]
        rows.append(cells)
    net = found.net
    total = f"all parameters together: ‖w‖₂ = {number(net.l2)}"
    total += (
        "" if net.distance is None else f", moved from initialisation by {number(net.distance)}"
    )
    return [
        "Norms of the layers",
        table(header, rows),
        "weight: of the layer's parameters; the rest of the true map, a convolution with stride "
        "and padding; at most:",
        "above ‖·‖₂ whatever the rounding; ‖·‖_p,q: ℓ_q over units of the ℓ_p norm of their "
        "incoming weights",
        total,
    ]


def path_lines(net: NetMeasures) -> list[str]:
    """The path norms."""
    if not net.path_norms:
        return []
    rows = [
        [
            f"l{path.p:g}",
            power(path.log10, path.value),
            power(path.log10_with_biases, path.with_biases),
        ]
        for path in net.path_norms
    ]
    return [
        "Path norms: ℓ_p norm of the products of the weights along all paths from an input to an "
        "output",
        table(["p", "path norm", "with paths from biases"], rows),
        "unchanged if a hidden unit's incoming weights are multiplied and its outgoing ones "
        "divided by a number",
    ]


def margin_lines(net: NetMeasures) -> list[str]:
    """Errors and margins."""
    spread, margin = net.margins, net.margin
    if spread is None or margin is None:
        return []
    lines = [
        f"errors on these examples {net.errors}/{net.m}; margins: hard (smallest) "
        f"{number(margin.hard)}, 5th percentile {number(net.margin_5th)}, median "
        f"{number(spread.quantiles['0.5'])}",
        f"γ = {number(margin.value)}: all but {margin.epsilon:.3g} of the examples exceed it; a "
        f"fraction {number(margin.loss)} does not (margin loss)",
    ]
    if margin.value <= 0:
        lines.append(
            "γ is not positive, so norms cannot be compared relative to it: the net errs on too "
            "many examples"
        )
    return lines


def sharpness_lines(net: NetMeasures) -> list[str]:
    """Keskar's sharpness and the bi-criteria curve."""
    found = net.sharpness
    if found is None:
        return []
    lines = ["Sharpness: how much the loss rises when the weights move"]
    most = found.maximum
    if most is not None:
        end = "; the ascent ended below its start" if most.ended_below else ""
        lines.append(
            f"largest: ζ = {number(most.value)} in the box {most.alpha:g}(|w| + 1), found by "
            f"{most.steps} steps of ascent, so at least that{end}; cross-entropy "
            f"{number(most.loss_before)} → {number(most.loss_after)}, error "
            f"{number(most.error_before)} → {number(most.error_after)}"
        )
    curve = found.expected
    if curve is not None:
        rows = [
            [
                f"{point.alpha:g}",
                power(math.log10(point.kl) if point.kl > 0 else None, point.kl),
                _plus_minus(point.sharpness, point.sharpness_standard_error),
                _plus_minus(point.error_sharpness, point.error_sharpness_standard_error),
            ]
            for point in curve.points
        ]
        draws, batch = curve.points[0].draws, curve.points[0].batch
        lines += [
            f"expected, under Gaussian noise of std {curve.rule.replace('alpha*', 'α')} in every "
            f"parameter ({draws} draws on {batch} examples each), ± one standard error",
            table(["α", "KL (nats)", "rise of cross-entropy", "rise of error"], rows),
            "little noise: large KL, no sharpness; the lower the curve of sharpness over KL, the "
            "better",
        ]
    return lines


def condition_lines(found: MeasureTable) -> list[str]:
    """C1-C3 and Theorem 1, of this net and of the one beside it."""
    mine = found.net.conditions
    if mine is None:
        return []
    if mine.not_measured_because:
        return [
            f"Conditions of Theorem 1 (Neyshabur 2017): not measured: {mine.not_measured_because}"
        ]
    other = None if found.beside is None else found.beside.net.conditions
    nets = [mine] if other is None or other.not_measured_because else [mine, other]
    rows = []
    for name, values in _conditions(nets):
        rows.append([name, *values])
    header = ["condition", "this net"] + (["beside it"] if len(nets) > 1 else [])
    exact = mine.interaction is not None and mine.interaction.exact
    how = "exactly" if exact else f"with {mine.probes} probes a layer"
    return [
        f"Conditions of Theorem 1 (Neyshabur 2017), on {mine.examples} examples, C1 {how}",
        table(header, rows),
        "C1  1/μ: how weakly layers interact, 1 = as strongly as random ones; the paper reports at "
        "most 4",
        "C2  share of a layer's units that a perturbation of size δ can flip, over δ; the paper "
        "reports at most 5",
        "C3  largest incoming norm of a unit over the active units' root mean square; the paper "
        "reports at most 3",
    ]


def _conditions(nets: list[NetConditions]) -> list[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    for label, part in (
        ("a < c < b, as in the text", "text"),
        ("a ≤ c ≤ b-1, as in Figure 6", "figure6"),
    ):
        sets = [None if net.interaction is None else getattr(net.interaction, part) for net in nets]
        rows.append(
            (f"C1 1/μ, {label}: median", [_quantile(one and one.inverse, "0.5") for one in sets])
        )
        rows.append(
            ("   largest", [number(one and one.inverse and one.inverse.value) for one in sets])
        )
    rows.append(
        (
            "C2 for all δ: largest",
            [number(max((f.value for f in n.activation_flips), default=None)) for n in nets],
        )
    )
    for label, pick in (("median", _median_flips), ("largest", _largest_flips)):
        rows.append(
            (f"   for δ that flip at least 1 %: {label}", [number(pick(net)) for net in nets])
        )
    largest = [[part.value for part in net.unit_norms if part.value is not None] for net in nets]
    rows.append(("C3 largest", [number(max(values, default=None)) for values in largest]))
    for version in ("as printed", "corrected"):
        chosen = [_theorem(net, version) for net in nets]
        cells = ["-" if one is None else power(one.log10_total, one.total) for one in chosen]
        rows.append((f"Theorem 1, {version}, with 1 for O(.)", cells))
    return rows


def _largest_flips(net: NetConditions) -> float | None:
    return max((flips.restricted for flips in net.activation_flips), default=None)


def _median_flips(net: NetConditions) -> float | None:
    """The worst layer's median over the examples."""
    return max(
        (flips.restricted_spread.quantiles["0.5"] for flips in net.activation_flips), default=None
    )


def _theorem(net: NetConditions, version: str) -> TheoremOne | None:
    return next(
        (t for t in net.theorem if t.version == version and t.delta_range == "restricted"), None
    )


def _quantile(spread: Distribution | None, level: str) -> str:
    return "-" if spread is None else number(spread.quantiles[level])


def _plus_minus(value: float, error: float | None) -> str:
    return number(value) if error is None else f"{number(value)} ± {error:.2g}"
