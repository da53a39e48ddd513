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
import hashlib
import json
import math
import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
        again = json.dumps(
            obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode("utf-8")
    except (ValueError, RecursionError):
        raise Malformed("the claim is not JSON") from None
    if again != text:  # repeated keys, odd spacing, odd numbers
        raise Malformed("the claim is not in canonical form")
    kind = obj.get("kind") if isinstance(obj, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Malformed(f"the claim must be an object whose kind is one of {', '.join(KINDS)}")
    if len(message) > KINDS[kind].MOST_MESSAGE:
        raise Malformed(f"a message of {len(message)} bytes is too long for its kind")
    return record(KINDS[kind].FIELDS)(obj, "the claim"), message


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


def bound_holds(errors: int, m: int, bits: int, delta: Decimal | str, bound: Decimal | str) -> bool:
    """Is P[Bin(m, bound) ≤ errors] ≤ δ·2^-bits, or bound = 1?

    The tail falls as p rises, so then every p ≥ bound is excluded at that level. At or below
    errors/m the tail is at least 1/2 (errors is at least a median): never enough for δ ≤ 1/2.
    """
    p = int(UP.scaleb(Decimal(bound), 18))  # exact: at most 18 places
    if p >= _SCALE:
        return True
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


def confidence(*deltas: str) -> str:
    """100 % less the deltas, exactly."""
    return f"{((1 - exact_sum(*deltas)) * 100).normalize():f} %"


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


# ---- verdicts


@dataclass(eq=False)
class Verdict:
    """What was found. claim: the file's, as attributes; its decimals are strings, as stated.

    replayed: which counts were recounted and confirmed, of "sample", "holdout", "transfer". given:
    what was taken as given and not recomputed. conditional: what the verdict hangs on. warnings:
    what speaks against the statement without refuting it.
    """

    claim: Any
    ok: bool = False
    level: str = "none"  # the highest that holds: none, arithmetic, message, replay
    reason: str = ""  # why not ok
    replayed: set[str] = field(default_factory=set)
    given: list[str] = field(default_factory=list)
    conditional: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    statement: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Numbers that were not replayed are null, and stand under claimed_..."""
        obj = {key: getattr(self, key) for key in ("ok", "level", "reason")}
        obj |= {"kind": self.claim.kind, "about": self.claim.about, "data": self.claim.data}
        obj |= self.numbers
        obj["replayed"] = sorted(self.replayed)
        obj |= {key: getattr(self, key) for key in ("given", "conditional", "warnings")}
        return obj | {"assumptions": list(self.claim.assumptions)}

    def lines(self) -> list[str]:
        """The answer in words, at most about ten lines."""
        if not self.ok:
            said = [f"NOT OK: {self.reason}", f"highest level that holds: {self.level}"]
            if "sample" in self.replayed:
                said.append("The errors on the sample were recounted and are as stated.")
            return said
        head = "ok: arithmetic, message and replay all hold"
        if self.conditional:
            head += f", on condition that {'; '.join(self.conditional)}"
        said = [head, *self.statement]
        if self.given:
            said.append(f"Given, not recomputed: {', '.join(self.given)}.")
        said += [f"Warning: {warning}" for warning in self.warnings]
        return [*said, "Assumed, as nobody can check it: " + "; ".join(self.claim.assumptions)]


class Kind:
    """One kind of certificate. Made from a claim whose fields were read, and its message; Malformed
    unless both are of the format.
    """

    FIELDS: ClassVar[dict[str, Reader]]
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

    def describe(self, verdict: Verdict) -> None:
        """Fills in the verdict's statement and numbers."""
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
    verdict = Verdict(claim)
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
    kind.describe(verdict)
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


KINDS: dict[str, type[Kind]] = {}


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
    "answers": "f's scores on them, [n, classes]: taken as given",
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
