"""The house rules as a test: who may import whom, what stays free of torch, how large a file may
grow.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "cushion"

# Room -> the rooms that it may import besides itself, each with its parts. docs/architecture.md
# draws this.
BASE = {"errors", "records", "numerics", "progress"}
TABLE: dict[str, set[str]] = {
    "errors": set(),
    "records": {"errors"},
    "numerics": {"errors", "records"},
    "progress": {"records"},
    "data": BASE,
    "nets": BASE | {"data"},
    "training": BASE | {"data", "nets"},
    "measures": BASE | {"data", "nets"},
    "theorems": BASE | {"data", "nets", "measures"},
    "data.counter": {"errors"},
    "certificates.format": {"errors", "records", "progress", "data.counter"},
    "certificates.search": BASE | {"data", "certificates.format"},
    "certificates": BASE | {"data", "nets", "theorems"},
    "compressors": BASE | {"data", "nets", "training", "measures", "theorems", "certificates"},
    "papers": {"*"},
    "cli": {"*"},
    "__init__": {"*"},
    "__main__": {"cli"},
}
# Rooms that never import torch, not even inside a function.
NO_TORCH = {"errors", "records", "numerics", "progress"}
NO_TORCH |= {"data", "data.counter", "certificates.format"}
# Rooms that import nothing from outside but the standard library and these. The format evaluates
# nets on several threads, so it has to hold the matrix library to one each.
FROM_OUTSIDE = {"certificates.format": {"numpy", "threadpoolctl"}}
# The verifier is one file beside the package; who alone may import it.
VERIFIER = SRC.parent / "cushion_verify.py"
ASKS_THE_VERIFIER = {"certificates/recheck.py"}
# A leaf: who alone may import it.
LEAVES = {"cli": {"__main__"}, "papers": {"cli"}}
# Rooms whose folders are families that know nothing of each other, and the folders in them that
# families share: these know no family either.
FAMILIES: dict[str, set[str]] = {"measures": set(), "papers": set(), "compressors": {"storage"}}


def room_of(module: str) -> str:
    """The longest name in the table that the path behind "cushion." begins with."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in TABLE), parts[0])


def imported(tree: ast.AST) -> set[tuple[str, bool]]:
    """(module, at type-checking time only) of every import in the file, wherever it stands."""
    found = set()
    quiet = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, id(node) in quiet) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            name = node.module or ""
            names = [f"{name}.{alias.name}" for alias in node.names]
            found |= {(n, id(node) in quiet) for n in names}
    return found


def violations(root: Path) -> list[str]:
    problems = []
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root)
        parts = where.with_suffix("").parts
        own = room_of(".".join(parts[:-1] if parts[-1] == "__init__" and parts[1:] else parts))
        if own not in TABLE:
            problems.append(f"{where}: room {own!r} is not in the table")
            continue
        for module, typing_only in imported(ast.parse(path.read_text(encoding="utf-8"))):
            top, _, rest = module.partition(".")
            if top == "torch" and own in NO_TORCH and not typing_only:
                problems.append(f"{where} imports torch")
            asks = top == "cushion_verify" and not typing_only
            if asks and where.as_posix() not in ASKS_THE_VERIFIER:
                problems.append(f"{where} imports cushion_verify")
            known = {"cushion", *FROM_OUTSIDE.get(own, {top}), *sys.stdlib_module_names}
            if top not in known:
                problems.append(f"{where} imports {top}")
            if top != "cushion" or rest in ("", "__version__"):
                continue
            target = room_of(rest)
            whole = target.split(".")[0]
            if own not in (target, whole) and not TABLE[own] & {"*", target, whole}:
                problems.append(f"{where} imports cushion.{target}")
            if target in LEAVES and own not in {target, *LEAVES[target]}:
                problems.append(f"{where} imports cushion.{target}, which is a leaf")
            families = (parts[1], rest.split(".")[1]) if own in FAMILIES and "." in rest else ()
            apart = families and families[0] != families[1] and families[1] not in FAMILIES[own]
            if apart and all((root / own / family).is_dir() for family in families):
                problems.append(f"{where} imports its sibling {families[1]}")
    return problems


