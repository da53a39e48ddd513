"""The tables that the items of Guha 2023 §7 share, of several nets, and the notes on their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cushion.papers.guha import nets, paper
from cushion.papers.guha.nets import CERTIFICATE, NetFound, Pruned
from cushion.papers.guha.paper import OURS, Column, explained, implied_constant, mlp_shapes
from cushion.papers.pages import Columns, Table

Nets = Sequence[NetFound]
OTHER_FORMS = {
    "l2-norm, as plotted": paper.NEYSHABUR_2015,
    "frobenius, stated": paper.NEYSHABUR_2015,
    "spec-fro, stated": paper.NEYSHABUR_2017,
    "spec-l1,2, corrected": paper.BARTLETT_2017,
    "spec-l2,1, stated": paper.BARTLETT_2017,
}
_RIVALS = (f"{row.replace(', as', ' (as')}) for {rival}" for rival, row in nets.RIVAL_ROWS.items())
ROW_NOTES = (
    "All numbers of the first table are natural logarithms, as the paper's are; a value above 0 is "
    "a bound above 100 % and says nothing. A dash: the row abstains, or no error was counted.",
    "Each net is pruned twice by Algorithm 1: with the d that has the smallest bound, the choice "
    "paid, and with the d, of the same six, at which the pruned net errs least on the sample. The "
    "paper does not state its d.",
    "Ours is R̂_γ + √(Σ 3χ d₁d₂ ln²(p) ln(1/ρ) / n), Theorem 5.2 with λ = 1 and 1 in place of "
    "O(·); as printed has the λ that make the failure 5 %, corrected the j that was seen and every "
    "known constant. Sketch and naive rows are measures.",
    f"{CERTIFICATE}: holds with probability 95 % over the sample, from the bits that a coder wrote "
    "for the pruned net; it counts errors and needs no margin.",
    f"The rivals are the rows {', '.join(_RIVALS)} of `cushion bounds`: the paper does not write "
    "its formulas, so we take what each depends on without constants and logarithms, as in Ours. "
    "With other forms the order of the rivals can be another.",
    "True error: of the pruned and discretised net on the test set.",
    "Not like for like: the rivals bound the trained net by its norms and γ; Ours counts numbers, "
    "knows γ only through d and ρ, and speaks of the pruned net.",
)


def beside_paper(found: Nets, papers: Sequence[Column | None], caption: str) -> Table:
    """One row a method; for each net the paper's number (where it has one) and ours, to two
    decimals as in the paper.

    A certificate is rounded up.
    """
    columns: dict[str, Callable[[str], Any]] = {"ln of": str}
    for net, printed in zip(found, papers, strict=True):
        if printed is not None:
            columns[f"{net.title}, paper"] = printed.get
        for way, column in (("smallest bound", net.bounded), ("fewest errors", net.gentle)):
            columns[f"{net.title}, {way}"] = partial(_cell, column)
    beside = (*nets.COUNTS, CERTIFICATE, nets.TRAINING_ERROR, nets.BEFORE)
    return Table.of(f"{caption} (natural logarithms):", (*paper.METHODS, *beside), columns)


def other_forms(found: Nets) -> Table:
    """The rivals in every other form: none of them is known to be the paper's."""
    columns: dict[str, Callable[[str], Any]] = {"rival": OTHER_FORMS.__getitem__, "row": str}
    columns |= {net.title: partial(_cell, net.logs) for net in found}
    return Table.of("The rivals in other forms (ln):", OTHER_FORMS, columns)


def _cell(numbers: Column, name: str) -> float | None:
    value = numbers.get(name)
    if value is None:
        return None
    return math.ceil(100 * value) / 100 if name == CERTIFICATE else round(value, 2)


