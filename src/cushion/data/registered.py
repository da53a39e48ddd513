"""Held-out rows under a ledger of looks: which they are, so that nothing else reads them.

`cushion holdout open` writes their hashes beside the named sets; where data come in, rows of an
open ledger are refused unless they are read through it. Of other held-out rows it is remembered
which classifiers were counted on them. Copies of the rows on other machines are not known here:
that nobody looks at them there is an assumption of every certificate.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.dataset import Dataset
from cushion.data.files import check_regular, write_whole
from cushion.data.rows import count_among, row_hashes
from cushion.data.store import root
from cushion.errors import BadInput, CushionError, remark

_THROUGH: ContextVar[Path | None] = ContextVar("through", default=None)
_FIELDS = {"ledger": str, "name": str, "chain": str, "closed": bool, "opening": str}
_AGAIN = "open it again (cushion holdout open), as no look was made"


class Withheld(BadInput):
    """Rows that are read only through a ledger of looks."""


@dataclass(frozen=True)
class Registered:
    """Rows under the ledger at `ledger`, as it was known last: chain is its running hash then.

    opening: the same behind its first line ("" where that is not known).
    """

    fingerprint: str
    ledger: Path
    name: str
    chain: str
    closed: bool
    opening: str = ""

    @property
    def may_be_opened_again(self) -> bool:
        """Whether nobody was told anything, and the file is not there: `open` was killed, say."""
        return self.chain == self.opening and not self.closed and not self.ledger.exists()

    def is_at(self, path: Path) -> bool:
        """Whether the ledger is the file at this resolved path; it may have been moved there."""
        if path == self.ledger:
            return True
        return not self.ledger.exists() and self.chain in _chains(path)

    def rows(self) -> NDArray[np.uint64]:
        """Sorted hashes of the inputs, without their labels."""
        file = _folder() / f"{self.fingerprint}.rows"
        try:
            return np.frombuffer(file.read_bytes(), "<u8")
        except (OSError, ValueError):
            raise _damaged(file) from None


def register(
    data: Dataset,
    ledger: Path,
    chain: str,
    *,
    beside: Dataset | None = None,
    opening: str | None = None,
) -> Registered:
    """Put the rows under the ledger; rows that are in the sample `beside` them too stay free.

    opening: the chain behind its first line, where there are others already.
    """
    hashes = np.unique(row_hashes(data.x))
    if beside is not None and beside.x.dtype == data.x.dtype:
        hashes = np.setdiff1d(hashes, row_hashes(beside.x))
    _folder().mkdir(parents=True, exist_ok=True)
    write_whole(_folder() / f"{data.fingerprint}.rows", hashes.astype("<u8").tobytes())
    first = chain if opening is None else opening
    return note(Registered(data.fingerprint, ledger.resolve(), data.name, chain, False, first))


def note(entry: Registered) -> Registered:
    """Write down where the ledger is and how far it has come."""
    said = {name: getattr(entry, name) for name in _FIELDS} | {"ledger": str(entry.ledger)}
    write_whole(_folder() / f"{entry.fingerprint}.json", json.dumps(said, indent=2) + "\n")
    return entry


def forget(entry: Registered) -> None:
    """Set the rows free: their ledger was never written."""
    (_folder() / f"{entry.fingerprint}.json").unlink(missing_ok=True)


@contextmanager
def locked(what: str, refusal: str) -> Iterator[None]:
    """`what` for this process alone; the system lets go of it, however the process ends."""
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        file = open(_folder() / f"{what}.lock", "ab")  # noqa: SIM115
    except OSError as problem:
        why = f"{_folder()} cannot be written ({problem.strerror or problem})"
        raise BadInput(f"{why}; set CUSHION_DATA to a folder that can") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(refusal) from None
        yield


def registered(fingerprint: str) -> Registered | None:
    """What is known of the rows with this fingerprint."""
    file = _folder() / f"{fingerprint}.json"
    return _read(file) if file.exists() else None


def sharing(x: NDArray[Any], *, closed: bool = False) -> Registered | None:
    """A ledger some of whose rows are among these; closed: also one that was closed."""
    hashes = None
    for file in sorted(_folder().glob("*.json")) if _folder().is_dir() else ():
        entry = _read(file)
        if entry.closed and not closed:
            continue
        hashes = row_hashes(x) if hashes is None else hashes
        if count_among(hashes, entry.rows()):
            return entry
    return None


def withheld(x: NDArray[Any], name: str) -> str:
    """Why these rows may not be read here, as a sentence; empty if they may."""
    entry, through = sharing(x), _THROUGH.get()
    if entry is None or (through is not None and entry.is_at(through)):
        return ""
    under = f"{name} has rows that are under the ledger of looks {entry.ledger}"
    again = f"; if it was never written, {_AGAIN}" if entry.may_be_opened_again else ""
    if through is not None:
        moved = "" if entry.ledger.exists() else ", or where it was moved,"
        return f"{under}, and {through} is not that one; give that one{moved} as `looks`{again}"
    how = f"cushion certify --kind holdout --looks {entry.ledger}"
    return f"{under} and are read only through it: {how}{again}"


def check_free(x: NDArray[Any], name: str) -> None:
    """Withheld for rows that may be read through a ledger of looks only, and not through this."""
    if said := withheld(x, name):
        close = " (cushion holdout close sets them free, but not for a first use)"
        free = "" if _THROUGH.get() is not None else close
        raise Withheld(f"{said}{free}")


def check_first_use(x: NDArray[Any], name: str) -> None:
    """BadInput for rows that have or had a ledger of looks: that nobody looked at them would be
    false.
    """
    if said := _looked_at(x, name):
        raise BadInput(f"{said}; give other rows")


def unless_looked_at(holdout: Dataset | None) -> Dataset | None:
    """The held-out rows, for a line that is true of their first use; None, and that is said, for
    rows that had a ledger of looks.
    """
    if holdout is None or not (said := _looked_at(holdout.x, holdout.name)):
        return holdout
    remark(f"{said}; going on without a hold-out line")
    return None


def _looked_at(x: NDArray[Any], name: str) -> str:
    """Why these rows are not used first here, as a sentence; empty if they may be."""
    entry = sharing(x, closed=True)
    if entry is None:
        return ""
    how = "which is closed" if entry.closed else "which is open"
    return (
        f"{name} has rows that were looked at under the ledger of looks {entry.ledger}, {how}, so "
        "that this is their first use would be false"
    )


# ---- first uses


def note_first_use(data: Dataset, who: str, looks: int | None = None) -> None:
    """Remember a classifier that was counted on held-out rows as if nobody had looked at them; if
    another was, that is said.

    who: f by the fingerprints of its numbers and program, g by that of its message. looks: how many
    classifiers the statement pays for, where it can pay for some.
    """
    known = first_uses(data)
    number = len(known | {who})
    if known - {who} and (looks is None or looks < number):
        others = "another classifier was"
        if number > 2:
            others = f"{number - 1} other classifiers were"
        how = "keep a ledger of looks (cushion holdout open), or share δ among nets fixed before"
        if looks is not None:
            how = f"pay for all with --looked {number} (in Python PicksOptions(looks={number}))"
        remark(f"{others} counted on {data.name} before, so this is not their first use: {how}")
    remember_use(data, who)


def remember_use(data: Dataset, who: str) -> None:
    """Remember a classifier that was counted on held-out rows, and say nothing."""
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        known = {*first_uses(data), who}
        write_whole(_uses(data), "".join(f"{one}\n" for one in sorted(known)))
    except (OSError, CushionError):
        pass  # what cannot be kept is not known later; the statement assumes it anyway


def doubt_ledger(data: Dataset, ledger: Path) -> None:
    """Say so where classifiers were counted on these rows before they had this ledger."""
    if known := len(first_uses(data)):
        said = "a classifier was" if known == 1 else f"{known} classifiers were"
        remark(
            f"{said} counted on {data.name} before this ledger: {ledger} holds only for someone "
            "who has not seen that"
        )


def first_uses(data: Dataset) -> set[str]:
    """The classifiers that were counted on these rows, in any order, as their first use here."""
    try:
        return set(_uses(data).read_text(encoding="utf-8").split())
    except (OSError, ValueError):
        return set()


def _uses(data: Dataset) -> Path:
    rows = np.unique(row_hashes(data.x)).astype("<u8")
    return _folder() / f"{hashlib.sha256(rows.tobytes()).hexdigest()}.uses"


# ---- through the ledger


@contextmanager
def reading_through(ledger: str | Path | None) -> Iterator[None]:
    """Inside, the rows of this ledger may be read."""
    before = _THROUGH.set(None if ledger is None else Path(ledger).resolve())
    try:
        yield
    finally:
        _THROUGH.reset(before)


def is_reading_through() -> bool:
    """Whether rows of some ledger are wanted here, so that others in their place are no help."""
    return _THROUGH.get() is not None


def chained(before: str, obj: dict[str, Any]) -> tuple[bytes, str]:
    """The line of an object behind the chain so far, and the chain behind it."""
    chain = hashlib.sha256(before.encode() + b"\n" + canonical(obj)).hexdigest()
    return canonical({**obj, "chain": chain}) + b"\n", chain


def canonical(obj: Any) -> bytes:
    """Canonical JSON (FORMAT.md, section 1)."""
    return json.dumps(
        obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def _chains(path: Path) -> list[str]:
    """The running hash behind each line of a ledger, computed again; none of another file."""
    found, chain = [], ""
    try:
        for line in check_regular(path).read_bytes().splitlines():
            obj = json.loads(line)
            del obj["chain"]
            chain = chained(chain, obj)[1]
            found.append(chain)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, CushionError):
        pass  # what is wrong with it is said where it is read
    return found


def _folder() -> Path:
    return root() / "looks"


def _read(file: Path) -> Registered:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        found = {"opening": "", **found} if isinstance(found, dict) else {}
        if {name: type(value) for name, value in found.items()} != _FIELDS:
            raise ValueError
        return Registered(file.stem, **{**found, "ledger": Path(found["ledger"])})
    except (OSError, ValueError, RecursionError):
        raise _damaged(file) from None


def _damaged(file: Path) -> BadInput:
    said = "it says which held-out rows are under a ledger of looks, and cannot be read"
    return BadInput(f"{file}: {said}; restore it, or remove it and open the ledger again")
