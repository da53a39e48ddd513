"""`cushion bounds` from end to end: the rows, their labels, two nets beside each other, and input
that is bad.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cases import CASES
from torch import nn

import cushion
from cushion.cli import main
from cushion.data.dataset import Dataset
from cushion.nets.tracing import trace
from cushion.numerics import binomial_inverse
from cushion.theorems.bounds import BoundOptions, beside, bounds
from cushion.theorems.net_facts import look_at

QUICK = BoundOptions(
    noisy_draws=1024,
    sharpness=cushion.SharpnessOptions(draws=4, ascent_steps=2),
    conditions=cushion.ConditionOptions(examples=5),
    stability=cushion.StabilityOptions(examples=5, draws=0, attenuation_draws=0),
)
NEED_MARGIN = {
    "l1-inf",
    "frobenius",
    "spec-l2,1",
    "spec-fro",
    "lipschitz-2",
    "l2-norm",
    "l1-path",
    "noise stability",
}


def blobs(m: int = 60, seed: int = 0, name: str = "blobs") -> Dataset:
    """Two classes that a line separates."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, m)
    x = np.clip(60 + 120 * y[:, None] + rng.integers(-25, 26, (m, 4)), 0, 255).astype(np.uint8)
    return Dataset(name, x, y, 2)


def separating(scale: float = 8.0) -> nn.Sequential:
    """A net that gets every blob right: the sum of the inputs against a threshold."""
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.zero_()
        net[2].weight.copy_(scale * torch.tensor([[-1.0] * 3, [1.0] * 3]))
        net[2].bias.copy_(scale * 2.8 * torch.tensor([1.0, -1.0]))
    return net


def test_the_table_has_every_row_once_with_its_label() -> None:
    table = bounds(separating(), blobs(), holdout=blobs(40, 1), init=separating(1.0), options=QUICK)
    rows = [(row.name, row.form) for row in table.bounds]
    assert len(set(rows)) == len(rows)
    assert {row.name for row in table.bounds if row.kind == "certificate"} == {
        "held-out examples",
        "noise",
        "noise around initialisation",
        "stored weights",
    }
    assert table.errors == 0
    assert table.margin > 0
    for row in table.bounds:
        assert row.meaning
        assert not row.abstains or row.meaning.startswith("abstains: ")
        if row.value is not None:
            assert row.vacuous == (row.value >= 1)
            assert row.log10 == pytest.approx(math.log10(row.value), abs=1e-9)
        if row.kind == "certificate":
            assert row.form != "as printed"
    assert any("before the data" in one for one in table.assumptions)
    assert any("held-out" in one for one in table.assumptions)
    assert not any(
        "held-out" in one for one in bounds(separating(), blobs(), options=QUICK).assumptions
    )
    held = table.row("held-out examples")
    assert held.value is not None
    assert 0 <= held.value - binomial_inverse(0, 40, math.log(0.05)) <= 1e-6
    assert table.holdout_error == 0.0
    frame = table.to_frame()
    assert frame.loc[("spec-fro", "stated"), "kind"] == "measure"
    with pytest.raises(cushion.BadInput, match="no bound called 'nonsense'"):
        table.row("nonsense")


