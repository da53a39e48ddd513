"""What a certificate of b bits says at m = 60 000: the exact tail beside its two relaxations."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from cushion.numerics import decimal_up, kl_inverse, occam_log_delta
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop
from cushion.theorems.occam import hoeffding_bound, occam_bound

_M = 60_000
_DELTA = Decimal("0.05")
_BITS = (500, 1000, 2000, 4000, 8000)
_ERRORS = ("0", "0.01", "0.02", "0.03", "0.05", "0.08")


def make(workshop: Workshop) -> Page:
    """One row for each length and training error; all columns are rounded up."""
    settings = {"m": _M, "delta": str(_DELTA), "bits": list(_BITS), "errors": list(_ERRORS)}
    cells = [(bits, Decimal(error)) for bits in _BITS for error in _ERRORS]
    rows = workshop.step("occam-table", settings, lambda: [_row(*cell) for cell in cells])
    ordered = sum(float(exact) <= float(kl) <= float(most) for *_, exact, kl, most in rows)
    because = f"in {ordered} of {len(cells)}"
    claim = Tried("exact ≤ kl ≤ Hoeffding in every cell", ordered == len(cells), because)
    header = ("bits", "training error", "exact tail", "kl form", "Hoeffding form")
    return Page([Table(header, rows)], {"m": _M, "delta": str(_DELTA)}, [claim])


def _row(bits: int, error: Decimal) -> list[Any]:
    errors = int(error * _M)
    budget = -occam_log_delta(_DELTA, bits) / _M
    return [
        bits,
        str(error),
        occam_bound(errors, _M, bits, _DELTA),
        decimal_up(kl_inverse(errors / _M, budget)),
        decimal_up(hoeffding_bound(errors, _M, bits, _DELTA)),
    ]
