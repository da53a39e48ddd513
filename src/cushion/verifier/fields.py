"""What the format allows in a claim's fields: counts, fingerprints, probabilities. Anything else is
malformed.
"""

from __future__ import annotations

import re
from decimal import Decimal

from cushion.errors import Malformed

MOST_EXAMPLES = 10**7

_DECIMAL = re.compile(r"0\.[0-9]{1,18}|1\.0{1,18}", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def check_counts(count: int, m: int, what: str, among: str) -> None:
    """0 ≤ count ≤ m and 1 ≤ m ≤ 10^7."""
    if not 1 <= m <= MOST_EXAMPLES or not 0 <= count <= m:
        raise Malformed(f"{count} {what} among {m} {among} is not a count that the format allows")


def check_fingerprint(text: str, what: str) -> None:
    """64 lower-case hexadecimal digits."""
    if not _FINGERPRINT.fullmatch(text):
        raise Malformed(f"{what} must be 64 hexadecimal digits")


def check_line(delta: str, bound: str) -> None:
    """Plain decimals: 0 < δ ≤ 0.5 and 0 ≤ bound ≤ 1."""
    if not _DECIMAL.fullmatch(delta) or not _DECIMAL.fullmatch(bound):
        raise Malformed("delta and bound must be plain decimals such as 0.05")
    if not 0 < Decimal(delta) <= Decimal("0.5"):
        raise Malformed(f"delta = {delta} must be above 0 and at most 0.5")
