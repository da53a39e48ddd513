"""What people read: estimates and gaps are marked, absent families stay absent, refusals are
sentences.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases import CASES

import cushion
from cushion.cli import main
from cushion.cli.measure import describe
from cushion.cli.options import whole_or_all
from cushion.data.dataset import Dataset
from cushion.measures.stability.records import standard


def measured(
    name: str = "vgg-tiny", only: str = "stability", beside: Any = None, **options: Any
) -> Any:
    case = next(case for case in CASES if case.name == name)
    rng = np.random.default_rng(0)
    data = Dataset(
        "noise", rng.random((12, *case.input_shape), dtype=np.float32), rng.integers(0, 3, 12), 3
    )
    chosen = cushion.StabilityOptions(**{"draws": 2, "k": 50, "attenuation_draws": 1, **options})
    return cushion.measure(
        case.module(), data, only=only, stability=chosen, beside=beside, spectra=False
    )


def row_of(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(f"{name} "))


def test_exact_numbers_bear_no_mark() -> None:
    found = measured(method="exact")
    text = describe(found)
    assert {row_of(text, layer.name)[7] for layer in found.layers[:-1]} == {"exact"}
    assert "pairs of layers: 10 exact; beta from the 10 with all their places" in text
    assert "some were left out" not in text


def test_probes_are_marked_with_their_error() -> None:
    text = describe(measured(probes=2, method="probes"))
    assert row_of(text, "0")[7] == "~"
    assert row_of(text, "9")[7] == "exact"  # its one pair is
    assert "by probes (~), mean relative standard error up to" in text


def test_missing_pairs_are_marked_and_effective_parameters_withheld() -> None:
    found = measured(probes=0)
    text = describe(found)
    assert row_of(text, "0")[7] == "?"
    assert "some were left out (?), so effective parameters are not given" in text
    assert all(layer.effective_parameters is None for layer in found.layers)


def test_too_few_draws_for_delta_are_said() -> None:
    assert "this δ needs more" in describe(measured(draws=2, delta=0.05))
    assert "this δ needs more" not in describe(measured(draws=2, delta=0.5))
    assert "not measured (`draws` = 0)" in describe(measured(draws=0))


def test_claims_and_medians_come_with_a_net_beside() -> None:
    text = describe(measured(beside="random"))
    assert "What the paper says of trained nets, on this one" in text
    assert text.count("threshold:") == 7
    assert "What the paper says" not in describe(measured())


def test_spectra_can_be_left_out_and_a_branching_net_has_no_c() -> None:
    found = measured("residual")
    assert all(layer.spectrum is None for layer in found.layers)
    assert found.net.stability.activation_contraction is None
    assert found.net.stability.capacity is None
    assert "not a chain of layers" in describe(found)
    assert "contraction c" not in describe(found)


def test_claims_about_stability_need_stability() -> None:
    found = measured(only="margins", beside="random")
    assert found.beside is not None
    assert found.beside.net.margins is not None
    assert found.claims == ()


def test_to_frame_has_rho_and_medians() -> None:
    found = measured()
    frame = found.to_frame()
    law = standard(found.layers[0].interlayer_smoothness)
    assert law is not None
    assert frame.loc["0", "interlayer_smoothness"] == law.value
    assert frame.loc["0", "layer_cushion_median"] == found.layers[0].layer_cushion.quantiles["0.5"]
    assert (
        frame.loc["0", "minimal_interlayer_cushion"]
        == found.layers[0].minimal_interlayer_cushion.value
    )
    assert "noise_attenuation" not in frame


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--levels", "0.1,,1"], "--levels: must be numbers above 0, such as 0.1,1, not '0.1,,1'"),
        (["--levels", "nan"], "--levels: must be numbers above 0, such as 0.1,1, not nan"),
        (["--levels", "0.1,0.1"], "--levels names one level twice"),
        (["--examples", ""], "must be a whole number of at least 1, or all, not ''"),
        (["--examples", "some"], "or all, not 'some'"),
        (["--k", "10000000000"], "--k: must be a whole number of at least 1 and at most 1e+09"),
        (["--figures", ""], "must not be empty"),
        (["--epsilon", "1"], "--epsilon: must be a number of at least 0 and below 1"),
        (["--alphas", "0.1,0.1"], "--alphas names one number twice"),
        (["--alphas", "-1"], "--alphas: must be numbers of at least 1e-12"),
        (["--ascent-steps", "-5"], "--ascent-steps: must be a whole number of at least 0"),
        (["--max-alpha", "0"], "--max-alpha: must be a number above 0"),
        (["--save-margins", "/nowhere/at/all.txt"], "/nowhere/at"),
    ],
)
def test_refusals_name_the_option(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, "
        "10))\n"
    )
    with pytest.raises(
        SystemExit
    ) as refused:  # argparse leaves this way, and so does the command itself
        sys.exit(main(["measure", f"{tmp_path / 'net.py'}:make", "--data", "digits", *options]))
    captured = capsys.readouterr()
    assert refused.value.code == 2
    assert sentence in captured.err
    assert "Traceback" not in captured.err


def test_options_as_typed() -> None:
    assert whole_or_all("7") == 7
    assert whole_or_all("all") > 10**15
    assert replace(cushion.StabilityOptions(), examples=3).examples == 3
