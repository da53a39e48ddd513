"""When a fit should not be believed: each reason a sentence with its number."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cushion.measures.tails.records import HillPlot, PowerLawFit, StableFit, TailFits

# in a tail: below, alpha - 1 is known to a tenth at best, and likelihood ratios seldom decide
_FEW = 100
_DECADES = 1.0  # of a tail: shorter stretches of most laws are straight on logarithmic axes
_STEEP = 6.0  # alpha: four moments and their errors' variance exist; heavy tails have 2 to 6
_LEVEL = 0.1  # p below which a likelihood ratio decides (`LikelihoodRatio.favours`)
_POOR = 0.1  # p below which the bootstrap rejects, as Clauset et al. 2009 have it
_DISTINCT = 0.5  # of the values: fewer are a grid, whose steps xmin and the KS distance show
# √n·KS distance beyond which lies 1 % of samples of a known law; of a fitted one even fewer
_KOLMOGOROV = 1.63
# a law that is nowhere further off describes its sample, even if many numbers tell the two apart
_CLOSE = 0.01
_NORMAL = 2.0  # standard errors from alpha = 2 that do not tell a stable law from the normal one
_EMPTY = 4.6  # values expected where there is none: by chance in 1 % of samples
_FAR = 4.0  # scales from which a stable law's first term is its tail: to a third for alpha > 1
_HEAVIER = 3.0  # standard errors by which a tail is heavier than the stable law says
_STRETCH = 10  # the Hill plot should be flat from the fitted tail down to this part of it
_UNEVEN = 3.0  # standard errors of the smaller tail within which it is flat
_FEWEST_HILL = 10  # values below which Hill's estimate says nothing


def find_doubts(fits: TailFits) -> tuple[str, ...]:
    """All that speaks against the fits, the weightiest first; nothing where there is no fit."""
    found: list[str] = []
    if fits.power_law is not None:
        found += _of_comparisons(fits)
        found += _of_distance(fits, fits.power_law)
        found += _of_tail(fits, fits.power_law)
        found += [] if fits.hill is None else _of_hill(fits.hill, fits.power_law)
    if fits.stable is not None:
        found += _of_stable(fits, fits.stable)
    return tuple(found)


def _of_comparisons(fits: TailFits) -> Iterator[str]:
    better, light = [], []
    for test in sorted(fits.comparisons, key=lambda test: test.ratio):
        if test.favours == test.rival:
            better.append(f"{_spelt(test.rival)} (by {-test.ratio:.3g} nats, p = {test.p:.2g})")
    if better:
        yield f"the tail is likelier {' or '.join(better)} than a power law"
    for test in fits.comparisons:
        # A log-normal law comes as close to any power law as one likes, so being undecided about it
        # says nothing.
        if test.favours == "neither" and test.rival != "log-normal":
            light.append(f"{_spelt(test.rival)} (p = {test.p:.2g})")
    if light:
        laws = " or ".join(light)
        yield f"the tail may as well be {laws}, which is not heavy; p below {_LEVEL:g} would decide"


def _spelt(rival: str) -> str:
    return rival.replace("gaussian", "Gaussian")


def _of_distance(fits: TailFits, law: PowerLawFit) -> Iterator[str]:
    if fits.goodness is not None and fits.goodness.p < _POOR:
        draws = fits.goodness.draws
        some = f"{round(fits.goodness.p * draws)} of {draws} samples of the fitted power law lie as"
        own = f"far from their own fit as these {fits.what} do"
        yield f"{some} {own} (a share below {_POOR:g} rejects)"
    allowed = _KOLMOGOROV / math.sqrt(law.tail)
    if law.ks_both_sides > allowed:
        missed = f"the power law misses its own tail: KS distance {law.ks_both_sides:.3g}"
        yield f"{missed}, where chance allows {allowed:.2g} with {law.tail} values"
    if law.distinct < _DISTINCT * law.values:
        few = f"only {law.distinct} different magnitudes among {law.values}"
        yield f"{few}: xmin and the KS distance show the steps of a grid"


def _of_tail(fits: TailFits, law: PowerLawFit) -> Iterator[str]:
    if law.tail < _FEW:
        known = 1 / math.sqrt(law.tail)
        few = f"only {law.tail} {fits.what} are in the tail"
        yield f"{few}: alpha - 1 is known to {known:.0%} at best"
    if law.decades < _DECADES:
        end = f"the tail ends at {law.reach:.3g} times xmin, after {law.decades:.2f} decades"
        yield f"{end}: over less than {_DECADES:g} most laws look like a power law"
    if law.alpha > _STEEP:
        moments = f"all moments of order below {law.tail_index:.3g} are finite"
        yield f"alpha = {law.alpha:.3g} is no heavy tail: {moments}"


def _of_hill(plot: HillPlot, law: PowerLawFit) -> Iterator[str]:
    """Flat means: the fitted tail and the largest tenth of it have the same index."""
    if law.tail < _STRETCH * _FEWEST_HILL or not plot.k:
        return
    at = [_nearest(plot, size) for size in (law.tail, law.tail / _STRETCH)]
    (whole, part), (all_, some) = [plot.tail_index[i] for i in at], [plot.k[i] for i in at]
    if abs(part - whole) > _UNEVEN * plot.errors[at[1]]:
        indices = f"tail index {whole:.3g} from the largest {all_}, {part:.3g} from {some}"
        yield f"the Hill plot has no flat stretch: {indices}"


def _nearest(plot: HillPlot, k: float) -> int:
    """Where the plot's k is nearest, in its logarithm."""
    return min(range(len(plot.k)), key=lambda at: abs(math.log(plot.k[at] / k)))


