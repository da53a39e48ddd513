"""Rows and labels that a seed chose, in words that a certificate keeps.

A seed is a free choice of up to 60 bits: whoever tries many and keeps the best has a sample that is
no draw. So a certificate names them, and assumes that they were fixed before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_N, _SEED = r"([0-9]{1,20})", r"seed=([0-9]{1,20})"
# a step's line in a history -> the word for it, as in --data
_STEPS = {
    rf"subset: the first {_N} rows of permutation\([0-9]+, {_SEED}\)": "subset={},seed={}",
    rf"split: the (?:first|last) {_N} rows of permutation\([0-9]+, {_SEED}\)": "split={},seed={}",
    rf"random labels: .* on {_N} of {_N} rows, {_SEED}": "random-labels={}/{},seed={}",
    rf"shuffled labels: .*, {_SEED}\)": "shuffle-labels,seed={}",
    rf"confusion set: the first {_N} .*, the other {_N} .*, {_SEED}": "confusion={}+{},seed={}",
}
_OTHER = "own-step"  # of a step that is not ours: its own words are not kept
_MOST = 300
_WORD = "|".join(re.escape(word).replace(r"\{\}", "[0-9]{1,20}") for word in _STEPS.values())
_WORDS = re.compile(rf"(?:{_WORD}|{_OTHER})(?:,(?:{_WORD}|{_OTHER}))*")
# what a named set's own history begins with: its split is the set's, and nobody's choice
_NAMED = "digits: "


def chosen_words(history: Sequence[str]) -> str:
    """The seeded steps of a history, such as "subset=20000,seed=3"; "" where there are none.

    >>> chosen_words(["subset: the first 20 rows of permutation(60, seed=3)", "sorted by hand"])
    'subset=20,seed=3,own-step'
    """
    own = history[2:] if history and history[0].startswith(_NAMED) else history
    said = ",".join(map(_word, own))
    return said if len(said) <= _MOST else _OTHER


def are_chosen_words(value: object) -> bool:
    """Whether these are words of `chosen_words`: a file can hold any others."""
    return isinstance(value, str) and len(value) <= _MOST and bool(_WORDS.fullmatch(value))


def _word(step: str) -> str:
    for line, word in _STEPS.items():
        if found := re.fullmatch(line, step):
            return word.format(*found.groups())
    return _OTHER
