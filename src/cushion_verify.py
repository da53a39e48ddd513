"""Checks certificate files: python cushion_verify.py FILE --x X.npy --y Y.npy

This one file is the whole verifier. It needs Python 3.11 and numpy, imports nothing of the program
that makes certificates, and believes nothing but the file's bytes and the arrays it is given.
FORMAT.md says in words what this file says in code; the section is named where each part begins.

A certificate is *malformed* (its bytes break the format: Malformed), or it gets a Verdict: the
highest of three levels that hold, and ok if all do.

- arithmetic: the stated counts imply the stated bounds;
- message: the bytes decode strictly, to the last bit, and cost what the ledger says;
- replay: what they decode to, run exactly on data with the stated fingerprint, makes the stated
  errors.

Every tail is computed in decimals rounded to the safe side, every net in whole numbers. Each kind
of certificate is a class with the methods of `Kind`, and stands in KINDS.
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
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

if __name__ == "__main__" or Path(sys.argv[0]).stem == "cushion-verify":
    # Two threads of ours, and one each for the matrix library: its own wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

Array = NDArray[Any]
Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]  # (batches done, batches in all)


class BadInput(Exception):
    """What was given cannot be used as it is; one sentence that says what to do."""


class Malformed(Exception):
    """The bytes are not a certificate of the format."""


# ---- the file: container and canonical JSON (FORMAT.md, section 1)

MAGIC = b"\x89cushion1\n"
_MOST_FILE = 2**25
_MOST_CLAIM = 2**20
_MOST_DIGITS = 4300


def read_file(path: str | Path) -> bytes:
    """The bytes of a plain file, not more than any certificate has."""
    if not isinstance(path, (str, Path)):
        raise BadInput(f"give the path of a certificate file, not a {type(path).__name__}")
    try:
        # a pipe that nobody writes to would be waited for
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path}: cannot be read (no plain file); name a certificate")
        with open(path, "rb") as file:
            content = file.read(_MOST_FILE + 1)
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror}); name a certificate") from None
    except ValueError:
        raise BadInput(f"{str(path)!r} cannot be the name of a file") from None
    if len(content) > _MOST_FILE:
        raise Malformed("longer than any certificate file")
    return content


def unpack(content: bytes) -> tuple[Any, bytes]:
    """The claim and the message of a certificate file; Malformed unless every byte is used."""
    if not content.startswith(MAGIC):
        raise Malformed("this is not a certificate file (its first bytes are wrong)")
    text, place = _block(content, len(MAGIC), _MOST_CLAIM, "claim")
    message, place = _block(content, place, max(k.MOST_MESSAGE for k in KINDS.values()), "message")
    if len(content) != place + 32:
        raise Malformed(f"the digest has 32 bytes, not {len(content) - place}")
    if hashlib.sha256(content[:place]).digest() != content[place:]:
        raise Malformed("the digest does not fit the file: it was damaged or altered")
    try:
        obj = json.loads(text.decode("utf-8"), parse_int=_short_whole)
        again = canonical(obj)
    except (ValueError, RecursionError):
        raise Malformed("the claim is not JSON") from None
    if again != text:  # repeated keys, odd spacing, odd numbers
        raise Malformed("the claim is not in canonical form")
    kind = obj.get("kind") if isinstance(obj, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Malformed(f"the claim must be an object whose kind is one of {', '.join(KINDS)}")
    if len(message) > KINDS[kind].MOST_MESSAGE:
        raise Malformed(f"a message of {len(message)} bytes is too long for its kind")
    return record(KINDS[kind].FIELDS, KINDS[kind].ABSENT)(obj, "the claim"), message


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


def _short_whole(text: str) -> int:
    if len(text.lstrip("-")) > _MOST_DIGITS:
        raise ValueError("too long")
    return int(text)


# ---- strict fields: a reader takes (value, what it is called) and returns it, or says Malformed

Reader = Callable[[Any, str], Any]
# Steer a terminal or reorder its text: controls, line and paragraph separators, bidirectional
# controls, halves of surrogate pairs. No table of any version of Unicode is needed.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_DECIMAL = re.compile(r"0\.[0-9]{1,18}|1\.0{1,18}", re.ASCII)


def whole(least: int, most: int) -> Reader:
    """A whole number in least..most (true and false are none)."""

    def read(value: Any, what: str) -> Any:
        if type(value) is not int or not least <= value <= most:
            raise Malformed(f"{what} must be a whole number from {least} to {most}")
        return value

    return read


def text(value: Any, what: str) -> Any:
    """Any string: it is never shown."""
    if type(value) is not str:
        raise Malformed(f"{what} must be a string")
    return value


def printable(value: Any, what: str) -> Any:
    """A string that may be shown (section 2)."""
    if _UNPRINTABLE.search(text(value, what)):
        raise Malformed(f"{what} must be printable")
    return value


def matching(pattern: str, form: str, *, positive: bool = False) -> Reader:
    """A string of this form, as it stands in the file."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: Any, what: str) -> Any:
        if not compiled.fullmatch(text(value, what)) or (positive and not Decimal(value) > 0):
            raise Malformed(f"{what} must be {form}")
        return value

    return read


fingerprint = matching("[0-9a-f]{64}", "64 lower-case hexadecimal digits")
probability = matching(_DECIMAL.pattern, "a plain decimal from 0 to 1, such as 0.05")
nats = matching(r"(0|[1-9][0-9]{0,8})\.[0-9]{6}", "a plain decimal with six places")
tolerance = matching(
    r"(0|[1-9][0-9]{0,17})\.[0-9]{1,18}", "a plain decimal above 0, such as 0.001", positive=True
)


def failure(value: Any, what: str) -> Any:
    """A decimal above 0 and at most 0.5."""
    if not 0 < Decimal(probability(value, what)) <= Decimal("0.5"):
        raise Malformed(f"{what} = {value} must be above 0 and at most 0.5")
    return value


def exactly(wanted: object) -> Reader:
    """This very value."""

    def read(value: Any, what: str) -> Any:
        if type(value) is not type(wanted) or value != wanted:
            raise Malformed(f"{what} must be {wanted!r}")
        return value

    return read


def maybe(reader: Reader) -> Reader:
    """null, or what the reader takes."""
    return lambda value, what: None if value is None else reader(value, what)


def listed(reader: Reader) -> Reader:
    """A list of what the reader takes, as a tuple."""

    def read(value: Any, what: str) -> Any:
        if type(value) is not list:
            raise Malformed(f"{what} must be a list")
        return tuple(reader(part, f"each part of {what}") for part in value)

    return read


def record(fields: dict[str, Reader], absent: dict[str, Any] | None = None) -> Reader:
    """An object with exactly these keys, as attributes; absent: values of keys that may be left
    out.
    """
    free = absent or {}

    def read(value: Any, what: str) -> Any:
        if type(value) is not dict or not fields.keys() - free <= value.keys() <= fields.keys():
            raise Malformed(f"{what} must be an object with exactly the keys {', '.join(fields)}")
        found = {key: fields[key](part, f"{what}'s {key}") for key, part in value.items()}
        return SimpleNamespace(**{**free, **found})

    return read


def notes(value: Any, what: str) -> Any:
    """Plain values under any names; the verifier ignores them."""
    if type(value) is not dict or any(isinstance(part, dict | list) for part in value.values()):
        raise Malformed(f"{what} must be an object of plain values")
    return value


