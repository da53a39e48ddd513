"""Neyshabur 2017, Figure 1: norms over the margin, of nets trained on true and on random labels."""

from __future__ import annotations

from collections.abc import Sequence

from cushion.papers.drawings import Panels
from cushion.papers.neyshabur.claims import (
    above_everywhere,
    all_zero,
    differences,
    gap_grows,
    most_pronounced,
)
from cushion.papers.neyshabur.label_pairs import PAIR_COLUMNS, PairFound, find_pairs, lines, nets_of
from cushion.papers.neyshabur.nets import ERRORS, GAMMA, NORM_COLUMNS, NORMS, columns
from cushion.papers.neyshabur.plans import EPSILON
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

MARGINS = f"γ: the margin that all but {EPSILON:.0%} of S exceed"


def figure_1(workshop: Workshop) -> Page:
    """Four norms over the margin, by sample size and labels."""
    pairs = find_pairs(workshop)
    claims = capacity_claims(pairs)
    return Page(
        tables=(_norm_table(pairs), _gap_table(pairs)),
        settings={"margin level": EPSILON, "sizes": [pair.size for pair in pairs]},
        claims=claims,
        notes=(
            "Measures, not bounds; the numbers are log10 of norm / γ² without the factors of depth "
            "and width, as plotted; γ is the 5th percentile of the margins of S.",
            f"Changed from the paper, at the largest size: {pairs[-1].true.plan.changes()}.",
            "Batch-norms are folded into the convolutions before norms are taken; norms are those "
            "of the true maps, not of reshaped kernels.",
            "The claim on the gap is about the difference of the norms themselves; table and "
            "picture show log10, in which lines that run side by side have a growing difference.",
            "A net that the limit of epochs stopped before it reached the loss has a smaller γ, "
            "and for that reason larger norms over γ².",
            "The paper prints no number of this figure. Every point is one net, not an average "
            "over seeds.",
        ),
        pictures=(
            Panels(
                "norms",
                "Norms over the margin",
                2,
                tuple(
                    lines(name, "log10 of norm / γ²", pairs, lambda net, key=key: net.log10(key))  # type: ignore[misc]
                    for key, name in NORMS.items()
                ),
            ),
        ),
    )


def capacity_claims(pairs: Sequence[PairFound]) -> tuple[Tried, ...]:
    """Zero training error; random above true for each norm; gaps that grow, and where most."""
    sizes = [pair.size for pair in pairs]
    true = {key: [pair.true.log10(key) for pair in pairs] for key in NORMS}
    random = {key: [pair.random.log10(key) for pair in pairs] for key in NORMS}
    errors = {f"{one.size} {one.labels}": one.net.errors for one in nets_of(pairs)}
    why = "γ ≤ 0, since the net errs on more than a twentieth of S"
    return (
        all_zero(errors, "the training error of every net is zero"),
        *(
            above_everywhere(
                f"{name}: higher with random labels than with true ones",
                sizes,
                random[key],
                true[key],
                why=why,
            )
            for key, name in NORMS.items()
        ),
        gap_grows(
            "the gap between random and true labels increases with the size of the training set, "
            "for all four norms",
            sizes,
            {name: differences(random[key], true[key]) for key, name in NORMS.items()},
        ),
        most_pronounced(
            "the difference in increase is most pronounced for the ℓ2 norm and the ℓ2-path norm",
            {name: _excess(random[key], true[key]) for key, name in NORMS.items()},
            (NORMS["l2-norm"], NORMS["l2-path"]),
        ),
    )


def _excess(random: Sequence[float | None], true: Sequence[float | None]) -> float | None:
    """log10 of the growth over the samples with random labels, over that with true ones."""
    ends = (random[0], random[-1], true[0], true[-1])
    if ends[0] is None or ends[1] is None or ends[2] is None or ends[3] is None:
        return None
    return ends[1] - ends[0] - (ends[3] - ends[2])


def _norm_table(pairs: Sequence[PairFound]) -> Table:
    epochs = columns(epochs=lambda net: net.norms["epochs"])
    caption = f"log10 of norm / γ² ({MARGINS}):"
    every = {**PAIR_COLUMNS, **epochs, **ERRORS, **GAMMA, **NORM_COLUMNS}
    return Table.of(caption, nets_of(pairs), every)


def _gap_table(pairs: Sequence[PairFound]) -> Table:
    def gap(pair: PairFound, key: str) -> float | None:
        random, true = pair.random.log10(key), pair.true.log10(key)
        return None if random is None or true is None else random - true

    rows = tuple((pair.size, *(gap(pair, key) for key in NORMS)) for pair in pairs)
    return Table(
        ("examples", *NORMS.values()), rows, "log10 of the ratio of random to true labels:"
    )