def trained(found: Nets) -> Table:
    """What was trained and what Algorithm 1 made of it; errors are fractions, not logarithms."""

    def pruned_error(kind: str, row: tuple[NetFound, Pruned | None]) -> float | None:
        net, pruned = row
        sizes = {"errors": net.m, "test_errors": net.test_m}
        return None if pruned is None else pruned[kind] / sizes[kind]

    columns: Columns = {
        "net": "0.title",
        "epochs": "0.plan.epochs",
        "training error": lambda row: row[0].errors / row[0].m,
        "test error": lambda row: row[0].test_errors / row[0].test_m,
        "γ": "0.margin",
        "d": "1.d",
        "pruned away": "1.sparsity",
        "‖Δ‖₂L/‖A‖₂, worst layer": "1.reach",
        "pruned: training error": partial(pruned_error, "errors"),
        "pruned: test error": partial(pruned_error, "test_errors"),
        "bits": "1.bits",
        "certified error": "1.bound",
    }
    rows = [(net, pruned) for net in found for pruned in (net.ways or (None,))]
    return Table.of("The nets, before and after Algorithm 1:", rows, columns)


def counts(found: Nets) -> Table:
    """Nats that each count pays for the same pruned net; the certificate's a coder wrote."""

    def paid(name: str, row: tuple[NetFound, Pruned]) -> float | None:
        nats: dict[str, float | None] = row[1]["nats"]
        return nats.get(name)

    def ratio(row: tuple[NetFound, Pruned]) -> float | None:
        sketch, naive = (paid(f"{one} count, corrected", row) for one in ("sketch", "naive"))
        return sketch / naive if sketch is not None and naive else None

    columns: Columns = {
        "net": "0.title",
        "d": "1.d",
        "weights": lambda row: sum(inputs * outputs for inputs, outputs in row[0].shapes),
        **{name: partial(paid, name) for name in (nets.OURS_ROW, *nets.COUNTS)},
        "mask and values, coded": lambda row: row[1]["bits"] * math.log(2.0),
        "sketch over naive, corrected": ratio,
    }
    rows = [(net, pruned) for net in found for pruned in net.ways]
    return Table.of("Nats that each count pays for the same pruned net:", rows, columns)


def by_strength(found: Nets) -> Table:
    """The training error of the pruned net at every d that was tried, beside what stays."""
    tried = {}
    for net in found:
        errors = net.smallest_bound.get("tried", {})
        tried[net.title] = {float(d): count / net.m for d, count in errors.items()}
    columns: Columns = {
        "d": float,
        "χ = 1 - √(d/(d+2))": lambda d: 1.0 - math.sqrt(d / (d + 2.0)),
        **{title: errors.get for title, errors in tried.items()},
    }
    left_out = "(a dash: more weights stay than a file holds)"
    caption = f"Training error of the pruned and discretised net, by d {left_out}:"
    return Table.of(caption, sorted(set().union(*tried.values())), columns)


def constants(net: NetFound) -> list[float | None]:
    """λχ·ln(1/ρ) that Ours implies, with the d of the smallest bound and of the fewest errors."""
    ours = (net.bounded[OURS], net.gentle[OURS])
    return [None if one is None else implied_constant(one, net.shapes, net.m) for one in ours]


def implied(found: Nets) -> tuple[Table, str]:
    """λχ·ln(1/ρ) from the paper's numbers and from ours, at all widths of the paper; and how well
    the sizes of the nets alone explain the paper's column, as a sentence.
    """
    ours = {net.plan.width: constants(net) for net in found}
    rows = []
    for width, column in paper.TABLE_1.items():
        shapes, n, printed = mlp_shapes(784, width), paper.MNIST_EXAMPLES, column[OURS]
        fit = explained(shapes, n)
        off = math.expm1(fit - printed)
        constant = implied_constant(printed, shapes, n)
        here = ours.get(width, [None, None])
        rows.append((width, printed, constant, round(fit, 2), round(100 * off, 1), *here, off))
    header = (
        "width",
        "paper's Ours",
        "implied λχ·ln(1/ρ)",
        f"ln √({paper.EXPLAINS:g}·Σ/n)",
        "off by %",
        "implied here, smallest bound",
        "implied here, fewest errors",
    )
    caption = "What explains the paper's Ours: λχ·ln(1/ρ), given Σ = Σ 3 d₁d₂ ln²(p):"
    return Table(header, [row[:-1] for row in rows], caption), (
        f"The paper's Ours column is √({paper.EXPLAINS:g}·Σ 3 d₁d₂ ln²(p) / n) to within "
        f"{max(abs(row[-1] or 0.0) for row in rows):.1%} at all six widths, though the nets "
        "differ: λχ·ln(1/ρ) hardly varies, so that the column shows the sizes of the nets and "
        "little else."
    )
