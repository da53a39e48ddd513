"""The recheck of an accepted hold-out certificate: FORMAT.md, section 9, by plain loops.

f's scores are counted row by row with half the tolerance, bounds in exact fractions, and what the
ledger of looks told is added up anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from fuzz.recheck import implies

_PARTS = 10_000
_PLACES = 10**18


@cache
def grid() -> tuple[Fraction, ...]:
    """The 142 thresholds, rising."""
    tenths = (10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82)
    plain = {a * Fraction(10) ** (e - 1) for a in tenths for e in range(-3, 3)}
    near = {1 - a * Fraction(10) ** (e - 1) for a in tenths for e in range(-6, 0)}
    return tuple(sorted(plain | near))


@cache
def ladder(top: int, part: int) -> tuple[int, ...]:
    steps = [0]
    while steps[-1] != top:
        steps.append(min(top, steps[-1] + max(1, steps[-1] // part)))
    return tuple(steps)


def holdout_falsehood(claim: dict[str, Any], message: bytes, given: dict[str, Any]) -> str:
    """Why the claim is false; empty if it is true."""
    lines, chosen, look = claim["lines"], claim["selective"], claim["look"]
    if message or claim["holdout"] is not None or not claim["errors"] <= claim["m"]:
        return "it states more than a count"
    for own, found in (("net_fingerprint", "net"), ("program", "program")):
        if None not in (claim[own], given.get(found)) and claim[own] != given[found]:
            return "it is about another net"
    if "before" not in claim["assumptions"][1] and look is None:
        return "it is said to be in a ledger"
    ledger = [item["bits"] for item in claim["ledger"]]
    if ledger != ([] if look is None else [look["bits_before"]]):
        return "the bits before are not those of its ledger"
    classes = sum(line["what"] == "class" for line in lines)
    order = [("class", number) for number in range(classes)]
    order += [("top", line["which"]) for line in lines[classes:]]
    if [(line["what"], line["which"]) for line in lines] != order or len(lines) > classes + 1:
        return "the lines are not all classes, and then a top line"
    if classes and (classes == 1 or max(given["y"].tolist()) >= classes):
        return "a class has no line"
    if look is not None and claim["errors"] not in ladder(claim["m"], 50):
        return "a look states a count that is not on its ladder"
    if fault := _shares_falsehood(claim, classes):
        return fault
    scores, labels = given["answers"].tolist(), given["y"].tolist()
    counted = _Counted(scores, labels, float(claim["tolerance"]) / 2)
    if counted.missed(1) > claim["errors"]:
        return f"{counted.missed(1)} errors"
    for name, line, true, rows in _lines(claim, counted):
        errors, m, share, bound = line
        if look is None:
            if name != "all" and (true > errors or rows < m):
                return f"{name}: {true} errors among {rows}"
        elif name != "all":
            errors, m = true, rows
        among = 142 if name in ("answered", "refused") else 1
        if not implies(errors, m, _left(claim, share) / among, bound):
            return f"{name}: {errors} errors among {m} do not imply {bound}"
        rate = Fraction(bound) * _PARTS
        if look is not None and name not in ("all", "answered") and rate not in ladder(_PARTS, 10):
            return f"{name}: a bound that a look does not state"
    if fault := _selective_falsehood(chosen, look):
        return fault
    if look is None or given.get("looks") is None:
        return ""
    try:
        return _ledger_falsehood(claim, classes, given["looks"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return "the ledger has a line that is none"


def _shares_falsehood(claim: dict[str, Any], classes: int) -> str:
    """δ, shared by the rule."""
    delta, chosen = Fraction(claim["delta"]), claim["selective"]
    tops = len(claim["lines"]) - classes
    asked = (classes > 0) + tops + (chosen is not None)
    left, stated = delta, [(line, 2 * asked) for line in claim["lines"]]
    for line, parts in stated:
        share = _floored(delta / (parts * (classes if line["what"] == "class" else 1)))
        left -= share
        if Fraction(line["delta"]) != share:
            return "a line has another share of δ"
    if chosen is not None:
        share = _floored(delta / (4 * asked))
        left -= 2 * share
        if [Fraction(chosen[key]) for key in ("delta", "delta_refused")] != [share] * 2:
            return "the selective line has another share of δ"
    return "" if Fraction(claim["delta_all"]) == left else "the shares do not sum to δ"


def _floored(share: Fraction) -> Fraction:
    return Fraction(share * _PLACES // 1, _PLACES)


def _left(claim: dict[str, Any], share: str) -> Fraction:
    """What looks before leave of a share."""
    look, whole = claim["look"], Fraction(share)
    if look is None:
        return whole
    return whole / (look["number"] * (look["number"] + 1)) / 2 ** look["bits_before"]


def _selective_falsehood(chosen: Any, look: Any) -> str:
    if chosen is None:
        return ""
    if chosen["threshold"] is None:
        ones = Fraction(chosen["bound"]) == Fraction(chosen["bound_refused"]) == 1
        return "" if ones else "a bound without a threshold"
    if Fraction(chosen["threshold"]) not in grid():
        return "a threshold outside the grid"
    risk, bound = Fraction(chosen["risk"]), Fraction(chosen["bound"])
    return "" if bound == risk or (look is None and bound < risk) else "a bound beyond the risk"


_Stated = tuple[int, int, str, str]  # errors, m, share, bound


def _lines(claim: dict[str, Any], counted: _Counted) -> Iterator[tuple[str, _Stated, int, int]]:
    """Each line's name, what is stated of it, and what is counted: errors, and among how many."""
    n, chosen = claim["m"], claim["selective"]
    yield "all", (claim["errors"], n, claim["delta_all"], claim["bound"]), counted.missed(1), n
    for line in claim["lines"]:
        stated = (line["errors"], line["m"], line["delta"], line["bound"])
        if line["what"] == "top":
            yield "top", stated, counted.missed(line["which"]), n
        else:
            yield f"class {line['which']}", stated, *counted.of_class(line["which"])
    if chosen is not None and chosen["threshold"] is not None:
        errors, answered = counted.answered(float(chosen["threshold"]))
        stated = (chosen["errors"], chosen["m"], chosen["delta"], chosen["bound"])
        yield "answered", stated, errors, answered
        refused = (chosen["refused"], n, chosen["delta_refused"], chosen["bound_refused"])
        yield "refused", refused, n - answered, n


