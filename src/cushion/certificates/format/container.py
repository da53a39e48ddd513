"""The certificate file: magic, claim (canonical JSON), message, a sha256 digest of all of it."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

from cushion.certificates.format.claims import Claim, read_claim
from cushion.errors import Malformed

MAGIC = b"\x89cushion1\n"
_LENGTH = struct.Struct("<I")
_DIGEST = 32
_MOST_CLAIM = 2**20
_MOST_MESSAGE = {"occam": 2**19, "pac-bayes": 2**19, "picks": 2**24, "holdout": 0}


def pack(claim: Claim, message: bytes) -> bytes:
    """The bytes of a certificate file."""
    text = _canonical(claim.to_json())
    body = MAGIC + _LENGTH.pack(len(text)) + text + _LENGTH.pack(len(message)) + message
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes) -> tuple[Claim, bytes]:
    """Claim and message of a certificate file; Malformed unless every byte is accounted for."""
    if not data.startswith(MAGIC):
        raise Malformed("this is not a certificate file (its first bytes are wrong)", 0)
    text, position = _block(data, len(MAGIC), _MOST_CLAIM, "claim")
    message, position = _block(data, position, max(_MOST_MESSAGE.values()), "message")
    if len(data) != position + _DIGEST:
        raise Malformed(f"the digest has {_DIGEST} bytes, not {len(data) - position}", position)
    if hashlib.sha256(data[:position]).digest() != data[position:]:
        raise Malformed("the digest does not fit the file: it was damaged or altered", position)
    try:
        obj = json.loads(text.decode("utf-8"))
        canonical = _canonical(obj) == text
    except (ValueError, RecursionError):
        raise Malformed("the claim is not JSON", len(MAGIC)) from None
    if not canonical:  # also catches repeated keys, odd spacing and odd numbers
        raise Malformed("the claim is not in canonical form", len(MAGIC))
    claim = read_claim(obj)
    if len(message) > _MOST_MESSAGE[claim.kind]:
        fault = f"a message of {len(message)} bytes is too long for a certificate of its kind"
        raise Malformed(fault, len(MAGIC))
    return claim, message


def _canonical(obj: Any) -> bytes:
    return json.dumps(
        obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def _block(data: bytes, position: int, most: int, what: str) -> tuple[bytes, int]:
    start = position + _LENGTH.size
    if len(data) < start:
        raise Malformed(f"the file ends before its {what}", position)
    (length,) = _LENGTH.unpack_from(data, position)
    if length > most or len(data) < start + length:
        raise Malformed(f"the {what}'s length of {length} bytes does not fit the file", position)
    return data[start : start + length], start + length
