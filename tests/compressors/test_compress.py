"""The verb compress: its record, certificates that verify, options refused by name, nothing
half-written.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask

import cushion
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.sources import Grid, SeededProjection
from cushion.compressors.registry import METHODS
from cushion.compressors.searches import Search, summarise
from cushion.data.dataset import Dataset

SEARCHES = [
    method.name for method in METHODS.values() if isinstance(method, Search)
]  # the others: test_projection
SEEDED = ["subspace", "supermask"]
pytestmark = pytest.mark.usefixtures("clock")  # so that minutes are as long on every machine
QUICK = {"integer": {"minutes": 0.02}, "subspace": {"steps": 60}, "supermask": {"steps": 60}}


def sample(m: int = 200, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 6, 6), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 2] += 120
    return Dataset("stripes", x, y, 3)


@pytest.fixture
def stripes(tmp_path: Path) -> Path:
    np.savez(tmp_path / "stripes.npz", x=sample().x, y=sample().y)
    return tmp_path / "stripes.npz"


@pytest.mark.parametrize("method", SEARCHES)
def test_the_certificate_verifies_and_the_summary_adds_up(method: str, tmp_path: Path) -> None:
    data, held_out = sample(), sample(80, seed=1)
    found = cushion.compress(None, data, method=method, holdout=held_out, seed=1, **QUICK[method])
    path = found.save(tmp_path / "n.cushion")
    assert cushion.verify(path, data, held_out).ok
    summary, claim = found.summary, found.certificate.claim
    assert (summary.bits, summary.errors, summary.m) == (claim.bits, claim.errors, 200)
    assert summary.bound >= float(claim.bound)
    assert summary.errors == found.net.errors(data.x, data.y)
    assert summary.parameters == sum(layer.stored for layer in summary.layers)
    named = sum(item.bits for item in claim.ledger if item.item.startswith("layer "))
    assert sum(layer.bits for layer in summary.layers) == named < summary.bits
    assert len(summary.layers) == len(found.net.layers)
    assert summary.promise is None
    assert claim.made_with["method"] == method


def test_stored_numbers_are_counted_by_hand() -> None:
    first = Conv(Grid(np.ones((2, 1, 3, 3), dtype=np.int64), 1), np.array([1, 2]), 0, 3)
    last = Dense(SeededProjection(np.array([1, 0, 2]), (3, 8), 0, 3, 0, 1), None, 0, 0)
    net = IntegerNet((1, 6, 6), Bytes(4), (first, Pool("max", 2), last))
    certificate = certify_net(net, sample(), Decimal("0.05"))
    summary = summarise(net, certificate, method="by hand", seed=0)
    assert [(layer.kind, layer.shape, layer.stored) for layer in summary.layers] == [
        ("convolution", (2, 1, 3, 3), 20),  # 18 weights, zeros would count as well, and 2 biases
        ("max pooling", (), 0),
        ("dense", (3, 8), 3),  # of its 24 weights, 3 coefficients are stored
    ]
    assert summary.parameters == 23


@pytest.mark.parametrize("method", SEEDED)
def test_training_beats_the_most_frequent_class(method: str) -> None:
    data = sample(600)
    found = cushion.compress(None, data, method=method, steps=400)
    assert found.summary.errors < 0.2 * 600
    assert found.bound < 0.6
    stored = [layer.source for layer in found.summary.layers]
    assert set(stored) == {
        {"subspace": "projection of seeded signs", "supermask": "mask of seeded signs"}[method]
    }


@pytest.mark.parametrize("method", SEEDED)
def test_what_was_asked_for_is_written_even_where_guessing_is_better(method: str) -> None:
    """Three steps learn nothing on noise; the file still holds a net of the method, not the
    constant one.
    """
    rng = np.random.default_rng(0)
    noise = Dataset(
        "noise", rng.integers(0, 256, (60, 1, 6, 6), dtype=np.uint8), np.repeat([0, 0, 0, 1], 15), 2
    )
    found = cushion.compress(None, noise, method=method, steps=3)
    assert {layer.source for layer in found.summary.layers if layer.stored} != {"grid"}


def test_k_is_the_number_of_coefficients_and_width_costs_none() -> None:
    def stored(**options: float) -> int:
        found = cushion.compress(None, sample(), method="subspace", steps=30, **options)
        return sum(layer.source.coded.size for layer in found.net.layers)  # all dense

    assert stored(k=20) == stored(k=20, width=2.5) == 20


@pytest.mark.parametrize("method", SEARCHES)
def test_a_net_is_imitated(method: str) -> None:
    torch.manual_seed(0)
    teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
    found = cushion.compress(teacher, sample(), method=method, **QUICK[method])
    assert found.certificate.claim.made_with["imitates_a_model"] is True
    small = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 2))
    with pytest.raises(cushion.BadInput, match="2 scores"):
        cushion.compress(small, sample(), method=method, **QUICK[method])


def test_imitation_changes_what_is_learned() -> None:
    """A teacher that is always wrong keeps the net from learning the labels."""
    data = sample(300)

    class Teacher(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 9.0 * x.reshape(len(x), 3, 12).sum(2).roll(1, dims=1)

    wrong = Teacher()(torch.from_numpy(data.x).float() / 255).argmax(1).numpy() != data.y
    assert wrong.mean() > 0.99
    alone, taught = (
        cushion.compress(m, data, method="supermask", steps=300).summary for m in (None, Teacher())
    )
    assert taught.errors > alone.errors + 60


def test_vectors_and_floats_are_read() -> None:
    data = sample()
    flat = Dataset("flat", data.x.reshape(200, 36), data.y, 3)
    floats = Dataset("floats", data.x.reshape(200, 36).astype(np.float32) / 255, data.y, 3)
    for method in SEEDED:
        assert cushion.compress(None, flat, method=method, steps=20).summary.m == 200
        assert cushion.compress(None, floats, method=method, steps=20).summary.m == 200


# ---- the command line


@pytest.mark.parametrize("method", SEARCHES)
def test_answer_and_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stripes: Path, method: str
) -> None:
    out = str(tmp_path / "n.cushion")
    length = ["--minutes", "0.02"] if method == "integer" else ["--steps", "40"]
    command = [
        "compress",
        "--data",
        str(stripes),
        "--method",
        method,
        "-o",
        out,
        "--seed",
        "2",
        *length,
    ]
    code, text, err = ask(capsys, *command)
    assert code == 0, err
    assert f"cushion verify {out} --data {stripes}" in text
    assert "With probability 95 %" in text or "Vacuous" in text
    code, text, err = ask(capsys, *command, "--json", "-")
    found = json.loads(text)
    for key in (
        "method",
        "parameters",
        "bits",
        "seed",
        "layers",
        "promise",
        "errors",
        "m",
        "bound",
    ):
        assert key in found
    assert (found["method"], found["seed"], found["promise"]) == (method, 2, None)
    assert {"name", "kind", "shape", "stored", "bits"} <= set(found["layers"][0])
    code, text, _ = ask(capsys, "verify", out, "--data", str(stripes), "--json", "-")
    seen = json.loads(text)
    assert (code, seen["bits"], seen["bound"]) == (0, found["bits"], found["bound"])


def test_a_net_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stripes: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(36, "
        "3))\n"
    )
    out = tmp_path / "n.cushion"
    command = ["--data", str(stripes), "--method", "supermask", "--steps", "20", "-o", str(out)]
    code, text, err = ask(capsys, "compress", f"{tmp_path / 'mine.py'}:make", *command)
    assert code == 0, err
    assert "not about your net" in text
    assert "no --weights" in err
    assert out.exists()


def test_ctrl_c_writes_the_best_so_far(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    stripes: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import cushion.certificates.search.seeded as module

    original = module._passed
    calls = []

    def interrupt(marks: list[float], progress: float) -> bool:
        calls.append(progress)
        if progress > 0.7:
            raise KeyboardInterrupt
        return original(marks, progress)

    monkeypatch.setattr(module, "_passed", interrupt)
    out = tmp_path / "n.cushion"
    code, text, _ = ask(
        capsys,
        "compress",
        "--data",
        str(stripes),
        "--method",
        "supermask",
        "--steps",
        "100",
        "-o",
        str(out),
    )
    assert code == 0
    assert max(calls) < 0.75
    assert "interrupted" in text
    assert ask(capsys, "verify", str(out), "--data", str(stripes))[0] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.cushion", "stripes.npz"]


BAD = [
    ("--method frobnicate", "frobnicate.*integer, subspace, supermask"),
    ("--method integer --k 20", "integer does not take --k"),
    ("--method integer --steps 20", "integer does not take --steps"),
    ("--method supermask --k 20", "supermask does not take --k"),
    ("--method subspace --k 0", "--k"),
    ("--method subspace --k 1.5", "--k"),
    ("--method subspace --k 1 --steps 5", "--k 1: .*layers"),
    ("--method subspace --k 10000000 --steps 5", "--k 10000000"),
    ("--method subspace --width 0", "--width"),
    ("--method subspace --width nan", "--width"),
    ("--method supermask --width 1000000 --steps 5", "--width 1e.06 makes [0-9]+ weights"),
    ("--method subspace --minutes 1 --steps 5", "--minutes and --steps"),
    ("--method subspace --seed -1", "--seed"),
    ("--method supermask --seed 4294967296 --steps 5", "--seed 4294967296"),
    ("--method supermask --delta 2", "--delta"),
    ("--method supermask --weights w.pt", "NET"),
    ("--method supermask --d 3", "--d"),
    ("--method supermask -o {tmp}/no/n.cushion", "not a folder"),
    ("--method supermask -o {tmp}", "is a folder"),
    ("nothing.safetensors --method supermask", "nothing.safetensors"),
    ("", "--method"),
]


@pytest.mark.parametrize(("words", "complaint"), BAD)
def test_bad_input_gets_one_sentence_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stripes: Path, words: str, complaint: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    command = ["compress", "--data", str(stripes), "-o", str(tmp_path / "n.cushion")]
    code, out, err = ask(capsys, *command, *words.format(tmp=tmp_path).split())
    assert (code, out) == (2, ""), err
    assert re.search(complaint, err), err
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_the_registry_and_its_python_side() -> None:
    assert all(name == method.name for name, method in METHODS.items())
    refused: list[tuple[dict[str, Any], str]] = [
        ({"method": "integer", "k": 3}, "does not take `k`"),
        ({"method": "subspace", "k": 2.5}, "whole"),
        ({"method": "subspace", "width": float("inf")}, "`width`"),
        ({"method": "subspace", "steps": 0}, "`steps`"),
        ({"method": "none"}, "none"),
    ]
    for arguments, complaint in refused:
        with pytest.raises(cushion.BadInput, match=complaint):
            cushion.compress(None, sample(), **arguments)
