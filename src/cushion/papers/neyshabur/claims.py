"""How the sentences of Neyshabur 2017 about Figures 1 to 4 are tried on numbers; a None among them
is a missing number.

A claim that one number refutes does not hold, whatever is missing; else a missing number leaves it
undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from cushion.papers.pages import Tried

LEAST = 5  # nets of which a rank correlation says anything
RANKED = 0.5  # a rank correlation above it makes a measure predictive
Numbers = Sequence[float | None]


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's; None of fewer than three pairs, or where one side is constant."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(stats.spearmanr(x, y).statistic)


def all_zero(errors: Mapping[str, int], text: str) -> Tried:
    """No training error of any net."""
    if not errors:
        return Tried(text, None, "there is no net")
    words = ", ".join(f"{name}: {count}" for name, count in errors.items() if count)
    because = f"training errors {words}" if words else f"none of {len(errors)} nets errs"
    return Tried(text, not words, because)


def above_everywhere(
    text: str, places: Sequence[int], upper: Numbers, lower: Numbers, why: str = ""
) -> Tried:
    """upper > lower at every place; `why` says why a number may be missing."""
    found = zip(places, upper, lower, strict=True)
    known = [(at, a > b) for at, a, b in found if a is not None and b is not None]
    against, missing = [str(at) for at, above in known if not above], len(places) - len(known)
    if against:
        return Tried(text, False, f"not at {', '.join(against)}, of {len(places)} sizes")
    if missing or not known:
        return Tried(text, None, f"{missing} of {len(places)} sizes have no number: {why}")
    return Tried(text, True, f"at all of {len(places)} sizes")


def differences(upper: Numbers, lower: Numbers) -> list[float] | None:
    """10^upper - 10^lower in units of the largest; None where a number is missing."""
    pairs = [(a, b) for a, b in zip(upper, lower, strict=True) if a is not None and b is not None]
    if len(pairs) < len(upper) or not pairs:
        return None
    top = max(max(pair) for pair in pairs)
    return [float(np.power(10.0, a - top) - np.power(10.0, b - top)) for a, b in pairs]


def _of_every(
    text: str, start: str, found: Mapping[str, tuple[bool, str] | None], nothing: str
) -> Tried:
    """Whether it holds of every measure, with words on each; None: a measure without numbers."""
    known = [one for one in found.values() if one is not None]
    words = ", ".join(f"{name} {one[1]}" for name, one in found.items() if one is not None)
    missing = ", ".join(name for name, one in found.items() if one is None)
    because = f"{start}: {words or nothing}" + (f"; no number for {missing}" if missing else "")
    held = all(good for good, _ in known)
    return Tried(text, False if not held else None if missing or not known else True, because)


def gap_grows(
    text: str, places: Sequence[int], gaps: Mapping[str, Sequence[float] | None]
) -> Tried:
    """Of every measure: the last gap above the first, and a rank correlation above 0.5."""
    found: dict[str, tuple[bool, str] | None] = {}
    for name, gap in gaps.items():
        rank = None if gap is None else rank_correlation(places, gap)
        if gap is None or rank is None:
            found[name] = None
        else:
            found[name] = (rank > RANKED and gap[-1] > gap[0], f"{rank:+.2f}")
    start = f"rank correlation of gap and size (above {RANKED} is needed)"
    return _of_every(text, start, found, "none")


def moves(
    text: str, found: Mapping[str, Numbers], *, up: bool, where: str, every: bool = False
) -> Tried:
    """Each measure rises (or falls) from first to last; `every`: from each to the next."""
    moved: dict[str, tuple[bool, str] | None] = {}
    for name, numbers in found.items():
        known = [value for value in numbers if value is not None]
        if len(numbers) < 2 or len(known) < len(numbers):
            moved[name] = None
            continue
        steps = np.diff(known) if every else np.array([known[-1] - known[0]])
        good = bool((steps > 0).all() if up else (steps < 0).all())
        moved[name] = (good, f"by {known[-1] - known[0]:+.3g}")
    return _of_every(text, where, moved, "nothing is known")


def most_pronounced(text: str, excess: Mapping[str, float | None], named: Sequence[str]) -> Tried:
    """The largest of `excess` are those that are named."""
    known = {name: value for name, value in excess.items() if value is not None}
    missing = ", ".join(name for name in excess if name not in known)
    if missing:
        return Tried(text, None, f"no number for {missing}")
    ranked = sorted(known, key=known.__getitem__, reverse=True)
    words = ", ".join(f"{name} {known[name]:+.2f}" for name in ranked)
    because = f"log10 of how much more random labels add: {words}"
    return Tried(text, set(ranked[: len(named)]) == set(named), because)


def predicts(
    text: str,
    measure: Numbers,
    errors: Sequence[float],
    *,
    wanted: bool = True,
    what: str = "with the test error",
) -> Tried:
    """Whether the rank correlation with `errors` is above 0.5 (wanted), or not (not wanted)."""
    known = [value for value in measure if value is not None]
    nets, missing = len(measure), len(measure) - len(known)
    if missing:
        return Tried(text, None, f"{missing} of {nets} nets have no number")
    if nets < LEAST:
        return Tried(text, None, f"{nets} nets are too few for a rank correlation; {LEAST} asked")
    found = rank_correlation(known, errors)
    if found is None:
        return Tried(text, None, "all nets are alike")
    limit = f"above {RANKED}" if wanted else f"at most {RANKED}"
    because = f"rank correlation {what} {found:+.2f}; {limit} is needed"
    return Tried(text, (found > RANKED) is wanted, because)
