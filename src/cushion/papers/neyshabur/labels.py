"""Neyshabur 2017, Figures 1 and 2: norms over the margin and sharpness, true and random labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import NamedTuple

from cushion.papers.drawings import Panels, Picture, Series
from cushion.papers.neyshabur import claims
from cushion.papers.neyshabur.nets import (
    KL,
    NORMS,
    PRINTS_NOTHING,
    NetFound,
    bicriteria,
    find_net,
    net_table,
)
from cushion.papers.neyshabur.plans import EPSILON, LEVEL, PAIRS, VGG_ALPHAS
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop


class Pair(NamedTuple):
    """The two nets of one sample size."""

    true: NetFound
    random: NetFound


def find_pairs(workshop: Workshop, alphas: tuple[float, ...] = ()) -> list[Pair]:
    """Every pair, the smallest sample first."""
    return [
        Pair(
            find_net(workshop, true, alphas, size, "true"),
            find_net(workshop, random, alphas, size, "random"),
        )
        for size, (true, random) in PAIRS[workshop.size].items()
    ]


def _lines(
    title: str, label: str, pairs: Sequence[Pair], read: Callable[[NetFound], float | None]
) -> Picture:
    """One number of every net over the sample size, a line for each kind of labels."""
    series = [
        Series("true labels", [read(pair.true) for pair in pairs]),
        Series("random labels", [read(pair.random) for pair in pairs]),
    ]
    sizes = [pair.true.size for pair in pairs]
    return Picture("", title, sizes, "size of the training set", label, series)


def figure_1(workshop: Workshop) -> Page:
    """Four norms over the margin, by sample size and labels."""
    pairs = find_pairs(workshop)
    nets = [net for pair in pairs for net in pair]
    caption = f"log10 of norm / γ² (γ: the margin that all but {EPSILON:.0%} of S exceed):"
    columns = ("labels", "epochs", "train error", "test error", "γ", *NORMS.values())
    rows = [(pair.true.size, *(_difference(pair, key) for key in NORMS)) for pair in pairs]
    ratios = "log10 of the ratio of random to true labels:"
    panels = [
        _lines(name, "log10 of norm / γ²", pairs, methodcaller("log10", key))
        for key, name in NORMS.items()
    ]
    return Page(
        tables=[
            net_table(caption, "examples", nets, *columns),
            Table(("examples", *NORMS.values()), rows, ratios),
        ],
        settings={"margin level": EPSILON, "sizes": [pair.true.size for pair in pairs]},
        claims=capacity_claims(pairs),
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
            PRINTS_NOTHING,
        ),
        pictures=[Panels("norms", "Norms over the margin", 2, panels)],
    )


def capacity_claims(pairs: Sequence[Pair]) -> list[Tried]:
    """Zero training error; random above true for each norm; gaps that grow, and where most."""
    sizes = [pair.true.size for pair in pairs]
    errors = {f"{net.size} {net.labels}": net.norms["errors"] for pair in pairs for net in pair}
    found = [claims.all_zero(errors, "the training error of every net is zero")]
    gaps, excess = {}, {}
    for key, name in NORMS.items():
        text = f"{name}: higher with random labels than with true ones"
        random, true = ([net.log10(key) for net in nets] for nets in _by_labels(pairs))
        why = "γ ≤ 0, since the net errs on more than a twentieth of S"
        found.append(claims.above_everywhere(text, sizes, random, true, why))
        gaps[name] = claims.differences(random, true)
        # log10 of the growth over the samples with random labels, over that with true ones
        first, last = (_difference(pair, key) for pair in (pairs[0], pairs[-1]))
        excess[name] = None if first is None or last is None else last - first
    text = "the gap between random and true labels increases with the size of the training set"
    found.append(claims.gap_grows(f"{text}, for all four norms", sizes, gaps))
    text = "the difference in increase is most pronounced for the ℓ2 norm and the ℓ2-path norm"
    named = (NORMS["l2-norm"], NORMS["l2-path"])
    return [*found, claims.most_pronounced(text, excess, named)]


def _by_labels(pairs: Sequence[Pair]) -> tuple[list[NetFound], list[NetFound]]:
    """Random, true."""
    return [pair.random for pair in pairs], [pair.true for pair in pairs]


def _difference(pair: Pair, key: str) -> float | None:
    """Of log10, random minus true."""
    random, true = pair.random.log10(key), pair.true.log10(key)
    return None if random is None or true is None else random - true


def figure_2(workshop: Workshop) -> Page:
    """Largest sharpness by sample size and labels, and the bi-criteria curves of both."""
    pairs = find_pairs(workshop, VGG_ALPHAS)
    nets = [net for pair in pairs for net in pair]
    shown = [point["kl"] for net in nets for point in net.points]
    limits = (min(shown) / 1.5, max(shown) * 1.5)  # of both panels, so that they can be compared
    caption = "Sharpness of the loss, and KL where its expectation rises by so much:"
    columns = ("labels", "train error", "loss", "largest sharpness", "at the edge of the box", *KL)
    panels = (
        _lines("largest sharpness", "ζ_α", pairs, lambda net: net.sharpness),
        bicriteria("true labels", [pair.true for pair in pairs], "examples", limits),
        bicriteria("random labels", [pair.random for pair in pairs], "examples", limits),
    )
    return Page(
        tables=[net_table(caption, "examples", nets, *columns)],
        settings=pairs[0].true.measured,
        claims=sharpness_claims(pairs),
        notes=(
            "Measures, not bounds: the noise, and with it the prior, depends on the weights. KL = "
            "½ Σ w²/σ²; Appendix A prints it without the ½.",
            f"Changed from the paper, at the largest size: {pairs[-1].true.plan.changes()}.",
            "The largest sharpness is what the ascent reached, a lower estimate, over 1 + L̂; "
            "batch-norms are folded into the weights that are perturbed.",
            f"The text compares KL at an expected sharpness of {LEVEL:g}, of the loss here; the "
            "rise of the error stands beside it. Both are interpolated in ln KL between the α that "
            "were tried, which the paper does not print.",
            PRINTS_NOTHING,
        ),
        pictures=[Panels("sharpness", "Sharpness alone, and with KL", 3, panels)],
    )


def sharpness_claims(pairs: Sequence[Pair]) -> list[Tried]:
    """Sharpness at the largest and at smaller sizes; KL at a fixed sharpness, and its growth."""
    sizes = [pair.true.size for pair in pairs]
    sharp = [[net.sharpness for net in nets] for nets in _by_labels(pairs)]
    kl = [[net.kl for net in nets] for nets in _by_labels(pairs)]
    largest = "on the largest set sharpness is higher with random labels"
    needed = f"at an expected sharpness of {LEVEL:g}, random labels need a larger KL"
    reach = f"an expected sharpness of {LEVEL:g} is not reached by the α that were tried"
    return [
        claims.above_everywhere(largest, sizes[-1:], sharp[0][-1:], sharp[1][-1:]),
        less_sharp_somewhere(pairs[:-1]),
        claims.above_everywhere(needed, sizes, kl[0], kl[1], reach),
        grows_more(pairs[0], pairs[-1]),
    ]


def less_sharp_somewhere(pairs: Sequence[Pair]) -> Tried:
    """At half of the smaller sizes or more, random labels give less sharpness than true ones."""
    text = "on smaller sets nets trained on random labels have less sharpness than those trained on"
    text += " true ones"
    if not pairs:
        return Tried(text, None, "there is one size only")
    found = [str(one.size) for one, other in pairs if other.sharpness < one.sharpness]
    because = f"so at {len(found)} of {len(pairs)} sizes ({', '.join(found) or 'none'}); half asked"
    return Tried(text, 2 * len(found) >= len(pairs), because)


def grows_more(first: Pair, last: Pair) -> Tried:
    """KL at the fixed sharpness: largest over smallest sample, random against true."""
    text = "the change of the curve as the sample grows is larger with random labels"
    growths = [
        b.kl / a.kl
        for a, b in zip(first, last, strict=True)
        if a.kl is not None and b.kl is not None
    ]
    if len(growths) < 2 or first is last:
        return Tried(text, None, "KL at the fixed sharpness is not known at both ends")
    true, random = growths
    because = (
        f"from the smallest to the largest sample KL grows {random:.2f}-fold, with true labels "
    )
    return Tried(text, random > true, f"{because}{true:.2f}-fold")
