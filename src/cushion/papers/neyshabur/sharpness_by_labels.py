"""Neyshabur 2017, Figure 2: sharpness alone and with KL, of nets trained on true and on random
labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from cushion.papers.drawings import Panels
from cushion.papers.neyshabur.bicriteria import curve, panel
from cushion.papers.neyshabur.claims import above_everywhere
from cushion.papers.neyshabur.label_pairs import PAIR_COLUMNS, PairFound, find_pairs, lines, nets_of
from cushion.papers.neyshabur.nets import ERRORS, KL, LOSS, SHARPNESS, columns
from cushion.papers.neyshabur.plans import LEVEL, VGG_ALPHAS
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop


def figure_2(workshop: Workshop) -> Page:
    """Largest sharpness by sample size and labels, and the bi-criteria curves of both."""
    pairs = find_pairs(workshop, VGG_ALPHAS)
    claims = sharpness_claims(pairs)
    shown = [point["kl"] for one in nets_of(pairs) for point in one.net.points]
    limits = (min(shown) / 1.5, max(shown) * 1.5)  # of both panels, so that they can be compared
    panels = [
        panel(
            f"{labels} labels",
            [
                curve(f"{one.size} examples", one.net.points)
                for one in nets_of(pairs)
                if one.labels == labels
            ],
            limits,
        )
        for labels in ("true", "random")
    ]
    return Page(
        tables=(_sharpness_table(pairs),),
        settings=pairs[0].true.measured,
        claims=claims,
        notes=(
            "Measures, not bounds: the noise, and with it the prior, depends on the weights. KL = "
            "½ Σ w²/σ²; Appendix A prints it without the ½.",
            f"Changed from the paper, at the largest size: {pairs[-1].true.plan.changes()}.",
            "The largest sharpness is what the ascent reached, a lower estimate, over 1 + L̂; "
            "batch-norms are folded into the weights that are perturbed.",
            f"The text compares KL at an expected sharpness of {LEVEL:g}, of the loss here; the "
            "rise of the error stands beside it. Both are interpolated in ln KL between the α that "
            "were tried, which the paper does not print.",
            "The paper prints no number of this figure. Every point is one net, not an average "
            "over seeds.",
        ),
        pictures=(
            Panels(
                "sharpness",
                "Sharpness alone, and with KL",
                3,
                (lines("largest sharpness", "ζ_α", pairs, lambda net: net.sharpness), *panels),
            ),
        ),
    )


def sharpness_claims(pairs: Sequence[PairFound]) -> tuple[Tried, ...]:
    """Sharpness at the largest and at smaller sizes; KL at a fixed sharpness, and its growth."""
    sizes = [pair.size for pair in pairs]
    reach = f"an expected sharpness of {LEVEL:g} is not reached by the α that were tried"
    return (
        above_everywhere(
            "on the largest set sharpness is higher with random labels",
            sizes[-1:],
            [pair.random.sharpness for pair in pairs[-1:]],
            [pair.true.sharpness for pair in pairs[-1:]],
            why="",
        ),
        less_sharp_somewhere(
            sizes[:-1], [pair.random.sharpness - pair.true.sharpness for pair in pairs[:-1]]
        ),
        above_everywhere(
            f"at an expected sharpness of {LEVEL:g}, random labels need a larger KL",
            sizes,
            [pair.random.kl for pair in pairs],
            [pair.true.kl for pair in pairs],
            why=reach,
        ),
        grows_more([pair.random.kl for pair in pairs], [pair.true.kl for pair in pairs]),
    )


def less_sharp_somewhere(sizes: Sequence[int], differences: Sequence[float]) -> Tried:
    """At half of the smaller sizes or more, random labels give less sharpness than true ones."""
    text = (
        "on smaller sets nets trained on random labels have less sharpness than those trained on "
        "true ones"
    )
    if not sizes:
        return Tried(text, None, "there is one size only")
    found = [
        str(size) for size, difference in zip(sizes, differences, strict=True) if difference < 0
    ]
    because = f"so at {len(found)} of {len(sizes)} sizes ({', '.join(found) or 'none'}); half asked"
    return Tried(text, 2 * len(found) >= len(sizes), because)


def grows_more(random: Sequence[float | None], true: Sequence[float | None]) -> Tried:
    """KL at the fixed sharpness: largest over smallest sample, random against true."""
    text = "the change of the curve as the sample grows is larger with random labels"
    ends = (random[0], random[-1], true[0], true[-1])
    if ends[0] is None or ends[1] is None or ends[2] is None or ends[3] is None or len(random) < 2:
        return Tried(text, None, "KL at the fixed sharpness is not known at both ends")
    ours, theirs = ends[1] / ends[0], ends[3] / ends[2]
    because = (
        f"from the smallest to the largest sample KL grows {ours:.2f}-fold, with true labels "
        f"{theirs:.2f}-fold"
    )
    return Tried(text, ours > theirs, because)


def _sharpness_table(pairs: Sequence[PairFound]) -> Table:
    edge = columns(**{"at the edge of the box": lambda net: net.sharp["maximum"]["at_the_edge"]})
    train = {"train error": ERRORS["train error"]}
    every = {**PAIR_COLUMNS, **train, **LOSS, **SHARPNESS, **edge, **KL}
    caption = "Sharpness of the loss, and KL where its expectation rises by so much:"
    return Table.of(caption, nets_of(pairs), every)
