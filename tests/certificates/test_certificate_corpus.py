"""Every file of tests/certificates gets its written verdict, through the Python API, the command
line and, where numpy alone can do it, the verifier as a script.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificates import user_net
from tests.certificates.build import all_cases, arrays, looks_name
from tests.certificates.case import Case
from tests.certificates.samples import file_name, sample

from cushion.certificates import answers as float_nets
from cushion.certificates import recheck as verifier
from cushion.cli import main
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs
from cushion.errors import Malformed

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.cushion"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in FILES]
CODES = {"ok": 0, "not ok": 1, "malformed": 2}


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {f"{case.folder}/{case.name}": case for case in all_cases()}


def test_building_again_gives_the_same_files(cases: dict[str, Case]) -> None:
    assert sorted(cases) == sorted(NAMES), (
        "run `python -m tests.certificates.build` and remove what is no longer made"
    )
    for path, name in zip(FILES, NAMES, strict=True):
        assert path.read_bytes() == cases[name].content, name
        assert path.with_suffix(".json").read_text(encoding="utf-8") == cases[name].description, (
            name
        )


def test_the_samples_are_there_as_arrays() -> None:
    made = dict(arrays())
    kept = {path.name: path.read_bytes() for path in (HERE / "samples").iterdir()}
    assert kept == made, "run `python -m tests.certificates.build`"
    assert max(map(len, kept.values())) < 10_000


def test_files_are_small_and_no_two_are_the_same_question() -> None:
    assert all(path.stat().st_size < 4096 for path in FILES)
    asked = [(path.read_bytes(), *_question(_written(path))) for path in FILES]
    assert len(set(asked)) == len(asked)


def test_the_corpus_covers_every_verdict_and_level() -> None:
    found = {(verdict["verdict"], verdict["level"]) for verdict in map(_written, FILES)}
    assert found == {
        ("ok", "replay"),
        ("not ok", "none"),
        ("not ok", "arithmetic"),
        ("not ok", "message"),
        ("malformed", None),
    }
    for path in FILES:
        assert _written(path)["why"].strip()


def _written(path: Path) -> dict[str, Any]:
    obj: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return obj


def _question(written: dict[str, Any]) -> tuple[str, ...]:
    keys = ("data", "holdout", "unlabelled", "net", "features", "fit", "looks")
    return tuple(str(written.get(key)) for key in keys)


def _named(written: dict[str, Any]) -> dict[str, str]:
    """What is handed over by the name of a file: features, a training, a ledger of looks."""
    found = {}
    if name := written.get("features"):
        found["features"] = str(HERE / "samples" / file_name(name, "x"))
    if name := written.get("fit"):
        found["fit"] = f"{HERE / 'user_learner.py'}:{name}"
    if name := written.get("looks"):
        found["looks"] = str(HERE / "samples" / looks_name(name))
    return found


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_the_written_verdict_is_given(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = _written(path)
    assert _by_api(path, written) == (written["verdict"], written["level"])
    code, found = _by_command(path, written, tmp_path, capsys)
    assert code == CODES[written["verdict"]]
    if code != 2:
        assert (found["ok"], found["level"]) == (code == 0, written["level"])


def _by_api(path: Path, written: dict[str, Any]) -> tuple[str, str | None]:
    held = written["holdout"] and sample(written["holdout"])
    more: dict[str, Any] = {**_named(written)}
    if written["net"]:
        module = getattr(user_net, written["net"])()
        if written["unlabelled"]:
            more["unlabelled"] = Inputs("unlabelled", sample(written["unlabelled"]).x)
        more["answering"] = lambda inputs: float_nets.answer(module, inputs.x)
    tracemalloc.start()
    try:
        verdict = verifier.verify(path, sample(written["data"]), held, **more)
    except Malformed:
        return "malformed", None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # half of it is the buffer that the file is read into; a training loads more of torch
        assert peak < 60 * 10**6 or "fit" in written
    return "ok" if verdict.ok else "not ok", verdict.level


def _by_command(
    path: Path, written: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    data = _saved(
        folder / "data.npz",
        sample(written["data"]),
        written["holdout"] and sample(written["holdout"]),
    )
    argv = ["verify", str(path), "--data", data, "--json", "-"]
    if written["net"]:
        argv += ["--net", f"{HERE / 'user_net.py'}:{written['net']}"]
    if written["unlabelled"]:
        argv += ["--unlabelled", _saved(folder / "inputs.npz", sample(written["unlabelled"]), None)]
    for name, value in _named(written).items():
        argv += [f"--{name}", value]
    code = main(argv)
    printed = capsys.readouterr()
    if code == 2:
        assert not printed.out
        assert "Traceback" not in printed.err
        assert path.name in printed.err
        return code, {}
    return code, json.loads(printed.out)


def _saved(path: Path, data: Dataset, held: Dataset | None) -> str:
    arrays = {"x": data.x, "y": data.y}
    if held is not None:
        arrays |= {"x_test": held.x, "y_test": held.y}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return str(path)


# ---- the script, in a process that has the standard library and numpy

SCRIPT = HERE.parents[1] / "src" / "cushion_verify.py"
_ALONE = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))  # numpy, and nothing else that was installed
sys.argv.pop(0)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    known = {*sys.stdlib_module_names, "numpy", "__main__"}
    strange = {name.split(".")[0] for name in sys.modules} - known
    print("loaded besides:", sorted(name for name in strange if not name.startswith("_distutils")))
"""


