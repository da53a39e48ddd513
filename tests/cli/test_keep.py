"""cushion compress NET --data D -o OUT, and cushion export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cushion.cli import main

NET = """
import torch
from torch import nn

def net():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mine.py with weights w.pt, and d.npz with a held-out part."""
    here = tmp_path_factory.mktemp("keep")
    (here / "mine.py").write_text(NET)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(500, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    np.savez(here / "d.npz", x_train=x[:400], y_train=y[:400], x_test=x[400:], y_test=y[400:])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    optimiser = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(
            net(torch.from_numpy(x[:400])), torch.from_numpy(y[:400])
        ).backward()
        optimiser.step()
    torch.save(net.state_dict(), here / "w.pt")
    return here


def run(folder: Path, *words: str) -> int:
    given = ["--weights", str(folder / "w.pt"), "--data", str(folder / "d.npz"), *words]
    return main(["compress", f"{folder}/mine.py:net", *given])


def test_six_lines_and_a_small_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small.net"
    assert run(folder, "-o", str(out), "--epochs", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    size = out.stat().st_size
    assert lines[0].startswith(f"{out}: {size} bytes instead of 328")
    assert lines[1] == "asked: at most 1 point of error more: met"
    assert "of the sample" in lines[2]
    assert "of held-out rows" in lines[2]
    assert "by held-out rows" in lines[3]
    assert [line.split(":")[0] for line in lines[3:]] == [
        "the small net errs on at most (δ = 0.05 each)",
        "tried",
        "next",
    ]
    assert not Path(f"{out}.part").exists()
    assert not Path(f"{out}.nearest").exists()


def test_what_is_not_met_is_exit_1_and_beside(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small.net"
    out.write_bytes(b"mine")
    code = run(folder, "-o", str(out), "--epochs", "1", "--max-size", "20B")
    text = capsys.readouterr().out
    assert code == 1
    assert "asked: at most 20 bytes: not met by any setting; this is the nearest" in text
    assert out.read_bytes() == b"mine"
    assert Path(f"{out}.nearest").stat().st_size > 20


def test_the_nearest_is_never_written_over_what_is_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, data = str(tmp_path / "s.net"), str(folder / "d.npz")
    assert run(folder, "-o", f"{out}.nearest", "--epochs", "0") == 0
    before = Path(f"{out}.nearest").read_bytes()
    words = ["compress", f"{out}.nearest", "--data", data, "-o", out, "--max-size", "9B"]
    assert main(words) == 2
    assert "give another name" in capsys.readouterr().err
    assert Path(f"{out}.nearest").read_bytes() == before
    assert run(folder, "-o", out, "--epochs", "0") == 0  # one of a run before goes
    assert not Path(f"{out}.nearest").exists()


def test_json_full_figures_and_certificate(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, certificate = str(tmp_path / "s.net"), str(tmp_path / "s.cushion")
    words = ["-o", out, "--epochs", "1", "--full", "--certificate", certificate]
    more = ["--figures", str(tmp_path / "figures"), "--json", str(tmp_path / "s.json")]
    assert run(folder, *words, *more) == 0
    text = capsys.readouterr().out
    assert "What was tried, in this order" in text
    assert "shape after" in text
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["bytes"] == Path(out).stat().st_size
    assert found["met"] is True
    assert sum(one["chosen"] for one in found["tried"]) == 1
    assert {Path(one).name for one in found["figures"]} == {"front.png", "front.svg"}
    data = str(folder / "d.npz")
    assert main(["verify", certificate, "--data", data]) == 0
    assert main(["measure", out, "--data", data, "--only", "margins"]) == 0
    capsys.readouterr()


def test_export(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "s.net")
    assert run(folder, "-o", out, "--epochs", "1") == 0
    capsys.readouterr()
    for to, name in (("safetensors", "s.safetensors"), ("torch", "s.pt2")):
        assert main(["export", out, "--to", to, "-o", str(tmp_path / name)]) == 0
        assert f"{name}: {(tmp_path / name).stat().st_size} bytes" in capsys.readouterr().out
    data = str(folder / "d.npz")
    assert main(["bounds", str(tmp_path / "s.pt2"), "--trust", "--data", data]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-size", "20kB", "--lose", "1"], "--lose and --max-size are two targets"),
        (["--max-error", "lots"], "--max-error lots must be a share of errors"),
        (["--method", "rate", "--sparsity", "0.5"], "--method rate does not take --sparsity"),
        (["--augment", "moved"], "--augment moved is for images"),
        (["--epochs", "-1"], "--epochs must be"),
    ],
)
def test_refusals(
    folder: Path,
    tmp_path: Path,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(folder, "-o", str(tmp_path / "s.net"), *words) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("s.net*"))


def test_a_net_or_a_search_is_needed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(folder / "d.npz")
    assert main(["compress", "--data", data, "-o", str(tmp_path / "s")]) == 2
    assert "give NET" in capsys.readouterr().err
    (tmp_path / "s.net.part").mkdir()
    (tmp_path / "s.net.part" / "mine").write_text("")
    assert run(folder, "-o", str(tmp_path / "s.net")) == 2
    assert "s.net.part is in the way" in capsys.readouterr().err
    assert (tmp_path / "s.net.part" / "mine").exists()


def test_what_is_no_compressed_net_is_not_exported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--to", "torch", "-o", str(tmp_path / "x.pt2")]
    assert main(["export", str(folder / "w.pt"), *words]) == 2
    assert "is not a compressed net" in capsys.readouterr().err