MOST_ROWS = 10**7
MOST_BITS = 2**22
HOLDOUT: dict[str, Reader] = {
    "data_fingerprint": fingerprint,
    "errors": whole(0, MOST_ROWS),
    "m": whole(1, MOST_ROWS),
    "delta": failure,
    "bound": probability,
}
# what the claims of every kind have; "kind", "about" and "ledger" are each kind's own
COMMON: dict[str, Reader] = {
    "data": printable,
    "data_fingerprint": fingerprint,
    "m": whole(1, MOST_ROWS),
    "errors": whole(0, MOST_ROWS),
    "delta": failure,
    "bound": probability,
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


# ---- exact arithmetic: 60 digits, every operation rounded to the side that it names (section 2)

UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SCALE = 10**18  # a stated decimal is a whole number of these


def bound_holds(
    errors: int,
    m: int,
    bits: int,
    delta: Decimal | str,
    bound: str,
    less: Decimal = Decimal(0),
) -> bool:
    """Is P[Bin(m, bound - less) ≤ errors] ≤ δ·2^-bits, or bound = 1?

    The tail falls as p rises, so then every larger p is excluded at that level. At or below
    errors/m the tail is at least 1/2 (errors is at least a median): never enough for δ ≤ 1/2.
    """
    if Decimal(bound) == 1:
        return True
    p = math.floor(DOWN.scaleb(DOWN.subtract(Decimal(bound), less), 18))
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


def exact_sum(*parts: str) -> Decimal:
    """Of decimals with at most 18 places: exact."""
    return sum((Decimal(part) for part in parts), Decimal(0))


def percent(share: Decimal | str) -> str:
    """A probability in per cent, rounded up to two places."""
    scaled = UP.multiply(Decimal(share), 100)
    return f"{UP.quantize(scaled, Decimal('0.01')):f} %"


def spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")


# ---- the data that a sceptic has: identity and freshness (sections 5 and 6)


@dataclass(frozen=True, eq=False)
class Given:
    """Plain arrays; None where there is nothing.

    x, y: the sample. holdout_x, holdout_y: held-out examples. unlabelled: inputs. answers: [n,
    classes] scores of f on the unlabelled inputs; holdout_answers: on the held-out examples.
    features: of the sample, where a backbone makes them. looks: a hold-out's ledger of looks. net,
    program: fingerprints of f, where the caller computed them.
    """

    x: Array | None = None
    y: Array | None = None
    holdout_x: Array | None = None
    holdout_y: Array | None = None
    unlabelled: Array | None = None
    answers: Array | None = None
    holdout_answers: Array | None = None
    features: Array | None = None
    looks: bytes | None = None
    net: str | None = None
    program: str | None = None


def fingerprint_arrays(tag: str, *arrays: Array) -> str:
    """sha256 of a tag, then of each array's type and shape and its values in C order."""
    digest = hashlib.sha256(f"{tag}\n".encode())
    for array in arrays:
        little = array.dtype.newbyteorder("<")
        digest.update(f"{_type_name(little)} {','.join(map(str, array.shape))}\n".encode())
        for rows in blocks(len(array), array[:1].nbytes):
            digest.update(np.ascontiguousarray(array[rows], dtype=little).tobytes())
    return digest.hexdigest()


def _type_name(kind: np.dtype[Any]) -> str:
    """numpy's name; of a row with named parts their list [[name, type, sides], ...] as JSON."""
    if kind.names is None:
        return kind.str
    parts = [(name, *(kind[name].subdtype or (kind[name], ()))) for name in kind.names]
    return json.dumps([[name, base.str, list(sides)] for name, base, sides in parts])


def blocks(rows: int, each: int, most: int = 2**24) -> Iterator[slice]:
    """Slices of so many rows, each slice at most about `most` bytes."""
    step = max(1, most // max(1, each))
    return (slice(start, start + step) for start in range(0, rows, step))


def identity_fault(stated: Any, what: str, x: Array, y: Array | None = None) -> str:
    """Why these rows are not those stated (its m and data_fingerprint); empty if they are."""
    if len(x) != stated.m:
        return f"the certificate is about {stated.m} {what}, and {len(x)} were given"
    parts = ("cushion-inputs-1", x) if y is None else ("cushion-data-1", x, y)
    if fingerprint_arrays(*parts) != stated.data_fingerprint:
        return f"these are not the {what} that the certificate is about (their fingerprints differ)"
    return ""


# ---- freshness: whether rows can be new draws beside the sample's (section 6)

_PULLS = (Decimal("0.999"), *(Decimal(1) / 2**k for k in range(1, 11)))


def freshness_fault(rows: Array, sample: Array, reading: Callable[[Array], Array] | None) -> str:
    """Why the rows cannot be fresh beside the sample's, as the end of a sentence; else empty.

    reading: how the net of the message reads rows; what it cannot tell apart counts as equal.
    """
    if rows.dtype != sample.dtype:
        return ""
    readings: list[Callable[[Array], Array]] = [lambda x: x]
    if rows.dtype == np.uint8:
        readings += [lambda x, s=s: x >> s for s in (1, 2, 4)]  # type: ignore[misc]
    different = 0
    for place, read in enumerate([*readings, *([reading] if reading else [])]):
        given, known = digests(rows, read), digests(sample, read)
        theirs, ours = Counter(given), Counter(known)
        different = different or len(ours)
        shared = sum(count for row, count in theirs.items() if row in ours)
        often = Counter(ours.values())
        merged = 8 * len(ours) < 7 * different
        if shared and (
            (place == 0 and (max(often) == 1 or given == known))
            or not _by_chance(shared, len(rows), len(sample), often)
            or (2 * shared > len(rows) and not merged)
            or (len(ours) >= 10 and theirs == ours)
            or _copied(often)
        ):
            as_read = "" if place == 0 else ", but for details that hardly matter,"
            return f"{shared} of the {len(rows)} are{as_read} rows of the sample itself"
    return ""


def digests(x: Array, read: Callable[[Array], Array]) -> list[bytes]:
    """Of each row as it is read; the shape of a row does not matter."""
    return [
        hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        for rows in blocks(len(x), x[:1].nbytes)
        for row in read(np.asarray(x[rows]))
    ]


def _by_chance(shared: int, n: int, m: int, often: Counter[int]) -> bool:
    """Whether n draws meet so many rows of the sample by chance: Good and Turing's share, three or
    four deviations, and a few rows.
    """
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


def repeated_rows(x: Array, y: Integers) -> str:
    """A warning if rows occur more than once, labels included."""
    again = len(x) - len(set(zip(digests(x, lambda rows: rows), y.tolist(), strict=True)))
    if not again:
        return ""
    return (
        f"{spaced(again)} of the {spaced(len(x))} examples repeat earlier ones, labels included; "
        "the bound is about independent draws, and false if rows were copied"
    )


def contradiction(errors: int, m: int, bound: str) -> bool:
    """Whether so many errors have a chance below 1/1000 where the true error is the bound."""
    p = int(UP.scaleb(Decimal(bound), 18))
    if errors * _SCALE <= p * m:
        return False
    return tail(m - errors, m, _SCALE - p) < Decimal("0.001")


# ---- verdicts


@dataclass(eq=False)
class Verdict:
    """What was found. claim: the file's, as attributes; its decimals are strings, as stated.

    replayed: which counts were recounted and confirmed, of "sample", "holdout", "transfer". given:
    what was taken as given and not recomputed. conditional: what the verdict hangs on. warnings:
    what speaks against the statement without refuting it. subject: of the claim, in words.
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

    def to_json(self) -> dict[str, Any]:
        """Numbers that were not replayed are null, and stand under claimed_..."""
        claim, f = self.claim, getattr(self.claim, "transfer", None)
        obj = {key: getattr(self, key) for key in ("ok", "level", "reason")}
        obj |= {"kind": claim.kind, "about": claim.about, "data": claim.data}
        stated = {key: part for key, part in vars(claim).items() if key not in _NO_NUMBERS}
        names = [key for key in ("holdout", "transfer", "look") if hasattr(claim, key)]
        lines = {key: getattr(claim, key) for key in names}
        if f is not None:
            lines["bound_f"] = f.bound_f
        for key, part in {**stated, **lines}.items():
            line = {"bound_f": "transfer"}.get(key, key)
            sure = self.confirmed(line) if key in lines else self.ok
            value = as_json(part)
            obj |= {key: value if sure else None}
            if value is not None and not sure:
                obj[f"claimed_{key}"] = value
        if f is not None and self.confirmed("transfer"):
            obj |= {"about": "f", "bound_g": obj["bound"], "bound": obj["bound_f"]}
            obj |= {"delta_g": obj["delta"], "delta": float_up(exact_sum(claim.delta, f.delta))}
        obj["vacuous"] = obj["bound"] == 1
        obj["replayed"] = sorted(self.replayed) if self.ok else []
        obj |= {key: getattr(self, key) for key in ("given", "conditional", "warnings")}
        return obj | {"assumptions": list(claim.assumptions)}

    def lines(self) -> list[str]:
        """The answer in words, at most about ten lines."""
        if not self.ok:
            said = [f"NOT OK: {self.reason}", f"highest level that holds: {self.level}"]
            if "sample" in self.replayed:
                said.append("The errors on the sample were recounted and are as stated.")
            return said
        conditions = f", on condition that {'; '.join(self.conditional)}" * bool(self.conditional)
        said = [f"ok: arithmetic, message and replay all hold{conditions}", *self.statement()]
        if self.given:
            said.append(f"Given, not recomputed: {', '.join(self.given)}.")
        said += [f"Warning: {warning}." for warning in self.warnings]
        return [*said, f"Assumed, as nobody can check it: {'; '.join(self.claim.assumptions)}."]

    def statement(self) -> list[str]:
        """What is proved, and what is claimed beyond it, sentence by sentence."""
        claim, (who, counted) = self.claim, self.subject
        f, line = getattr(claim, "transfer", None), claim.holdout
        over = f"over the draw of these {spaced(claim.m)} examples"
        said = [_bounded(over, who, claim.bound, claim.delta), counted]
        if f is not None:
            over = f"{over} and of {spaced(f.m)} unlabelled inputs"
            about_f = _bounded(over, "f", f.bound_f, claim.delta, f.delta)
            apart = f"f and g disagree on {spaced(f.disagreements)} of the inputs."
            if self.confirmed("transfer"):
                said = [about_f, apart, *said]
            else:
                said.append(f"Claimed, NOT checked (needs f's answers): {about_f} {apart}")
        if line is not None:
            bound = f"{spaced(line.errors)} errors on {spaced(line.m)} held-out examples bound "
            bound += f"{claim.about}'s error by {percent(line.bound)} (δ = {line.delta})."
            how = "recounted" if self.confirmed("holdout") else "claimed, NOT recounted"
            said.append(f"Hold-out, {how}: {bound}")
        return said

    def warn(self, sentence: str) -> None:
        self.warnings += [sentence] * bool(sentence)


# of a claim: what is no number, or stands elsewhere in a verdict
_NO_NUMBERS = {"kind", "about", "data", "ledger", "assumptions", "made_with"}
_NO_NUMBERS |= {"holdout", "transfer", "look"}


def _bounded(over: str, who: str, bound: str, *deltas: str) -> str:
    if Decimal(bound) == 1:
        return f"Vacuous: nothing is proved about new examples of {who.split(',')[0]}."
    sure = f"{((1 - exact_sum(*deltas)) * 100).normalize():f} %"
    return f"With probability {sure} {over}, {who} errs on at most {percent(bound)} of new ones."


def float_up(value: Decimal | str) -> float:
    """The nearest float that is not below a decimal."""
    found = float(value)
    return found if Decimal(found) >= Decimal(value) else math.nextafter(found, math.inf)


def as_json(part: Any) -> Any:
    """A claim's part; decimals become floats, rounded up."""
    if isinstance(part, SimpleNamespace):
        return {key: as_json(value) for key, value in vars(part).items()}
    if isinstance(part, tuple):
        return [as_json(value) for value in part]
    plain = isinstance(part, str) and re.fullmatch(r"[0-9]+\.[0-9]+", part)
    return float_up(part) if plain else part


class Kind:
    """One kind of certificate. Made from a claim whose fields were read, and its message; Malformed
    unless both are of the format.
    """

    FIELDS: ClassVar[dict[str, Reader]]
    ABSENT: ClassVar[dict[str, Any]] = {}  # values of keys that older files do not have
    MOST_MESSAGE: ClassVar[int] = 2**19
    claim: Any

    def __init__(self, claim: Any, message: bytes) -> None:
        raise NotImplementedError

    def arithmetic_fault(self) -> str:
        """Why the stated counts do not imply the stated bounds; empty if they do."""
        raise NotImplementedError

    def message_fault(self) -> str:
        """Why the message does not cost or say what is stated; empty if it does."""
        raise NotImplementedError

    def effort(self, given: Given) -> int:
        """How long the replay takes, in multiplications."""
        raise NotImplementedError

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:
        """Why the data do not confirm the counts; empty if they do. Notes in the verdict which were
        recounted, and what else it found.
        """
        raise NotImplementedError

    def subject(self) -> tuple[str, str]:
        """In words: what the bound is about, and what was counted on the sample."""
        raise NotImplementedError


MOST_EFFORT = 2**39  # half a minute to some minutes on one core; a small file can ask for hours


def check(
    path: str | Path,
    given: Given | None = None,
    *,
    slow: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """The verdict on the certificate at `path`. Raises BadInput or Malformed.

    Without a sample it stops at level "message" and is not ok. What takes longer than some minutes
    is refused unless `slow`.
    """
    given = _usable(given or Given())
    content = read_file(path)
    try:
        claim, message = unpack(content)
        kind = KINDS[claim.kind](claim, message)
    except Malformed as problem:
        raise Malformed(f"{path}: {problem}") from None
    verdict = Verdict(claim, kind.subject())
    if reason := kind.arithmetic_fault():
        verdict.reason = reason
    elif reason := kind.message_fault():
        verdict.level, verdict.reason = "arithmetic", reason
    elif given.x is None:
        verdict.level = "message"
        verdict.reason = "the error count was not replayed: no data was given"
    else:
        if (effort := kind.effort(given)) > MOST_EFFORT and not slow:
            raise BadInput(
                f"replaying this certificate takes about {effort / MOST_EFFORT:.0f} times the few "
                "minutes that verify takes unasked; add `slow` to do it all the same"
            )
        verdict.reason = kind.replay(given, verdict, progress or (lambda *_: None))
        verdict.level = "message" if verdict.reason else "replay"
        verdict.ok = not verdict.reason
    if (line := claim.holdout) is not None and contradiction(line.errors, line.m, claim.bound):
        verdict.warn(
            f"{line.errors} errors on {line.m} held-out examples contradict the bound of "
            f"{percent(claim.bound)}: less than one chance in a thousand"
        )
    return verdict


def _usable(given: Given) -> Given:
    """The same with labels as 64-bit whole numbers; BadInput for arrays that are no examples."""
    labels = {}
    for x, y in (("x", "y"), ("holdout_x", "holdout_y"), ("unlabelled", "")):
        rows, marks = getattr(given, x), getattr(given, y, None)
        if y and (rows is None) != (marks is None):
            raise BadInput(f"give both {x} and {y}, or neither")
        if rows is not None and not (rows.ndim and rows.size):
            raise BadInput(f"{x} must have a row for each example, and at least one")
        if marks is None:
            continue
        if marks.dtype.kind not in "iu" or marks.shape != (len(rows),) or marks.min() < 0:
            raise BadInput(f"{y} must be a whole number from 0 for each of the {len(rows)} rows")
        labels[y] = marks.astype(np.int64)
    return replace(given, **labels)


# ---- the message of a net: header, then one arithmetic-coded stream (section 3)


class Bits:
    """The bits of a message, most significant first; those that fill the last byte are zero."""

    def __init__(self, data: bytes, length: int) -> None:
        if len(data) != (length + 7) // 8:
            raise Malformed(f"{length} bits fill {(length + 7) // 8} bytes, not {len(data)}")
        if length % 8 and data[-1] & ((1 << (-length % 8)) - 1):
            raise Malformed("the bits that pad the message to a whole byte must be zero")
        self.bits = np.unpackbits(np.frombuffer(data, np.uint8), count=length).tobytes()
        self.position = 0

    def take(self, width: int) -> int:
        """A number of so many bits."""
        if self.position + width > len(self.bits):
            raise Malformed("the message ends too early")
        value = 0
        for bit in self.bits[self.position : self.position + width]:
            value = value << 1 | bit
        self.position += width
        return value

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
    """Binary decisions of the coded stream behind a header."""

    def __init__(self, bits: Bits) -> None:
        self._bits, self._next = bits.bits, bits.position
        self._low, self._high, self._code, self._pending, self._left = 0, 2**32 - 1, 0, 0, 4 * 10**6
        self.doublings = 0  # of the interval: each one settles a bit
        self._begin = bits.position
        for _ in range(32):
            self._code = self._code << 1 | self._bit()

    def _bit(self) -> int:
        place = self._next
        self._next += 1
        return self._bits[place] if place < len(self._bits) else 0

    def decide(self, context: list[int]) -> int:
        """context: [zero, total], which learns the decision."""
        self._left -= 1
        if self._left < 0:
            raise Malformed("more decisions than the format allows")
        low, high, code = self._low, self._high, self._code
        split = low + (high - low + 1) * context[0] // context[1] - 1
        context[1] += 2
        if code > split:
            decision, low = 1, split + 1
        else:
            decision, high = 0, split
            context[0] += 2
        while True:
            if high < 2**31:
                offset = self._pending = 0
            elif low >= 2**31:
                offset, self._pending = 2**31, 0
            elif low >= 2**30 and high < 3 * 2**30:
                offset = 2**30
                self._pending += 1
            else:
                break
            low, high = 2 * (low - offset), 2 * (high - offset) + 1
            code = 2 * (code - offset) + self._bit()
            self.doublings += 1
        self._low, self._high, self._code = low, high, code
        if self._begin + self.doublings + 2 > len(self._bits):
            raise Malformed("the message ends too early")
        return decision

    def numbers(self, count: int, levels: int | None) -> Integers:
        """So many numbers with contexts of their own. levels: 0 for flags, the largest magnitude of
        small numbers, None for wide ones.
        """
        contexts: dict[int, list[int]] = defaultdict(lambda: [1, 2])
        found = np.zeros(count, np.int64)
        for place in range(count):
            if not self.decide(contexts[0]):
                continue
            if levels == 0:
                found[place] = 1
                continue
            negative = self.decide(contexts[-1])
            size = 1
            while (levels is None or size < levels) and self.decide(contexts[size]):
                size += 1
                if size > 40 and levels is None:
                    raise Malformed("a number in the message is larger than the format allows")
            if levels is None:  # what was coded is its length in bits
                width, size = size, 1
                for _ in range(width - 1):
                    size = size << 1 | self.decide([1, 2])
            found[place] = -size if negative else size
        return found

    def check_end(self) -> None:
        """Malformed unless the message ends as an encoder ends it, and so is the only one that
        gives these decisions: all bits up to here are settled by them, up to the pending ones.
        """
        first = 0 if self._low < 2**30 else 1
        end = bytes([first]) + bytes([1 - first]) * (self._pending + 1)
        settled = self._begin + self.doublings - self._pending
        if self._bits[settled:] != end:
            raise Malformed("the message is not the canonical one of its net (altered bits)")


@dataclass(eq=False)
class Layer:
    """kind: dense, convolution, max or sum. before, after: (channels, height, width) or (values,).
    A pooling layer has a `side` only.
    """

    kind: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    side: int = 0
    stored: tuple[int, ...] = ()  # the shape of its numbers, the outputs first
    order: int = 1  # of its symmetry
    stride: int = 1
    padding: int = 0
    groups: int = 1  # as used: the channels, for a depthwise one
    source: dict[str, int] = field(default_factory=dict)
    biases: int = 0
    bias_shift: int = 0
    shift: int = 0
    coded: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    bias: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def pools(self) -> bool:
        return self.kind in ("max", "sum")

    @property
    def reads(self) -> int:
        """Values that one output reads."""
        own = math.prod(self.stored[1:])
        return own * self.order if self.kind == "dense" else own

    @property
    def work(self) -> int:
        """Multiplications of one example."""
        return 0 if self.pools else self.reads * math.prod(self.after)

    @property
    def patches(self) -> int:
        """Values that its matrix products read for one example."""
        return 0 if self.pools else self.reads * math.prod(self.after[1:]) * self.groups

    @property
    def padded(self) -> int:
        """Values of its input, with the zeros around it."""
        return self.before[0] * math.prod(side + 2 * self.padding for side in self.before[1:])


# what the header says of a layer's numbers: fields (name, least, most) of each source, from 1 on
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
    """An integer net as a header states it, its numbers still missing. ledger: bits of each part
    of the header.
    """

    def __init__(self, bits: Bits) -> None:
        self.ledger: list[int] = []
        if (version := bits.gamma(2**41)) != 2:
            raise Malformed(f"format version {version}, not 2 as known here")
        self._charge(bits)
        self.shape = (bits.gamma(2**20), bits.gamma(2**20), bits.gamma(2**20))
        self._read_quantiser(bits)
        self._charge(bits)
        depth = bits.gamma(64)
        self._charge(bits)
        self.layers: list[Layer] = []
        before: tuple[int, ...] = self.shape
        carried = 1
        for place in range(1, depth + 1):
            layer = _read_layer(bits, before, carried, last=place == depth)
            self._charge(bits)
            self.layers.append(layer)
            before, carried = layer.after, carried if layer.pools else layer.order
            carried = 1 if layer.kind == "dense" else carried
            self._check_limits()
        if layer.kind != "dense" or layer.after[0] < 2:
            raise Malformed("the last layer must be dense, with a score for each of two classes")
        self.classes = layer.after[0]

    def _charge(self, bits: Bits) -> None:
        self.ledger.append(bits.position - sum(self.ledger))

    def _read_quantiser(self, bits: Bits) -> None:
        self.floats = bool(bits.take(1))
        features = math.prod(self.shape)
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
        """Before anything of that size is made."""
        made = {PROJECTION: 0, SIGN_PROJECTION: 0}
        numbers = 0
        for layer in self.layers:
            if not layer.pools:
                n, kind = math.prod(layer.stored), layer.source["kind"]
                numbers += n * layer.order + layer.biases
                if kind in made:
                    made[kind] += n * layer.source["count"]
                if kind in (PROJECTION, SIGN_PROJECTION, PRODUCT):
                    numbers += coded_size(layer)
        for found, most, what in (
            (max(layer.padded for layer in self.layers), 2**20, "values in a map"),
            (max(math.prod(layer.after) for layer in self.layers), 2**20, "values in a map"),
            (max(layer.patches for layer in self.layers), 2**22, "values read by a layer"),
            (self.work, 2**28, "multiplications an example"),
            (numbers, 10**6, "numbers"),
            (made[PROJECTION], 2**27, "signs in seeded projections"),
            (made[SIGN_PROJECTION], 2**33, "signs in sign projections"),
        ):
            if found > most:
                raise Malformed(f"{found} {what} are more than the {most} that the format allows")

    @property
    def work(self) -> int:
        return sum(layer.work for layer in self.layers)

    @property
    def effort(self) -> int:
        """About how long an example takes, in multiplications; a value moved takes 16."""
        return self.work + 16 * sum(layer.padded + layer.patches for layer in self.layers)

    @property
    def width(self) -> int:
        """The most values that one example needs at once."""
        return max(max(s.padded, s.patches, math.prod(s.after)) for s in self.layers)

    def fault(self, x: Array, y: Integers | None, what: str) -> str:
        """Why the net cannot read these examples; empty if it can."""
        if math.prod(x.shape[1:]) != math.prod(self.shape):
            return f"the net reads inputs of shape {self.shape}, not {x.shape[1:]} (the {what})"
        wanted = np.dtype(np.float32 if self.floats else np.uint8)
        if x.dtype != wanted:
            return f"the net reads {wanted} inputs, not {x.dtype} (the {what})"
        if y is not None and (label := int(y.max())) >= self.classes:
            return f"the net knows {self.classes} classes, the {what} have label {label}"
        return ""

    def quantised(self, x: Array) -> Array:
        """[n, ...] -> [n, features] whole numbers (section 4.1); floats as float64."""
        flat = x.reshape(len(x), -1)
        if not self.floats:
            shifted: Array = flat >> self.input_shift
            return shifted
        scaled = np.floor(np.ldexp(flat.astype(np.float64), self.exponents))
        scaled[np.isnan(scaled)] = -np.inf
        # exact: the window's ends are whole numbers below 2^25
        inside: Array = np.clip(scaled, self.offsets, self.offsets + self.largest) - self.offsets
        return inside

    def maps(self, x: Array, kind: type[np.floating[Any]]) -> Array:
        """[n, height, width, channels] of that float type."""
        maps = self.quantised(x).reshape(len(x), *self.shape).transpose(0, 2, 3, 1)
        return maps.astype(kind)


def _read_layer(bits: Bits, before: tuple[int, ...], carried: int, *, last: bool) -> Layer:
    """carried: the symmetry of the map before it."""
    kind = ("dense", "convolution", "max", "sum")[bits.take(2)]
    if kind != "dense" and len(before) != 3:
        raise Malformed("a convolution or pooling cannot follow a dense layer")
    if kind in ("max", "sum"):
        side = bits.gamma(2**20) + 1
        return Layer(kind, before, _map(before[0], [n // side for n in before[1:]]), side)
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
    code = bits.gamma(len(_SOURCES))
    layer.source = {"kind": code}
    for name, least, most in _SOURCES[code - 1]:
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
    if groups == 0:
        if outputs != channels or (order > 1 and not regular):
            raise Malformed("a depthwise convolution keeps the channels and symmetry before it")
        stored: tuple[int, ...] = (outputs, 1, side, side)
    else:
        if channels % groups or outputs % groups:
            raise Malformed(f"{groups} groups divide not {channels} inputs and {outputs} outputs")
        stored = (outputs, channels // groups, *([order] if regular else []), side, side)
    if padding >= side:
        raise Malformed(f"a {side}x{side} convolution has no padding of {padding}")
    after = _map(outputs * order, [(n + 2 * padding - side) // stride + 1 for n in before[1:]])
    used = groups or before[0]
    return Layer("convolution", before, after, side, stored, order, stride, padding, used)


def _map(channels: int, sides: list[int]) -> tuple[int, ...]:
    if min(sides) < 1:
        raise Malformed("nothing is left of a feature map behind a layer")
    return (channels, *sides)


def coded_size(layer: Layer) -> int:
    """How many numbers are coded to make a layer's."""
    if layer.source["kind"] == PRODUCT:
        return layer.source["rank"] * (layer.stored[0] + math.prod(layer.stored[1:]))
    return layer.source.get("count", math.prod(layer.stored))


def read_message(message: bytes, length: int) -> tuple[Net, list[int]]:
    """The net of an Occam certificate with its coded numbers, and what each part costs in bits."""
    bits = Bits(message, length)
    net = Net(bits)
    stream, ledger = Stream(bits), list(net.ledger)
    for layer in net.layers:
        if layer.pools:
            continue
        levels = {GRID: layer.source.get("levels"), MASK: 0}.get(layer.source["kind"])
        for name, count, most in (
            ("coded", coded_size(layer), levels),
            ("bias", layer.biases, None),
        ):
            if count:
                before = stream.doublings
                setattr(layer, name, stream.numbers(count, most))
                ledger.append(stream.doublings - before)
    stream.check_end()
    return net, [*ledger, 2]


# ---- the numbers of a layer, and their places (sections 4.2 and 4.3)

_EXACT = 2**53


def words(place: int, seed: int, first: int, n: int) -> NDArray[np.uint64]:
    """Words first..first+n-1 of a layer's stream: SplitMix64."""
    digest = hashlib.sha256(f"weights {place} {seed}".encode()).digest()
    z = np.arange(first + 1, first + n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(int.from_bytes(digest[:8], "little"))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bits_of(values: NDArray[np.uint64]) -> Array:
    """[n] words -> [64 n] bits, each word's lowest first."""
    return np.unpackbits(values.astype("<u8").view(np.uint8), bitorder="little")


def stored_numbers(layer: Layer, place: int) -> Integers:
    """What the coded numbers and a seed make, in the stored shape."""
    source, coded, n = layer.source, layer.coded, math.prod(layer.stored)
    kind, seed = source["kind"], source.get("seed", 0)
    if kind in (PROJECTION, SIGN_PROJECTION):
        if sum(map(abs, coded.tolist())) >= _EXACT:
            raise Malformed("the coefficients of a projection could leave the exact range")
        combine = _projection if kind == PROJECTION else _sign_projection
        made = combine(coded, n, place, seed) >> source["shift"]
        if source.get("amplitude"):
            made += source["amplitude"] * _noise(place, seed, len(coded) * -(-n // 64), n)
    elif kind == MASK:
        made = coded * (2 * _bits_of(words(place, seed, 0, -(-n // 64)))[:n].astype(np.int64) - 1)
    elif kind == NOISE:
        made = np.where(coded != 0, coded, source["amplitude"] * _noise(place, seed, 0, n))
    elif kind == PRODUCT:
        cut = layer.stored[0] * source["rank"]
        made = _product(coded[:cut].reshape(-1, source["rank"]), coded[cut:]) >> source["shift"]
    else:
        made = coded
    return made.reshape(layer.stored)


def _noise(place: int, seed: int, first: int, n: int) -> Integers:
    """Set bits of each word, less 32."""
    made: Integers = _bits_of(words(place, seed, first, n)).reshape(n, 64).sum(1, dtype=np.int64)
    return made - 32


def _projection(coded: Integers, n: int, place: int, seed: int) -> Integers:
    """Σ_t coded[t]·sign matrix t, each of which begins with a word of its own."""
    total, width = np.zeros(n), -(-n // 64)
    for part in blocks(len(coded), 512 * width):
        some = coded[part].astype(np.float64)
        bits = _bits_of(words(place, seed, part.start * width, len(some) * width))
        signs = 2.0 * bits.reshape(len(some), -1)[:, :n] - 1.0
        total += some @ signs  # exact: below 2^53
    return total.astype(np.int64)


def _sign_projection(coded: Integers, n: int, place: int, seed: int) -> Integers:
    """The same where one word holds the signs of an entry for 64 coefficients. Eight of them are a
    byte, so that a table of 256 sums gives their part at one look.
    """
    padded = np.zeros(-(-len(coded) // 64) * 64, np.int64)
    padded[: len(coded)] = coded
    total = np.zeros(n, np.int64)
    signs = 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    tables = padded.reshape(-1, 8) @ (signs.astype(np.int64) - 1).T  # [eights, 256]
    for start in range(0, n, 2**14):
        part = total[start : start + 2**14]
        for word in range(len(padded) // 64):
            made = words(place, seed, word * n + start, len(part)).astype("<u8").view(np.uint8)
            for byte in range(8):
                part += tables[8 * word + byte].take(made[byte::8])
    return total


def _product(left: Integers, right: Integers) -> Integers:
    right = right.reshape(left.shape[1], -1)
    columns, rows = np.abs(left).max(axis=0).tolist(), np.abs(right).max(axis=1).tolist()
    if sum(a * b for a, b in zip(columns, rows, strict=True)) >= _EXACT:
        raise Malformed("the factors of a product could leave the exact range of ±2^53")
    exact = left.astype(np.float64) @ right.astype(np.float64)  # every partial sum below 2^53
    return exact.astype(np.int64)


def elements(order: int) -> list[tuple[int, int]]:
    """(mirror, quarter turns) of the group of that order."""
    mirrors, turns = {1: (1, 1), 2: (2, 1), 4: (1, 4), 8: (2, 4)}[order]
    return [(mirror, turn) for mirror in range(mirrors) for turn in range(turns)]


def moved(element: tuple[int, int], array: Array) -> Array:
    """The last two axes, mirrored and then turned."""
    mirror, turns = element
    if mirror:
        array = array[..., ::-1]
    for _ in range(turns):
        array = array.swapaxes(-2, -1)[..., ::-1, :]
    return array


def used_weights(layer: Layer, stored: Array) -> Array:
    """[stored shape] -> [groups, values read (rows, columns, channels), outputs of a group]."""
    group = elements(layer.order)
    if layer.kind == "dense":
        if layer.order > 1:
            stored = np.stack([moved(b, stored) for b in group], axis=2)
        if len(layer.before) == 3:  # stored by channels, rows, columns
            stored = stored.reshape(len(stored), *layer.before).transpose(0, 2, 3, 1)
        return stored.reshape(len(stored), -1).T[None]
    if stored.ndim == 5:
        parts = []
        for p, t in group:
            inverse = [(p ^ q, (t - v if p else v - t) % 4) for q, v in group]
            parts.append(moved((p, t), stored[:, :, [group.index(c) for c in inverse]]))
    else:
        parts = [moved(a, stored) for a in group]
    side, groups = layer.side, layer.groups
    weight = np.stack(parts, axis=1).reshape(groups, layer.after[0] // groups, -1, side, side)
    arranged = weight.transpose(0, 3, 4, 2, 1)
    return arranged.reshape(groups, -1, weight.shape[1])


# ---- exact evaluation (sections 4.4 to 4.6)


def prove_range(net: Net, numbers: list[tuple[Array, Integers]]) -> type[np.floating[Any]]:
    """The float type that holds every sum on every input exactly; Malformed if none does.

    numbers: used weights and biases of each layer that has some.
    """
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


def evaluate(net: Net, maps: Array, numbers: Iterable[tuple[Array, Array]]) -> Array:
    """[n, height, width, channels] -> [n, classes] scores.

    numbers: of each layer that has some, weights [nets, groups, read, outputs] and biases [nets,
    outputs] (or none) as they are added; n / nets rows for each net, one after the other. Sums of
    products only, so that below 2^53 (2^24) every order of adding gives the same.
    """
    held = iter(numbers)
    values = maps
    for layer in net.layers:
        if layer.pools:
            values = _pooled(values, layer)
            continue
        weight, bias = next(held)
        values = (_dense if layer.kind == "dense" else _convolved)(values, weight, layer)
        if bias.size:
            rows = values.reshape(len(bias), -1, bias.shape[1])
            rows += bias[:, None]
            values = rows.reshape(values.shape)
        if layer is not net.layers[-1]:
            np.maximum(values, 0, out=values)
            if layer.shift:  # a power of two only moves the exponent
                np.multiply(values, values.dtype.type(2.0**-layer.shift), out=values)
                np.floor(values, out=values)
    return values


def _dense(values: Array, weight: Array, _: Layer) -> Array:
    nets, _groups, read, outputs = weight.shape
    sums: Array = values.reshape(nets, -1, read) @ weight[:, 0]
    return sums.reshape(-1, outputs)


def _convolved(values: Array, weight: Array, layer: Layer) -> Array:
    nets, groups, read, outputs = weight.shape
    k, s, pad = layer.side, layer.stride, layer.padding
    _, h, w = layer.after
    if pad:
        values = np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    values = np.ascontiguousarray(values)
    row, down, right, one = values.strides
    each, channels = len(values) // nets, read // (k * k)
    if outputs == 1 and channels == 1:  # one filter a channel: tap by tap
        taps = weight.reshape(nets, 1, 1, 1, groups, k * k)
        split = values.reshape(nets, each, *values.shape[1:])
        total = np.zeros((nets, each, h, w, groups), values.dtype)
        for tap in range(k * k):
            y, x = divmod(tap, k)
            window = split[:, :, y : y + (h - 1) * s + 1 : s, x : x + (w - 1) * s + 1 : s]
            total += window * taps[..., tap]
        return total.reshape(-1, h, w, groups)
    windows = np.lib.stride_tricks.as_strided(
        values,
        (nets, groups, each, h, w, k, k, channels),
        (each * row, channels * one, row, s * down, s * right, down, right, one),
        writeable=False,
    )
    sums: Array = windows.reshape(nets, groups, each * h * w, read) @ weight
    return sums.transpose(0, 2, 1, 3).reshape(-1, h, w, groups * outputs)


def _pooled(values: Array, layer: Layer) -> Array:
    """Windows side by side, a remainder dropped: rows, then columns."""
    combine: Any = np.maximum if layer.kind == "max" else np.add
    size = layer.side
    h, w = (side * size for side in layer.after[1:])
    for axis, end in ((1, h), (2, w)):
        parts = [
            values[:, start:end:size] if axis == 1 else values[:, :, start:end:size]
            for start in range(size)
        ]
        values = functools.reduce(combine, parts)
    return values


def in_batches(
    rows: int, width: int, work: Callable[[int, int], None], progress: Progress, most: int = 512
) -> None:
    """work(first, count) until all rows are done, on two threads; width: values that a row needs.
    The result must not depend on the batches.
    """
    step = max(1, min(most, 2**20 // width))
    starts = range(0, rows, step)
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for begin in range(0, len(starts), 64):  # an interrupt waits for these only
            part = starts[begin : begin + 64]
            list(pool.map(lambda first: work(first, min(step, rows - first)), part))
            progress(begin + len(part), len(starts))


def unique_class(scores: Array) -> Integers:
    """[n] the class of the largest score, or -1 where two share it (section 4.6)."""
    best = scores.max(axis=1, keepdims=True)
    alone = (scores == best).sum(axis=1) == 1
    return np.where(alone, scores.argmax(axis=1), -1)


class IntegerNet:
    """A net with its numbers, ready to be counted."""

    def __init__(self, net: Net) -> None:
        self.net = net
        pairs = [
            (
                used_weights(layer, stored_numbers(layer, place)),
                layer.bias.repeat(layer.after[0] // layer.stored[0]),
            )
            for place, layer in enumerate(net.layers, 1)
            if not layer.pools
        ]
        self._type = prove_range(net, pairs)
        shifts = [layer.bias_shift for layer in net.layers if not layer.pools]
        self._numbers = [
            (np.ascontiguousarray(w)[None].astype(self._type), (b << s)[None].astype(self._type))
            for (w, b), s in zip(pairs, shifts, strict=True)
        ]

    def answers(self, x: Array, progress: Progress) -> Integers:
        """[n] the class that the net gives each row, or -1 for a tie."""
        found = np.empty(len(x), np.int64)

        def work(first: int, count: int) -> None:
            maps = self.net.maps(np.asarray(x[first : first + count]), self._type)
            scores = evaluate(self.net, maps, self._numbers)
            found[first : first + count] = unique_class(scores)

        in_batches(len(x), self.net.width, work, progress)
        return found


# ---- what certificates with a hold-out line or a bound on f have in common (sections 2 and 6)

TRANSFER: dict[str, Reader] = {
    "net_fingerprint": fingerprint,
    "program": maybe(fingerprint),
    "data_fingerprint": fingerprint,
    "m": whole(1, MOST_ROWS),
    "disagreements": whole(0, MOST_ROWS),
    "tolerance": tolerance,
    "delta": failure,
    "bound": probability,
    "bound_f": probability,
}
transfer = maybe(record(TRANSFER, {"program": None}))


def check_transfer(claim: Any) -> None:
    """What the rules for single fields leave open."""
    if (line := claim.transfer) is not None:
        check_count(line.disagreements, line.m, "disagreements on the unlabelled inputs")
        if exact_sum(claim.delta, line.delta) > Decimal("0.5"):
            raise Malformed("the failure probabilities of both bounds exceed 0.5 together")


def lines_fault(claim: Any, less: Decimal = Decimal(0)) -> str:
    """Why the hold-out line or the bound on f does not follow from its counts; else empty.

    less: what the hold-out line's bound has to leave for the sampler of a posterior.
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
    if answers.ndim != 2 or answers.shape[1] < 2 or answers.dtype.kind != "f":
        raise BadInput(f"f's answers on the {what} must be scores, [rows, classes] of floats")
    if len(answers) != rows or not np.isfinite(answers).all():
        raise BadInput(f"f must give finite scores for each of the {rows} {what}")
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
            whose = f"the fingerprints of their {part} differ"
            return f"this is not the net f that the certificate is about ({whose})"
    return ""


def replay_transfer(
    claim: Any, given: Given, verdict: Verdict, g: Callable[[Array], Integers], net: Net
) -> str:
    """Why the inputs and f do not confirm the bound on f; empty if they do, or are not given.

    g: its class on each row, -1 for a tie. Each score of f may differ by a quarter of the tolerance
    on another machine, so a gap by half of it: the stated count lies between the counts that have
    all of those rows agree and all of them disagree.
    """
    if given.unlabelled is None and given.answers is None:
        return ""
    if given.unlabelled is None or given.answers is None or given.x is None:
        raise BadInput("to replay the bound on f give both its answers and the unlabelled inputs")
    if (line := claim.transfer) is None:
        raise BadInput("this certificate says nothing about a net f; leave out what is about it")
    x, what = given.unlabelled, "unlabelled inputs"
    if fault := identity_fault(line, what, x) or net.fault(x, None, what):
        return fault
    if fault := freshness_fault(x, given.x, net.quantised):
        return f"the unlabelled inputs are not fresh: {fault}"
    if fault := other_net_fault(line, given):
        return fault
    classes, gaps = scores_of(given.answers, line.m, what)
    ours, allowed = g(x), float(line.tolerance)
    differ = (ours < 0) | (classes != ours)
    fewest, most = (int((differ | ~(gaps > part * allowed)).sum()) for part in (0.5, 1.5))
    if not fewest <= line.disagreements <= most:
        counted = str(most) if fewest == most else f"{fewest} to {most}"
        return f"f and g disagree on {counted} of the {what}, not {line.disagreements} as stated"
    if given.holdout_answers is not None and given.holdout_x is not None:
        assert given.holdout_y is not None
        m = len(given.holdout_x)
        classes, gaps = scores_of(given.holdout_answers, m, "held-out examples")
        errors = int(((classes != given.holdout_y) & (gaps > 1.5 * allowed)).sum())
        # Nothing else ties these answers to the labels: the fingerprint is of f's numbers alone.
        if contradiction(errors, m, line.bound_f):
            return (
                f"f errs on {errors} of the {m} held-out examples, which a bound of "
                f"{percent(line.bound_f)} hardly allows"
            )
    verdict.replayed.add("transfer")
    if given.net is None:  # the caller did not run f
        verdict.given.append("f's answers")
    return ""


class Recounted(Kind):
    """What the kinds share whose message is a net or a law of nets: `net` reads rows, `errors`
    counts.
    """

    net: Net

    def errors(self, x: Array, y: Integers, stated: Any, progress: Progress) -> int:
        raise NotImplementedError

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:
        claim, x, y = self.claim, given.x, given.y
        assert x is not None
        assert y is not None
        if fault := self._count_fault(x, y, claim, f"examples of {claim.data}", progress):
            return fault
        verdict.replayed.add("sample")
        verdict.warn(repeated_rows(x, y))
        held_x, held_y = given.holdout_x, given.holdout_y
        if claim.holdout is None or held_x is None or held_y is None:
            return ""
        if fault := self._count_fault(held_x, held_y, claim.holdout, "held-out examples", progress):
            return fault
        if fault := freshness_fault(held_x, x, self.net.quantised):
            return f"the held-out examples are not held out: {fault}"
        verdict.replayed.add("holdout")
        return ""

    def _count_fault(self, x: Array, y: Integers, stated: Any, what: str, tell: Progress) -> str:
        if fault := identity_fault(stated, what, x, y) or self.net.fault(x, y, what):
            return fault
        counted = self.errors(x, y, stated, tell)
        if counted == stated.errors:
            return ""
        return f"{counted} errors on the {what}, not {stated.errors} as stated"


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
    }
    ASSUMED = (
        INDEPENDENT,
        "the file format (the prefix code) was fixed before these examples were seen",
        "δ was fixed in advance",
        FOLKLORE,
    )

    def __init__(self, claim: Any, message: bytes) -> None:
        assumed = self.ASSUMED + OF_HOLDOUT * (claim.holdout is not None)
        check_common(claim, assumed + OF_TRANSFER * (claim.transfer is not None))
        check_count(claim.errors, claim.m, "errors on the examples")
        check_transfer(claim)
        self.claim = claim
        self.net, self._costs = read_message(message, claim.bits)
        self._g = IntegerNet(self.net)

    def arithmetic_fault(self) -> str:
        c = self.claim
        if bound_holds(c.errors, c.m, c.bits, c.delta, c.bound):
            return lines_fault(c)
        return f"{c.errors} errors, {c.m} examples and {c.bits} bits do not imply {c.bound}"

    def message_fault(self) -> str:
        same = [item.bits for item in self.claim.ledger] == self._costs
        return "" if same else "the ledger in the file is not what the message costs"

    def effort(self, given: Given) -> int:
        parts = (given.x, given.holdout_x, given.unlabelled)
        return self.net.effort * sum(len(part) for part in parts if part is not None)

    def errors(self, x: Array, y: Integers, stated: Any, progress: Progress) -> int:  # noqa: ARG002
        return int((self._g.answers(x, progress) != y).sum())

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:
        def g(x: Array) -> Integers:
            return self._g.answers(x, progress)

        fault = super().replay(given, verdict, progress)
        return fault or replay_transfer(self.claim, given, verdict, g, self.net)

    def subject(self) -> tuple[str, str]:
        c = self.claim
        net = f"g, the integer net in this file ({spaced(c.bits)} bits),"
        return net, f"g errs on {spaced(c.errors)} of these {spaced(c.m)} examples itself."


# ---- kind "pac-bayes": a Gaussian law Q over integer nets (section 8)


@functools.cache
def lower_tail(n: int, exponent: int) -> int:
    """⌊2^64 Φ(-x)⌋ for x = n/(4σ) ≥ 0, σ² = 2^exponent; 0 beyond 9.2.

    1/2 - φ(x)·(x + x³/3 + x⁵/(3·5) + ...): all terms are positive, so that 60 digits are exact
    enough for a floor of 20.
    """
    square = Decimal(n * n) * 2 ** (8 - exponent) / (16 * 2**8)  # dyadic, of few digits
    if square > Decimal("84.64"):
        return 0
    root = term = total = UP.sqrt(square)
    odd = 1
    while term > root * Decimal("1e-50"):
        odd += 2
        term = UP.divide(UP.multiply(term, square), odd)
        total = UP.add(total, term)
    density = UP.divide(UP.exp(UP.divide(square, -2)), UP.sqrt(_TWO_PI))
    below = UP.multiply(UP.subtract(Decimal("0.5"), UP.multiply(density, total)), 2**64)
    return int(below.to_integral_value(ROUND_FLOOR))


_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918")


@functools.cache
def thresholds(exponent: int, quarter: int) -> tuple[int, NDArray[np.uint64]]:
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


def stream_words(tag: str, key: str, first: int, n: int) -> NDArray[np.uint64]:
    """Words first..first+n-1 of a stream: blocks of 2^12 words of SHAKE-256."""
    begin, end = first >> 12, (first + n + 4095) >> 12
    made = b"".join(
        hashlib.shake_256(f"cushion {tag} {key} {block}\n".encode()).digest(2**15)
        for block in range(begin, end)
    )
    return np.frombuffer(made, "<u8", n, 8 * (first - (begin << 12)))


def ln_up(value: Decimal) -> Decimal:
    """ln of a number below e^100: Python's is right to half a unit of the 60th digit."""
    return UP.add(UP.ln(value), _MARGIN) if value != 1 else Decimal(0)


_MARGIN = Decimal("1e-50")


def kl_reaches(q: Decimal, p: Decimal, budget: Decimal) -> bool:
    """Is p = 1, or p > q and kl(q‖p) ≥ budget?"""
    if p >= 1 or p <= q:
        return p >= 1
    value = Decimal(0)
    for a, b in ((q, p), (1 - q, 1 - p)):
        if a:
            value = DOWN.add(value, DOWN.multiply(a, DOWN.subtract(DOWN.ln(a), DOWN.ln(b))))
    return DOWN.subtract(value, _MARGIN) >= budget


class PacBayes(Recounted):
    """L̂(Q) ≤ sample_bound by the errors of `draws` nets, each drawn anew and run on one random
    row; then bound ≥ kl⁻¹(sample_bound, (header_bits·ln 2 + kl + ln(2√m/(δ - δ')))/m).
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
    }
    ABSENT: ClassVar = {"tries_bits": None}
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
        check_common(claim, self.ASSUMED + OF_HOLDOUT * (claim.holdout is not None))
        check_count(claim.errors, claim.draws, "errors in the draws")
        if claim.draws < 10**5:
            raise Malformed(f"{claim.draws} draws are fewer than the 100000 that the format asks")
        fifth = DOWN.quantize(DOWN.divide(Decimal(claim.delta), 5), Decimal("1e-18"))
        if Decimal(claim.delta_draws) != fifth:
            raise Malformed("the draws must have a fifth of δ, rounded down to 18 places")
        self._read_law()
        nets = claim.draws + (claim.holdout.m if claim.holdout else 0)
        if nets * self._size > 2**31 or nets * self.net.work > 2**40:
            raise Malformed(f"{nets} draws of {self._size} numbers are more than the format allows")

    def _read_law(self) -> None:
        """Header, means and variances; Malformed unless they are all of the message."""
        front = (self.claim.header_bits + 7) // 8
        bits = Bits(self._message[:front], self.claim.header_bits)
        self.net = net = Net(bits)
        self._layers = [layer for layer in net.layers if not layer.pools]
        if any(layer.source["kind"] != VALUES for layer in self._layers):
            raise Malformed("a posterior draws all its weights: its layers hold plain values")
        sizes = [n for s in self._layers for n in (math.prod(s.stored), s.biases) if n]
        self._priors, self._costs = [], list(net.ledger)
        for _ in sizes:
            before = bits.position
            self._priors.append(bits.signed(20) + 8)
            self._costs.append(bits.position - before)
        self._size = size = sum(sizes)
        if bits.position != len(bits.bits) or len(self._message) != front + 5 * size:
            raise Malformed("the message's length is not that of its posterior")
        means = np.frombuffer(self._message, "<i4", size, front).astype(np.int64)
        exponents = np.frombuffer(self._message, "<i1", size, front + 4 * size).astype(np.int64)
        if size > 10**5 or means.min() < -(2**20) or means.max() > 2**20:
            raise Malformed("a posterior has at most 100000 numbers, and means of at most 2^18")
        if not all(-8 <= e <= 12 for e in (*self._priors, exponents.min(), exponents.max())):
            raise Malformed("a variance lies outside 2^-8..2^12")
        cuts = np.cumsum(sizes)[:-1]
        self._factors = list(zip(np.split(means, cuts), np.split(exponents, cuts), strict=True))
        self._whole, part = np.divmod(means, 4)
        keys = exponents * 4 + part
        self._laws = [
            (np.flatnonzero(keys == key), *thresholds(int(key) // 4, int(key) % 4))
            for key in np.unique(keys)
        ]
        self._tables = self._places()
        ends = np.empty((2, size), np.int64)
        for columns, first, entries in self._laws:
            ends[0, columns], ends[1, columns] = first, first + len(entries)
        largest = np.abs(ends + self._whole).max(axis=0)
        self._type = prove_range(net, [(largest[w], largest[b]) for w, b in self._tables])

    def _places(self) -> list[tuple[Integers, Integers]]:
        """Which of the drawn numbers each used weight and each added bias is."""
        found, start = [], 0
        for layer in self._layers:
            n = math.prod(layer.stored)
            weights = used_weights(layer, np.arange(start, start + n).reshape(layer.stored))
            biases = np.arange(start + n, start + n + layer.biases)
            found.append((weights, biases.repeat(layer.after[0] // layer.stored[0])))
            start += n + layer.biases
        return found

    def _divergences(self) -> list[Decimal]:
        """KL of each factor, Σ [ln(s²/σ²) + (σ² + μ²)/s² - 1]/2, rounded up; all but ln 2 exact."""
        found = []
        for (means, exponents), prior in zip(self._factors, self._priors, strict=True):
            halves = int((prior - exponents).sum())
            ln2 = ln_up(Decimal(2)) if halves > 0 else DOWN.ln(Decimal(2))
            squares = int((np.int64(16) << (exponents + 8)).sum()) + 2**8 * int((means**2).sum())
            moments = UP.divide(squares, Decimal(2) ** (12 + prior))
            twice = UP.add(UP.multiply(halves, ln2), UP.subtract(moments, len(means)))
            found.append(UP.divide(twice, 2))
        return found

    def _confidence(self) -> Decimal:
        """ln(2√m/(δ - δ')) = ln(4m/(δ - δ')²)/2, rounded up."""
        left = Decimal(self.claim.delta) - Decimal(self.claim.delta_draws)
        return UP.divide(ln_up(UP.divide(4 * self.claim.m, DOWN.multiply(left, left))), 2)

    def arithmetic_fault(self) -> str:
        c = self.claim
        if c.tries_bits is None:
            return (
                "this posterior's draws could be chosen by looking at them (an older version of "
                "the format); certify again"
            )
        sampler = UP.divide(self._size, 2**54)
        off = UP.add(sampler, UP.divide(c.m, 2**64))
        if not bound_holds(c.errors, c.draws, 80, c.delta_draws, c.sample_bound, off):
            return f"{c.errors} errors in {c.draws} draws do not imply {c.sample_bound}"
        if fault := lines_fault(c, sampler):
            return fault
        header = UP.multiply(c.header_bits, ln_up(Decimal(2)))
        total = UP.add(UP.add(header, Decimal(c.kl)), self._confidence())
        if kl_reaches(Decimal(c.sample_bound), Decimal(c.bound), UP.divide(total, c.m)):
            return ""
        cost = f"{c.m} examples and {total:.3f} nats"
        return f"an error of {c.sample_bound}, {cost} do not imply {c.bound}"

    def message_fault(self) -> str:
        due = [(bits, UP.multiply(bits, ln_up(Decimal(2)))) for bits in self._costs]
        due += [(0, part) for part in (*self._divergences(), self._confidence())]
        ledger = [(item.bits, Decimal(item.nats)) for item in self.claim.ledger]
        if len(ledger) != len(due) or not all(
            bits == paid and 0 <= UP.subtract(stated, true) <= Decimal("0.000002")
            for (paid, stated), (bits, true) in zip(ledger, due, strict=True)
        ):
            return "the ledger in the file is not what the message costs"
        if Decimal(self.claim.kl) < sum(stated for _, stated in ledger[len(self._costs) : -1]):
            return f"the divergence is more than the {self.claim.kl} nats stated"
        return ""

    def effort(self, given: Given) -> int:
        held = 0 if given.holdout_x is None else len(given.holdout_x)
        return int(self.claim.draws + held) * (320 * self._size + self.net.effort)

    def errors(self, x: Array, y: Integers, stated: Any, progress: Progress) -> int:
        """Of nets drawn anew, each on its row: a random one, or every held-out row once."""
        held, size = stated is self.claim.holdout, self._size
        nets = stated.m if held else self.claim.draws
        name = f"cushion posterior {nets} {stated.data_fingerprint}\n".encode()
        key = hashlib.sha256(name + self._message).hexdigest()
        wrong = []

        def work(first: int, count: int) -> None:
            drawn = self._draw(stream_words("net", key, first * size, count * size))
            rows = np.arange(first, first + count)
            if not held:
                rows = chosen_rows(stream_words("rows", key, first, count), stated.m)
            numbers = (
                (drawn[:, weights], drawn[:, biases] * self._type(2.0**layer.bias_shift))
                for (weights, biases), layer in zip(self._tables, self._layers, strict=True)
            )
            scores = evaluate(self.net, self.net.maps(x[rows], self._type), numbers)
            wrong.append(int((unique_class(scores) != y[rows]).sum()))

        width = max(self.net.width, size, *(weights.size for weights, _ in self._tables))
        in_batches(nets, width, work, progress, 256)
        return sum(wrong)

    def _draw(self, drawn: NDArray[np.uint64]) -> Array:
        """[n D] words -> [n, D] numbers of n nets."""
        given = drawn.reshape(-1, self._size)
        found = np.empty(given.shape, self._type)
        for columns, first, entries in self._laws:
            found[:, columns] = np.searchsorted(entries, given[:, columns], side="right") + first
        found += self._whole.astype(self._type)
        return found

    def subject(self) -> tuple[str, str]:
        c = self.claim
        counted = f"{spaced(c.errors)} of {spaced(c.draws)} nets drawn from Q err"
        return (
            "a net drawn anew from Q, the law of nets in this file,",
            f"{counted}, each on a row.",
        )


def chosen_rows(drawn: NDArray[np.uint64], m: int) -> Integers:
    """⌊word·m/2^64⌋ for m < 2^32, by halves of the words."""
    high, low = drawn >> np.uint64(32), drawn & np.uint64(2**32 - 1)
    carry = low * np.uint64(m) >> np.uint64(32)
    return ((high * np.uint64(m) + carry) >> np.uint64(32)).astype(np.int64)


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
        padded = np.pad(scores, ((0, 0), (0, 1)), constant_values=-np.inf)
        own = padded[np.arange(len(y)), np.minimum(y, scores.shape[1])]  # no score: always wrong
        self.rivals = (own[:, None] - scores <= self.slack[:, None]).sum(axis=1)

    def missed(self, k: int = 1) -> Array:
        """Whether k other classes score as high as the row's own, or nearly so."""
        found: Array = self.rivals > k  # the own class is among them
        return found

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


@dataclass(frozen=True)
class Line:
    """A bound that follows from errors among m rows at a share of δ; counts are None in a look."""

    what: str  # "class", "top", "answered" or "refused"
    which: Any
    errors: int | None
    m: int | None
    share: Decimal
    bound: str


class Holdout(Kind):
    """bound ≥ BinInv(errors; m, δ₀); for look k of a ledger at δ₀·2^-bits_before/(k(k+1))."""

    COUNT: ClassVar = maybe(whole(0, MOST_ROWS))
    PART: ClassVar = {"errors": COUNT, "m": COUNT, "delta": failure, "bound": probability}
    SELECTIVE: ClassVar = {
        **{"risk": probability, "threshold": maybe(tolerance), **PART, "refused": COUNT},
        **{"delta_refused": failure, "bound_refused": probability},
    }
    LOOK: ClassVar = {"number": whole(1, 10**6), "bits_before": whole(0, MOST_BITS)}
    FIELDS: ClassVar = {
        **{"kind": exactly("holdout"), "about": exactly("f"), **COMMON, "holdout": exactly(None)},
        **{"net_fingerprint": fingerprint, "program": maybe(fingerprint), "tolerance": tolerance},
        **{"delta_all": failure, "look": maybe(record({**LOOK, "chain": fingerprint}))},
        "lines": listed(record({"what": text, "which": whole(0, 10_000), **PART})),
        **{"selective": maybe(record(SELECTIVE)), "ledger": listed(record(LEDGER))},
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
        self.classes = sum(line.what == "class" for line in claim.lines)
        tops = [line.which for line in claim.lines[self.classes :]]
        wanted = [("class", k) for k in range(self.classes)] + [("top", k) for k in tops]
        if [(line.what, line.which) for line in claim.lines] != wanted or self.classes == 1:
            raise Malformed("the lines must be all classes in their order, and then the top-k line")
        if len(tops) > 1 or 0 in tops:
            raise Malformed("there is at most one top-k line, and k is at least 1")
        self.bits = 0 if look is None else int(look.bits_before)
        self.parts = 1 if look is None else look.number * (look.number + 1)
        self.lines = [
            Line(line.what, line.which, line.errors, line.m, self._left(line.delta), line.bound)
            for line in claim.lines
        ]
        self._check_shares(bool(tops))
        if chosen is not None:
            self._check_selective(chosen)
        for line in self.lines:
            if (line.errors is None) != (line.m is None) or (line.m is None) == (look is None):
                raise Malformed("a line's counts are stated where there is no look, and only there")
            check_count(line.errors or 0, line.m or 0, "errors of a line")
        rated = [line.bound for line in self.lines if line.what != "answered"]
        ladders = claim.errors in ladder(claim.m, 50)
        ladders &= all(Decimal(bound) * 10_000 in RATES for bound in rated)
        if look is not None and not ladders:
            raise Malformed("a look states counts and bounds of the ladders only")
        if [item.bits for item in claim.ledger] != [self.bits] * (look is not None):
            raise Malformed("the ledger must state what was told before the look, and no more")

    def _left(self, share: str, among: int = 1) -> Decimal:
        """What the number of the look leaves of a share, for each of so many bounds."""
        return DOWN.divide(Decimal(share), self.parts * among)

    def _check_shares(self, top: bool) -> None:
        """δ is shared by a rule, so that nobody can choose the shares after looking."""
        claim, chosen, total = self.claim, self.claim.selective, Decimal(self.claim.delta)
        groups = max(1, (self.classes > 0) + top + (chosen is not None))

        def part(of: int) -> Decimal:
            return DOWN.quantize(DOWN.divide(total, of), Decimal("1e-18"))

        due = [part(2 * groups * self.classes) for _ in range(self.classes)]
        due += [part(2 * groups)] * top + [part(4 * groups)] * (2 * (chosen is not None))
        stated = [line.delta for line in claim.lines]
        stated += [chosen.delta, chosen.delta_refused] if chosen is not None else []
        if [Decimal(one) for one in stated] != due or exact_sum(claim.delta_all, *stated) != total:
            raise Malformed("δ is not shared among the lines as the format says")

    def _check_selective(self, chosen: Any) -> None:
        """Malformed unless the threshold is of the grid; adds its two lines."""
        risk, level = Decimal(chosen.risk), chosen.threshold
        counts = (chosen.errors, chosen.m, chosen.refused)
        bounds = (chosen.bound, chosen.bound_refused)
        if level is None:
            if any(n is not None for n in counts) or any(Decimal(bound) != 1 for bound in bounds):
                raise Malformed("without a threshold nothing is stated about what is answered")
            return
        fits = Decimal(level) in THRESHOLDS and 0 < risk < 1 and Decimal(chosen.bound) <= risk
        if not fits or (self.claim.look is not None and Decimal(chosen.bound) != risk):
            raise Malformed("the selective line must have a threshold of the grid, and its risk")
        shares = [self._left(s, len(THRESHOLDS)) for s in (chosen.delta, chosen.delta_refused)]
        rows = None if chosen.refused is None else self.claim.m
        self.lines += [
            Line("answered", level, chosen.errors, chosen.m, shares[0], chosen.bound),
            Line("refused", level, chosen.refused, rows, shares[1], chosen.bound_refused),
        ]

    def arithmetic_fault(self) -> str:
        claim = self.claim
        overall = Line("all", 0, claim.errors, claim.m, self._left(claim.delta_all), claim.bound)
        for line in (overall, *self.lines):
            if line.errors is None or line.m is None:
                continue
            if not bound_holds(line.errors, line.m, self.bits, line.share, line.bound):
                return f"{line.errors} errors among {line.m} rows do not imply {line.bound}"
        return ""

    def message_fault(self) -> str:
        return ""

    def effort(self, given: Given) -> int:
        return 0 if given.answers is None else int(given.answers.size)

    def replay(self, given: Given, verdict: Verdict, progress: Progress) -> str:  # noqa: ARG002
        """Counted with half the tolerance: wherever f's scores differ by a quarter of it, the count
        is at most the one stated. How much less it is, is not said: it would be one more look.
        """
        claim, what = self.claim, "held-out examples"
        assert given.x is not None
        assert given.y is not None
        if fault := identity_fault(claim, what, given.x, given.y) or other_net_fault(claim, given):
            return fault
        if given.answers is None:
            return "the errors were not counted: f's answers were not given"
        if self.classes and given.y.max() >= self.classes:
            return f"the {what} have more than the {self.classes} classes that there are lines for"
        scores_of(given.answers, claim.m, what)
        rows = Scored(given.answers, given.y, float(claim.tolerance) / 2)
        if rows.missed().sum() > claim.errors:
            return f"f errs on more of the {what} than the {claim.errors} stated"
        for line in self.lines:
            errors, m = rows.count(line.what, line.which)
            holds = bound_holds(errors, m, self.bits, line.share, line.bound)
            if line.errors is not None and line.m is not None:
                holds = errors <= line.errors and m >= line.m
            if not holds:
                return f"f does not keep the line {line.what} {line.which} on the {what}"
        if given.looks is not None:
            if claim.look is None:
                raise BadInput("this certificate is no look of a ledger; leave the ledger out")
            if fault := self._ledger_fault(given.looks):
                return f"the ledger of looks does not confirm this one: {fault}"
            verdict.replayed.add("look")
        elif claim.look is not None:
            verdict.conditional.append("its ledger of looks confirms what was told before it")
        verdict.replayed.add("sample")
        verdict.warn(repeated_rows(given.x, given.y))
        verdict.given += ["f's answers"] * (given.net is None)
        return ""

    def _ledger_fault(self, content: bytes) -> str:
        """Why the ledger is not one in which this look was made and so answered; else empty."""
        claim, chosen, k = self.claim, self.claim.selective, self.claim.look.number
        opening, looks = read_looks(content)
        rows = (opening.data_fingerprint, opening.m, Decimal(opening.delta))
        if rows != (claim.data_fingerprint, claim.m, Decimal(claim.delta)):
            return "it is about other rows, or has another δ"
        if k > len(looks):
            return f"look {k} has no answer in it"
        asked, answer, before = looks[k - 1]
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
        found = {**vars(asked), **vars(answer)}
        if before != self.bits or any(found[key] != value for key, value in due.items()):
            return "what was told before it, asked or answered is not what the file says"
        return ""

    def subject(self) -> tuple[str, str]:
        c, among = self.claim, f"of these {spaced(self.claim.m)} examples"
        said = [f"f errs on {'at most ' * (c.look is not None)}{spaced(c.errors)} {among}."]
        if c.look is not None:
            said.append(f"This is look {c.look.number}, after {spaced(self.bits)} bits of answers.")
        said += [
            f"{'Class' if one.what == 'class' else 'Top'} {one.which}: {percent(one.bound)}."
            for one in c.lines
        ]
        if (line := c.selective) is not None and line.threshold is not None:
            said.append(
                f"Where its two largest scores are more than {line.threshold} apart it errs on at "
                f"most {percent(line.bound)}, and it refuses at most {percent(line.bound_refused)}."
            )
        return "f", " ".join(said)


def _rate(bound: str) -> int:
    return int(Decimal(bound) * 10_000)


def flag(value: Any, what: str) -> Any:
    if type(value) is not bool:
        raise Malformed(f"{what} must be true or false")
    return value


_HOW_OPENED = record(
    {
        **{"looks": exactly(1), "data": text, "data_fingerprint": fingerprint, "delta": failure},
        **{"m": whole(1, MOST_ROWS), "classes": whole(2, 10_000)},
    }
)
_ASKED = record(
    {
        **{"look": whole(1, 10**6), "net_fingerprint": fingerprint, "program": maybe(fingerprint)},
        **{"tolerance": tolerance, "per_class": flag},
        **{"top_k": maybe(whole(1, 10_000)), "selective": maybe(probability)},
    }
)
_ANSWERED = record(
    {
        **{"answer": whole(1, 10**6), "said": text, "errors": maybe(whole(0, MOST_ROWS))},
        **{"rates": listed(whole(0, 10_000)), "bits": whole(1, MOST_BITS)},
        "chosen": maybe(listed(maybe(whole(0, 10_000)))),
    }
)


def read_looks(content: bytes) -> tuple[Any, list[tuple[Any, Any, int]]]:
    """A ledger of looks: how it begins, and of each look what was asked and answered, and what all
    answers before it cost. BadInput where a line is damaged, or an answer was not possible.
    """
    opening, asked, best, chain, told = None, None, None, "", 0
    looks: list[tuple[Any, Any, int]] = []
    if len(content) > 2**24 or not content.endswith(b"\n"):
        raise BadInput("the ledger of looks is too long, or its last line is not whole")
    for place, line in enumerate(content.splitlines(), 1):
        try:
            obj = json.loads(line.decode("utf-8"))
            stated = obj.pop("chain")
            chain = hashlib.sha256(chain.encode() + b"\n" + canonical(obj)).hexdigest()
            if stated != chain or canonical({**obj, "chain": chain}) != line:
                raise Malformed("its running hash does not fit")
            if opening is None:
                opening = _HOW_OPENED(obj, "the first line")
            elif asked is not None:
                answer = _ANSWERED(obj, "an answer")
                bits = _answer_bits(opening, asked, answer, best)
                if (answer.answer, answer.bits) != (asked.look, bits):
                    raise Malformed("it costs another number of bits")
                looks.append((asked, answer, told))
                told, asked = told + bits, None
                best = best if answer.errors is None else answer.errors
            elif obj != {"closed": True}:
                asked = _ASKED(obj, "a look")
                asked.chain = chain
                if asked.look != len(looks) + 1:
                    raise Malformed("a look is missing")
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError, Malformed):
            raise BadInput(f"line {place} of the ledger of looks is damaged") from None
    return opening, looks


def _answer_bits(opening: Any, asked: Any, answer: Any, best: int | None) -> int:
    """The length of an answer's word in the prefix code of its look (section 9.3)."""
    chosen, said = answer.chosen, answer.said
    if said in ("failed", "no better"):
        if answer.errors is not None or answer.rates or chosen is not None:
            raise Malformed("such an answer says nothing else")
        if said == "no better" and best is None:
            raise Malformed("there was nothing to be better than")
        return 2 if said == "failed" and best is not None else 1
    steps, lines = ladder(opening.m, 50), opening.classes * asked.per_class
    lines += asked.top_k is not None
    if said != "counted" or len(answer.rates) != lines or (chosen is None) != (not asked.selective):
        raise Malformed("these are not the lines that were asked for")
    at, bits = steps.index(answer.errors), 1 + (len(steps) - 1).bit_length()
    if best is not None:
        bits = 1 + 2 * (steps.index(best) - at).bit_length()  # gamma, behind two bits
        if answer.errors >= best:
            raise Malformed("this is no better than the best before")
    rates = [*answer.rates]
    if chosen is not None:
        number, rate = chosen
        bits += 8  # 142 thresholds, or none
        rates += [] if number is None else [rate]
        if number not in (None, *range(len(THRESHOLDS))) or (number is None and rate != 10_000):
            raise Malformed("there is no such threshold")
    for rate in rates:
        bits += 7  # 89 of them
        RATES.index(rate)
    return bits


KINDS: dict[str, type[Kind]] = {"occam": Occam, "holdout": Holdout, "pac-bayes": PacBayes}


# ---- the command line


def main(argv: list[str] | None = None) -> int:
    """0: ok. 1: not ok. 2: bad input or a malformed file, said in one sentence."""
    args = _parser().parse_args(argv)
    try:
        found: dict[str, Any] = {name: _load(getattr(args, name)) for name in _ARRAYS}
        found["looks"] = None if args.looks is None else read_file(args.looks)
        verdict = check(args.file, Given(**found), slow=args.slow)
    except (BadInput, Malformed) as problem:
        _say(f"cushion-verify: {problem}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        _say("cushion-verify: interrupted", sys.stderr)
        return 130
    if args.json:
        _say(json.dumps(verdict.to_json(), indent=1), sys.stdout)
    else:
        for line in verdict.lines():
            _say(line, sys.stdout)
    return 0 if verdict.ok else 1


_ARRAYS = {
    "x": "the sample's inputs, [m, ...] bytes, float32 or int64",
    "y": "its labels, [m] whole numbers from 0",
    "holdout_x": "inputs of the held-out examples",
    "holdout_y": "their labels",
    "unlabelled": "the unlabelled inputs of a bound on f",
    "answers": "f's scores on them, or on x (kind holdout), [n, classes]: taken as given",
    "holdout_answers": "f's scores on the held-out examples: taken as given",
    "features": "a backbone's features of the sample: taken as given",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cushion-verify", description="Check a certificate file against the data it is about."
    )
    parser.add_argument("file", metavar="FILE.cushion")
    for name, what in _ARRAYS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="FILE.npy", help=what)
    parser.add_argument("--looks", metavar="FILE.looks", help="the ledger of a hold-out's looks")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")
    parser.add_argument("--slow", action="store_true", help="replay whatever it takes")
    return parser


def _load(path: str | None) -> Array | None:
    """One array from an .npy file, never unpickled."""
    if path is None:
        return None
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        why = getattr(problem, "strerror", None) or "it is no .npy file of plain numbers"
        raise BadInput(f"{path}: cannot be read ({why}); save it with numpy.save") from None
    if not isinstance(found, np.ndarray):
        raise BadInput(f"{path}: must hold one array; save it with numpy.save")
    return found


def _say(line: str, to: Any) -> None:
    """One line that steers no terminal."""
    shown = _UNPRINTABLE.sub(lambda c: f"\\x{ord(c.group()):02x}", line.replace("\n", " "))
    print(shown.encode(to.encoding or "utf-8", "backslashreplace").decode(to.encoding), file=to)


if __name__ == "__main__":
    sys.exit(main())
