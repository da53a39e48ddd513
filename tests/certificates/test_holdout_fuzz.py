"""Hold-out certificates changed at random, resealed: refused, or true."""

from __future__ import annotations

import copy
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.certificates.case import sealed
from tests.certificates.holdout_corpus import ROWS, first_use, look
from tests.certificates.samples import sample
from tests.certificates.user_net import f
from tests.simulations import few_and_many

import cushion_verify
from cushion.certificates.answers import score
from cushion.theorems.occam import occam_bound

VALUES: list[Any] = [
    *[None, True, 0, 1, -1, 2, 3, 60, 61, 10**7, 2**63, 1.5, "", "x", "0.0", "0.05", "0.025"],
    *["0.5", "0.6", "1.0", "0.9535", "0.033", "class", "top", [], {}, [1], "1" * 64, "0" * 64],
]


def spots(obj: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a claim."""
    items = obj.items() if isinstance(obj, dict) else enumerate(obj)
    found = [(obj, key) for key, _ in items]
    for inner, key in list(found):
        if isinstance(inner[key], dict | list):
            found += spots(inner[key])
    return found


def change(obj: Any, rng: random.Random) -> None:
    where, key = rng.choice(spots(obj))
    value = where[key]
    how = rng.randrange(4)
    if how == 0 and isinstance(value, int):
        where[key] = value + rng.choice((-2, -1, 1, 2))
    elif how == 1 and isinstance(value, str) and value[:1].isdigit():
        places = len(value.partition(".")[2])
        step = Decimal(rng.choice((-1, 1))).scaleb(-rng.randrange(1, max(2, places)))
        where[key] = format(abs(Decimal(value) + step), "f") if "." in value else value
    elif how == 2 and isinstance(where, dict):
        del where[key]
    else:
        where[key] = copy.deepcopy(rng.choice(VALUES))


@few_and_many("files", 500, 10_000)
def test_a_changed_claim_is_refused_or_true(files: int, tmp_path: Path) -> None:
    held, rng = sample(ROWS), random.Random(0)
    scores = score(f(), held.x).numpy()
    counted = int((scores.argmax(axis=1) != held.y).sum())
    given = cushion_verify.Given(x=held.x, y=held.y, answers=scores)
    originals = [one.claim.to_json() for one in (first_use(), first_use(True), look())]
    path, verdicts = tmp_path / "c.cushion", {True: 0, False: 0}
    for at in range(files):
        obj = json.loads(json.dumps(originals[at % 3]))
        for _ in range(rng.randrange(1, 4)):
            change(obj, rng)
        path.write_bytes(sealed(cushion_verify.canonical(obj), b""))
        try:
            verdict = cushion_verify.check(path, given)
        except cushion_verify.Malformed:
            continue
        verdicts[verdict.ok] += 1
        json.dumps(verdict.to_json())
        assert verdict.lines()
        if verdict.ok:
            claim, bits, parts = verdict.claim, 0, 1
            if claim.look is not None:
                bits, parts = claim.look.bits_before, claim.look.number * (claim.look.number + 1)
            least = occam_bound(claim.errors, claim.m, bits, Decimal(claim.delta_all) / parts)
            assert claim.errors >= counted
            assert Decimal(claim.bound) >= Decimal(least) - Decimal("2e-6")
            assert sum(Decimal(one.delta) for one in claim.lines) < Decimal(claim.delta)
    assert verdicts[True]
    assert verdicts[False]
