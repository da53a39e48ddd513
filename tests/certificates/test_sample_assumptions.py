"""What was found in a sample is told, written into the certificate and shown as an assumption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cushion
from cushion.certificates.sample_assumptions import sample_assumptions
from cushion.cli import main
from cushion.errors import BadInput


def rows(m: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(m) % 2
    return (rng.normal(size=(m, 3)) + 2 * y[:, None]).astype(np.float32), y


def test_certify_says_what_a_bound_assumes_of_the_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = rows()
    x = np.concatenate([x, x[:30]])
    x = (x - x.mean(0)) / x.std(0)
    np.savez(tmp_path / "own.npz", x=x, y=np.concatenate([y, y[:30]]) + 1)
    file = str(tmp_path / "own.cushion")
    data = ["--data", str(tmp_path / "own.npz")]
    assert main(["certify", *data, "-o", file, "--minutes", "0.01"]) == 0
    shown = capsys.readouterr()
    for words in ("30 rows of own.npz repeat", "the columns of own.npz have mean 0", "from 1 to 2"):
        assert shown.err.count(words) == 1
    assert "cushion: note: 30 rows of own.npz repeat" in shown.err
    assumed = ("- 30 rows that repeat earlier ones", "- the constants that the columns were stand")
    assert all(words in shown.out for words in assumed)
    assert main(["inspect", file]) == 0
    inspected = capsys.readouterr().out
    assert all(words in inspected for words in assumed)
    assert main(["verify", file, *data]) == 0
    shown = capsys.readouterr()
    assert all(words.removeprefix("- ") in shown.out for words in assumed)
    assert "Warning: 30 of the 150 examples repeat earlier ones, labels included" in shown.out
    assert "repeat" not in shown.err, "the verdict says it"


def test_an_ordinary_sample_adds_nothing() -> None:
    x, y = rows()
    found = cushion.certify(None, (x, y), minutes=0.01)
    assert not {"repeated_rows", "standardised"} & set(found.claim.made_with)
    assert sample_assumptions(found.claim) == ()


def test_words_of_a_file_are_never_shown() -> None:
    x, y = rows()
    found = cushion.certify(None, (x, y), minutes=0.01)
    found.claim.made_with.update(repeated_rows="\x1b[31m", standardised="anything")
    assert sample_assumptions(found.claim) == ()


def test_a_net_that_guesses_is_doubted() -> None:
    x, y = rows()
    net = nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.copy_(torch.tensor([1.0, 0.0]))
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=16)
    with pytest.warns(UserWarning, match="errs on 50.0 % of its own training data, as guessing"):
        cushion.certify(net, loader, minutes=0.01)


def test_held_out_labels_are_numbered_as_the_samples() -> None:
    x, y = rows()
    names = np.array(["no", "yes"])[y]
    with pytest.warns(UserWarning, match="'no' is 0, 'yes' is 1"):
        found = cushion.certify(
            None, (x[:80], names[:80]), holdout=(x[80:], np.full(40, "yes")), minutes=0.01
        )
    assert found.claim.holdout is not None
    assert found.claim.holdout.m == 40
    with pytest.raises(BadInput, match="has the label 'maybe', which the sample lacks"):
        cushion.certify(None, (x[:80], names[:80]), holdout=(x[80:], np.full(40, "maybe")))
    with pytest.raises(BadInput, match="must be alike"):
        cushion.certify(None, (x[:80], y[:80]), holdout=(x[80:, :2], y[80:]))
