"""Measures against their definitions, computed naively example by example in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.measures.distribution import describe
from cushion.measures.margins import sample_margins


def sample(shape: tuple[int, ...], m: int = 30, classes: int = 3, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    return Dataset(
        "noise",
        rng.integers(0, 256, (m, *shape), dtype=np.uint8),
        rng.integers(0, classes, m),
        classes,
    )


def mlp(bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 7, bias), nn.ReLU(), nn.Linear(7, 3, bias))


def conv_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4, 3),
    ).eval()


def test_margins_by_definition() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0], [2.0, 2.0, 0.0], [5.0, -1.0, 0.0]])
    labels = torch.tensor([1, 0, 0, 0])
    assert sample_margins(logits, labels).tolist() == [1.0, -2.0, 0.0, 5.0]


def test_margins_ties_are_errors_and_negative_margins_stay_negative() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(1, 3, bias=False))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0], [1.0], [0.0]]))
    x = np.full((4, 1, 1, 1), 255, dtype=np.uint8)
    table = cushion.measure(net, Dataset("ties", x, np.array([0, 1, 2, 2]), 3))
    assert table.net.errors == 4
    assert table.net.margins is not None
    assert table.net.margins.value == -1.0


@pytest.mark.parametrize("bias", [True, False])
def test_layer_cushion_is_definition_4_without_the_bias(bias: bool) -> None:
    net, data = mlp(bias), sample((1, 3, 4))
    table = cushion.measure(net, data)
    first, second = (layer.weight.detach().double().numpy() for layer in (net[1], net[3]))
    offset = net[1].bias.detach().double().numpy() if bias else 0.0
    x = data.x.reshape(len(data), -1) / 255.0
    hidden = np.maximum(x @ first.T + offset, 0)
    for row, (a, before) in zip(table.layers, ((first, x), (second, hidden)), strict=True):
        ratios = [np.linalg.norm(a @ v) / (np.linalg.norm(a) * np.linalg.norm(v)) for v in before]
        assert row.layer_cushion is not None
        assert row.layer_cushion.value == pytest.approx(min(ratios), rel=1e-5)
        assert row.layer_cushion.mean == pytest.approx(np.mean(ratios), rel=1e-5)
        # what the definition promises: the inequality holds on all of S, and with equality
        # somewhere
        mu = row.layer_cushion.value * (1 - 1e-6)
        assert all(
            mu * np.linalg.norm(a) * np.linalg.norm(v) <= np.linalg.norm(a @ v) for v in before
        )


def test_layer_cushion_does_not_change_when_a_layer_is_rescaled() -> None:
    net, data = mlp(bias=False), sample((1, 3, 4))
    before = cushion.measure(net, data)
    with torch.no_grad():
        net[1].weight.mul_(8.0)
        net[3].weight.mul_(0.25)
    after = cushion.measure(net, data)
    for a, b in zip(before.layers, after.layers, strict=True):
        assert a.layer_cushion is not None
        assert b.layer_cushion is not None
        assert a.layer_cushion.value == pytest.approx(b.layer_cushion.value, rel=1e-6)


def test_norms_are_those_of_the_true_map() -> None:
    net, data = conv_net(), sample((1, 6, 6))
    with torch.no_grad():
        net[1].running_var.uniform_(0.5, 2.0)
        net[1].weight.uniform_(0.5, 2.0)
    table = cushion.measure(net, data, only=["norms"])
    columns = torch.eye(36).reshape(36, 1, 6, 6)
    scale = (net[1].weight / torch.sqrt(net[1].running_var + net[1].eps)).detach()
    with torch.no_grad():
        dense = (
            (
                nn.functional.conv2d(
                    columns, net[0].weight * scale[:, None, None, None], stride=2, padding=1
                )
            )
            .flatten(1)
            .T
        )
    singular = np.linalg.svd(dense.double().numpy(), compute_uv=False)
    conv = table.layers[0]
    assert conv.spectral == pytest.approx(singular[0], rel=1e-5)
    assert conv.spectral_upper is not None
    assert singular[0] <= conv.spectral_upper
    assert conv.operator_frobenius == pytest.approx(np.sqrt((singular**2).sum()), rel=1e-5)
    assert conv.stable_rank == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-4)
    assert conv.layer_cushion is None
    assert table.net.margins is None


def test_the_answer_does_not_depend_on_the_batch_size() -> None:
    net, data = conv_net(), sample((1, 6, 6), m=37)
    a, b = cushion.measure(net, data, batch=37), cushion.measure(net, data, batch=5)
    for one, other in zip(a.layers, b.layers, strict=True):
        assert one.layer_cushion is not None
        assert other.layer_cushion is not None
        assert one.layer_cushion.value == pytest.approx(other.layer_cushion.value, rel=1e-6)
        assert one.layer_cushion.count == other.layer_cushion.count == 37
    assert a.net.errors == b.net.errors


def test_measuring_changes_nothing() -> None:
    net = conv_net().train()
    state = {key: value.clone() for key, value in net.state_dict().items()}
    cushion.measure(net, sample((1, 6, 6)))
    assert net.training
    assert all(module.training for module in net.modules())
    assert all(torch.equal(value, net.state_dict()[key]) for key, value in state.items())


def test_a_dead_input_constrains_nothing() -> None:
    """‖φ(x)‖ = 0 makes the inequality 0 ≤ 0: such examples are left out, not counted as a cushion
    of zero.
    """
    net, data = mlp(bias=False), sample((1, 3, 4))
    x = data.x.copy()
    x[0] = 0
    table = cushion.measure(net, Dataset("one dark", x, data.y, 3))
    first = table.layers[0].layer_cushion
    assert first is not None
    assert first.count == len(data) - 1
    assert first.value > 0


def test_residual_nets_have_layer_measures_and_say_why_they_are_no_chain() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.a(x.flatten(1)))
            return self.out(torch.relu(x + self.b(x)))

    table = cushion.measure(Residual(), sample((4,)))
    assert [layer.name for layer in table.layers] == ["a", "b", "out"]
    assert not table.net.is_chain
    assert "add" in table.net.not_a_chain_because
    assert all(layer.layer_cushion is not None for layer in table.layers)


def test_records_become_frames_and_json() -> None:
    table = cushion.measure(mlp(), sample((1, 3, 4)))
    frame = table.to_frame()
    assert list(frame.index) == [layer.name for layer in table.layers]
    assert frame["layer_cushion"].iloc[0] == table.layers[0].layer_cushion.value  # type: ignore[union-attr]
    assert table.to_json()["note"] == "measure: relative, not a bound"
    assert '"layer_cushion"' in table.dumps()


def test_quantiles_are_order_statistics_and_the_histogram_counts_everything() -> None:
    values = np.random.default_rng(1).permutation(np.arange(1.0, 101.0))
    found = describe(values, "max")
    assert found is not None
    assert (found.value, found.quantiles["0.05"], found.quantiles["0.5"]) == (100.0, 5.0, 50.0)
    assert sum(found.counts) == found.count == 100
    assert len(found.edges) == len(found.counts) + 1
    assert describe(np.array([np.nan, np.inf]), "min") is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: cushion.measure(mlp(), sample((1, 3, 4)), only=["typo"]),
            "`only` = typo: there is no family of measures called so; choose from stability, ",
        ),
        (lambda: cushion.measure(mlp(), sample((1, 3, 4), classes=5)), "5 classes"),
        (lambda: cushion.measure(mlp(), sample((1, 3, 5))), r"shape|fit|12"),
        (
            lambda: cushion.measure(mlp(), sample((1, 3, 4)), beside="initial"),
            "`beside` must be init or random",
        ),
        (lambda: cushion.measure(mlp(), sample((1, 3, 4)), only=[]), "nothing is left to measure"),
        (
            lambda: cushion.measure(mlp(), sample((1, 3, 4)), only="spectra", spectra=False),
            "nothing is left",
        ),
        (lambda: cushion.measure(mlp(), sample((1, 3, 4)), only="norms", epsilon=5.0), "`epsilon`"),
        (
            lambda: cushion.measure(mlp(), sample((1, 3, 4)), only="norms", batch=0),
            "`batch` must be a whole number",
        ),
        (lambda: cushion.StabilityOptions(method="exactly"), "`method` must be"),
        (
            lambda: cushion.bounds(
                mlp(), sample((1, 3, 4)), options=cushion.BoundOptions(noisy_draws=-5)
            ),
            "`noisy_draws`",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, words: str) -> None:
    with pytest.raises(cushion.CushionError, match=words):
        call()


def test_scores_that_overflow_are_refused() -> None:
    net = mlp()
    with torch.no_grad():
        net[1].weight.fill_(1e38)
        net[3].weight.fill_(1e38)
    with pytest.raises((BadInput, cushion.Unsupported), match=r"finite|differ"):
        cushion.measure(net, sample((1, 3, 4)))


def test_nets_in_double_precision_are_measured_and_charged_as_such() -> None:
    data = sample((1, 3, 4))
    double, single = mlp().double(), mlp()
    quick = cushion.StabilityOptions(draws=2, attenuation_draws=1)
    wide, narrow = (cushion.measure(net, data, stability=quick) for net in (double, single))
    for one, other in zip(wide.layers, narrow.layers, strict=True):
        assert one.layer_cushion.value == pytest.approx(other.layer_cushion.value, rel=1e-5)  # type: ignore[union-attr]
    assert wide.net.margin.value == pytest.approx(narrow.net.margin.value, rel=1e-4)  # type: ignore[union-attr]
    bits = [
        cushion.bounds(net, data).row("stored weights").factors["bits"] for net in (double, single)
    ]  # type: ignore[index]
    assert bits[0] == 2 * bits[1] == 64 * 115
    assert cushion.noise_sensitivity(double, data, "1", "3", draws=2).value > 0


def test_the_old_order_of_arguments_is_told_apart() -> None:
    net, data = mlp(), sample((3, 4))
    for function in (cushion.measure, cushion.margins, cushion.bounds):
        with pytest.raises(BadInput, match="the net comes first and the data second"):
            function(data, net)  # type: ignore[operator]
