"""Rechecks an accepted file by brute force: FORMAT.md's slow reader, exact fractions, nothing of
the verifier's code.

It answers one question: is what the file claims true of the data? Slow and plain on purpose.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from tests import format_reader

from fuzz.mutations import Parts

Rows = NDArray[Any]
_MOST_EXACT = 5000  # examples


def falsehood(
    content: bytes,
    x: Rows,
    y: Rows,
    held: tuple[Rows, Rows] | None,
    given: dict[str, Any] | None = None,
) -> str:
    """Why the claim of an accepted file is false; empty if it is true (of kinds occam and pac-bayes
    of g and Q: f is not looked at).

    given: the arrays that kinds holdout and picks are verified with, by their names there.
    """
    parts = Parts.of(content)
    claim = json.loads(parts.claim)
    if claim["data_fingerprint"] != fingerprint(x, y) or claim["m"] != len(x):
        return "not the sample"
    if claim["kind"] == "pac-bayes":
        from fuzz.recheck_posterior import posterior_falsehood

        return posterior_falsehood(claim, parts.message, x, y, held)
    if claim["kind"] == "holdout":
        from fuzz.recheck_holdout import holdout_falsehood

        return holdout_falsehood(claim, parts.message, given or {})
    if claim["kind"] == "picks":
        from fuzz.recheck_picks import picks_falsehood

        return picks_falsehood(claim, parts.message, given or {})
    if sum(item["bits"] for item in claim["ledger"]) != claim["bits"]:
        return "the ledger does not sum to the bits"
    net = format_reader.read(parts.message, claim["bits"])
    lines = [(claim, claim["bits"], x, y)]
    if claim["holdout"] is not None:
        if Decimal(claim["holdout"]["delta"]) != Decimal(claim["delta"]):
            return "the hold-out line has another δ"
        lines.append((claim["holdout"], 0, *(held or (x[:0], y[:0]))))
    for line, bits, rows, labels in lines:
        if len(rows) and len(rows) != line["m"]:
            return f"not {line['m']} examples"
        if len(rows) and errors_of(net, rows, labels) != line["errors"]:
            return f"not {line['errors']} errors"
        if not implies(
            line["errors"], line["m"], Fraction(Decimal(line["delta"])) / 2**bits, line["bound"]
        ):
            return f"{line['errors']} errors do not imply {line['bound']}"
    return transfer_falsehood(claim)


def transfer_falsehood(claim: dict[str, Any]) -> str:
    """Why the bound on f does not follow from its counts; empty if it does, or there is none."""
    moved = claim["transfer"]
    if moved is not None:
        if not implies(
            moved["disagreements"], moved["m"], Fraction(Decimal(moved["delta"])), moved["bound"]
        ):
            return "the disagreements do not imply their bound"
        if Decimal(moved["bound_f"]) != min(
            Decimal(1), Decimal(claim["bound"]) + Decimal(moved["bound"])
        ):
            return "the bound on f is not the sum"
    return ""


def errors_of(net: dict[str, Any], x: Rows, y: Rows) -> int:
    wrong = 0
    for row, label in zip(x, y.tolist(), strict=True):
        scores = format_reader.scores(net, row.reshape(-1).tolist())
        wrong += any(other >= scores[label] for c, other in enumerate(scores) if c != label)
    return wrong


def implies(errors: int, m: int, delta: Fraction, bound: str | Fraction) -> bool:
    """P[Bin(m, bound) ≤ errors] ≤ δ: in whole numbers, which for many examples get too long, then
    in 60 digits.
    """
    p = Fraction(bound)
    if p >= 1:
        return p == 1
    if m > _MOST_EXACT:
        return (
            errors < m * p
            and _long_tail(errors, m, p) <= mpmath.mpf(delta.numerator) / delta.denominator
        )
    a, b, d = p.numerator, p.denominator - p.numerator, p.denominator
    total = term = b**m  # times d^-m: C(m, i) a^i b^(m-i)
    for i in range(errors):
        if b == 0:
            break
        term = term * (m - i) * a // ((i + 1) * b)  # exact: every term is whole
        total += term
    return total * delta.denominator <= delta.numerator * d**m


def _long_tail(k: int, m: int, p: Fraction) -> Any:
    """P[Bin(m, p) ≤ k] for k < mp (beyond, it is above 1/2): term k, and each before it a smaller
    part of the next.
    """
    with mpmath.workdps(60):
        a, b = mpmath.mpf(p.numerator), mpmath.mpf(p.denominator - p.numerator)
        choose = mpmath.loggamma(m + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(m - k + 1)
        term = total = mpmath.exp(
            choose + k * mpmath.log(a) + (m - k) * mpmath.log(b) - m * mpmath.log(a + b)
        )
        for i in range(k, 0, -1):
            term *= i * b / ((m - i + 1) * a)
            total += term
            if term < total * mpmath.mpf(10) ** -45:
                break
        return total * (
            1 - mpmath.mpf(10) ** -40
        )  # what is left out, and rounding, is no falsehood


def fingerprint(*arrays: Rows) -> str:
    """Section 5: of x and y, or of x alone."""
    name = "data" if len(arrays) > 1 else "inputs"
    digest = hashlib.sha256(f"cushion-{name}-1\n".encode())
    for array in arrays:
        little = array.dtype.newbyteorder("<")
        digest.update(f"{little.str} {','.join(map(str, array.shape))}\n".encode())
        digest.update(np.ascontiguousarray(array, dtype=little).tobytes())
    return digest.hexdigest()


def prefix_fault(messages: set[tuple[int, bytes]]) -> str:
    """Messages that were accepted must form a prefix code: none begins another, and Kraft's sum is
    at most 1.
    """
    texts = sorted("".join(f"{byte:08b}" for byte in data)[:bits] for bits, data in messages)
    for first, second in itertools.pairwise(texts):  # a prefix sorts directly before what it begins
        if second.startswith(first):
            return f"the message {first} begins {second}"
    if sum((Fraction(1, 2 ** len(text)) for text in texts), Fraction(0)) > 1:
        return "Kraft's sum exceeds 1"
    return ""
