"""Writes the corpus: `python -m tests.certificates.build`. Building again gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.certificates.broken_cases import broken_cases
from tests.certificates.case import Case
from tests.certificates.false_cases import false_cases
from tests.certificates.true_cases import true_cases

HERE = Path(__file__).parent


def all_cases() -> Iterator[Case]:
    """Every file of the corpus, in the order in which it is explained."""
    yield from true_cases()
    yield from false_cases()
    yield from broken_cases()


def write(folder: Path) -> int:
    """Write all files and their descriptions under a folder; how many there are."""
    count = 0
    for case in all_cases():
        place = folder / case.folder
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{case.name}.cushion").write_bytes(case.content)
        (place / f"{case.name}.json").write_text(case.description, encoding="utf-8")
        count += 1
    return count


if __name__ == "__main__":
    write(HERE)
