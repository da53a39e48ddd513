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

# Part of the package -> the parts it may import (besides itself). docs/architecture.md draws this.
BASE = {"errors", "records", "claims", "numerics", "files"}
DATA = BASE | {"data"}
NETS = DATA | {
    "engine",
    "operators",
    "network",
    "tracing",
    "specs",
    "models",
    "recipes",
    "programs",
    "weights",
    "batches",
    "runs",
}
FAMILY_RECORDS = {
    "stability_records",
    "capacity_records",
    "sharpness_records",
    "condition_records",
    "tail_records",
}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "records": {"errors"},
    "claims": {"errors", "records", "gaussian_claims"},
    "gaussian_claims": {"errors", "records", "claims"},
    "answers": set(),
    "files": {"errors"},
    "numerics": {"errors", "records"},
    "counter": {"errors"},
    "data": BASE | {"counter"},
    "engine": BASE,
    "stability_records": {"records"},
    "capacity_records": {"records"},
    "sharpness_records": {"records"},
    "condition_records": {"records"},
    "measure_records": {"errors", "records"} | FAMILY_RECORDS,
    "bound_records": {"errors", "records"},
    "compression_records": {"records", "bound_records"},
    "pruning_records": {"records", "bound_records", "compression_records"},
    "tail_records": {"records"},
    "heavy_tail_records": {"records", "bound_records", "compression_records"},
    "operators": BASE | {"counter"},
    "network": BASE | {"operators"},
    "network_module": {"network"},
    "linearisation": {"network"},
    "perturbation": {"network", "linearisation"},
    "tracing": BASE | {"operators", "network"},
    "specs": BASE,
    "models": BASE | {"specs"},
    "recipes": BASE | {"specs", "models"},
    "programs": BASE,
    "weights": BASE | {"specs", "models", "programs"},
    "batches": DATA,
    "float_nets": DATA | {"answers", "batches"},
    "runs": DATA | {"specs", "models", "recipes", "weights"},
    "training": NETS,
    "imp": NETS | {"training"},
    "masked_training": NETS,
    "lottery": NETS | {"counter"},
    "encoding": BASE | {"counter"},
    "measures": BASE
    | {"operators", "network", "linearisation", "perturbation", "engine", "data", "batches"}
    | {"measure_records", "pruning_records"}
    | FAMILY_RECORDS,
    "theorems": {"numerics", "bound_records"},
    "compressors": BASE
    | {
        "pruning_records",
        "counter",
        "operators",
        "network",
        "tracing",
        "engine",
        "data",
        "encoding",
    },
    "promises": NETS
    | {
        "compressors",
        "compression_records",
        "linearisation",
        "perturbation",
        "measures",
        "measuring",
        "net_facts",
    }
    | {"pruning_records", "heavy_tail_records", "tail_records", "theorems", "bound_records"},
    "compressed_nets": BASE | {"compressors", "network", "weights"},
    "certificates": DATA | {"encoding", "answers", "gaussian_claims"},
    "verifier": {"errors", "records", "claims", "gaussian_claims", "answers", "encoding", "data"},
    "compression": BASE | {"encoding", "certificates", "compression_records"},
    "net_compressing": NETS
    | {
        "compressors",
        "compressed_nets",
        "certified_nets",
        "compression_records",
        "promises",
        "certificates",
    }
    | {"measures", "measuring"}
    | {"net_facts", "theorems", "encoding"},
    "net_pruning": NETS
    | {
        "compressors",
        "compressed_nets",
        "certified_nets",
        "compression_records",
        "pruning_records",
        "promises",
    }
    | {
        "certificates",
        "measures",
        "measuring",
        "net_facts",
        "theorems",
        "encoding",
        "training",
        "masked_training",
    },
    "net_replacing": NETS
    | {
        "compressors",
        "compressed_nets",
        "certified_nets",
        "compression_records",
        "heavy_tail_records",
        "promises",
    }
    | {
        "certificates",
        "measures",
        "measuring",
        "net_facts",
        "theorems",
        "encoding",
        "tail_records",
    },
    "certified_nets": DATA
    | {"compressors", "compressed_nets", "compression_records", "certificates", "net_facts"}
    | {"pruning_records", "heavy_tail_records"},
    "compressing": DATA
    | {"float_nets", "compressors", "compression", "encoding", "certificates"}
    | {"net_compressing", "net_pruning", "net_replacing"}
    | {"certified_nets", "compression_records", "pruning_records", "heavy_tail_records"},
    "reproduction": {"*"},
    "pac_bayes": DATA | {"compressors", "certificates"},
    "api": NETS | {"answers", "float_nets", "compressors", "encoding", "certificates"},
    "figures": {
        "errors",
        "files",
        "records",
        "measure_records",
        "compression_records",
        "pruning_records",
    }
    | {"heavy_tail_records"}
    | FAMILY_RECORDS,
    "measuring": NETS | {"network_module", "measures", "measure_records"} | FAMILY_RECORDS,
    "net_facts": NETS | {"measures", "measure_records", "theorems"},
    "bounding": NETS
    | {
        "measuring",
        "measures",
        "net_facts",
        "theorems",
        "bound_records",
        "measure_records",
        "certificates",
    }
    | FAMILY_RECORDS,
    "demo": {"*"},
    "cli": {"*"},
    "__init__": {"*"},
    "__main__": {"cli"},
}
# Parts that never import torch, not even inside a function.
NO_TORCH = {
    "errors",
    "records",
    "stability_records",
    "capacity_records",
    "sharpness_records",
    "condition_records",
    "measure_records",
    "bound_records",
    "compression_records",
    "pruning_records",
    "tail_records",
    "heavy_tail_records",
    "theorems",
    "figures",
    "claims",
    "gaussian_claims",
    "answers",
    "files",
    "numerics",
    "counter",
    "data",
    "engine",
    "encoding",
    "certificates",
    "compression",
    "verifier",
    "specs",
    "recipes",
}
# Nothing but these may import what composes everything else.
COMPOSERS = {"cli": {"__main__", "cli"}, "reproduction": {"cli", "reproduction"}, "demo": {"demo"}}


