"""Hold-out certificates and the mistakes that people make with them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.holdout_cases import Told, rows

import cushion
import cushion_verify
from cushion.certificates.certificate import Certificate
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.numerics import percent_up
from cushion.theorems.occam import holdout_bound

SAMPLE = rows(60, name="sample", first=1)


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))


def certify(model: Any, held: Dataset, **how: Any) -> Certificate:
    return cushion.certify(model, SAMPLE, holdout=held, kind="holdout", **how)


def test_a_second_net_s_first_use_is_doubted_aloud(recwarn: pytest.WarningsRecorder) -> None:
    held = rows(300)
    certify(Told(30), held)
    certify(Told(30), held, per_class=True)  # the same net again
    assert not [one for one in recwarn if "first use" in str(one.message)]
    with pytest.warns(cushion.errors.Remark, match="another classifier was counted on rows before"):
        certify(Told(20), held)
    with pytest.warns(cushion.errors.Remark, match="2 other classifiers were counted"):
        certify(Told(10), held)


def test_held_out_rows_are_those_of_the_certificate_for_who_has_numpy_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held, net = rows(200), Told(10)
    path = certify(net, held).save(tmp_path / "f.cushion")
    arrays = {"x": SAMPLE.x, "y": SAMPLE.y, "holdout-x": held.x, "holdout-y": held.y}
    arrays["answers"] = net(torch.from_numpy(held.x)).detach().numpy()
    argv = [str(path)]
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        argv += [f"--{name}", str(tmp_path / f"{name}.npy")]
    assert cushion_verify.main(argv) == 0  # the sample beside them is no part of it
    assert cushion_verify.main([argv[0], *argv[5:]]) == 0
    assert cushion_verify.main(argv[:-2]) == 1
    assert "f's answers were not given (--net, or --answers)" in capsys.readouterr().out


@pytest.mark.parametrize("word", [{"kind": "hold-out"}, {"kind": "PICKS"}, {"method": "best"}])
def test_a_word_that_is_no_kind_is_refused_before_any_search(word: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="must be one of"):
        cushion.certify(None, SAMPLE, **word)


@pytest.mark.parametrize(("delta", "said"), [("0.05", "2.62 %"), ("0.005", "3.50 %")])
def test_what_the_page_says_of_ten_nets(delta: str, said: str) -> None:
    assert percent_up(holdout_bound(5, 400, Decimal(delta))) == said
    page = Path(__file__).parents[2] / "docs" / "holdout.md"
    assert said in page.read_text(encoding="utf-8")
