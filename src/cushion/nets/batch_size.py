"""How many rows pass a net at a time, where that changes memory and time and no answer.

Passes that keep a number for each row (scores, margins, losses) ask here. Stages that draw noise
for a shard of rows have sizes of their own: there the size is part of the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cushion.errors import BadInput

USUAL = 256
_ROWS: ContextVar[int] = ContextVar("rows at a time", default=USUAL)


@contextmanager
def batches(rows: int | None) -> Iterator[None]:
    """Inside, passes take that many rows at a time; None: as many as outside.

    BadInput unless it is a whole number of at least 1. Where memory runs out, `engine` halves it.
    """
    if rows is None:
        yield
        return
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise BadInput(f"`batch` must be a whole number of at least 1, not {rows}")
    before = _ROWS.set(rows)
    try:
        yield
    finally:
        _ROWS.reset(before)


def rows_at_a_time() -> int:
    """What the innermost `batches` says."""
    return _ROWS.get()
