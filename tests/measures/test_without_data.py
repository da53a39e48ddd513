"""What there is to measure without data: the weights, and with the shape of an example the maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cushion
from cushion.cli import main
from cushion.errors import BadInput, Unsupported
from cushion.nets.weighted import WeightsNet


def convolutional() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(8 * 36, 4))


def norm(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach().double().flatten(1), 2))


def test_dense_layers_kernels_embeddings_attention_and_recurrent_layers() -> None:
    torch.manual_seed(0)
    parts = {
        "words": nn.Embedding(20, 6),
        "mix": nn.MultiheadAttention(6, 2),
        "apart": nn.MultiheadAttention(6, 2, kdim=4, vdim=5),
        "steps": nn.LSTM(6, 3, num_layers=2),
        "flat": nn.ConvTranspose1d(6, 4, 3),
        "head": nn.utils.parametrizations.weight_norm(nn.Linear(6, 2)),
    }
    table = cushion.measure(nn.ModuleDict(parts), only="norms,tails")
    mix, apart, steps = parts["mix"], parts["apart"], parts["steps"]
    assert isinstance(mix, nn.MultiheadAttention)
    assert isinstance(apart, nn.MultiheadAttention)
    q, k, v = mix.in_proj_weight.chunk(3)
    expected = {
        "words": parts["words"].weight,
        "mix.q_proj": q,
        "mix.k_proj": k,
        "mix.v_proj": v,
        "mix.out_proj": mix.out_proj.weight,
        "apart.q_proj": apart.q_proj_weight,
        "apart.k_proj": apart.k_proj_weight,
        "apart.v_proj": apart.v_proj_weight,
        "apart.out_proj": apart.out_proj.weight,
        **{f"steps.{n}": w for n, w in steps.named_parameters() if n.startswith("weight")},
        "flat": parts["flat"].weight,
        "head": parts["head"].weight,
    }
    found = {layer.name: layer.spectral for layer in table.layers}
    assert len(table.layers) == len(expected)  # each map once
    assert found == pytest.approx({name: norm(w) for name, w in expected.items()}, rel=1e-6)
    assert table.net.way == "weights"
    assert table.net.m == 0
    assert {layer.name for layer in table.layers if layer.is_kernel} == {"flat"}


def test_a_shape_gives_the_maps_that_data_would_and_path_norms() -> None:
    net, rng = convolutional().eval(), np.random.default_rng(0)
    data = rng.normal(size=(9, 3, 6, 6)).astype(np.float32), np.arange(9) % 4
    for only in ("norms,spectra", "norms,spectra,paths,tails"):
        bare = cushion.measure(net, shape=(3, 6, 6), only=only)
        full = cushion.measure(net, data, only=only)
        assert bare.net.way == full.net.way
        assert [one.to_json() for one in bare.layers] == [one.to_json() for one in full.layers]
        assert bare.net.path_norms == full.net.path_norms
    kernel = cushion.measure(net, only="norms").layers[0]
    assert kernel.spectral == pytest.approx(norm(net[0].weight), rel=1e-6)
    assert bare.layers[0].spectral > kernel.spectral  # why the kernel is not called the layer


def test_by_default_all_that_needs_no_data_is_measured_and_the_rest_is_named() -> None:
    table = cushion.measure(convolutional())
    assert {one.family for one in table.left_out} == {
        "paths",
        "stability",
        "margins",
        "sharpness",
        "conditions",
    }
    assert all("none were given" in one.why for one in table.left_out if one.family != "paths")
    assert all(layer.spectrum is not None and layer.tails is not None for layer in table.layers)
    total = sum(float(p.detach().double().square().sum()) for p in convolutional().parameters())
    assert table.net.l2 == pytest.approx(total**0.5)


def test_the_distance_from_the_initialisation_needs_no_data() -> None:
    net, start = convolutional(), convolutional()
    with torch.no_grad():
        net[4].weight += 0.5
    table = cushion.measure(net, init=start, only="norms")
    assert table.layers[0].distance.frobenius == 0.0
    assert table.layers[1].distance.frobenius == pytest.approx(0.5 * (4 * 8 * 36) ** 0.5)
    with pytest.raises(BadInput, match="other layers"):
        cushion.measure(net, init=nn.Linear(3, 2), only="norms")


def test_a_program_of_torchscript_shows_its_weights_and_answers() -> None:
    net, rng = convolutional().eval(), np.random.default_rng(0)
    data = rng.normal(size=(9, 3, 6, 6)).astype(np.float32), np.arange(9) % 4
    program = torch.jit.script(net)
    table = cushion.measure(program, data)
    assert table.net.way == "weights"
    assert table.net.margins == cushion.measure(net, data, only="margins").net.margins
    eager = cushion.measure(net, only="norms")
    assert [one.spectral for one in table.layers] == [one.spectral for one in eager.layers]
    assert [one.name for one in cushion.measure(program).layers] == ["0", "4"]
    assert any("answers and weights only" in one.why for one in table.left_out)


def test_nothing_runs_and_nothing_changes() -> None:
    class Loud(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            raise AssertionError("it ran")

    net = nn.Sequential(Loud(4, 3), nn.Dropout())
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    cushion.measure(net)
    assert net.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"only": "margins"}, "margins: it is about what the net does with data"),
        ({"only": "paths"}, "paths needs the `shape` of an example"),
        ({"way": "trace"}, "`way` = trace looks at a net that runs"),
        ({"normalise": (0.0, 1.0)}, "`normalise` says how the net reads data"),
        ({"shape": (3, 7, 7)}, "the net cannot read examples of shape 3x7x7"),
        ({"shape": (3, 6, 6), "data": "digits"}, "the data have theirs"),
    ],
)
def test_refusals(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        cushion.measure(convolutional(), **options)  # type: ignore[arg-type]


def test_a_net_without_weights_is_refused() -> None:
    with pytest.raises(Unsupported, match="no weights to measure in a ReLU"):
        cushion.measure(nn.ReLU())
    assert WeightsNet(nn.ReLU()).affine_layers == ()


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": convolutional().state_dict()}, tmp_path / "w.pt")
    code = "from torch import nn\n\n\ndef net():\n    return nn.Sequential(\n        nn.Conv2d("
    code += "3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)\n)"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    verb = ["measure", f"{tmp_path}/mine.py:net", "--weights", f"{tmp_path}/w.pt", "--only"]
    assert main([*verb, "norms"]) == 0
    told = capsys.readouterr().out
    assert "without data" in told
    assert "convolutions stand for their kernels" in told
    assert main([*verb, "norms,paths", "--shape", "3x6x6"]) == 0
    assert "kernels" not in capsys.readouterr().out
    assert main([*verb, "margins"]) == 2
    assert main([*verb, "norms", "--save-margins", f"{tmp_path}/m"]) == 2
    assert "--save-margins is about data" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*verb, "norms", "--shape", "3x"])
    assert "such as 3x32x32, not '3x'" in capsys.readouterr().err


def test_a_run_knows_its_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    assert (
        main(
            [
                "train",
                "1x8x8: flatten fc8 relu fc10",
                "--data",
                "digits",
                "--epochs",
                "1",
                "-o",
                run,
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert main(["measure", run, "--only", "norms,paths"]) == 0
    told = capsys.readouterr().out
    assert "Path norms" in told
    assert "without data" in told
