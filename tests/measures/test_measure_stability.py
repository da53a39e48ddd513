"""Noise stability end to end: cushion.measure and `cushion measure`, the JSON's keys, seeds,
refusals.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.cases import CASES, Case
from tests.command_line import ask

import cushion
from cushion.cli import main
from cushion.data import Dataset
from cushion.measures.records import MeasureTable
from cushion.measures.stability.family import StabilityOptions

QUICK = StabilityOptions(draws=3, attenuation_draws=2, k=20, probes=4)
LAYER_KEYS = {
    "layer_cushion",
    "activation_contraction",
    "noise_sensitivity",
    "interlayer_cushion",
    "minimal_interlayer_cushion",
    "jacobian_beta",
    "interlayer_smoothness",
    "noise_attenuation",
    "effective_parameters",
    "from_initialisation",
}
NET_KEYS = {
    "examples",
    "probes",
    "zeta",
    "seed",
    "activation_contraction",
    "interlayer_smoothness",
    "capacity",
    "effective_parameters",
    "effective_parameters_zeta",
    "effective_parameters_from_initialisation",
    "bias_gap",
}
FAST = ("--only", "stability", "--draws", "3", "--attenuation-draws", "2", "--k", "20")


def sample(case: Case, m: int = 12) -> Dataset:
    return Dataset("noise", case.inputs(m).numpy(), np.arange(m) % 2, 2)


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def measured(
    case: Case, options: StabilityOptions = QUICK, m: int = 12, **more: Any
) -> MeasureTable:
    return cushion.measure(
        case.module(), sample(case, m), only="stability", stability=options, **more
    )


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    code, out, err = ask(capsys, "measure", *argv, "--json", "-")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sample, a run that was trained on it, and nets that something is wrong with."""
    where = tmp_path_factory.mktemp("stability")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    x = rng.integers(0, 100, (40, 1, 6, 6), dtype=np.uint8)
    x[y == 1, 0, :3] += 100
    np.savez(where / "toy.npz", x=x, y=y)
    text = "1x6x6: flatten fc8 relu fc7 relu fc6 relu fc2"
    assert (
        main(
            [
                "train",
                text,
                "--data",
                str(where / "toy.npz"),
                "--epochs",
                "2",
                "-o",
                str(where / "run"),
            ]
        )
        == 0
    )
    for copy in ("nan", "nan-init", "other-init"):
        shutil.copytree(where / "run", where / copy)
    _spoil(where / "nan" / "net.safetensors")
    _spoil(where / "nan-init" / "init.safetensors")
    other = "1x6x6: flatten fc5 relu fc2"
    assert (
        main(
            [
                "train",
                other,
                "--data",
                str(where / "toy.npz"),
                "--epochs",
                "1",
                "-o",
                str(where / "short"),
            ]
        )
        == 0
    )
    shutil.copy(where / "short" / "init.safetensors", where / "other-init" / "init.safetensors")
    (where / "alone").mkdir()
    shutil.copy(where / "run" / "net.safetensors", where / "alone" / "net.safetensors")
    (where / "file").write_text("not a folder")
    return where


def _spoil(path: Path) -> None:
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        metadata = {key: value for key, value in file.metadata().items() if key != "checksum"}
    key = sorted(tensors)[0]
    tensors[key] = torch.full_like(tensors[key], float("nan"))
    save_file(tensors, path, metadata=metadata)


def distributions(value: Any) -> Iterator[dict[str, Any]]:
    """Every distribution anywhere in the JSON."""
    if isinstance(value, dict):
        if "extremum" in value:
            yield value
        for part in value.values():
            yield from distributions(part)
    elif isinstance(value, list):
        for part in value:
            yield from distributions(part)