@pytest.fixture(scope="module")
def numpy_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed numpy and what it brings along."""
    folder = tmp_path_factory.mktemp("alone")
    installed = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (installed / name).exists():
            (folder / name).symlink_to(installed / name)
    return folder


def given(written: dict[str, Any]) -> list[str]:
    """The options that hand a case's arrays over."""
    found = []
    for flag, name, part in (
        ("--x", written["data"], "x"),
        ("--y", written["data"], "y"),
        ("--holdout-x", written["holdout"], "x"),
        ("--holdout-y", written["holdout"], "y"),
        ("--unlabelled", written["unlabelled"], "x"),
        ("--answers", written["unlabelled"] or (written["net"] and written["data"]), "f"),
    ):
        if name:
            found += [flag, str(HERE / "samples" / file_name(name, part))]
    named = _named(written)
    if named.pop("fit", None):  # a training needs more than numpy: its classes are given
        named["rounds"] = str(HERE / "samples" / file_name(written["data"], "rounds"))
        if written["holdout"]:
            named["holdout-classes"] = str(
                HERE / "samples" / file_name(written["holdout"], "classes")
            )
    for name, value in named.items():
        found += [f"--{name}", value]
    return found


@pytest.mark.parametrize(
    "name",
    [
        "valid/plain",
        "valid/transfer-and-holdout",
        "valid/pac-bayes-holdout",
        "valid/own-every-line",
        "valid/own-look-and-ledger",
        "valid/picks-table",
        "valid/picks-stripes",
        "valid/picks-features",
        "valid/picks-fit",
        "invalid/picks-errors-one-less",
        "malformed/picks-row-twice",
        "invalid/own-errors-one-less",
        "valid/symmetry-8",
        "valid/floats-own",
        "invalid/data-pixel-changed",
        "invalid/not-held-out-lowest-bits",
        "malformed/json-key-twice",
    ],
)
def test_the_script_needs_numpy_alone(numpy_alone: Path, name: str) -> None:
    path = HERE / f"{name}.cushion"
    written = _written(path)
    command = [sys.executable, "-I", "-S", "-c", _ALONE, str(numpy_alone), str(SCRIPT), str(path)]
    result = subprocess.run([*command, *given(written)], capture_output=True, text=True)
    assert result.returncode == CODES[written["verdict"]], result.stderr
    assert "Traceback" not in result.stderr
    *lines, besides = result.stdout.splitlines()
    assert besides == "loaded besides: []"
    first = {"ok": "ok: ", "not ok": "NOT OK: ", "malformed": None}[written["verdict"]]
    if first is None:
        assert (lines, len(result.stderr.splitlines())) == ([], 1)
    else:
        assert lines[0].startswith(first)
        assert len(lines) <= 10
