"""Certificates of kind picks that are true, and the same with one small lie.

The rounds come from the producer's learners, or of a training from the classes that it gave.
"""

from __future__ import annotations

import copy
import random
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cushion.theorems.occam import holdout_bound
from cushion.theorems.picks import picks_bound
from fuzz.mutations import Parts, canonical, row_bytes, spoil_rows
from fuzz.originals import Original
from fuzz.recheck_picks import Replay, replayed

_DELTAS = ("0.05", "0.050", "0.01", "0.5", "0.000000000000000001", "0.123456789")
_STEP = Decimal("0.000001")


def restated_rows(original: Original, rng: random.Random) -> bytes:
    """What another learner, δ or number of choices gives, with the bound of that; one in four is
    true, the others state a row, a count or a step of the bound less, or another learner's digest.
    """
    assert original.arrays is not None
    obj: dict[str, Any] = copy.deepcopy(original.claim)
    _other_question(obj, rng)
    made = replayed(obj, original.arrays)
    if made is None:  # a learner that does not read such rows
        made = replayed(original.claim, original.arrays)
        assert made is not None
    picks, errors = list(made.picks), list(made.errors)
    if obj["fit"] is None:
        obj["coefficients"] = made.digest
    if obj["features"] is not None:
        obj["slack"] = rng.choice((0, 0, 1, 5))
    if (line := obj["holdout"]) is not None:
        line["errors"], line["delta"] = _held(made, obj, original), obj["delta"]
        line["looks"] = rng.choice((1, 2, 3, 1000))
    lie = rng.randrange(16)
    if lie == 0 and errors:
        errors.pop(rng.randrange(len(errors)))
    elif lie == 1:
        errors = sorted(spoil_rows(errors, obj["m"], rng))
    elif lie == 2:
        picks = spoil_rows(picks, obj["m"], rng)
    elif lie == 3 and line is not None and line["errors"]:
        line["errors"] -= 1
    elif lie == 4 and obj["coefficients"]:
        at = rng.randrange(64)
        obj["coefficients"] = obj["coefficients"][:at] + "0" + obj["coefficients"][at + 1 :]
    counts = {"picks": len(picks), "errors": len(errors)}
    obj |= counts
    stated = len(picks) + len(errors) + obj["slack"]
    obj["bound"] = _bound(min(stated, obj["m"]), obj["m"], obj["delta"], obj["choices"])
    if line is not None:
        line["bound"] = _held_bound(line["errors"], line["m"], line["delta"], line["looks"])
    if lie == 5:
        obj["bound"] = _less(obj["bound"])
    elif lie == 6 and line is not None:
        line["bound"] = _less(line["bound"])
    elif lie == 7:
        obj["choices"] *= 2
    elif lie == 8 and line is not None:
        line["looks"] += 1
    elif lie == 9:
        obj["delta"] = rng.choice(_DELTAS)
    elif lie == 10 and stated:
        obj["slack" if obj["slack"] else "errors" if errors else "picks"] -= 1
    elif lie == 11:
        obj["bound"] = f"{min(Decimal(1), Decimal(obj['bound']) + 7 * _STEP):f}"
    for item in obj["ledger"]:
        item["count"] = obj[item["item"]]
    if (moved := obj["transfer"]) is not None:
        total = min(Decimal(1), Decimal(obj["bound"]) + Decimal(moved["bound"]))
        moved["bound_f"] = f"{total:f}" if "." in f"{total:f}" else "1.0"
    return Parts(canonical(obj), row_bytes(picks + errors)).seal()


def _other_question(obj: dict[str, Any], rng: random.Random) -> None:
    """Another learner of the list, other rounds of a training, another δ or price."""
    if rng.random() < 0.5:
        obj["delta"] = rng.choice(_DELTAS[:4] if obj["transfer"] is None else ("0.04", "0.1"))
    if obj["fit"] is not None:
        if rng.random() < 0.5:
            obj["fit"]["groups"] = [rng.choice((1, 5, 10, 20, 300)) for _ in obj["fit"]["groups"]]
        obj["choices"] = rng.choice((1, 2, 10, 2**40))
        return
    if rng.random() < 0.5 and obj["transfer"] is None:
        recipe, stop = divmod(obj["configuration"], 16)
        recipe = {5: 6, 6: 5, 0: 1, 1: 0}.get(recipe, recipe) if rng.random() < 0.5 else recipe
        stop = rng.choice((0, 1, 2, 15)) if rng.random() < 0.2 else stop
        obj["configuration"] = 16 * recipe + stop
    if rng.random() < 0.1 and obj["transfer"] is None:
        obj["classes"] += rng.choice((1, 2))
    if obj["features"] is not None:
        obj["choices"] = 128 * rng.choice((1, 2, 3))


def _held(made: Replay, obj: dict[str, Any], original: Original) -> int:
    slack = 0 if obj["features"] is None else 2
    return min(obj["holdout"]["m"], made.missed(original.arrays or {}) + slack)


@lru_cache(100_000)
def _bound(k: int, m: int, delta: str, choices: int) -> str:
    return picks_bound(k, m, Decimal(delta), choices)


@lru_cache(100_000)
def _held_bound(errors: int, m: int, delta: str, looks: int) -> str:
    return holdout_bound(errors, m, Decimal(delta) / looks)


def _less(bound: str) -> str:
    return f"{max(_STEP, Decimal(bound) - _STEP):f}"
