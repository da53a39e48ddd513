"""Held-out rows under a ledger of looks: which they are, so that nothing else reads them.

`cushion holdout open` writes their hashes beside the named sets; where data come in, rows of an
open ledger are refused unless they are read through it. Copies of the rows on other machines are
not known here: that nobody looks at them there is an assumption of every certificate.
"""

from __future__ import annotations

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
from cushion.data.files import write_whole
from cushion.data.rows import count_among, row_hashes
from cushion.data.store import root
from cushion.errors import BadInput

_THROUGH: ContextVar[Path | None] = ContextVar("through", default=None)
_FIELDS = {"ledger": str, "name": str, "chain": str, "closed": bool}


@dataclass(frozen=True)
class Registered:
    """Rows under the ledger at `ledger`, as it was known last: chain is its running hash then."""

    fingerprint: str
    ledger: Path
    name: str
    chain: str
    closed: bool

    def rows(self) -> NDArray[np.uint64]:
        """Sorted hashes of the inputs, without their labels."""
        file = _folder() / f"{self.fingerprint}.rows"
        try:
            return np.frombuffer(file.read_bytes(), "<u8")
        except (OSError, ValueError):
            raise _damaged(file) from None


def register(
    data: Dataset, ledger: Path, chain: str, *, beside: Dataset | None = None
) -> Registered:
    """Put the rows under the ledger; rows that are in the sample `beside` them too stay free."""
    hashes = np.unique(row_hashes(data.x))
    if beside is not None and beside.x.dtype == data.x.dtype:
        hashes = np.setdiff1d(hashes, row_hashes(beside.x))
    _folder().mkdir(parents=True, exist_ok=True)
    write_whole(_folder() / f"{data.fingerprint}.rows", hashes.astype("<u8").tobytes())
    return note(Registered(data.fingerprint, ledger.resolve(), data.name, chain, False))


def note(entry: Registered) -> Registered:
    """Write down where the ledger is and how far it has come."""
    said = {"ledger": str(entry.ledger), "name": entry.name, "chain": entry.chain}
    text = json.dumps({**said, "closed": entry.closed}, indent=2) + "\n"
    write_whole(_folder() / f"{entry.fingerprint}.json", text)
    return entry


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
    entry = sharing(x)
    if entry is None or entry.ledger == _THROUGH.get():
        return ""
    return (
        f"{name} has rows that are under the ledger of looks {entry.ledger} and are read only "
        f"through it: cushion certify --kind holdout --looks {entry.ledger}"
    )


def check_free(x: NDArray[Any], name: str) -> None:
    """BadInput for rows that may be read through a ledger of looks only."""
    if said := withheld(x, name):
        raise BadInput(f"{said} (cushion holdout close sets them free)")


@contextmanager
def reading_through(ledger: str | Path | None) -> Iterator[None]:
    """Inside, the rows of this ledger may be read."""
    before = _THROUGH.set(None if ledger is None else Path(ledger).resolve())
    try:
        yield
    finally:
        _THROUGH.reset(before)


def _folder() -> Path:
    return root() / "looks"


def _read(file: Path) -> Registered:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or {k: type(v) for k, v in found.items()} != _FIELDS:
            raise ValueError
        return Registered(file.stem, **{**found, "ledger": Path(found["ledger"])})
    except (OSError, ValueError, RecursionError):
        raise _damaged(file) from None


def _damaged(file: Path) -> BadInput:
    said = "it says which held-out rows are under a ledger of looks, and cannot be read"
    return BadInput(f"{file}: {said}; restore it, or remove it and open the ledger again")
