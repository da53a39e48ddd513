"""Writes the corpus: `python -m tests.certificates.build`. Building again gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.certificates import user_net
from tests.certificates.broken_cases import broken_cases
from tests.certificates.case import Case
from tests.certificates.false_cases import false_cases
from tests.certificates.holdout_corpus import ROWS, holdout_cases, looks
from tests.certificates.picks_corpus import by_fit, classes_by_fit, picks_cases
from tests.certificates.samples import SAMPLES, file_name, sample
from tests.certificates.true_cases import true_cases

from cushion.certificates.answers import score

HERE = Path(__file__).parent


def all_cases() -> Iterator[Case]:
    """Every file of the corpus, in the order in which it is explained."""
    yield from true_cases()
    yield from false_cases()
    yield from broken_cases()
    yield from holdout_cases()
    yield from picks_cases()


def arrays() -> Iterator[tuple[str, bytes]]:
    """The samples as .npy files, f's scores, what a training gives after each round, and a ledger
    of looks, for whoever has numpy alone.
    """
    for name in SAMPLES:
        yield _saved(name, "x", sample(name).x)
        yield _saved(name, "y", sample(name).y)
    for name in ("halves unlabelled", "halves held out"):
        yield _saved(name, "f", score(user_net.f(), sample(name).x).numpy())
    rounds, held = classes_by_fit(by_fit(holdout=True))
    yield _saved("halves", "rounds", rounds)
    yield _saved(ROWS, "classes", held)
    yield looks_name(ROWS), looks()


def looks_name(rows: str) -> str:
    """Of the ledger of looks at these rows, beside the arrays."""
    return f"{rows.replace(' ', '-')}.looks"


def _saved(name: str, part: str, array: np.ndarray) -> tuple[str, bytes]:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return file_name(name, part), buffer.getvalue()


def write(folder: Path) -> int:
    """Write all files and their descriptions under a folder; how many there are."""
    count = 0
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    for name, content in arrays():
        (folder / "samples" / name).write_bytes(content)
    for case in all_cases():
        place = folder / case.folder
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{case.name}.cushion").write_bytes(case.content)
        (place / f"{case.name}.json").write_text(case.description, encoding="utf-8")
        count += 1
    return count


if __name__ == "__main__":
    write(HERE)
