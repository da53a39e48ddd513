"""The documentation's examples run, and the files that the README points at exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, whose certificates are not remembered in the reader's own."""
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "sets"))
    return tmp_path


def test_the_python_of_getting_started_runs(away: Path) -> None:
    (block,) = python_blocks("docs/getting-started.md")
    quick = block
    for long, short in (('"digits"', '"digits,subset=200"'),):
        assert long in quick
        quick = quick.replace(long, short)
    shown = subprocess.run(
        [sys.executable, "-c", quick], cwd=away, capture_output=True, text=True, check=True
    )
    assert shown.stdout.rstrip().endswith("True")
    assert "layer_cushion" in shown.stdout


def test_the_python_of_the_readme_runs(away: Path) -> None:
    (block,) = python_blocks("README.md")
    code = f"""
import cushion
train_set, test_set = cushion.load("digits,subset=200,seed=0"), cushion.load("digits", "test")
cushion.train("small", train_set, "run", epochs=1)
model = cushion.load_net("run").module
{block}
print(cushion.verify(path, train_set, holdout=test_set, model=model).ok, cert.about)
"""
    shown = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code],
        cwd=away,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.rstrip().endswith("True f")


@pytest.mark.full
def test_the_python_of_the_pac_bayes_page_runs(tmp_path: Path) -> None:
    (block,) = python_blocks("docs/pac-bayes.md")
    quick = block.replace("minutes=1,", "minutes=0.02,")
    assert quick != block
    shown = subprocess.run(
        [sys.executable, "-c", quick], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "ok: arithmetic, message and replay all hold" in shown.stdout


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(
        r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")
    ):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_the_readme_names_its_two_commands_and_ci_runs_the_second() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_verb_is_documented() -> None:
    pages = "".join(
        p.read_text(encoding="utf-8") for p in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    )
    for verb in (
        "data list",
        "data get",
        "train",
        "measure",
        "certify",
        "verify",
        "inspect",
        "holdout open",
        "holdout status",
        "holdout close",
        "reproduce",
    ):
        assert f"cushion {verb}" in pages
