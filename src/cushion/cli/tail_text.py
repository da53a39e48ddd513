"""Tails for people: the fitted laws in columns, what speaks against them, and what every number
means.
"""

from __future__ import annotations

import math
import textwrap

from cushion.cli.output import number, table
from cushion.measures.records import LayerMeasures, MeasureTable
from cushion.measures.tails.records import PowerLawFit, StableFit, TailFits

_WIDTH = 120
_MEANING = {
    "alpha": "the power law's density falls as x^-alpha from xmin on; ± one standard error, "
    "given xmin",
    "index": "alpha - 1: P(X > x) falls as x^-index, and moments of order index and above are "
    "infinite: up to 2, so is "
    "the variance. Papers call either number alpha",
    "xmin": "where the tail begins: the value whose tail is nearest to a power law; below it "
    "nothing "
    "is fitted",
    "KS": "Kolmogorov-Smirnov distance: the largest gap between the distribution functions of "
    "sample and law; just "
    "below each value for a power law (as packages have it: ties hide there), on both sides of "
    "it for a stable law",
    "tail": "how many are at least xmin, and their share of the non-zero ones; reach: the largest "
    "over xmin",
    "likeliest": "of the laws that beat the power law on its tail, by likelihood ratio at level "
    "0.1, the "
    "one with the "
    "largest likelihood (they are not tested against each other); else the power law, with 'or' "
    "beside those of "
    "exponential and Gaussian that it does not beat. A log-normal law imitates any power law, so "
    "it is named only "
    "where it is better",
    "weights": "of the net as it is traced: a batch-norm is folded into the layer before it, where "
    "there is one, and "
    "multiplies that layer's rows; biases are left out",
    "p": "of the bootstrap test (--bootstrap N): below 0.1 the tail is no power law; a large p "
    "proves nothing",
    "stable": "a law whose sums have its own shape: alpha = 2 is the normal law, 1 the Cauchy law; "
    "below 2 the tail "
    "index is alpha and the variance infinite. c is its scale (σ/√2 if normal), δ its centre, "
    "beta its skewness in "
    "[-1, 1], held at 0 in the symmetric fit. It is fitted to all weights with their signs, so "
    "the body counts as well "
    "as the tail",
    "eigenvalues": "of WWᵀ, W the weight as the matrix [out, rest] (a convolution's kernel is "
    "reshaped, not "
    "cut into "
    "slices). They repel each other: standard errors and p, which take values as independent, "
    "are rough",
}


def tail_lines(found: MeasureTable) -> list[str]:
    """The laws fitted to each layer's weights and to the eigenvalues of WWᵀ."""
    layers = [layer for layer in found.layers if layer.tails is not None]
    if not layers:
        return []
    lines = [
        "Tails of the weights |w| (Shin 2021): a power law from xmin on, by maximum likelihood"
    ]
    lines += _power_laws(
        [(layer, layer.tails.weights) for layer in layers if layer.tails is not None]
    )
    lines += ["", "Stable laws of all weights of a layer"]
    lines += _stable_laws(
        [(layer, layer.tails.weights) for layer in layers if layer.tails is not None]
    )
    lines += ["", "Tails of the eigenvalues of WWᵀ (heavy-tailed self-regularisation)"]
    lines += _power_laws(
        [(layer, layer.tails.eigenvalues) for layer in layers if layer.tails is not None]
    )
    lines += _doubts(layers)
    if found.beside is not None:
        lines += _beside(found, found.beside)
    return [*lines, "", *_legend(any(_tested(layer) for layer in layers))]


def likeliest_law(fits: TailFits) -> str:
    """The likeliest of the laws that beat the power law; else the power law, with those that it
    does not beat.
    """
    if not fits.comparisons:
        return "not compared"
    better = [test for test in fits.comparisons if test.favours == test.rival]
    if better:
        return min(better, key=lambda test: test.ratio).rival
    light = [test for test in fits.comparisons if test.rival != "log-normal"]
    left = [test.rival for test in light if test.favours == "neither"]
    return "undecided" if left and len(left) == len(light) else " or ".join(["power law", *left])


def _power_laws(fitted: list[tuple[LayerMeasures, TailFits]]) -> list[str]:
    tested = any(fits.goodness is not None for _, fits in fitted)
    header = ["layer", "shape", "count", "alpha", "index", "xmin", "KS", "tail", "share", "reach"]
    header += [*(["p"] if tested else []), "likeliest"]
    rows = []
    for layer, fits in fitted:
        if fits.power_law is not None:
            test = (
                [] if not tested else ["-" if fits.goodness is None else f"{fits.goodness.p:.2g}"]
            )
            cells = [
                layer.name,
                "x".join(map(str, layer.shape)),
                str(fits.count),
                *_cells(fits.power_law),
            ]
            rows.append([*cells, *test, likeliest_law(fits)])
    lines = [
        *([table(header, rows)] if rows else []),
        *_refused([(layer.name, fits.no_fit) for layer, fits in fitted]),
    ]
    return lines + [
        f"{layer.name}: not compared: {fits.no_comparisons}"
        for layer, fits in fitted
        if fits.no_comparisons
    ]