def part_of(path: Path, root: Path) -> str:
    relative = path.relative_to(root)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported(tree: ast.AST) -> set[tuple[str, bool]]:
    """(module, at type-checking time only) of every import in the file, wherever it stands."""
    found = set()
    quiet = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, id(node) in quiet) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            name = node.module or ""
            names = (
                [f"{name}.{alias.name}" for alias in node.names] if name == "cushion" else [name]
            )
            found |= {(n, id(node) in quiet) for n in names}
    return found


def violations(root: Path) -> list[str]:
    problems = []
    for path in sorted(root.rglob("*.py")):
        part = part_of(path, root)
        if part not in ALLOWED:
            problems.append(f"{path.relative_to(root)}: part {part!r} is not in the table")
            continue
        for module, typing_only in imported(ast.parse(path.read_text(encoding="utf-8"))):
            top, _, rest = module.partition(".")
            if top == "torch" and part in NO_TORCH and not typing_only:
                problems.append(f"{path.relative_to(root)} imports torch")
            if top != "cushion" or not rest:
                continue
            target = rest.split(".")[0]
            if target == "__version__":
                continue
            allowed = ALLOWED[part]
            if target != part and "*" not in allowed and target not in allowed:
                problems.append(f"{path.relative_to(root)} imports cushion.{target}")
            if target in COMPOSERS and part not in COMPOSERS[target]:
                problems.append(
                    f"{path.relative_to(root)} imports cushion.{target}, which only composes"
                )
            if (
                part in ("measures", "compressors")
                and target == part
                and path.stem not in ("__init__", "registry")
                and path.parent.name != "storage"
            ):
                sibling = rest.split(".")[1] if "." in rest else ""
                own = path.relative_to(root).parts[
                    1
                ]  # a family in a folder of its own is one sibling
                if sibling not in (
                    "",
                    own,
                    "distribution",
                    "integer",
                    "seeded_search",
                    "storage",
                ):  # what all build on
                    problems.append(f"{path.relative_to(root)} imports its sibling {sibling}")
    return problems


def test_the_import_table_holds() -> None:
    assert violations(SRC) == []


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("encoding/bits.py", "import torch", "imports torch"),
        ("encoding/bits.py", "def f():\n    from torch import nn", "imports torch"),
        (
            "verifier/check.py",
            "from cushion.certificates import occam",
            "imports cushion.certificates",
        ),
        ("verifier/check.py", "from cushion import numerics", "imports cushion.numerics"),
        ("measures/norms.py", "import cushion.measures.margins", "sibling"),
        ("measures/norms.py", "from cushion.measures.stability.noise import Noise", "sibling"),
        ("measures/norms.py", "from cushion.cli import main", "only composes"),
        ("novelty.py", "x = 1", "not in the table"),
    ],
)
def test_the_import_test_can_fail(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
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
        "cushion.verifier",
        "cushion.data",
        "cushion.encoding.message",
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
from cushion.encoding.inputs import Bytes
from cushion.encoding.integer_net import IntegerNet
from cushion.encoding.layers import Dense
from cushion.encoding.sources import Grid
from cushion.verifier import verify
data, test = load_pair("digits")
eye = Grid(np.eye(10, 64, dtype=np.int64), 1)
net = IntegerNet(data.shape, Bytes(4), (Dense(eye, None, 0, 0),))
path = certify_net(net, data, Decimal("0.05"), holdout=test).save({str(tmp_path / "c.cushion")!r})
print(verify(path, data, test).ok, "torch" in sys.modules)
"""
    assert run(code) == "True False"


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
