"""The length of a simulation: few draws in the gate, many in `make test-full`."""

from __future__ import annotations

import pytest


def few_and_many(name: str, few: int, many: int) -> pytest.MarkDecorator:
    """The test with `name` = few, and behind the mark `full` with `name` = many."""
    return pytest.mark.parametrize(name, [few, pytest.param(many, marks=pytest.mark.full)])
