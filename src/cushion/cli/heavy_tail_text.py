"""A net with its small weights replaced, for people: accuracy over the trials, layers, promises,
what is proved.
"""

from __future__ import annotations

import textwrap

from cushion.cli.output import number, table
from cushion.cli.promise_text import (
    WIDTH,
    bound_lines,
    choice_line,
    induction_lines,
    promise_lines,
    proved_lines,
    tried_lines,
)
from cushion.compressors.noise.records import Accuracy, NetHeavyTail
from cushion.compressors.registry import METHODS

_FORMS = {
    "corrected": "corrected: weights with |w| > τ stay, √t·G is added everywhere",
    "algorithm": "Algorithm 1 as printed: weights with w > τ stay, √t·G is added everywhere",
    "appendix": "Appendix E as printed: weights with w ≤ σ become draws from N(mean, σ²), the "
    "others stay",
}


def describe(found: NetHeavyTail, file: str, certificate: str | None, data: str) -> str:
    """Everything that was found, and what to do with the files."""
    lines = [
        *_about(found),
        "",
        *_accuracies(found),
        "",
        *_tried(found),
        "",
        *_layers(found),
        "",
        *_tails(found),
    ]
    lines += ["", *promise_lines(found.promises)]
    if len(found.layers) > 1:
        caption = (
            "Worst relative error at each layer when the first i layers are replaced, beside "
            "(i/d)ε of Lemma 2.2"
        )
        lines += [
            "",
            *induction_lines([layer.name for layer in found.layers], found.induction, caption),
        ]
    lines += [
        "",
        *proved_lines(found.errors_before, found.m, found.occam, found.assumptions),
        choice_line(len(found.tried), found.price),
        "",
    ]
    lines += bound_lines(
        "The paper's bounds for this net (docs/heavy-tail-bounds.md); kind says what each is",
        found.paper_bounds,
    )
    lines += ["", f"The net is in {file}; in Python: cushion.load_compressed"]
    if certificate is not None:
        lines.append(f"Check the certificate with: cushion verify {certificate} --data {data}")
    elif not any(row.because for row in found.occam):
        lines.append(
            "For a file that anybody can check with cushion verify, add --certificate FILE.cushion"
        )
    return "\n".join(lines)


def _about(found: NetHeavyTail) -> list[str]:
    share = 100 * found.parameters / found.parameters_before
    chosen = next(one for one in found.tried if one.chosen)
    settings = [
        f"{chosen.asked}, grid {chosen.grid}",
        f"layers {found.settings['layers']}",
        f"gamma = {number(found.gamma)}" if found.gamma is not None else "no positive margin",
        f"noise from seed {found.seed}"
        if any(layer.t > 0 for layer in found.layers)
        else "no noise",
    ]
    lines = [
        f"{found.method}: {METHODS[found.method].meaning}",
        _FORMS[found.form],
        f"{found.parameters_before} parameters become {found.parameters} numbers ({share:.3g} %) "
        f"in {found.bits} bits",
        "; ".join(settings),
    ]
    for note in found.notes:
        lines += textwrap.wrap(f"note: {note}", WIDTH)
    return lines


def _accuracies(found: NetHeavyTail) -> list[str]:
    rows = [
        [name, one.m, _percent(one.before), _after(one)]
        for name, one in (("training", found.accuracy), ("held-out", found.holdout_accuracy))
        if one is not None
    ]
    seeds = [trial.seed for trial in found.trials]
    trials = (
        f"{len(seeds)} trials, seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else "one net"
    )
    return [
        f"Accuracy before and after ({trials}); ± is the standard deviation over the trials",
        table(["examples", "m", "before", "after"], rows),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _after(one: Accuracy) -> str:
    spread = "" if one.deviation is None else f" ± {100 * one.deviation:.2f}"
    return f"{100 * one.mean:.2f}{spread} %"


def _tried(found: NetHeavyTail) -> list[str]:
    units = "tau in standard deviations of each layer, t in mean squares of what goes"
    counts = [one.kept for one in found.tried]
    return tried_lines(
        f"What was tried ({units})", found.tried, counts, "weights that stay", found.m
    )


def _layers(found: NetHeavyTail) -> list[str]:
    rows: list[list[object]] = [
        [
            layer.name,
            "x".join(map(str, layer.shape)),
            layer.stored_as,
            number(layer.tau),
            number(layer.t**0.5 if layer.is_replaced else None),
            layer.weights,
            layer.kept,
            layer.nonzeros,
            number(layer.epsilon),
            number(layer.epsilon_printed),
            number(layer.worst_ratio),
            layer.bits,
        ]
        for layer in found.layers
    ]
    rest = found.bits - sum(layer.bits for layer in found.layers)
    sums = [
        sum(getattr(layer, name) for layer in found.layers)
        for name in ("weights", "kept", "nonzeros")
    ]
    rows.append(["sizes and grids", *[""] * 4, 0, 0, 0, "", "", "", rest])
    rows.append(["total", *[""] * 4, *sums, "", "", "", found.bits])
    names = [
        "layer",
        "shape",
        "stored as",
        "τ",
        "√t",
        "weights",
        "k",
        "stored",
        "ε",
        "ε printed",
        "seen/allowed",
        "bits",
    ]
    lines = [
        table(names, rows),
        "k: weights that stay; ε: relative error that Proposition 1.1 allows the layer at η = "
        f"{found.eta:.3g}, the rounding of what stays included; seen/allowed: the worst",
        f"‖JΔφ(x)‖ over what {'ε' if found.form == 'corrected' else 'the printed ε'} allows; bits: "
        "with biases",
    ]
    if found.epsilon is not None:
        smooth = (
            ""
            if found.smoothness is None
            else f" (ρ_δ = {number(found.smoothness)}, 3d = {3 * len(found.layers)})"
        )
        lines.append(f"Lemma 2.2's expression gives the scores an ε of {found.epsilon:.3g}{smooth}")
    return lines


def _tails(found: NetHeavyTail) -> list[str]:
    rows = [
        [
            layer.name,
            number(layer.deviation),
            number(layer.replaced_mean),
            number(layer.replaced_largest),
            number(layer.alpha),
            number(layer.xmin),
            layer.kept,
            number(layer.kept_model),
            number(layer.kept_fitted),
        ]
        for layer in found.layers
        if layer.is_replaced
    ]
    header = [
        "layer",
        "σ",
        "mean of what goes",
        "largest",
        "α",
        "xmin",
        "k",
        "k of Prop. 1.2",
        "k of the tail",
    ]
    return [
        "What goes, and how many stay by a power law fitted to |w| (α: exponent of the density; "
        "the paper's is α - 1)",
        table(header, rows),
        "k of Prop. 1.2: expected if all weights were Pareto from xmin on; k of the tail: if those "
        "above xmin are; -: no law, τ < xmin, or one sign only stays",
    ]
