"""The wheel builds, carries everything, and works from where pip puts it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_builds_installs_and_runs(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("cushion-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"cushion/{path.relative_to(ROOT / 'src' / 'cushion')}"
        for path in (ROOT / "src" / "cushion").rglob("*.py")
    }
    assert sources <= names
    assert "cushion/py.typed" in names
    site = tmp_path / "site"
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(site), str(wheel)],
        check=True,
        capture_output=True,
    )
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import cushion; print(cushion.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith(str(site))
    assert (site / "bin" / "cushion").exists()


def test_the_version_is_the_same_everywhere() -> None:
    import tomllib

    import cushion

    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert cushion.__version__ == stated
    assert f"version: {stated}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {stated}" in (ROOT / "CHANGELOG.md").read_text()


def test_public_names_are_written_once() -> None:
    """Every import that a type checker sees is a public name, and there are no others."""
    import ast

    import cushion

    tree = ast.parse((ROOT / "src" / "cushion" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert cushion.__all__ == sorted(filter(None, seen))
    assert "verify" in dir(cushion)
    for name, home in seen.items():
        assert name
        assert getattr(cushion, name) is getattr(sys.modules[str(home)], name)


def test_a_package_without_sources_has_its_names(tmp_path: Path) -> None:
    """Compiled files are enough: nothing reads the package's own source."""
    import compileall
    import shutil

    home = tmp_path / "cushion"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "cushion", home, ignore=skip)
    compileall.compile_dir(home, legacy=True, quiet=1)
    for path in home.rglob("*.py"):
        path.unlink()
    code = "import cushion; print(cushion.__file__, cushion.BadInput, len(cushion.__all__))"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert "__init__.pyc" in shown.stdout
    assert "cushion.errors.BadInput" in shown.stdout


def test_every_dependency_is_pinned() -> None:
    """What setup installs is what constraints.txt says, and nothing is left to the day's newest
    release.
    """
    from importlib.metadata import distributions

    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pins[name.lower().replace("_", "-")] = version
    for found in distributions():
        name = found.metadata["Name"].lower().replace("_", "-")
        if name != "cushion":
            assert name in pins, f"{name} is installed but not pinned"
            assert found.version.split("+")[0] == pins[name], name
