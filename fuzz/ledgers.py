"""Spoilt ledgers of looks: bytes, lines, and other pasts whose running hash fits."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cushion.certificates.holdout import grid
from cushion.theorems.occam import occam_bound
from fuzz.mutations import Parts, canonical, edit, other_value

_SAID = ("counted", "no better", "failed", "fine")


def spoilt(looks: bytes, rng: random.Random) -> bytes:
    """Another ledger for the same certificate; its running hash fits in half of them."""
    if rng.random() < 0.3:
        return edit(looks, rng, looks)
    objects = altered(objects_of(looks), rng)
    made = chained(objects) if rng.random() < 0.5 else _with_old_chains(objects)
    return made if rng.random() < 0.9 else made[: rng.randrange(len(made) + 1)]


def other_past(content: bytes, looks: bytes, rng: random.Random) -> tuple[bytes, bytes]:
    """Another ledger whose hash fits, and the certificate as the look that stands in it: with its
    chain, what was told before it as its lines say, and the bound of that.
    """
    objects = objects_of(looks)
    objects = altered(objects, rng) if rng.random() < 0.5 else _rebuilt(objects, rng)
    made = chained(objects)
    parts = Parts.of(content)
    obj = json.loads(parts.claim)
    look = obj["look"]
    before, bits = "", 0
    for line in objects_of(made):
        if not isinstance(line, dict):
            continue
        before = line.get("chain", before)
        if line.get("look") == look["number"]:
            break
        told = line.get("bits", 0)
        bits += told if type(told) is int and 0 <= told < 2**22 else 0
    look["chain"] = before
    if rng.random() < 0.9:
        look["bits_before"] = bits - (rng.random() < 0.1)
        obj["ledger"][0]["bits"] = look["bits_before"]
    if rng.random() < 0.8:
        obj["bound"] = bound_of_look(obj)
    return Parts(canonical(obj), parts.message).seal(), made


def bound_of_look(obj: dict[str, Any]) -> str:
    """The least overall bound of a look; 1 where it cannot be said."""
    k, bits = obj["look"]["number"], obj["look"]["bits_before"]
    share = Decimal(obj["delta_all"]) / (k * (k + 1))
    return _bound(obj["errors"], obj["m"], bits, share) if 0 <= bits < 200 else "1.0"


@lru_cache(10_000)
def _bound(errors: int, m: int, bits: int, share: Decimal) -> str:
    return occam_bound(errors, m, bits, share)


def altered(objects: list[Any], rng: random.Random) -> list[Any]:
    """Values of lines changed, and lines dropped, repeated, swapped or put behind the others."""
    lines = copy.deepcopy(objects)
    for _ in range(rng.choice((1, 1, 1, 2))):
        at = rng.randrange(len(lines))
        line, kind = lines[at], rng.randrange(8)
        if kind < 4 and line:
            key = rng.choice(sorted(line))
            line[key] = other_value(line[key], None, rng)
            if kind < 2 and "answer" in line:
                _answer(line, rng)
        elif kind == 4 and len(lines) > 1:
            del lines[at]
        elif kind == 5:
            lines.insert(at, copy.deepcopy(line))
        elif kind == 6:
            lines[at:at] = [lines.pop()]
        else:
            more: list[Any] = [{"closed": True}, {**objects[1], "look": 4}, {}, {"chain": ""}]
            lines.append(rng.choice(more))
    return lines


def _rebuilt(objects: list[Any], rng: random.Random) -> list[Any]:
    """Other answers before the last look, each possible, one in four with a wrong price; the last
    look keeps its answer, at what that costs now.
    """
    lines = copy.deepcopy(objects)
    rows, best = lines[0]["m"], None
    for line in lines[2:-1:2]:
        words = ["failed", "counted", "counted"] + ["no better"] * (best is not None)
        line["said"], line["errors"] = rng.choice(words), None
        if line["said"] == "counted" and best != 0:
            line["errors"] = rng.choice(grid.counts(rows)[: rows if best is None else best])
        elif line["said"] == "counted":
            line["said"] = "failed"
        line["bits"] = _cost(line, rows, best)
        best = best if line["errors"] is None else line["errors"]
    last = lines[-1]
    lines_bits = last["bits"] - _cost(objects[-1], rows, objects[2]["errors"])
    if best is None or last["errors"] < best:
        last["bits"] = lines_bits + _cost(last, rows, best)
    if rng.random() < 0.25:
        rng.choice(lines[2::2])["bits"] += rng.choice((-1, 1))
    return lines


def _cost(line: dict[str, Any], rows: int, best: int | None) -> int:
    """Bits of an answer, without those of its lines."""
    if line["said"] == "failed":
        return grid.failed_bits(best)
    if line["said"] == "no better":
        return grid.NO_BETTER_BITS
    return grid.count_bits(rows, best, line["errors"])


def _answer(line: dict[str, Any], rng: random.Random) -> None:
    """Another answer, with bits that may fit."""
    line["said"] = rng.choice(_SAID)
    line["errors"] = rng.choice((None, rng.randrange(60)))
    line["bits"] = rng.choice((1, 2, 3, 5, 7, 9, rng.randrange(60)))
    if line["said"] != "counted" or line["answer"] != 3:
        line |= {"rates": [], "chosen": None}


def objects_of(looks: bytes) -> list[Any]:
    return [json.loads(line) for line in looks.splitlines()]


def chained(objects: list[Any]) -> bytes:
    """The lines with a running hash that fits them, as someone who alters a ledger would."""
    chain, made = "", b""
    for obj in objects:
        plain = {key: value for key, value in obj.items() if key != "chain"}
        chain = hashlib.sha256(chain.encode() + b"\n" + canonical(plain)).hexdigest()
        made += canonical({**plain, "chain": chain}) + b"\n"
    return made


def _with_old_chains(objects: list[Any]) -> bytes:
    return b"".join(canonical(obj) + b"\n" for obj in objects)
