"""A compressed net for people: layers before and after, promises beside what was seen, what it
proves.
"""

from __future__ import annotations

from cushion.cli.output import number, power, table
from cushion.cli.promise_text import bound_lines, induction_lines, promise_lines, proved_lines
from cushion.compressors.records import LayerCompression, NetCompression
from cushion.compressors.registry import METHODS


def describe(found: NetCompression, file: str, certificate: str | None, data: str) -> str:
    """Everything that was found, and what to do with the files."""
    lines = [*_about(found), "", *_layers(found), "", *promise_lines(found.promises)]
    if found.place_sums:
        lines += ["", *_place_sums(found)]
    if len(found.layers) > 1:
        caption = (
            "Worst relative error at each layer when the first i layers are compressed, beside "
            "(i/d)ε"
        )
        lines += [
            "",
            *induction_lines([layer.name for layer in found.layers], found.induction, caption),
        ]
    if found.curve:
        lines += ["", *_curve(found)]
    if found.rates:
        lines += ["", *_rates(found)]
    proved = proved_lines(found.errors_before, found.m, found.occam, found.assumptions)
    lines += ["", *proved, "", *_paper(found), ""]
    lines.append(f"The compressed net is in {file}; in Python: cushion.load_compressed")
    if certificate is not None:
        lines.append(f"Check the certificate with: cushion verify {certificate} --data {data}")
    return "\n".join(lines)


def _about(found: NetCompression) -> list[str]:
    share = 100 * found.parameters / found.parameters_before
    helper = f"helper string: {found.helper}, seed {found.seed}" if found.helper else ""
    settings = [
        f"gamma = {number(found.gamma)}" if found.gamma is not None else "no positive margin",
        f"epsilon = {number(found.epsilon)}" if found.epsilon is not None else "",
        f"zeta = {found.zeta:g}" if found.zeta else "",
        helper,
        found.variant,
        "what training changed is compressed, the initialisation is helper string"
        if found.from_initialisation
        else "",
    ]
    return [
        f"{found.method}: {METHODS[found.method].meaning}",
        f"{found.parameters_before} parameters become {found.parameters} numbers ({share:.3g} %) "
        f"in {found.bits} bits",
        "; ".join(text for text in settings if text),
    ]


def _layers(found: NetCompression) -> list[str]:
    columns: list[tuple[str, list[str]]] = [
        ("layer", [layer.name for layer in found.layers]),
        ("shape", ["x".join(map(str, layer.shape)) for layer in found.layers]),
        ("stored as", [layer.stored_as for layer in found.layers]),
        ("lemma's k", [power(layer.lemma_size_log10, layer.lemma_size) for layer in found.layers]),
        ("accuracy", [number(layer.own_accuracy) for layer in found.layers]),
        ("seen/allowed", [number(layer.own_ratio) for layer in found.layers]),
        ("(i/d)ε", [number(layer.promised) for layer in found.layers]),
        ("measured", [number(layer.measured) for layer in found.layers]),
    ]
    shown = [(name, cells) for name, cells in columns if any(cell != "-" for cell in cells)]
    sizes = [(layer.parameters_before, layer.parameters, layer.bits) for layer in found.layers]
    rows: list[list[object]] = [
        [*(cells[at] for _, cells in shown), *sizes[at]] for at in range(len(sizes))
    ]
    empty: list[object] = [""] * (len(shown) - 1)
    rows.append(
        ["sizes and grids", *empty, 0, 0, found.bits - sum(layer.bits for layer in found.layers)]
    )
    rows.append(["total", *empty, found.parameters_before, found.parameters, found.bits])
    names = [name for name, _ in shown]
    lines = [table([*names, "before", "after", "bits"], rows)]
    if "accuracy" in names:
        lines.append(
            "accuracy: what the lemma allows this layer alone; seen/allowed: the worst that was "
            "seen, over that"
        )
    lines.append(
        ("(i/d)ε: what Lemma 3 promises where it applies; " if "(i/d)ε" in names else "")
        + "measured: relative error of the layer's output once it and all before it are "
        "compressed, the worst of all "
        "examples"
    )
    if all(layer.size == 0 for layer in found.layers):
        lines.append(
            "At this accuracy nothing can be cut: every layer is kept, on a grid; give --k or a "
            "larger --epsilon"
        )
    lines += [f"{layer.name}: {layer.note}" for layer in found.layers if layer.note]
    return lines + [text for layer in found.layers if (text := _dependence(layer))]


def _dependence(layer: LayerCompression) -> str:
    found = layer.dependence
    if found is None:
        return ""
    return (
        f"{layer.name}: the filters of two of its {found.places} places are correlated by "
        f"{found.correlation:.3g} ({found.expected:.3g} expected, 0 if Lemma 12 held), so sums "
        f"over places have {found.variance_factor:.3g} times the variance of independent filters"
    )


def _place_sums(found: NetCompression) -> list[str]:
    rows = [
        [
            one.claim,
            one.filters,
            number(one.moment_ratio),
            number(one.tail_ratio),
            f"{number(one.variance_ratio)} ± {number(one.variance_error)}",
            f"{number(one.pair_correlation)} ± {number(one.pair_error)}",
        ]
        for one in found.place_sums
    ]
    first = found.place_sums[0]
    return [
        f"Sums over {first.places} places of {first.layer}, {first.trials} simulated (k = "
        f"{first.k}, p = {first.p})",
        table(["claim", "filters", "moment", "tail", "variance", "correlation of places"], rows),
        "moment, tail: seen over promised (loose: they may hold anyway); variance: over that of "
        "independent filters",
    ]


def _curve(found: NetCompression) -> list[str]:
    rows = [
        [
            point.asked,
            point.parameters,
            point.bits,
            number(point.mean_relative_error),
            number(point.worst_relative_error),
            number(point.margin_loss),
            number(point.error),
            number(point.test_error),
        ]
        for point in found.curve
    ]
    header = [
        "size",
        "numbers",
        "bits",
        "mean error",
        "worst error",
        "margin loss",
        "train error",
        "test error",
    ]
    return ["Error against size (relative errors of the scores)", table(header, rows)]


def _rates(found: NetCompression) -> list[str]:
    columns = list(dict.fromkeys((rate.method, rate.coordinates) for rate in found.rates))
    by = {(rate.method, rate.coordinates, rate.m): rate.bound for rate in found.rates}
    sizes = sorted({rate.m for rate in found.rates})
    rows = [[f"{m:.0e}", *(number(by[*column, m]) for column in columns)] for m in sizes]
    names = [
        method if method == "vector-project" else f"{method}, h = {h:.4g}" for method, h in columns
    ]
    return [
        "What the two vector algorithms add to the margin loss, by theorem, at this margin (above "
        "1: nothing is said);",
        "vector-compress falls as m^-1/3 until it keeps all h coordinates, vector-project as "
        "m^-1/2",
        table(["m", *names], rows),
    ]


def _paper(found: NetCompression) -> list[str]:
    # Without failures Corollary A.1 says what Theorem 2.1 says.
    known = {(bound.form, bound.value) for bound in found.paper_bounds if "Thm 2.1" in bound.source}
    shown = [
        bound
        for bound in found.paper_bounds
        if bound.abstains or not ("Cor. A.1" in bound.source and (bound.form, bound.value) in known)
    ]
    return bound_lines(
        "The paper's theorems for this net, with explicit constants (docs/compression-bounds.md)",
        shown,
    )
