"""Ways to spoil a certificate file, from single bits to well-formed lies with a fitting digest."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cushion.certificates.format.container import MAGIC

_DIGEST = 32
_LENGTHS = (0, 1, 7, 255, 2**16, 2**19, 2**19 + 1, 2**20, 2**20 + 1, 2**31, 2**32 - 1)
_WHOLE = (-1, 0, 1, 2, 199, 10**7, 10**7 + 1, 2**22, 2**31, 2**63, 10**30)
_DECIMAL = re.compile(r"[01]\.[0-9]+")
_NUMBERS: tuple[Any, ...] = (*_WHOLE, 1.0, -0.0, 1e300, True, None)
_PROBABILITIES = ("0.0", "0.5", "1.0", "0.05", "1.5", "NaN", "0.000001", "٠.٥")
_WORDS = ("", "0", "g", "f", "Q", "occam", "pac-bayes", "\x1b[2J", *_PROBABILITIES)


@dataclass(frozen=True)
class Parts:
    """A file taken apart: the claim's bytes and the message."""

    claim: bytes
    message: bytes

    @classmethod
    def of(cls, content: bytes) -> Parts:
        (n,) = struct.unpack_from("<I", content, len(MAGIC))
        start = len(MAGIC) + 4
        return cls(content[start : start + n], content[start + n + 4 : -_DIGEST])

    def seal(self) -> bytes:
        """The file of these parts, with lengths and digest that fit."""
        body = MAGIC + struct.pack("<I", len(self.claim)) + self.claim
        body += struct.pack("<I", len(self.message)) + self.message
        return body + hashlib.sha256(body).digest()


def canonical(obj: Any) -> bytes:
    """Canonical JSON, where the values allow it."""
    text = json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def reseal(content: bytes) -> bytes:
    return content[:-_DIGEST] + hashlib.sha256(content[:-_DIGEST]).digest()