def test_keys_of_the_contract(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = answer(capsys, str(folder / "run"), "--data", str(folder / "toy.npz"), *FAST)
    assert found["kind"] == "measure"
    assert "not a bound" in found["note"]
    assert found["net"]["m"] == 40
    assert set(found["net"]["stability"]) >= NET_KEYS
    names = [layer["name"] for layer in found["layers"]]
    assert len(names) == 4
    for at, layer in enumerate(found["layers"]):
        assert set(layer) >= LAYER_KEYS
        assert layer["spectral"] is None
        cushions = layer["interlayer_cushion"]
        minimal = layer["minimal_interlayer_cushion"]
        assert minimal["clip"] == pytest.approx(1 / math.sqrt(layer["shape"][0]))
        assert minimal["all_pairs"]
        if at == 3:
            assert cushions is None
            assert layer["activation_contraction"] is None
            assert minimal["value"] == minimal["clip"]
            assert layer["interlayer_smoothness"] == []
        else:
            assert {pair["to"] for pair in cushions["pairs"]} == set(names[at + 1 :])
            assert cushions["value"] == min(pair["value"] for pair in cushions["pairs"])
            assert minimal["unclipped"]["value"] == pytest.approx(cushions["value"])
            assert minimal["value"] == min(minimal["clip"], minimal["unclipped"]["value"])
            assert layer["activation_contraction"]["value"] >= 1
            laws = layer["interlayer_smoothness"]
            assert [law["kind"] for law in laws] == [
                "sign-projection",
                "sign-projection",
                "gaussian",
            ]
            assert [law["level"] for law in laws] == [None, 0.1, 0.1]
            for law in laws:
                assert law["inverse"] == pytest.approx(1 / law["value"] if law["value"] else 0.0)
                assert law["level"] is None or law["relative_norm"] == pytest.approx(
                    law["level"], rel=1e-4
                )
        assert layer["jacobian_beta"]["value"] == 1.0
        assert [curve["level"] for curve in layer["noise_attenuation"]] == [0.1, 1.0]
        assert [point["to"] for point in layer["noise_attenuation"][0]["points"]] == names[at:]
        assert layer["from_initialisation"]["distance"] > 0
        assert layer["effective_parameters"]["percent"] == pytest.approx(
            100 * layer["effective_parameters"]["value"] / math.prod(layer["shape"])
        )
    whole = found["net"]["stability"]
    assert (whole["examples"], whole["zeta"], whole["seed"]) == (40, 0.05, 0)
    for at, law in enumerate(whole["interlayer_smoothness"]):
        if law["kind"] != "from-initialisation" and law["value"] is not None:
            own = [layer["interlayer_smoothness"] for layer in found["layers"][:-1]]
            same = [
                laws[i]["value"]
                for laws in own
                for i in range(len(laws))
                if laws[i]["noise"] == law["noise"]
            ]
            assert law["value"] <= min(value for value in same if value is not None) * (1 + 1e-6), (
                at
            )
    text = ask(capsys, "measure", str(folder / "run"), "--data", str(folder / "toy.npz"), *FAST)[1]
    assert "not a bound" in text
    assert "Table 1" in text


def test_values_quantiles_and_histograms_agree(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    found = answer(capsys, str(folder / "run"), "--data", str(folder / "toy.npz"), *FAST)
    seen = 0
    for spread in distributions(found):
        seen += 1
        assert sum(spread["counts"]) == spread["count"] <= 40
        assert len(spread["edges"]) == len(spread["counts"]) + 1
        levels = sorted(spread["quantiles"], key=float)
        quantiles = [spread["quantiles"][level] for level in levels]
        assert quantiles == sorted(quantiles)
        low, high = spread["edges"][0], spread["edges"][-1]
        if spread["value"] != quantiles[0]:  # all equal: numpy widens the histogram
            assert low <= quantiles[0] <= quantiles[-1] <= high
        extreme = quantiles[0] if spread["extremum"] == "min" else quantiles[-1]
        better = (
            spread["value"] <= extreme
            if spread["extremum"] == "min"
            else spread["value"] >= extreme
        )
        assert better
        assert spread["std"] >= 0
    assert seen > 30


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_tiny_net_is_measured(case: Case) -> None:
    table = measured(
        case, StabilityOptions(draws=1, attenuation_draws=1, k=10, method="exact"), m=4
    )
    assert json.loads(table.dumps())["net"]["stability"]["examples"] == 4
    assert len(table.layers) == len(case.layers)
    for row in table.layers:
        assert row.layer_cushion is not None
        assert row.minimal_interlayer_cushion is not None
        assert row.minimal_interlayer_cushion.value <= 1 / math.sqrt(row.output_shape[0]) + 1e-12
    whole = table.net.stability
    assert whole is not None
    assert (whole.effective_parameters is not None) == case.chain  # Table 1 is about chains
    assert bool(table.net.not_a_chain_because) != case.chain


def test_a_single_layer_net() -> None:
    table = measured(named("linear-only"))
    (row,) = table.layers
    assert row.interlayer_cushion is None
    assert row.activation_contraction is None
    assert row.minimal_interlayer_cushion is not None
    assert row.minimal_interlayer_cushion.value == pytest.approx(1 / math.sqrt(3))
    assert row.interlayer_smoothness == ()
    assert row.layer_cushion is not None
    assert row.effective_parameters is not None
    expected = (1 / (row.layer_cushion.value / math.sqrt(3))) ** 2
    assert row.effective_parameters.value == pytest.approx(expected, rel=1e-6)
    assert table.net.stability is not None
    assert table.net.stability.capacity == pytest.approx(expected, rel=1e-6)
    assert len(row.noise_attenuation[0].points) == 1


def test_exact_leaves_no_probes_and_agrees_with_many() -> None:
    case = named("residual")
    exact = measured(case, StabilityOptions(method="exact", draws=0, attenuation_draws=0))
    probed = measured(
        case, StabilityOptions(method="probes", probes=8, draws=0, attenuation_draws=0)
    )
    estimated = 0
    for a, b in zip(exact.layers, probed.layers, strict=True):
        assert a.interlayer_smoothness == () == a.noise_attenuation
        for one, two in zip(
            a.interlayer_cushion.pairs if a.interlayer_cushion else (),
            b.interlayer_cushion.pairs if b.interlayer_cushion else (),
            strict=True,
        ):
            assert one.exact
            assert one.standard_error is None
            estimated += not two.exact
            error = two.standard_error or 1e-6
            assert one.spread.mean == pytest.approx(two.spread.mean, rel=8 * error)
    assert estimated > 0


def test_examples_choose_rows_by_the_seed() -> None:
    case = named("mlp-deep")
    few = measured(case, StabilityOptions(examples=5, draws=1, attenuation_draws=1, k=10))
    assert few.net.stability is not None
    assert few.net.stability.examples == 5
    row = few.layers[0]
    assert row.layer_cushion is not None
    assert row.layer_cushion.count == 12  # one-pass quantities see all of S
    assert row.minimal_interlayer_cushion is not None
    assert row.minimal_interlayer_cushion.unclipped is not None
    assert row.minimal_interlayer_cushion.unclipped.count <= 5
    full = measured(case, StabilityOptions(examples=10**9, draws=1, attenuation_draws=1, k=10))
    assert full.net.stability is not None
    assert full.net.stability.examples == 12
    assert full.layers[0].layer_cushion == row.layer_cushion
    assert full.layers[0].minimal_interlayer_cushion is not None
    assert full.layers[0].minimal_interlayer_cushion.value <= row.minimal_interlayer_cushion.value


@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny", "residual", "conv-batchnorm"])
def test_the_model_and_the_random_state_are_untouched(name: str) -> None:
    case = named(name)
    module = case.module().train()
    state = {key: value.clone() for key, value in module.state_dict().items()}
    data = sample(case)
    rows = data.x.copy()
    torch.manual_seed(123)
    np.random.seed(5)
    before, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()
    cushion.measure(module, data, stability=QUICK, init=case.module(), beside="random")
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], legacy)
    assert all(part.training for part in module.modules())
    assert all(torch.equal(value, module.state_dict()[key]) for key, value in state.items())
    assert np.array_equal(data.x, rows)


