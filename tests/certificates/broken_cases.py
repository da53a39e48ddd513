"""Files that are not certificates: broken containers, claims and messages outside the format,
bombs.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.certificates import nets
from tests.certificates.case import Case, altered, base, gaussian, sealed, transferred

from cushion.certificates.format.bits import BitWriter
from cushion.certificates.format.claims import assumptions_of
from cushion.certificates.format.container import MAGIC
from cushion.certificates.format.message import encode

ASSUMPTIONS = assumptions_of("occam", holdout=False)
_UNSORTED = [
    "made_with",
    "transfer",
    "holdout",
    "assumptions",
    "ledger",
    "bound",
    "delta",
    "bits",
    "errors",
    "m",
    "data_fingerprint",
    "data",
    "about",
    "kind",
]


def broken_cases() -> Iterator[Case]:
    yield from _container()
    yield from _json()
    yield from _fields()
    yield from _bits()
    yield from _bombs()
    yield from _posteriors()


def _bad(name: str, content: bytes, why: str) -> Case:
    return Case(name, content, "malformed", None, why)


def _container() -> Iterator[Case]:
    plain = base()
    whole = altered(plain)
    claim = len(MAGIC) + 4 + struct.unpack_from("<I", whole, len(MAGIC))[0]
    message = len(whole) - 32
    ends = {
        "nothing": 0,
        "magic": len(MAGIC) - 1,
        "claim-length": len(MAGIC) + 3,
        "before-claim": len(MAGIC) + 4,
        "claim": claim - 1,
        "before-message-length": claim,
        "message-length": claim + 3,
        "before-message": claim + 4,
        "message": message - 1,
        "before-digest": message,
        "digest": len(whole) - 1,
    }
    for name, end in ends.items():
        yield _bad(f"cut-{name}", whole[:end], f"the file ends after {end} bytes")
    yield _bad("trailing-byte", whole + b"\0", "a byte follows the digest")
    yield _bad(
        "digest-wrong", whole[:-1] + bytes([whole[-1] ^ 1]), "one bit of the digest is flipped"
    )
    yield _bad("digest-of-nothing", whole[:-32] + bytes(32), "the digest is zeros")
    yield _bad("magic-wrong", sealed(b"", b"")[1:], "the first byte is missing")
    yield _bad(
        "magic-of-a-later-file", whole.replace(b"cushion1", b"cushion2", 1), "another container"
    )
    for name, at in (("claim", len(MAGIC)), ("message", claim)):
        for size in (2**32 - 1, 2**31, 2**20 + 1):
            changed = whole[:at] + struct.pack("<I", size) + whole[at + 4 :]
            yield _bad(f"{name}-length-{size}", changed, f"the {name} is said to have {size} bytes")
    yield _bad("empty-claim", sealed(b"", plain.message), "no claim")


def _json() -> Iterator[Case]:
    plain = base()
    obj = plain.claim.to_json()
    text = json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    numeral = f'"m":{plain.claim.m},'
    tricks = {
        "spaces": json.dumps(obj, sort_keys=True, ensure_ascii=False),
        "unsorted": json.dumps(
            {key: obj[key] for key in _UNSORTED}, separators=(",", ":"), ensure_ascii=False
        ),
        "key-twice": text.replace(numeral, f'{numeral}"m":7,'),
        "key-twice-the-same": text.replace(numeral, numeral + numeral),
        "key-unknown": text[:-1] + ',"zzz":1}',
        "architecture-with-weights": text.replace(
            '"assumptions"', '"architecture":"4-2 [1,0,-1,0]","assumptions"', 1
        ),
        "float-for-integer": text.replace(numeral, '"m":200.0,'),
        "exponent-for-integer": text.replace(numeral, '"m":2e2,'),
        "boolean-for-integer": text.replace(numeral, '"m":true,'),
        "string-for-integer": text.replace(numeral, '"m":"200",'),
        "null-for-integer": text.replace(numeral, '"m":null,'),
        "huge-integer": text.replace(numeral, f'"m":{"9" * 1000},'),
        "negative-zero": text.replace(numeral, '"m":-0,'),
        "leading-zero": text.replace(numeral, '"m":0200,'),
        "nan": text.replace('"made_with":{}', '"made_with":{"a":NaN}'),
        "infinity": text.replace('"made_with":{}', '"made_with":{"a":Infinity}'),
        "overflowing-float": text.replace('"made_with":{}', '"made_with":{"a":1e999}'),
        "long-float": text.replace('"made_with":{}', '"made_with":{"a":0.10000000000000000555}'),
        "nested-notes": text.replace('"made_with":{}', '"made_with":{"a":{"b":1}}'),
        "deep": text.replace('"made_with":{}', '"made_with":{"a":' + "[" * 1200 + "]" * 1200 + "}"),
        "only-brackets": "[" * 3000,
        "escaped-letter": text.replace('"about"', '"\\u0061bout"'),
        "lone-surrogate": text.replace('"made_with":{}', '"made_with":{"a":"\\ud800"}'),
        "escaped-letter-in-text": text.replace('"data":"halves"', '"data":"h\\u0061lves"'),
        "arabic-digits": text.replace('"delta":"0.05"', '"delta":"٠.٠٥"'),
        "byte-order-mark": "\ufeff" + text,
        "null-byte": text + "\0",
        "list": "[]",
        "empty-object": "{}",
        "string": '"claim"',
    }
    for name, trick in tricks.items():
        assert trick != text, name
        yield _bad(
            f"json-{name}",
            sealed(trick, plain.message),
            "the claim is not the canonical JSON of a claim",
        )
    yield _bad(
        "json-not-utf8",
        sealed(text.encode().replace(b"halves", b"halv\xe9s"), plain.message),
        "not UTF-8",
    )
    yield _bad(
        "json-overlong-utf8",
        sealed(text.encode().replace(b"halves", b"halv\xc1\xa5s"), plain.message),
        "not UTF-8",
    )
    for key in obj:
        kept = {k: v for k, v in obj.items() if k != key}
        short = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        yield _bad(
            f"key-missing-{key.replace('_', '-')}", sealed(short, plain.message), f"no {key}"
        )


def _fields() -> Iterator[Case]:
    plain, held, moved = base(), base(holdout=True), transferred()
    line, f_line = held.claim.holdout, moved.claim.transfer
    assert line is not None
    assert f_line is not None
    changes: dict[str, dict[str, Any]] = {
        "errors-negative": {"errors": -1},
        "errors-beyond-m": {"errors": 201},
        "m-zero": {"m": 0, "errors": 0},
        "m-beyond": {"m": 10**7 + 1},
        "bits-zero": {"bits": 0},
        "bits-beyond": {"bits": 2**22 + 1},
        "bits-one-less": {"bits": plain.claim.bits - 1},
        "bits-one-more": {"bits": plain.claim.bits + 1},
        "bits-a-byte-less": {"bits": plain.claim.bits - 8},
        "delta-zero": {"delta": "0.0"},
        "delta-above-a-half": {"delta": "0.6"},
        "delta-nan": {"delta": "NaN"},
        "delta-exponent": {"delta": "5e-2"},
        "delta-too-long": {"delta": "0.0500000000000000000"},
        "bound-negative": {"bound": "-0.1"},
        "bound-above-one": {"bound": "1.5"},
        "bound-percent": {"bound": "5 %"},
        "bound-newline": {"bound": "0.5\n"},
        "name-with-an-escape": {"data": "halves\x1b[2K"},
        "name-with-a-line": {"data": "halves\nok: all levels hold"},
        "name-with-another-line": {"data": "halves\u2028ok: all levels hold"},
        "name-turned-round": {"data": "\u202eselppa"},
        "name-with-a-control-of-one-byte": {"data": "halves\x9b2K"},
        "fingerprint-short": {"data_fingerprint": "abc"},
        "fingerprint-upper-case": {"data_fingerprint": plain.claim.data_fingerprint.upper()},
        "about-f": {"about": "f"},
        "kind-unknown": {"kind": "guess"},
        "kind-of-another": {"kind": "pac-bayes"},
        "assumptions-none": {"assumptions": ()},
        "assumptions-fewer": {"assumptions": ASSUMPTIONS[:-1]},
        "assumptions-reworded": {"assumptions": ("this bound is unconditional", *ASSUMPTIONS[1:])},
        "assumptions-more": {"assumptions": (*ASSUMPTIONS, "the reader agrees")},
        "assumptions-reordered": {"assumptions": ASSUMPTIONS[::-1]},
    }
    first, second, *rest = plain.claim.ledger
    negative = [
        dataclasses.replace(first, bits=-5),
        dataclasses.replace(second, bits=first.bits + second.bits + 5),
    ]
    changes["ledger-negative"] = {"ledger": (*negative, *rest)}
    for name, change in changes.items():
        yield _bad(name, altered(plain, **change), "a field that the format does not allow")
    for name, change in {
        "delta": {"delta": "0.04"},
        "sample-itself": {"data_fingerprint": held.claim.data_fingerprint},
        "errors": {"errors": line.m + 1},
        "size": {"m": 0, "errors": 0},
        "bound": {"bound": "1e-9"},
    }.items():
        content = altered(held, holdout=dataclasses.replace(line, **change))
        yield _bad(f"holdout-{name}", content, f"a hold-out line whose {name} is not allowed")
    yield _bad(
        "holdout-unassumed",
        altered(held, assumptions=ASSUMPTIONS),
        "a hold-out line without its assumption",
    )
    for name, change in {
        "tolerance-zero": {"tolerance": "0.0"},
        "tolerance-infinite": {"tolerance": "Infinity"},
        "delta-together": {"delta": "0.47"},
        "count": {"disagreements": f_line.m + 1},
        "net-fingerprint": {"net_fingerprint": ""},
        "bound-f": {"bound_f": "1.1"},
        "program-short": {"program": "0" * 63},
        "program-a-number": {"program": 0},
    }.items():
        content = altered(moved, transfer=dataclasses.replace(f_line, **change))
        yield _bad(f"transfer-{name}", content, f"a bound on f whose {name} is not allowed")
    yield _bad(
        "transfer-unassumed",
        altered(moved, assumptions=ASSUMPTIONS),
        "a bound on f without its assumptions",
    )


def _bits() -> Iterator[Case]:
    plain = base()
    encoded = next(
        made for made in map(encode, map(nets.masked, range(9))) if made.bits % 8
    )  # so that it is padded
    text = "".join(f"{byte:08b}" for byte in encoded.data)[: encoded.bits]

    def of(name: str, bits: str, why: str, padding: str = "0") -> Case:
        packed = bits + padding * (-len(bits) % 8)
        data = bytes(int(packed[i : i + 8], 2) for i in range(0, len(packed), 8))
        return _bad(name, altered(plain, data, bits=len(bits)), why)

    yield of("padding-not-zero", text, "the bits that fill the last byte are ones", "1")
    for tail in ("0", "1", "00000000", "1" * 40):
        yield of(
            f"trailing-bits-{len(tail)}-{tail[0]}",
            text + tail,
            "bits behind the end of the message",
        )
    for short in (1, 2, 3, 10):
        yield of(f"bits-cut-{short}", text[:-short], "the message ends too early")
    yield of(
        "end-not-canonical", text[:-1] + str(1 - int(text[-1])), "another end of the coded stream"
    )
    yield of("version-1", "1" + text[3:], "format version 1")
    yield of("version-3", "011" + text[3:], "format version 3")
    yield of("only-zeros", "0" * len(text), "a number without end")
    yield of("only-ones", "1" * len(text), "not a message")
    yield _bad("message-empty", altered(plain, b""), "no message")
    yield _bad(
        "message-a-byte-more",
        altered(plain, plain.message + b"\0"),
        "more bytes than the bits fill",
    )


def written(shape: tuple[int, int, int], *fields: str | int, depth: int = 1) -> tuple[bytes, int]:
    """A header for byte inputs written by hand; text is bits as they stand, numbers are gamma
    words.
    """
    writer = BitWriter()
    for field in (2, *shape, "0", 1, depth, *fields):
        if isinstance(field, int):
            writer.gamma(field)
        else:
            writer.fixed(int(field, 2), len(field))
    return writer.to_bytes(), len(writer)


# Short messages that ask for much: each is refused by a limit before anything of that size is made.
BOMBS = {
    "weights": written((1, 1000, 1000), "00", 900_000, 1, 1, "0"),
    "outputs": written((1, 1, 1), "00", 10**6 + 1, 1, 1, "0"),
    "layers": written((1, 1, 1), "00", 2, 1, 1, "0", depth=100),
    "layers-of-weights": written(
        (1, 1, 1000), *["00", 900, 1, 1, "0", 1] * 3, "00", 2, 1, 1, "0", depth=4
    ),
    "biases": written(
        (1, 1, 1), *["00", 300_000, 1, 1, "1", 1, 1, "00", 1, 1, 1, "0", 1] * 2, depth=5
    ),
    "kernel": written((1, 8, 8), "01", 1, 1024, 1, 1024, 2, "00", 1, 1, "0", 1, depth=2),
    "windows": written(
        (1, 512, 512), "01", 1, 64, 1, 1, 2, "00", 1, 1, "0", 1, "00", 2, 1, 1, "0", depth=2
    ),
    "stride": written((1, 8, 8), "01", 1, 1, 2**30, 1, 2, "00", 1, 1, "0", 1, depth=2),
    "groups": written((3, 8, 8), "01", 3, 1, 1, 1, 3, "00", 1, 1, "0", 1, depth=2),
    "input": written((2**20, 2**20, 2**20), "10", 2**20 - 1, "00", 2, 1, 1, "0", depth=2),
    "input-side": written((2**21, 1, 1), "00", 2, 1, 1, "0"),
    "projection": written((1, 1, 2**18), "00", 2, 4, 1, 257, 1, 1, "0"),
    "projections": written(
        (1, 1, 300), *["00", 300, 4, 1, 500, 1, 1, "0", 1] * 10, "00", 2, 1, 1, "0", depth=11
    ),
    "coefficients": written((1, 1, 2), "00", 2, 4, 1, 10**6, 1, 1, "0"),
    "noise": written((1, 1000, 1000), "00", 2, 5, 1, 2**20, "0"),
    "noise-amplitude": written((1, 1, 2), "00", 2, 5, 1, 2**20 + 1, "0"),
    "mask": written((1, 1000, 1000), "00", 2, 3, 2**32, "0"),
    "seed": written((1, 1, 2), "00", 2, 3, 2**32 + 1, "0"),
    "symmetry": written(
        (1, 400, 400), "01", 1, 400, 400, 1, 2, "11", 1, 1, "0", 1, "00", 2, "0", 1, 1, "0", depth=2
    ),
    "symmetry-of-symmetry": written(
        (1, 1, 1),
        *["01", 300, 1, 1, 1, 2, "11", 1, 1, "0", 1] * 2,
        "00",
        2,
        "0",
        1,
        1,
        "0",
        depth=3,
    ),
    "word": written((1, 1, 1), "0" * 41 + "1"),
    "levels": written((1, 1, 1), "00", 2, 1, 128, "0"),
    "bias-shift": written((1, 1, 1), "00", 2, 1, 1, "1", 60),
    "many-zeros-not-canonical": written((1, 1, 5000), "00", 2, 1, 1, "0", "0" * 20),
}


def _bombs() -> Iterator[Case]:
    plain = base()
    for name, (data, bits) in BOMBS.items():
        yield _bad(
            f"bomb-{name}",
            altered(plain, data, bits=bits),
            "a few bytes that ask for much work or memory",
        )
    yield _bad(
        "notes-of-bytes",
        sealed(b'{"kind":"occam","made_with":"' + bytes(2000) + b'"}', plain.message),
        "raw zeros",
    )


def _posteriors() -> Iterator[Case]:
    plain = gaussian()
    claim, message = plain.claim, plain.message
    front = (claim.header_bits + 7) // 8
    means = np.frombuffer(message, "<i4", 10, front).copy()
    means[0] = 2**20 + 1
    beyond = message[:front] + means.tobytes() + message[front + 40 :]
    ruined = {
        "message-short": (message[:-1], "one variance is missing"),
        "message-long": (message + b"\0", "a byte follows the variances"),
        "mean-beyond": (beyond, "a mean beyond its limit"),
        "variance-beyond": (message[:-1] + b"\x0d", "a variance beyond its limit"),
        "no-numbers": (message[:front], "a header alone"),
    }
    for name, (data, why) in ruined.items():
        yield _bad(f"pac-bayes-{name}", altered(plain, data), why)
    changes: dict[str, dict[str, Any]] = {
        "header-bits": {"header_bits": claim.header_bits - 1},
        "header-beyond": {"header_bits": 2**15 + 1},
        "nats-seven-places": {"kl": claim.kl + "0"},
        "nats-negative": {"kl": "-" + claim.kl},
        "share-as-large-as-delta": {"delta_draws": claim.delta},
        "share-of-the-draws": {
            "delta_draws": "0.02",
            "sample_bound": "1.000000",
            "bound": "1.000000",
        },
        "draws-none": {"draws": 0, "errors": 0},
        "draws-few": {"draws": 99_999, "sample_bound": "1.000000", "bound": "1.000000"},
        "tries-bits-fewer": {"tries_bits": 79},
        "tries-bits-negative": {"tries_bits": -80},
        "draws-beyond": {"draws": 10**7 + 1},
        "errors-beyond": {"errors": claim.draws + 1},
        "about-g": {"about": "g"},
        "assumptions": {"assumptions": claim.assumptions[:-1]},
    }
    for name, change in changes.items():
        yield _bad(
            f"pac-bayes-{name}", altered(plain, **change), "a field that the format does not allow"
        )