def _cells(law: PowerLawFit) -> list[str]:
    return [
        _plus_minus(law.alpha, law.alpha_error),
        f"{law.tail_index:.3g}",
        f"{law.xmin:.3g}",
        f"{law.ks_distance:.3f}",
        str(law.tail),
        f"{law.tail / law.values:.2%}",
        f"{law.largest / law.xmin:.3g}",
    ]


def _stable_laws(fitted: list[tuple[LayerMeasures, TailFits]]) -> list[str]:
    header = ["layer", "count", "alpha", "c", "δ", "KS", "skewed: alpha", "beta", "c", "δ", "KS"]
    rows = []
    for layer, fits in fitted:
        if fits.stable is not None:
            plain, skewed = (_stable_cells(law) for law in (fits.stable, fits.stable_skewed))
            rows.append([layer.name, str(fits.count), plain[0], *plain[2:], *skewed])
    return [
        *([table(header, rows)] if rows else []),
        *_refused([(layer.name, fits.no_stable) for layer, fits in fitted]),
    ]


def _stable_cells(law: StableFit | None) -> list[str]:
    """alpha, beta, c, δ, KS distance."""
    if law is None:
        return ["-"] * 5
    place = [f"{law.scale:.3g}", f"{law.location:.2g}", f"{law.ks_distance:.3f}"]
    return [_with_error(law, "alpha"), _with_error(law, "beta"), *place]


def _with_error(law: StableFit, name: str) -> str:
    return _plus_minus(getattr(law, name), law.errors.get(name))


def _refused(reasons: list[tuple[str, str]]) -> list[str]:
    return [f"{name}: no fit: {reason}" for name, reason in reasons if reason]


def _doubts(layers: list[LayerMeasures]) -> list[str]:
    lines = ["", "Why not to believe them"]
    silent = []
    for layer in layers:
        if layer.tails is None:
            continue
        for fits in (layer.tails.weights, layer.tails.eigenvalues):
            if fits.doubts:
                lines.append(f"{layer.name}, {fits.what}:")
                for doubt in fits.doubts:
                    lines += textwrap.wrap(
                        doubt, _WIDTH, initial_indent="  - ", subsequent_indent="    "
                    )
            elif fits.power_law is not None or fits.stable is not None:
                silent.append(f"{layer.name} ({fits.what})")
    if silent:
        lines += textwrap.wrap(
            f"nothing that was looked at speaks against: {', '.join(silent)}", _WIDTH
        )
    return lines if len(lines) > 2 else []


def _beside(found: MeasureTable, other: MeasureTable) -> list[str]:
    """The exponents of this net and of the one beside it."""
    rows = []
    for layer, twin in zip(found.layers, other.layers, strict=True):
        cells = [layer.name]
        for part in ("weights", "eigenvalues"):
            for tails in (layer.tails, twin.tails):
                law = None if tails is None else getattr(tails, part).power_law
                cells.append("-" if law is None else _plus_minus(law.alpha, law.alpha_error))
        for tails in (layer.tails, twin.tails):
            stable = None if tails is None else tails.weights.stable
            cells.append("-" if stable is None else _with_error(stable, "alpha"))
        rows.append(cells)
    header = [
        "layer",
        "weights: alpha",
        "beside",
        "eigenvalues: alpha",
        "beside",
        "stable alpha",
        "beside",
    ]
    return ["", "The exponents, and those of the net beside it", table(header, rows)]


def _legend(tested: bool) -> list[str]:
    lines = []
    for name, meaning in _MEANING.items():
        if name != "p" or tested:
            lines += textwrap.wrap(
                meaning, _WIDTH, initial_indent=f"{name:<13}", subsequent_indent=" " * 13
            )
    return lines


def _tested(layer: LayerMeasures) -> bool:
    tails = layer.tails
    return tails is not None and any(
        fits.goodness is not None for fits in (tails.weights, tails.eigenvalues)
    )


def _plus_minus(value: float, error: float | None) -> str:
    """Two digits of the error, and as many of the value as they leave a meaning."""
    if error is None or not 0 < error < math.inf:
        return number(value)
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{places}f} ± {error:.{places}f}"