def test_as_plotted_rows_are_the_papers_formulas() -> None:
    net, data = separating(), blobs()
    table = bounds(net, data, options=QUICK)
    a, b = (net[at].weight.detach().double().numpy() for at in (0, 2))
    gamma = np.sort(look_at(trace(net, (4,)), data).margins)[2]  # ⌈0.05·60⌉ = 3
    assert table.margin == pytest.approx(gamma)
    assert table.margin_loss == pytest.approx(3 / 60)
    two = [np.linalg.norm(w, 2) for w in (a, b)]
    fro = np.linalg.norm(a) * np.linalg.norm(b)
    rows = [np.linalg.norm(w, axis=1).sum() for w in (a, b)]
    paths = np.abs(b) @ np.abs(a)
    expected = {
        ("l2-norm", "as plotted"): fro**2,
        ("l2-norm", "as printed"): 16 * fro**2,
        ("l1-path", "as plotted"): paths.sum() ** 2,
        ("l1-path", "as printed"): 16 * paths.sum() ** 2,
        ("l2-path", "as plotted"): (b**2 @ a**2).sum(),
        ("l2-path", "as printed"): 16 * 3 * 2 * (b**2 @ a**2).sum(),
        ("spectral", "as plotted"): (two[0] * two[1]) ** 2,
        ("spectral", "as printed"): 3 * 2 * (two[0] * two[1]) ** 2,
        ("l1-inf", "as plotted"): np.abs(a).sum(1).max() * np.abs(b).sum(1).max(),
        ("l1-inf", "corrected"): (np.abs(a).sum(1).max() * np.abs(b).sum(1).max()) ** 2,
        ("frobenius", "as plotted"): fro**2,
        ("spec-l1,2", "as plotted"): (two[0] * two[1]) ** 2
        * sum((r / s) ** 2 for r, s in zip(rows, two, strict=True)),
        ("spec-l1,2", "corrected"): (two[0] * two[1]) ** 2
        * sum((r / s) ** (2 / 3) for r, s in zip(rows, two, strict=True)) ** 3,
        ("spec-fro", "as plotted"): (two[0] * two[1]) ** 2
        * sum(
            h * (np.linalg.norm(w) / s) ** 2 for h, w, s in zip((3, 2), (a, b), two, strict=True)
        ),
    }
    for key, capacity in expected.items():
        row = table.row(*key)  # type: ignore[arg-type]
        assert row.capacity == pytest.approx(capacity / gamma**2, rel=1e-5), key
        assert row.value == pytest.approx(3 / 60 + math.sqrt(capacity / gamma**2 / 60), rel=1e-5)
    assert table.row("parameters").capacity == pytest.approx(23)
    assert table.row("depth-parameters").capacity == pytest.approx(46)
    lipschitz = (two[0] * two[1] / gamma) ** 4
    assert table.row("lipschitz-2", "as plotted").capacity == pytest.approx(lipschitz, rel=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_tiny_net_has_a_table_and_is_left_alone(case) -> None:
    rng = np.random.default_rng(0)
    classes = max(2, trace(case.module(), case.input_shape).classes)
    data = Dataset(
        "noise",
        rng.random((7, *case.input_shape), dtype=np.float32),
        rng.integers(0, classes, 7),
        classes,
    )
    module = case.module().train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.random.get_rng_state()
    table = bounds(module, data, options=QUICK)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert module.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert len(table.bounds) > 30
    assert json.loads(table.dumps())["bounds"][0]["kind"] == "certificate"


def test_the_scale_of_the_last_layer_moves_no_row_that_divides_by_the_margin() -> None:
    one, two = (bounds(separating(scale), blobs(), options=QUICK) for scale in (8.0, 32.0))
    for name in ("l2-norm", "l1-path", "l2-path", "spectral"):
        assert one.row(name).capacity == pytest.approx(two.row(name).capacity, rel=1e-5)


def test_two_nets_beside_each_other() -> None:
    rng = np.random.default_rng(3)
    data, held = blobs(), blobs(40, 1)
    noise = Dataset("noise", data.x, rng.integers(0, 2, 60), 2)
    found = beside(
        bounds(separating(), data, holdout=held, options=QUICK, name="good"),
        bounds(
            separating(),
            noise,
            holdout=Dataset("n", held.x, rng.integers(0, 2, 40), 2),
            options=QUICK,
            name="bad",
        ),
    )
    verdicts = {(v.name, v.form): v for v in found.verdicts}
    assert ("held-out examples", "counted") not in verdicts
    assert verdicts["parameters", "as plotted"].prefers == "neither"
    assert not verdicts["parameters", "as plotted"].right
    assert verdicts["noise like the weights", "corrected"].prefers == "first"
    assert verdicts["noise like the weights", "corrected"].right
    # the second net has no positive margin
    assert verdicts["l2-norm", "as plotted"].prefers == "neither"


def test_margins_that_are_all_negative_make_rows_abstain_with_the_reason() -> None:
    data = blobs()
    wrong = Dataset("wrong", data.x, 1 - data.y, 2)
    table = bounds(separating(), wrong, options=QUICK)
    assert table.errors == 60
    assert table.margin < 0
    for name in NEED_MARGIN:
        row = table.row(name)
        assert row.abstains
        assert "is not positive (the net errs on 60 of 60 examples)" in row.meaning
    assert not table.row("labellings").abstains


def test_extremes_say_so() -> None:
    data = blobs()
    single = Dataset("single", data.x, np.zeros(60, dtype=np.int64), 2)
    assert bounds(separating(), single, options=QUICK).errors > 0
    lone = bounds(separating(), Dataset("lone", data.x[:1], data.y[:1], 2), options=QUICK)
    assert lone.m == 1
    assert all(row.vacuous for row in lone.bounds if row.kind == "certificate")
    dead = separating()
    with torch.no_grad():
        dead[0].weight.zero_()
        dead[0].bias.zero_()
    table = bounds(dead, data, options=QUICK)
    assert table.row("spec-fro", "stated").abstains
    assert table.row("l2-norm").abstains or table.row("l2-norm").capacity == 0
    with pytest.raises(cushion.Unsupported):
        bounds(nn.Sequential(nn.Flatten(), nn.Softmax(dim=1)), data)
    with pytest.raises(cushion.BadInput, match="`delta`"):
        bounds(separating(), data, options=BoundOptions(delta=0.9))


FACTORY = """
import torch
from torch import nn
def make():
    torch.manual_seed({seed})
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        (tmp_path / f"n{seed}.py").write_text(FACTORY.format(seed=seed))
    command = [
        "bounds",
        f"{tmp_path / 'n0.py'}:make",
        "--data",
        "digits,subset=100,seed=0",
        "--epsilon",
        "0.99",
    ]
    command += [
        "--noisy-draws",
        "1024",
        "--examples",
        "5",
        "--sharpness-draws",
        "2",
        "--ascent-steps",
        "1",
    ]
    assert (
        main(
            [*command, "--beside", f"{tmp_path / 'n1.py'}:make", "--json", str(tmp_path / "b.json")]
        )
        == 0
    )
    out = capsys.readouterr().out
    for words in (
        "Certificates:",
        "prove nothing",
        "vacuous",
        "Which net each row prefers",
        "10^",
        "held-out examples",
    ):
        assert words in out
    found = json.loads((tmp_path / "b.json").read_text())
    assert {"name", "source", "kind", "value", "vacuous", "meaning"} <= set(found["bounds"][0])
    assert {row["kind"] for row in found["bounds"]} == {"certificate", "measure"}
    assert found["verdicts"]
    assert main([*command, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["beside"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--delta", "0"], "--delta 0 must be above 0"),
        (["--epsilon", "-0.1"], "--epsilon: must be a number of at least 0"),
        (["--beside-data", "digits"], "give it with --beside as well"),
        (["--alphas", "1e-200"], "--alphas: must be numbers of at least 1e-12"),
        (["--beside", "nowhere.safetensors"], "nowhere.safetensors"),
        (["--noisy-draws", "0"], "--noisy-draws"),
        (["--delt", "0.05"], "--delt"),
    ],
)
def test_bad_options_get_one_sentence(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(FACTORY.format(seed=0))
    command = [
        "bounds",
        f"{tmp_path / 'net.py'}:make",
        "--data",
        "digits,subset=20,seed=0",
        "--examples",
        "2",
    ]
    command += ["--sharpness-draws", "1", "--ascent-steps", "1", "--noisy-draws", "64"]
    try:
        code = main([*command, *options])
    except SystemExit as left:
        code = left.code  # type: ignore[assignment]
    said = capsys.readouterr().err
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_noise_does_not_vanish_where_squares_of_inputs_do() -> None:
    """Inputs of 1e-24: their squares are zero in float32, and a net without noise would get a false
    certificate.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 4)) + np.where(y, 2.5, -2.5)[:, None] * np.eye(4)[0]
    net = nn.Sequential(nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(0.01 * torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]]))
    rows = []
    for scale in (1.0, 1e-24, 1e20):
        data = Dataset("far", (scale * x).astype(np.float32), y, 2)
        rows.append(bounds(net, data, options=QUICK).row("noise", "corrected"))
    assert rows[0].value < 0.1  # type: ignore[operator]  # at a noise level that the list has to reach
    for row in rows[1:]:
        assert row.factors == pytest.approx(rows[0].factors, rel=0.3, abs=0.01)
        assert row.value == pytest.approx(rows[0].value, abs=0.02)


