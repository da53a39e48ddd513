"""A proved value is never printed smaller than it is."""

from __future__ import annotations

import pytest

from cushion.theorems.records import Statement


@pytest.mark.parametrize("value", [0.1234561, 0.12345600001, 0.5, 1e-9, 0.9999999])
def test_what_is_proved_is_rounded_up(value: float) -> None:
    row = Statement("a bound", "a paper", "corrected", "f").proves(value, "a meaning")
    assert row.value is not None
    assert value <= row.value <= value + 1.1e-6