@pytest.mark.parametrize("name", ["vgg-tiny", "residual"])
def test_the_seed_fixes_everything(name: str) -> None:
    case = named(name)
    a, b = measured(case).dumps(), measured(case).dumps()
    assert a == b
    other = json.loads(
        measured(
            case, StabilityOptions(draws=3, attenuation_draws=2, k=20, probes=4, seed=1)
        ).dumps()
    )
    mine = json.loads(a)
    assert other["layers"][0]["interlayer_smoothness"] != mine["layers"][0]["interlayer_smoothness"]
    assert other["layers"][0]["noise_attenuation"] != mine["layers"][0]["noise_attenuation"]
    assert other["layers"][0]["layer_cushion"] == mine["layers"][0]["layer_cushion"]


def test_the_same_command_gives_the_same_json(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    argv = (str(folder / "run"), "--data", str(folder / "toy.npz"), *FAST, "--examples", "7")
    first = answer(capsys, *argv)
    assert answer(capsys, *argv) == first
    assert answer(capsys, *argv, "--seed", str(2**63 - 1)) != first
    assert first["net"]["stability"]["examples"] == 7
    assert answer(capsys, *argv[:-1], "all")["net"]["stability"]["examples"] == 40
    exact = answer(capsys, *argv, "--exact")
    assert all(
        pair["exact"]
        for layer in exact["layers"][:-1]
        for pair in layer["interlayer_cushion"]["pairs"]
    )


@pytest.mark.parametrize("beside", ["init", "random"])
def test_beside(capsys: pytest.CaptureFixture[str], folder: Path, beside: str) -> None:
    argv = (
        str(folder / "run"),
        "--data",
        str(folder / "toy.npz"),
        "--draws",
        "2",
        "--k",
        "20",
        "--seed",
        "2",
    )
    found = answer(capsys, *argv, "--beside", beside, "--only", "stability,norms")
    other = found["beside"]
    assert [layer["name"] for layer in other["layers"]] == [
        layer["name"] for layer in found["layers"]
    ]
    for mine, theirs in zip(found["layers"], other["layers"], strict=True):
        assert theirs["frobenius"] == pytest.approx(mine["frobenius"], rel=1e-4)
        assert theirs["layer_cushion"]["value"] != mine["layer_cushion"]["value"]
        assert theirs["minimal_interlayer_cushion"] is not None
        assert theirs["from_initialisation"] is None
    assert other["net"]["stability"]["examples"] == 40
    assert answer(capsys, *argv, "--only", "stability")["beside"] is None


@pytest.mark.parametrize(("beside", "weights"), [("init", "initial"), ("random", "random")])
def test_the_table_beside_says_whose_weights_it_is_about(beside: Any, weights: str) -> None:
    case = named("mlp")
    table = measured(case, init=case.module(), beside=beside)
    assert table.net.stability is not None
    assert table.net.stability.weights == "trained"
    assert table.beside is not None
    assert table.beside.net.stability is not None
    assert table.beside.net.stability.weights == weights


def test_an_example_that_a_relu_switches_off_has_no_finite_contraction() -> None:
    """‖φ(x)‖ = 0 < ‖x‖/c for every finite c: Definition 6 has no finite c, and c is null in the
    JSON.
    """
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU(), torch.nn.Linear(2, 2)
    )
    with torch.no_grad():
        module[0].weight.copy_(torch.eye(2))
    x = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, -1.0]], dtype=np.float32)
    table = cushion.measure(
        module, Dataset("d", x, np.array([0, 1, 0]), 2), only="stability", stability=QUICK
    )
    assert table.net.stability is not None
    assert table.net.stability.activation_contraction in (None, math.inf)
    assert table.net.stability.capacity in (None, math.inf)