def test_pooling_before_the_first_layer_counts() -> None:
    """The sum of sixteen pixels as a pool or as weights: the same function, so nearly the same
    bounds.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (50, 1, 4, 4), dtype=np.uint8)
    y = (x.reshape(50, -1).sum(1) > 16 * 128).astype(np.int64)
    pooled = nn.Sequential(nn.AvgPool2d(4, divisor_override=1), nn.Flatten(), nn.Linear(1, 2))
    dense = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with torch.no_grad():
        for net, shape in ((pooled, (1, 1)), (dense, (1, 16))):
            net[-1].weight.copy_(torch.tensor([[-1.0], [1.0]]).expand(2, shape[1]))
            net[-1].bias.copy_(torch.tensor([8.03, -8.03]))
    data = Dataset("sums", x, y, 2)
    one, two = (bounds(net, data, options=QUICK) for net in (pooled, dense))
    assert one.margin == pytest.approx(two.margin, rel=1e-3)
    for name in ("lipschitz-inf", "lipschitz-2"):
        assert one.row(name, "as plotted").log10 == pytest.approx(
            two.row(name, "as plotted").log10, abs=1e-3
        )
        assert one.row(name, "stated").log10 == pytest.approx(
            two.row(name, "stated").log10, abs=0.1
        )
    # Noise in one weight instead of sixteen makes up for part of the factor; without the pool it
    # would be far smaller.
    assert one.row("spec-fro", "stated").log10 > two.row("spec-fro", "stated").log10 - 0.7  # type: ignore[operator]


def test_an_initialisation_that_is_the_net_itself_is_refused() -> None:
    with pytest.raises(cushion.BadInput, match="the initialisation is the net itself"):
        bounds(separating(), blobs(), init=separating(), options=QUICK)
    with pytest.raises(cushion.BadInput, match="the bound 'noise' has no form 'stated'"):
        bounds(separating(), blobs(), options=QUICK).row("noise", "stated")


def test_noise_that_overflows_leaves_the_other_rows() -> None:
    net = separating()
    loud = BoundOptions(
        noisy_draws=64,
        sharpness=cushion.SharpnessOptions(draws=2, ascent_steps=0, alphas=(1e37,)),
        conditions=QUICK.conditions,
        stability=QUICK.stability,
    )
    table = bounds(net, blobs(), options=loud)
    assert table.row("noise like the weights").abstains
    assert "use smaller `alphas`" in table.row("noise like the weights").meaning
    assert not table.row("spectral").abstains


def test_held_out_rows_of_other_data_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert (
        main(
            [
                "train",
                "8x8: flatten fc4 relu fc10".replace("8x8", "1x8x8"),
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
    quick = [
        "--examples",
        "2",
        "--sharpness-draws",
        "2",
        "--ascent-steps",
        "1",
        "--noisy-draws",
        "64",
        "--json",
        "-",
    ]
    capsys.readouterr()
    assert main(["bounds", run, "--data", "digits", *quick]) == 0
    own = json.loads(capsys.readouterr().out)
    assert main(["bounds", run, "--data", "digits,subset=100,seed=0", *quick]) == 0
    shown = capsys.readouterr()
    other = json.loads(shown.out)
    assert own["holdout_m"] > 0
    assert other["holdout_m"] is None
    assert "the held-out row is left out" in shown.err


def test_a_net_that_only_answers_has_the_row_of_held_out_examples() -> None:
    from sklearn.linear_model import LogisticRegression

    data = blobs()
    x, y = data.x.reshape(len(data), -1) / np.float32(255), data.y
    fitted = LogisticRegression().fit(x[:40], y[:40])
    table = bounds(fitted, (x[:40], y[:40]), holdout=(x[40:], y[40:]))
    assert [row.name for row in table.bounds] == ["held-out examples"]
    assert table.holdout_errors == int((fitted.predict(x[40:]) != y[40:]).sum())
    assert "answers only" in table.left_out
    with pytest.raises(cushion.Unsupported, match="answers only"):
        bounds(fitted, (x[:40], y[:40]))
