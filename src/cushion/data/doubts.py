"""What makes a person look again: a net that errs far too much on the data it was trained on, and
labels whose numbering does not look like the net's; held-out examples that speak against a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cushion.numerics import counted, float_up, log_binomial_cdf_upper, percent_up

_SCALED = (
    "is the input scaled as in training? Are its classes numbered as the data's? See "
    "docs/preprocessing.md"
)
_NUMBERED = (
    "that is worse than guessing ({:.1f} %), so its classes are probably numbered otherwise than "
    "the data's, where labels in text are numbered by their code points; write the labels as the "
    "numbers that the net gives them"
)
_COUNTED = 200  # rows that an error is at least taken to be counted on
_NEAR = 0.9  # of the error of guessing
_FAR = 0.05  # above the stated error, and
_TIMES = 1.5  # so many times as large
_CHANCE = 1e-3


def doubts_about_error(error: float, classes: int, stated: float | None = None) -> list[str]:
    """A doubt about a net that errs on the share `error` of its own training data, or none.

    stated: the error that was recorded in training, where it is known.

    >>> doubts_about_error(0.02, 10, 0.01)
    []
    >>> doubts_about_error(0.88, 10)[0][:69]
    'the net errs on 88.0 % of its own training data, as guessing would (9'
    >>> doubts_about_error(0.99, 4)[0][:67]
    'the net errs on 99.0 % of its own training data: that is worse than'
    """
    guessing = 1 - 1 / classes
    own = f"the net errs on {100 * error:.1f} % of its own training data"
    why = _NUMBERED.format(100 * guessing) if _is_worse(error, classes) else _SCALED
    if stated is not None and error > max(stated + _FAR, _TIMES * stated):
        return [f"{own}, but {100 * stated:.1f} % were stated: {why}"]
    known = stated is not None and stated >= _NEAR * guessing  # it was no better in training
    if error >= _NEAR * guessing and not known:
        as_guessing = "" if why != _SCALED else f", as guessing would ({100 * guessing:.1f} %)"
        return [f"{own}{as_guessing}: {why}"]
    return []


def _is_worse(error: float, classes: int) -> bool:
    """Whether guessing errs so often on 200 rows with a chance below 1/1000."""
    right = math.floor(_COUNTED * (1 - error))
    return log_binomial_cdf_upper(right, _COUNTED, 1 / classes) < math.log(_CHANCE)


def doubts_about_holdout(errors: int, m: int, bound: str, whose: str = "the") -> list[str]:
    """A doubt about a bound, if so many errors among m held-out examples had a chance below 1/1000
    under it; or none.

    >>> doubts_about_holdout(20, 1000, "0.015")
    []
    >>> doubts_about_holdout(40, 1000, "0.015")[0][:66]
    '40 errors on 1000 held-out examples contradict the bound of 1.50 %'
    """
    p = float_up(bound)
    # P[Bin(m, p) ≥ errors] = P[Bin(m, 1 - p) ≤ m - errors], erring upwards
    if log_binomial_cdf_upper(m - errors, m, 1 - p) >= math.log(_CHANCE):
        return []
    return [
        f"{counted(errors, 'error')} on {m} held-out examples contradict {whose} bound of "
        f"{percent_up(bound)}: less than one chance in a thousand. Either the examples are not "
        "draws of one distribution (copied rows, a sorted split), or the bound has failed"
    ]


def doubts_about_labels(labels: Sequence[int | str] | None, scores: int) -> list[str]:
    """A doubt about labels 1 to K that were taken as classes 0 to K - 1, where the net gives K + 1
    scores, so that the labels as they were written fit it exactly; or none.

    >>> doubts_about_labels((1, 2, 3), 4)[0][:60]
    'the net gives 4 scores, and labels 1 to 3 were taken as clas'
    >>> doubts_about_labels((1, 2, 3), 3), doubts_about_labels(None, 4)
    ([], [])
    """
    if labels is None or tuple(labels) != tuple(range(1, scores)):
        return []
    taken = f"labels 1 to {scores - 1} were taken as classes 0 to {scores - 2}"
    how = f"if class 0 is only missing here, give cushion.Dataset(x, y, classes={scores})"
    return [
        f"the net gives {scores} scores, and {taken}: every right answer may count as wrong; {how}"
    ]
