"""Mutants that are as true as they can be made, and the same with one small lie: the verifier must
tell them apart.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

from cushion.certificates.format.message import read
from cushion.data.dataset import Dataset
from cushion.errors import CushionError
from cushion.theorems.occam import occam_bound
from fuzz.mutations import Parts, bits_of, bytes_of, canonical, spoil_bits

_MOST_WORK = 5000  # numbers of a net that is recertified: the recheck of an accepted file is slow


def recertified(content: bytes, data: Dataset, rng: random.Random) -> bytes | None:
    """A spoilt message that still decodes, with the claim that is true of it, or nearly.

    Half of them are true; the others state one error less, one bit less, a bound one step too
    small, or a ledger with one bit moved. None where the spoilt message does not decode.
    """
    parts = Parts.of(content)
    obj: dict[str, Any] = json.loads(parts.claim)
    if obj["kind"] != "occam" or obj["transfer"] is not None or obj["holdout"] is not None:
        return None
    bits = spoil_bits(bits_of(parts.message, obj["bits"]), rng, header=rng.random() < 0.3)
    message = bytes_of(bits)
    try:
        net, ledger = read(message, len(bits))
    except CushionError:
        return None
    if net.weights > _MOST_WORK or net.fault(data.x) or int(data.y.max()) >= net.classes:
        return None
    errors = net.errors(data.x, data.y)
    lie = rng.randrange(8)
    counted = errors - 1 if lie == 1 and errors else errors
    paid = len(bits) - 1 if lie == 2 else len(bits)
    bound = occam_bound(counted, len(data), paid, Decimal(obj["delta"]))
    if lie == 3:
        bound = f"{max(Decimal(0), Decimal(bound) - Decimal('0.000001')):f}"
    items = [item.to_json() for item in ledger]
    if lie == 4:
        items[0]["bits"] += 1
        items[-1]["bits"] -= 1
    obj |= {"errors": counted, "bits": len(bits), "bound": bound, "ledger": items, "m": len(data)}
    return Parts(canonical(obj), message).seal()