class _Counted:
    """Rows with their scores, one after the other."""

    def __init__(self, scores: list[list[float]], labels: list[int], part: float) -> None:
        self._rows = list(zip(scores, labels, strict=True))
        self._part = part

    def _slack(self, row: list[float]) -> float:
        return self._part * max(abs(score) for score in row)

    def _misses(self, row: list[float], label: int, k: int) -> bool:
        if label >= len(row):
            return True
        slack = self._slack(row)
        near = [c for c, s in enumerate(row) if c != label and row[label] - s <= slack]
        return len(near) >= k

    def missed(self, k: int) -> int:
        return sum(self._misses(row, label, k) for row, label in self._rows)

    def of_class(self, number: int) -> tuple[int, int]:
        own = [row for row, label in self._rows if label == number]
        return sum(self._misses(row, number, 1) for row in own), len(own)

    def answered(self, threshold: float) -> tuple[int, int]:
        errors = answered = 0
        for row, label in self._rows:
            second, first = sorted(row)[-2:]
            gap, slack = first - second, self._slack(row)
            answered += gap > threshold + slack
            errors += gap > threshold - slack and self._misses(row, label, 1)
        return errors, answered


# ---- the ledger of looks (sections 9.3 and 9.4)


def _ledger_falsehood(claim: dict[str, Any], classes: int, content: bytes) -> str:
    """Why the ledger does not say that this look was asked and answered so."""
    chain, asked, best, bits, number, found = "", None, None, 0, 0, None
    *lines, rest = content.split(b"\n")
    opening: dict[str, Any] = {}
    for place, line in enumerate(lines):
        obj = json.loads(line)
        stated = obj.pop("chain")
        chain = hashlib.sha256(chain.encode() + b"\n" + _canonical(obj)).hexdigest()
        if stated != chain or _canonical({**obj, "chain": chain}) != line:
            return "the running hash of the ledger does not fit"
        if not place:
            opening = obj
        elif asked is not None:
            cost = _cost(opening, asked, obj, best)
            if obj["answer"] != number or obj["bits"] != cost:
                return f"answer {number} of the ledger costs {cost}"
            if number == claim["look"]["number"]:
                found = (asked, obj, bits)
            bits, asked = bits + cost, None
            if obj["errors"] is not None:
                best = obj["errors"] if best is None else min(best, obj["errors"])
        elif obj == {"closed": True}:
            if place != len(lines) - 1:
                return "there are lines behind the end of the ledger"
        else:
            number += 1
            asked = {**obj, "chain": chain}
            if obj["look"] != number:
                return "a look is missing in the ledger"
    same = opening["data_fingerprint"] == claim["data_fingerprint"] and opening["m"] == claim["m"]
    if rest or not same or Decimal(opening["delta"]) != Decimal(claim["delta"]):
        return "the ledger is about other rows, or cut"
    if found is None:
        return "the ledger has no such look"
    return _told_falsehood(claim, classes, *found)


