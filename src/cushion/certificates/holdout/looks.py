"""Looking through a ledger: one process at a time, on the disk before anyone is told.

A look is written down before the rows are read, its answer before it is shown. What was killed in
between is found by the next look, as failed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.ledger import (
    MOST_BYTES,
    Ledger,
    Past,
    Request,
    parse_ledger,
    read_ledger,
    with_line,
)
from cushion.certificates.holdout.lines import Told
from cushion.data import registered
from cushion.data.dataset import Dataset
from cushion.data.files import check_regular, check_writable, sync
from cushion.data.registered import chained
from cushion.errors import BadInput


def open_ledger(path: str | Path, data: Dataset, delta: Decimal, beside: Dataset | None) -> Ledger:
    """Start a ledger of these rows, and keep them from everything else on this machine.

    beside: the sample that they are held out of. BadInput where the file exists, or some of the
    rows have a ledger already.
    """
    target = check_writable(path)
    if (known := registered.sharing(data.x, closed=True)) is not None:
        raise BadInput(
            f"rows of {data.name} have a ledger of looks already, {known.ledger}; go on with that "
            "one, or hold out fresh rows"
        )
    first = {
        **{"looks": 1, "data": data.name, "data_fingerprint": data.fingerprint},
        **{"m": len(data), "classes": data.classes, "delta": format(delta, "f")},
    }
    line, chain = chained("", first)
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise BadInput(f"{path} exists; name a new file for the ledger") from None
    with open(handle, "wb") as file:
        _write(file, line)
    sync(target.parent)
    registered.register(data, target, chain, beside=beside)
    return read_ledger(target)


class Holding:
    """A ledger that this process alone writes to."""

    def __init__(self, ledger: Ledger, file: Any) -> None:
        self.ledger, self._file = ledger, file

    def ask(self, request: Request) -> Look:
        """Write down a look; from here on it counts, whatever happens."""
        if self.ledger.closed:
            raise BadInput(f"{self.ledger.path} is closed; hold out fresh rows for more looks")
        if self.ledger.waiting is not None:  # the process that asked was killed
            self.answer(None, "failed")
        said = request.asked
        self._append(
            {
                **{"look": self.ledger.next_number, "net_fingerprint": request.net_fingerprint},
                **{"program": request.program, "tolerance": request.tolerance},
                **{"per_class": said.per_class, "top_k": said.top_k, "selective": said.selective},
            }
        )
        assert self.ledger.waiting is not None
        return self.ledger.waiting[0]

    def answer(self, told: Told | None, said: str) -> Past:
        """Write down what the look was told."""
        assert self.ledger.waiting is not None
        best = self.ledger.best
        bits = grid.failed_bits(best) if said == "failed" else grid.NO_BETTER_BITS
        obj = {"answer": self.ledger.waiting[0].number, "said": said, "errors": None}
        obj |= {"rates": [], "chosen": None}
        if told is not None:
            bits = told.bits(self.ledger.m, best)
            chosen = None if told.chosen is None else list(told.chosen)
            obj |= {"errors": told.errors, "rates": list(told.rates), "chosen": chosen}
        self._append({**obj, "bits": bits})
        return self.ledger.past[-1]

    def close(self) -> None:
        """No more looks; the rows are free."""
        if self.ledger.waiting is not None:
            self.answer(None, "failed")
        if not self.ledger.closed:
            self._append({"closed": True})

    def take_up(self, rows: Dataset, beside: Dataset | None) -> None:
        """Keep the ledger's rows from everything else, where it was begun on another machine."""
        if registered.registered(self.ledger.data_fingerprint) is not None:
            return
        if (known := registered.sharing(rows.x, closed=True)) is not None:
            raise BadInput(
                f"{self.ledger.path}: rows of {rows.name} have another ledger of looks here, "
                f"{known.ledger}; go on with that one, or hold out fresh rows"
            )
        registered.register(rows, self.ledger.path, self.ledger.chains[-1], beside=beside)
        self._remember()

    def _append(self, obj: dict[str, Any]) -> None:
        line, chain = chained(self.ledger.chains[-1], obj)
        grown = with_line(self.ledger, obj, chain)
        _write(self._file, line)
        self.ledger = grown
        self._remember()

    def _remember(self) -> None:
        """The store knows how far the ledger has come, so that one set back is noticed."""
        known = registered.registered(self.ledger.data_fingerprint)
        if known is not None:
            chain, closed = self.ledger.chains[-1], self.ledger.closed
            where = self.ledger.path.resolve()
            registered.note(replace(known, ledger=where, chain=chain, closed=closed))


@contextmanager
def holding(path: str | Path) -> Iterator[Holding]:
    """The ledger for this process alone; the system lets go of it, however the process ends."""
    check_regular(path)
    try:
        file = open(path, "r+b")  # noqa: SIM115
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "no such name"
        raise BadInput(f"{path}: cannot be written ({why}); name a ledger of looks") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"{path}: another process is looking through this ledger; wait until it has ended"
            ) from None
        content = file.read(MOST_BYTES + 1)
        ledger = parse_ledger(Path(path), content)
        file.truncate(content.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        yield Holding(_unmoved(ledger), file)


def _unmoved(ledger: Ledger) -> Ledger:
    """The ledger; BadInput if it is not the one, or not as long, as the store knows of its rows."""
    known = registered.registered(ledger.data_fingerprint)
    if known is None:
        return ledger
    if known.ledger != ledger.path.resolve() and known.ledger.exists():
        raise BadInput(
            f"{ledger.path}: the ledger of these rows is {known.ledger}; look through that one"
        )
    if known.chain not in ledger.chains:
        raise BadInput(
            f"{ledger.path} was set back or altered: looks that were made are not in it; restore it"
        )
    return ledger


def _write(file: Any, line: bytes) -> None:
    """Append, and wait until the disk has it."""
    file.write(line)
    file.flush()
    os.fsync(file.fileno())
