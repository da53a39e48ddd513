"""Hold-out certificates that are true, and the same with one small lie.

The lines, shares and bounds are the producer's; they depend on what is asked alone, so each is
computed once.
"""

from __future__ import annotations

import copy
import random
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout.certificate import _of_look
from cushion.certificates.holdout.counting import scored
from cushion.certificates.holdout.ledger import Ledger, Past, Request
from cushion.certificates.holdout.lines import Asked, bound_of, exact_lines, plain, tell
from cushion.certificates.holdout.shares import share_delta
from cushion.errors import BadInput
from fuzz.mutations import Parts, canonical
from fuzz.originals import Original

_TOLERANCES = ("0.0001", "0.000000000000000001", "0.01", "0.3", "1.0", "7.5")
_DELTAS = ("0.05", "0.01", "0.5", "0.123456789")
_RISKS = (None, "0.25", "0.4", "0.6", "0.01")
_STEP = Decimal("0.000001")


def restated_lines(original: Original, rng: random.Random) -> bytes:
    """Other lines, another tolerance or δ, counted anew; one in three is true, the others state a
    row, a bit or a step of a bound less, or shift δ between lines.
    """
    obj: dict[str, Any] = copy.deepcopy(original.claim)
    asked = Asked(rng.random() < 0.5, rng.choice((None, 1, 2)), rng.choice(_RISKS))
    tolerance, delta = rng.choice(_TOLERANCES), rng.choice(_DELTAS)
    number = rng.choice((1, 2, 3, 50)) if obj["look"] else 0
    bits = rng.choice((0, 1, 12, 30)) if number else 0
    made = _true(original, asked, tolerance, delta, number, bits)
    if made is not None:
        obj |= copy.deepcopy(made)
    if obj["look"] is not None:
        obj["look"]["chain"] = original.claim["look"]["chain"]
    _lie(obj, rng)
    return Parts(canonical(obj), b"").seal()


def _lie(obj: dict[str, Any], rng: random.Random) -> None:
    lines, chosen, look = obj["lines"], obj["selective"], obj["look"]
    places = [obj, *lines, *([chosen] if chosen else [])]
    where, lie = rng.choice(places), rng.randrange(12)
    if lie == 0:
        more = rng.choice((-1, 1, 2))
        if where["errors"] is not None:
            where["errors"] = max(0, where["errors"] + more)
        if where is obj or look is None:
            _bound_anew(obj, where)
    elif lie == 1:
        where["bound"] = f"{max(_STEP, Decimal(where['bound']) - _STEP):f}"
    elif lie == 2 and where is not obj and where["m"] is not None:
        where["m"] += rng.choice((-1, 1))
        _bound_anew(obj, where)
    elif lie == 3 and chosen and chosen["refused"] is not None:
        chosen["refused"] = max(0, chosen["refused"] + rng.choice((-1, 1)))
        chosen["bound_refused"] = rng.choice((chosen["bound_refused"], "1.0"))
    elif lie == 4:
        obj["tolerance"] = rng.choice(_TOLERANCES)
    elif lie == 5 and lines:
        step = Decimal("0.000000000000000001")
        lines[0]["delta"] = f"{Decimal(lines[0]['delta']) + step:f}"
        obj["delta_all"] = f"{Decimal(obj['delta_all']) - step:f}"
    elif lie == 6 and look:
        key = rng.choice(("number", "bits_before"))
        look[key] = max(0, look[key] + rng.choice((-1, 1)))
        obj["ledger"][0]["bits"] = look["bits_before"]
    elif lie == 7 and chosen and chosen["threshold"]:
        chosen["threshold"] = rng.choice(("0.56", "0.68", "0.82", "1.0", "0.001", "0.123"))


def _bound_anew(obj: dict[str, Any], where: dict[str, Any]) -> None:
    """The least bound of the counts as they are stated now."""
    errors, m = where["errors"], where["m"]
    if errors is None or not 0 <= errors <= m or m > obj["m"]:
        return
    share = where["delta_all"] if where is obj else where["delta"]
    among = 142 if "risk" in where else 1
    look = Look(**obj["look"]) if obj["look"] else None
    if look is None or (look.number and look.bits_before >= 0):
        where["bound"] = _bound(errors, m, share, look, among)


@lru_cache(100_000)
def _bound(errors: int, m: int, share: str, look: Look | None, among: int) -> str:
    return bound_of(errors, m, Decimal(share), look, among)


@lru_cache(4_000)
def _true(
    original: Original, asked: Asked, tolerance: str, delta: str, number: int, bits: int
) -> dict[str, Any] | None:
    """What the producer states; None where δ is too small for it, or the look no better."""
    assert original.arrays is not None
    data, classes, total = original.sample, original.sample.classes, Decimal(delta)
    rows = scored(original.arrays["answers"], data.y, tolerance)
    try:
        shares = share_delta(
            total, classes * asked.per_class, asked.top_k is not None, asked.selective is not None
        )
    except BadInput:
        return None
    if not number:
        lines, selective = exact_lines(rows, asked, classes, shares)
        errors = int(rows.missed().sum())
        return {
            **{"errors": errors, "bound": bound_of(errors, len(data), shares.overall, None)},
            **{"tolerance": tolerance, "delta": plain(total), "delta_all": plain(shares.overall)},
            "lines": [line.to_json() for line in lines],
            "selective": None if selective is None else selective.to_json(),
        }
    claim = original.claim
    request = Request(claim["net_fingerprint"], claim["program"], tolerance, asked)
    look = Look(number, bits, "0" * 64)
    told = tell(rows, asked, classes, shares, look, None)
    assert told is not None
    ledger = Ledger(Path("L"), data.name, data.fingerprint, len(data), classes, total, ())
    made = _of_look(ledger, Past(look, request, "counted", told, 0), {}).claim.to_json()
    kept = ("errors", "bound", "tolerance", "delta", "delta_all", "lines", "selective", "look")
    return {key: made[key] for key in (*kept, "ledger")}
