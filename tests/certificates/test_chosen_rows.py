"""Seeds that chose rows are named as assumptions; hold-outs that contradict a bound are said."""

from __future__ import annotations

import json
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from tests.posterior_cases import linear, whole
from torch import nn

import cushion
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.certificates.sample_assumptions import sample_assumptions
from cushion.cli import main
from cushion.data import Dataset, samples
from cushion.data.doubts import doubts_about_holdout

DELTA = Decimal("0.05")
RNG = np.random.default_rng(0)
X = RNG.permutation(2**16)[:900].astype("<u2").view(np.uint8).reshape(900, 1, 1, 2)  # all differ
Y = (X[:, 0, 0, 1] > X[:, 0, 0, 0]).astype(np.int64)
WEIGHTS = np.array([[1, -1], [-1, 1]], dtype=np.int64)
NET = IntegerNet((1, 1, 2), Bytes(0), (Dense(Grid(WEIGHTS, 1), None, 0, 0),))
ALL = Dataset("rows", X, Y, 2)


def test_rows_that_a_seed_chose_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "rows.npz", x=X, y=Y)
    data, file = f"{tmp_path / 'rows.npz'},subset=400,seed=3", str(tmp_path / "c.cushion")
    said = "the rows were chosen by subset=400,seed=3, which was fixed before anything was known"
    assert main(["certify", "--data", data, "-o", file, "--minutes", "0.01"]) == 0
    assert f"- {said}" in capsys.readouterr().out
    for verb in (["verify", file, "--data", data], ["inspect", file]):
        assert main(verb) in (0, 1)
        assert said in capsys.readouterr().out
        main([*verb, "--json", "-"])
        found = json.loads(capsys.readouterr().out)
        assert any(said in text for text in found["assumed_of_the_sample"])


def test_held_out_and_unlabelled_rows_too(tmp_path: Path) -> None:
    first, rest = samples.split(ALL, 500, 1)
    held, fresh = samples.split(rest, 200, 2)
    made = certify_net(NET, first, DELTA, holdout=held)
    assert made.claim.made_with == {
        "chosen_rows": "split=500,seed=1",
        "chosen_holdout": "split=400,seed=1,split=200,seed=2",
    }
    posterior = linear(whole([[0, 0], [0, 0]]), whole([[0, 0], [0, 0]]))
    assert certify_gaussian(posterior, first, DELTA, draws=10**5, holdout=held).claim.made_with == {
        **made.claim.made_with
    }
    torch.manual_seed(0)
    f = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate = cushion.certify(f, first, unlabelled=fresh, kind="occam", minutes=0.01)
    said = sample_assumptions(certificate.claim)
    assert any("the unlabelled rows were chosen by split=400" in text for text in said)
    assert not any("computes what f computes" in text for text in said)


def test_words_that_a_file_chose_are_not_shown() -> None:
    made = certify_net(NET, ALL, DELTA)
    made.claim.made_with.update(chosen_rows="an honest man", chosen_holdout=7)
    assert sample_assumptions(made.claim) == ()


def test_a_net_whose_program_cannot_be_read_is_an_assumption() -> None:
    space: dict[str, object] = {"nn": nn, "__name__": "nowhere"}
    exec(
        "class Net(nn.Module):\n"
        " def forward(self, x):\n"
        "  return x.flatten(1) if x.sum() > 0 else -x.flatten(1)",
        space,
    )
    first, fresh = samples.split(ALL, 500, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate = cushion.certify(
            space["Net"](), first, unlabelled=fresh, kind="occam", minutes=0.01
        )
    assert certificate.claim.transfer.program is None
    said = sample_assumptions(certificate.claim)
    assert any("its numbers have a fingerprint, its program has none" in text for text in said)


def test_a_hold_out_that_contradicts_the_bound_is_said() -> None:
    """All labels of the held-out rows are turned around: no draw of the same distribution."""
    held = Dataset("held", X[500:], 1 - Y[500:], 2)
    first = Dataset("first", X[:500], Y[:500], 2)
    with pytest.warns(UserWarning, match="400 errors on 400 held-out examples contradict"):
        certify_net(NET, first, DELTA, holdout=held)
    posterior = linear(whole([[4, -4], [-4, 4]]) * 16, whole(np.full((2, 2), -8)))
    with pytest.warns(UserWarning, match="held-out examples contradict the bound of"):
        certify_gaussian(posterior, first, DELTA, draws=10**5, holdout=held)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*contradict")
        certify_net(NET, first, DELTA, holdout=Dataset("held", X[500:], Y[500:], 2))


@pytest.mark.parametrize("m", [1, 10, 400, 10_000])
@pytest.mark.parametrize("bound", ["0.000000", "0.012300", "0.5", "0.999999", "1.000000"])
def test_the_chance_is_the_binomial_one(m: int, bound: str) -> None:
    near = int(stats.binom.isf(1e-3, m, float(bound)))
    for errors in {0, 1, m // 20, m // 2, m - 1, m} | set(range(near - 2, near + 4)):
        if not 0 <= errors <= m:
            continue
        chance = stats.binom.sf(errors - 1, m, float(bound))
        if abs(chance - 1e-3) > 1e-5:
            assert bool(doubts_about_holdout(errors, m, bound)) == (chance < 1e-3)
