"""The ledger of looks: everything that was ever told about some held-out rows, in order.

A file of lines, each canonical JSON with a running sha256 (`chain`) over all before it: first which
rows, how many, and δ; then for each look what was asked, and what was answered. A look is on the
disk before the rows are read and its answer before anyone is told (`looks`), so a look that was
killed in between has no answer, and counts as failed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.ledger_lines import check_answer, check_opening, check_request
from cushion.certificates.holdout.lines import Asked, Told, bound_of
from cushion.data.files import check_regular
from cushion.data.registered import canonical, chained
from cushion.errors import BadInput, Malformed

MOST_BYTES = 2**24
_CLOSED = b'{"closed":true}'


@dataclass(frozen=True)
class Request:
    """What a look asks: of which net, and which lines."""

    net_fingerprint: str
    program: str | None
    tolerance: str
    asked: Asked


@dataclass(frozen=True)
class Past:
    """A look that was made: what it asked, and what it was told (None: no better, or failed)."""

    look: Look
    request: Request
    said: str  # "counted", "no better" or "failed"
    told: Told | None
    bits: int


@dataclass(frozen=True)
class Ledger:
    """All looks at m rows, each checked when it was read.

    chains: the running hash behind each line. waiting: a look without an answer.
    """

    path: Path
    data: str
    data_fingerprint: str
    m: int
    classes: int
    delta: Decimal
    chains: tuple[str, ...]
    past: tuple[Past, ...] = ()
    waiting: tuple[Look, Request] | None = None
    closed: bool = False

    @property
    def best(self) -> int | None:
        """The least count stated so far."""
        return min((one.told.errors for one in self.past if one.told is not None), default=None)

    @property
    def bits(self) -> int:
        """What the next look has to pay: the answers so far."""
        waiting = 0 if self.waiting is None else grid.failed_bits(self.best)
        return waiting + sum(one.bits for one in self.past)

    @property
    def next_number(self) -> int:
        return len(self.past) + (self.waiting is not None) + 1

    def price(self, errors: int) -> Decimal:
        """How much larger the next look's bound on so many errors is than that of a first use."""
        look = Look(self.next_number, self.bits, self.chains[-1])
        now, first = (bound_of(errors, self.m, self.delta, one) for one in (look, None))
        return Decimal(now) - Decimal(first)

    def repeated(self, request: Request) -> Past | None:
        """An earlier look that asked the same: its answer tells nothing new, and costs nothing."""
        answered = (one for one in self.past if one.request == request and one.said != "failed")
        return next(answered, None)


# ---- the file


def read_ledger(path: str | Path) -> Ledger:
    """The ledger, every line checked; BadInput or Malformed in one sentence."""
    check_regular(path)
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem, "read") from None
    return parse_ledger(Path(path), content)


def unreadable(path: str | Path, problem: Exception, what: str) -> BadInput:
    """The refusal of a ledger that the system does not open; what: "read" or "written"."""
    if isinstance(problem, FileNotFoundError):
        how = f"open a ledger first: cushion holdout open DATA -o {path}"
        return BadInput(f"{path} does not exist; {how}")
    why = getattr(problem, "strerror", None) or "no such name"
    return BadInput(f"{path}: cannot be {what} ({why}); name a ledger of looks")


def parse_ledger(path: Path, content: bytes) -> Ledger:
    """The ledger in the bytes of a file."""
    # what a machine that lost its power left of a last line: nobody was told anything by it
    whole = content[: content.rfind(b"\n") + 1]
    if len(content) > MOST_BYTES or not whole:
        raise Malformed(f"{path}: this is no ledger of looks; name one")
    ledger, chain = None, ""
    for number, line in enumerate(whole[:-1].split(b"\n"), 1):
        try:
            obj = json.loads(line.decode("utf-8"))
            if not isinstance(obj, dict) or canonical(obj) != line:
                raise Malformed("it is not canonical JSON")
            stated = obj.pop("chain", None)
            _, chain = chained(chain, obj)
            if stated != chain:
                raise Malformed("its running hash does not fit; a line was changed or is missing")
            ledger = _opened(path, obj, chain) if ledger is None else with_line(ledger, obj, chain)
        except (ValueError, RecursionError):
            raise Malformed(f"{path}: line {number}: it is not JSON; restore the ledger") from None
        except Malformed as problem:
            raise Malformed(f"{path}: line {number}: {problem}; restore the ledger") from None
    assert ledger is not None
    return ledger


def _opened(path: Path, obj: dict[str, Any], chain: str) -> Ledger:
    check_opening(obj)
    known = {key: obj[key] for key in ("data", "data_fingerprint", "m", "classes")}
    return Ledger(path, **known, delta=Decimal(obj["delta"]), chains=(chain,))


def with_line(ledger: Ledger, obj: dict[str, Any], chain: str) -> Ledger:
    """The ledger with one more line."""
    grown = replace(ledger, chains=(*ledger.chains, chain))
    if ledger.closed:
        raise Malformed("it stands behind the line that closed the ledger")
    if ledger.waiting is not None:
        return _answered(grown, obj)
    if canonical(obj) == _CLOSED:  # 1 equals True, but is written otherwise
        return replace(grown, closed=True)
    check_request(obj, ledger.next_number)
    asked = Asked(obj["per_class"], obj["top_k"], obj["selective"])
    request = Request(obj["net_fingerprint"], obj["program"], obj["tolerance"], asked)
    return replace(grown, waiting=(Look(ledger.next_number, ledger.bits, chain), request))


def _answered(ledger: Ledger, obj: dict[str, Any]) -> Ledger:
    assert ledger.waiting is not None
    look, request = ledger.waiting
    told = check_answer(obj, look.number, ledger.m, ledger.classes, request.asked, ledger.best)
    past = Past(look, request, obj["said"], told, obj["bits"])
    return replace(ledger, past=(*ledger.past, past), waiting=None)