def _told_falsehood(
    claim: dict[str, Any], classes: int, asked: dict[str, Any], answer: dict[str, Any], bits: int
) -> str:
    look, chosen, lines = claim["look"], claim["selective"], claim["lines"]
    if (look["bits_before"], look["chain"]) != (bits, asked["chain"]):
        return f"{bits} bits were told before"
    tops = [line["which"] for line in lines[classes:]]
    due = {key: claim[key] for key in ("net_fingerprint", "program", "tolerance")}
    due |= {"per_class": classes > 0, "top_k": tops[0] if tops else None}
    due["selective"] = None if chosen is None else chosen["risk"]
    if any(asked[key] != value for key, value in due.items()):
        return "the ledger was asked another thing"
    if classes and len(answer["rates"]) != classes + len(tops):
        return "the ledger has other lines"
    rates = [Fraction(line["bound"]) * _PARTS for line in lines]
    told = None
    if chosen is not None:
        level = chosen["threshold"]
        at = None if level is None else grid().index(Fraction(level))
        told = [at, Fraction(chosen["bound_refused"]) * _PARTS]
    if (answer["errors"], answer["rates"], answer["chosen"]) != (claim["errors"], rates, told):
        return "the ledger was told another thing"
    return ""


def _cost(opening: Any, asked: Any, answer: Any, best: int | None) -> int | None:
    """Bits of an answer; None where it cannot be."""
    said, errors, chosen = answer["said"], answer["errors"], answer["chosen"]
    if said == "failed":
        return 1 if best is None else 2
    if said == "no better":
        return None if best is None else 1
    steps = ladder(opening["m"], 50)
    if errors not in steps or (best is not None and errors >= best):
        return None
    if best is None:
        cost, words = 1, 1
        while words < len(steps):
            cost, words = cost + 1, 2 * words
    else:
        cost = 1 + 2 * len(f"{steps.index(best) - steps.index(errors):b}")
    lines = opening["classes"] * asked["per_class"] + (asked["top_k"] is not None)
    rates = [*answer["rates"]]
    if len(rates) != lines or (chosen is None) != (asked["selective"] is None):
        return None
    if chosen is not None:
        cost += 8
        rates += [chosen[1]] if chosen[0] is not None else []
    return cost + 7 * len(rates) if all(rate in ladder(_PARTS, 10) for rate in rates) else None


def _canonical(obj: Any) -> bytes:
    text = json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()
