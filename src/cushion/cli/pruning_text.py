"""A pruned net for people: what was tried, layers before and after, normality, promises, what is
proved.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from cushion.cli.output import number, table
from cushion.cli.promise_text import (
    WIDTH,
    bound_lines,
    choice_line,
    promise_lines,
    proved_lines,
    tried_lines,
)
from cushion.compressors.pruning.records import LayerPruning, NetPruning
from cushion.compressors.registry import METHODS


def describe(found: NetPruning, file: str, certificate: str | None, data: str) -> str:
    """Everything that was found, and what to do with the files."""
    lines = [
        *_about(found),
        "",
        *tried_lines(
            "What was tried",
            found.tried,
            [one.nonzeros for one in found.tried],
            "non-zeros",
            found.m,
        ),
        "",
        *_layers(found),
        "",
        *_spreads(found),
        "",
        *_normality(found),
    ]
    if any(layer.moments is not None for layer in found.layers):
        lines += ["", *_moments(found)]
    if any(layer.sketch is not None for layer in found.layers):
        lines += ["", *_sketches(found)]
    lines += ["", *promise_lines(found.promises), *_condition(found), ""]
    lines += proved_lines(found.errors_before, found.m, found.occam, found.assumptions)
    lines.append(choice_line(len(found.tried), found.price))
    lines += [
        "",
        *bound_lines(
            "The paper's bounds for this net (docs/pruning.md); kind says what each is",
            found.paper_bounds,
        ),
        "",
    ]
    lines.append(f"The pruned net is in {file}; in Python: cushion.load_compressed")
    if certificate is not None:
        lines.append(f"Check the certificate with: cushion verify {certificate} --data {data}")
    elif not any(row.because for row in found.occam):
        lines.append(
            "For a file that anybody can check with cushion verify, add --certificate FILE.cushion"
        )
    return "\n".join(lines)


def _about(found: NetPruning) -> list[str]:
    share = 100 * found.parameters / found.parameters_before
    chosen = next((one for one in found.tried if one.chosen), None)
    settings = [
        f"rule {found.rule}" + ("" if chosen is None else f", {chosen.asked}, grid {chosen.grid}"),
        f"{100 * found.sparsity:.4g} % of the weights are zero",
        f"fine-tuned for {found.fine_tuned} epochs" if found.fine_tuned else "",
        f"gamma = {number(found.gamma)}" if found.gamma is not None else "no positive margin",
        f"seed {found.seed}" if found.d is not None or found.method == "sketch" else "",
    ]
    errors = (
        f"errors on {found.m} examples: {found.errors_before} before, {found.errors_after_pruning} "
        "pruned"
    )
    lines = [
        f"{found.method}: {METHODS[found.method].meaning}",
        f"{found.parameters_before} parameters become {found.parameters} numbers ({share:.3g} %) "
        f"in {found.bits} bits",
        "; ".join(text for text in settings if text),
        f"{errors}, {found.errors} {'fine-tuned and ' if found.fine_tuned else ''}on the grid; "
        f"scores move by up to {number(found.output_error)}",
    ]
    for note in found.notes:
        lines += textwrap.wrap(f"note: {note}", WIDTH)
    return lines


def _layers(found: NetPruning) -> list[str]:
    layers = found.layers
    columns = [
        ("layer", [layer.name for layer in layers]),
        ("shape", ["x".join(map(str, layer.shape)) for layer in layers]),
        ("stored as", [layer.stored_as for layer in layers]),
        ("‖A‖₂", [number(layer.spectral) for layer in layers]),
        ("‖Δ‖₂", [number(layer.shift) for layer in layers]),
        ("‖Δ‖₂/Γ_l", [number(_needed(layer)) for layer in layers]),
        ("ρ", [number(layer.rho) for layer in layers]),
        ("ρ limit", [number(layer.rho_limit) for layer in layers]),
        ("as printed", [number(layer.rho_limit_printed) for layer in layers]),
        ("rounding", [number(layer.rounding) for layer in layers]),
        ("(ρ/2)√J", [number(layer.rounding_limit) for layer in layers]),
        ("ρJ", [number(layer.rounding_printed) for layer in layers]),
    ]
    shown = [(name, cells) for name, cells in columns if any(cell != "-" for cell in cells)]
    sizes = [(layer.parameters_before, layer.nonzeros, layer.bits) for layer in layers]
    rows: list[list[object]] = [
        [*(cells[at] for _, cells in shown), *sizes[at]] for at in range(len(layers))
    ]
    empty: list[object] = [""] * (len(shown) - 1)
    rest = found.bits - sum(layer.bits for layer in layers)
    rows.append(["sizes and grids", *empty, 0, 0, rest])
    rows.append(
        [
            "total",
            *empty,
            found.parameters_before,
            sum(layer.nonzeros for layer in layers),
            found.bits,
        ]
    )
    return [
        table([*(name for name, _ in shown), "before", "non-zeros", "bits"], rows),
        "‖Δ‖₂: of what pruning took away"
        + ("; Lemma 4.2 has it at most C·ε_l·Γ_l, for an unstated C" if found.d else ""),
        "ρ: step of the grid; ρ limit: Lemma 4.4 with ‖Δ‖₂ and (ρ/2)√J, and as printed; not "
        "positive: no grid does",
        *_overlaps(layers),
        "rounding: ‖Ã - Â‖₂, beside (ρ/2)√J and the printed ρJ; bits include the bias, non-zeros "
        "do not",
        *_dead(layers),
    ]


def _overlaps(layers: Sequence[LayerPruning]) -> list[str]:
    if not any(len(layer.shape) > 2 for layer in layers):
        return []
    return [
        "of a convolution J counts a weight once for each patch that can share an input: its map "
        "has as many copies"
    ]


def _dead(layers: Sequence[LayerPruning]) -> list[str]:
    dead = sum(layer.dead for layer in layers)
    if not dead:
        return []
    return [
        f"{dead} more weights went because their unit has no inputs or no reader left; constants "
        "moved to biases"
    ]


def _needed(layer: LayerPruning) -> float | None:
    return layer.shift / layer.gamma_l if layer.gamma_l else None


def _spreads(found: NetPruning) -> list[str]:
    """Definition 5.1 and Lemma 5.1."""
    limits = found.d is not None
    rows = [
        [
            layer.name,
            f"{100 * layer.nonzeros / layer.weights:.4g} %",
            layer.row_most,
            layer.column_most,
            *([number(layer.limit), number(layer.limit_printed)] if limits else []),
            "yes" if layer.diagonal else "no",
        ]
        for layer in found.layers
        if layer.normality is not None
    ]
    allowed = ["Lemma 5.1", "as printed"] if limits else []
    lines = [
        table(["layer", "left", "most in a row", "in a column", *allowed, "diagonal whole"], rows)
    ]
    shares = found.failure
    if shares:
        one = next(layer for layer in found.layers if layer.epsilon_l is not None)
        lines.append(
            f"ε_l = {number(one.epsilon_l)} and λ_l = {number(one.lambda_l)} in every layer: "
            f"Lemmas 4.2 and 5.1 together fail with at most {shares['total']:.3g} (δ = "
            f"{found.delta:g})"
        )
    return lines


def _normality(found: NetPruning) -> list[str]:
    rows = []
    for layer in found.layers:
        if (seen := layer.normality) is not None:
            rows.append(
                [
                    layer.name,
                    number(seen.psi),
                    number(seen.ks_distance),
                    number(seen.ks_critical),
                    number(seen.kurtosis),
                    number(seen.mean_ratio),
                    "plausible" if seen.plausible else "no",
                ]
            )
    return [
        "Assumption 3.1, on which Γ_l, χ and Lemmas 4.1, 4.2 and 5.1 rest: weights off the "
        "diagonal against N(0, Ψ)",
        table(
            ["layer", "Ψ", "KS distance", "1 % level", "kurtosis (3)", "mean/√Ψ (0)", "normal"],
            rows,
        ),
    ]


def _moments(found: NetPruning) -> list[str]:
    rows = []
    for layer in found.layers:
        if (seen := layer.moments) is not None:
            rows.append(
                [
                    layer.name,
                    f"{number(seen.mean)} ± {number(seen.mean_error)}",
                    f"{number(seen.second)} ({number(seen.second_expected)} ± "
                    f"{number(seen.second_error)})",
                    f"{number(seen.fourth)} ({number(seen.fourth_expected)} ± "
                    f"{number(seen.fourth_error)})",
                    f"{number(seen.kept)} ({number(seen.kept_expected)} ± "
                    f"{number(seen.kept_error)})",
                ]
            )
    return [
        "Moments of Δ off the diagonal and the share that stays; in brackets Lemma 4.1 and χ, ± "
        "one standard error",
        table(["layer", "mean (0)", "second", "fourth", "kept"], rows),
    ]


def _sketches(found: NetPruning) -> list[str]:
    rows = [
        [
            layer.name,
            f"{one.rows}x{one.columns}",
            number(one.theory),
            one.ones,
            "every number"
            if one.recovered
            else f"{one.wrong} numbers wrong"
            if one.rows
            else "none smaller or in time",
            number(one.optimal_gap),
            f"{one.seconds:.2g} s",
            one.bits,
            one.pruned_bits,
        ]
        for layer in found.layers
        if (one := layer.sketch) is not None
    ]
    header = [
        "layer",
        "sketch",
        "√(jp) ln p",
        "ones",
        "came back",
        "gap",
        "time",
        "bits",
        "as mask and values",
    ]
    title = (
        "Sketches A X Bᵀ, and what the smallest ℓ1 norm recovers (bits of the weight alone, its "
        "sizes included)"
    )
    return [title, table(header, rows)]


def _condition(found: NetPruning) -> list[str]:
    """Condition C.1, and what it makes of the error bound."""
    seen = found.subgaussian
    if seen is None:
        return []
    text = (
        f"Condition C.1 ({seen.how}; {seen.rows} examples, {' '.join(map(str, seen.directions))} "
        f"directions a layer): a = {number(seen.a)}, b = {' '.join(map(number, seen.b))}, t = "
        f"{' '.join(map(number, seen.t))}, κ = {' '.join(map(number, seen.kappa))}, ∏κ = "
        f"{number(seen.product)}, failure {number(seen.failure)}; a measure"
    )
    return textwrap.wrap(text, WIDTH)