def test_the_import_table_holds() -> None:
    assert violations(SRC) == []


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("certificates/format/bits.py", "import torch", "imports torch"),
        ("data/splits.py", "def f():\n    from torch import nn", "imports torch"),
        ("certificates/certify.py", "import cushion_verify", "imports cushion_verify"),
        ("cli/verify.py", "from cushion_verify import check", "imports cushion_verify"),
        ("certificates/format/bits.py", "from cushion.data import load", "imports cushion.data"),
        ("certificates/format/bits.py", "from scipy import stats", "imports scipy"),
        ("certificates/format/bits.py", "import rich.progress", "imports rich"),
        ("nets/network.py", "from cushion.measures.margins import f", "imports cushion.measures"),
        ("measures/norms/layers.py", "import cushion.measures.tails.power_law", "sibling"),
        ("compressors/toy/run.py", "import cushion.compressors.pruning.masks", "sibling"),
        ("compressors/storage/run.py", "import cushion.compressors.pruning.masks", "sibling"),
        ("measures/norms/layers.py", "from cushion.measures import tails", "sibling"),
        ("measures/norms/layers.py", "from cushion.cli import main", "a leaf"),
        ("data/splits.py", "if not TYPE_CHECKING:\n    import torch", "imports torch"),
        ("certificates/certify.py", "from cushion.papers import registry", "a leaf"),
        ("novelty.py", "x = 1", "not in the table"),
    ],
)
def test_the_import_test_can_fail(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    for family in ("measures/tails", "compressors/pruning"):
        (tmp_path / family).mkdir(parents=True)
    path.write_text(line + "\n")
    assert any(complaint in problem for problem in violations(tmp_path))


def run(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "cushion",
        "cushion_verify",
        "cushion.certificates.recheck",
        "cushion.data",
        "cushion.certificates.format.message",
        "cushion.certificates.certificate",
        "cushion.cli",
    ],
)
def test_importing_does_not_load_torch(module: str) -> None:
    assert run(f"import sys, {module}; print('torch' in sys.modules)") == "False"


def test_verifying_a_real_certificate_never_loads_torch(tmp_path: Path) -> None:
    code = f"""
import sys, numpy as np
from decimal import Decimal
from cushion.data import load_pair
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.certificates.recheck import verify
data, test = load_pair("digits")
eye = Grid(np.eye(10, 64, dtype=np.int64), 1)
net = IntegerNet(data.shape, Bytes(4), (Dense(eye, None, 0, 0),))
path = certify_net(net, data, Decimal("0.05"), holdout=test).save({str(tmp_path / "c.cushion")!r})
print(verify(path, data, test).ok, "torch" in sys.modules)
"""
    assert run(code) == "True False"


def test_the_verifier_is_one_file_that_needs_numpy_alone() -> None:
    """Of what is not the standard library it imports numpy, in the code and in fact."""
    tree = ast.parse(VERIFIER.read_text(encoding="utf-8"))
    tops = {name.split(".")[0] for name, _ in imported(tree)} - set(sys.stdlib_module_names)
    assert tops == {"numpy"}
    code = f"""
import sys
sys.path.insert(0, {str(VERIFIER.parent)!r})
before = set(sys.modules)
import numpy
of_numpy = set(sys.modules) - before
import cushion_verify
found = {{name.split(".")[0] for name in set(sys.modules) - before - of_numpy}}
print(sorted(found - set(sys.stdlib_module_names)), cushion_verify.__file__)
"""
    assert run(code) == f"['cushion_verify', 'numpy'] {VERIFIER}"


def test_the_verifier_is_read_in_one_sitting() -> None:
    """At most 2 000 lines of code; blank lines, comments and docstrings make them readable."""
    text = VERIFIER.read_text(encoding="utf-8")
    code = [line for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    words = [
        node.body[0].end_lineno - node.body[0].lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    ]
    assert len(code) - sum(words) <= 2000


def test_the_top_of_the_house_is_seen_at_a_glance() -> None:
    top = {p.stem for p in SRC.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert top == {name.split(".")[0] for name in TABLE}
    assert len(top) <= 16


def test_no_file_outgrows_one_concept() -> None:
    long = {
        str(p.relative_to(SRC)): n
        for p in SRC.rglob("*.py")
        if (n := len(p.read_text().splitlines())) > 400
    }
    assert long == {}
    assert not [p for p in SRC.rglob("*.py") if p.stem in {"utils", "helpers", "misc", "common"}]


def test_public_names_resolve() -> None:
    import cushion

    for name in cushion.__all__:
        assert getattr(cushion, name) is not None
    with pytest.raises(AttributeError):
        cushion.nonsense  # noqa: B018