def _of_stable(fits: TailFits, law: StableFit) -> Iterator[str]:
    error = law.errors.get("alpha")
    if law.alpha >= 2 - _NORMAL * (error or 0.0):
        normal = f"the normal one (alpha = {law.alpha:.4g}), or not told from it"
        yield f"the stable law is {normal}: it has no heavy tail"
    elif fits.power_law is not None:
        yield from _of_largest(fits, law, fits.power_law)
    allowed = max(_CLOSE, _KOLMOGOROV / math.sqrt(fits.count))
    if law.ks_distance > allowed:
        zeros = 0 if fits.power_law is None else fits.power_law.zeros
        heap = f"; {zeros} weights are exact zeros, a heap that no stable law has"
        heap = heap if zeros > allowed * fits.count else ""
        missed = f"the stable law misses the weights: KS distance {law.ks_distance:.3g}"
        yield f"{missed}, where up to {allowed:.2g} would do{heap}"


def _of_largest(fits: TailFits, law: StableFit, tail: PowerLawFit) -> Iterator[str]:
    """A stable law with alpha < 2 has a power law's tail of index alpha. Is it there, not heavier?

    P(|X - δ| > c·z) = 2·sin(πα/2)Γ(α)/π·z^-α to leading order, for every beta. The number of values
    beyond the largest is the test, not the power law's index: near alpha = 2 samples of a stable
    law itself show too large an index.
    """
    error = math.hypot(tail.alpha_error, law.errors.get("alpha") or 0.0)
    if tail.tail_index < law.alpha - _HEAVIER * error:
        index = f"tail index {tail.tail_index:.3g} ± {tail.alpha_error:.2g}"
        heavier = f"the tail is heavier than the stable law's: {index}"
        yield f"{heavier}, and {law.alpha:.3g} by the stable law"
    z = (tail.largest + abs(law.location)) / law.scale
    if z < _FAR:
        return
    share = 2 / math.pi * math.sin(math.pi * law.alpha / 2) * math.gamma(law.alpha) * z**-law.alpha
    beyond = fits.count * share
    if beyond > _EMPTY:
        yield (
            f"the stable law's tail is not there: with alpha = {law.alpha:.4g} it would put about "
            f"{beyond:.3g} weights beyond the largest, {tail.largest:.3g}; the power law has tail "
            f"index {tail.tail_index:.3g}"
        )
