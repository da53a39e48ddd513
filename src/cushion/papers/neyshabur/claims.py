"""How the sentences of Neyshabur 2017 about Figures 1 to 4 are tried on numbers; a None among them
is a missing number.

A claim that one number refutes does not hold, whatever is missing; else a missing number leaves it
undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

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
    wrong = {name: count for name, count in errors.items() if count}
    if not errors:
        return Tried(text, None, "there is no net")
    words = ", ".join(f"{name}: {count}" for name, count in wrong.items())
    return Tried(
        text, not wrong, f"training errors {words}" if wrong else f"none of {len(errors)} nets errs"
    )


def above_everywhere(
    text: str, places: Sequence[int], upper: Numbers, lower: Numbers, *, why: str
) -> Tried:
    """upper > lower at every place; `why` says why a number may be missing."""
    known = [
        (at, a, b)
        for at, a, b in zip(places, upper, lower, strict=True)
        if a is not None and b is not None
    ]
    against = [at for at, a, b in known if a <= b]
    if against:
        return Tried(text, False, f"not at {', '.join(map(str, against))}, of {len(places)} sizes")
    if len(known) < len(places) or not known:
        return Tried(
            text, None, f"{len(places) - len(known)} of {len(places)} sizes have no number: {why}"
        )
    return Tried(text, True, f"at all of {len(places)} sizes")


def differences(upper: Numbers, lower: Numbers) -> list[float] | None:
    """10^upper - 10^lower in units of the largest; None where a number is missing."""
    pairs = [(a, b) for a, b in zip(upper, lower, strict=True) if a is not None and b is not None]
    if len(pairs) < len(upper) or not pairs:
        return None
    top = max(max(pair) for pair in pairs)
    return [float(np.power(10.0, a - top) - np.power(10.0, b - top)) for a, b in pairs]


def gap_grows(
    text: str, places: Sequence[int], gaps: Mapping[str, Sequence[float] | None]
) -> Tried:
    """Of every measure: the last gap above the first, and a rank correlation above 0.5."""
    words, held, missing = [], [], []
    for name, gap in gaps.items():
        found = None if gap is None else rank_correlation(places, gap)
        if gap is None or found is None:
            missing.append(name)
            continue
        held.append(found > RANKED and gap[-1] > gap[0])
        words.append(f"{name} {found:+.2f}")
    because = (
        f"rank correlation of gap and size (above {RANKED} is needed): {', '.join(words) or 'none'}"
    )
    because += f"; no number for {', '.join(missing)}" if missing else ""
    return Tried(text, False if not all(held) else None if missing or not held else True, because)


def most_pronounced(text: str, excess: Mapping[str, float | None], named: Sequence[str]) -> Tried:
    """The largest of `excess` are those that are named."""
    known = {name: value for name, value in excess.items() if value is not None}
    if len(known) < len(excess):
        return Tried(
            text, None, f"no number for {', '.join(name for name in excess if name not in known)}"
        )
    ranked = sorted(known, key=known.__getitem__, reverse=True)
    words = ", ".join(f"{name} {known[name]:+.2f}" for name in ranked)
    return Tried(
        text,
        set(ranked[: len(named)]) == set(named),
        f"log10 of how much more random labels add: {words}",
    )


def predicts(
    text: str, measure: Numbers, errors: Sequence[float], *, wanted: bool = True, what: str = ""
) -> Tried:
    """Whether the rank correlation with `errors` is above 0.5 (wanted), or not (not wanted)."""
    pairs = [
        (value, error) for value, error in zip(measure, errors, strict=True) if value is not None
    ]
    if len(pairs) < len(measure):
        return Tried(
            text, None, f"{len(measure) - len(pairs)} of {len(measure)} nets have no number"
        )
    if len(pairs) < LEAST:
        return Tried(
            text, None, f"{len(pairs)} nets are too few for a rank correlation; {LEAST} asked"
        )
    found = rank_correlation([value for value, _ in pairs], [error for _, error in pairs])
    if found is None:
        return Tried(text, None, "all nets are alike")
    limit = f"above {RANKED}" if wanted else f"at most {RANKED}"
    return Tried(
        text,
        (found > RANKED) is wanted,
        f"rank correlation {what or 'with the test error'} {found:+.2f}; {limit} is needed",
    )


def moves(
    text: str, found: Mapping[str, Numbers], *, up: bool, where: str, every: bool = False
) -> Tried:
    """Each measure rises (or falls) from first to last; `every`: from each to the next."""
    words, held, missing = [], [], []
    for name, numbers in found.items():
        known = [value for value in numbers if value is not None]
        if len(numbers) < 2 or len(known) < len(numbers):
            missing.append(name)
            continue
        steps = list(pairwise(known)) if every else [(known[0], known[-1])]
        held.append(all((b > a) if up else (b < a) for a, b in steps))
        words.append(f"{name} by {known[-1] - known[0]:+.3g}")
    because = f"{where}: {', '.join(words) or 'nothing is known'}"
    because += f"; no number for {', '.join(missing)}" if missing else ""
    return Tried(text, False if not all(held) else None if missing or not held else True, because)
