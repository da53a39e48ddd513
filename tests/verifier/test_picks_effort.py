"""A small file of kind picks asks for no more time and memory than it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.certificates.picks_corpus import by_features, by_list, restated
from tests.certificates.samples import sample

import cushion_verify
from cushion_verify import BadInput, Given, check


def given(content: bytes, tmp_path: Path) -> tuple[Path, Given]:
    path, data = tmp_path / "c.cushion", sample("halves")
    path.write_bytes(content)
    return path, Given(x=data.x, y=data.y, features=sample("halves features").x)


def test_a_million_classes_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    """They took gigabytes and minutes."""
    for classes in (10**5, 10**6):
        content = restated(by_list("halves", 80), classes=classes)
        with pytest.raises(BadInput, match="add `slow`"):
            check(*given(content, tmp_path))


def test_rows_are_scored_few_at_a_time_where_there_are_many_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest, before = [0], cushion_verify.unique_class

    def watched(scores: Any) -> Any:
        largest[0] = max(largest[0], scores.size)
        return before(scores)

    monkeypatch.setattr(cushion_verify, "unique_class", watched)
    check(*given(restated(by_list("halves", 80), classes=20_000), tmp_path))
    assert 0 < largest[0] <= 2**20


def test_features_that_pick_more_than_stated_end_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file says how many it picks, and so how long it takes."""
    learnt, before = [0], cushion_verify.Machine.learn

    def watched(machine: Any, x: Any, y: Any) -> None:
        learnt[0] += len(x)
        before(machine, x, y)

    monkeypatch.setattr(cushion_verify.Machine, "learn", watched)
    content = restated(by_features(), ([], []), slack=5, configuration=127)
    verdict = check(*given(content, tmp_path))
    assert not verdict.ok
    assert "more than 5 as stated" in verdict.reason
    assert learnt[0] <= 8
