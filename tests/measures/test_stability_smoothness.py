"""Interlayer smoothness against a literal Definition 7; its noise against a naive Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import activations, brute_jacobian, pairs, subnet, traced
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.measures.stability.noise import Noise, gaussian_like, lengths, project_net
from cushion.measures.stability.smoothness import (
    measure_smoothness,
    quantile_error,
    quantile_over_draws,
    sample_smoothness,
)
from cushion.nets.linearisation import Activations, Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.tracing import trace

NETS = [case for case in CASES if len(case.layers) > 1]
each_net = pytest.mark.parametrize("case", NETS, ids=lambda case: case.name)
BIAS_FREE = [case for case in NETS if case.name in ("mlp-no-bias", "conv-overlapping")]
MODULE = "cushion.measures.stability.smoothness"


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def sample(x: Tensor) -> Dataset:
    return Dataset("noise", x.float().numpy(), np.arange(len(x)) % 2, 2)


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}.as_floats", lambda x: torch.from_numpy(np.array(x)).double())


def noise_for(signal: Tensor, scale: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(signal.shape, dtype=signal.dtype, generator=generator)


def literal_rho(
    net: Network,
    x: Tensor,
    i: Node,
    j: Node,
    eta: Tensor,
    *,
    shifted: bool = True,
    jacobian: Tensor | None = None,
) -> float:
    """The largest ρ with ‖M(x^i+η) - J(x^i+η)‖ ≤ ‖η‖‖x^j‖/(ρ‖x^i‖) at one example; `shifted`: x^j +
    Jη for J(x^i+η).
    """
    own = activations(net, x)[i.index]
    end = activations(net, x)[j.index].flatten()
    jacobian = brute_jacobian(net, x, i, j) if jacobian is None else jacobian
    linear = end + jacobian @ eta.flatten() if shifted else jacobian @ (own + eta).flatten()
    deviation = float((subnet(net, x, i, j, own + eta).flatten() - linear).norm())
    if deviation <= 1e-13 * float(end.norm()):
        return math.inf
    return float(eta.norm() * end.norm() / own.norm()) / deviation


def agree(found: float, expected: float) -> bool:
    """Equal, or both so large that only rounding keeps them finite."""
    return found == pytest.approx(expected, rel=1e-7) or min(found, expected) > 1e9


@each_net
def test_every_pair_is_definition_7(case: Case) -> None:
    net, x = traced(case), case.inputs(2, torch.float64)
    line, clean = Linearisation(net, x), Activations(net, x)
    for i in net.affine_layers[:-1]:
        eta = noise_for(clean.values[i.index], 1.0, i.index)
        eta[1] *= 0.01
        kept = eta.clone()
        found = sample_smoothness(line, clean, i, eta)
        assert torch.equal(eta, kept)
        for j in [j for source, j in pairs(net) if source is i]:
            for b in range(2):
                expected = literal_rho(net, x[b : b + 1], i, j, eta[b : b + 1])
                got = float(found[j.index][b]) if j.index in found else math.inf
                assert agree(got, expected), (i.name, j.name, got, expected)


@pytest.mark.parametrize("case", BIAS_FREE, ids=lambda case: case.name)
def test_without_biases_it_is_the_definition_as_printed(case: Case) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    line, clean = Linearisation(net, x), Activations(net, x)
    finite = 0
    for i, j in pairs(net):
        eta = noise_for(clean.values[i.index], 0.5, 3)
        found = sample_smoothness(line, clean, i, eta)[j.index]
        for b in range(3):
            printed = literal_rho(net, x[b : b + 1], i, j, eta[b : b + 1], shifted=False)
            assert agree(float(found[b]), printed)
            finite += math.isfinite(printed)
    assert finite >= 3


@pytest.mark.parametrize("seed", range(12))
def test_linear_nets_are_infinitely_smooth(seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 2))
    net = trace(module, (4,))
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    law = Noise("gaussian", 1.0)
    draws = measure_smoothness(net, sample(x), [law], draws=4, seed=0, batch=3)[law]
    for node in net.affine_layers[:-1]:
        record = draws.describe(law, 0.05, node)
        assert record.value is None
        assert record.inverse == 0.0
        assert record.inverse_spread is not None
        assert (record.inverse_spread.value, record.inverse_spread.count) == (0.0, 6)
        assert all(pair.value == math.inf for pair in record.pairs)
        assert record.relative_norm == pytest.approx(1.0, rel=1e-5)
        assert record.to_json()["pairs"][0]["value"] is None
    whole = draws.describe(law, 0.05)
    assert (whole.value, whole.inverse) == (None, 0.0)


def test_zero_noise_and_zero_signals_bend_nothing() -> None:
    net = traced(named("mlp-no-bias"))
    x = torch.cat([torch.zeros(1, 3, 2, 2), torch.ones(1, 3, 2, 2)]).double()
    line, clean = Linearisation(net, x), Activations(net, x)
    first = net.affine_layers[0]
    zero = torch.zeros_like(clean.values[first.index])
    for values in sample_smoothness(line, clean, first, zero).values():
        assert (values == math.inf).all()
    for values in sample_smoothness(line, clean, first, zero + 1).values():
        assert float(values[0]) in (
            0.0,
            math.inf,
        )  # x^i = 0 = x^j: both sides of the inequality lose their meaning
        assert not torch.isnan(values).any()


def test_a_dead_target_that_noise_wakes_has_no_smoothness() -> None:
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 2, bias=False))
    with torch.no_grad():
        module[0].weight.fill_(-1.0)
        module[2].weight.fill_(1.0)
    net = trace(module, (1,)).double()
    x = torch.ones(1, 1, dtype=torch.float64)
    found = sample_smoothness(
        Linearisation(net, x), Activations(net, x), net.affine_layers[0], 3 * x
    )
    assert [float(value) for value in found.values()] == [0.0]  # ‖M(x+η)‖ > 0 = ‖x^j‖


@pytest.mark.parametrize(
    "delta", ["0", "0.01", "0.05", "0.1", "0.25", "0.3", "0.5", "0.7", "0.9", "0.99"]
)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 19, 20, 21, 40, 100])
def test_the_quantile_is_the_largest_number_that_enough_draws_reach(n: int, delta: str) -> None:
    values = np.random.default_rng(n).permutation(np.arange(n) * 1.5 + 1)
    found = float(quantile_over_draws(values, float(delta)))
    least = (1 - Fraction(delta)) * n
    candidates = [v for v in values if sum(values >= v) >= least]
    assert found == max(candidates)
    assert sum(values >= found) >= least
    assert sum(values >= np.nextafter(found, np.inf)) < least


def test_the_quantile_works_column_by_column_and_with_infinities() -> None:
    values = np.array([[1.0, np.inf], [2.0, 5.0], [3.0, np.inf], [0.5, np.inf]])
    assert quantile_over_draws(values, 0.25).tolist() == [1.0, np.inf]
    assert quantile_over_draws(values, 0.0).tolist() == [0.5, 5.0]


@pytest.mark.parametrize("law", ["uniform", "normal", "exponential"])
@pytest.mark.parametrize(("n", "delta"), [(100, 0.2), (400, 0.05), (60, 0.5)])
def test_the_error_of_the_quantile_has_the_right_size(law: str, n: int, delta: float) -> None:
    """Over many samples: the mean square of the stated error against the variance of the quantile
    itself.
    """
    rng = np.random.default_rng(5)
    draws = getattr(
        rng, {"uniform": "random", "normal": "standard_normal"}.get(law, "standard_exponential")
    )
    samples = [draws(n) for _ in range(1500)]
    seen = np.std([float(quantile_over_draws(values, delta)) for values in samples])
    stated = [quantile_error(values, delta) for values in samples]
    assert None not in stated
    rms = math.sqrt(float(np.mean(np.square(np.array(stated, dtype=float)))))
    assert 0.8 < rms / seen < 1.25
    middle = {"uniform": delta, "normal": None, "exponential": -math.log(1 - delta)}[law]
    if middle is not None:  # two standard errors cover about 95 %
        hits = [
            abs(float(quantile_over_draws(values, delta)) - middle) < 2 * (error or 0)
            for values, error in zip(samples, stated, strict=True)
        ]
        assert 0.85 < np.mean(hits) < 0.99


def test_the_error_is_unknown_with_too_few_draws_or_infinite_ones() -> None:
    assert quantile_error(np.arange(5.0), 0.0) is None
    assert quantile_error(np.arange(10.0), 0.05) is None
    assert quantile_error(np.array([1.0]), 0.5) is None
    assert quantile_error(np.array([1.0, 2.0, *[math.inf] * 18]), 0.05) is None
    assert quantile_error(np.arange(20.0), 0.05) == pytest.approx(math.sqrt(0.95))


def naive_projection(weight: Tensor, k: int, seed: int, purpose: str) -> Tensor:
    """Algorithm 1, entry by entry: Â = (1/k) Σ ⟨A, M_t⟩ M_t with the signs that sign_projection
    documents.
    """
    flat = weight.double().reshape(-1)
    n = len(flat)
    words = [int(word) for word in stream(purpose, seed, -(-k // 64) * n)]
    total = torch.zeros(n, dtype=torch.float64)
    for t in range(k):
        signs = torch.tensor(
            [1.0 if (words[t // 64 * n + s] >> (t % 64)) & 1 else -1.0 for s in range(n)]
        ).double()
        total += float(flat @ signs) * signs
    return (total / k).reshape(weight.shape)


@pytest.mark.parametrize("name", ["mlp", "vgg-tiny", "residual", "batchnorm-first"])
@pytest.mark.parametrize("start", [False, True])
def test_project_net_is_a_naive_algorithm_1(name: str, start: bool) -> None:
    net = traced(named(name))
    changes = {
        node.index: replace(
            node.affine,
            operator=node.affine.operator.with_weight(
                torch.full_like(node.affine.operator.weight, 0.3)
            ),
        )
        for node in net.affine_layers
    }
    initial = net.with_affine(changes) if start else None
    found = project_net(net, 70, 5, 2, initial)
    again, other = project_net(net, 70, 5, 2, initial), project_net(net, 70, 5, 3, initial)
    for node, got, same, new in zip(
        net.affine_layers,
        found.affine_layers,
        again.affine_layers,
        other.affine_layers,
        strict=True,
    ):
        weight = node.affine.operator.weight
        offset = torch.full_like(weight, 0.3) if start else torch.zeros_like(weight)
        expected = offset + naive_projection(weight - offset, 70, 5, f"smoothness 2 {node.name}")
        assert torch.allclose(got.affine.operator.weight, expected, rtol=1e-10, atol=1e-12)
        assert torch.equal(got.affine.operator.weight, same.affine.operator.weight)
        assert not torch.allclose(got.affine.operator.weight, new.affine.operator.weight)
        assert (got.affine.bias is None) == (node.affine.bias is None)
        if node.affine.bias is not None:
            assert torch.equal(got.affine.bias, node.affine.bias)  # type: ignore[arg-type]
        assert got.affine.operator.output_shape == node.affine.operator.output_shape


@pytest.mark.parametrize("level", [0.1, 1.0, 3.0])
def test_scaled_noise_has_exactly_its_relative_norm(level: float) -> None:
    signal = noise_for(torch.empty(5, 3, 4, 4, dtype=torch.float64), 1.0, 0)
    noise = noise_for(signal, 7.0, 1)
    noise[3] = 0
    signal[4] = 0
    scaled = Noise("gaussian", level).scale(noise, signal)
    sizes = lengths(scaled) / lengths(signal)
    assert torch.allclose(sizes[:3], torch.full((3,), level, dtype=torch.float64), rtol=1e-12)
    assert not scaled[3].any()
    assert not scaled[4].any()
    assert torch.allclose(scaled[0] / noise[0], (scaled[0] / noise[0]).mean())
    assert (scaled[0] * noise[0] >= 0).all()
    assert Noise("sign-projection", None, 5).scale(noise, signal) is noise


def test_names_of_noise() -> None:
    assert Noise("gaussian", 0.1).name == "gaussian at 0.1"
    assert Noise("sign-projection", None, 1000).name == "sign-projection, k = 1000"
    assert Noise("sign-projection", 0.5, 7).name == "sign-projection, k = 7, scaled to 0.5"
    assert Noise("from-initialisation", None, 7).name == "sign-projection of A - A0, k = 7"


def test_gaussian_noise_is_seeded_and_normal() -> None:
    net = traced(named("mlp"))
    first, last = net.affine_layers
    signal = torch.zeros(400, 50, dtype=torch.float64)
    one = gaussian_like(signal, 1, "p", 0, 0, first)
    assert torch.equal(one, gaussian_like(signal + 5, 1, "p", 0, 0, first))
    for other in (
        (2, "p", 0, 0, first),
        (1, "q", 0, 0, first),
        (1, "p", 1, 0, first),
        (1, "p", 0, 8, first),
        (1, "p", 0, 0, last),
    ):
        assert not torch.allclose(one, gaussian_like(signal, *other))
    assert abs(float(one.mean())) < 6 / math.sqrt(one.numel())
    assert abs(float(one.var()) - 1) < 6 * math.sqrt(2 / one.numel())


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny", "residual", "conv-overlapping"])
def test_the_whole_measurement_is_a_naive_loop(name: str) -> None:
    """Draws, shards, pairs and examples in plain loops; then the smallest, the quantile, and both
    directions of ρ.
    """
    case = named(name)
    net, x, delta = traced(case), case.inputs(3).double(), 0.34
    laws = [
        Noise("sign-projection", None, 40),
        Noise("sign-projection", 0.5, 40),
        Noise("gaussian", 0.5),
    ]
    found = measure_smoothness(net, sample(x), laws, draws=3, seed=9, batch=2)
    layers = net.affine_layers
    jacobians = {
        (i, j, b): brute_jacobian(net, x[b : b + 1], i, j) for i, j in pairs(net) for b in range(3)
    }
    for law in laws:
        whole = np.full((3, 3), math.inf)  # draw, example
        for i in layers[:-1]:
            rho = np.full((3, 3, len(layers)), math.inf)
            sizes = []
            for draw in range(3):
                hatted = Activations(project_net(net, 40, 9, draw), x).values[i.index]
                own = activations(net, x)[i.index]
                gauss = torch.cat(
                    [gaussian_like(own[s : s + 2], 9, "smoothness", draw, s, i) for s in (0, 2)]
                )
                eta = gauss if law.kind == "gaussian" else hatted - own
                for b in range(3):
                    one = (
                        eta[b]
                        if law.level is None
                        else eta[b] / eta[b].norm() * own[b].norm() * law.level
                    )
                    sizes.append(float(one.norm() / own[b].norm()))
                    for at, j in enumerate(layers):
                        if j.index > i.index:
                            rho[draw, b, at] = literal_rho(
                                net, x[b : b + 1], i, j, one[None], jacobian=jacobians[i, j, b]
                            )
            record = found[law].describe(law, delta, i)
            by_draw = rho.min(axis=(1, 2))
            value = math.inf if record.value is None else record.value
            assert value == pytest.approx(
                sorted(by_draw)[1], rel=1e-5
            )  # ⌊0.34·3⌋ = 1 draw may fail
            assert record.inverse == pytest.approx(1 / value)
            assert record.relative_norm == pytest.approx(np.mean(sizes), rel=1e-6)
            assert (record.draws, record.noise, record.delta) == (3, law.name, delta)
            # at the value the inequality holds for enough draws, just above it no longer
            assert np.mean(by_draw >= value * (1 - 1e-5)) >= 1 - delta
            assert value == math.inf or np.mean(by_draw >= value * (1 + 1e-5)) < 1 - delta
            own_values = np.sort(rho.min(axis=2), axis=0)[1]  # each example's own, over the draws
            assert record.inverse_spread is not None
            assert record.inverse_spread.count == 3
            assert record.inverse_spread.value == pytest.approx(1 / own_values.min(), rel=1e-5)
            assert record.inverse_spread.mean == pytest.approx((1 / own_values).mean(), rel=1e-5)
            for pair in record.pairs:
                at = next(at for at, j in enumerate(layers) if j.name == pair.to)
                assert pair.value == pytest.approx(sorted(rho[:, :, at].min(axis=1))[1], rel=1e-5)
            whole = np.minimum(whole, rho.min(axis=2))
        assert found[law].describe(law, delta).value == pytest.approx(
            sorted(whole.min(axis=1))[1], rel=1e-5
        )


def test_two_laws_of_one_kind_may_have_different_k() -> None:
    case = named("mlp-deep")
    net, x = trace(case.module(), case.input_shape), case.inputs(3)
    few, many = Noise("sign-projection", None, 5), Noise("sign-projection", None, 5000)
    both = measure_smoothness(net, sample(x), [few, many], draws=2, seed=0, batch=9)
    alone = measure_smoothness(net, sample(x), [few], draws=2, seed=0, batch=9)
    assert both[few].norms == alone[few].norms


def test_a_smoothness_of_zero_is_described_without_a_warning() -> None:
    """The target is dead until noise wakes it: ρ = 0 and 1/ρ is infinite."""
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 2, bias=False))
    with torch.no_grad():
        module[0].weight.fill_(-1.0)
        module[2].weight.fill_(1.0)
    net, law = trace(module, (1,)), Noise("gaussian", 3.0)
    found = measure_smoothness(net, sample(torch.ones(4, 1)), [law], draws=8, seed=0, batch=9)[law]
    record = found.describe(law, 0.05, net.affine_layers[0])
    assert record.value == 0.0
    assert record.inverse == math.inf


def test_noise_that_overflows_is_not_taken_for_perfect_smoothness() -> None:
    """The noise of few sign matrices grows by √(n/k) a layer; the same net in float64 has ρ of
    about 1.
    """
    case = named("mlp-deep")
    net, x = traced(case), case.inputs(2, torch.float64)
    first = net.affine_layers[0]
    eta = noise_for(activations(net, x)[first.index], 1e25, 0)
    exact = sample_smoothness(Linearisation(net, x), Activations(net, x), first, eta)
    single = net.to(torch.float32)
    found = sample_smoothness(
        Linearisation(single, x.float()), Activations(single, x.float()), first, eta.float()
    )
    for j, values in exact.items():
        assert torch.allclose(found[j].double(), values, rtol=1e-3)


def test_large_noise_is_scaled_to_its_level_too() -> None:
    """After 14 layers of VGG-19 with k = 1000 the raw noise is 1e20 times the signal: scaled, it
    must not vanish.
    """
    signal = noise_for(torch.empty(2, 3, 4, 4), 1.0, 0)
    scaled = Noise("sign-projection", 0.1, 1000).scale(noise_for(signal, 1e25, 1), signal)
    sizes = scaled.double().flatten(1).norm(dim=1) / signal.double().flatten(1).norm(dim=1)
    assert sizes.tolist() == pytest.approx([0.1, 0.1], rel=1e-4)


def test_noise_that_is_not_finite_is_not_taken_for_perfect_smoothness() -> None:
    """A level that float32 cannot hold: refused, or not a number, but not 1/ρ = 0."""
    case = named("mlp")
    net, law = trace(case.module(), case.input_shape), Noise("gaussian", 1e39)
    try:
        found = measure_smoothness(net, sample(case.inputs(3)), [law], draws=2, seed=0, batch=9)[
            law
        ]
    except BadInput:
        return
    assert found.describe(law, 0.05, net.affine_layers[0]).inverse != 0.0