BAD = [
    ("{run} --probes -1", "--probes"),
    ("{run} --probes 1.5", "--probes"),
    ("{run} --levels 0", "--levels"),
    ("{run} --levels 0.1,0", "--levels"),
    ("{run} --levels nan", "--levels"),
    ("{run} --levels inf", "--levels"),
    ("{run} --levels -0.1", "--levels"),
    ("{run} --levels a,b", "--levels"),
    ("{run} --levels 0.1,", "--levels"),
    ("{run} --zeta 1", "--zeta"),
    ("{run} --zeta nan", "--zeta"),
    ("{run} --delta -1", "--delta"),
    ("{run} --delta 1", "--delta"),
    ("{run} --examples 0", "--examples"),
    ("{run} --examples some", "--examples"),
    ("{run} --k 0", "--k"),
    ("{run} --draws -1", "--draws"),
    ("{run} --attenuation-draws -2", "--attenuation-draws"),
    ("{run} --places -1", "--places"),
    ("{run} --seed -1", "--seed"),
    ("{run} --beside both", "--beside"),
    ("{alone} --beside init", "--beside init"),
    ("{other-init} --beside init", "--beside init|initialisation"),
    ("{nan}", "NaN|finite"),
    ("{nan-init} --beside init", "NaN|finite"),
    ("{nan-init}", "NaN|finite"),
    ("{run} --figures {file}", "--figures"),
    ("{run} --figures {file}/below", "--figures"),
]


@pytest.mark.parametrize(("command", "words"), BAD)
def test_bad_input_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], folder: Path, command: str, words: str
) -> None:
    names = {
        name: str(folder / name)
        for name in ("run", "alone", "other-init", "nan", "nan-init", "file")
    }
    argv = [
        re.sub(r"\{([a-z-]+)\}", lambda found: names[found[1]], word) for word in command.split()
    ]
    before = sorted(folder.rglob("*"))
    code, out, err = ask(
        capsys, "measure", *argv, "--data", str(folder / "toy.npz"), "--only", "stability"
    )
    assert code == 2, (out, err)
    assert out == ""
    assert re.search(words, err), err
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"probes": -1}, "`probes`"),
        ({"levels": ()}, "`levels`"),
        ({"levels": (0.1, math.nan)}, "`levels`"),
        ({"levels": (0.0,)}, "`levels`"),
        ({"zeta": 1.0}, "`zeta`"),
        ({"delta": -0.1}, "`delta`"),
        ({"delta": math.nan}, "`delta`"),
        ({"examples": 0}, "`examples`"),
        ({"k": 0}, "`k`"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_options_are_checked_in_python_too(options: dict[str, Any], words: str) -> None:
    with pytest.raises(cushion.CushionError, match=words):
        StabilityOptions(**options)


def test_figures_are_drawn_into_a_new_folder(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    argv = (
        str(folder / "short"),
        "--data",
        str(folder / "toy.npz"),
        "--only",
        "stability",
        "--draws",
        "0",
    )
    argv += ("--attenuation-draws", "0", "--figures", str(tmp_path / "new"))
    assert ask(capsys, "measure", *argv)[0] == 0
    assert {path.suffix for path in (tmp_path / "new").iterdir()} == {".png", ".svg"}
    assert (tmp_path / "new" / "layer-cushion.png").stat().st_size > 1000
