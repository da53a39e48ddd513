"""The recheck of an accepted certificate of kind picks: FORMAT.md, section 10, in fractions.

The rounds are run by the producer's learners, with which the verifier shares no line, and of a
training by a loop over the classes that it gave. They depend on the learner and the arrays alone,
so each is run once.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.picks.certificate import train
from cushion.certificates.picks.configurations import learner_for
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from fuzz.recheck import fingerprint, implies, transfer_falsehood

Rows = NDArray[Any]
_LISTED = 128


@dataclass(frozen=True)
class Replay:
    """Rows that a learner picks and misses, what its last training gave, and its classes."""

    picks: tuple[int, ...]
    errors: tuple[int, ...]
    digest: str | None
    bound: Any  # the producer's trained learner; None of a training

    def missed(self, given: dict[str, Any]) -> int:
        """Of the held-out rows, which have one answer of each learner."""
        labels = given["holdout_y"]
        if self.bound is None:
            return int((given["holdout_classes"] != labels).sum())
        rows = given.get("holdout_features", given["holdout_x"])
        return sum(c != y for c, y in zip(self._classes(rows), labels.tolist(), strict=True))

    @cached_property
    def _known(self) -> dict[int, list[int]]:
        return {}

    def _classes(self, rows: Rows) -> list[int]:
        if id(rows) not in self._known:
            self._known[id(rows)] = self.bound.classify(rows).tolist()
        return self._known[id(rows)]

    def apart(self, given: dict[str, Any], tolerance: float) -> tuple[int, int]:
        """Disagreements with f on the unlabelled inputs: at half and one and a half times the
        tolerance.
        """
        classes, counts = self._classes(given["unlabelled"]), [0, 0]
        for own, scores in zip(classes, given["answers"].tolist(), strict=True):
            second, first = sorted(scores)[-2:]
            other = scores.index(first) != own
            for at, part in enumerate((0.5, 1.5)):
                counts[at] += other or not first - second > part * tolerance
        return counts[0], counts[1]


def picks_falsehood(claim: dict[str, Any], message: bytes, given: dict[str, Any]) -> str:
    """Why the claim is false; empty if it is true."""
    picks, errors = claim["picks"], claim["errors"]
    if len(message) != 4 * (picks + errors):
        return "the message does not name the rows"
    rows = struct.unpack(f"<{picks + errors}I", message)
    if len(set(rows)) != len(rows) or any(row >= claim["m"] for row in rows):
        return "a row is named twice, or there is no such row"
    if list(rows[picks:]) != sorted(rows[picks:]):
        return "the errors do not ascend"
    if fault := _price_falsehood(claim):
        return fault
    if max(given["y"].tolist()) >= claim["classes"]:
        return "a label is not below the number of classes"
    made = replayed(claim, given)
    if made is None:
        return "the learner does not read such rows"
    if claim["features"] is not None:
        if len(made.picks) + len(made.errors) > picks + errors + claim["slack"]:
            return "more picks and errors than stated"
    elif (made.picks, made.errors) != (rows[:picks], rows[picks:]):
        return "the rounds give other rows"
    if (
        made.bound is not None
        and claim["features"] is None
        and made.digest != claim["coefficients"]
    ):
        return "the coefficients are others"
    return _line_falsehood(claim, made, given) or _transfer_falsehood(claim, made, given)


def _price_falsehood(claim: dict[str, Any]) -> str:
    """Of the ledger, the choices, and the bound that follows from them."""
    due = [(name, 0, claim[name]) for name in ("picks", "errors", "slack", "choices")]
    if [(item["item"], item["bits"], item["count"]) for item in claim["ledger"]] != due:
        return "the ledger is not that of the claim"
    own, seen, choices = claim["fit"] is not None, claim["features"] is not None, claim["choices"]
    if (claim["about"] == "f") != own or (own and (seen or claim["transfer"] is not None)):
        return "it is about another thing"
    if claim["slack"] and not seen:
        return "slack without features"
    if choices < 1 or (not own and (choices % _LISTED or (not seen and choices != _LISTED))):
        return "choices that the list does not have"
    stated = claim["picks"] + claim["errors"] + claim["slack"]
    share = Fraction(Decimal(claim["delta"])) / choices
    if not suffices(stated, claim["m"], share, Fraction(claim["bound"])):
        return f"{stated} rows do not imply {claim['bound']}"
    return transfer_falsehood(claim)


def suffices(k: int, m: int, share: Fraction, bound: Fraction) -> bool:
    """(δ'/m) Σ_{i=k}^{m-1} C(i,k)/C(m,k) (1-bound)^-(m-i) ≥ 1, in whole numbers; or bound = 1."""
    if bound >= 1:
        return bound == 1
    if k >= m:
        return False
    a, d = bound.denominator - bound.numerator, bound.denominator
    total = 0  # Horner: Σ_j C(m-j, k) d^j a^(n-j), j = 1, ..., n, n = m - k
    for i in range(k, m):
        total = total * d + math.comb(i, k) * d * a ** (i - k)
    return total * share.numerator >= m * share.denominator * math.comb(m, k) * a ** (m - k)


def _line_falsehood(claim: dict[str, Any], made: Replay, given: dict[str, Any]) -> str:
    line = claim["holdout"]
    if line is None:
        return ""
    if Decimal(line["delta"]) != Decimal(claim["delta"]):
        return "the hold-out line has another δ"
    share = Fraction(Decimal(line["delta"])) / line["looks"]
    if not implies(line["errors"], line["m"], share, line["bound"]):
        return f"{line['errors']} held-out errors do not imply {line['bound']}"
    if "holdout_x" not in given:
        return ""
    if line["data_fingerprint"] != fingerprint(given["holdout_x"], given["holdout_y"]):
        return "not the held-out rows"
    if line["m"] != len(given["holdout_y"]):
        return "not so many held-out rows"
    found = made.missed(given)
    if found > line["errors"] or (claim["features"] is None and found != line["errors"]):
        return f"{found} held-out errors"
    return ""


def _transfer_falsehood(claim: dict[str, Any], made: Replay, given: dict[str, Any]) -> str:
    moved = claim["transfer"]
    if "unlabelled" not in given or moved is None:
        return ""
    if moved["data_fingerprint"] != fingerprint(given["unlabelled"]):
        return "not the unlabelled inputs"
    fewest, most = made.apart(given, float(moved["tolerance"]))
    if not fewest <= moved["disagreements"] <= most:
        return f"f and g disagree {fewest} to {most} times"
    return ""


def replayed(claim: dict[str, Any], given: dict[str, Any]) -> Replay | None:
    """The rounds of the claim's learner; None where it does not read such rows."""
    if claim["fit"] is not None:
        return _by_classes(given, claim["fit"]["groups"])
    x, y, read = given["x"], given["y"], given.get("features")
    of_features = claim["features"] is not None
    key = (claim["configuration"], claim["classes"], of_features, id(x))
    if key not in _KNOWN:
        sample = Dataset("sample", x, y, claim["classes"])
        seen = replace(sample, x=read) if of_features else sample
        try:
            learner = learner_for(seen, claim["configuration"], features=of_features)
        except BadInput:
            _KNOWN[key] = None
            return None
        made = train(learner, sample, seen.x)
        picked = made.picked
        _KNOWN[key] = Replay(
            tuple(picked.picks.tolist()),
            tuple(picked.errors.tolist()),
            made.bound.digest(),
            made.bound,
        )
    return _KNOWN[key]


def _by_classes(given: dict[str, Any], groups: list[int]) -> Replay:
    """Section 10.3, row by row."""
    x, labels, rounds = given["x"], given["y"].tolist(), given["rounds"].tolist()
    if id(x) not in _ORDERS:
        little = np.ascontiguousarray(x, x.dtype.newbyteorder("<"))
        hashes = [
            hashlib.sha256(row.tobytes() + struct.pack("<q", label)).digest()
            for row, label in zip(little, labels, strict=True)
        ]
        _ORDERS[id(x)] = sorted(range(len(labels)), key=lambda row: (hashes[row], row))
    picked: dict[int, None] = {}
    for size, classes in zip(groups, rounds[:-1], strict=True):
        wrong = (row for row in _ORDERS[id(x)] if row not in picked and classes[row] != labels[row])
        for row, _ in zip(list(wrong), range(size), strict=False):
            picked[row] = None
    last = rounds[-1]
    errors = [row for row in range(len(labels)) if row not in picked and last[row] != labels[row]]
    return Replay(tuple(picked), tuple(errors), None, None)


_KNOWN: dict[tuple[int, int, bool, int], Replay | None] = {}
_ORDERS: dict[int, list[int]] = {}
