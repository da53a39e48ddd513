"""One mutant of an original: the certificate, and the ledger of looks where it has one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from fuzz.claims import recertified
from fuzz.claims_holdout import restated_lines
from fuzz.claims_picks import restated_rows
from fuzz.ledgers import other_past, spoilt
from fuzz.mutations import mutate
from fuzz.originals import Original


@dataclass(frozen=True)
class Mutant:
    """What the verifier is given."""

    content: bytes
    looks: bytes | None = None


def mutant_of(original: Original, others: list[bytes], rng: random.Random) -> Mutant:
    """Nearly true in one of ten (of the kinds without a net in one of five), else spoilt.

    Where there is a ledger of looks, it is what is altered in half of them.
    """
    share, made = (0.1, None) if original.arrays is None else (0.2, None)
    if original.looks is not None and rng.random() < 0.5:
        if rng.random() < 0.5:
            return Mutant(*other_past(original.content, original.looks, rng))
        return Mutant(original.content, spoilt(original.looks, rng))
    if rng.random() < share:
        made = _NEARLY_TRUE[original.kind](original, rng)
    content = mutate(original.content, others, rng) if made is None else made
    return Mutant(content, original.looks)


_NEARLY_TRUE: dict[str, Callable[[Original, random.Random], bytes | None]] = {
    "occam": lambda original, rng: recertified(original.content, original.sample, rng),
    "pac-bayes": lambda _, __: None,
    "holdout": restated_lines,
    "picks": restated_rows,
}
