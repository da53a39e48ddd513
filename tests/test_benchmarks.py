"""`python -m benchmarks`: a choice of them, merged into one file; each can still be imported."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import limits

ROOT = Path(__file__).parent.parent
HELPERS = {
    "support_matrix",
    "support_nets",
    "scale",
    "looks",
    "own_net",
    "rates",
    "__init__",
    "__main__",
    "workloads",
}


def test_every_file_is_a_benchmark_that_can_be_chosen() -> None:
    assert set(benchmarks.NAMES) == {p.stem for p in (ROOT / "benchmarks").glob("*.py")} - HELPERS


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_each_can_be_imported_and_says_what_it_is(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert callable(module.run)
    assert module.__doc__


def test_help_and_list_run_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(
        benchmarks.NAMES
    )
    for argv, code in ((["--help"], 0), (["nonsense"], 2)):
        with pytest.raises(SystemExit) as stopped:
            benchmarks.main(argv)
        assert stopped.value.code == code
    assert "nonsense" in capsys.readouterr().err


def test_results_are_merged_with_the_command_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results: dict[str, dict[str, Any]] = {"replay": {"ratio": 2.0}, "tails": {"a": {"held": True}}}
    monkeypatch.setattr(
        benchmarks.importlib,
        "import_module",
        lambda name: SimpleNamespace(run=lambda: results[name.partition(".")[2]]),
    )
    file = tmp_path / "b.json"
    file.write_text('{"replay": {"ratio": 1.0}, "loading": {"seconds": 1.0}}')
    assert benchmarks.main(["replay", "tails", "-o", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["loading"] == {"seconds": 1.0}
    assert found["replay"]["ratio"] == 2.0
    assert found["replay"]["command"] == "python -m benchmarks replay tails"
    results["tails"]["a"]["held"] = False
    assert benchmarks.main(["tails", "-o", str(file)]) == 1
    assert "not held: tails" in capsys.readouterr().err


def test_the_tests_that_have_limits_exist() -> None:
    for test in limits.TESTS:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
