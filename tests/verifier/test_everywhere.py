"""Picks replay bit for bit: with any number of threads, on a CPU without newer instructions, and
with other versions of numpy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.certificates.test_certificate_corpus import given
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import cushion
from cushion.certificates.picks.options import PicksOptions
from cushion.data import load_pair

ROOT = Path(__file__).parents[2]
CORPUS = sorted((ROOT / "tests" / "certificates" / "valid").glob("picks-*.cushion"))
DIGITS = ROOT / "results" / "certificates" / "picks" / "digits.cushion"
# Each file in turn, in one process: its verdict as JSON.
_ASK = """
import contextlib, io, json, sys
import cushion_verify, numpy
said = []
for argv in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = cushion_verify.main([*argv, "--json"])
    said.append([code, json.loads(out.getvalue())])
print(json.dumps([numpy.__version__, said]))
"""
PORTABLE = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL",
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The arguments of the script, file by file."""
    folder = tmp_path_factory.mktemp("digits")
    sample, held = load_pair("digits")
    assert held is not None
    arrays = {"x": sample.x, "y": sample.y, "holdout-x": held.x, "holdout-y": held.y}
    argv = [str(DIGITS)]
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        argv += [f"--{name}", str(folder / f"{name}.npy")]
    written = [json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) for path in CORPUS]
    corpus = [[str(path), *given(one)] for path, one in zip(CORPUS, written, strict=True)]
    return [argv, *corpus]


def verdicts(asked: list[list[str]], path: Path, **env: str) -> tuple[str, list[list[object]]]:
    """numpy's version, and exit code and verdict of each file, in a process of its own."""
    paths = os.pathsep.join([str(path), str(ROOT / "src")])
    command = [sys.executable, "-c", _ASK, json.dumps(asked)]
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **env, "PYTHONPATH": paths}
    )
    assert result.returncode == 0, result.stderr
    version, said = json.loads(result.stdout)
    assert all(code == 0 for code, _ in said)
    return version, said


def test_threads_and_instructions_change_nothing(asked: list[list[str]], tmp_path: Path) -> None:
    one, two = (
        verdicts(asked, tmp_path, OMP_NUM_THREADS=n, OPENBLAS_NUM_THREADS=n) for n in ("1", "2")
    )
    assert one == two == verdicts(asked, tmp_path, **PORTABLE)
    assert len(one[1]) == 1 + len(CORPUS) > 8


def test_who_picks_gets_the_same_with_any_number_of_threads() -> None:
    made, learner = [], PicksOptions(configuration=1)
    for threads in (1, 2):
        with threadpool_limits(threads):
            made.append(cushion.certify(None, load_pair("digits")[0], kind="picks", picks=learner))
    first, second = made
    assert (first.claim, first.message) == (second.claim, second.message)


@pytest.mark.full
@pytest.mark.parametrize("version", ["1.26.4", "2.0.2", "2.2.6"])
def test_other_versions_of_numpy_change_nothing(
    asked: list[list[str]], tmp_path: Path, version: str
) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(tmp_path / "numpy"), f"numpy=={version}"], check=True)
    found, said = verdicts(asked, tmp_path / "numpy")
    assert found == version
    assert said == verdicts(asked, tmp_path)[1]
