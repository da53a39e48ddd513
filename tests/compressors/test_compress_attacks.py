"""Attacks on what `compress NET` proves or promises: each was once possible."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.trained_cases import digits, trained
from torch import nn

import cushion
from cushion.cli import main
from cushion.compressors.file import read_compressed
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset


def test_a_tie_that_rounding_hides_is_counted_against_the_net() -> None:
    """γ one step below f's margin and a g that ties: in single precision each looks close enough,
    and g errs always.
    """
    rng, x = np.random.default_rng(0), torch.ones(1, 2)
    for _ in range(200_000):
        d = 0.85 + 0.1 * rng.random()
        weight = torch.tensor([[0.55, -(d - 0.45)], [1.45, d - 0.45]])
        scores = (x @ weight.T)[0]
        margin = float(scores[1] - scores[0])
        gamma = math.nextafter(margin, 0)
        if not float(((torch.ones(2) - scores).double()).norm()) > gamma / math.sqrt(2):
            break
    net = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
    net[1].weight.data = weight
    data = Dataset("ties", np.full((2000, 1, 1, 2), 255, np.uint8), np.ones(2000, np.int64), 2)
    found = compress_model(
        net, data, method="low-rank", options=NetOptions(k=1, number_bits=2, gamma=gamma)
    ).summary
    errors = found.occam[0].errors
    assert errors == 2000
    for bound in found.paper_bounds:
        if bound.kind == "certificate" and not bound.abstains:
            assert bound.value == pytest.approx(1.0) or bound.value > 1


def test_a_lemma_whose_epsilon_exceeds_1_or_whose_p_is_too_small_promises_nothing() -> None:
    model, (data, _) = trained("conv")[0], digits()
    for options in (NetOptions(k=2, p=3, examples=8), NetOptions(k=1, p=40, examples=8)):
        found = compress_model(model, data, method="conv-project", options=options).summary
        (lemma,) = [one for one in found.promises if one.name == "Lemma 13"]
        assert lemma.held is None
        assert lemma.worst_ratio is not None  # what was seen is still shown
        assert "not promised" in lemma.meaning
        assert found.promise is None or "Lemma 13" not in {
            one.name for one in found.promises if one.held is not None
        }


def test_a_batch_norm_that_cannot_be_folded_keeps_the_stated_accuracy() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.BatchNorm2d(4),
        nn.Conv2d(4, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 10),
    )
    net.train()
    net(torch.rand(64, 1, 8, 8))
    data, _ = digits()
    for accuracy in (1e-5, 1e-3):
        found = compress_model(
            net.eval(), data, method="low-rank", options=NetOptions(epsilon=accuracy)
        ).summary
        (lemma,) = [one for one in found.promises if one.name == "Lemma 1"]
        assert lemma.held is True
        assert lemma.cases == 4  # the batch-norm among them


@pytest.mark.parametrize(
    "files",
    [["-o", "a", "--json", "a"], ["-o", "a", "--certificate", "b", "--json", "b"], ["-o", "net"]],
)
def test_no_output_overwrites_another_or_the_net(
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    model, (data, _) = trained("mlp")[0], digits()
    compress_model(model, data, method="low-rank", options=NetOptions(k=2)).save("net")
    before = Path("net").read_bytes()
    assert (
        main(["compress", "net", "--data", "digits", "--method", "low-rank", "--k", "1", *files])
        == 2
    )
    assert "one file" in (words := capsys.readouterr().err) or "the net itself" in words
    assert Path("net").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


def test_a_python_user_who_loads_a_compressed_net_as_weights_is_told_how(tmp_path: Path) -> None:
    model, (data, _) = trained("mlp")[0], digits()
    path = compress_model(model, data, method="low-rank", options=NetOptions(k=2)).save(
        tmp_path / "net"
    )
    with pytest.raises(cushion.BadInput, match=r"cushion\.load_compressed"):
        cushion.load_net(path)


def test_settings_that_make_the_result_are_recorded(tmp_path: Path) -> None:
    model, (data, _) = trained("conv")[0], digits()
    options = NetOptions(k=1, p=5, constant=700.0, zeta=0.25, level=0.5, examples=8)
    found = compress_model(model, data, method="conv-project", options=options)
    notes = read_compressed(found.save(tmp_path / "net")).notes
    for record in (found.summary.settings, notes):
        assert (record["constant"], record["p"], record["zeta"], record["level"]) == (
            700.0,
            5,
            0.25,
            0.5,
        )
        assert (record["k"], record["examples"]) == ("1", 8)