def mutate(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One mutant of a file; what its message is decides how that is spoilt."""
    kind = json.loads(Parts.of(content).claim)["kind"]
    ways = tuple(_MESSAGES.get(kind, way) if way is _message_bits else way for way in _KINDS)
    return rng.choices(ways, _WEIGHTS)[0](content, others, rng)


def edit(data: bytes, rng: random.Random, others: bytes = b"") -> bytes:
    """A few edits of bytes: flips, changes, cuts, insertions, repetitions, splices."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(spoilt) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(spoilt):
            spoilt[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(spoilt):
            spoilt[at] = rng.randrange(256)
        elif kind == 2:
            del spoilt[at : at + rng.choice((1, 1, 2, 4, 50))]
        elif kind == 3:
            spoilt[at:at] = rng.randbytes(rng.choice((1, 1, 2, 4, 50)))
        elif kind == 4:
            end = min(len(spoilt), at + rng.randrange(1, 40))
            spoilt[at:at] = spoilt[at:end]
        elif others:
            first = rng.randrange(len(others))
            piece = others[first : first + rng.randrange(1, 60)]
            spoilt[at : at + len(piece)] = piece
    return bytes(spoilt)


def _raw(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    return edit(content, rng, rng.choice(others))


def _raw_sealed(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    return reseal(edit(content, rng, rng.choice(others)) or content)


def _lengths(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    parts = Parts.of(content)
    at = len(MAGIC) if rng.random() < 0.5 else len(MAGIC) + 4 + len(parts.claim)
    (old,) = struct.unpack_from("<I", content, at)
    new = rng.choice((*_LENGTHS, max(0, old + rng.randrange(-9, 10))))
    changed = content[:at] + struct.pack("<I", new) + content[at + 4 :]
    return reseal(changed) if rng.random() < 0.8 else changed


def _claim_text(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    parts = Parts.of(content)
    return Parts(edit(parts.claim, rng, Parts.of(rng.choice(others)).claim), parts.message).seal()


def _places(obj: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside."""
    found = []
    keys = list(obj) if isinstance(obj, dict) else range(len(obj)) if isinstance(obj, list) else []
    for key in keys:
        found.append((obj, key))
        found.extend(_places(obj[key]))
    return found


def other_value(old: Any, other: Any, rng: random.Random) -> Any:
    kind = rng.randrange(6)
    if type(old) is int and kind < 4:
        return (
            old + rng.choice((-100, -10, -2, -1, 1, 2, 10, 100))
            if kind < 3
            else rng.choice(_NUMBERS)
        )
    if isinstance(old, str) and kind < 4 and _DECIMAL.fullmatch(old):
        millionths = round(float(old) * 10**6) + rng.choice((-1000, -2, -1, 1, 2, 1000))
        return f"{max(0, millionths) / 10**6:.6f}"
    if isinstance(old, str) and kind < 5 and old:
        at = rng.randrange(len(old))
        return (
            old[:at]
            + chr(rng.choice((48, 49, 97, 0x20AC, 0x1F600, 0xD800, 27)))
            + old[at + rng.randrange(2) :]
        )
    return rng.choice((other, rng.choice(_NUMBERS), rng.choice(_WORDS), [], {}, [old], {"a": old}))


def _claim_values(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    parts = Parts.of(content)
    obj, other = json.loads(parts.claim), json.loads(Parts.of(rng.choice(others)).claim)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = _places(obj)
        top = [place for place in places if place[0] is obj]
        holder, key = rng.choice(top if rng.random() < 0.5 else places)
        deed = rng.randrange(10)
        if deed == 0:
            del holder[key]
        elif deed == 1 and isinstance(holder, list):
            holder.insert(key, holder[key])
        elif deed == 1:
            holder[rng.choice(_WORDS) or "x"] = holder[key]
        elif deed == 2 and holder is obj and key in other:
            holder[key] = other[key]
        else:
            holder[key] = other_value(
                holder[key], other.get(key) if isinstance(key, str) else None, rng
            )
    return Parts(canonical(obj), parts.message).seal()


def bits_of(message: bytes, bits: int) -> list[int]:
    return [message[i >> 3] >> (7 - i % 8) & 1 for i in range(bits)]


def bytes_of(bits: list[int]) -> bytes:
    padded = bits + [0] * (-len(bits) % 8)
    return bytes(
        sum(bit << (7 - i) for i, bit in enumerate(padded[at : at + 8]))
        for at in range(0, len(padded), 8)
    )


def spoil_bits(bits: list[int], rng: random.Random, *, header: bool) -> list[int]:
    """Flips, cuts and insertions of bits, near the front where `header` says so."""
    spoilt = list(bits)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(1 + (min(len(spoilt), 60) if header else len(spoilt)))
        kind = rng.randrange(4)
        if kind < 2 and at < len(spoilt):
            spoilt[at] ^= 1
        elif kind == 2:
            spoilt[at:at] = [rng.randrange(2) for _ in range(rng.choice((1, 1, 2, 8)))]
        else:
            del spoilt[at : at + rng.choice((1, 1, 2, 8))]
    return spoilt


def _message_bits(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    """Another message with its own length stated; the posterior's numbers behind its header
    stay.
    """
    parts = Parts.of(content)
    obj = json.loads(parts.claim)
    key = "bits" if obj["kind"] == "occam" else "header_bits"
    front = (obj[key] + 7) // 8
    bits = spoil_bits(bits_of(parts.message, obj[key]), rng, header=rng.random() < 0.6)
    obj[key] = len(bits)
    tail = parts.message[front:]
    if tail and rng.random() < 0.5:
        tail = edit(tail, rng)
    return Parts(canonical(obj), bytes_of(bits) + tail).seal()


def spoil_rows(rows: list[int], m: int, rng: random.Random) -> list[int]:
    """Row numbers of a sample of m: swapped, repeated, dropped, added, put elsewhere, sorted."""
    spoilt = list(rows)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(spoilt) + 1)
        other = rng.randrange(len(spoilt) + 1)
        kind = rng.randrange(7)
        row = rng.choice((rng.randrange(m), rng.randrange(m), m - 1, m, 2**31, 2**32 - 1))
        if kind == 0:
            spoilt.insert(at, row)
        elif kind == 1:
            del spoilt[at : at + rng.choice((1, 1, 2, 8))]
        elif kind == 2:
            spoilt[at : at + 1] = [row]
        elif kind == 3 and max(at, other) < len(spoilt):
            spoilt[at], spoilt[other] = spoilt[other], spoilt[at]
        elif kind == 4:
            spoilt[at:at] = spoilt[at : at + 1]
        elif kind == 5:
            first, last = sorted((at, other))
            spoilt[first:last] = sorted(spoilt[first:last])
        elif at < len(spoilt):
            spoilt.insert(other, spoilt.pop(at))
    return spoilt


def row_bytes(rows: list[int]) -> bytes:
    return struct.pack(f"<{len(rows)}I", *rows)


def _message_rows(content: bytes, _: list[bytes], rng: random.Random) -> bytes:
    """Other rows of a certificate of kind picks, with their counts adapted in most."""
    parts = Parts.of(content)
    obj = json.loads(parts.claim)
    words = list(struct.unpack(f"<{len(parts.message) // 4}I", parts.message))
    lists = {"picks": words[: obj["picks"]], "errors": words[obj["picks"] :]}
    key = rng.choice(("picks", "errors"))
    lists[key] = spoil_rows(lists[key], obj["m"], rng)
    if key == "errors" and rng.random() < 0.7:
        lists[key].sort()
    if rng.random() < 0.8:
        obj |= {name: len(rows) for name, rows in lists.items()}
        for item in obj["ledger"]:
            item["count"] = obj[item["item"]] if rng.random() < 0.95 else item["count"]
    message = row_bytes([*lists["picks"], *lists["errors"]])
    if rng.random() < 0.1:
        message = message[: rng.randrange(len(message) + 1)]
    return Parts(canonical(obj), message).seal()


def _message_none(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A certificate that has no message: its claim is changed instead, or it gets one."""
    if rng.random() < 0.9:
        return _claim_values(content, others, rng)
    return Parts(Parts.of(content).claim, rng.randbytes(rng.choice((1, 4, 60)))).seal()


def _swapped(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    return Parts(Parts.of(content).claim, Parts.of(rng.choice(others)).message).seal()


Mutation = Callable[[bytes, list[bytes], random.Random], bytes]
_KINDS: tuple[Mutation, ...] = (
    _raw,
    _raw_sealed,
    _lengths,
    _claim_text,
    _claim_values,
    _message_bits,
    _swapped,
)
_MESSAGES: dict[str, Mutation] = {"picks": _message_rows, "holdout": _message_none}
_WEIGHTS = (2, 2, 1, 2, 8, 8, 1)
