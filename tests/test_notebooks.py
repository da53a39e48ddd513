"""The notebooks of the documentation run from top to bottom."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_cell_by_cell_in_one_namespace(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "sets"))
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]
    assert not any(one.get("outputs") for one in notebook["cells"]), "outputs are stripped"
    shown = subprocess.run(
        [sys.executable, "-c", "\n\n".join(cells)], cwd=tmp_path, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.rstrip().endswith("True")
    assert "held-out examples the error is at most" in shown.stdout
    assert "shuffling is ignored" in shown.stderr
