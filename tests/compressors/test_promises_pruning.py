"""The lemmas of Guha 2023 on nets: each against its formula written out, where it holds, breaks or
is silent.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from cushion.compressors.pruning import checks
from cushion.compressors.pruning.conditions import right_singular_vectors
from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.pruning.records import PruningSummary
from cushion.compressors.records import Promise, PromiseCheck
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset
from cushion.nets.tracing import trace

SHAPES = ((60, 48), (50, 60), (10, 50))


def gaussian_net(
    scale: float = 0.2, *, bias: bool = False, uniform: bool = False, seed: int = 0
) -> nn.Module:
    draw = torch.Generator().manual_seed(seed)
    parts: list[nn.Module] = []
    for rows, columns in SHAPES:
        layer = nn.Linear(columns, rows, bias=bias)
        weight = torch.randn(rows, columns, generator=draw)
        layer.weight.data = scale * (
            (torch.rand(rows, columns, generator=draw) - 0.5) if uniform else weight
        )
        if bias:
            layer.bias.data = 0.3 * torch.randn(rows, generator=draw)
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1]).eval()


def data_for(net: nn.Module, rows: int = 40) -> Dataset:
    x = np.random.default_rng(1).uniform(0, 1, (rows, SHAPES[0][1])).astype(np.float32)
    with torch.no_grad():
        y = net(torch.from_numpy(x)).argmax(1).numpy()
    return Dataset("made", x, y, 10)


def prune(net: nn.Module, **options: Any) -> PruningSummary:
    given = PruneOptions(**{"level": 0.3, **options})
    return compress_model(net, data_for(net), method="magnitude", options=given, seed=5).summary


def check(found: PruningSummary, name: str) -> PromiseCheck:
    (one,) = [one for one in found.promises if one.name == name]
    return one


def weights(net: nn.Module) -> list[np.ndarray]:
    return [layer.weight.detach().double().numpy() for layer in net if isinstance(layer, nn.Linear)]


def test_a_normal_net_keeps_lemmas_4_1_and_5_1() -> None:
    found = prune(gaussian_net(), d=(1.0,))
    assert all(layer.normality is not None and layer.normality.plausible for layer in found.layers)
    for name in ("Lemma 4.1", "Lemma 5.1"):
        assert check(found, name).held is True
        assert 0 < check(found, name).worst_ratio <= 1
        assert "Assumption 3.1" in check(found, name).meaning
    # Σ over all layers of both shares of δ, and every layer the same ones.
    assert found.failure["total"] <= 0.05
    assert [layer.epsilon_l for layer in found.layers] == pytest.approx([120.0] * 3)
    assert sum(1 / layer.epsilon_l + 1 / layer.lambda_l for layer in found.layers) == pytest.approx(
        0.05
    )


def test_weights_that_are_not_normal_are_promised_nothing() -> None:
    found = prune(gaussian_net(uniform=True, scale=0.7), d=(1.0,))
    for name in ("Lemma 4.1", "Lemma 5.1"):
        one = check(found, name)
        assert one.held is None
        assert one.worst_ratio is not None
        assert "not normal" in one.meaning
    assert found.promise is None or found.promise.worst_ratio < 1
    assert "not normal" in check(found, "Lemma 4.2").meaning


def test_moments_by_hand_and_a_lemma_that_breaks() -> None:
    net = gaussian_net()
    found = prune(net, d=(1.0,))
    for layer, weight in zip(found.layers, weights(net), strict=True):
        off = ~np.eye(*weight.shape, dtype=bool)
        psi = (weight[off] ** 2).mean()
        ratio = 1 / 3  # d/(d+2)
        n, seen = off.sum(), layer.moments
        assert seen is not None
        assert layer.normality.psi == pytest.approx(psi, rel=1e-6)
        assert seen.second_expected == pytest.approx(psi * ratio**1.5, rel=1e-6)
        assert seen.fourth_expected == pytest.approx(3 * psi**2 * ratio**2.5, rel=1e-6)
        assert seen.kept_expected == pytest.approx(1 - math.sqrt(ratio))
        assert seen.mean_error == pytest.approx(math.sqrt(psi * ratio**1.5 / n), rel=1e-6)
        # Var Δ² = EΔ⁴ - (EΔ²)², Var Δ⁴ = EΔ⁸ - (EΔ⁴)², EΔ⁸ = 105Ψ⁴(d/(d+2))^4.5
        assert seen.second_error == pytest.approx(
            psi * math.sqrt((3 * ratio**2.5 - ratio**3) / n), rel=1e-6
        )
        assert seen.fourth_error == pytest.approx(
            psi**2 * math.sqrt((105 * ratio**4.5 - 9 * ratio**5) / n), rel=1e-6
        )
        assert seen.kept == pytest.approx(
            (layer.kept - min(weight.shape)) / n
        )  # the diagonal always stays
    # As large a deviation as 4.5 standard errors is a broken lemma.
    first = found.layers[0]
    assert first.moments is not None
    off = replace(first, moments=replace(first.moments, mean=4.5 * first.moments.mean_error))
    broken = checks.lemma_4_1((off, *found.layers[1:]))
    assert broken.held is False
    assert broken.worst_ratio == pytest.approx(4.5 / 4)
    crowded = replace(first, row_most=int(first.limit) + 1)
    assert checks.lemma_5_1((crowded, *found.layers[1:])).held is False


def test_the_standard_errors_of_the_moments_are_those_of_normal_weights() -> None:
    """Simulated on 300 normal layers: deviations over standard errors spread by about 1 (or less,
    as Ψ is fitted).
    """
    from cushion.compressors.pruning.account import _moments
    from cushion.compressors.pruning.masks import bernoulli_mask, layer_variance

    draw = torch.Generator().manual_seed(3)
    scores = []
    for seed in range(300):
        weight = 0.3 * torch.randn(30, 40, generator=draw, dtype=torch.float64)
        psi = layer_variance(weight)
        mask = bernoulli_mask(weight, psi, 0.7, seed, 1)
        seen = _moments(torch.where(mask, 0.0, -weight), mask, 0.7, psi)
        scores.append(
            [
                seen.mean / seen.mean_error,
                (seen.second - seen.second_expected) / seen.second_error,
                (seen.fourth - seen.fourth_expected) / seen.fourth_error,
                (seen.kept - seen.kept_expected) / seen.kept_error,
            ]
        )
        assert max(seen.deviations) == pytest.approx(max(map(abs, scores[-1])))
    spread = np.std(scores, axis=0)
    # ± 4 standard errors of a standard deviation, 1/√600; the second and fourth moment move with
    # the fitted Ψ.
    assert abs(spread[0] - 1) < 0.17
    assert abs(spread[3] - 1) < 0.17
    assert 0.5 < spread[1] < 1.17
    assert 0.5 < spread[2] < 1.25
    assert np.abs(np.mean(scores, axis=0)).max() < 0.25


def test_norms_and_limits_of_a_layer_by_hand() -> None:
    net = gaussian_net()
    found = prune(net, d=(0.5,), grid="5")
    result = compress_model(
        net, data_for(net), method="magnitude", options=PruneOptions(d=(0.5,), grid="5"), seed=5
    )
    for at, (layer, weight) in enumerate(zip(found.layers, weights(net), strict=True)):
        rounded = result.net.stored.layers[at].weight(0)
        integers = rounded / layer.rho
        assert np.array_equal(integers, np.rint(integers))
        assert layer.nonzeros == np.count_nonzero(rounded)
        assert layer.spectral == pytest.approx(np.linalg.norm(weight, 2), rel=2e-6)
        # What stayed is where Algorithm 1's mask is: the rounded weight shows it but for what
        # rounds to zero.
        near = np.abs(rounded - weight) <= layer.rho / 2 * (1 + 1e-6)
        kept = near & ((rounded != 0) | (np.abs(weight) <= layer.rho / 2))
        assert layer.nonzeros <= layer.kept <= kept.sum()
        assert layer.row_most == (rounded != 0).sum(1).max()
        assert layer.column_most == (rounded != 0).sum(0).max()
        assert layer.diagonal == bool((np.diag(rounded) != 0).all())
        assert layer.rho_limit == pytest.approx(
            2 * (layer.spectral / 3 - layer.shift) / math.sqrt(layer.kept)
        )
        allowed = layer.spectral / 3 - layer.epsilon_l * layer.gamma_l
        assert layer.rho_limit_printed == pytest.approx(allowed / layer.kept)
        assert (
            layer.rounding
            <= layer.rounding_limit
            == pytest.approx(layer.rho / 2 * math.sqrt(layer.kept))
        )
    needed = max(layer.shift / layer.gamma_l for layer in found.layers)
    one = check(found, "Lemma 4.2")
    assert one.held is None  # C is not known
    assert f"C·ε_l ≥ {needed:.3g}" in one.meaning
    assert one.worst_ratio == pytest.approx(
        max(x.shift / (x.epsilon_l * x.gamma_l) for x in found.layers)
    )


def test_the_limit_of_lemma_5_1_by_exact_tails() -> None:
    found = prune(gaussian_net(), d=(1.0,))
    chi = 1 - math.sqrt(1 / 3)
    for layer in found.layers:
        half = 1 / layer.lambda_l / 2  # rows and columns share what the layer may fail with

        def fails(j: int, lines: int, length: int) -> float:
            """Σ over lines of P[more than j stay]; a line with a diagonal entry keeps that for
            certain.
            """
            diagonal = min(lines, length)
            return diagonal * binom.sf(j - 1, length - 1, chi) + (lines - diagonal) * binom.sf(
                j, length, chi
            )

        rows, columns = layer.shape
        limits = [
            next(j for j in range(length + 1) if fails(j, lines, length) <= half)
            for lines, length in ((rows, columns), (columns, rows))
        ]
        assert layer.limit == max(limits)
        assert layer.limit_printed == pytest.approx(3 * layer.lambda_l * max(rows, columns) * chi)


@pytest.mark.parametrize("grid", ["12", "lemma"])
def test_output_errors_against_lemmas_4_3_and_4_4_written_out(grid: str) -> None:
    net = gaussian_net()
    data = data_for(net)
    options = PruneOptions(d=(0.002,), grid=grid, level=0.3)
    result = compress_model(net, data, method="magnitude", options=options, seed=5)
    found = result.summary
    x = torch.from_numpy(data.x)
    with torch.no_grad():
        gaps = (
            torch.linalg.vector_norm(result.net.network.evaluate(x) - net(x), dim=1)
            .double()
            .numpy()
        )
    sizes = np.linalg.norm(data.x.astype(np.float64), axis=1)
    norms = [np.linalg.norm(weight, 2) for weight in weights(net)]
    moved = [
        np.linalg.norm(layer.weight(0) - weight, 2)
        for layer, weight in zip(result.net.stored.layers, weights(net), strict=True)
    ]
    assert all(
        shift <= norm / 3 for shift, norm in zip(moved, norms, strict=True)
    )  # so the lemma speaks
    allowed = (
        math.e
        * sizes
        * math.prod(norms)
        * sum(shift / norm for shift, norm in zip(moved, norms, strict=True))
    )
    one = check(found, "Lemma 4.4")
    assert one.held is True
    assert one.cases == len(data)
    assert one.worst_ratio == pytest.approx(float((gaps / allowed).max()), rel=1e-3)
    assert found.output_error == pytest.approx(float(gaps.max()), rel=1e-4)
    first = check(found, "Lemma 4.3")
    assert first.held is True
    printed = check(found, "Lemma 4.4 as printed")
    terms = [layer.epsilon_l * layer.gamma_l + layer.rho * layer.kept for layer in found.layers]
    loose = (
        math.e
        * sizes
        * math.prod(norms)
        * sum(term / norm for term, norm in zip(terms, norms, strict=True))
    )
    assert printed.held is None
    assert printed.worst_ratio == pytest.approx(float((gaps / loose).max()), rel=1e-3)
    # without ρJ it promises more
    assert check(found, "Lemma 4.3 as printed").worst_ratio > printed.worst_ratio
    rows = {(row.name, row.form): row for row in found.paper_bounds}
    assert (
        f"asks for {math.sqrt(2) * allowed.max():.3g}" in rows["naive count", "as printed"].meaning
    )
    if grid == "lemma":
        for layer in found.layers:
            assert layer.rho <= layer.rho_limit < 2 * layer.rho  # the coarsest power of two
        assert not any("no grid" in note for note in found.notes)


def test_a_layer_that_moved_too_far_is_promised_nothing_but_shown() -> None:
    found = prune(gaussian_net(), d=(4.0,))
    for name in ("Lemma 4.3", "Lemma 4.4"):
        one = check(found, name)
        assert one.held is None
        assert 0 < one.worst_ratio < 1
        assert "1/L = 0.333" in one.meaning
    assert any("no grid" in note for note in found.notes)
    assert all(layer.rho_limit < 0 for layer in found.layers)


def test_biases_are_lifted_and_their_rounding_counts() -> None:
    net = gaussian_net(bias=True)
    found = prune(net, d=(0.002,), grid="12")
    assert check(found, "Lemma 4.4").held is True
    assert check(found, "Lemma 4.3").held is True


def test_a_fine_tuned_net_is_promised_nothing_about_its_outputs() -> None:
    found = prune(gaussian_net(), d=(0.01,), fine_tune=1)
    for name in ("Lemma 4.3", "Lemma 4.4", "Lemma C.4"):
        one = check(found, name)
        assert (one.held, one.worst_ratio) == (None, None)
        assert "fine-tuned" in one.meaning
    assert check(found, "Lemma 4.1").held is True  # Δ is what pruning did
    assert found.fine_tuned == 1
    assert not [one for one in found.promises if "as printed" in one.name]


def test_a_deterministic_rule_has_no_coins_to_promise_about() -> None:
    found = prune(gaussian_net(), sparsity=(0.5,), grid="8")
    for name in ("Lemma 4.1", "Lemma 4.2", "Lemma 5.1"):
        assert (check(found, name).held, check(found, name).worst_ratio) == (None, None)
    assert found.failure == {}
    assert all(
        x.gamma_l is x.epsilon_l is x.lambda_l is x.limit is x.limit_printed is None
        for x in found.layers
    )
    assert found.sparsity == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("rows", "columns"), [(30, 20), (20, 30), (300, 280)])
def test_singular_vectors_of_a_layer(rows: int, columns: int) -> None:
    draw = torch.Generator().manual_seed(1)
    # apart, so that the leading ones are well defined
    scale = torch.linspace(1, 0, min(rows, columns)).double() ** 4
    left, _ = torch.linalg.qr(torch.randn(rows, len(scale), generator=draw, dtype=torch.float64))
    right, _ = torch.linalg.qr(
        torch.randn(columns, len(scale), generator=draw, dtype=torch.float64)
    )
    from cushion.nets.operators import Linear

    vectors = right_singular_vectors(Linear((left * scale) @ right.mT))
    count = len(scale) if len(scale) <= 256 else 64
    assert vectors.shape == (count, columns)
    assert torch.allclose(vectors @ vectors.mT, torch.eye(count, dtype=torch.float64), atol=1e-9)
    known = (vectors[:10] * right[:, :10].mT).sum(1).abs()
    assert known.min() > 0.999


def test_condition_c_1_given_and_fitted() -> None:
    net = gaussian_net()
    data = data_for(net)
    fitted = prune(net, d=(1.0,)).subgaussian
    assert fitted is not None
    assert fitted.how == "fitted to the layers' inputs"
    assert fitted.failure <= 0.05 + 1e-12
    assert fitted.rows == len(data)
    assert fitted.directions == (48, 50, 10)
    assert all(seen <= kappa + 1e-9 for seen, kappa in zip(fitted.seen, fitted.kappa, strict=True))
    assert fitted.product == pytest.approx(math.prod(fitted.kappa))
    # t: the smallest for which m·k·a·exp(-b t² d) is a third of δ, k all singular vectors of Δ; at
    # most 1.
    sizes = ((48, 48), (50, 60), (10, 50))
    for t, b, (k, d) in zip(fitted.t, fitted.b, sizes, strict=True):
        nats = math.log(2 * len(data) * k) - math.log(0.05 / 3)
        assert t == pytest.approx(min(1.0, math.sqrt(nats / (b * d))))
    assert min(fitted.t) < 1

    given = prune(net, d=(1.0,), subgaussian="2,0.4,0.05").subgaussian
    assert given is not None
    assert (given.how, given.a, given.b, given.t) == ("given", 2.0, (0.4,) * 3, (0.05,) * 3)
    # κ = √min(d₁, d₂)·t
    assert given.kappa == pytest.approx(
        [math.sqrt(48) * 0.05, math.sqrt(50) * 0.05, math.sqrt(10) * 0.05]
    )
    each = [2 * 40 * k * math.exp(-0.4 * 0.05**2 * d) for k, d in sizes]
    assert given.failure == min(1.0, sum(each)) == 1.0
    steep = prune(net, d=(1.0,), subgaussian="2,200,0.05").subgaussian
    assert steep is not None
    assert steep.failure == pytest.approx(
        sum(2 * 40 * k * math.exp(-200 * 0.05**2 * d) for k, d in sizes), rel=1e-9
    )
    wide = prune(net, d=(1.0,), subgaussian="2,200,0.9").subgaussian
    assert wide is not None
    assert (wide.kappa, wide.failure) == (
        (1.0, 1.0, 1.0),
        0.0,
    )  # nothing is stretched by more than the norm
    # What was seen: ‖Δx‖/(‖Δ‖₂‖x‖) of the first layer, by hand.
    result = compress_model(
        net, data, method="magnitude", options=PruneOptions(d=(1.0,), grid="30"), seed=5
    )
    moved = result.net.stored.layers[0].weight(0) - weights(net)[0]
    x = data.x.astype(np.float64)
    stretch = (
        np.linalg.norm(x @ moved.T, axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(moved, 2)
    )
    assert given.seen[0] == pytest.approx(stretch.max(), rel=1e-4)
    found = prune(net, d=(1.0,), subgaussian="2,0.4,0.05")
    one = check(found, "Lemma C.1")
    assert one.held is None
    assert one.worst_ratio == pytest.approx(
        max(s / k for s, k in zip(given.seen, given.kappa, strict=True))
    )
    assert check(found, "Lemma C.4").worst_ratio == pytest.approx(
        check(found, "Lemma 4.4").worst_ratio / given.product
    )


def test_together() -> None:
    made = [PromiseCheck("a", "s", True, 0.5, 1, ""), PromiseCheck("b", "s", None, 9.0, 1, "")]
    assert Promise.of(made[1:]) is None
    both = Promise.of(made)
    assert both is not None
    assert (both.held, both.worst_ratio) == (True, 0.5)
    worse = Promise.of([*made, PromiseCheck("c", "s", False, 1.5, 1, "")])
    assert worse is not None
    assert (worse.held, worse.worst_ratio) == (False, 1.5)


def test_the_traced_net_is_what_the_module_computes() -> None:  # the hand formulas above rest on it
    net = gaussian_net(bias=True)
    x = torch.from_numpy(data_for(net).x)
    with torch.no_grad():
        assert torch.allclose(trace(net, (48,)).evaluate(x), net(x), atol=1e-5)
