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
    unreadable,
    with_line,
)
from cushion.certificates.holdout.ledger_lines import is_printable
from cushion.certificates.holdout.lines import Told
from cushion.data import registered
from cushion.data.dataset import Dataset
from cushion.data.files import check_regular, check_writable, write_whole
from cushion.data.registered import Registered, chained
from cushion.errors import BadInput
from cushion.records.text import one_line

_OPENING = "another process is opening a ledger of looks; wait until it has ended"


def check_unopened(data: Dataset) -> None:
    """BadInput where some of the rows have a ledger; not where `open` was killed before it wrote
    the ledger of just these.
    """
    known = registered.sharing(data.x, closed=True)
    if known is None:
        return
    how = "go on with that one, or hold out fresh rows"
    if known.closed:
        how = "which is closed; hold out fresh rows"
    elif known.may_be_opened_again:
        if known.fingerprint == data.fingerprint:
            return
        how = f"which is not there; open it again with the rows that it was for, {known.name}"
    raise BadInput(f"rows of {data.name} have a ledger of looks already, {known.ledger}; {how}")


def open_ledger(path: str | Path, data: Dataset, delta: Decimal, beside: Dataset | None) -> Ledger:
    """Start a ledger of these rows, and keep them from everything else on this machine.

    beside: the sample that they are held out of. BadInput where the file exists, or some of the
    rows have a ledger already. Killed at any moment, the rows are free and there is no file, or
    they are kept, and it can be called again.
    """
    target = check_writable(path)
    first = {
        **{"looks": 1, "data": data.name, "data_fingerprint": data.fingerprint},
        **{"m": len(data), "classes": data.classes, "delta": format(delta, "f")},
    }
    if not is_printable(data.name):
        raise BadInput(
            f"{one_line(data.name)}: a ledger cannot hold this name, which has characters that are "
            "not printed; give the rows another one"
        )
    line, chain = chained("", first)
    with registered.locked("opening", _OPENING), registered.locked(data.fingerprint, _OPENING):
        check_unopened(data)
        if target.exists():
            raise BadInput(f"{path} exists; name a new file for the ledger")
        entry = registered.register(data, target, chain, beside=beside)
        try:
            write_whole(target, line)
        except BadInput:
            registered.forget(entry)
            raise
    registered.doubt_ledger(data, Path(path))
    return read_ledger(target)


def check_program(program: str | None) -> None:
    """BadInput where nobody could say whether a net is the same function as before."""
    if program is None:
        raise BadInput(
            "the code of your net cannot be read, or it keeps numbers that its forward changes, so "
            "another net could take its place; define it in a file, with its numbers in parameters "
            "and buffers, or export it with torch.export or TorchScript"
        )


class Holding:
    """A ledger that this process alone writes to.

    known: what the store has of its rows, as this process read or wrote it last.
    """

    def __init__(self, ledger: Ledger, file: Any, known: Registered | None) -> None:
        self.ledger, self._file, self._known = ledger, file, known
        self._remember()

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
        if self._known is not None:
            return
        path, chains = self.ledger.path, self.ledger.chains
        with registered.locked("opening", _OPENING):
            if (known := registered.sharing(rows.x, closed=True)) is not None:
                raise BadInput(
                    f"{path}: rows of {rows.name} have another ledger of looks here, "
                    f"{known.ledger}; go on with that one, or hold out fresh rows"
                )
            self._known = registered.register(
                rows, path, chains[-1], beside=beside, opening=chains[0]
            )
        self._remember()
        registered.doubt_ledger(rows, path)

    def _append(self, obj: dict[str, Any]) -> None:
        line, chain = chained(self.ledger.chains[-1], obj)
        grown = with_line(self.ledger, obj, chain)
        # a copy that went its own way meanwhile: with two ledgers, each would be paid too little
        if (now := registered.registered(self.ledger.data_fingerprint)) != self._known:
            other = "" if now is None else f"; go on with {now.ledger}"
            raise BadInput(
                f"{self.ledger.path}: what is known of its rows was changed meanwhile, so nothing "
                f"is written or told{other}"
            )
        _write(self._file, line)
        self.ledger = grown
        self._remember()

    def _remember(self) -> None:
        """The store knows how far the ledger has come, so that one set back is noticed."""
        if self._known is not None:
            chain, closed = self.ledger.chains[-1], self.ledger.closed
            where = self.ledger.path.resolve()
            now = replace(self._known, ledger=where, chain=chain, closed=closed)
            if now != self._known:
                self._known = registered.note(now)


@contextmanager
def holding(path: str | Path) -> Iterator[Holding]:
    """The ledger and its rows, whatever copy of it, for this process alone; the system lets go of
    them, however the process ends.
    """
    busy = f"{path}: another process is looking through this ledger; wait until it has ended"
    check_regular(path)
    try:
        file = open(path, "r+b")  # noqa: SIM115
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem, "written") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(busy) from None
        content = file.read(MOST_BYTES + 1)
        ledger = parse_ledger(Path(path), content)
        with registered.locked(ledger.data_fingerprint, busy):
            known = _known(ledger)
            file.truncate(content.rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            yield Holding(ledger, file, known)


def _known(ledger: Ledger) -> Registered | None:
    """What the store has of the ledger's rows; BadInput if this is not the ledger that it knows, or
    not as long.
    """
    known = registered.registered(ledger.data_fingerprint)
    if known is None:
        return None
    if known.ledger != ledger.path.resolve() and known.ledger.exists():
        raise BadInput(
            f"{ledger.path}: the ledger of these rows is {known.ledger}; look through that one"
        )
    if known.chain not in ledger.chains:
        raise BadInput(
            f"{ledger.path} was set back or altered: looks that were made are not in it; restore it"
        )
    return known


def _write(file: Any, line: bytes) -> None:
    """Append, and wait until the disk has it."""
    file.write(line)
    file.flush()
    os.fsync(file.fileno())
