"""Studies: commands are run once, what is kept of their answers makes the pages, at every size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cushion.errors import BadInput
from cushion.papers import commands
from cushion.papers.registry import ITEMS
from cushion.papers.runner import Unrecorded, Workshop

STUDIES = [item_id for item_id in ITEMS if item_id.startswith("study-")]


def test_a_command_is_run_once_after_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(command: str, folder: Path) -> dict[str, Any]:
        assert (folder / ".runs" / "nets").is_dir()
        ran.append(command)
        return {"bits": 8, "layers": [{"name": "a", "x": 1}, {"name": "b", "x": 2}], "much": "more"}

    monkeypatch.setattr(commands, "_run", run)
    workshop, needs = Workshop(tmp_path, "quick"), ["train it", lambda out: ran.append(out.name)]
    kept = {"bits": "", "layers": "name"}
    for _ in range(2):
        found = commands.answers(workshop, "toy", {"one": "compress it"}, kept, needs)
    assert found == {"one": {"bits": 8, "layers": [{"name": "a"}, {"name": "b"}]}}
    assert ran == ["train it", tmp_path.name, "compress it"], "the second time it is read back"
    (record,) = (tmp_path / "records").iterdir()
    assert json.loads(record.read_text())["settings"] == {"command": "cushion compress it"}
    only = Workshop(tmp_path, "quick", from_records=True)
    with pytest.raises(Unrecorded):
        commands.answers(only, "toy", {"two": "measure it"}, kept, needs)
    assert len(ran) == 3


def test_the_command_line_answers_and_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, "quick")
    training = "train '1x8x8: flatten fc10' --data digits --epochs 1 -o .runs/one"
    found = commands.answers(workshop, "toy", {"net": training}, {"epochs": ""})
    assert found == {"net": {"epochs": 1}}
    assert (tmp_path / ".runs" / "one" / "net.safetensors").is_file()
    with pytest.raises(BadInput, match="`cushion measure nothing` ended with 2"):
        commands.answers(workshop, "toy", {"no": "measure nothing"}, {})


def test_quick_commands_are_the_recorded_ones_on_digits() -> None:
    quick, recorded = (Workshop(Path(), size) for size in ("quick", "recorded"))
    for command in (commands.LENET, commands.TICKETS):
        assert commands.sized(recorded, command) == command
        small = commands.sized(quick, command)
        assert "--data digits" in small
        assert "lenet" not in small
        assert "mnist" not in small
    assert commands.sized(quick, ".runs/imp-lenet/level-24 x") == ".runs/imp-small/level-04 x"


def test_bounds_are_rounded_up_and_promises_are_told() -> None:
    assert commands.certified(0.123401) == "12.35 %"
    assert commands.certified("1.0") == "vacuous"
    assert commands.promised(None) == "-"
    assert commands.promised({"held": None, "worst_ratio": None}) == "not promised"
    assert commands.promised({"held": False, "worst_ratio": 1.2345}) == "broken, 1.23"
    assert commands.promised({"held": True, "worst_ratio": 0.5}) == "held, 0.5"


@pytest.mark.full
@pytest.mark.parametrize("item_id", STUDIES)
def test_a_study_is_made_at_quick_size(item_id: str, tmp_path: Path) -> None:
    page = ITEMS[item_id].load()(Workshop(_with_folder(tmp_path, item_id), "quick"))
    assert page.tables
    assert page.claims


def _with_folder(out: Path, item_id: str) -> Path:
    (out / item_id / "quick").mkdir(parents=True)
    return out
