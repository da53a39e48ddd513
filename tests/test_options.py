"""Options check themselves once, and say in one sentence what a value must be."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from cushion.errors import BadInput
from cushion.records import Options, option
from cushion.records.options import options_of


class Chosen(Options):
    """One option of every kind."""

    rows: int = option(10, "how many rows", least=1)
    rate: float = option(0.5, "a rate", above=0, below=1)
    size: float | None = option(None, "a size", least=0, most=2)
    law: Literal["normal", "sphere"] = option("normal", "the law")
    levels: tuple[float, ...] = option((0.1, 1.0), "levels", above=0)
    names: tuple[str, ...] = option((), "names")
    loud: bool = option(False, "say more")
    either: int | float = option(1, "a number", least=0)
    untold: int = 7


GOOD: list[dict[str, Any]] = [
    {},
    {"rows": 1},
    {"rate": 0.999},
    {"size": 0},
    {"size": 2.0},
    {"size": None},
    {"law": "sphere"},
    {"levels": (3,)},
    {"names": ("a",)},
    {"loud": True},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"rows": 0}, "`rows` must be a whole number of at least 1, not 0"),
    ({"rows": 1.5}, "`rows` must be a whole number of at least 1, not 1.5"),
    ({"rows": True}, "`rows` must be a whole number of at least 1, not True"),
    ({"rows": "3"}, "`rows` must be a whole number of at least 1, not 3"),
    ({"rows": None}, "`rows` must be a whole number of at least 1, not None"),
    ({"rate": 0.0}, "`rate` must be a number above 0 and below 1, not 0"),
    ({"rate": 1.0}, "`rate` must be a number above 0 and below 1, not 1"),
    ({"rate": float("nan")}, "`rate` must be a number above 0 and below 1, not nan"),
    ({"size": 2.1}, "`size` must be a number of at least 0 and at most 2, not 2.1"),
    ({"law": "other"}, "`law` must be one of normal, sphere, not other"),
    ({"levels": ()}, "`levels` must be numbers above 0, such as 0.1,1, not nothing"),
    ({"levels": (1.0, 0.0)}, "`levels` must be numbers above 0, such as 0.1,1, not 1,0"),
    ({"levels": (float("inf"),)}, "`levels` must be numbers above 0, such as 0.1,1, not inf"),
    ({"names": "ab"}, "`names` must be words, not ab"),
    ({"either": None}, "`either` must be a number of at least 0, not None"),
    ({"loud": 1}, "`loud` must be True or False, not 1"),
]


@pytest.mark.parametrize("given", GOOD)
def test_what_is_in_range_is_taken(given: dict[str, Any]) -> None:
    chosen = Chosen(**given)
    for name, value in given.items():
        assert getattr(chosen, name) == value


@pytest.mark.parametrize(("given", "sentence"), BAD)
def test_what_is_not_is_refused_by_name_and_value(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        Chosen(**given)
    assert str(refused.value) == sentence


def test_large_limits_are_readable() -> None:
    class Seeded(Options):
        seed: int = option(0, "a seed", least=0, below=2**63)

    assert Seeded(2**63 - 1).seed == 2**63 - 1
    with pytest.raises(BadInput) as refused:
        Seeded(2**63)
    assert "a whole number of at least 0 and below 2^63, not" in str(refused.value)


def test_numbers_of_numpy_are_numbers() -> None:
    Chosen(rows=np.int64(3), rate=np.float32(0.5), levels=np.array([0.1, 2.0]))
    with pytest.raises(BadInput, match="`rows`"):
        Chosen(rows=np.float64(3.5))


def test_only_described_fields_are_options() -> None:
    assert [one.name for one in options_of(Chosen)][-1] == "either"
    by_name = {one.name: one for one in options_of(Chosen)}
    assert (by_name["rows"].kind, by_name["rows"].default) == (int, 10)
    assert (by_name["size"].kind, by_name["size"].optional) == (float, True)
    assert by_name["law"].choices == ("normal", "sphere")
    assert (by_name["levels"].kind, by_name["levels"].many) == (float, True)
