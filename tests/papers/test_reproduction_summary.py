"""All pages in one: verdicts and claims under their answers, from records alone; and what docs/
shows of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import ask

from cushion.errors import BadInput, Malformed
from cushion.papers.registry import ITEMS
from cushion.papers.summary import summarise

ROOT = Path(__file__).parents[2]
CLAIM = {"because": "b", "in_paper": None, "paper_because": ""}


def put(out: Path, item: str, size: str, verdict: str, **claims: bool | None) -> None:
    folder = out / item / size
    folder.mkdir(parents=True)
    listed = [{"text": text, "holds": holds, **CLAIM} for text, holds in claims.items()]
    (folder / "records.json").write_text(json.dumps({"verdict": verdict, "claims": listed}))
    (folder / "done.json").write_text("{}")


def test_the_largest_size_counts_and_claims_stand_under_their_answers(tmp_path: Path) -> None:
    put(tmp_path, "arora2018-table1", "quick", "reproduced", small=True)
    put(tmp_path, "arora2018-table1", "recorded", "differs", holds=True, fails=False, open=None)
    text = summarise(tmp_path, "../pages")
    assert f"1 of {len(ITEMS)} items are done" in text
    assert "[arora2018-table1](../pages/arora2018-table1/recorded/page.md)" in text
    assert "| recorded | differs | 1 of 3 |" in text
    assert "## Claims that hold (1)\n\n- arora2018-table1: holds (b)" in text
    assert "## Claims that do not hold (1)\n\n- arora2018-table1: fails (b)" in text
    assert "## Claims that cannot be decided (1)\n\n- arora2018-table1: open (b)" in text
    assert "small" not in text


def test_nothing_done_and_damaged_records_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="no finished item"):
        summarise(tmp_path)
    code, _, error = ask(capsys, "reproduce", "--summary", "-o", str(tmp_path))
    assert code == 2
    assert "no finished item" in error
    put(tmp_path, "arora2018-table1", "quick", "reproduced")
    assert "| - |" in ask(capsys, "reproduce", "--summary", "-o", str(tmp_path))[1]
    (tmp_path / "arora2018-table1" / "quick" / "records.json").write_text("{")
    with pytest.raises(Malformed, match="damaged"):
        summarise(tmp_path)


def test_docs_show_what_the_committed_records_say() -> None:
    """Every item is done, linked and summed up; the text after the mark is what the code makes of
    the records.
    """
    text = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")
    _, _, shown = text.partition(
        "<!-- cushion reproduce --summary --link ../results/reproduce -->\n"
    )
    assert (
        shown.strip() == summarise(ROOT / "results" / "reproduce", "../results/reproduce").strip()
    )
    assert f"{len(ITEMS)} of {len(ITEMS)} items are done." in shown
